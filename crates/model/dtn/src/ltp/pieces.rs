//! Content of a block that arrives in pieces, in any order.

use std::collections::BTreeMap;

/// Bytes of a block. Memory is only taken for bytes that have arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    /// Bytes from the start of the block on, without gaps.
    start: Vec<u8>,
    /// Pieces behind a gap, by their offsets. They may overlap.
    later: BTreeMap<u64, Vec<u8>>,
    later_len: u64,
}

impl Pieces {
    /// Returns the number of bytes that are held.
    pub(super) fn held(&self) -> u64 {
        self.start.len() as u64 + self.later_len
    }

    /// Adds a piece.
    pub(super) fn insert(&mut self, offset: u64, bytes: &[u8]) {
        if offset > self.start.len() as u64 {
            return self.keep(offset, bytes);
        }
        self.append(offset, bytes);
        while let Some(next) = self.later.first_entry().filter(|next| *next.key() <= self.start.len() as u64)
        {
            let (offset, bytes) = next.remove_entry();
            self.later_len -= bytes.len() as u64;
            self.append(offset, &bytes);
        }
    }

    /// Appends what of a piece is new. It begins in the start or right behind it.
    fn append(&mut self, offset: u64, bytes: &[u8]) {
        let known = self.start.len() - offset as usize;
        if let Some(new) = bytes.get(known..) {
            self.start.extend_from_slice(new);
        }
    }

    /// Keeps a piece behind a gap, unless a longer one begins at its offset.
    fn keep(&mut self, offset: u64, bytes: &[u8]) {
        let known = self.later.entry(offset).or_default();
        if known.len() < bytes.len() {
            self.later_len += (bytes.len() - known.len()) as u64;
            *known = bytes.to_vec();
        }
    }

    /// Returns the first bytes of the block, at most `len`.
    pub(super) fn into_start(mut self, len: u64) -> Vec<u8> {
        self.start.truncate(len as usize);
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_in_any_order_are_the_block(
            cuts in proptest::collection::vec((0usize..300, 1usize..80), 1..60),
            block in proptest::collection::vec(any::<u8>(), 300),
        ) {
            let mut pieces = Pieces::default();
            let mut is_there = [false; 300];
            for (from, len) in cuts {
                let to = (from + len).min(300);
                pieces.insert(from as u64, &block[from..to]);
                is_there[from..to].fill(true);
                let start = is_there.iter().take_while(|is_there| **is_there).count();
                prop_assert_eq!(&pieces.start, &block[..start]);
                let later: usize = pieces.later.values().map(Vec::len).sum();
                prop_assert_eq!(pieces.held(), (start + later) as u64);
            }
        }
    }

    #[test]
    fn a_gap_takes_no_memory() {
        let mut pieces = Pieces::default();
        pieces.insert(1 << 40, b"far");
        pieces.insert(1 << 40, b"fa");
        assert_eq!((pieces.held(), pieces.start.capacity()), (3, 0));
        pieces.insert(0, b"near");
        assert_eq!((pieces.held(), pieces.into_start(2)), (7, b"ne".to_vec()));
    }
}
