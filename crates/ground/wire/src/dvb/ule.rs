//! Unidirectional Lightweight Encapsulation: PDUs in SNDUs in TS packets (RFC 4326, RFC 5163).
//!
//! An [`Encapsulator`] and a [`Receiver`] work on one PID each. Neither knows time: the caller flushes a partly
//! filled TS packet when the packing threshold is over.
//!
//! Not here: address resolution (RFC 4947), security extensions (RFC 5458). A mandatory extension header other than those
//! below is unknown, and so refused with its SNDU; optional ones are passed on and may be skipped.

mod concat;
mod encapsulator;
mod extension;
mod receiver;
#[cfg(test)]
mod tests;

use std::fmt;

pub use concat::{Concat, Concatenation};
pub use encapsulator::Encapsulator;
pub use extension::{Extension, Extensions};
pub use receiver::{Counts, Receiver};

use crate::bytes::{array, be16, put16};
use crate::crc32::Crc32;
pub use crate::dvb::ts::Method;
use crate::dvb::ts::{PACKET_LEN, PAYLOAD_LEN};
pub use crate::lan::ethernet::Filter;
use crate::lan::ethernet::{self, EtherType, MacAddr};
use crate::{Error, Layer};

/// Length in bytes of D bit, Length and Type.
pub const BASE_HEADER_LEN: usize = 4;
/// Length in bytes of the destination's NPA address.
pub const NPA_LEN: usize = 6;
/// Length in bytes of the CRC-32 at the end.
pub const CRC_LEN: usize = 4;
/// Maximum length of an SNDU in bytes: the largest Length plus its uncounted bytes.
pub const MAX_LEN: usize = 0x7fff + BASE_HEADER_LEN;

/// D bit: no NPA address.
const NO_ADDRESS: u16 = 0x8000;
/// D bit and a Length of all ones: nothing more in this TS packet.
const END_INDICATOR: u16 = 0xffff;

/// Returns the number of TS packets of a single SNDU and its payload pointer.
///
/// ```
/// // RFC 4326, appendix A.2: 183 bytes fill a TS packet, 185 do not fit.
/// assert_eq!((bentpipe_wire::ule::packets(183), bentpipe_wire::ule::packets(185)), (1, 2));
/// ```
#[inline]
pub const fn packets(sndu_len: usize) -> usize {
    (sndu_len + 1).div_ceil(PAYLOAD_LEN)
}

/// Type field (RFC 4326, section 4.4): an extension header below 1536, otherwise an EtherType.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub u16);

impl Type {
    /// Data for the receiver to drop (RFC 4326, section 5.1).
    pub const TEST: Type = Type(0);
    /// An Ethernet frame without FCS (RFC 4326, section 5.2).
    pub const BRIDGED: Type = Type(1);
    /// TS packets (RFC 5163, section 3.1).
    pub const TS_CONCAT: Type = Type(2);
    /// PDUs of one type, each behind its length (RFC 5163, section 3.2).
    pub const PDU_CONCAT: Type = Type(3);
    /// An IPv4 datagram.
    pub const IPV4: Type = Type(EtherType::IPV4.0);
    /// An IPv6 datagram.
    pub const IPV6: Type = Type(EtherType::IPV6.0);
    /// A ROHC packet. ULE has no type of its own for that; IEEE's registry of EtherTypes has, and RFC 4326 section 4.4.2
    /// takes every EtherType from there.
    pub const ROHC: Type = Type(EtherType::ROHC.0);

    /// Returns `true` if an extension header follows, not a PDU.
    #[inline]
    pub const fn is_extension(self) -> bool {
        self.0 < 1536
    }
}

impl From<EtherType> for Type {
    fn from(ethertype: EtherType) -> Type {
        Type(ethertype.0)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// A PDU that no SNDU can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a PDU of {len} bytes, where an SNDU with these headers carries {min} to {max}")]
pub struct PduLength {
    /// The PDU's length in bytes.
    pub len: usize,
    /// Minimum that fits. 1 where there is neither address nor extension header, as RFC 4326 section 7.2
    /// forbids a Length of 4.
    pub min: usize,
    /// The most that fits.
    pub max: usize,
}

/// Headers of an SNDU before its PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The receiver's NPA address; `None` sets the D bit.
    pub npa: Option<MacAddr>,
    /// Optional extension headers, in this order.
    pub extensions: &'a [Extension<'a>],
    /// Type of the PDU, after the extension headers.
    pub kind: Type,
}

