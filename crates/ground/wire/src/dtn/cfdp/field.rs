//! Fields of the header and codes of directives.

use super::{Common, Transaction, checksum};
use crate::{Error, Layer};

pub(super) const END_OF_FILE: u8 = 4;
pub(super) const FINISHED: u8 = 5;
pub(super) const ACK: u8 = 6;
pub(super) const METADATA: u8 = 7;
pub(super) const NAK: u8 = 8;
pub(super) const PROMPT: u8 = 9;
pub(super) const KEEP_ALIVE: u8 = 12;

/// Length of a PDU's CRC.
pub(super) const CRC_LEN: usize = 2;

/// Version of the protocol, in the first three bits.
const VERSION: u8 = 1;

/// Fields of the header that the content determines.
pub(super) struct Header {
    pub(super) is_data: bool,
    pub(super) is_to_sender: bool,
    /// Set if data has segment metadata.
    pub(super) has_metadata: bool,
    pub(super) data_len: usize,
}

/// Returns the low bits of a value.
pub(super) fn mask(value: u8, bits: u32) -> u8 {
    value & ((1 << bits) - 1)
}

fn bit(byte: u8, number: u32) -> bool {
    byte >> number & 1 != 0
}

impl Header {
    /// Parses the header at the start of `bytes`.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Header, Common), Error> {
        let short = |needed| Error::truncated(Layer::Cfdp, 0, needed, bytes.len());
        let &[first, high, low, lens] = bytes.first_chunk::<4>().ok_or_else(|| short(4))?;
        if first >> 5 != VERSION {
            return Err(Error::unsupported(Layer::Cfdp, 0, "a version other than 1"));
        }
        let (entity_len, number_len) = (mask(lens >> 4, 3) + 1, mask(lens, 3) + 1);
        let mut common = Common {
            transaction: Transaction { source: 0, number: 0 },
            destination: 0,
            entity_len,
            number_len,
            is_acknowledged: !bit(first, 2),
            has_crc: bit(first, 1),
            is_large: bit(first, 0),
        };
        let needed = common.header_len();
        let rest = bytes.get(4..needed).ok_or_else(|| short(needed))?;
        let (source, rest) = rest.split_at(entity_len.into());
        let (number, destination) = rest.split_at(number_len.into());
        common.transaction = Transaction { source: value(source), number: value(number) };
        common.destination = value(destination);
        let header = Header {
            is_data: bit(first, 4),
            is_to_sender: bit(first, 3),
            has_metadata: bit(lens, 3),
            data_len: u16::from_be_bytes([high, low]).into(),
        };
        Ok((header, common))
    }

    /// Returns the encoded header.
    pub(super) fn to_vec(&self, common: &Common) -> Vec<u8> {
        let flags = [
            (4, self.is_data),
            (3, self.is_to_sender),
            (2, !common.is_acknowledged),
            (1, common.has_crc),
            (0, common.is_large),
        ];
        let first =
            flags.into_iter().fold(VERSION << 5, |byte, (bit, is_set)| byte | u8::from(is_set) << bit);
        let lens = (common.entity_len - 1) << 4 | (common.number_len - 1) | u8::from(self.has_metadata) << 3;
        let [high, low] = (self.data_len as u16).to_be_bytes();
        let mut out = vec![first, high, low, lens];
        let Transaction { source, number } = common.transaction;
        let fields = [
            (source, common.entity_len),
            (number, common.number_len),
            (common.destination, common.entity_len),
        ];
        for (value, len) in fields {
            out.extend(&value.to_be_bytes()[8 - usize::from(len)..]);
        }
        out
    }
}

/// Returns the number that up to eight bytes are.
fn value(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Appends a file size or offset.
pub(super) fn put_size(out: &mut Vec<u8>, is_large: bool, value: u64) {
    match is_large {
        true => out.extend(value.to_be_bytes()),
        false => out.extend((value as u32).to_be_bytes()),
    }
}

/// Checks the CRC of a PDU and returns the end of what it covers.
pub(super) fn check_crc(pdu: &[u8], start: usize) -> Result<usize, Error> {
    let end = pdu.len().checked_sub(CRC_LEN).filter(|end| *end >= start);
    let end = end.ok_or(Error::malformed(Layer::Cfdp, 1, "a data field without room for its CRC"))?;
    let crc = checksum::crc16(&pdu[..end]).to_be_bytes();
    if pdu[end..] == crc { Ok(end) } else { Err(Error::checksum(Layer::Cfdp, end)) }
}
