//! Fragmentation and reassembly (RFC 9171, sections 5.8 and 5.9).

use super::super::eid::Eid;
use super::{Block, BlockFlags, Bundle, BundleFlags, Content, Fragment, Payload, Timestamp};

/// Condition that prevents fragmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FragmentError {
    /// The bundle forbids it.
    #[error("the bundle must not be fragmented")]
    Forbidden,
    /// The limit leaves no room for payload.
    #[error("the limit leaves no room for payload")]
    TooSmall,
    /// The bundle has security blocks (RFC 9172, section 3.10).
    #[error("the bundle has security blocks")]
    Secured,
}

impl Bundle {
    /// Returns the identity of the whole bundle that it is or belongs to.
    pub fn key(&self) -> (Eid, Timestamp) {
        (self.primary.source.clone(), self.primary.timestamp)
    }

    /// Returns fragments of at most `limit` encoded bytes each; itself if it is short enough.
    ///
    /// # Errors
    /// Returns an error if it cannot be fragmented.
    pub fn fragments(self, limit: u64) -> Result<Vec<Bundle>, FragmentError> {
        if self.encoded_len() <= limit {
            return Ok(vec![self]);
        }
        self.ensure_divisible()?;
        if self.payload.is_empty() {
            return Err(FragmentError::TooSmall);
        }
        let mut parts = Vec::new();
        let mut at = 0;
        while at < self.payload.len() {
            let len = self.room(at, limit)?;
            parts.push(self.part(at, len));
            at += len;
        }
        Ok(parts)
    }

    /// Splits after `sent` bytes of payload, which have arrived already: reactive fragmentation.
    ///
    /// # Errors
    /// Returns an error if it cannot be fragmented.
    pub fn split(self, sent: u64) -> Result<[Bundle; 2], FragmentError> {
        self.ensure_divisible()?;
        match sent > 0 && sent < self.payload.len() {
            true => Ok([self.part(0, sent), self.part(sent, self.payload.len() - sent)]),
            false => Err(FragmentError::TooSmall),
        }
    }

    /// Returns `true` if the bundle may be fragmented.
    pub fn is_divisible(&self) -> bool {
        self.ensure_divisible().is_ok()
    }

    fn ensure_divisible(&self) -> Result<(), FragmentError> {
        let is_security =
            |block: &Block| matches!(block.content, Content::Integrity(_) | Content::Confidentiality(_));
        if self.primary.flags.has(BundleFlags::WHOLE) {
            return Err(FragmentError::Forbidden);
        }
        if self.blocks.iter().any(is_security) { Err(FragmentError::Secured) } else { Ok(()) }
    }

    /// Returns the most payload that a fragment from `at` on takes.
    fn room(&self, at: u64, limit: u64) -> Result<u64, FragmentError> {
        let left = self.payload.len() - at;
        let overhead = self.part(at, left).encoded_len() - left;
        let len = limit.saturating_sub(overhead).min(left);
        if len > 0 { Ok(len) } else { Err(FragmentError::TooSmall) }
    }

    fn part(&self, at: u64, len: u64) -> Bundle {
        let whole = Fragment { offset: 0, total: self.payload.len() };
        let own = self.primary.fragment.unwrap_or(whole);
        let fragment = Fragment { offset: own.offset + at, total: own.total };
        let mut primary = self.primary.clone();
        primary.fragment = Some(fragment);
        // Extension blocks stay with the first fragment unless they are to be replicated. Age and hops are kept
        // everywhere: a fragment without them would outlive its bundle.
        let is_kept = |block: &&Block| {
            fragment.offset == 0
                || block.flags.has(BlockFlags::REPLICATE)
                || matches!(block.content, Content::Age(_) | Content::HopCount(_))
        };
        let blocks = self.blocks.iter().filter(is_kept).cloned().collect();
        Bundle { primary, blocks, payload: self.payload.part(at, len) }
    }

    /// Returns the whole bundle of its fragments, if no part is missing.
    ///
    /// Where fragments overlap the first of them counts.
    pub fn reassemble(fragments: &[Bundle]) -> Option<Bundle> {
        let place = |bundle: &Bundle| bundle.primary.fragment.unwrap_or(Fragment { offset: 0, total: 0 });
        let mut sorted: Vec<&Bundle> = fragments.iter().collect();
        sorted.sort_by_key(|bundle| place(bundle).offset);
        let first = *sorted.first()?;
        let total = place(first).total;
        let mut payload = Payload { bytes: Vec::new(), zeros: 0, ..first.payload.clone() };
        for bundle in sorted {
            let offset = place(bundle).offset;
            let known = payload.len().checked_sub(offset)?;
            if known < bundle.payload.len() {
                append(&mut payload, &bundle.payload.part(known, bundle.payload.len() - known));
            }
        }
        (payload.len() == total).then(|| Bundle {
            primary: super::Primary { fragment: None, ..first.primary.clone() },
            blocks: first.blocks.clone(),
            payload,
        })
    }
}

fn append(payload: &mut Payload, part: &Payload) {
    if !part.bytes.is_empty() {
        payload.bytes.resize(payload.len() as usize, 0);
        payload.zeros = 0;
        payload.bytes.extend(&part.bytes);
    }
    payload.zeros += part.zeros;
}
