//! Packing IP packets into bursts and out of them again. Into MPEG cells: ULE (RFC 4326) with the destination address omitted,
//! or MPE (EN 301 192) to the broadcast address, both packed across cells, so that a cell may hold the end of one packet and
//! the beginning of the next. Or into all the bytes that a burst's cells have: GSE (TS 102 606) without label, or RLE (EN 301
//! 545-2) without labels and protocol types, a packet that does not fit going on in the next burst.
//!
//! A terminal has a transport stream of its own, of one PID. When a burst has room that nothing waits for, the rest of
//! its last cell is padding and the other cells are null packets; the rest of a burst of GSE or RLE is padding.

use std::collections::VecDeque;

use bentpipe_net::{Body, Origin, Packet, Why};
use bentpipe_wire::ethernet::{EtherType, MacAddr};
use bentpipe_wire::ts::{NULL_PACKET, PACKET_LEN, PAYLOAD_LEN, Pid};
use bentpipe_wire::ule::{BASE_HEADER_LEN, CRC_LEN, Method, Payload, Type};
use bentpipe_wire::{gse, mpe, rle, ule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The PID of the only elementary stream.
const PID: Pid = Pid::new(0x0101).expect("a PID");

/// Encapsulation of packets on a return link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// Unidirectional Lightweight Encapsulation in MPEG cells (RFC 4326).
    #[default]
    Ule,
    /// Multiprotocol Encapsulation in MPEG cells (EN 301 192).
    Mpe,
    /// Generic Stream Encapsulation in all of a burst (TS 102 606).
    Gse,
    /// Return Link Encapsulation (EN 301 545-2) in whole bursts. A sequence number follows fragmented packets.
    Rle,
    /// The same, with a CRC-32 behind packets in fragments.
    RleCrc,
}

impl Encapsulation {
    /// Returns `true` if a burst is one field of bytes, not TS packets.
    pub const fn fills_bursts(self) -> bool {
        !matches!(self, Encapsulation::Ule | Encapsulation::Mpe)
    }

    /// Returns the RLE profile.
    pub(super) fn rle(self) -> rle::Profile {
        let is_crc = self == Encapsulation::RleCrc;
        let protection = if is_crc { rle::Protection::Crc } else { rle::Protection::Sequence };
        rle::Profile { protection, types: rle::Types::Suppressed }
    }

    /// The longest IP packet that RLE carries, in bytes.
    pub(super) fn rle_max(self) -> usize {
        self.rle().max_sdu(Type(EtherType::IPV4.0))
    }
}

/// Overhead of GSE fragmentation per burst (TS 102 606). A burst ends one packet and starts the next.
const GSE_FRAGMENTS: u64 = 7 + 7 - 4;

/// Returns the carrier bytes of `packets` packets in bursts of `cells` cells. `len_bytes` is their total length. They
/// include cell headers, the overhead of each packet, and in cells a pointer.
pub(super) fn carrier_bytes(encapsulation: Encapsulation, cells: u32, packets: usize, len_bytes: u64) -> u64 {
    let (bytes, [times, over]) = parts(encapsulation, cells, packets, len_bytes);
    if encapsulation.fills_bursts() {
        bytes + (bytes * times).div_ceil(over)
    } else {
        (bytes * times).div_ceil(over)
    }
}

/// Returns the same of one packet of many, in the mean.
pub(super) fn mean_bytes(encapsulation: Encapsulation, cells: u32, len_bytes: u64) -> f64 {
    if encapsulation.fills_bursts() {
        return mean_in_bursts(encapsulation, cells, len_bytes);
    }
    let (bytes, [times, over]) = parts(encapsulation, cells, 1, len_bytes);
    // A pointer in every cell, or one for each packet.
    let is_short = bytes <= over;
    let (bytes, over) = if is_short { (bytes - 1, over - 1) } else { (bytes, over) };
    (bytes * times) as f64 / over as f64
}

/// Number of bursts that are packed for the mean of a packet.
const PACKED_BURSTS: u64 = 64;

