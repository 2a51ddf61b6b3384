//! Captures of a terminal's bursts.

use crate::dama::{self, Encapsulation};
use bentpipe_net::Packet;
use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize};
use bentpipe_wire::pcap::LinkType;

use crate::kind::{frame_in_udp, in_udp_len};
use bentpipe_site::{CaptureFormat, Records};

/// Suffix of the file with a terminal's bursts.
pub(super) const SUFFIX: &str = "bursts";

/// Returns the length of the record of a full burst.
pub(super) fn record_len(encapsulation: Encapsulation, burst_len: usize) -> usize {
    match encapsulation {
        Encapsulation::Gse => in_udp_len(bbframe::HEADER_LEN + burst_len),
        _ => burst_len,
    }
}

/// Capture of bursts, one per record. A burst is TS packets, or GSE packets as the data field of a BBFRAME after a
/// mode adaptation header L.3 in UDP, or the frame PDU of RLE as DLT_USER0, which has no number of its own.
pub(super) struct Bursts {
    encapsulation: Encapsulation,
    written: u8,
}

impl Bursts {
    pub(super) fn new(encapsulation: Encapsulation) -> Bursts {
        Bursts { encapsulation, written: 0 }
    }
}

impl CaptureFormat for Bursts {
    fn link_type(&self) -> LinkType {
        match self.encapsulation {
            Encapsulation::Gse => LinkType::RAW,
            Encapsulation::Rle | Encapsulation::RleCrc => LinkType::USER0,
            _ => LinkType::MPEG_2_TS,
        }
    }

    fn write(&mut self, now: Time, packet: &Packet, out: &mut dyn Records) {
        let cells = dama::cells_of(packet);
        // A request has none.
        if cells.is_empty() {
            return;
        }
        match self.encapsulation {
            Encapsulation::Gse => out.write(now, &in_baseband_frame(cells, self.written), 0),
            _ => out.write(now, cells, 0),
        }
        self.written = self.written.wrapping_add(1);
    }
}

/// Returns GSE packets as a baseband frame in UDP; return links know no MODCOD.
fn in_baseband_frame(field: &[u8], number: u8) -> Vec<u8> {
    let mut frame = vec![0; bbframe::HEADER_LEN];
    bbframe::Repr::gse(field.len()).emit(&mut frame);
    frame.extend_from_slice(field);
    let size = FrameSize::Normal;
    frame_in_udp(&Adaptation { modcod: None, size, has_pilots: false, carrier_to_noise: 0, number }, &frame)
}
