//! RTP header (RFC 3550, section 5.1): fixed part, contributing sources, one extension, padding.
//!
//! The extension's content (RFC 8285) and the payload formats are not parsed.

mod numbers;

pub use numbers::{Numbers, Place};

use crate::bytes::{be16, be32, put16, put32};
use crate::{Error, Layer};

/// Length in bytes of a header without contributing sources and extension.
pub const HEADER_LEN: usize = 12;

/// Most contributing sources.
pub const MAX_CSRCS: usize = 15;

const VERSION: u8 = 2;
const PADDING: u8 = 0x20;
const EXTENSION: u8 = 0x10;
const MARKER: u8 = 0x80;

/// Offsets of the fields.
mod field {
    pub(super) const FLAGS: usize = 0;
    pub(super) const MARKER_TYPE: usize = 1;
    pub(super) const SEQ: usize = 2;
    pub(super) const TIMESTAMP: usize = 4;
    pub(super) const SSRC: usize = 8;
}

/// A view of an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
    elided: usize,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Returns a view of a packet that is all of `buffer`.
    ///
    /// # Errors
    /// Returns an error if header or extension is truncated, the version is not 2, or announced padding is
    /// zero or exceeds the payload.
    pub fn new_checked(buffer: T) -> Result<Packet<T>, Error> {
        Packet::new_elided(buffer, 0)
    }

    /// Creates a view of a packet that fills `buffer`, followed by `elided` zero bytes. Padding cannot be
    /// elided, since its last byte counts it.
    ///
    /// # Errors
    /// Returns the errors of [`Packet::new_checked`].
    pub fn new_elided(buffer: T, elided: usize) -> Result<Packet<T>, Error> {
        let packet = Packet { buffer, elided };
        packet.need(0, HEADER_LEN)?;
        if packet.bytes()[field::FLAGS] >> 6 != VERSION {
            return Err(Error::malformed(Layer::Rtp, field::FLAGS, "version is not 2"));
        }
        packet.need(HEADER_LEN, packet.fixed_len())?;
        if packet.has(EXTENSION) {
            packet.need(packet.fixed_len(), packet.fixed_len() + 4)?;
            packet.need(packet.fixed_len() + 4, packet.header_len())?;
        }
        packet.check_padding()?;
        Ok(packet)
    }

    fn need(&self, offset: usize, needed: usize) -> Result<(), Error> {
        match self.bytes().len() {
            have if have < needed => Err(Error::truncated(Layer::Rtp, offset, needed, have)),
            _ => Ok(()),
        }
    }

    fn check_padding(&self) -> Result<(), Error> {
        let room = self.total_len() - self.header_len();
        if self.has(PADDING) && !(1..=room).contains(&self.padding_len()) {
            return Err(Error::malformed(Layer::Rtp, self.total_len(), "padding length"));
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    fn total_len(&self) -> usize {
        self.bytes().len().saturating_add(self.elided)
    }

    fn has(&self, flag: u8) -> bool {
        self.bytes()[field::FLAGS] & flag != 0
    }

    /// Returns the length of fixed header and contributing sources.
    fn fixed_len(&self) -> usize {
        HEADER_LEN + 4 * self.csrc_count()
    }

    /// Returns the header's length in bytes, contributing sources and extension included.
    pub fn header_len(&self) -> usize {
        let fixed = self.fixed_len();
        if self.has(EXTENSION) { fixed + 4 + 4 * usize::from(be16(self.bytes(), fixed + 2)) } else { fixed }
    }

    /// Returns the number of contributing sources.
    pub fn csrc_count(&self) -> usize {
        usize::from(self.bytes()[field::FLAGS] & 0x0f)
    }

    /// Returns `true` if the marker bit is set.
    pub fn marker(&self) -> bool {
        self.bytes()[field::MARKER_TYPE] & MARKER != 0
    }

    /// Returns the payload type, 0 to 127.
    pub fn payload_type(&self) -> u8 {
        self.bytes()[field::MARKER_TYPE] & !MARKER
    }

    /// Returns the sequence number.
    pub fn seq(&self) -> u16 {
        be16(self.bytes(), field::SEQ)
    }

    /// Returns the timestamp, in units of the payload's clock.
    pub fn timestamp(&self) -> u32 {
        be32(self.bytes(), field::TIMESTAMP)
    }

    /// Returns the synchronisation source.
    pub fn ssrc(&self) -> u32 {
        be32(self.bytes(), field::SSRC)
    }

    /// Returns the contributing sources.
    pub fn csrcs(&self) -> impl Iterator<Item = u32> {
        (0..self.csrc_count()).map(|index| be32(self.bytes(), HEADER_LEN + 4 * index))
    }

    /// Returns the header extension.
    pub fn extension(&self) -> Option<Extension<'_>> {
        let at = self.fixed_len();
        self.has(EXTENSION).then(|| Extension {
            profile: be16(self.bytes(), at),
            data: &self.bytes()[at + 4..self.header_len()],
        })
    }

    /// Returns the number of padding bytes at the end.
    pub fn padding_len(&self) -> usize {
        match self.bytes().last() {
            Some(&count) if self.has(PADDING) && self.elided == 0 => count.into(),
            _ => 0,
        }
    }

    /// Returns the payload's bytes that are there, without padding.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[self.header_len()..self.bytes().len() - self.padding_len()]
    }

    /// Returns the payload's length in bytes, elided ones included, without padding.
    pub fn payload_len(&self) -> usize {
        self.total_len() - self.header_len() - self.padding_len()
    }
}