/// Returns the mean carrier bytes of packets of one length, by packing some.
///
/// Whether a burst ends with a fragment, with a packet or with padding depends on where packets begin in it.
fn mean_in_bursts(encapsulation: Encapsulation, cells: u32, len_bytes: u64) -> f64 {
    let (burst, len) = (cells as usize * PACKET_LEN, len_bytes.max(1) as usize);
    let (mut form, mut pushed, mut field) = (Form::new(encapsulation), 0, Vec::with_capacity(burst));
    for _ in 0..PACKED_BURSTS {
        while form.waiting_len().is_some_and(|waiting| waiting <= burst) {
            if !form.push(&[4 << 4], len - 1, &mut Vec::new()) {
                // Longer than what is carried at all.
                return len_bytes as f64;
            }
            pushed += len;
        }
        field.clear();
        match &mut form {
            Form::Gse(encapsulator) => encapsulator.fill(burst, &mut field),
            Form::Rle(encapsulator) => encapsulator.fill(burst, &mut field),
            Form::Ule(_) | Form::Mpe(_) => 0,
        };
    }
    let sent = pushed - form.waiting_len().unwrap_or(0);
    (PACKED_BURSTS * len_bytes) as f64 * burst as f64 / sent.max(1) as f64
}

/// Returns the bytes of packets with their own overhead, and what becomes of them.
///
/// In cells it is the ratio to those of cells, and in whole bursts that of fragments to them.
fn parts(encapsulation: Encapsulation, cells: u32, packets: usize, len_bytes: u64) -> (u64, [u64; 2]) {
    let packed = |overhead: usize| len_bytes + packets as u64 * overhead as u64;
    let burst = u64::from(cells) * PACKET_LEN as u64;
    let in_cells = [PACKET_LEN as u64, PAYLOAD_LEN as u64];
    match encapsulation {
        Encapsulation::Ule => (packed(BASE_HEADER_LEN + CRC_LEN + 1), in_cells),
        Encapsulation::Mpe => (packed(mpe::Repr::new(MacAddr::BROADCAST).section_len(0) + 1), in_cells),
        Encapsulation::Gse => (packed(gse_repr(4).packet_len(0)), [GSE_FRAGMENTS, burst]),
        Encapsulation::Rle | Encapsulation::RleCrc => {
            // Begun in one burst and ended in the next.
            let in_fragments = rle::START_HEADER_LEN + encapsulation.rle().protection.len();
            (packed(rle::HEADER_LEN), [in_fragments as u64, burst])
        }
    }
}

/// Cells of a burst, and what ends in them.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// Whole cells.
    pub(super) cells: Vec<u8>,
    /// Cell number and origin, for each packet that ends here.
    pub(super) ends: Vec<(u16, Origin)>,
    /// Number of cells other than null packets.
    pub(super) used: u32,
}

/// Packer of packets into cells, or into the payload of a burst.
#[derive(Debug)]
pub(super) struct Packer {
    form: Form,
    /// Cells that wait for a burst.
    ready: VecDeque<u8>,
    /// Packed bytes that are not queued yet.
    made: Vec<u8>,
    /// Position of each packet's end in all sent data, and its origin. Counts cells, or with GSE and RLE bytes
    /// of packets.
    ends: VecDeque<(u64, Origin)>,
    /// Cells made and sent, or bytes of packets with GSE and RLE.
    made_so_far: u64,
    sent_so_far: u64,
}

#[derive(Debug)]
enum Form {
    Ule(ule::Encapsulator),
    Mpe(mpe::Encapsulator),
    /// Packets wait in the encapsulator, whose packets are made when a burst is.
    Gse(gse::Encapsulator),
    Rle(rle::Encapsulator),
}

impl Form {
    fn new(encapsulation: Encapsulation) -> Form {
        match encapsulation {
            Encapsulation::Ule => Form::Ule(ule::Encapsulator::new(PID, Method::Packing)),
            Encapsulation::Mpe => Form::Mpe(mpe::Encapsulator::new(PID, Method::Packing)),
            Encapsulation::Gse => Form::Gse(gse::Encapsulator::new()),
            Encapsulation::Rle | Encapsulation::RleCrc => {
                Form::Rle(rle::Encapsulator::new(encapsulation.rle()))
            }
        }
    }

    /// Bytes of packets that wait where whole bursts are filled, none where cells are.
    fn waiting_len(&self) -> Option<usize> {
        match self {
            Form::Ule(_) | Form::Mpe(_) => None,
            Form::Gse(encapsulator) => Some(encapsulator.waiting_len()),
            Form::Rle(encapsulator) => Some(encapsulator.waiting_len()),
        }
    }

