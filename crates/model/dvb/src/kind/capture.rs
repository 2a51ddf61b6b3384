//! Captures of transport streams and baseband frames.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::{Encapsulation, Idle, Line, Unit};
use bentpipe_net::Packet;
use bentpipe_units::{Span, Time};
use bentpipe_wire::bbframe::{self, Adaptation};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::ts::PACKET_LEN;
use bentpipe_wire::{ipv4, udp};

use bentpipe_site::{CaptureFormat, LineUnits, Records};

/// TS packets, or baseband frames behind mode adaptation headers L.3 in UDP.
pub(super) struct Units {
    in_frames: bool,
    merge: Option<Merge>,
}

impl Units {
    pub(super) fn new(in_frames: bool, merge: Option<Merge>) -> Units {
        Units { in_frames, merge }
    }

    /// Writes what of the multiplex is certain.
    fn merge(&mut self, is_end: bool, out: &mut dyn Records) {
        let Some(merge) = &mut self.merge else { return };
        while out.is_open()
            && let Some((time, unit)) = merge.pop(is_end)
        {
            write_unit(time, &unit, out);
        }
    }
}

impl CaptureFormat for Units {
    fn link_type(&self) -> LinkType {
        if self.in_frames { LinkType::RAW } else { LinkType::MPEG_2_TS }
    }

    fn write(&mut self, now: Time, packet: &Packet, out: &mut dyn Records) {
        let Some(unit) = packet.carried::<Unit>() else { return };
        match &mut self.merge {
            Some(merge) => merge.add(now, unit),
            None => return write_unit(now, unit, out),
        }
        self.merge(false, out);
    }

    fn end(&mut self, out: &mut dyn Records) {
        self.merge(true, out);
    }
}

fn write_unit(now: Time, unit: &Unit, out: &mut dyn Records) {
    match &unit.adaptation {
        Some(adaptation) => out.write(now, &frame_in_udp(adaptation, &unit.bytes), 0),
        None => out.write(now, &unit.bytes, 0),
    }
}

/// Returns the suffix of the file with a line's units.
pub(super) fn suffix(in_frames: bool) -> &'static str {
    if in_frames { "frames" } else { "ts" }
}

/// Returns the units of a line that a capture has, as [`Units`] writes them.
///
/// Those of GSE are of one stream. Frames have the length of the first MODCOD.
pub(super) fn units_of(line: &Line, encapsulation: Encapsulation, nulls: bool) -> LineUnits {
    let is_whole = encapsulation != Encapsulation::Gse;
    let in_frames = matches!(line, Line::DvbS2 { .. });
    let (bits, _) = line.frame();
    let [line_len, record_len] = match in_frames {
        true => [bits as u64 / 8, in_udp_len(bbframe::HEADER_LEN + bits as usize / 8) as u64],
        false => [PACKET_LEN as u64; 2],
    };
    LineUnits { suffix: suffix(in_frames), line_len, record_len, is_filled: is_whole && nulls, is_whole }
}

/// Returns the length of a BBFRAME in UDP.
pub(crate) fn in_udp_len(frame_len: usize) -> usize {
    ipv4::HEADER_LEN + udp::HEADER_LEN + bbframe::ADAPTATION_LEN + frame_len
}

/// Returns a BBFRAME after its mode adaptation header, padded to its MODCOD's length, in UDP.
pub fn frame_in_udp(adaptation: &Adaptation, frame: &[u8]) -> Vec<u8> {
    let bits = adaptation.modcod.and_then(|modcod| modcod.bbframe_bits(adaptation.size));
    let frame_len = bits.map_or(frame.len(), |bits| bits as usize / 8);
    let len = bbframe::ADAPTATION_LEN + frame_len;
    let udp =
        udp::Repr { src_port: bbframe::CAPTURE_PORT, dst_port: bbframe::CAPTURE_PORT, payload_len: len };
    let here = Ipv4Addr::LOCALHOST;
    let ip = ipv4::Repr::new(here, here, Protocol::UDP, udp::HEADER_LEN + len);
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN + len];
    ip.emit(&mut bytes);
    let rest = &mut bytes[ip.buffer_len()..];
    udp.emit(rest);
    let rest = &mut rest[udp::HEADER_LEN..];
    adaptation.emit(rest);
    rest[bbframe::ADAPTATION_LEN..][..frame.len()].copy_from_slice(frame);
    bytes
}

/// Whole multiplex, merged from the units of its receivers. Streams are in the order of their slots, each unit once,
/// with NULL packets between.
#[derive(Debug)]
pub(super) struct Merge {
    /// Fill of its line.
    idle: Idle,
    /// Delay to the receiver whose times the capture has.
    delay: Span,
    /// Delay to the farthest receiver.
    farthest: Span,
    /// Enables writing of fill.
    nulls: bool,
    waiting: BTreeMap<u64, Unit>,
    /// Number of the next unit to be written.
    next: u64,
    /// Arrival of the last unit.
    now: Time,
}

impl Merge {
    pub(super) fn new(idle: Idle, delay: Span, farthest: Span, nulls: bool) -> Merge {
        Merge { idle, delay, farthest, nulls, waiting: BTreeMap::new(), next: 0, now: Time::ZERO }
    }

    /// Adds a unit, which may have come to another receiver before.
    fn add(&mut self, now: Time, unit: &Unit) {
        self.now = now;
        self.waiting.entry(unit.number).or_insert_with(|| unit.clone());
    }

    /// Removes and returns the next certain unit with its time. A unit is certain once everything sent before it has
    /// reached the farthest receiver. `is_end`: no more units come.
    fn pop(&mut self, is_end: bool) -> Option<(Time, Unit)> {
        let first = *self.waiting.first_key_value()?.0;
        let came = self.idle.ends(first) + self.farthest;
        if came > self.now || (came == self.now && !is_end) {
            return None;
        }
        let is_idle = self.nulls && self.next < first;
        let unit = if is_idle { self.idle.unit(self.next) } else { self.waiting.pop_first()?.1 };
        self.next = unit.number + 1;
        Some((self.idle.ends(unit.number) + self.delay, unit))
    }
}