/// A header extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The 16 bits the profile defines.
    pub profile: u16,
    /// The words that follow; a multiple of 4 bytes.
    pub data: &'a [u8],
}

/// Up to 15 contributing sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Csrcs {
    len: u8,
    list: [u32; MAX_CSRCS],
}

impl Csrcs {
    /// Returns `true` if the source was added, `false` if there are 15.
    pub fn push(&mut self, csrc: u32) -> bool {
        let Some(slot) = self.list.get_mut(usize::from(self.len)) else { return false };
        *slot = csrc;
        self.len += 1;
        true
    }

    /// Returns the sources in order.
    pub fn as_slice(&self) -> &[u32] {
        &self.list[..self.len.into()]
    }
}

/// An RTP header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// Marker bit.
    pub marker: bool,
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Sequence number.
    pub seq: u16,
    /// Timestamp, in units of the payload's clock.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Contributing sources.
    pub csrcs: Csrcs,
    /// Header extension.
    pub extension: Option<Extension<'a>>,
    /// Bytes of padding after the payload, the last of which counts them; 0 for none.
    pub padding_len: u8,
}

impl<'a> Repr<'a> {
    /// Creates a header without marker, contributing sources, extension and padding.
    pub fn new(payload_type: u8, seq: u16, timestamp: u32, ssrc: u32) -> Repr<'a> {
        let (marker, csrcs, extension, padding_len) = (false, Csrcs::default(), None, 0);
        Repr { marker, payload_type, seq, timestamp, ssrc, csrcs, extension, padding_len }
    }

    /// Reads the header of a checked packet.
    pub fn parse<T: AsRef<[u8]>>(packet: &'a Packet<T>) -> Repr<'a> {
        let mut csrcs = Csrcs::default();
        packet.csrcs().for_each(|csrc| {
            csrcs.push(csrc);
        });
        Repr {
            marker: packet.marker(),
            payload_type: packet.payload_type(),
            seq: packet.seq(),
            timestamp: packet.timestamp(),
            ssrc: packet.ssrc(),
            csrcs,
            extension: packet.extension(),
            padding_len: packet.padding_len() as u8,
        }
    }

    /// Returns the header's length in bytes. Padding is not part of it.
    pub fn buffer_len(&self) -> usize {
        let extension = self.extension.map_or(0, |extension| 4 + extension.data.len());
        HEADER_LEN + 4 * self.csrcs.as_slice().len() + extension
    }

    /// Writes the header. Padding, if any, is the caller's to write after the payload, its last byte the
    /// count.
    ///
    /// # Panics
    /// Panics if `buffer` is shorter than [`Repr::buffer_len`], the payload type is over 127, or the
    /// extension's data is not a multiple of 4 bytes or longer than 65,535 words.
    pub fn emit(&self, buffer: &mut [u8]) {
        assert!(self.payload_type < MARKER, "a payload type has 7 bits");
        let csrcs = self.csrcs.as_slice();
        let padding = if self.padding_len > 0 { PADDING } else { 0 };
        let extension = if self.extension.is_some() { EXTENSION } else { 0 };
        buffer[field::FLAGS] = VERSION << 6 | padding | extension | csrcs.len() as u8;
        buffer[field::MARKER_TYPE] = u8::from(self.marker) << 7 | self.payload_type;
        put16(buffer, field::SEQ, self.seq);
        put32(buffer, field::TIMESTAMP, self.timestamp);
        put32(buffer, field::SSRC, self.ssrc);
        for (index, &csrc) in csrcs.iter().enumerate() {
            put32(buffer, HEADER_LEN + 4 * index, csrc);
        }
        if let Some(extension) = self.extension {
            extension.emit(&mut buffer[HEADER_LEN + 4 * csrcs.len()..]);
        }
    }
}

