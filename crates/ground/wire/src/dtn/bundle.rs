//! Bundles of Bundle Protocol version 7 (RFC 9171).
//!
//! [`Bundle::parse`] accepts only what it would write itself: a bundle that it read is written again in the same bytes,
//! so that CRCs and signatures over blocks stay valid. It checks structure and CRCs; [`Bundle::check`] checks the
//! rules that a receiving node enforces beyond it, because the examples of RFC 9173 break some of them.
//!
//! A payload is its bytes and a count of elided zeros after them. CRCs count the zeros without touching them.
//!
//! Not here: blocks whose arrays or data are of indefinite length, which are refused.

mod block;
mod fragment;
mod payload;
mod primary;
mod read;

pub use block::{Block, BlockFlags, Content, HopCount};
pub use fragment::FragmentError;
pub use payload::Payload;
pub use primary::{BundleFlags, Fragment, Primary, Timestamp, UNIX_OFFSET};
pub use read::{Flaw, Malformed};

use super::cbor;

/// Block type codes (RFC 9171, section 9.1; RFC 9172).
pub mod code {
    /// Payload block.
    pub const PAYLOAD: u64 = 1;
    /// Previous node block.
    pub const PREVIOUS_NODE: u64 = 6;
    /// Bundle age block.
    pub const AGE: u64 = 7;
    /// Hop count block.
    pub const HOP_COUNT: u64 = 10;
    /// Block integrity block.
    pub const INTEGRITY: u64 = 11;
    /// Block confidentiality block.
    pub const CONFIDENTIALITY: u64 = 12;
}

/// Maximum number of extension blocks of a bundle.
pub const MAX_BLOCKS: usize = 64;

/// Bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Primary block.
    pub primary: Primary,
    /// Extension blocks in their order.
    pub blocks: Vec<Block>,
    /// Payload block.
    pub payload: Payload,
}

/// Rule of RFC 9171 that a bundle breaks although its structure is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// Neither CRC nor signature covers the primary block (section 4.3.1).
    #[error("primary block without a CRC, and no integrity block has it as target")]
    UnprotectedPrimary,
    /// The creation time is 0 without an age (section 4.4.2).
    #[error("creation time 0 without a bundle age block")]
    NoAge,
    /// A bundle of the null source asks for reports or allows fragments (section 4.2.3).
    #[error("null source with reports asked for, or fragments allowed")]
    AnonymousFlags,
    /// An administrative record asks for reports (section 4.2.3).
    #[error("administrative record with reports asked for")]
    ReportedRecord,
    /// A block asks for reports in a record or of the null source (section 4.2.4).
    #[error("block that asks for a report, in an administrative record or a bundle of the null source")]
    ReportedBlock,
    /// A fragment that forbids fragments.
    #[error("fragment of a bundle that must not be fragmented")]
    ForbiddenFragment,
    /// A fragment that ends after its bundle.
    #[error("fragment beyond the length of its bundle")]
    FragmentBeyondEnd,
    /// The source or destination has meaning on its node only (RFC 9758, section 5.4).
    #[error("local endpoint in a bundle from another node")]
    LocalEndpoint,
}

impl Bundle {
    /// Returns the content of the first block that `choose` wants.
    fn find<T>(&self, choose: impl Fn(&Content) -> Option<T>) -> Option<T> {
        self.blocks.iter().find_map(|block| choose(&block.content))
    }

    /// Returns the age in milliseconds, if there is an age block.
    pub fn age(&self) -> Option<u64> {
        self.find(|content| if let Content::Age(age) = content { Some(*age) } else { None })
    }

    /// Returns the hop limit and count, if there is a hop count block.
    pub fn hop_count(&self) -> Option<HopCount> {
        self.find(|content| if let Content::HopCount(hops) = content { Some(*hops) } else { None })
    }

    /// Returns the node that forwarded it last, if there is a previous node block.
    pub fn previous_node(&self) -> Option<super::eid::Eid> {
        self.find(|content| if let Content::PreviousNode(eid) = content { Some(eid.clone()) } else { None })
    }

    /// Returns the first block with content of the type code, to change.
    pub fn block_mut(&mut self, code: u64) -> Option<&mut Block> {
        self.blocks.iter_mut().find(|block| block.content.code() == code)
    }

    /// Adds an extension block, or replaces the content of the one of its type.
    pub fn set(&mut self, content: Content) {
        if let Some(block) = self.block_mut(content.code()) {
            block.content = content;
            return;
        }
        let number = self.free_number();
        self.blocks.push(Block::new(number, content));
    }

