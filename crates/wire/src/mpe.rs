//! Multiprotocol Encapsulation (ETSI EN 301 192, section 7): a datagram in a datagram_section in TS packets.
//!
//! Not here: datagrams over several sections (an MTU of 4080 bytes avoids them; received ones are counted and dropped),
//! scrambling, the checksum that replaces the CRC-32 when section_syntax_indicator is 0, and MPE-FEC.

#[cfg(test)]
mod tests;

use crate::bytes::put16;
use crate::crc32::Crc32;
use crate::ethernet::{EtherType, Filter, MacAddr};
use crate::section::{self, CRC_LEN};
use crate::ts::{Method, PACKET_LEN, Pid, STUFFING};
use crate::{Error, Kind, Layer, llc};

/// Length in bytes of the header up to the datagram.
pub const HEADER_LEN: usize = 12;
/// Length in bytes of the longest datagram, LLC/SNAP header included.
pub const MAX_PAYLOAD_LEN: usize = section::MAX_LEN - HEADER_LEN - CRC_LEN;
/// table_id of a datagram_section.
pub const TABLE_ID: u8 = 0x3e;

/// section_syntax_indicator: a CRC-32, not a checksum, at the end.
const SYNTAX: u8 = 0x80;
const RESERVED: u8 = 0x30;
/// payload_scrambling_control and address_scrambling_control.
const SCRAMBLING: u8 = 0x3c;
const LLC_SNAP: u8 = 0x02;
const CURRENT: u8 = 0x01;

/// A datagram that one section cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a datagram of {len} bytes, where an MPE section carries 1 to {max}")]
pub struct DatagramLength {
    /// The datagram's length in bytes.
    pub len: usize,
    /// The most that fits.
    pub max: usize,
}

/// How a datagram is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The receiver's MAC address.
    pub dst: MacAddr,
    /// What the datagram is, in an LLC/SNAP header in front of it. `None` has no such header: the datagram is IP, and its
    /// first four bits say which.
    pub ethertype: Option<EtherType>,
}

impl Repr {
    /// An IP datagram without LLC/SNAP header.
    pub const fn new(dst: MacAddr) -> Repr {
        Repr { dst, ethertype: None }
    }

    /// Length in bytes of what is in front of the datagram.
    pub const fn header_len(&self) -> usize {
        if self.ethertype.is_some() { HEADER_LEN + llc::HEADER_LEN } else { HEADER_LEN }
    }

    /// Length in bytes of the section around a datagram of `datagram_len` bytes.
    pub const fn section_len(&self, datagram_len: usize) -> usize {
        self.header_len() + datagram_len + CRC_LEN
    }

    /// Checks that a section can carry a datagram of `len` bytes.
    ///
    /// # Errors
    /// If it is empty or too long.
    pub fn check_datagram_len(&self, len: usize) -> Result<(), DatagramLength> {
        let max = section::MAX_LEN - self.section_len(0);
        if (1..=max).contains(&len) { Ok(()) } else { Err(DatagramLength { len, max }) }
    }

