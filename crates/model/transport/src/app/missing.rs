//! Numbers of packets that have not arrived and still may.

use std::collections::VecDeque;

/// Ranges of missing numbers, in their order.
#[derive(Clone, Debug, Default)]
pub struct Missing(VecDeque<(u64, u64)>);

/// Number of ranges that are kept. Packets of older ones count as duplicates.
const MAX_RANGES: usize = 4096;

impl Missing {
    /// Returns no ranges.
    pub const fn new() -> Missing {
        Missing(VecDeque::new())
    }

    /// Adds the numbers from `start` to in front of `end`.
    ///
    /// They are the highest. Those below `least` are forgotten.
    #[cold]
    #[inline(never)]
    pub fn add(&mut self, (start, end): (u64, u64), least: u64) {
        while self.0.front().is_some_and(|(_, end)| *end < least) {
            self.0.pop_front();
        }
        match self.0.back_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => {
                if self.0.len() >= MAX_RANGES {
                    self.0.pop_front();
                }
                self.0.push_back((start, end));
            }
        }
    }

    /// Returns `true` if a number is missing.
    pub fn has(&self, number: u64) -> bool {
        let place = self.0.partition_point(|(_, end)| *end <= number);
        self.0.get(place).is_some_and(|(start, _)| *start <= number)
    }

    /// Fills a number in, and returns the range in which it was missing.
    pub fn fill(&mut self, number: u64) -> Option<(u64, u64)> {
        let place = self.0.partition_point(|(_, end)| *end <= number);
        let (start, end) = self.0.get(place).copied().filter(|(start, _)| *start <= number)?;
        self.0.remove(place);
        for (start, end) in [(number + 1, end), (start, number)] {
            if start < end {
                self.0.insert(place, (start, end));
            }
        }
        Some((start, end))
    }

    /// Returns the ranges, the highest first.
    pub fn latest(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().rev().copied()
    }
}
