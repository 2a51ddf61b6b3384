//! IPv4 (RFC 791): header with options, checksum, in-place forwarding changes (RFC 1624).
//!
//! Fragment fields are read and written; reassembly: [`fragments`](super::fragments).

use std::net::Ipv4Addr;

use crate::bytes::{array, be16, put16, put32};
use crate::ip::checksum::{self, Accumulator, Pseudo};
use crate::ip::fields::{Ecn, Protocol, TrafficClass};
use crate::ip::upper::Upper;
use crate::{Error, Layer};

mod options;
pub use options::{OptionItem, OptionItems, Options};

/// Length in bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Length in bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

/// Byte ranges of the fields.
mod field {
    use std::ops::Range;
    pub(super) const VER_IHL: usize = 0;
    pub(super) const TOS: usize = 1;
    pub(super) const LENGTH: usize = 2;
    pub(super) const IDENT: usize = 4;
    pub(super) const FLAGS: usize = 6;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: usize = 10;
    pub(super) const SRC: Range<usize> = 12..16;
    pub(super) const DST: Range<usize> = 16..20;
}

/// The first octet of a header without options.
const PLAIN: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// A view of an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<'a> Packet<&'a [u8; HEADER_LEN]> {
    /// Returns a view of a header without options, of a packet of `len` bytes. `bytes` is the start of the
    /// packet. `None` means that the header has options, or an incorrect length.
    #[inline]
    pub fn plain(bytes: &'a [u8], len: usize) -> Option<Packet<&'a [u8; HEADER_LEN]>> {
        let packet = Packet { buffer: bytes.first_chunk()? };
        let fits = packet.buffer[field::VER_IHL] == PLAIN && (HEADER_LEN..=len).contains(&packet.total_len());
        fits.then_some(packet)
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Returns a view without any check: accessors panic if the header is not all there.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Packet<T> {
        Packet { buffer }
    }

    /// Creates a view of a packet whose bytes are all there. Bytes after the total length are ignored.
    ///
    /// # Errors
    /// Returns an error if the header or the packet is truncated, or version or lengths are malformed. The
    /// checksum is not looked at: see [`Packet::verify_checksum`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Packet<T>, Error> {
        Packet::new_elided(buffer, 0)
    }

    /// Creates a view of a packet that ends with `elided` zero bytes, not in `buffer`.
    ///
    /// # Errors
    /// Returns the errors of [`Packet::new_checked`].
    #[inline]
    pub fn new_elided(buffer: T, elided: usize) -> Result<Packet<T>, Error> {
        let packet = Packet { buffer };
        packet.check(elided)?;
        Ok(packet)
    }

    #[inline]
    fn check(&self, elided: usize) -> Result<(), Error> {
        let have = self.bytes().len();
        if have < HEADER_LEN {
            return Err(Error::truncated(Layer::Ipv4, 0, HEADER_LEN, have));
        }
        if self.bytes()[field::VER_IHL] >> 4 != 4 {
            return Err(Error::malformed(Layer::Ipv4, field::VER_IHL, "version is not 4"));
        }
        let header_len = self.header_len();
        if header_len < HEADER_LEN {
            return Err(Error::malformed(Layer::Ipv4, field::VER_IHL, "header length under 20"));
        }
        if have < header_len {
            return Err(Error::truncated(Layer::Ipv4, HEADER_LEN, header_len, have));
        }
        self.check_total_len(have.saturating_add(elided))
    }

    #[inline]
    fn check_total_len(&self, have: usize) -> Result<(), Error> {
        let total_len = self.total_len();
        if total_len < self.header_len() {
            return Err(Error::malformed(Layer::Ipv4, field::LENGTH, "total length under header length"));
        }
        if total_len > have {
            return Err(Error::truncated(Layer::Ipv4, field::LENGTH, total_len, have));
        }
        Ok(())
    }

    /// Returns the buffer.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Returns the header's length in bytes, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes()[field::VER_IHL] & 0x0f) * 4
    }

    /// Returns DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> TrafficClass {
        TrafficClass(self.bytes()[field::TOS])
    }

    /// Returns the total length field: header and payload, in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        be16(self.bytes(), field::LENGTH).into()
    }

    /// Returns the identification.
    #[inline]
    pub fn ident(&self) -> u16 {
        be16(self.bytes(), field::IDENT)
    }

    /// Returns `true` if the don't-fragment flag is set.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        be16(self.bytes(), field::FLAGS) & DONT_FRAGMENT != 0
    }

    /// Returns `true` if the more-fragments flag is set.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        be16(self.bytes(), field::FLAGS) & MORE_FRAGMENTS != 0
    }

    /// Returns the offset of this fragment's payload in bytes (the field counts units of 8).
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(be16(self.bytes(), field::FLAGS) & OFFSET_MASK) * 8
    }

    /// Returns the time to live, in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.bytes()[field::TTL]
    }

    /// Returns the protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol(self.bytes()[field::PROTOCOL])
    }

    /// Returns the header checksum as it stands there.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes(), field::CHECKSUM)
    }

    /// Returns the source address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        array::<4>(self.bytes(), field::SRC.start).into()
    }

    /// Returns the destination address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        array::<4>(self.bytes(), field::DST.start).into()
    }

    /// Returns the options as they stand there, padding included.
    #[inline]
    pub fn options(&self) -> &[u8] {
        &self.bytes()[HEADER_LEN..self.header_len()]
    }

    /// Returns the payload's bytes that are there.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let end = self.total_len().min(self.bytes().len());
        &self.bytes()[self.header_len()..end]
    }

    /// Returns the payload's length in bytes, elided ones included.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.total_len() - self.header_len()
    }

    /// Returns the pseudo-header of the transport carried.
    #[inline]
    pub fn pseudo(&self) -> Pseudo {
        Pseudo::v4(self.src(), self.dst(), self.protocol())
    }

    /// Returns the content of the packet.
    #[inline]
    pub fn upper(&self) -> Upper<'_> {
        let bytes = self.payload();
        Upper {
            protocol: self.protocol(),
            bytes,
            elided: self.payload_len() - bytes.len(),
            offset: self.header_len(),
            is_later_fragment: self.fragment_offset() != 0,
            is_fragment: self.more_fragments() || self.fragment_offset() != 0,
            pseudo: self.pseudo(),
        }
    }

    /// Checks the header checksum.
    ///
    /// # Errors
    /// `Checksum` if it does not match.
    #[inline]
    pub fn verify_checksum(&self) -> Result<(), Error> {
        let sum = match self.bytes().first_chunk::<HEADER_LEN>() {
            Some(header) if header[field::VER_IHL] == PLAIN => Accumulator::ZERO.add_bytes(header),
            _ => Accumulator::ZERO.add_bytes(&self.bytes()[..self.header_len()]),
        };
        if sum.is_valid() { Ok(()) } else { Err(Error::checksum(Layer::Ipv4, field::CHECKSUM)) }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Returns `true` unless the time to live, which it decrements, has expired. Updates the checksum (RFC
    /// 1624). Unchanged if it was 0 or 1, or the header is missing: drop the packet.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        let Some(header) = self.buffer.as_mut().first_chunk_mut::<HEADER_LEN>() else { return false };
        if header[field::TTL] <= 1 {
            return false;
        }
        header[field::TTL] -= 1;
        // A hop counts 256 in its word.
        let sum = checksum::update(be16(header, field::CHECKSUM), 0x0100, 0);
        put16(header, field::CHECKSUM, sum);
        true
    }

    /// Writes the ECN codepoint and updates the checksum in place.
    #[inline]
    pub fn mark_ecn(&mut self, ecn: Ecn) {
        self.set_traffic_class(self.traffic_class().with_ecn(ecn));
    }

    /// Writes DSCP and ECN codepoint and updates the checksum in place.
    #[inline]
    pub fn set_traffic_class(&mut self, class: TrafficClass) {
        self.update_word(field::VER_IHL, |word| word & 0xff00 | u16::from(class.0));
    }

    /// Writes the identification and updates the checksum in place.
    #[inline]
    pub fn update_ident(&mut self, ident: u16) {
        self.update_word(field::IDENT, |_| ident);
    }

    #[inline]
    fn update_word(&mut self, at: usize, change: impl FnOnce(u16) -> u16) {
        let old = be16(self.bytes(), at);
        let new = change(old);
        let sum = checksum::update(self.checksum(), old, new);
        put16(self.buffer.as_mut(), at, new);
        put16(self.buffer.as_mut(), field::CHECKSUM, sum);
    }

    /// Writes the checksum over the header as it stands.
    #[inline]
    pub fn fill_checksum(&mut self) {
        let header_len = self.header_len();
        let header = &mut self.buffer.as_mut()[..header_len];
        put16(header, field::CHECKSUM, 0);
        let sum = checksum::checksum(header);
        put16(header, field::CHECKSUM, sum);
    }

    /// Returns the payload's bytes that are there, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_len()..self.total_len().min(self.bytes().len());
        &mut self.buffer.as_mut()[range]
    }
}