    /// Writes the section's header, and the LLC/SNAP header if there is one, for a datagram of `datagram_len` bytes.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::header_len`], or the datagram is none that [`Repr::check_datagram_len`] lets
    /// pass.
    pub fn emit(&self, datagram_len: usize, buffer: &mut [u8]) {
        self.check_datagram_len(datagram_len).unwrap_or_else(|error| panic!("{error}"));
        let [m1, m2, m3, m4, m5, m6] = self.dst.0;
        let section_length = (self.section_len(datagram_len) - section::HEADER_LEN) as u16;
        buffer[0] = TABLE_ID;
        put16(buffer, 1, u16::from(SYNTAX | RESERVED) << 8 | section_length);
        let flags = 0xc0 | CURRENT | if self.ethertype.is_some() { LLC_SNAP } else { 0 };
        // MAC_address_6 is the address's last byte, and stands first.
        buffer[3..HEADER_LEN].copy_from_slice(&[m6, m5, flags, 0, 0, m4, m3, m2, m1]);
        if let Some(ethertype) = self.ethertype {
            llc::Repr::Routed(ethertype).emit(&mut buffer[HEADER_LEN..]);
        }
    }
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The receiver's MAC address.
    pub dst: MacAddr,
    /// What it is.
    pub ethertype: EtherType,
    /// Whether an LLC/SNAP header said so.
    pub has_llc: bool,
    /// The datagram, with the stuffing behind it if the sender aligned the section; an IP header's length takes it off.
    pub bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a section that is all of `bytes`.
    ///
    /// # Errors
    /// `Truncated` or `Malformed` if it is shorter or longer than it says, or has no room for its headers; `Checksum` if
    /// the CRC-32 is wrong; `Unsupported` for another table, a checksum in place of the CRC-32, scrambling, a datagram
    /// over several sections, and what is neither SNAP nor IP.
    pub fn parse(bytes: &'a [u8]) -> Result<Datagram<'a>, Error> {
        check_table(bytes)?;
        section::check(Layer::Mpe, bytes, HEADER_LEN + 1 + CRC_LEN)?;
        Datagram::parse_intact(bytes)
    }

    fn parse_intact(bytes: &'a [u8]) -> Result<Datagram<'a>, Error> {
        let flags = bytes[5];
        if flags & SCRAMBLING != 0 {
            return Err(Error::unsupported(Layer::Mpe, 5, "scrambled section"));
        }
        if bytes[6] != 0 || bytes[7] != 0 {
            return Err(Error::unsupported(Layer::Mpe, 6, "datagram over several sections"));
        }
        let datagram = &bytes[HEADER_LEN..bytes.len() - CRC_LEN];
        let has_llc = flags & LLC_SNAP != 0;
        let (ethertype, start) = if has_llc { snap(datagram)? } else { (ip_version(datagram)?, 0) };
        Ok(Datagram { dst: dst(bytes), ethertype, has_llc, bytes: &datagram[start..] })
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

/// The address of a section that is long enough for one.
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

/// Makes TS packets of one PID out of datagrams.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    sections: section::Encapsulator,
    header: Vec<u8>,
    alignment_bytes: usize,
}

impl Encapsulator {
    /// For a PID, whose continuity counter starts at 0.
    pub fn new(pid: Pid, method: Method) -> Encapsulator {
        Encapsulator {
            sections: section::Encapsulator::new(pid, method),
            header: Vec::new(),
            alignment_bytes: 1,
        }
    }

    /// Stuffs sections to a multiple of 32 bits (alignment_indicator 1 in the service's descriptor), as far as they may be
    /// long. Only IP without LLC/SNAP header bears that without doubt: what is behind another PDU is not told from it.
    #[must_use]
    pub fn aligned(self) -> Encapsulator {
        Encapsulator { alignment_bytes: 4, ..self }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.sections.pid()
    }

    /// Whether a partly filled TS packet waits for another section.
    pub fn is_pending(&self) -> bool {
        self.sections.is_pending()
    }

    /// Encapsulates a datagram, and appends to `out` each TS packet that became full, or all of them when padding.
    ///
    /// # Errors
    /// If one section cannot carry it; nothing is sent then.
    pub fn push(&mut self, repr: &Repr, datagram: &[u8], out: &mut Vec<u8>) -> Result<(), DatagramLength> {
        self.push_elided(repr, datagram, 0, out)
    }

    /// As [`Encapsulator::push`], of a datagram that ends with `elided` zeros which `datagram` leaves out. They are
    /// written out.
    ///
    /// # Errors
    /// As [`Encapsulator::push`].
    pub fn push_elided(
        &mut self,
        repr: &Repr,
        datagram: &[u8],
        elided: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DatagramLength> {
        let datagram_len = datagram.len() + elided;
        repr.check_datagram_len(datagram_len)?;
        let stuffing = &[STUFFING; 4][..self.stuffing_len(repr.section_len(datagram_len))];
        self.header.resize(repr.header_len(), 0);
        repr.emit(datagram_len + stuffing.len(), &mut self.header);
        let crc =
            Crc32::new().add_bytes(&self.header).add_bytes(datagram).add_zeros(elided).add_bytes(stuffing);
        let packer = &mut self.sections.packer;
        packer.start(repr.section_len(datagram_len), out);
        packer.write(&self.header, out);
        packer.write(datagram, out);
        packer.write_zeros(elided, out);
        packer.write(stuffing, out);
        packer.write(&crc.register().to_be_bytes(), out);
        packer.end(out);
        Ok(())
    }

    fn stuffing_len(&self, section_len: usize) -> usize {
        (section_len.next_multiple_of(self.alignment_bytes)).min(section::MAX_LEN) - section_len
    }

    /// Stuffs the TS packet that waits, if one does, and appends it to `out`.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.sections.flush(out);
    }
}

/// What happened to a PID's datagrams. What happened to its TS packets and sections is in [`section::Counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams passed on.
    pub datagrams: u64,
    /// Their sections' bytes.
    pub section_bytes: u64,
    /// Datagrams for somebody else.
    pub others: u64,
    /// Sections too short for their headers.
    pub length_errors: u64,
    /// Sections with a wrong CRC-32.
    pub crc_errors: u64,
    /// Sections of another table, scrambled, with a checksum, with a part of a datagram, or with what is neither SNAP nor
    /// IP.
    pub unsupported: u64,
}

/// Receives the datagrams of one PID.
#[derive(Clone, Debug)]
pub struct Receiver {
    sections: section::Receiver,
    filter: Filter,
    counts: Counts,
}

impl Receiver {
    /// For a PID.
    pub fn new(pid: Pid, filter: Filter) -> Receiver {
        Receiver { sections: section::Receiver::new(pid), filter, counts: Counts::default() }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.sections.pid()
    }

    /// What happened to datagrams so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What happened to TS packets and sections so far.
    pub fn section_counts(&self) -> &section::Counts {
        self.sections.counts()
    }

    /// Takes in a TS packet and calls `sink` with each datagram that ends in it. A packet of another PID does nothing.
    pub fn push(&mut self, packet: &[u8; PACKET_LEN], mut sink: impl FnMut(&Datagram<'_>)) {
        let Receiver { sections, filter, counts } = self;
        sections.push(packet, |section| match Datagram::parse(section) {
            Ok(datagram) if filter.accepts(Some(datagram.dst)) => {
                counts.datagrams += 1;
                counts.section_bytes += section.len() as u64;
                sink(&datagram);
            }
            Ok(_) => counts.others += 1,
            Err(error) => *counts.of(error) += 1,
        });
    }
}

impl Counts {
    fn of(&mut self, error: Error) -> &mut u64 {
        match error.kind {
            Kind::Checksum => &mut self.crc_errors,
            Kind::Unsupported(_) => &mut self.unsupported,
            Kind::Truncated { .. } | Kind::Malformed(_) => &mut self.length_errors,
        }
    }
}
