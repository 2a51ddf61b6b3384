//! Transport streams in data fields (EN 302 307-1, sections 5.1.4 to 5.1.6): TS packets follow each other regardless of
//! frames, and in place of its sync byte each has the CRC-8 of the one before.
//!
//! Not here: input stream synchronisation (ISSY) and deletion of NULL packets (NPD), which lengthen user packets.

use super::{Repr, Stream, crc8};
use crate::ts::{PACKET_LEN, SYNC};

/// Bits of a user packet.
const PACKET_BITS: u16 = 8 * PACKET_LEN as u16;
/// SYNCD where no user packet starts.
const NONE_STARTS: u16 = u16::MAX;
/// transport_error_indicator, in a TS packet's second byte.
const ERROR: u8 = 0x80;

/// Puts TS packets into data fields.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    /// CRC-8 of the last packet.
    crc: u8,
    /// What is yet to be sent, each sync byte replaced.
    waiting: Vec<u8>,
    /// Where in it the next packet starts.
    next_start: usize,
}

impl Framer {
    /// At the start of a stream: the first packet has a CRC-8 of 0.
    pub fn new() -> Framer {
        Framer::default()
    }

    /// In the middle of a stream, behind this packet.
    pub fn behind(packet: &[u8; PACKET_LEN]) -> Framer {
        Framer { crc: crc8(&packet[1..]), ..Framer::default() }
    }

    /// Adds a packet.
    pub fn push(&mut self, packet: &[u8; PACKET_LEN]) {
        self.waiting.push(self.crc);
        self.waiting.extend_from_slice(&packet[1..]);
        self.crc = crc8(&packet[1..]);
    }

    /// How many bytes wait.
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Leaves out the first `len` bytes that wait, as a frame before had them.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn skip(&mut self, len: usize) {
        assert!(len <= self.waiting.len(), "what is skipped waits");
        self.take(len, &mut Vec::new());
    }

    /// Appends a data field of `len` bytes to `out`; its header, with constant coding and modulation.
    ///
    /// # Panics
    /// If not so many bytes wait: a stream that has nothing to send has NULL packets.
    pub fn fill(&mut self, len: usize, out: &mut Vec<u8>) -> Repr {
        assert!(len <= self.waiting.len(), "a data field is full");
        let distance = self.next_start;
        self.take(len, out);
        Repr {
            stream: Stream::Transport,
            is_constant: true,
            packet_bits: PACKET_BITS,
            sync: SYNC,
            distance_bits: if distance < len { 8 * distance as u16 } else { NONE_STARTS },
            ..Repr::gse(len)
        }
    }

    fn take(&mut self, len: usize, out: &mut Vec<u8>) {
        out.extend(self.waiting.drain(..len));
        while self.next_start < len {
            self.next_start += PACKET_LEN;
        }
        self.next_start -= len;
    }
}

/// What happened to the frames of a stream, and to its TS packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeframerCounts {
    /// Data fields.
    pub frames: u64,
    /// TS packets that came out.
    pub packets: u64,
    /// Those of them whose CRC-8 is wrong.
    pub crc_errors: u64,
    /// Frames whose first packet is not where the packet before ends: frames between them were lost.
    pub sync_errors: u64,
    /// Frames that carry something else, with input stream synchronisation, or without their NULL packets.
    pub unsupported: u64,
}

/// Takes TS packets out of data fields.
#[derive(Clone, Debug, Default)]
pub struct Deframer {
    /// The packet under way, as far as it came; `None` until one has started.
    current: Option<Vec<u8>>,
    counts: DeframerCounts,
}

impl Deframer {
    /// Before the first frame.
    pub fn new() -> Deframer {
        Deframer::default()
    }

    /// What happened so far.
    pub fn counts(&self) -> &DeframerCounts {
        &self.counts
    }

    /// Takes in a data field with its header, and calls `sink` with each TS packet that ends in it. One whose CRC-8 is wrong
    /// gets a transport error indicator. One that ends with the field is not checked: its CRC-8 is in the next frame.
    pub fn push(&mut self, repr: &Repr, field: &[u8], mut sink: impl FnMut(&[u8; PACKET_LEN])) {
        self.counts.frames += 1;
        let is_known = repr.stream == Stream::Transport && repr.packet_bits == PACKET_BITS;
        if !is_known || repr.has_sync || repr.deletes_nulls {
            self.counts.unsupported += 1;
            self.current = None;
            return;
        }
        let Some(rest) = self.align(repr, field, &mut sink) else { return };
        for (index, packet) in rest.chunks(PACKET_LEN).enumerate() {
            let behind = rest.get((index + 1) * PACKET_LEN).copied();
            self.proceed(packet, behind, &mut sink);
        }
    }

    /// Ends the packet under way with what is in front of the first that starts in the field; the rest of it from there on.
    /// `None` if none starts.
    fn align<'a>(
        &mut self,
        repr: &Repr,
        field: &'a [u8],
        sink: &mut impl FnMut(&[u8; PACKET_LEN]),
    ) -> Option<&'a [u8]> {
        let distance = usize::from(repr.distance_bits / 8);
        let starts = repr.distance_bits != NONE_STARTS;
        let is_possible = !starts || (repr.distance_bits.is_multiple_of(8) && distance < field.len());
        let (end, rest) = field.split_at(if starts && is_possible { distance } else { field.len() });
        let missing = self.current.as_ref().map(|current| (PACKET_LEN - current.len()) % PACKET_LEN);
        let is_expected = match missing {
            Some(missing) if starts => end.len() == missing,
            Some(missing) => end.len() <= missing,
            None => true,
        };
        if !is_possible || !is_expected {
            self.counts.sync_errors += 1;
            self.current = None;
        }
        if self.current.is_some() && !end.is_empty() {
            self.proceed(end, rest.first().copied(), sink);
        }
        if !starts || !is_possible {
            return None;
        }
        self.current.get_or_insert_default();
        Some(rest)
    }

    /// Adds to the packet under way. What follows behind it is its CRC-8.
    fn proceed(&mut self, bytes: &[u8], behind: Option<u8>, sink: &mut impl FnMut(&[u8; PACKET_LEN])) {
        let Some(current) = &mut self.current else { return };
        current.extend_from_slice(bytes);
        let Some(packet) = current.first_chunk_mut::<PACKET_LEN>() else { return };
        packet[0] = SYNC;
        if behind.is_some_and(|crc| crc != crc8(&packet[1..])) {
            self.counts.crc_errors += 1;
            packet[1] |= ERROR;
        }
        self.counts.packets += 1;
        sink(packet);
        current.clear();
    }
}
