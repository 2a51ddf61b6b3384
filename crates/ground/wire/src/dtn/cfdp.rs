//! Protocol data units of the CCSDS File Delivery Protocol.
//!
//! After CCSDS 727.0-B-5, from memory; checked with `spacepackets`.
//!
//! Filestore requests, messages to the user, fault handlers and segment metadata are carried as bytes and not evaluated.
//! Version 0 of the protocol (727.0-B-4 and before) is refused.

mod checksum;
mod field;
mod read;

pub use checksum::{ChecksumKind, checksum};

use crate::{Error, Layer};
use field::{Header, mask};
use read::Cursor;

/// UDP port of entities, by custom: none is assigned.
pub const CFDP_PORT: u16 = 4560;

/// Longest data field of a PDU.
pub const MAX_DATA: usize = 65_535;

/// Condition of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Condition {
    /// No error.
    #[default]
    NoError = 0,
    /// Limit of positive acknowledgements reached.
    AckLimit = 1,
    /// Limit of keep-alives reached.
    KeepAliveLimit = 2,
    /// Invalid transmission mode.
    InvalidMode = 3,
    /// Rejection by the filestore.
    FilestoreRejection = 4,
    /// Wrong checksum of the file.
    FileChecksum = 5,
    /// Data beyond the size of the file.
    FileSize = 6,
    /// Limit of negative acknowledgements reached.
    NakLimit = 7,
    /// Inactivity detected.
    Inactivity = 8,
    /// Invalid file structure.
    InvalidStructure = 9,
    /// Limit of checks reached.
    CheckLimit = 10,
    /// Unsupported type of checksum.
    UnsupportedChecksum = 11,
    /// Request to suspend.
    Suspended = 14,
    /// Request to cancel.
    Cancelled = 15,
}

impl Condition {
    const ALL: [Condition; 14] = [
        Condition::NoError,
        Condition::AckLimit,
        Condition::KeepAliveLimit,
        Condition::InvalidMode,
        Condition::FilestoreRejection,
        Condition::FileChecksum,
        Condition::FileSize,
        Condition::NakLimit,
        Condition::Inactivity,
        Condition::InvalidStructure,
        Condition::CheckLimit,
        Condition::UnsupportedChecksum,
        Condition::Suspended,
        Condition::Cancelled,
    ];
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Condition::NoError => "no error",
            Condition::AckLimit => "no acknowledgement",
            Condition::KeepAliveLimit => "limit of keep-alives",
            Condition::InvalidMode => "invalid transmission mode",
            Condition::FilestoreRejection => "rejected by the filestore",
            Condition::FileChecksum => "wrong checksum",
            Condition::FileSize => "data beyond the size of the file",
            Condition::NakLimit => "limit of requests for lost data",
            Condition::Inactivity => "inactivity",
            Condition::InvalidStructure => "invalid file structure",
            Condition::CheckLimit => "data missing",
            Condition::UnsupportedChecksum => "unsupported checksum",
            Condition::Suspended => "suspended",
            Condition::Cancelled => "cancelled",
        })
    }
}

/// Number of a transaction: the entity that sends the file, and its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transaction {
    /// Entity that sends the file.
    pub source: u64,
    /// Sequence number there.
    pub number: u64,
}

/// Common fields of the PDUs of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Transaction.
    pub transaction: Transaction,
    /// Entity that receives the file.
    pub destination: u64,
    /// Length of entity identifiers in bytes, 1 to 8.
    pub entity_len: u8,
    /// Length of transaction sequence numbers in bytes, 1 to 8.
    pub number_len: u8,
    /// Set if the transaction is acknowledged: class 2.
    pub is_acknowledged: bool,
    /// Set if a CRC-16 ends each PDU.
    pub has_crc: bool,
    /// Set if file sizes and offsets have 64 bits.
    pub is_large: bool,
}

impl Common {
    /// Creates the fields of a transaction. Identifiers are the shortest of 1, 2, 4 or 8 bytes.
    pub fn new(transaction: Transaction, destination: u64) -> Common {
        let len = |value: u64| (value.checked_ilog(256).unwrap_or(0) as u8 + 1).next_power_of_two();
        Common {
            transaction,
            destination,
            entity_len: len(transaction.source.max(destination)),
            number_len: len(transaction.number),
            is_acknowledged: true,
            has_crc: false,
            is_large: false,
        }
    }

    /// Returns the length of the header.
    pub fn header_len(&self) -> usize {
        4 + 2 * usize::from(self.entity_len) + usize::from(self.number_len)
    }
}

/// Status of a file at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileStatus {
    /// Discarded deliberately.
    Discarded = 0,
    /// Discarded by the filestore.
    Rejected = 1,
    /// Retained.
    Retained = 2,
    /// Not reported.
    Unreported = 3,
}

/// Status of a transaction at an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not known any more, perhaps over.
    Undefined = 0,
    /// Going on.
    Active = 1,
    /// Over.
    Terminated = 2,
    /// Never known.
    Unrecognized = 3,
}

/// Description of a file in front of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// Set if the receiver reports the end of an unacknowledged transaction.
    pub wants_closure: bool,
    /// Type of checksum.
    pub checksum: u8,
    /// File size in bytes; 0 if it has no bound.
    pub size: u64,
    /// Name at the source.
    pub source: &'a [u8],
    /// Name at the destination.
    pub destination: &'a [u8],
    /// Options as type, length and value.
    pub options: &'a [u8],
}

