//! Bytes of a stream between two connections, by their positions.
//!
//! TCP itself passes streams as lengths. The proxy keeps the bytes of real hosts here, from their arrival until the receiver has
//! acknowledged them. Bytes that were never put are zeros, as elided payload is.

use std::collections::{BTreeMap, VecDeque};

use bentpipe_net::{Body, Packet};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Segment, SeqNumber};

/// Next header of IPv6 in front of TCP.
const TCP: u8 = 6;

/// Offset of the checksum in a TCP header (RFC 9293, section 3.1).
const CHECKSUM: usize = 16;

/// Longest headers that are kept: IPv6 or IPv4 without options, and TCP.
const MAX_HEADER: usize = 100;

/// Capacity below which a piece is not shrunk.
const SPARE: usize = 1 << 16;

/// Memory that a piece takes next to its bytes.
const PIECE: usize = 96;

/// Content of one direction. Positions count from the SYN, as those of both connections do: the first byte has position 1.
///
/// Bytes behind a gap take memory for themselves alone: a peer that sends one byte at the end of its window does not reserve it all.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Position in front of which all bytes have been delivered.
    base: u64,
    /// Pieces by the position of their first byte. They neither overlap nor touch.
    pieces: BTreeMap<u64, VecDeque<u8>>,
}

impl Content {
    /// Returns `true` if all bytes are zeros.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the memory in use.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.pieces.values().map(|piece| piece.capacity() + PIECE).sum()
    }

    /// Stores bytes at a position. Those in front of the first byte kept have been delivered.
    pub(super) fn put(&mut self, at: u64, data: &[u8]) {
        if self.pieces.is_empty() {
            if data.iter().all(|byte| *byte == 0) {
                return;
            }
            self.base = self.base.max(1);
        }
        let skipped = self.base.saturating_sub(at).min(data.len() as u64) as usize;
        let (at, data) = (at + skipped as u64, &data[skipped..]);
        if data.is_empty() {
            return;
        }
        let start = self.store(at, data);
        self.join(start);
    }

    /// Stores bytes in the piece that they overlap or follow, or in a new one. Returns the position of that piece.
    fn store(&mut self, at: u64, data: &[u8]) -> u64 {
        if let Some((&start, piece)) = self.pieces.range_mut(..=at).next_back()
            && at <= start + piece.len() as u64
        {
            let offset = (at - start) as usize;
            let known = (piece.len() - offset).min(data.len());
            for (byte, new) in piece.range_mut(offset..offset + known).zip(data) {
                *byte = *new;
            }
            piece.extend(&data[known..]);
            return start;
        }
        self.pieces.insert(at, VecDeque::from(data.to_vec()));
        at
    }

    /// Joins a piece with those that it reaches.
    fn join(&mut self, start: u64) {
        loop {
            let Some(end) = self.pieces.get(&start).map(|piece| start + piece.len() as u64) else { return };
            let Some((&next, _)) = self.pieces.range(start + 1..).next().filter(|(next, _)| **next <= end)
            else {
                return;
            };
            let (Some(front), Some(back)) = (self.pieces.remove(&start), self.pieces.remove(&next)) else {
                return;
            };
            self.pieces.insert(start, joined(front, back, (end - next) as usize));
        }
    }

    /// Drops the bytes in front of a position.
    pub(super) fn trim(&mut self, upto: u64) {
        self.base = self.base.max(upto);
        while let Some(first) = self.pieces.first_entry().filter(|first| *first.key() < upto) {
            let (start, mut piece) = first.remove_entry();
            let count = upto - start;
            if count >= piece.len() as u64 {
                continue;
            }
            piece.drain(..count as usize);
            if piece.len() * 4 < piece.capacity() && piece.capacity() > SPARE {
                piece.shrink_to(SPARE.max(piece.len() * 2));
            }
            self.pieces.insert(upto, piece);
        }
    }

    /// Returns the pieces that have bytes between two positions.
    fn between(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &VecDeque<u8>)> {
        let first = self.pieces.range(..=from).next_back();
        let first = first.filter(|(start, piece)| **start + piece.len() as u64 > from);
        let others = self.pieces.range(from + 1..to.max(from + 1));
        first.into_iter().chain(others).map(|(start, piece)| (*start, piece))
    }

    /// Returns `len` bytes from position `at`.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let (mut bytes, end) = (Vec::with_capacity(len), at + len as u64);
        for (start, piece) in self.between(at, end) {
            bytes.resize(start.saturating_sub(at) as usize, 0);
            let from = at.saturating_sub(start) as usize;
            let to = ((end - start) as usize).min(piece.len());
            let (first, second) = piece.as_slices();
            let split = first.len();
            bytes.extend_from_slice(&first[from.min(split)..to.min(split)]);
            bytes.extend_from_slice(&second[from.max(split) - split..to.max(split) - split]);
        }
        bytes.resize(len, 0);
        bytes
    }

    /// Replaces the zeros of a segment from position `at` by the bytes kept.
    pub(super) fn fill(&self, packet: Packet, at: u64) -> Packet {
        let Body::Zeros(len @ 1..) = *packet.body() else { return packet };
        if self.between(at, at + u64::from(len)).next().is_none() {
            return packet;
        }
        with_content(packet, self.bytes(at, len as usize))
    }
}