/// An IPv4 header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: Protocol,
    /// Payload length in bytes, elided ones included.
    pub payload_len: usize,
    /// Time to live, in hops.
    pub ttl: u8,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Identification.
    pub ident: u16,
    /// Don't-fragment flag.
    pub dont_fragment: bool,
    /// More-fragments flag.
    pub more_fragments: bool,
    /// Fragment offset in bytes, a multiple of 8.
    pub fragment_offset: usize,
    /// Options.
    pub options: Options,
}

impl Repr {
    /// Creates a plain header: no options, no fragmentation, don't-fragment set, 64 hops.
    #[inline]
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, payload_len: usize) -> Repr {
        Repr {
            src,
            dst,
            protocol,
            payload_len,
            ttl: 64,
            traffic_class: TrafficClass::default(),
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            options: Options::EMPTY,
        }
    }

    /// Reads the header of a checked packet. The checksum is not looked at.
    ///
    /// # Errors
    /// Returns an error if an option's length is impossible.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        Ok(Repr {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            payload_len: packet.payload_len(),
            ttl: packet.ttl(),
            traffic_class: packet.traffic_class(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            options: Options::parse(packet.options())?,
        })
    }

    /// Returns the header's length in bytes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.buffer_len()
    }

    /// Writes the header, checksum included, at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`], the total length does not fit in 16 bits, or the fragment
    /// offset is over 65,528 or not a multiple of 8.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let header_len = self.buffer_len();
        let header = &mut buffer[..header_len];
        self.options.emit(&mut header[HEADER_LEN..]);
        let mut words = self.words(header_len);
        // Summed before it is stored: to read back eight bytes that were just written in smaller pieces stalls.
        let sum = words.iter().fold(Accumulator::ZERO, |sum, &word| sum.add(word.into()));
        words[2] |= u32::from(sum.add_bytes(&header[HEADER_LEN..]).checksum());
        for (index, word) in words.into_iter().enumerate() {
            put32(header, 4 * index, word);
        }
    }

    /// Returns the header without options in words of 32 bits, its checksum zero.
    #[inline]
    fn words(&self, header_len: usize) -> [u32; HEADER_LEN / 4] {
        let total_len =
            u16::try_from(header_len + self.payload_len).expect("an IPv4 packet has at most 65535 bytes");
        let words = (header_len / 4) as u32;
        [
            (0x40 | words) << 24 | u32::from(self.traffic_class.0) << 16 | u32::from(total_len),
            u32::from(self.ident) << 16 | u32::from(self.flags_and_offset()),
            u32::from(self.ttl) << 24 | u32::from(self.protocol.0) << 16,
            self.src.to_bits(),
            self.dst.to_bits(),
        ]
    }

    #[inline]
    fn flags_and_offset(&self) -> u16 {
        assert!(self.fragment_offset.is_multiple_of(8), "a fragment starts at a multiple of 8 bytes");
        let units = u16::try_from(self.fragment_offset / 8).ok().filter(|&units| units <= OFFSET_MASK);
        let mut word = units.expect("a fragment offset is at most 65528 bytes");
        if self.dont_fragment {
            word |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            word |= MORE_FRAGMENTS;
        }
        word
    }
}

#[cfg(test)]
mod tests;
