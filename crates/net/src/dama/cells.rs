//! Packing IP packets into MPEG cells and out of them again: ULE (RFC 4326) with the destination address omitted and
//! packing across cells, so that a cell may hold the end of one packet and the beginning of the next.
//!
//! A terminal has a transport stream of its own, of one PID. When a burst has room that nothing waits for, the rest of
//! its last cell is padding and the other cells are null packets.

use std::collections::VecDeque;

use bentpipe_units::{Bytes, Time};
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::ts::{NULL_PACKET, PACKET_LEN, PAYLOAD_LEN, Pid};
use bentpipe_wire::ule::{
    BASE_HEADER_LEN, CRC_LEN, Encapsulator, Filter, Method, Payload, Receiver, Repr, Type,
};

use crate::{Body, Packet};

/// What ULE adds to a packet.
const OVERHEAD: u64 = (BASE_HEADER_LEN + CRC_LEN) as u64;

/// The PID of the only elementary stream.
const PID: Pid = Pid::new(0x0101).expect("a PID");

/// What `packets` of together `len_bytes` take on the carrier, headers of cells included, when they are packed: each
/// with its overhead and a payload pointer.
pub(super) fn carrier_bytes(packets: usize, len_bytes: u64) -> u64 {
    let payload = len_bytes + packets as u64 * (OVERHEAD + 1);
    (payload * PACKET_LEN as u64).div_ceil(PAYLOAD_LEN as u64)
}

/// What a packet takes on the carrier: its share of the cells that it is packed into with others.
pub fn carrier_len(len_bytes: usize) -> Bytes {
    Bytes::new(carrier_bytes(1, len_bytes as u64))
}

/// Cells of a burst, and what ends in them.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// Whole cells.
    pub(super) cells: Vec<u8>,
    /// For each packet that ends here the number of the cell and when its data was handed over.
    pub(super) ends: Vec<(u16, Time)>,
    /// How many cells are no null packets.
    pub(super) used: u32,
}

/// Puts packets into cells.
#[derive(Debug)]
pub(super) struct Packer {
    encapsulator: Encapsulator,
    /// Cells that wait for a burst.
    ready: VecDeque<u8>,
    /// What is made, before it is queued.
    made: Vec<u8>,
    /// How many cells were made and how many left.
    cells_made: u64,
    cells_sent: u64,
    /// In which cell each packet ends, and when its data was handed over.
    ends: VecDeque<(u64, Time)>,
}

impl Packer {
    pub(super) fn new() -> Packer {
        Packer {
            encapsulator: Encapsulator::new(PID, Method::Packing),
            ready: VecDeque::new(),
            made: Vec::new(),
            cells_made: 0,
            cells_sent: 0,
            ends: VecDeque::new(),
        }
    }

    /// Whether nothing is left to send.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && !self.encapsulator.is_pending()
    }

    /// Bytes of cells that are left to send, a cell that is begun as a whole.
    pub(super) fn bytes(&self) -> u64 {
        let begun = if self.encapsulator.is_pending() { PACKET_LEN } else { 0 };
        (self.ready.len() + begun) as u64
    }

    /// Whether so many cells hold more than waits here.
    pub(super) fn has_room(&self, cells: u32) -> bool {
        self.ready.len() < cells as usize * PACKET_LEN
    }

    /// Takes an IP packet. One that is too long for ULE is lost; the terminal lets none in.
    pub(super) fn push(&mut self, packet: &Packet) {
        let is_v6 = packet.header().first().is_some_and(|first| first >> 4 == 6);
        let ether_type = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let repr = Repr { npa: None, extensions: &[], kind: Type(ether_type.0) };
        let pushed = match packet.body() {
            Body::Zeros(count) => {
                self.encapsulator.push_elided(&repr, packet.header(), *count as usize, &mut self.made)
            }
            _ => self.encapsulator.push(&repr, &packet.to_vec(), &mut self.made),
        };
        if pushed.is_ok() {
            self.queue();
            // It ends in the cell that is begun, or else in the last whole one.
            let end = if self.encapsulator.is_pending() { self.cells_made } else { self.cells_made - 1 };
            self.ends.push_back((end, packet.born()));
        }
    }

    fn queue(&mut self) {
        self.cells_made += (self.made.len() / PACKET_LEN) as u64;
        self.ready.extend(self.made.drain(..));
    }

    /// Fills so many cells; the last of them may be null packets.
    pub(super) fn fill(&mut self, cells: u32) -> Filled {
        if self.has_room(cells) {
            self.encapsulator.flush(&mut self.made);
            self.queue();
        }
        let room = cells as usize * PACKET_LEN;
        let len = self.ready.len().min(room);
        let mut filled = Filled { used: (len / PACKET_LEN) as u32, ..Filled::default() };
        filled.cells.reserve_exact(room);
        filled.cells.extend(self.ready.drain(..len));
        (filled.used..cells).for_each(|_| filled.cells.extend_from_slice(&NULL_PACKET));
        let first = self.cells_sent;
        self.cells_sent += u64::from(filled.used);
        while let Some((cell, born)) = self.ends.front().filter(|(cell, _)| *cell < self.cells_sent) {
            filled.ends.push(((cell - first) as u16, *born));
            self.ends.pop_front();
        }
        filled
    }
}

