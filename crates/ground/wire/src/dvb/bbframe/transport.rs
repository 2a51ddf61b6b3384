//! Transport streams in data fields (EN 302 307-1, sections 5.1.4 to 5.1.6). TS packets follow each other
//! regardless of frames, and the CRC-8 of the previous one replaces each sync byte.
//!
//! Not here: input stream synchronisation (ISSY) and deletion of NULL packets (NPD), which lengthen user packets.

use super::{Repr, Stream, crc8};
use crate::dvb::ts::{PACKET_LEN, SYNC};

/// Bits of a user packet.
const PACKET_BITS: u16 = 8 * PACKET_LEN as u16;
/// SYNCD where no user packet starts.
const NONE_STARTS: u16 = u16::MAX;
/// transport_error_indicator, in a TS packet's second byte.
const ERROR: u8 = 0x80;

/// Framer of TS packets into data fields.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    /// CRC-8 of the last packet.
    crc: u8,
    /// Bytes to send, each sync byte replaced.
    waiting: Vec<u8>,
    /// Offset of the next packet in it.
    next_start: usize,
}

impl Framer {
    /// Creates a framer for a new stream, whose first packet has a CRC-8 of 0.
    pub fn new() -> Framer {
        Framer::default()
    }

    /// Creates a framer in the middle of a stream, after this packet.
    pub fn behind(packet: &[u8; PACKET_LEN]) -> Framer {
        Framer { crc: crc8(&packet[1..]), ..Framer::default() }
    }

    /// Adds a packet.
    pub fn push(&mut self, packet: &[u8; PACKET_LEN]) {
        self.waiting.push(self.crc);
        self.waiting.extend_from_slice(&packet[1..]);
        self.crc = crc8(&packet[1..]);
    }

    /// Returns the number of bytes that wait.
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Leaves out the first `len` bytes that wait, as a frame before had them.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn skip(&mut self, len: usize) {
        assert!(len <= self.waiting.len(), "what is skipped waits");
        self.take(len, &mut Vec::new());
    }

    /// Appends a data field of `len` bytes to `out` and returns its header. Coding and modulation are
    /// constant.
    ///
    /// # Panics
    /// If fewer bytes wait: an idle stream has NULL packets.
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

/// Counters of a stream's frames and TS packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeframerCounts {
    /// Data fields.
    pub frames: u64,
    /// TS packets that came out.
    pub packets: u64,
    /// TS packets with a wrong CRC-8.
    pub crc_errors: u64,
    /// Number of frames that do not continue the previous one: frames were lost.
    pub sync_errors: u64,
    /// Frames that carry something else, with input stream synchronisation, or without their NULL packets.
    pub unsupported: u64,
}

/// Deframer of TS packets from data fields.
#[derive(Clone, Debug, Default)]
pub struct Deframer {
    /// Incomplete packet; `None` until one has started.
    current: Option<Vec<u8>>,
    counts: DeframerCounts,
}

impl Deframer {
    /// Creates a deframer before the first frame.
    pub fn new() -> Deframer {
        Deframer::default()
    }

    /// Returns the counters.
    pub fn counts(&self) -> &DeframerCounts {
        &self.counts
    }

    /// Parses a data field and calls `sink` with each TS packet that ends in it. One whose CRC-8 is wrong gets a
    /// transport error indicator. One that ends with the field is not checked: its CRC-8 is in the next frame.
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

    /// Ends the incomplete packet and returns the field from its first packet start on. `None` if no packet
    /// starts.
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

    /// Adds to the incomplete packet. Its CRC-8 follows it.
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
