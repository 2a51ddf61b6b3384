//! Primary block (RFC 9171, section 4.3.1).

use super::super::cbor::{self, Reader};
use super::super::crc::CrcKind;
use super::super::eid::Eid;
use super::block::put_crc;
use crate::Error;

/// Seconds from the Unix epoch to 2000-01-01T00:00:00 UTC, from which bundles count.
pub const UNIX_OFFSET: u64 = 946_684_800;

const VERSION: u64 = 7;

/// Bundle processing control flags (RFC 9171, section 4.2.3). Unassigned bits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BundleFlags(pub u64);

impl BundleFlags {
    /// The bundle is a fragment.
    pub const FRAGMENT: BundleFlags = BundleFlags(0x1);
    /// The payload is an administrative record.
    pub const ADMIN: BundleFlags = BundleFlags(0x2);
    /// The bundle must not be fragmented.
    pub const WHOLE: BundleFlags = BundleFlags(0x4);
    /// The application is to acknowledge it.
    pub const ACKNOWLEDGE: BundleFlags = BundleFlags(0x20);
    /// Reports are to carry the time.
    pub const REPORT_TIME: BundleFlags = BundleFlags(0x40);
    /// Reception is to be reported.
    pub const REPORT_RECEPTION: BundleFlags = BundleFlags(0x4000);
    /// Forwarding is to be reported.
    pub const REPORT_FORWARDING: BundleFlags = BundleFlags(0x1_0000);
    /// Delivery is to be reported.
    pub const REPORT_DELIVERY: BundleFlags = BundleFlags(0x2_0000);
    /// Deletion is to be reported.
    pub const REPORT_DELETION: BundleFlags = BundleFlags(0x4_0000);
    /// Requests for reports of any kind.
    pub const ANY_REPORT: BundleFlags = BundleFlags(0x7_4000);

    /// Returns `true` if any of `flags` is set.
    pub fn has(self, flags: BundleFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns the flags with `flags` set.
    #[must_use]
    pub fn with(self, flags: BundleFlags) -> BundleFlags {
        BundleFlags(self.0 | flags.0)
    }
}

/// Creation timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Milliseconds since 2000-01-01T00:00:00 UTC; 0 without a clock.
    pub time: u64,
    /// Sequence number.
    pub sequence: u64,
}

impl Timestamp {
    /// Reads a timestamp.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn read(reader: &mut Reader<'_>) -> Result<Timestamp, Error> {
        reader.array_of(2, "a timestamp that is not a pair")?;
        Ok(Timestamp { time: reader.uint()?, sequence: reader.uint()? })
    }

    /// Appends the timestamp.
    pub fn put(&self, out: &mut Vec<u8>) {
        cbor::put_array(out, 2);
        cbor::put_uint(out, self.time);
        cbor::put_uint(out, self.sequence);
    }
}

/// Place of a fragment in its bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Offset of its payload in bytes.
    pub offset: u64,
    /// Length of the whole payload in bytes.
    pub total: u64,
}

/// Primary block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Flags. The flag of fragments follows from `fragment`.
    pub flags: BundleFlags,
    /// Kind of CRC.
    pub crc: CrcKind,
    /// Destination.
    pub destination: Eid,
    /// Source.
    pub source: Eid,
    /// Endpoint that reports go to.
    pub report_to: Eid,
    /// Time of creation.
    pub timestamp: Timestamp,
    /// Lifetime in milliseconds from the creation.
    pub lifetime: u64,
    /// Place in its bundle, if it is a fragment.
    pub fragment: Option<Fragment>,
}

impl Primary {
    /// Creates the block of a bundle without reports, with CRC-32C.
    pub fn new(source: Eid, destination: Eid, timestamp: Timestamp, lifetime: u64) -> Primary {
        Primary {
            flags: BundleFlags::default(),
            crc: CrcKind::Castagnoli,
            destination,
            source,
            report_to: Eid::None,
            timestamp,
            lifetime,
            fragment: None,
        }
    }

    /// Appends the block with its CRC.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        cbor::put_array(
            out,
            8 + usize::from(!self.crc.is_empty()) + 2 * usize::from(self.fragment.is_some()),
        );
        cbor::put_uint(out, VERSION);
        let fragment = BundleFlags::FRAGMENT.0;
        cbor::put_uint(out, self.flags.0 & !fragment | if self.fragment.is_some() { fragment } else { 0 });
        cbor::put_uint(out, self.crc.code());
        [&self.destination, &self.source, &self.report_to].into_iter().for_each(|eid| eid.put(out));
        self.timestamp.put(out);
        cbor::put_uint(out, self.lifetime);
        if let Some(Fragment { offset, total }) = self.fragment {
            cbor::put_uint(out, offset);
            cbor::put_uint(out, total);
        }
        put_crc(out, start, self.crc);
    }

    /// Reads the block without checking its CRC.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Primary, Error> {
        let start = *reader;
        let count = reader.array()?;
        if reader.uint()? != VERSION {
            return Err(start.malformed("not of bundle protocol version 7"));
        }
        let flags = BundleFlags(reader.uint()?);
        let crc = CrcKind::from_code(reader.uint()?).ok_or(start.malformed("an unknown CRC type"))?;
        let is_fragment = flags.has(BundleFlags::FRAGMENT);
        if count != 8 + u64::from(!crc.is_empty()) + 2 * u64::from(is_fragment) {
            return Err(start.malformed("a primary block of another length than its flags and CRC need"));
        }
        let flags = BundleFlags(flags.0 & !BundleFlags::FRAGMENT.0);
        let [destination, source, report_to] = [Eid::read(reader)?, Eid::read(reader)?, Eid::read(reader)?];
        let timestamp = Timestamp::read(reader)?;
        let lifetime = reader.uint()?;
        let fragment = match is_fragment {
            true => Some(Fragment { offset: reader.uint()?, total: reader.uint()? }),
            false => None,
        };
        Ok(Primary { flags, crc, destination, source, report_to, timestamp, lifetime, fragment })
    }
}
