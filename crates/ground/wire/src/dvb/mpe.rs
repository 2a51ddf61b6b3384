//! Multiprotocol Encapsulation (ETSI EN 301 192, section 7): datagrams in sections in TS packets. A datagram
//! that is too long for one section is sent in several.
//!
//! Not here: scrambling, the checksum that replaces the CRC-32 when section_syntax_indicator is 0 (its sum is defined in
//! ISO/IEC 13818-6 alone, and what cannot be checked is refused), and MPE-FEC.

mod encapsulator;
mod receiver;
#[cfg(test)]
mod tests;

pub use encapsulator::Encapsulator;
pub use receiver::{Counts, Receiver};

use crate::bytes::put16;
use crate::dvb::section::{self, CRC_LEN};
use crate::lan::ethernet::{EtherType, MacAddr};
use crate::lan::llc;
use crate::{Error, Layer};

/// Length in bytes of the header up to the datagram.
pub const HEADER_LEN: usize = 12;
/// Maximum part of a datagram in a section in bytes, LLC/SNAP header included.
pub const MAX_PAYLOAD_LEN: usize = section::MAX_LEN - HEADER_LEN - CRC_LEN;
/// Maximum datagram length in bytes, LLC/SNAP header excluded. An IPv6 packet that is not a jumbogram.
pub const MAX_DATAGRAM_LEN: usize = 40 + 65_535;
/// table_id of a datagram_section.
pub const TABLE_ID: u8 = 0x3e;

/// Shortest section with a CRC-32 in bytes: its header of eight bytes and the CRC-32.
const OTHER_LEN: usize = 8 + CRC_LEN;

/// section_syntax_indicator: a CRC-32, not a checksum, at the end.
const SYNTAX: u8 = 0x80;
const RESERVED: u8 = 0x30;
/// payload_scrambling_control and address_scrambling_control.
const SCRAMBLING: u8 = 0x3c;
const LLC_SNAP: u8 = 0x02;
const CURRENT: u8 = 0x01;

/// A datagram that is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a datagram of {len} bytes, where MPE carries 1 to {MAX_DATAGRAM_LEN}")]
pub struct DatagramLength {
    /// The datagram's length in bytes.
    pub len: usize,
}

/// Encapsulation of a datagram as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The receiver's MAC address.
    pub dst: MacAddr,
    /// EtherType of the datagram, in an LLC/SNAP header. `None` has no such header: the datagram is IP of the
    /// version in its first four bits.
    pub ethertype: Option<EtherType>,
}

impl Repr {
    /// Creates an IP datagram without LLC/SNAP header.
    pub const fn new(dst: MacAddr) -> Repr {
        Repr { dst, ethertype: None }
    }

    const fn llc_len(&self) -> usize {
        if self.ethertype.is_some() { llc::HEADER_LEN } else { 0 }
    }

    /// Returns the number of sections of a datagram of `datagram_len` bytes.
    pub const fn sections(&self, datagram_len: usize) -> usize {
        let sections = (self.llc_len() + datagram_len).div_ceil(MAX_PAYLOAD_LEN);
        if sections == 0 { 1 } else { sections }
    }

    /// Returns the length in bytes of all sections of a datagram of `datagram_len` bytes.
    pub const fn section_len(&self, datagram_len: usize) -> usize {
        self.llc_len() + datagram_len + self.sections(datagram_len) * (HEADER_LEN + CRC_LEN)
    }

    /// Checks that sections can carry a datagram of `len` bytes.
    ///
    /// # Errors
    /// Returns an error if it is empty or too long.
    pub fn check_datagram_len(&self, len: usize) -> Result<(), DatagramLength> {
        if (1..=MAX_DATAGRAM_LEN).contains(&len) { Ok(()) } else { Err(DatagramLength { len }) }
    }

    /// Returns the LLC/SNAP header before the datagram in its first section. Empty without one.
    fn llc(&self, buffer: &mut [u8; llc::HEADER_LEN]) -> usize {
        if let Some(ethertype) = self.ethertype {
            llc::Repr::Routed(ethertype).emit(buffer);
        }
        self.llc_len()
    }

    /// Creates the header of section `number` of `last`, which carries `payload_len` bytes.
    fn header(&self, number: u8, last: u8, payload_len: usize) -> [u8; HEADER_LEN] {
        let [m1, m2, m3, m4, m5, m6] = self.dst.0;
        let section_length = (HEADER_LEN - section::HEADER_LEN + payload_len + CRC_LEN) as u16;
        let flags = 0xc0 | CURRENT | if self.ethertype.is_some() { LLC_SNAP } else { 0 };
        // MAC_address_6 is the address's last byte, and stands first.
        let mut header = [TABLE_ID, 0, 0, m6, m5, flags, number, last, m4, m3, m2, m1];
        put16(&mut header, 1, u16::from(SYNTAX | RESERVED) << 8 | section_length);
        header
    }
}