impl<'a> Repr<'a> {
    /// Headers without address and extensions.
    pub const fn new(kind: Type) -> Repr<'a> {
        Repr { npa: None, extensions: &[], kind }
    }

    /// Returns the same for a receiver with this NPA address.
    #[must_use]
    pub const fn to(self, npa: MacAddr) -> Repr<'a> {
        Repr { npa: Some(npa), ..self }
    }

    /// Length in bytes of the headers.
    pub fn header_len(&self) -> usize {
        let npa = if self.npa.is_some() { NPA_LEN } else { 0 };
        BASE_HEADER_LEN + npa + self.extensions.iter().map(Extension::buffer_len).sum::<usize>()
    }

    /// Length in bytes of the SNDU around a PDU of `pdu_len` bytes.
    pub fn sndu_len(&self, pdu_len: usize) -> usize {
        self.header_len() + pdu_len + CRC_LEN
    }

    /// Returns the longest PDU in bytes.
    pub fn max_pdu_len(&self) -> usize {
        // A Length of all ones with the D bit is the End Indicator.
        let longest = if self.npa.is_some() { MAX_LEN } else { MAX_LEN - 1 };
        longest.saturating_sub(self.sndu_len(0))
    }

    /// Checks that an SNDU can carry a PDU of `len` bytes.
    ///
    /// # Errors
    /// Returns an error if it is too long; if it is empty where that would make a Length of 4.
    pub fn check_pdu_len(&self, len: usize) -> Result<(), PduLength> {
        let min = usize::from(self.header_len() == BASE_HEADER_LEN);
        let max = self.max_pdu_len();
        if (min..=max).contains(&len) { Ok(()) } else { Err(PduLength { len, min, max }) }
    }

    /// Writes the headers of a PDU of `pdu_len` bytes at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::header_len`], or the PDU is not one that [`Repr::check_pdu_len`] accepts.
    pub fn emit(&self, pdu_len: usize, buffer: &mut [u8]) {
        self.check_pdu_len(pdu_len).unwrap_or_else(|error| panic!("{error}"));
        let length = (self.sndu_len(pdu_len) - BASE_HEADER_LEN) as u16;
        let no_address = if self.npa.is_none() { NO_ADDRESS } else { 0 };
        put16(buffer, 0, length | no_address);
        let mut at = 2;
        let mut kind = self.extensions.first().map_or(self.kind, Extension::kind);
        put16(buffer, at, kind.0);
        at += 2;
        if let Some(npa) = self.npa {
            buffer[at..at + NPA_LEN].copy_from_slice(&npa.0);
            at += NPA_LEN;
        }
        for (index, extension) in self.extensions.iter().enumerate() {
            kind = self.extensions.get(index + 1).map_or(self.kind, Extension::kind);
            extension.emit(kind, &mut buffer[at..]);
            at += extension.buffer_len();
        }
    }
}

