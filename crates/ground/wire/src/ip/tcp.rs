//! TCP (RFC 9293) with its options. MSS, window scale and timestamps (RFC 7323), SACK (RFC 2018), ECN flags
//! (RFC 3168). Options of other kinds are kept unchanged.

use crate::bytes::{be16, be32, put16, put32};
use crate::ip::checksum::{Accumulator, Pseudo};
use crate::{Error, Layer};

mod flags;
mod options;
mod seq;

pub use flags::Flags;
pub use options::{Options, SackBlocks, Unknown};
pub use seq::SeqNumber;

/// Length in bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Length in bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

/// Offsets of the fields.
mod field {
    pub(super) const SRC_PORT: usize = 0;
    pub(super) const DST_PORT: usize = 2;
    pub(super) const SEQ: usize = 4;
    pub(super) const ACK: usize = 8;
    pub(super) const OFFSET_FLAGS: usize = 12;
    pub(super) const WINDOW: usize = 14;
    pub(super) const CHECKSUM: usize = 16;
    pub(super) const URGENT: usize = 18;
}

/// A view of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<T: AsRef<[u8]>> {
    buffer: T,
    elided: usize,
}

impl<T: AsRef<[u8]>> Segment<T> {
    /// Returns a view without any check: accessors panic if the header is not all there.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Segment<T> {
        Segment { buffer, elided: 0 }
    }

    /// Returns a view of a segment that is all of `buffer`.
    ///
    /// # Errors
    /// Returns an error if the header is truncated or the data offset is under 5 words. The checksum is not
    /// looked at.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Segment<T>, Error> {
        Segment::new_elided(buffer, 0)
    }

    /// Creates a view of a segment that fills `buffer`, followed by `elided` zero bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Segment::new_checked`]. The header is never elided.
    #[inline]
    pub fn new_elided(buffer: T, elided: usize) -> Result<Segment<T>, Error> {
        let have = buffer.as_ref().len();
        if have < HEADER_LEN {
            return Err(Error::truncated(Layer::Tcp, 0, HEADER_LEN, have));
        }
        let segment = Segment { buffer, elided };
        match segment.header_len() {
            len if len < HEADER_LEN => {
                Err(Error::malformed(Layer::Tcp, field::OFFSET_FLAGS, "data offset under 5"))
            }
            len if len > have => Err(Error::truncated(Layer::Tcp, HEADER_LEN, len, have)),
            _ => Ok(segment),
        }
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

    /// Returns the source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        be16(self.bytes(), field::SRC_PORT)
    }

    /// Returns the destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        be16(self.bytes(), field::DST_PORT)
    }

    /// Returns the sequence number.
    #[inline]
    pub fn seq(&self) -> SeqNumber {
        SeqNumber(be32(self.bytes(), field::SEQ))
    }

    /// Returns the acknowledgement number, if the ACK flag says it is one.
    #[inline]
    pub fn ack(&self) -> Option<SeqNumber> {
        self.flags().contains(Flags::ACK).then(|| SeqNumber(be32(self.bytes(), field::ACK)))
    }

    /// Returns the header's length in bytes, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes()[field::OFFSET_FLAGS] >> 4) * 4
    }

    /// Returns all flags. The reserved bits are ignored (RFC 9293, section 3.1).
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags::from_bits(be16(self.bytes(), field::OFFSET_FLAGS))
    }

    /// Returns the window field, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.bytes(), field::WINDOW)
    }

    /// Returns the checksum as it stands there.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes(), field::CHECKSUM)
    }

    /// Returns the urgent pointer, if the URG flag says it is one.
    #[inline]
    pub fn urgent(&self) -> Option<u16> {
        self.flags().contains(Flags::URG).then(|| be16(self.bytes(), field::URGENT))
    }

    /// Returns the options as they stand there, padding included.
    #[inline]
    pub fn options(&self) -> &[u8] {
        &self.bytes()[HEADER_LEN..self.header_len()]
    }

    /// Returns the payload's bytes that are there.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[self.header_len()..]
    }

    /// Returns the payload's length in bytes, elided ones included.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.bytes().len() + self.elided - self.header_len()
    }

    /// Returns the sequence space of the segment: payload, SYN and FIN (RFC 9293, section 3.4).
    #[inline]
    pub fn segment_len(&self) -> u32 {
        let flags = self.flags();
        self.payload_len() as u32
            + u32::from(flags.contains(Flags::SYN))
            + u32::from(flags.contains(Flags::FIN))
    }

    /// Checks the checksum, elided payload counted as zeros.
    ///
    /// # Errors
    /// `Checksum` if it does not match.
    #[inline]
    pub fn verify_checksum(&self, pseudo: &Pseudo) -> Result<(), Error> {
        if self.sum(pseudo).is_valid() { Ok(()) } else { Err(Error::checksum(Layer::Tcp, field::CHECKSUM)) }
    }

    #[inline]
    fn sum(&self, pseudo: &Pseudo) -> Accumulator {
        pseudo.datagram(self.bytes(), self.elided)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Segment<T> {
    /// Writes the checksum of header, payload and elided zeros.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: &Pseudo) {
        put16(self.buffer.as_mut(), field::CHECKSUM, 0);
        let sum = self.sum(pseudo).checksum();
        put16(self.buffer.as_mut(), field::CHECKSUM, sum);
    }

    /// Writes the window field; the checksum is the caller's to fill again.
    #[inline]
    pub fn write_window(&mut self, window: u16) {
        put16(self.buffer.as_mut(), field::WINDOW, window);
    }

    /// Returns the payload's bytes that are there, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let header_len = self.header_len();
        &mut self.buffer.as_mut()[header_len..]
    }
}

