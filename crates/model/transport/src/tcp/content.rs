//! Bytes of a stream between two connections, by their positions.
//!
//! TCP itself passes streams as lengths. The proxy keeps the bytes of real hosts here, from their arrival until the receiver has
//! acknowledged them. Bytes that were never put are zeros, as elided payload is.

use std::collections::VecDeque;

use bentpipe_net::{Body, Packet};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Segment, SeqNumber};

/// Next header of IPv6 in front of TCP.
const TCP: u8 = 6;

/// Offset of the checksum in a TCP header (RFC 9293, section 3.1).
const CHECKSUM: usize = 16;

/// Longest headers that are kept: IPv6 or IPv4 without options, and TCP.
const MAX_HEADER: usize = 100;

/// Memory that stays without content.
const SPARE: usize = 1 << 16;

/// Content of one direction. Positions count from the SYN, as those of both connections do: the first byte has position 1.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Position of the first byte kept.
    base: u64,
    bytes: VecDeque<u8>,
}

impl Content {
    /// Returns `true` if all bytes are zeros.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the memory in use.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Stores bytes at a position. Those in front of the first byte kept have been delivered.
    pub(super) fn put(&mut self, at: u64, data: &[u8]) {
        if self.bytes.is_empty() {
            if data.iter().all(|byte| *byte == 0) {
                return;
            }
            self.base = self.base.max(1);
        }
        let skipped = self.base.saturating_sub(at).min(data.len() as u64) as usize;
        let (at, data) = (at + skipped as u64, &data[skipped..]);
        let offset = at.saturating_sub(self.base) as usize;
        if offset > self.bytes.len() {
            self.bytes.resize(offset, 0);
        }
        let known = (self.bytes.len() - offset).min(data.len());
        for (byte, new) in self.bytes.range_mut(offset..offset + known).zip(data) {
            *byte = *new;
        }
        self.bytes.extend(&data[known..]);
    }

    /// Drops the bytes in front of a position.
    pub(super) fn trim(&mut self, upto: u64) {
        let count = upto.saturating_sub(self.base).min(self.bytes.len() as u64);
        self.bytes.drain(..count as usize);
        self.base = self.base.max(upto);
        if self.bytes.len() * 4 < self.bytes.capacity() && self.bytes.capacity() > SPARE {
            self.bytes.shrink_to(SPARE.max(self.bytes.len() * 2));
        }
    }

    /// Returns `len` bytes from position `at`.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        let (from, to) = (at.max(self.base), (at + len as u64).min(self.end()));
        if from < to {
            bytes.resize((from - at) as usize, 0);
            let range = (from - self.base) as usize..(to - self.base) as usize;
            let (first, second) = self.bytes.as_slices();
            let split = first.len();
            bytes.extend_from_slice(&first[range.start.min(split)..range.end.min(split)]);
            bytes.extend_from_slice(&second[range.start.max(split) - split..range.end.max(split) - split]);
        }
        bytes.resize(len, 0);
        bytes
    }

    /// Replaces the zeros of a segment from position `at` by the bytes kept.
    pub(super) fn fill(&self, packet: Packet, at: u64) -> Packet {
        let Body::Zeros(len @ 1..) = *packet.body() else { return packet };
        if at.max(self.base) >= (at + u64::from(len)).min(self.end()) {
            return packet;
        }
        with_content(packet, self.bytes(at, len as usize))
    }
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
