//! Packets: the bytes that would be on the wire, with elided zeros only counted.

use std::cell::RefCell;
use std::collections::VecDeque;

use bentpipe_units::Time;
use bentpipe_wire::{ipv4, ipv6, quick_start, tcp};

use crate::ledger::{self, Entry, Tag, Why};

mod carried;

pub use carried::Carried;

/// Maximum length of headers in bytes: IPv6 with Quick-Start, TCP with all options. Quick-Start is an option
/// of a hop-by-hop header.
pub const LONGEST_HEADERS: usize =
    ipv6::HEADER_LEN + (2 + 2 + quick_start::DATA_LEN).next_multiple_of(8) + tcp::MAX_HEADER_LEN;

/// Room for headers inside a packet.
///
/// That is the longest headers, which are longer than the longest common stack in front of data (IPv4, IPv6,
/// TCP with timestamps, and LLC/SNAP: 100), and the rest of the word that contains [`Inner::start`]. Further
/// headers are written out with all headers after them, which costs an allocation. The room is not larger, as
/// waiting packets dominate memory.
const HEAD: usize = (LONGEST_HEADERS + 1).next_multiple_of(align_of::<usize>()) - 1;

/// Header bytes of most packets, which alone are copied. IPv6 and TCP with timestamps have 72, IPv4 52.
/// Copying the rest would load memory that nothing else needs.
const USUAL: usize = 80;

/// Header bytes kept of a packet that arrives whole: IPv4, TCP with all options. The rest of the room is for
/// encapsulation.
const HEAD_OF_WHOLE: usize = ipv4::HEADER_LEN + tcp::MAX_HEADER_LEN;

/// Part of a packet after its header bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Elided payload: a count of zero bytes, covered by checksums but never stored.
    Zeros(u32),
    /// Real bytes.
    Bytes(Vec<u8>),
    /// Content in the form of the technology that carries it, opaque to all other elements.
    Carried(Box<dyn Carried>),
}

impl Body {
    fn len(&self) -> usize {
        match self {
            Body::Zeros(count) => *count as usize,
            Body::Bytes(bytes) => bytes.len(),
            Body::Carried(carried) => carried.len(),
        }
    }
}

/// Packet: real header bytes, kept inline, and a [`Body`].
///
/// It is one pointer wide, so passing it on costs the same for any content. Headers are kept at the end of
/// their room, so that encapsulation prepends without moving a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet(Box<Inner>);

/// Content of a packet, in two cache lines. Headers are at the end of `head`, next to the other fields. Bytes
/// before `start` may be those of an earlier packet.
#[derive(Clone, Debug)]
#[repr(C)]
struct Inner {
    head: [u8; HEAD],
    /// Offset of the headers.
    start: u8,
    /// Length of the whole packet, which is read at every step and changed at few.
    len: u32,
    tag: Tag,
    body: Body,
    created_at: Time,
}

/// Origin of a packet: the time of its creation, and its account. Units that carry packets as bytes keep
/// it next to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Time at which the application passed the data.
    pub created_at: Time,
    tag: Tag,
}

impl Origin {
    /// Returns the origin of something that is in no account.
    pub fn at(created_at: Time) -> Origin {
        Origin { created_at, tag: Tag::none() }
    }

    /// Returns `true` if it is that of a packet in an account.
    pub fn is_accounted(&self) -> bool {
        self.tag.is_set()
    }

    /// Returns the origin of another copy, as [`Packet::copy`] does.
    pub fn copy(&self) -> Origin {
        Origin { created_at: self.created_at, tag: self.tag.copy() }
    }

    /// Returns the origins of a packet's fragments. The loss of any is the end of the packet.
    pub(crate) fn fragments(self, count: usize) -> Vec<Origin> {
        let created_at = self.created_at;
        self.tag.fragments(count).into_iter().map(|tag| Origin { created_at, tag }).collect()
    }