/// Content of an SNDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A PDU by its EtherType.
    Pdu(EtherType, &'a [u8]),
    /// An Ethernet frame without FCS, whose IEEE 802.3 length, if it has one, was checked.
    Bridged(&'a [u8]),
    /// TS packets, one at least.
    Ts(&'a [[u8; PACKET_LEN]]),
    /// PDUs of one type.
    Pdus(Concatenation<'a>),
    /// Test SNDU or other content that receivers drop.
    Test(&'a [u8]),
}

impl<'a> Payload<'a> {
    /// Parses bytes of a type that is not an optional extension header. `offset` is their place in the SNDU.
    pub(crate) fn parse(kind: Type, bytes: &'a [u8], offset: usize) -> Result<Payload<'a>, Error> {
        match kind {
            Type::TEST => Ok(Payload::Test(bytes)),
            Type::BRIDGED => bridged(bytes, offset),
            Type::TS_CONCAT => concat::ts_packets(bytes, offset).map(Payload::Ts),
            Type::PDU_CONCAT => Concatenation::parse(bytes, offset).map(Payload::Pdus),
            kind if kind.is_extension() => {
                Err(Error::unsupported(Layer::Ule, 2, "mandatory extension header"))
            }
            Type(ethertype) => Ok(Payload::Pdu(EtherType(ethertype), bytes)),
        }
    }
}

/// RFC 4326, section 5.2: a length in place of the EtherType has to be checked.
fn bridged(bytes: &[u8], offset: usize) -> Result<Payload<'_>, Error> {
    let have = bytes.len();
    let truncated = |needed| Error::truncated(Layer::Ule, offset, offset + needed, offset + have);
    if have < ethernet::HEADER_LEN {
        return Err(truncated(ethernet::HEADER_LEN));
    }
    let kind = EtherType(be16(bytes, ethernet::HEADER_LEN - 2));
    let needed = ethernet::HEADER_LEN + if kind.is_length() { usize::from(kind.0) } else { 0 };
    if needed > have { Err(truncated(needed)) } else { Ok(Payload::Bridged(bytes)) }
}

/// An SNDU that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sndu<'a> {
    /// The receiver's NPA address, if there is one.
    pub npa: Option<MacAddr>,
    /// Optional extension headers.
    pub extensions: Extensions<'a>,
    /// Content.
    pub payload: Payload<'a>,
}

impl<'a> Sndu<'a> {
    /// Reads an SNDU that is all of `bytes`, its CRC-32 included.
    ///
    /// # Errors
    /// `Malformed` if its length is not that of `bytes` or too small; `Checksum` if the CRC does not match; `Truncated` if
    /// an extension header or a bridged frame does not fit in; `Malformed` if concatenated TS packets or PDUs do not make
    /// up its length, or PDUs are concatenated twice; `Unsupported` for an unknown mandatory extension header.
    pub fn parse(bytes: &'a [u8]) -> Result<Sndu<'a>, Error> {
        let have = bytes.len();
        if have < BASE_HEADER_LEN {
            return Err(Error::truncated(Layer::Ule, 0, BASE_HEADER_LEN, have));
        }
        match sndu_len(be16(bytes, 0)) {
            Some(len) if len == have => {}
            Some(len) if len > have => return Err(Error::truncated(Layer::Ule, 0, len, have)),
            _ => return Err(Error::malformed(Layer::Ule, 0, "SNDU length")),
        }
        if Crc32::new().add_bytes(bytes).register() != 0 {
            return Err(Error::checksum(Layer::Ule, have - CRC_LEN));
        }
        Sndu::parse_intact(bytes)
    }

    /// Reads an SNDU whose length and CRC are right.
    fn parse_intact(bytes: &'a [u8]) -> Result<Sndu<'a>, Error> {
        let npa = npa(bytes);
        let start = BASE_HEADER_LEN + npa.map_or(0, |_| NPA_LEN);
        let body = &bytes[start..bytes.len() - CRC_LEN];
        let (extensions, kind) = Extensions::parse(Type(be16(bytes, 2)), body, start)?;
        let at = extensions.buffer_len();
        Ok(Sndu { npa, extensions, payload: Payload::parse(kind, &body[at..], start + at)? })
    }
}

/// Returns the length in bytes of an SNDU that starts with this field. `None` for the End Indicator and for
/// lengths without room for CRC and address (RFC 4326, section 7.2, and the arithmetic of section 4.5).
fn sndu_len(field: u16) -> Option<usize> {
    let length = usize::from(field & !NO_ADDRESS);
    let is_long_enough = if field & NO_ADDRESS == 0 { length >= NPA_LEN + CRC_LEN } else { length > CRC_LEN };
    (field != END_INDICATOR && is_long_enough).then_some(BASE_HEADER_LEN + length)
}

/// Returns the address of an SNDU that is long enough for one.
fn npa(bytes: &[u8]) -> Option<MacAddr> {
    (be16(bytes, 0) & NO_ADDRESS == 0).then(|| MacAddr(array(bytes, BASE_HEADER_LEN)))
}