/// A section that was received: a datagram, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// The receiver's MAC address.
    pub dst: MacAddr,
    /// Set if the datagram has an LLC/SNAP header.
    pub has_llc: bool,
    /// Section number within the datagram, from 0.
    pub number: u8,
    /// The number of the datagram's last section.
    pub last: u8,
    /// Part of LLC/SNAP header and datagram, in the last section with stuffing.
    pub payload: &'a [u8],
}

impl<'a> Section<'a> {
    /// Reads a section that is all of `bytes`.
    ///
    /// # Errors
    /// `Truncated` or `Malformed` if it is shorter or longer than it says, or its number is beyond the last; `Checksum` if
    /// the CRC-32 is wrong; `Unsupported` for another table, a checksum in place of the CRC-32, and scrambling.
    pub fn parse(bytes: &'a [u8]) -> Result<Section<'a>, Error> {
        check_table(bytes)?;
        section::check(Layer::Mpe, bytes, HEADER_LEN + 1 + CRC_LEN)?;
        let (flags, number, last) = (bytes[5], bytes[6], bytes[7]);
        if flags & SCRAMBLING != 0 {
            return Err(Error::unsupported(Layer::Mpe, 5, "scrambled section"));
        }
        if number > last {
            return Err(Error::malformed(Layer::Mpe, 6, "section beyond the last"));
        }
        let payload = &bytes[HEADER_LEN..bytes.len() - CRC_LEN];
        Ok(Section { dst: dst(bytes), has_llc: flags & LLC_SNAP != 0, number, last, payload })
    }
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The receiver's MAC address.
    pub dst: MacAddr,
    /// EtherType.
    pub ethertype: EtherType,
    /// Set if an LLC/SNAP header said so.
    pub has_llc: bool,
    /// Datagram, with the stuffing of aligned sections; an IP header's length excludes it.
    pub bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads the datagram of a section that has all of it.
    ///
    /// # Errors
    /// Returns the errors of [`Section::parse`]; `Unsupported` for a part of a datagram, which [`Receiver`]
    /// puts together, and for what is neither SNAP nor IP; `Truncated` if there is no room for the LLC/SNAP
    /// header.
    pub fn parse(bytes: &'a [u8]) -> Result<Datagram<'a>, Error> {
        let section = Section::parse(bytes)?;
        if section.last != 0 {
            return Err(Error::unsupported(Layer::Mpe, 6, "part of a datagram"));
        }
        Datagram::of(section.dst, section.has_llc, section.payload)
    }

    /// Parses the datagram in the content of its sections.
    fn of(dst: MacAddr, has_llc: bool, payload: &'a [u8]) -> Result<Datagram<'a>, Error> {
        let (ethertype, start) = if has_llc { snap(payload)? } else { (ip_version(payload)?, 0) };
        Ok(Datagram { dst, ethertype, has_llc, bytes: &payload[start..] })
    }
}

fn check_table(bytes: &[u8]) -> Result<(), Error> {
    match bytes {
        [TABLE_ID, flags, ..] if flags & SYNTAX != 0 => Ok(()),
        [TABLE_ID, _, ..] => Err(Error::unsupported(Layer::Mpe, 1, "checksum in place of CRC-32")),
        [_, _, ..] => Err(Error::unsupported(Layer::Mpe, 0, "table other than datagram_section")),
        _ => Err(Error::truncated(Layer::Mpe, 0, HEADER_LEN + 1 + CRC_LEN, bytes.len())),
    }
}

/// Checks a section of another table. It has a CRC-32 with section_syntax_indicator alone.
fn check_other(bytes: &[u8]) -> Result<(), Error> {
    match bytes {
        [_, flags, ..] if flags & SYNTAX != 0 => section::check(Layer::Mpe, bytes, OTHER_LEN),
        _ => Ok(()),
    }
}

/// Returns the address of a section that is long enough for one.
fn dst(bytes: &[u8]) -> MacAddr {
    MacAddr([bytes[11], bytes[10], bytes[9], bytes[8], bytes[4], bytes[3]])
}

fn snap(datagram: &[u8]) -> Result<(EtherType, usize), Error> {
    match llc::Repr::parse(datagram)? {
        llc::Repr::Routed(ethertype) => Ok((ethertype, llc::HEADER_LEN)),
        _ => Err(Error::unsupported(Layer::Mpe, HEADER_LEN, "SNAP with another organisation's protocol")),
    }
}

fn ip_version(datagram: &[u8]) -> Result<EtherType, Error> {
    match datagram[0] >> 4 {
        4 => Ok(EtherType::IPV4),
        6 => Ok(EtherType::IPV6),
        _ => Err(Error::unsupported(Layer::Mpe, HEADER_LEN, "neither SNAP nor IP")),
    }
}