/// Content of a PDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Part of the file at an offset.
    Data(u64, &'a [u8]),
    /// End of the file, with its checksum and size.
    EndOfFile {
        /// Condition.
        condition: Condition,
        /// Checksum of the data sent.
        checksum: u32,
        /// Size of the data sent.
        size: u64,
    },
    /// End of the transaction at the receiver.
    Finished {
        /// Condition.
        condition: Condition,
        /// Set if all of the file was delivered.
        is_complete: bool,
        /// Status of the file.
        status: FileStatus,
    },
    /// Acknowledgement of an end of file.
    AckEndOfFile(Condition, Status),
    /// Acknowledgement of the end of a transaction.
    AckFinished(Condition, Status),
    /// Description of the file.
    Metadata(Metadata<'a>),
    /// Request for lost data.
    Nak {
        /// Start of the scope.
        start: u64,
        /// End of the scope.
        end: u64,
        /// Parts that are missing; one from 0 to 0 is the metadata.
        requests: Vec<(u64, u64)>,
    },
    /// Request for a NAK, or for a keep-alive if set.
    Prompt(bool),
    /// Number of bytes received in a row from the start.
    KeepAlive(u64),
}

impl Content<'_> {
    /// Returns `true` if the PDU goes to the sender of the file.
    pub fn is_to_sender(&self) -> bool {
        matches!(
            self,
            Content::Finished { .. }
                | Content::AckEndOfFile(..)
                | Content::Nak { .. }
                | Content::KeepAlive(_)
        )
    }
}

/// Protocol data unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// Common fields.
    pub common: Common,
    /// Content.
    pub content: Content<'a>,
}

impl<'a> Pdu<'a> {
    /// Parses the PDU at the start of `bytes`.
    ///
    /// # Errors
    /// Returns an error if it is cut, malformed, of another version, or has a wrong CRC.
    pub fn parse(bytes: &'a [u8]) -> Result<Pdu<'a>, Error> {
        let (header, common) = Header::parse(bytes)?;
        let (start, end) = (common.header_len(), common.header_len() + header.data_len);
        let whole = bytes.get(..end).ok_or(Error::truncated(Layer::Cfdp, 1, end, bytes.len()))?;
        let end = if common.has_crc { field::check_crc(whole, start)? } else { end };
        let mut cursor = Cursor { bytes: &whole[..end], at: start, is_large: common.is_large };
        let content = if header.is_data { cursor.data(header.has_metadata)? } else { cursor.directive()? };
        match content.is_to_sender() == header.is_to_sender {
            true => Ok(Pdu { common, content }),
            false => Err(Error::malformed(Layer::Cfdp, 0, "a PDU in the wrong direction")),
        }
    }

    /// Returns the encoded PDU.
    ///
    /// # Panics
    /// Panics if the content is longer than 65535 bytes, or names longer than 255.
    pub fn to_vec(&self) -> Vec<u8> {
        let common = &self.common;
        let mut body = Vec::new();
        self.content.put(common.is_large, &mut body);
        let data_len = body.len() + if common.has_crc { field::CRC_LEN } else { 0 };
        assert!(data_len <= MAX_DATA, "a data field of {data_len} bytes");
        let header = Header {
            is_data: matches!(self.content, Content::Data(..)),
            is_to_sender: self.content.is_to_sender(),
            has_metadata: false,
            data_len,
        };
        let mut out = header.to_vec(common);
        out.extend(body);
        if common.has_crc {
            let crc = checksum::crc16(&out);
            out.extend(crc.to_be_bytes());
        }
        out
    }
}

impl Content<'_> {
    fn put(&self, is_large: bool, out: &mut Vec<u8>) {
        let size = |value: u64, out: &mut Vec<u8>| field::put_size(out, is_large, value);
        match self {
            Content::Data(offset, data) => {
                size(*offset, out);
                out.extend(*data);
            }
            Content::EndOfFile { condition, checksum, size: len } => {
                out.extend([field::END_OF_FILE, (*condition as u8) << 4]);
                out.extend(checksum.to_be_bytes());
                size(*len, out);
            }
            Content::Finished { condition, is_complete, status } => {
                let delivery = u8::from(!is_complete) << 2;
                out.extend([field::FINISHED, (*condition as u8) << 4 | delivery | *status as u8]);
            }
            Content::AckEndOfFile(condition, status) => {
                let code = field::END_OF_FILE << 4;
                out.extend([field::ACK, code, (*condition as u8) << 4 | *status as u8]);
            }
            Content::AckFinished(condition, status) => {
                // The subtype of the Finished directive is 1.
                let code = field::FINISHED << 4 | 1;
                out.extend([field::ACK, code, (*condition as u8) << 4 | *status as u8]);
            }
            Content::Metadata(metadata) => {
                out.extend([
                    field::METADATA,
                    u8::from(metadata.wants_closure) << 6 | mask(metadata.checksum, 4),
                ]);
                size(metadata.size, out);
                for name in [metadata.source, metadata.destination] {
                    out.push(u8::try_from(name.len()).expect("a name of at most 255 bytes"));
                    out.extend(name);
                }
                out.extend(metadata.options);
            }
            Content::Nak { start, end, requests } => {
                out.push(field::NAK);
                let parts = requests.iter().flat_map(|(from, to)| [*from, *to]);
                [*start, *end].into_iter().chain(parts).for_each(|value| size(value, out));
            }
            Content::Prompt(keep_alive) => out.extend([field::PROMPT, u8::from(*keep_alive) << 7]),
            Content::KeepAlive(progress) => {
                out.push(field::KEEP_ALIVE);
                size(*progress, out);
            }
        }
    }
}

#[cfg(test)]
mod tests;
