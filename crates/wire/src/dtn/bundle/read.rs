//! Reading of bundles.

use super::super::cbor::{self, Reader};
use super::block::{Head, verify_crc};
use super::{Block, Bundle, Fragment, MAX_BLOCKS, Payload, Primary, code};
use crate::{Error, Layer};

impl Bundle {
    /// Parses a bundle that fills `bytes`, and checks its structure and CRCs.
    ///
    /// # Errors
    /// Returns an error with the offset of the offending item.
    pub fn parse(bytes: &[u8]) -> Result<Bundle, Error> {
        let mut reader = Reader::new(bytes);
        let bundle = Bundle::read(&mut reader)?;
        reader.end()?;
        Ok(bundle)
    }

    /// Parses the first of several bundles, and returns it with its length.
    ///
    /// LTP blocks of ION have bundles one after another.
    ///
    /// # Errors
    /// Returns an error with the offset of the offending item.
    pub fn parse_first(bytes: &[u8]) -> Result<(Bundle, usize), Error> {
        let mut reader = Reader::new(bytes);
        let bundle = Bundle::read(&mut reader)?;
        Ok((bundle, reader.position()))
    }

    /// Parses the first bytes of a bundle as a fragment (RFC 9171, section 5.8).
    ///
    /// `None` if no payload is there, or the bundle is wrong or must not be fragmented. CRCs of the blocks in front of the payload
    /// are checked; that of the payload covers bytes that are missing.
    pub fn parse_part(bytes: &[u8]) -> Option<Bundle> {
        let mut reader = Reader::new(bytes);
        let (primary, blocks, head, _) = read_front(&mut reader).ok()?;
        let len = reader.bytes_head().ok()?;
        let own = primary.fragment.unwrap_or(Fragment { offset: 0, total: len });
        if own.offset.checked_add(len)? > own.total {
            return None;
        }
        let rest = reader.rest();
        let arrived = &rest[..usize::try_from(len).unwrap_or(usize::MAX).min(rest.len())];
        let payload = Payload { flags: head.flags, crc: head.crc, bytes: arrived.to_vec(), zeros: 0 };
        let bundle = Bundle { primary, blocks, payload };
        if arrived.is_empty() || !bundle.is_divisible() || bundle.check_received().is_err() {
            return None;
        }
        Some(Bundle { primary: Primary { fragment: Some(own), ..bundle.primary }, ..bundle })
    }

    fn read(reader: &mut Reader<'_>) -> Result<Bundle, Error> {
        let (primary, blocks, head, start) = read_front(reader)?;
        let payload = read_payload(head, reader, &start)?;
        if reader.byte()? != cbor::BREAK {
            return Err(reader.malformed("a block after the payload block"));
        }
        Ok(Bundle { primary, blocks, payload })
    }
}

/// Reads all up to the length of the payload.
///
/// Returns the place where the payload block begins too.
fn read_front<'a>(reader: &mut Reader<'a>) -> Result<(Primary, Vec<Block>, Head, Reader<'a>), Error> {
    if reader.byte()? != cbor::OPEN_ARRAY {
        return Err(Error::malformed(Layer::Bundle, 0, "not an array of indefinite length"));
    }
    let start = *reader;
    let primary = Primary::read(reader)?;
    verify_crc(reader, &start, primary.crc)?;
    let mut blocks = Vec::new();
    loop {
        let start = *reader;
        let head = Head::read(reader)?;
        if head.code == code::PAYLOAD {
            if head.number != 1 {
                return Err(start.malformed("a payload block whose number is not 1"));
            }
            ensure_unique(&blocks)?;
            return Ok((primary, blocks, head, start));
        }
        if head.number < 2 {
            return Err(start.malformed("an extension block with number 0 or 1"));
        }
        if blocks.len() == MAX_BLOCKS {
            return Err(Error::unsupported(Layer::Bundle, start.offset(), "more than 64 extension blocks"));
        }
        blocks.push(Block::read(head, reader)?);
        verify_crc(reader, &start, head.crc)?;
    }
}

fn read_payload(head: Head, reader: &mut Reader<'_>, start: &Reader<'_>) -> Result<Payload, Error> {
    let bytes = reader.bytes()?.to_vec();
    verify_crc(reader, start, head.crc)?;
    Ok(Payload { flags: head.flags, crc: head.crc, bytes, zeros: 0 })
}

/// Checks that block numbers, and blocks allowed once, occur once.
fn ensure_unique(blocks: &[Block]) -> Result<(), Error> {
    for (n, block) in blocks.iter().enumerate() {
        let code = block.content.code();
        let is_single = matches!(code, code::PREVIOUS_NODE | code::AGE | code::HOP_COUNT);
        for other in &blocks[..n] {
            if other.number == block.number {
                return Err(Error::malformed(Layer::Bundle, 0, "two blocks with one number"));
            }
            if is_single && other.content.code() == code {
                return Err(Error::malformed(Layer::Bundle, 0, "two blocks of a type that occurs once"));
            }
        }
    }
    Ok(())
}