    /// Returns the origin of the packet whose fragments had these.
    pub(crate) fn joined(origins: Vec<Origin>) -> Origin {
        let created_at = origins.first().map_or(Time::ZERO, |origin| origin.created_at);
        Origin { created_at, tag: Tag::joined(origins.into_iter().map(|origin| origin.tag)) }
    }

    /// Returns the origin of each packet that the one carried.
    pub fn split(self) -> Vec<Origin> {
        let (tags, times) = self.tag.split();
        let first = std::iter::repeat(self.created_at);
        let times = times.into_iter().chain(first);
        tags.into_iter().zip(times).map(|(tag, created_at)| Origin { created_at, tag }).collect()
    }

    /// Ends a packet that does not come out of a unit, and keeps the time.
    pub fn end(&mut self, why: Why) {
        ledger::with_entry(Entry::Dropped(why), || drop(self.tag.take()));
    }

    /// Ends a packet whose bytes are gone.
    pub fn lose(self, why: Why) {
        ledger::with_entry(Entry::Dropped(why), || drop(self));
    }
}

impl Inner {
    #[inline]
    fn start(&self) -> usize {
        usize::from(self.start)
    }

    #[inline]
    fn header(&self) -> &[u8] {
        &self.head[self.start()..]
    }

    /// Writes the headers from `start` on, and always the end that [`Packet::digest`] reads.
    #[inline]
    fn write_head(&mut self, head: &[u8; HEAD], start: usize) {
        self.head[HEAD - USUAL..].copy_from_slice(&head[HEAD - USUAL..]);
        if start < HEAD - USUAL {
            self.write_begin(head);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_begin(&mut self, head: &[u8; HEAD]) {
        self.head[..HEAD - USUAL].copy_from_slice(&head[..HEAD - USUAL]);
    }
}

impl PartialEq for Inner {
    fn eq(&self, other: &Inner) -> bool {
        self.header() == other.header()
            && (self.len, self.created_at) == (other.len, other.created_at)
            && self.body == other.body
    }
}

impl Eq for Inner {}

/// Maximum number of delivered packets in the free list.
const MOST_SPARE: usize = 1024;

thread_local! {
    /// Free list of delivered packets: reuse is cheaper than reallocation.
    ///
    /// The oldest is first, so that consecutive packets stay adjacent in memory, where the processor
    /// prefetches.
    static SPARE: RefCell<VecDeque<Box<Inner>>> = const { RefCell::new(VecDeque::new()) };
}

impl Packet {
    /// Creates a packet with this head and elided zeros, reusing a delivered one. It allocates if there is
    /// none.
    #[inline]
    fn written(head: &[u8; HEAD], start: usize, zeros: u32) -> Packet {
        let len = (HEAD - start) as u32 + zeros;
        let (body, created_at) = (Body::Zeros(zeros), Time::ZERO);
        let Some(mut inner) = SPARE.with_borrow_mut(VecDeque::pop_front) else {
            let (start, tag) = (start as u8, Tag::none());
            return Packet(Box::new(Inner { head: *head, start, len, tag, body, created_at }));
        };
        inner.write_head(head, start);
        (inner.start, inner.len, inner.body, inner.created_at) = (start as u8, len, body, created_at);
        Packet(inner)
    }

    /// Recycles the memory of a delivered packet. Dropping it does as well, but costs more.
    #[inline]
    pub fn recycle(mut self) {
        if self.0.tag.is_set() {
            self.0.tag.end();
        }
        self.0.tag.clear();
        self.0.body = Body::Zeros(0);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MOST_SPARE {
                spare.push_back(self.0);
            }
        });
    }

    /// Drops the packet, and those that it carries, for a reason.
    #[cold]
    pub fn lose(self, why: Why) {
        ledger::with_entry(Entry::Dropped(why), || self.recycle());
    }

    /// Returns a copy that goes its own way, as for a member of a group. It is counted in the packet's account, while a
    /// clone has none.
    pub fn copy(&self) -> Packet {
        let mut copy = self.clone();
        if let Body::Carried(content) = &self.0.body {
            copy.0.body = Body::Carried(content.boxed_copy());
        }
        copy.0.tag = self.0.tag.copy();
        copy
    }

