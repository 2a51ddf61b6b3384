//! Parts of a file in any order.

use std::collections::BTreeMap;

/// Memory of a part next to its bytes.
const OVERHEAD: usize = 64;

/// Received parts of a file, which do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments {
    parts: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
}

impl Segments {
    /// Returns the memory in use.
    pub(super) fn used(&self) -> usize {
        self.bytes as usize + self.parts.len() * OVERHEAD
    }

    /// Returns the number of bytes received.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the end of the last part.
    pub(super) fn end(&self) -> u64 {
        self.parts.last_key_value().map_or(0, |(start, part)| start + part.len() as u64)
    }

    /// Stores the bytes of a part that are new.
    pub(super) fn put(&mut self, start: u64, data: &[u8]) {
        let end = start + data.len() as u64;
        for (from, to) in self.gaps(start, end, usize::MAX) {
            let part = &data[(from - start) as usize..(to - start) as usize];
            self.bytes += part.len() as u64;
            self.parts.insert(from, part.to_vec());
        }
    }

    /// Returns the ranges from `start` to `end` that are missing, at most `most`.
    pub(super) fn gaps(&self, start: u64, end: u64, most: usize) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = start;
        let first = self.parts.range(..=start).next_back().map_or(start, |(first, _)| *first);
        for (from, part) in self.parts.range(first..end.max(first)) {
            if *from > at {
                gaps.push((at, *from));
            }
            at = at.max(from + part.len() as u64);
            if gaps.len() >= most {
                return gaps;
            }
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// Returns the whole file, which has no gaps.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.bytes = 0;
        let parts = std::mem::take(&mut self.parts);
        parts.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_any_order_and_overlapping_are_the_file() {
        let file: Vec<u8> = (0..100).collect();
        let mut segments = Segments::default();
        for (from, to) in [(50, 60), (10, 20), (15, 55), (90, 100), (0, 5), (12, 14)] {
            segments.put(from, &file[from as usize..to as usize]);
        }
        assert_eq!(segments.gaps(0, 100, 9), [(5, 10), (60, 90)]);
        assert_eq!(segments.gaps(0, 100, 1), [(5, 10)]);
        assert_eq!(segments.gaps(7, 70, 9), [(7, 10), (60, 70)]);
        assert_eq!((segments.bytes(), segments.end()), (65, 100));
        segments.put(0, &file);
        assert_eq!(segments.gaps(0, 100, 9), []);
        assert_eq!(segments.take(), file);
        assert_eq!(segments.used(), 0);
    }
}
