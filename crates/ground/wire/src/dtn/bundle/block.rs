//! Extension blocks (RFC 9171, sections 4.3.2 and 4.4).

use super::super::cbor::{self, Reader};
use super::super::crc::{Crc, CrcKind};
use super::super::eid::Eid;
use super::code;
use crate::Error;

/// Block processing control flags (RFC 9171, section 4.2.4). Unassigned bits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockFlags(pub u64);

impl BlockFlags {
    /// The block is to be in every fragment.
    pub const REPLICATE: BlockFlags = BlockFlags(0x1);
    /// A report is asked for if the block cannot be processed.
    pub const REPORT: BlockFlags = BlockFlags(0x2);
    /// The bundle is to be deleted if the block cannot be processed.
    pub const DELETE_BUNDLE: BlockFlags = BlockFlags(0x4);
    /// The block is to be discarded if it cannot be processed.
    pub const DISCARD: BlockFlags = BlockFlags(0x10);

    /// Returns `true` if any of `flags` is set.
    pub fn has(self, flags: BlockFlags) -> bool {
        self.0 & flags.0 != 0
    }
}

/// Hop limit and count (RFC 9171, section 4.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopCount {
    /// Maximum number of hops, 1 to 255.
    pub limit: u8,
    /// Hops up to here.
    pub count: u64,
}

/// Content of an extension block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Node that forwarded the bundle last.
    PreviousNode(Eid),
    /// Age of the bundle in milliseconds.
    Age(u64),
    /// Hop limit and count.
    HopCount(HopCount),
    /// Abstract security block of a block integrity block.
    Integrity(Box<[u8]>),
    /// Abstract security block of a block confidentiality block.
    Confidentiality(Box<[u8]>),
    /// Data of any other block.
    Other {
        /// Type code.
        code: u64,
        /// Data.
        data: Box<[u8]>,
    },
}

impl Content {
    /// Returns the type code.
    pub fn code(&self) -> u64 {
        match self {
            Content::PreviousNode(_) => code::PREVIOUS_NODE,
            Content::Age(_) => code::AGE,
            Content::HopCount(_) => code::HOP_COUNT,
            Content::Integrity(_) => code::INTEGRITY,
            Content::Confidentiality(_) => code::CONFIDENTIALITY,
            Content::Other { code, .. } => *code,
        }
    }

    /// Appends the data of the block without its head.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Content::PreviousNode(eid) => eid.put(out),
            Content::Age(age) => cbor::put_uint(out, *age),
            Content::HopCount(HopCount { limit, count }) => {
                cbor::put_array(out, 2);
                cbor::put_uint(out, (*limit).into());
                cbor::put_uint(out, *count);
            }
            Content::Integrity(data) | Content::Confidentiality(data) | Content::Other { data, .. } => {
                out.extend(data)
            }
        }
    }

    fn read(code: u64, data: &[u8], base: usize) -> Result<Content, Error> {
        let mut reader = Reader::nested(data, base);
        let content = match code {
            code::PREVIOUS_NODE => Content::PreviousNode(Eid::read(&mut reader)?),
            code::AGE => Content::Age(reader.uint()?),
            code::HOP_COUNT => Content::HopCount(read_hop_count(&mut reader)?),
            code::INTEGRITY => return Ok(Content::Integrity(data.into())),
            code::CONFIDENTIALITY => return Ok(Content::Confidentiality(data.into())),
            code => return Ok(Content::Other { code, data: data.into() }),
        };
        reader.end().map(|()| content)
    }
}

fn read_hop_count(reader: &mut Reader<'_>) -> Result<HopCount, Error> {
    reader.array_of(2, "a hop count that is not a pair")?;
    let start = *reader;
    let limit = u8::try_from(reader.uint()?).ok().filter(|limit| *limit > 0);
    let limit = limit.ok_or(start.malformed("a hop limit outside 1 to 255"))?;
    Ok(HopCount { limit, count: reader.uint()? })
}

/// Extension block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number, 2 or more.
    pub number: u64,
    /// Flags.
    pub flags: BlockFlags,
    /// Kind of CRC.
    pub crc: CrcKind,
    /// Content.
    pub content: Content,
}

/// Fields of a block in front of its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) code: u64,
    pub(super) number: u64,
    pub(super) flags: BlockFlags,
    pub(super) crc: CrcKind,
}

impl Head {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Head, Error> {
        let start = *reader;
        let count = reader.array()?;
        let (code, number, flags) = (reader.uint()?, reader.uint()?, BlockFlags(reader.uint()?));
        let crc = CrcKind::from_code(reader.uint()?).ok_or(start.malformed("an unknown CRC type"))?;
        if count != 5 + u64::from(!crc.is_empty()) {
            return Err(start.malformed("a block of neither five elements nor six with a CRC"));
        }
        Ok(Head { code, number, flags, crc })
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        cbor::put_array(out, 5 + usize::from(!self.crc.is_empty()));
        cbor::put_uint(out, self.code);
        cbor::put_uint(out, self.number);
        cbor::put_uint(out, self.flags.0);
        cbor::put_uint(out, self.crc.code());
    }
}

impl Block {
    /// Creates a block without flags and CRC.
    pub fn new(number: u64, content: Content) -> Block {
        Block { number, flags: BlockFlags::default(), crc: CrcKind::None, content }
    }

    /// Appends the block with its CRC.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let Block { number, flags, crc, .. } = *self;
        Head { code: self.content.code(), number, flags, crc }.put(out);
        let mut data = Vec::new();
        self.content.put(&mut data);
        cbor::put_bytes(out, &data);
        put_crc(out, start, crc);
    }

    /// Reads the data after its head; the CRC is left.
    pub(super) fn read(head: Head, reader: &mut Reader<'_>) -> Result<Block, Error> {
        let data = reader.bytes()?;
        let base = reader.offset() - data.len();
        let content = Content::read(head.code, data, base)?;
        Ok(Block { number: head.number, flags: head.flags, crc: head.crc, content })
    }
}

/// Appends the CRC of the block that begins at `start`.
pub(super) fn put_crc(out: &mut Vec<u8>, start: usize, kind: CrcKind) {
    if !kind.is_empty() {
        cbor::put_bytes_head(out, kind.len() as u64);
        let crc = Crc::new(kind).add_bytes(&out[start..]).add_zeros(kind.len() as u64);
        crc.put(out);
    }
}

/// Reads the CRC of the block that begins at `start`, and compares it.
pub(super) fn verify_crc(reader: &mut Reader<'_>, start: &Reader<'_>, kind: CrcKind) -> Result<(), Error> {
    if kind.is_empty() {
        return Ok(());
    }
    let at = reader.offset();
    let crc = reader.bytes()?;
    if crc.len() != kind.len() {
        return Err(Error::malformed(crate::Layer::Bundle, at, "a CRC of another length than its type"));
    }
    let covered = &start.rest()[..reader.position() - start.position() - crc.len()];
    let expected = Crc::new(kind).add_bytes(covered).add_zeros(crc.len() as u64).value().to_be_bytes();
    if expected[4 - kind.len()..] == *crc { Ok(()) } else { Err(Error::checksum(crate::Layer::Bundle, at)) }
}