    /// Returns a copy for a branch of a group, as [`Packet::copy`] does.
    ///
    /// Of a fragment, the copies for one branch are those of a copy of the packet. Branches come in one order, and then
    /// [`Packet::replaced`].
    pub fn branch(&self) -> Packet {
        if matches!(self.0.body, Body::Carried(_)) {
            return self.copy();
        }
        let mut copy = self.clone();
        copy.0.tag = self.0.tag.branch();
        copy
    }

    /// Recycles a packet in whose place are its copies.
    pub fn replaced(mut self) {
        self.0.tag.replace();
        self.recycle();
    }

    /// Returns `true` if the packet is in an account.
    #[inline]
    pub fn is_accounted(&self) -> bool {
        self.0.tag.is_set()
    }

    /// Returns `true` if the packet neither is nor was in an account.
    pub fn is_new(&self) -> bool {
        self.0.tag.is_empty()
    }

    /// Returns the number of the account that its sender has entered it into, if one.
    pub fn entered(&self) -> Option<u32> {
        (!self.is_new()).then(|| self.account())
    }

    /// Returns the number of the packet's tag; zero without one.
    #[inline]
    pub(crate) fn account(&self) -> u32 {
        self.0.tag.account()
    }

    /// Returns the number of its account, present or past; zero without one.
    pub(crate) fn known_account(&self) -> u32 {
        self.0.tag.known()
    }

    pub(crate) fn tag(&self) -> &Tag {
        &self.0.tag
    }

    #[inline]
    pub(crate) fn tag_mut(&mut self) -> &mut Tag {
        &mut self.0.tag
    }

    /// Removes and returns the packet's origin, for another form of it.
    #[inline]
    pub fn take_origin(&mut self) -> Origin {
        Origin { created_at: self.0.created_at, tag: self.0.tag.take() }
    }

    /// Consumes the packet and returns its origin, for units of bytes. It stands for all packets that the packet carries.
    #[inline]
    pub fn into_origin(mut self) -> Origin {
        let mut origin = self.take_origin();
        if let Body::Carried(content) = &self.0.body {
            let times = content.times();
            origin.tag = ledger::gathered(|| drop((std::mem::take(&mut origin.tag), self)));
            origin.tag.know_times(times);
            return origin;
        }
        self.recycle();
        origin
    }

    /// Sets the origin of a packet that was restored, or is another form of one.
    #[inline]
    pub fn set_origin(&mut self, origin: Origin) {
        (self.0.created_at, self.0.tag) = (origin.created_at, origin.tag);
    }

    /// Creates a packet with `header_len` zero header bytes and `zeros` elided payload bytes. The header is
    /// filled with [`Packet::header_mut`].
    ///
    /// # Panics
    /// Panics if the header does not fit. IPv6 with a Quick-Start option and TCP with all of its options fit.
    #[inline]
    pub fn new(header_len: usize, zeros: u32) -> Packet {
        assert!(header_len <= HEAD, "a header of {header_len} bytes; there is room for {HEAD}");
        Packet::written(&[0; HEAD], HEAD - header_len, zeros)
    }

    /// Creates a packet with the header of this one and `zeros` elided payload bytes. It is one of many that
    /// are alike.
    #[inline]
    pub fn like(&self, zeros: u32) -> Packet {
        Packet::written(&self.0.head, self.0.start(), zeros)
    }

