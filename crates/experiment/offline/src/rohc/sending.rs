//! The sending end of a job, and what it sent.

use bentpipe_rohc::{CompressorConfig, DecompressorConfig, Mode, Profile};

use super::Reservation;
use super::ends::{Receiver, Sent};
use super::totals::{Form, Method, Sizes};
use super::uncompressed::header_len;
use crate::capture::Packet;

/// Sending end of a job.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Compressor.
    pub compressor: CompressorConfig,
    /// Maximum unit in bytes, above which packets are segmented. Default: none.
    pub mtu_bytes: Option<usize>,
    /// CIDs kept for flows.
    pub reservations: Vec<Reservation>,
}

/// Creates the receiver if it gives feedback or its output is compared.
pub(super) fn receiver(decompressor: &DecompressorConfig, compares: bool) -> Option<Receiver> {
    let needed = compares || decompressor.mode != Mode::Unidirectional;
    needed.then(|| Receiver::new(*decompressor))
}

pub(super) fn sizes_sent(sent: &Sent, packet: &Packet<'_>) -> Sizes {
    let header = sent.compressed.header_in;
    // Of a packet that is not compressed all headers count, as those of others do.
    let kept = match sent.compressed.profile {
        Profile::Uncompressed => header_len(packet).saturating_sub(header),
        _ => 0,
    };
    Sizes {
        method: Method::Rohc(sent.compressed.profile),
        form: Form::Rohc(sent.compressed.packet_type),
        ip_len: packet.len,
        ip_header: header,
        kept,
        rohc_len: sent.len,
        rohc_header: sent.compressed.header_out,
    }
}