    fn is_pending(&self) -> bool {
        match self {
            Form::Ule(encapsulator) => encapsulator.is_pending(),
            Form::Mpe(encapsulator) => encapsulator.is_pending(),
            Form::Gse(encapsulator) => !encapsulator.is_empty(),
            Form::Rle(encapsulator) => !encapsulator.is_empty(),
        }
    }

    /// Returns `true` if the packet fits, and packs it. Its last `elided` bytes are zeros not in `bytes`. Appends
    /// full cells to `made`.
    fn push(&mut self, bytes: &[u8], elided: usize, made: &mut Vec<u8>) -> bool {
        let version = bytes.first().map_or(0, |first| first >> 4);
        match self {
            Form::Ule(encapsulator) => {
                let repr = ule::Repr { npa: None, extensions: &[], kind: kind(version) };
                encapsulator.push_elided(&repr, bytes, elided, made).is_ok()
            }
            Form::Mpe(encapsulator) => {
                encapsulator.push_elided(&mpe::Repr::new(MacAddr::BROADCAST), bytes, elided, made).is_ok()
            }
            Form::Gse(encapsulator) => encapsulator.push_elided(&gse_repr(version), bytes, elided).is_ok(),
            Form::Rle(encapsulator) => encapsulator.push_elided(kind(version), bytes, elided).is_ok(),
        }
    }

    fn flush(&mut self, made: &mut Vec<u8>) {
        match self {
            Form::Ule(encapsulator) => encapsulator.flush(made),
            Form::Mpe(encapsulator) => encapsulator.flush(made),
            Form::Gse(_) | Form::Rle(_) => {}
        }
    }
}

fn kind(version: u8) -> Type {
    Type(if version == 6 { EtherType::IPV6.0 } else { EtherType::IPV4.0 })
}

fn gse_repr(version: u8) -> gse::Repr<'static> {
    gse::Repr::new(kind(version), gse::Label::Broadcast)
}

impl Packer {
    pub(super) fn new(encapsulation: Encapsulation) -> Packer {
        Packer {
            form: Form::new(encapsulation),
            ready: VecDeque::new(),
            made: Vec::new(),
            ends: VecDeque::new(),
            made_so_far: 0,
            sent_so_far: 0,
        }
    }

    /// Returns `true` if nothing is left to send.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && !self.form.is_pending()
    }

    /// Bytes that are left to send, a cell that is begun as a whole.
    pub(super) fn bytes(&self) -> u64 {
        let begun = if self.form.is_pending() { PACKET_LEN } else { 0 };
        self.form.waiting_len().unwrap_or(self.ready.len() + begun) as u64
    }

    /// Returns `true` if the given number of cells holds more than the backlog.
    pub(super) fn has_room(&self, cells: u32) -> bool {
        self.form.waiting_len().unwrap_or(self.ready.len()) < cells as usize * PACKET_LEN
    }

    /// Packs an IP packet. One that is too long is dropped; the terminal admits none.
    pub(super) fn push(&mut self, packet: Packet) {
        let pushed = match packet.body() {
            Body::Zeros(count) => self.form.push(packet.header(), *count as usize, &mut self.made),
            _ => self.form.push(&packet.to_vec(), 0, &mut self.made),
        };
        self.queue();
        if pushed {
            let end = if self.form.waiting_len().is_some() {
                self.made_so_far += packet.len() as u64;
                self.made_so_far - 1
            } else if self.form.is_pending() {
                // It ends in the cell that is begun, or else in the last whole one.
                self.made_so_far
            } else {
                self.made_so_far - 1
            };
            self.ends.push_back((end, packet.into_origin()));
        } else {
            packet.lose(Why::Refusal);
        }
    }

    fn queue(&mut self) {
        self.made_so_far += (self.made.len() / PACKET_LEN) as u64;
        self.ready.extend(self.made.drain(..));
    }

    /// Fills the given number of cells. The rest is null packets, or padding of GSE or RLE.
    pub(super) fn fill(&mut self, cells: u32) -> Filled {
        let mut filled = Filled::default();
        filled.cells.reserve_exact(cells as usize * PACKET_LEN);
        let first = self.sent_so_far;
        let len = cells as usize * PACKET_LEN;
        let whole = match &mut self.form {
            Form::Gse(encapsulator) => Some(encapsulator.fill(len, &mut filled.cells)),
            Form::Rle(encapsulator) => Some(encapsulator.fill(len, &mut filled.cells)),
            Form::Ule(_) | Form::Mpe(_) => None,
        };
        self.sent_so_far = match (whole, self.form.waiting_len()) {
            (Some(used), Some(waiting)) => {
                filled.used = used.div_ceil(PACKET_LEN) as u32;
                filled.cells.resize(len, 0);
                self.made_so_far - waiting as u64
            }
            _ => first + self.fill_with_cells(cells, &mut filled),
        };
        while self.ends.front().is_some_and(|(end, _)| *end < self.sent_so_far)
            && let Some((end, origin)) = self.ends.pop_front()
        {
            // A burst without cells is taken in as a whole.
            filled.ends.push((if whole.is_some() { 0 } else { (end - first) as u16 }, origin));
        }
        filled
    }

    /// Returns the number of cells that are not null packets.
    fn fill_with_cells(&mut self, cells: u32, filled: &mut Filled) -> u64 {
        if self.has_room(cells) {
            self.form.flush(&mut self.made);
            self.queue();
        }
        let len = self.ready.len().min(cells as usize * PACKET_LEN);
        filled.used = (len / PACKET_LEN) as u32;
        filled.cells.extend(self.ready.drain(..len));
        (filled.used..cells).for_each(|_| filled.cells.extend_from_slice(&NULL_PACKET));
        filled.used.into()
    }
}