/// Joins two pieces that overlap or touch.
///
/// The second begins `overlap` bytes before the end of the first. The shorter one is copied.
fn joined(mut front: VecDeque<u8>, mut back: VecDeque<u8>, overlap: usize) -> VecDeque<u8> {
    let overlap = overlap.min(back.len());
    if front.len() >= back.len() {
        front.extend(back.range(overlap..));
        return front;
    }
    back.drain(..overlap);
    back.reserve(front.len());
    front.iter().rev().for_each(|byte| back.push_front(*byte));
    back
}

/// Data of a segment, and its number.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) seq: SeqNumber,
    pub(super) bytes: Vec<u8>,
}

/// Packet as the proxy takes it.
#[derive(Debug)]
pub(super) enum Elided {
    /// Segment without content, or not a segment.
    Plain,
    /// Segment of elided data with a true checksum, and its content.
    Parts(Packet, Payload),
    /// Segment whose content cannot be kept, behind headers that are too long.
    Unfit,
}

/// Splits a packet of real bytes into a segment of elided data and its content.
///
/// Elided data is content only if zeros are `wanted`.
pub(super) fn elide(packet: &Packet, zeros_wanted: bool) -> Elided {
    parts(packet, zeros_wanted).unwrap_or(Elided::Plain)
}

fn parts(packet: &Packet, zeros_wanted: bool) -> Option<Elided> {
    let has_only_headers = match packet.body() {
        Body::Zeros(0) => headers_len(packet.header()) == Some(packet.header().len()),
        Body::Zeros(_) => !zeros_wanted,
        Body::Bytes(_) | Body::Carried(_) => false,
    };
    if has_only_headers {
        return None;
    }
    // The bytes of a train are not copied for its headers.
    let found = match packet.body() {
        Body::Bytes(rest) => split(packet.header(), rest),
        Body::Zeros(_) | Body::Carried(_) => None,
    };
    found.or_else(|| split(&packet.to_vec(), &[]))
}

/// Splits a packet whose headers are in `head`.
///
/// Its data begins there and goes on in `rest`.
fn split(head: &[u8], rest: &[u8]) -> Option<Elided> {
    let ip = ip::Packet::new_elided(head, rest.len()).ok()?;
    let upper = ip.upper().ok()?;
    let is_whole = upper.protocol == Protocol::TCP && !upper.is_fragment && upper.elided == rest.len();
    // Sums of two parts add up if the first is of whole words.
    if !is_whole || !rest.is_empty() && upper.bytes.len() % 2 == 1 {
        return None;
    }
    let segment = Segment::new_elided(upper.bytes, upper.elided).ok()?;
    let sum = word_sum(rest);
    if upper.pseudo.datagram(upper.bytes, upper.elided).add(sum.into()).fold() != 0xffff {
        return None;
    }
    let (first, seq) = (segment.payload(), segment.seq());
    let header_len = upper.offset + upper.bytes.len() - first.len();
    let payload = Payload { seq, bytes: [first, rest].concat() };
    if payload.bytes.is_empty() {
        return None;
    }
    if header_len > MAX_HEADER {
        return Some(Elided::Unfit);
    }
    let mut elided = Packet::new(header_len, payload.bytes.len() as u32);
    elided.header_mut().copy_from_slice(&head[..header_len]);
    let sum = fold(u64::from(word_sum(first)) + u64::from(sum));
    patch(&mut elided.header_mut()[upper.offset..], |whole| subtract(whole, sum));
    Some(Elided::Parts(elided, payload))
}

