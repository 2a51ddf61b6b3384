//! The sending end of a job, and what it sent.

use bentpipe_rohc::{CompressorConfig, DecompressorConfig, Mode};

use super::Reservation;
use super::ends::{Receiver, Sent};
use super::totals::{Form, Method, Sizes};

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

pub(super) fn sizes_sent(sent: &Sent, ip_len: usize) -> Sizes {
    Sizes {
        method: Method::Rohc(sent.compressed.profile),
        form: Form::Rohc(sent.compressed.packet_type),
        ip_len,
        ip_header: sent.compressed.header_in,
        rohc_len: sent.len,
        rohc_header: sent.compressed.header_out,
    }
}
