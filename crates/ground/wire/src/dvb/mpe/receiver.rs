//! Reassembly of datagrams from TS packets.

use super::{Datagram, MAX_DATAGRAM_LEN, Section, TABLE_ID, check_other};
use crate::dvb::section;
use crate::dvb::ts::{PACKET_LEN, Pid};
use crate::lan::ethernet::{Filter, MacAddr};
use crate::lan::llc;
use crate::{Error, Kind, Layer};

/// Maximum content in bytes of a datagram's sections: LLC/SNAP header, datagram, stuffing to 32 bits.
const MAX_LEN: usize = llc::HEADER_LEN + MAX_DATAGRAM_LEN + 3;

/// Counters of a PID's datagrams. Those of TS packets and sections are in [`section::Counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams passed on.
    pub datagrams: u64,
    /// Bytes of the datagrams' sections.
    pub section_bytes: u64,
    /// Datagrams for other receivers.
    pub others: u64,
    /// Sections with a length error, and datagrams over the maximum length.
    pub length_errors: u64,
    /// Sections with a wrong CRC-32.
    pub crc_errors: u64,
    /// Unsupported sections: scrambled, with a checksum, neither SNAP nor IP.
    pub unsupported: u64,
    /// Intact sections of other tables, as of DSM-CC.
    pub other_tables: u64,
    /// Sections that continue no datagram.
    pub orphans: u64,
    /// Datagrams of which a section did not come.
    pub abandoned: u64,
}

impl Counts {
    /// Returns the errors of datagrams by their cause, with those of the PID's sections.
    pub const fn causes(&self, sections: &section::Counts) -> [(&'static str, u64); 7] {
        [
            ("pointer to a section", sections.pointer_errors),
            ("bytes behind a section", sections.delimiting_errors),
            ("length of a section", sections.length_errors + self.length_errors),
            ("CRC", self.crc_errors),
            ("unsupported section", self.unsupported),
            ("section that continues no datagram", self.orphans),
            ("incomplete datagram", self.abandoned),
        ]
    }
}

/// Receives the datagrams of one PID.
#[derive(Clone, Debug)]
pub struct Receiver {
    sections: section::Receiver,
    filter: Filter,
    parts: Parts,
    counts: Counts,
}

impl Receiver {
    /// Creates a receiver for a PID.
    pub fn new(pid: Pid, filter: Filter) -> Receiver {
        Receiver {
            sections: section::Receiver::new(pid),
            filter,
            parts: Parts::default(),
            counts: Counts::default(),
        }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.sections.pid()
    }

    /// Returns the counters of datagrams.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the counters of TS packets and sections.
    pub fn section_counts(&self) -> &section::Counts {
        self.sections.counts()
    }

    /// Returns the bytes received of a datagram in several sections, at most one IP packet.
    pub fn waiting_len(&self) -> usize {
        if self.parts.awaited.is_some() { self.parts.bytes.len() } else { 0 }
    }

    /// Returns `true` if a section or a datagram in several sections is incomplete.
    pub fn is_waiting(&self) -> bool {
        self.sections.waiting_len() > 0 || self.parts.awaited.is_some()
    }

    /// Handles a TS packet and calls `sink` with each datagram that ends in it. Ignores packets of another
    /// PID.
    pub fn push(&mut self, packet: &[u8; PACKET_LEN], mut sink: impl FnMut(&Datagram<'_>)) {
        let Receiver { sections, filter, parts, counts } = self;
        sections.push(packet, |bytes| match Section::parse(bytes) {
            Err(_) if bytes.first() != Some(&TABLE_ID) => match check_other(bytes) {
                Ok(()) => counts.other_tables += 1,
                Err(error) => *counts.of(error) += 1,
            },
            Ok(section) if filter.accepts(Some(section.dst)) => {
                match parts.add(&section, bytes.len(), counts) {
                    Ok(Some((datagram, section_bytes))) => {
                        counts.datagrams += 1;
                        counts.section_bytes += section_bytes as u64;
                        sink(&datagram);
                    }
                    Ok(None) => {}
                    Err(error) => *counts.of(error) += 1,
                }
            }
            Ok(section) => counts.others += u64::from(section.number == section.last),
            Err(error) => *counts.of(error) += 1,
        });
    }
}

/// Incomplete datagram. Its sections follow each other, so there is one per PID.
#[derive(Clone, Debug, Default)]
struct Parts {
    /// Content of its sections, and their length.
    bytes: Vec<u8>,
    section_bytes: usize,
    awaited: Option<Awaited>,
}

/// Address, LLC/SNAP flag, number, and number of the last section of what continues a datagram.
type Awaited = (MacAddr, bool, u8, u8);

impl Parts {
    /// Parses a section of `len` bytes and returns its datagram and section bytes.
    fn add<'a>(
        &'a mut self,
        section: &Section<'a>,
        len: usize,
        counts: &mut Counts,
    ) -> Result<Option<(Datagram<'a>, usize)>, Error> {
        let Section { dst, has_llc, number, last, payload } = *section;
        let awaited = self.awaited.take();
        if awaited != Some((dst, has_llc, number, last)) {
            counts.abandoned += u64::from(awaited.is_some());
            counts.orphans += u64::from(number > 0);
            self.bytes.clear();
            self.section_bytes = 0;
        }
        if last == 0 {
            return Ok(Some((Datagram::of(dst, has_llc, payload)?, len)));
        }
        if self.bytes.is_empty() && number > 0 {
            return Ok(None);
        }
        self.bytes.extend_from_slice(payload);
        self.section_bytes += len;
        if self.bytes.len() > MAX_LEN {
            return Err(Error::malformed(Layer::Mpe, 7, "datagram length"));
        }
        if number < last {
            self.awaited = Some((dst, has_llc, number + 1, last));
            return Ok(None);
        }
        Ok(Some((Datagram::of(dst, has_llc, &self.bytes)?, self.section_bytes)))
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