/// Unpacker of packets from bursts.
#[derive(Debug)]
pub(super) enum Unpacker {
    Ule(ule::Receiver),
    Mpe(mpe::Receiver),
    Gse(Box<gse::Receiver>),
    Rle(Box<rle::Receiver>),
}

impl Unpacker {
    pub(super) fn new(encapsulation: Encapsulation) -> Unpacker {
        match encapsulation {
            Encapsulation::Ule => Unpacker::Ule(ule::Receiver::new(PID, ule::Filter::All)),
            Encapsulation::Mpe => Unpacker::Mpe(mpe::Receiver::new(PID, ule::Filter::All)),
            Encapsulation::Gse => Unpacker::Gse(Box::new(gse::Receiver::new(gse::Filter::All))),
            Encapsulation::Rle | Encapsulation::RleCrc => {
                Unpacker::Rle(Box::new(rle::Receiver::new(encapsulation.rle())))
            }
        }
    }

    /// Returns the number of reassembly errors: continuity errors and incomplete packets.
    pub(super) fn damages(&self) -> u64 {
        match self {
            Unpacker::Ule(receiver) => {
                let counts = receiver.counts();
                let of_cells = counts.malformed + counts.transmission_errors + counts.continuity_errors;
                let of_pointers = counts.pointer_errors + counts.reassembly_errors + counts.delimiting_errors;
                of_cells + of_pointers + counts.length_errors + counts.crc_errors + counts.type_errors
            }
            Unpacker::Mpe(receiver) => {
                let (counts, sections) = (receiver.counts(), receiver.section_counts());
                let of_cells = sections.malformed + sections.transmission_errors + sections.continuity_errors;
                let of_sections =
                    sections.pointer_errors + sections.delimiting_errors + sections.length_errors;
                of_cells + of_sections + counts.length_errors + counts.crc_errors + counts.unsupported
            }
            Unpacker::Gse(receiver) => {
                let counts = receiver.counts();
                let of_packets = counts.length_errors + counts.label_errors + counts.orphans;
                let of_pdus = counts.abandoned + counts.total_length_errors + counts.crc_errors;
                of_packets + of_pdus + counts.type_errors
            }
            Unpacker::Rle(receiver) => {
                let counts = receiver.counts();
                let of_ppdus = counts.length_errors + counts.labels + counts.type_errors + counts.orphans;
                let of_alpdus = counts.abandoned + counts.total_length_errors;
                of_ppdus + of_alpdus + counts.crc_errors + counts.sequence_errors
            }
        }
    }