    /// Returns the lowest block number that no block has.
    pub fn free_number(&self) -> u64 {
        (2..).find(|number| self.blocks.iter().all(|block| block.number != *number)).expect("few blocks")
    }

    /// Checks the rules of RFC 9171 for a bundle's fields.
    ///
    /// # Errors
    /// Returns the first breach.
    pub fn check(&self) -> Result<(), Breach> {
        if self.primary.crc.is_empty() && !self.is_signed(0) {
            return Err(Breach::UnprotectedPrimary);
        }
        self.check_received()
    }

    /// Checks the rules that a node enforces on bundles from others.
    ///
    /// They are those of [`Bundle::check`] without the CRC of the primary block (RFC 9171 4.3.1): dtn7 sends none.
    ///
    /// # Errors
    /// Returns the first breach.
    pub fn check_received(&self) -> Result<(), Breach> {
        let Primary { flags, source, timestamp, fragment, .. } = &self.primary;
        let end = fragment.map(|fragment| fragment.offset.saturating_add(self.payload.len()));
        let asks = flags.has(BundleFlags::ANY_REPORT);
        let block_asks = self.payload.flags.has(BlockFlags::REPORT)
            || self.blocks.iter().any(|block| block.flags.has(BlockFlags::REPORT));
        let rules = [
            (timestamp.time == 0 && self.age().is_none(), Breach::NoAge),
            (source.is_null() && (asks || !flags.has(BundleFlags::WHOLE)), Breach::AnonymousFlags),
            (flags.has(BundleFlags::ADMIN) && asks, Breach::ReportedRecord),
            ((source.is_null() || flags.has(BundleFlags::ADMIN)) && block_asks, Breach::ReportedBlock),
            (fragment.is_some() && flags.has(BundleFlags::WHOLE), Breach::ForbiddenFragment),
            (fragment.is_some_and(|fragment| end > Some(fragment.total)), Breach::FragmentBeyondEnd),
            (source.is_local() || self.primary.destination.is_local(), Breach::LocalEndpoint),
        ];
        rules.into_iter().find(|(is_broken, _)| *is_broken).map_or(Ok(()), |(_, breach)| Err(breach))
    }

    /// Returns `true` if an integrity block has the block with `number` as a target.
    pub fn is_signed(&self, number: u64) -> bool {
        self.blocks.iter().any(|block| match &block.content {
            Content::Integrity(data) => {
                super::security::SecurityBlock::parse(data).is_ok_and(|block| block.targets.contains(&number))
            }
            _ => false,
        })
    }

    /// Returns the encoded bundle, elided zeros written out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160 + self.payload.len() as usize);
        self.emit(&mut out);
        out
    }

    /// Appends the encoded bundle, elided zeros written out.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_head(out);
        out.resize(out.len() + self.payload.zeros as usize, 0);
        self.payload.emit_tail(out);
        out.push(cbor::BREAK);
    }

    /// Appends all up to the elided zeros of the payload.
    fn emit_head(&self, out: &mut Vec<u8>) {
        self.emit_front(out);
        self.payload.emit_head(out);
    }

    /// Appends all in front of the payload block.
    fn emit_front(&self, out: &mut Vec<u8>) {
        out.push(cbor::OPEN_ARRAY);
        self.primary.emit(out);
        self.blocks.iter().for_each(|block| block.emit(out));
    }

    /// Returns the encoded bundle in front of its elided zeros, and after them.
    pub fn to_parts(&self) -> (Vec<u8>, Vec<u8>) {
        let mut head = Vec::with_capacity(160 + self.payload.bytes.len());
        let mut tail = Vec::new();
        self.emit_head(&mut head);
        self.payload.emit_tail(&mut tail);
        tail.push(cbor::BREAK);
        (head, tail)
    }

    /// Returns the number of encoded bytes in front of the payload's data.
    pub fn payload_start(&self) -> u64 {
        let mut head = Vec::with_capacity(160);
        self.emit_front(&mut head);
        self.payload.emit_front(&mut head);
        head.len() as u64
    }

    /// Returns the length of the encoded bundle in bytes. It takes no time for the payload.
    pub fn encoded_len(&self) -> u64 {
        let mut head = Vec::with_capacity(160);
        self.emit_front(&mut head);
        // The break.
        1 + head.len() as u64 + self.payload.encoded_len()
    }
}

#[cfg(test)]
mod tests;