/// Takes packets out of cells.
#[derive(Debug)]
pub(super) struct Unpacker(Receiver);

impl Unpacker {
    pub(super) fn new() -> Unpacker {
        Unpacker(Receiver::new(PID, Filter::All))
    }

    /// How often something was damaged or lost: jumps of the continuity counter, and SNDUs that did not come whole.
    pub(super) fn damages(&self) -> u64 {
        let counts = self.0.counts();
        let of_cells = counts.malformed + counts.transmission_errors + counts.continuity_errors;
        let of_pointers = counts.pointer_errors + counts.reassembly_errors + counts.delimiting_errors;
        of_cells + of_pointers + counts.length_errors + counts.crc_errors + counts.type_errors
    }

    /// Takes the cells of a burst, and calls `sink` with the number of a cell and what ends in it.
    pub(super) fn cells(&mut self, cells: &[u8], mut sink: impl FnMut(u16, Packet)) {
        for (number, cell) in cells.as_chunks::<PACKET_LEN>().0.iter().enumerate() {
            self.0.push(cell, |sndu| {
                if let Payload::Pdu(EtherType::IPV4 | EtherType::IPV6, pdu) = sndu.payload {
                    sink(number as u16, Packet::from_bytes(pdu));
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(len: usize, nanos: u64) -> Packet {
        let bytes: Vec<u8> = (0..len).map(|n| if n == 0 { 0x45 } else { n as u8 }).collect();
        let mut packet = Packet::from_bytes(&bytes);
        packet.set_born(Time::from_nanos(nanos));
        packet
    }

    #[test]
    fn packets_cross_cells_and_bursts_and_come_out_whole() {
        let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
        let lens = [40, 1500, 20, 1500, 576, 9, 3000, 21];
        let (mut next, mut out, mut stamps) = (0, Vec::new(), Vec::new());
        while out.len() < lens.len() {
            while packer.has_room(8) && next < lens.len() {
                packer.push(&packet(lens[next], next as u64));
                next += 1;
            }
            let filled = packer.fill(8);
            assert_eq!(filled.cells.len(), 8 * PACKET_LEN);
            let before = out.len();
            unpacker.cells(&filled.cells, |cell, packet| out.push((cell, packet.to_vec())));
            let ends: Vec<u16> = out[before..].iter().map(|(cell, _)| *cell).collect();
            assert_eq!(filled.ends.iter().map(|(cell, _)| *cell).collect::<Vec<_>>(), ends);
            stamps.extend(filled.ends.iter().map(|(_, born)| born.as_nanos()));
        }
        assert_eq!(stamps, (0..8).collect::<Vec<_>>());
        out.iter().zip(lens).for_each(|((_, bytes), len)| assert_eq!(*bytes, packet(len, 0).to_vec()));
        assert!(packer.is_empty() && unpacker.damages() == 0);
    }

    #[test]
    fn the_reckoning_is_that_of_the_cells() {
        let mut packer = Packer::new();
        for _ in 0..100 {
            packer.push(&packet(1500, 0));
        }
        let made = packer.bytes() as f64;
        // A pointer in every cell where a packet starts and rules that leave a byte unused: within half a percent.
        assert!((carrier_bytes(100, 150_000) as f64 / made - 1.0).abs() < 0.005, "{made}");
    }
}
