//! Multicast group membership: IGMP (RFC 2236, RFC 3376) and MLD (RFC 2710, RFC 3810).
//!
//! Both protocols have the same messages with addresses of 4 or 16 bytes. Sources are counted and not kept. Reports and
//! queries are written in the newest version only, IGMPv3 and MLDv2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{array, be16, put16};
use crate::ip::checksum::{Accumulator, Pseudo};
use crate::ip::{Protocol, Upper};
use crate::{Error, Layer};

/// Destination of IGMPv3 reports.
pub const IGMP_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// Destination of MLDv2 reports.
pub const MLD_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Destination of general queries of IGMP.
pub const IGMP_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Destination of general queries of MLD.
pub const MLD_HOSTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Byte offsets of the fields.
mod field {
    pub(super) const CHECKSUM: usize = 2;
    /// Start of the records of a report of the newest version.
    pub(super) const RECORDS: usize = 8;
}

/// IP version whose protocol a message is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IGMP.
    V4,
    /// MLD.
    V6,
}

/// Codes of the messages of a family.
struct Codes {
    query: u8,
    /// Reports of a single group, with nothing but its address.
    reports: &'static [u8],
    leave: u8,
    report: u8,
}

impl Family {
    /// Returns the family of an IP payload that may be such a message.
    pub fn of(upper: &Upper<'_>) -> Option<Family> {
        let is_whole = upper.elided == 0 && !upper.is_fragment;
        match upper.protocol {
            Protocol::IGMP if is_whole => Some(Family::V4),
            Protocol::ICMPV6 if is_whole => {
                let kind = *upper.bytes.first()?;
                matches!(kind, 130..=132 | 143).then_some(Family::V6)
            }
            _ => None,
        }
    }

    const fn codes(self) -> Codes {
        match self {
            Family::V4 => Codes { query: 0x11, reports: &[0x12, 0x16], leave: 0x17, report: 0x22 },
            Family::V6 => Codes { query: 130, reports: &[131], leave: 132, report: 143 },
        }
    }

    const fn address_len(self) -> usize {
        match self {
            Family::V4 => 4,
            Family::V6 => 16,
        }
    }

    /// Returns the offset of the group in messages about a single one.
    const fn group_at(self) -> usize {
        match self {
            Family::V4 => 4,
            Family::V6 => 8,
        }
    }

    fn address(self, bytes: &[u8], at: usize) -> IpAddr {
        match self {
            Family::V4 => Ipv4Addr::from(array::<4>(bytes, at)).into(),
            Family::V6 => Ipv6Addr::from(array::<16>(bytes, at)).into(),
        }
    }

    /// Reads a message, whose checksum covers the pseudo-header in MLD.
    ///
    /// # Errors
    /// Returns an error if the message is truncated or unknown, or its checksum does not match.
    pub fn parse(self, bytes: &[u8], pseudo: &Pseudo) -> Result<Repr, Error> {
        let (codes, least) = (self.codes(), self.group_at() + self.address_len());
        need(bytes, field::RECORDS)?;
        if !self.sum(bytes, pseudo).is_valid() {
            return Err(Error::checksum(Layer::Membership, field::CHECKSUM));
        }
        match bytes[0] {
            kind if kind == codes.report => self.records(bytes).map(Repr::Report),
            kind if kind == codes.query => {
                need(bytes, least)?;
                let group = self.address(bytes, self.group_at());
                Ok(Repr::Query { group: (!group.is_unspecified()).then_some(group) })
            }
            kind if kind == codes.leave || codes.reports.contains(&kind) => {
                need(bytes, least)?;
                let change = if kind == codes.leave { Change::Leave } else { Change::Join };
                Ok(Repr::Report(vec![Record { group: self.address(bytes, self.group_at()), change }]))
            }
            _ => Err(Error::unsupported(Layer::Membership, 0, "message type")),
        }
    }

    fn records(self, bytes: &[u8]) -> Result<Vec<Record>, Error> {
        let (count, mut at) = (be16(bytes, 6), field::RECORDS);
        let mut records = Vec::new();
        for _ in 0..count {
            let header = at + 4 + self.address_len();
            need(bytes, header)?;
            let (kind, words, sources) =
                (bytes[at], usize::from(bytes[at + 1]), usize::from(be16(bytes, at + 2)));
            let end = header + sources * self.address_len() + words * 4;
            need(bytes, end)?;
            if let Some(change) = Change::of(kind, sources) {
                records.push(Record { group: self.address(bytes, at + 4), change });
            }
            at = end;
        }
        Ok(records)
    }