/// A TCP header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// Acknowledgement number; its presence is the ACK flag.
    pub ack: Option<SeqNumber>,
    /// The other flags: SYN, FIN, RST, PSH, ECE, CWR, AE. ACK and URG here are ignored.
    pub flags: Flags,
    /// Window field, already shifted down by the window scale.
    pub window: u16,
    /// Urgent pointer; its presence is the URG flag.
    pub urgent: Option<u16>,
    /// Options.
    pub options: Options,
}

impl Repr {
    /// Creates a header without flags, acknowledgement, options or window.
    #[inline]
    pub const fn new(src_port: u16, dst_port: u16, seq: SeqNumber) -> Repr {
        let (flags, options) = (Flags::NONE, Options::NONE);
        Repr { src_port, dst_port, seq, ack: None, flags, window: 0, urgent: None, options }
    }

    /// Reads the header of a checked segment. The checksum is not looked at.
    ///
    /// # Errors
    /// Returns an error if an option's length is impossible (RFC 9293, section 3.1, asks for this to be
    /// survived).
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(segment: &Segment<T>) -> Result<Repr, Error> {
        Ok(Repr {
            src_port: segment.src_port(),
            dst_port: segment.dst_port(),
            seq: segment.seq(),
            ack: segment.ack(),
            flags: segment.flags().without(Flags::ACK | Flags::URG),
            window: segment.window(),
            urgent: segment.urgent(),
            options: Options::parse(segment.options())?,
        })
    }

    /// Returns the header's length in bytes, a multiple of 4.
    ///
    /// # Panics
    /// If the options take more than 40 bytes.
    #[inline]
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.buffer_len()
    }

    /// Writes the header, its checksum zero: see [`Segment::fill_checksum`].
    ///
    /// # Panics
    /// If the options take more than 40 bytes, or `buffer` is shorter than [`Repr::buffer_len`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let header_len = self.buffer_len();
        let header = &mut buffer[..header_len];
        let ports = u32::from(self.src_port) << 16 | u32::from(self.dst_port);
        let offset_flags = ((header_len / 4) as u32) << 12 | u32::from(self.all_flags().bits());
        put32(header, field::SRC_PORT, ports);
        put32(header, field::SEQ, self.seq.0);
        put32(header, field::ACK, self.ack.map_or(0, |ack| ack.0));
        put32(header, field::OFFSET_FLAGS, offset_flags << 16 | u32::from(self.window));
        put32(header, field::CHECKSUM, self.urgent.unwrap_or(0).into());
        self.options.emit(&mut header[HEADER_LEN..]);
    }

    /// Returns the flags as they are on the wire.
    #[inline]
    fn all_flags(&self) -> Flags {
        let ack = if self.ack.is_some() { Flags::ACK } else { Flags::NONE };
        let urg = if self.urgent.is_some() { Flags::URG } else { Flags::NONE };
        self.flags.without(Flags::ACK | Flags::URG) | ack | urg
    }
}

#[cfg(test)]
mod tests;