impl Extension<'_> {
    fn emit(&self, buffer: &mut [u8]) {
        assert!(self.data.len().is_multiple_of(4), "an RTP extension is whole words");
        let words = u16::try_from(self.data.len() / 4).expect("an RTP extension has at most 65535 words");
        put16(buffer, 0, self.profile);
        put16(buffer, 2, words);
        buffer[4..4 + self.data.len()].copy_from_slice(self.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    #[test]
    fn a_g711_packet() {
        let bytes = [0x80, 0x80, 0x12, 0x34, 0, 0, 0, 160, 0xde, 0xad, 0xbe, 0xef];
        let packet = Packet::new_elided(&bytes[..], 160).unwrap();
        let repr = Repr { marker: true, ..Repr::new(0, 0x1234, 160, 0xdead_beef) };
        assert_eq!(Repr::parse(&packet), repr);
        assert_eq!(packet.payload_len(), 160);
        let mut out = [0xff; 12];
        repr.emit(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let kind = |bytes: &[u8]| Packet::new_checked(bytes).unwrap_err().kind;
        let mut bytes = [0; 20];
        assert_eq!(kind(&bytes[..11]), Kind::Truncated { needed: 12, have: 11 });
        assert_eq!(kind(&bytes), Kind::Malformed("version is not 2"));
        bytes[0] = 0x83;
        assert_eq!(kind(&bytes), Kind::Truncated { needed: 24, have: 20 });
        bytes[0] = 0x90;
        bytes[15] = 2;
        assert_eq!(kind(&bytes), Kind::Truncated { needed: 24, have: 20 });
        bytes[0] = 0xa0;
        assert_eq!(kind(&bytes), Kind::Malformed("padding length"));
        bytes[19] = 9;
        assert_eq!(kind(&bytes), Kind::Malformed("padding length"));
        bytes[19] = 8;
        assert!(Packet::new_checked(&bytes[..]).unwrap().payload().is_empty());
    }

    proptest! {
        #[test]
        fn round_trip(
            marker: bool, payload_type in 0u8..128, seq: u16, timestamp: u32, ssrc: u32,
            sources in proptest::collection::vec(any::<u32>(), 0..=15),
            extension in proptest::option::of((any::<u16>(), proptest::collection::vec(any::<[u8; 4]>(), 0..5))),
            payload in proptest::collection::vec(any::<u8>(), 0..40), padding_len in 0u8..20,
        ) {
            let mut csrcs = Csrcs::default();
            prop_assert!(sources.iter().all(|&csrc| csrcs.push(csrc)));
            let extension = extension.map(|(profile, words)| (profile, words.concat()));
            let extension = extension.as_ref().map(|(profile, data)| Extension { profile: *profile, data });
            let repr = Repr { marker, csrcs, extension, padding_len, ..Repr::new(payload_type, seq, timestamp, ssrc) };
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes);
            bytes.extend(&payload);
            bytes.extend(vec![padding_len; padding_len.into()]);
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            prop_assert_eq!(packet.header_len(), repr.buffer_len());
            prop_assert_eq!(packet.payload(), &payload[..]);
            prop_assert_eq!(Repr::parse(&packet), repr);
        }

        #[test]
        fn never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), elided in 0usize..200) {
            if let Some(first) = bytes.first_mut() {
                *first = 0x80 | *first & 0x3f;
            }
            if let Ok(packet) = Packet::new_elided(&bytes[..], elided) {
                let _ = (Repr::parse(&packet), packet.payload(), packet.payload_len());
            }
        }
    }
}