    fn sum(self, bytes: &[u8], pseudo: &Pseudo) -> Accumulator {
        match self {
            Family::V4 => Accumulator::ZERO.add_bytes(bytes),
            Family::V6 => pseudo.datagram(bytes, 0),
        }
    }
}

fn need(bytes: &[u8], len: usize) -> Result<(), Error> {
    let have = bytes.len();
    if have < len { Err(Error::truncated(Layer::Membership, 0, len, have)) } else { Ok(()) }
}

/// Meaning of a record for the whole group, not for its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Reception of at least one source.
    Join,
    /// End of the reception of all sources, or of some.
    Leave,
}

impl Change {
    /// Returns the meaning of a record type; unknown types are ignored (RFC 3376, section 4.2.12).
    const fn of(kind: u8, sources: usize) -> Option<Change> {
        match (kind, sources) {
            // MODE_IS_INCLUDE and CHANGE_TO_INCLUDE_MODE without sources, and BLOCK_OLD_SOURCES.
            (1 | 3, 0) | (6, _) => Some(Change::Leave),
            (1..=5, _) => Some(Change::Join),
            _ => None,
        }
    }

    /// Returns the type of a record without sources: a change to mode exclude or include.
    const fn record_type(self) -> u8 {
        match self {
            Change::Join => 4,
            Change::Leave => 3,
        }
    }
}

/// Record of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Multicast address, which is not checked.
    pub group: IpAddr,
    /// Meaning for the group.
    pub change: Change,
}

/// Message of IGMP or MLD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Query by a router.
    Query {
        /// Group. `None`: all.
        group: Option<IpAddr>,
    },
    /// Report by a host.
    Report(Vec<Record>),
}

/// Robustness variable and query interval in seconds (RFC 3376, section 8).
const QRV_QQIC: [u8; 2] = [2, 125];

impl Repr {
    /// Returns the message with its checksum. Queries ask for answers within `response_ms`.
    ///
    /// # Panics
    /// If a group is of the other IP version, or a report has more than 65,535 records.
    pub fn message(&self, family: Family, response_ms: u16, pseudo: &Pseudo) -> Vec<u8> {
        let mut bytes = match self {
            Repr::Query { group } => query(family, *group, response_ms),
            Repr::Report(records) => report(family, records),
        };
        let sum = family.sum(&bytes, pseudo).checksum();
        put16(&mut bytes, field::CHECKSUM, sum);
        bytes
    }
}

fn query(family: Family, group: Option<IpAddr>, response_ms: u16) -> Vec<u8> {
    let mut bytes = vec![0; family.group_at()];
    bytes[0] = family.codes().query;
    match family {
        // Tenths of a second, below the codes with an exponent.
        Family::V4 => bytes[1] = (response_ms / 100).min(127) as u8,
        Family::V6 => put16(&mut bytes, 4, response_ms.min(0x7fff)),
    }
    match group {
        Some(group) => push(&mut bytes, family, group),
        None => bytes.resize(bytes.len() + family.address_len(), 0),
    }
    bytes.extend(QRV_QQIC);
    bytes.extend([0; 2]);
    bytes
}

fn report(family: Family, records: &[Record]) -> Vec<u8> {
    let mut bytes = vec![0; field::RECORDS];
    bytes[0] = family.codes().report;
    put16(&mut bytes, 6, u16::try_from(records.len()).expect("at most 65535 records"));
    for record in records {
        bytes.extend([record.change.record_type(), 0, 0, 0]);
        push(&mut bytes, family, record.group);
    }
    bytes
}

fn push(bytes: &mut Vec<u8>, family: Family, group: IpAddr) {
    match (family, group) {
        (Family::V4, IpAddr::V4(group)) => bytes.extend(group.octets()),
        (Family::V6, IpAddr::V6(group)) => bytes.extend(group.octets()),
        _ => panic!("a group of the other IP version"),
    }
}

#[cfg(test)]
mod tests;
