//! Administrative records (RFC 9171, section 6.1): bundle status reports.
//!
//! Records of other types are kept as their type and bytes (RFC 9713).

use super::bundle::{Fragment, Timestamp};
use super::cbor::{self, Reader};
use super::eid::Eid;
use crate::Error;

const STATUS_REPORT: u64 = 1;

/// Administrative record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Bundle status report.
    Status(StatusReport),
    /// Record of another type, with its encoded content.
    Other(u64, Box<[u8]>),
}

/// Event in a status report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Set if it has happened.
    pub is_asserted: bool,
    /// Time of the event in milliseconds since 2000, if asked for.
    pub time: Option<u64>,
}

/// Bundle status report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReport {
    /// Reception.
    pub received: Status,
    /// Forwarding.
    pub forwarded: Status,
    /// Delivery.
    pub delivered: Status,
    /// Deletion.
    pub deleted: Status,
    /// Reason code: see [`reason`].
    pub reason: u64,
    /// Source of the bundle.
    pub source: Eid,
    /// Creation timestamp of the bundle.
    pub timestamp: Timestamp,
    /// Offset and length of the payload, if the bundle is a fragment.
    pub fragment: Option<(u64, u64)>,
}

/// Reason codes of status reports (RFC 9171, section 9.5).
pub mod reason {
    /// No additional information.
    pub const NONE: u64 = 0;
    /// Lifetime expired.
    pub const EXPIRED: u64 = 1;
    /// Forwarded over a unidirectional link.
    pub const UNIDIRECTIONAL: u64 = 2;
    /// Transmission cancelled.
    pub const CANCELLED: u64 = 3;
    /// Depleted storage.
    pub const STORAGE: u64 = 4;
    /// Destination endpoint unavailable.
    pub const UNAVAILABLE: u64 = 5;
    /// No known route.
    pub const NO_ROUTE: u64 = 6;
    /// No timely contact with the next node on the route.
    pub const NO_CONTACT: u64 = 7;
    /// Block unintelligible.
    pub const UNINTELLIGIBLE: u64 = 8;
    /// Hop limit exceeded.
    pub const HOP_LIMIT: u64 = 9;
    /// Traffic pared.
    pub const PARED: u64 = 10;
    /// Block unsupported.
    pub const UNSUPPORTED: u64 = 11;
}

impl Status {
    fn read(reader: &mut Reader<'_>) -> Result<Status, Error> {
        let start = *reader;
        let count = reader.array()?;
        let is_asserted = reader.boolean()?;
        match (count, is_asserted) {
            (1, _) => Ok(Status { is_asserted, time: None }),
            (2, true) => Ok(Status { is_asserted, time: Some(reader.uint()?) }),
            _ => Err(start.malformed("a status that is neither a boolean nor one with a time")),
        }
    }

    fn put(self, out: &mut Vec<u8>) {
        let time = self.time.filter(|_| self.is_asserted);
        cbor::put_array(out, 1 + usize::from(time.is_some()));
        cbor::put_boolean(out, self.is_asserted);
        time.into_iter().for_each(|time| cbor::put_uint(out, time));
    }
}

impl StatusReport {
    fn read(reader: &mut Reader<'_>) -> Result<StatusReport, Error> {
        let start = *reader;
        let count = reader.array()?;
        if count != 4 && count != 6 {
            return Err(start.malformed("a status report of neither four elements nor six"));
        }
        reader.array_of(4, "not four statuses")?;
        let [received, forwarded, delivered, deleted] =
            [Status::read(reader)?, Status::read(reader)?, Status::read(reader)?, Status::read(reader)?];
        let (reason, source) = (reader.uint()?, Eid::read(reader)?);
        let timestamp = Timestamp::read(reader)?;
        let fragment = if count == 6 { Some((reader.uint()?, reader.uint()?)) } else { None };
        Ok(StatusReport { received, forwarded, delivered, deleted, reason, source, timestamp, fragment })
    }

    fn put(&self, out: &mut Vec<u8>) {
        cbor::put_array(out, 4 + 2 * usize::from(self.fragment.is_some()));
        cbor::put_array(out, 4);
        [self.received, self.forwarded, self.delivered, self.deleted]
            .into_iter()
            .for_each(|status| status.put(out));
        cbor::put_uint(out, self.reason);
        self.source.put(out);
        self.timestamp.put(out);
        if let Some((offset, len)) = self.fragment {
            cbor::put_uint(out, offset);
            cbor::put_uint(out, len);
        }
    }

    /// Creates a report about a bundle or a fragment of `len` bytes, without events.
    pub fn new(source: Eid, timestamp: Timestamp, fragment: Option<Fragment>, len: u64) -> StatusReport {
        let [received, forwarded, delivered, deleted] = [Status::default(); 4];
        let fragment = fragment.map(|fragment| (fragment.offset, len));
        StatusReport {
            received,
            forwarded,
            delivered,
            deleted,
            reason: reason::NONE,
            source,
            timestamp,
            fragment,
        }
    }
}

impl Record {
    /// Parses a record that fills `bytes`.
    ///
    /// # Errors
    /// Returns an error if it is malformed; content of unknown types is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Record, Error> {
        let mut reader = Reader::new(bytes);
        reader.array_of(2, "an administrative record that is not a pair")?;
        let code = reader.uint()?;
        if code != STATUS_REPORT {
            return Ok(Record::Other(code, reader.rest().into()));
        }
        let report = StatusReport::read(&mut reader)?;
        reader.end().map(|()| Record::Status(report))
    }

    /// Returns the encoded record.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        cbor::put_array(&mut out, 2);
        match self {
            Record::Status(report) => {
                cbor::put_uint(&mut out, STATUS_REPORT);
                report.put(&mut out);
            }
            Record::Other(code, content) => {
                cbor::put_uint(&mut out, *code);
                out.extend(content);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(fragment: Option<(u64, u64)>) -> StatusReport {
        let delivered = Status { is_asserted: true, time: Some(820_540_800_000) };
        let timestamp = Timestamp { time: 820_540_800_000, sequence: 3 };
        StatusReport { delivered, fragment, ..StatusReport::new(Eid::ipn(2, 1), timestamp, None, 0) }
    }

    #[test]
    fn reports_round_trip() {
        for fragment in [None, Some((100, 20))] {
            let record = Record::Status(report(fragment));
            assert_eq!(Record::parse(&record.to_vec()), Ok(record));
        }
    }

    #[test]
    fn a_report_is_these_bytes() {
        let bytes = Record::Status(report(None)).to_vec();
        let statuses =
            [0x84, 0x81, 0xf4, 0x81, 0xf4, 0x82, 0xf5, 0x1b, 0, 0, 0, 0xbf, 0x0c, 0x0a, 0xfc, 0, 0x81, 0xf4];
        assert_eq!(bytes[..3], [0x82, 1, 0x84]);
        assert_eq!(bytes[3..21], statuses);
        assert_eq!(bytes[21..27], [0, 0x82, 2, 0x82, 2, 1]);
    }

    #[test]
    fn other_types_are_kept() {
        let record = Record::Other(64384, [1, 2].into());
        assert_eq!(Record::parse(&record.to_vec()), Ok(record));
    }
}