/// Returns the length of the headers of a segment, without IPv6 extension headers.
fn headers_len(bytes: &[u8]) -> Option<usize> {
    let ip = ip_len(bytes)?;
    Some(ip + usize::from(bytes.get(ip + 12)? >> 4) * 4)
}

fn ip_len(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? >> 4 {
        4 => Some(usize::from(bytes[0] & 0xf) * 4),
        // Other headers may follow that of IPv6.
        _ => (bytes.get(6) == Some(&TCP)).then_some(40),
    }
}

/// Replaces the zeros of a segment by real bytes.
fn with_content(mut packet: Packet, body: Vec<u8>) -> Packet {
    let sum = word_sum(&body);
    let header = packet.header_mut();
    let start = ip_len(header).unwrap_or(0);
    patch(&mut header[start..], |before| fold(u64::from(before) + u64::from(sum)));
    packet.with_body(Body::Bytes(body))
}

/// Changes the sum that the checksum of a TCP header complements.
fn patch(tcp: &mut [u8], change: impl Fn(u16) -> u16) {
    let at = CHECKSUM;
    let sum = !u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    tcp[at..at + 2].copy_from_slice(&(!change(sum)).to_be_bytes());
}

fn subtract(sum: u16, part: u16) -> u16 {
    fold(u64::from(sum) + u64::from(!part))
}

/// Returns the one's complement sum of 16-bit words (RFC 1071).
fn word_sum(bytes: &[u8]) -> u16 {
    let mut words = bytes.chunks_exact(4);
    let sum: u64 =
        words.by_ref().map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))).sum();
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    fold(sum + u64::from(u32::from_be_bytes(last)))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_behind_a_gap_take_memory_for_themselves() {
        let mut content = Content::default();
        content.put(1_000_000, b"x");
        assert!(content.capacity() < 1000, "{} B", content.capacity());
        assert_eq!(content.bytes(999_998, 4), b"\0\0x\0");
        content.trim(1_000_001);
        assert_eq!((content.is_empty(), content.capacity()), (true, 0));
    }

    proptest! {
        /// Puts and trims have the bytes of a plain stream.
        #[test]
        fn pieces_are_a_stream(steps in prop::collection::vec((1_u64..300, 0_usize..60, any::<u8>(), 0_u64..40), 1..60)) {
            let (mut content, mut model, mut base) = (Content::default(), vec![0_u8; 400], 1_u64);
            for (at, len, fill, trimmed) in steps {
                let data: Vec<u8> = (0..len).map(|n| fill.wrapping_add(n as u8)).collect();
                content.put(at, &data);
                for (n, byte) in data.iter().enumerate().filter(|(n, _)| at + *n as u64 >= base) {
                    model[at as usize + n] = *byte;
                }
                base += trimmed / 10;
                content.trim(base);
                let len = 400 - base as usize;
                prop_assert_eq!(&content.bytes(base, len)[..], &model[base as usize..]);
                let ends: Vec<(u64, u64)> =
                    content.pieces.iter().map(|(at, piece)| (*at, at + piece.len() as u64)).collect();
                prop_assert!(ends.iter().all(|(from, to)| from < to), "{:?}", ends);
                prop_assert!(ends.windows(2).all(|two| two[0].1 < two[1].0), "{:?}", ends);
            }
        }
    }
}