    /// Unpacks a burst, and passes each packet to `sink` with the cell it ends in.
    pub(super) fn burst(&mut self, cells: &[u8], mut sink: impl FnMut(u16, Packet)) {
        let mut take = |number: usize, payload: &Payload<'_>| {
            // GSE and RLE may carry a PDU of no bytes.
            if let Payload::Pdu(EtherType::IPV4 | EtherType::IPV6, pdu) = payload
                && !pdu.is_empty()
            {
                sink(number as u16, Packet::from_bytes(pdu));
            }
        };
        match self {
            Unpacker::Gse(receiver) => return receiver.push(cells, |pdu| take(0, &pdu.payload)),
            Unpacker::Rle(receiver) => {
                let pdu = |sdu: &rle::Sdu<'_>| take(0, &Payload::Pdu(EtherType(sdu.kind.0), sdu.bytes));
                return receiver.push(cells, pdu);
            }
            Unpacker::Ule(_) | Unpacker::Mpe(_) => {}
        }
        for (number, cell) in cells.as_chunks::<PACKET_LEN>().0.iter().enumerate() {
            match self {
                Unpacker::Ule(receiver) => receiver.push(cell, |sndu| take(number, &sndu.payload)),
                Unpacker::Mpe(receiver) => receiver.push(cell, |datagram| {
                    take(number, &Payload::Pdu(datagram.ethertype, datagram.bytes));
                }),
                Unpacker::Gse(_) | Unpacker::Rle(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_units::Time;

    use super::*;

    fn packet(len: usize, nanos: u64) -> Packet {
        let bytes: Vec<u8> = (0..len).map(|n| if n == 0 { 0x45 } else { n as u8 }).collect();
        let mut packet = Packet::from_bytes(&bytes);
        packet.set_created_at(Time::from_nanos(nanos));
        packet
    }

    const ALL: [Encapsulation; 5] = [
        Encapsulation::Ule,
        Encapsulation::Mpe,
        Encapsulation::Gse,
        Encapsulation::Rle,
        Encapsulation::RleCrc,
    ];

    #[test]
    fn packets_cross_cells_and_bursts_and_come_out_whole() {
        ALL.into_iter().for_each(cross);
    }

    fn cross(encapsulation: Encapsulation) {
        let (mut packer, mut unpacker) = (Packer::new(encapsulation), Unpacker::new(encapsulation));
        let lens = [40, 1500, 20, 1500, 576, 9, 3000, 21];
        let (mut next, mut out, mut stamps) = (0, Vec::new(), Vec::new());
        while out.len() < lens.len() {
            while packer.has_room(8) && next < lens.len() {
                packer.push(packet(lens[next], next as u64));
                next += 1;
            }
            let filled = packer.fill(8);
            assert_eq!(filled.cells.len(), 8 * PACKET_LEN);
            let before = out.len();
            unpacker.burst(&filled.cells, |cell, packet| out.push((cell, packet.to_vec())));
            let ends: Vec<u16> = out[before..].iter().map(|(cell, _)| *cell).collect();
            assert_eq!(filled.ends.iter().map(|(cell, _)| *cell).collect::<Vec<_>>(), ends);
            stamps.extend(filled.ends.iter().map(|(_, origin)| origin.created_at.as_nanos()));
        }
        assert_eq!(stamps, (0..8).collect::<Vec<_>>());
        out.iter().zip(lens).for_each(|((_, bytes), len)| assert_eq!(*bytes, packet(len, 0).to_vec()));
        assert!(packer.is_empty() && unpacker.damages() == 0);
    }

    #[test]
    fn the_reckoning_is_that_of_the_cells() {
        for encapsulation in ALL {
            let mut packer = Packer::new(encapsulation);
            for _ in 0..100 {
                // Such that no number of them is a burst.
                packer.push(packet(1300, 0));
            }
            let mut made = 0;
            while !packer.is_empty() {
                made += packer.fill(8).cells.len() as u64;
            }
            let reckoned = carrier_bytes(encapsulation, 8, 100, 130_000);
            // A pointer in every cell where a packet starts and rules that leave a byte unused, and the rest of the last
            // burst.
            let (low, high) = (reckoned as f64 * 0.995, reckoned as f64 * 1.005 + 8.0 * 188.0);
            assert!((low..high).contains(&(made as f64)), "{encapsulation:?}: {reckoned} for {made}");
        }
    }
}
