//! Reading of bundles.

use super::super::cbor::{self, Reader};
use super::block::{Head, verify_crc};
use super::{Block, Breach, Bundle, Fragment, MAX_BLOCKS, Payload, Primary, code};
use crate::{Error, Layer};

/// Malformed bundle, which a node has to delete (RFC 9171, section 5.6, step 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Primary block, for reports; `None` if it cannot be read or its CRC is wrong.
    pub primary: Option<Box<Primary>>,
    /// Length of the payload; 0 if it cannot be read.
    pub len: u64,
    /// Flaw that was found first.
    pub flaw: Flaw,
}

/// Flaw of a malformed bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The encoding is wrong.
    #[error(transparent)]
    Encoding(#[from] Error),
    /// The fields break a rule.
    #[error(transparent)]
    Breach(#[from] Breach),
}

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

    /// Parses a bundle from another node, and checks structure, CRCs and rules.
    ///
    /// # Errors
    /// Returns what is left of a bundle that must be deleted.
    pub fn receive(bytes: &[u8]) -> Result<Bundle, Malformed> {
        let (bundle, len) = Bundle::receive_first(bytes);
        let bundle = bundle?;
        match Reader::nested(&bytes[len..], len) {
            rest if rest.rest().is_empty() => Ok(bundle),
            rest => {
                let flaw = Flaw::Encoding(rest.malformed("bytes after the bundle"));
                Err(Malformed { len: bundle.payload.len(), primary: Some(Box::new(bundle.primary)), flaw })
            }
        }
    }

    /// Parses the first of several bundles as [`Bundle::receive`], and returns its length too.
    ///
    /// Without a structure to follow, a malformed bundle extends to the end.
    pub fn receive_first(bytes: &[u8]) -> (Result<Bundle, Malformed>, usize) {
        match Bundle::parse_first(bytes) {
            Ok((bundle, len)) => match bundle.check_received() {
                Ok(()) => (Ok(bundle), len),
                Err(breach) => {
                    let (len_of_payload, primary) = (bundle.payload.len(), Some(Box::new(bundle.primary)));
                    (Err(Malformed { primary, len: len_of_payload, flaw: breach.into() }), len)
                }
            },
            Err(error) => {
                let (primary, extent) = salvage(bytes);
                let (len, end) = extent.unwrap_or((0, bytes.len()));
                (Err(Malformed { primary: primary.map(Box::new), len, flaw: error.into() }), end)
            }
        }
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

/// Returns what can be read of a malformed bundle.
///
/// That is its primary block, the length of its payload and its end.
fn salvage(bytes: &[u8]) -> (Option<Primary>, Option<(u64, usize)>) {
    let mut reader = Reader::new(bytes);
    if reader.byte().ok() != Some(cbor::OPEN_ARRAY) {
        return (None, None);
    }
    let start = reader;
    let Ok(primary) = Primary::read(&mut reader) else { return (None, None) };
    // The end of the block is where its CRC ends, right or wrong.
    let mut rest = reader;
    let is_intact = verify_crc(&mut reader, &start, primary.crc).is_ok();
    let is_followed = primary.crc.is_empty() || rest.bytes().is_ok();
    let extent = if is_followed { extent(rest) } else { None };
    (Some(primary).filter(|_| is_intact), extent)
}

/// Returns the length of the payload and the end, by the blocks' structure alone.
fn extent(mut reader: Reader<'_>) -> Option<(u64, usize)> {
    loop {
        let head = Head::read(&mut reader).ok()?;
        let data = reader.bytes().ok()?;
        if !head.crc.is_empty() {
            reader.bytes().ok()?;
        }
        if head.code == code::PAYLOAD {
            let is_over = reader.byte().ok()? == cbor::BREAK;
            return is_over.then(|| (data.len() as u64, reader.position()));
        }
    }
}