    /// Creates a packet of real bytes, as from a capture or an interface.
    pub fn from_bytes(bytes: &[u8]) -> Packet {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_OF_WHOLE));
        let mut packet = Packet::new(head.len(), 0);
        packet.header_mut().copy_from_slice(head);
        if !rest.is_empty() {
            packet.set_body(Body::Bytes(rest.to_vec()));
        }
        packet
    }

    /// Creates a packet of real bytes from its first and its other ones. It is that of [`Packet::from_bytes`] of both.
    pub fn from_parts(head: &[u8], mut rest: Vec<u8>) -> Packet {
        if head.len() > HEAD_OF_WHOLE {
            return Packet::from_bytes(&[head, &rest].concat());
        }
        let count = rest.len().min(HEAD_OF_WHOLE - head.len());
        let mut packet = Packet::new(head.len() + count, 0);
        let (start, end) = packet.header_mut().split_at_mut(head.len());
        start.copy_from_slice(head);
        end.copy_from_slice(&rest[..count]);
        rest.drain(..count);
        if !rest.is_empty() {
            packet.set_body(Body::Bytes(rest));
        }
        packet
    }

    /// Creates a packet with `header_len` zero header bytes and carried content.
    ///
    /// # Panics
    /// Panics if the header does not fit, as in [`Packet::new`].
    #[inline]
    pub fn carrying(header_len: usize, content: Box<dyn Carried>) -> Packet {
        Packet::new(header_len, 0).with_body(Body::Carried(content))
    }

    /// Returns carried content of type `T`; `None` if the packet carries anything else.
    #[inline]
    pub fn carried<T: Carried>(&self) -> Option<&T> {
        match &self.0.body {
            Body::Carried(content) => content.downcast_ref(),
            Body::Zeros(_) | Body::Bytes(_) => None,
        }
    }

    /// Returns carried content of type `T`, to change; `None` if the packet carries anything else.
    #[inline]
    pub fn carried_mut<T: Carried>(&mut self) -> Option<&mut T> {
        match &mut self.0.body {
            Body::Carried(content) => content.downcast_mut(),
            Body::Zeros(_) | Body::Bytes(_) => None,
        }
    }

    /// Consumes the packet and returns its carried content; `None` unless that is a `T`.
    #[inline]
    pub fn into_carried<T: Carried>(self) -> Option<Box<T>> {
        match self.into_body() {
            Body::Carried(content) => content.downcast(),
            Body::Zeros(_) | Body::Bytes(_) => None,
        }
    }

    /// Replaces the body of the packet.
    pub fn with_body(mut self, body: Body) -> Packet {
        self.set_body(body);
        self
    }

    fn set_body(&mut self, body: Body) {
        self.0.body = body;
        self.count();
    }

    /// Updates the length.
    fn count(&mut self) {
        self.0.len = (HEAD - self.0.start() + self.0.body.len()) as u32;
    }

    /// Returns the packet's length in bytes, elided ones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len as usize
    }

    /// Returns `true` if the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the header bytes. A packet created here has all headers in them, one that arrived whole its
    /// first bytes.
    #[inline]
    pub fn header(&self) -> &[u8] {
        self.0.header()
    }

    /// Returns the header bytes, to change.
    #[inline]
    pub fn header_mut(&mut self) -> &mut [u8] {
        let start = self.0.start();
        &mut self.0.head[start..]
    }

    /// Returns the last `N` bytes of the header, if it has as many.
    #[inline]
    pub fn header_end<const N: usize>(&self) -> Option<&[u8; N]> {
        self.0.head.last_chunk().filter(|_| N <= HEAD - self.0.start())
    }

    /// Returns the last `N` bytes of the header, to change, if it has as many.
    #[inline]
    pub fn header_end_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let header_len = HEAD - self.0.start();
        self.0.head.last_chunk_mut().filter(|_| N <= header_len)
    }

    /// Returns the content after the header bytes.
    #[inline]
    pub fn body(&self) -> &Body {
        &self.0.body
    }

    /// Consumes the packet and returns the content after the header bytes.
    pub fn into_body(mut self) -> Body {
        let body = std::mem::replace(&mut self.0.body, Body::Zeros(0));
        self.recycle();
        body
    }

    /// Returns the number of elided zeros at the end.
    #[inline]
    pub fn elided(&self) -> usize {
        match self.0.body {
            Body::Zeros(count) => count as usize,
            Body::Bytes(_) | Body::Carried(_) => 0,
        }
    }

    /// Prepends `len` zero bytes and returns them to be filled: encapsulation.
    ///
    /// # Panics
    /// Panics if they do not fit, as in [`Packet::new`].
    pub fn prepend(&mut self, len: usize) -> &mut [u8] {
        if len > self.0.start() {
            self.spill();
        }
        assert!(len <= self.0.start(), "a header of {len} bytes; there is room for {HEAD}");
        self.0.start -= len as u8;
        self.0.len += len as u32;
        let start = self.0.start();
        let header = &mut self.0.head[start..start + len];
        header.fill(0);
        header
    }

    /// Prepends a complete header: [`Packet::prepend`] for bytes that are ready.
    ///
    /// # Panics
    /// Panics if it does not fit, as in [`Packet::new`].
    #[inline]
    pub fn prepend_header<const N: usize>(&mut self, header: &[u8; N]) {
        let Some(start) = self.0.start().checked_sub(N) else {
            self.prepend(N).copy_from_slice(header);
            return;
        };
        self.0.head[start..start + N].copy_from_slice(header);
        (self.0.start, self.0.len) = (start as u8, self.0.len + N as u32);
    }

    /// Removes up to `len` bytes from the front: decapsulation.
    #[inline]
    pub fn trim_front(&mut self, len: usize) {
        if len < HEAD - self.0.start() {
            self.0.start += len as u8;
            self.0.len -= len as u32;
        } else {
            self.trim_all(len);
        }
    }

    /// Removes `len` bytes from the front, all header bytes among them.
    fn trim_all(&mut self, len: usize) {
        let header_len = HEAD - self.0.start();
        self.0.start += len.min(header_len) as u8;
        match &mut self.0.body {
            Body::Zeros(count) => *count -= (len.saturating_sub(header_len) as u32).min(*count),
            Body::Bytes(_) => self.refill(len.saturating_sub(header_len)),
            Body::Carried(_) => {}
        }
        self.count();
    }

    /// Cuts the packet to its first `len` bytes, dropping link padding. Does nothing if it is shorter.
    pub fn truncate(&mut self, len: usize) {
        let header_len = HEAD - self.0.start();
        match &mut self.0.body {
            Body::Zeros(count) => *count = (*count).min(len.saturating_sub(header_len) as u32),
            Body::Bytes(bytes) => bytes.truncate(len.saturating_sub(header_len)),
            Body::Carried(carried) => carried.truncate(len.saturating_sub(header_len)),
        }
        if len < header_len {
            let start = self.0.start();
            self.0.head.copy_within(start..start + len, HEAD - len);
            self.0.start = (HEAD - len) as u8;
        }
        self.count();
    }

    /// Flips one bit, counted from the most significant of the first byte. In an elided payload this writes the payload
    /// out first. Does nothing beyond the packet's end.
    pub fn flip_bit(&mut self, bit: u64) {
        let (at, mask) = (usize::try_from(bit / 8).unwrap_or(usize::MAX), 0x80 >> (bit % 8));
        if at >= self.len() {
            return;
        }
        let header_len = self.header().len();
        if at < header_len {
            self.header_mut()[at] ^= mask;
            return;
        }
        if let Body::Zeros(count) = self.0.body {
            self.0.body = Body::Bytes(vec![0; count as usize]);
        }
        match &mut self.0.body {
            Body::Bytes(bytes) => bytes[at - header_len] ^= mask,
            Body::Carried(carried) => carried.flip_bit(bit - header_len as u64 * 8),
            Body::Zeros(_) => {}
        }
    }

    /// Returns every byte of the packet, elided zeros written out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.write_to(&mut bytes);
        bytes
    }

    /// Appends all bytes of the packet to `out`, elided zeros written out. Carried content appends its own
    /// bytes.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.header());
        match &self.0.body {
            Body::Zeros(count) => out.resize(out.len() + *count as usize, 0),
            Body::Bytes(bytes) => out.extend_from_slice(bytes),
            Body::Carried(carried) => carried.write_to(out),
        }
    }

    /// Returns the time at which the application passed the data. The one-way delay counts from it.
    #[inline]
    pub fn created_at(&self) -> Time {
        self.0.created_at
    }

    /// Sets [`Packet::created_at`].
    #[inline]
    pub fn set_created_at(&mut self, created_at: Time) {
        self.0.created_at = created_at;
    }

    /// Returns eight bytes that differ between different packets.
    ///
    /// They are the end of the header, with ports, sequence numbers, checksums and options.
    #[inline]
    pub fn digest(&self) -> u64 {
        let tail: [u8; 8] = self.0.head[HEAD - 8..].try_into().expect("eight bytes");
        u64::from_le_bytes(tail) ^ (self.len() as u64) << 32
    }

    /// Moves the header into the body, to make room for more headers than [`HEAD`] holds.
    fn spill(&mut self) {
        self.0.body = Body::Bytes(self.to_vec());
        self.0.start = HEAD as u8;
    }

    /// Removes `skip` bytes of a real body, whose first bytes replace an empty header.
    fn refill(&mut self, skip: usize) {
        let Body::Bytes(bytes) = &mut self.0.body else { return };
        bytes.drain(..skip.min(bytes.len()));
        if usize::from(self.0.start) == HEAD {
            let bytes = std::mem::take(bytes);
            let origin = self.take_origin();
            *self = Packet::from_bytes(&bytes);
            self.set_origin(origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(len: usize) -> Vec<u8> {
        (0..len).map(|i| i as u8).collect()
    }

    #[test]
    fn whole_packets_keep_their_bytes() {
        for len in [0, 1, HEAD_OF_WHOLE, HEAD_OF_WHOLE + 1, 1500] {
            assert_eq!(Packet::from_bytes(&numbered(len)).to_vec(), numbered(len));
        }
    }

    /// A reused packet has nothing of the old one, nor have headers prepended later.
    #[test]
    fn packets_written_anew_have_nothing_of_the_old() {
        for len in [0, 1, 20, USUAL, USUAL + 1, HEAD_OF_WHOLE] {
            let fresh = Packet::from_bytes(&numbered(len));
            Packet::from_bytes(&[0xff; HEAD_OF_WHOLE]).recycle();
            let mut anew = Packet::from_bytes(&numbered(len));
            assert_eq!((&anew, anew.digest()), (&fresh, fresh.digest()));
            anew.prepend(HEAD - len);
            assert!(anew.to_vec()[..HEAD - len].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn encapsulation_is_undone_by_decapsulation() {
        for len in [20, 400] {
            let mut packet = Packet::from_bytes(&numbered(len));
            for _ in 0..9 {
                packet.prepend(20).fill(7);
                packet.prepend_header(&[7; 20]);
            }
            assert_eq!(packet.len(), len + 360);
            assert_eq!(packet.to_vec()[..360], [7; 360]);
            packet.trim_front(360);
            assert_eq!(packet.to_vec(), numbered(len));
            assert!(packet.header().len() >= len.min(20));
        }
    }

    #[test]
    fn a_bit_is_flipped_wherever_it_is() {
        for whole in [false, true] {
            for bit in [0, 159, 160, 1599, 1600, u64::MAX] {
                let mut packet = if whole { Packet::from_bytes(&[0; 200]) } else { Packet::new(20, 180) };
                packet.flip_bit(bit);
                let bytes = packet.to_vec();
                let ones: Vec<u64> =
                    (0..1600).filter(|i| bytes[*i as usize / 8] & 0x80 >> (i % 8) != 0).collect();
                assert_eq!(ones, if bit < 1600 { vec![bit] } else { vec![] });
            }
        }
    }

    #[test]
    fn elided_payload_is_counted_and_cut() {
        let mut packet = Packet::new(40, 1000);
        assert_eq!((packet.len(), packet.elided()), (1040, 1000));
        packet.truncate(100);
        assert_eq!((packet.len(), packet.elided()), (100, 60));
        packet.truncate(10);
        assert_eq!((packet.len(), packet.header().len()), (10, 10));
        packet.trim_front(50);
        assert!(packet.is_empty());
    }
}
