//! Set of sequence numbers as disjoint ranges: out-of-order data, delivered data.

use std::collections::VecDeque;

/// Half-open ranges of stream positions, disjoint, not touching, in order.
///
/// Finding is a binary search; adding at or near either end, which is where recovery works, moves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
    total: u64,
}

/// Maximum number of ranges; data that needs more is rejected. A hostile peer could send every second byte.
const MAX_RANGES: usize = 1 << 16;

impl Ranges {
    /// Returns `true` if the set is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of ranges.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of elements.
    #[inline]
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the lowest range.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }

    /// Returns the highest range.
    #[inline]
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.ranges.back().copied()
    }

    /// Returns the ranges from the highest down.
    #[inline]
    pub(super) fn top_down(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().rev().copied()
    }

    /// Returns the range that contains `at`.
    pub(super) fn around(&self, at: u64) -> Option<(u64, u64)> {
        self.ranges.get(self.ending_after(at)).copied().filter(|&(start, _)| start <= at)
    }

    /// Returns the start and any end of the first gap at or above `from`.
    pub(super) fn gap(&self, from: u64) -> (u64, Option<u64>) {
        let mut index = self.ending_after(from);
        let mut start = from;
        if let Some(&(left, right)) = self.ranges.get(index)
            && left <= from
        {
            start = right;
            index += 1;
        }
        (start, self.ranges.get(index).map(|&(left, _)| left))
    }

    /// Returns the number of elements from `start` to `end`. The cost is the number of ranges in between.
    pub(super) fn covered(&self, start: u64, end: u64) -> u64 {
        if self.ranges.is_empty() || start >= end {
            return 0;
        }
        let inside = self.ranges.range(self.ending_after(start)..).take_while(|range| range.0 < end);
        inside.map(|&(left, right)| right.min(end) - left.max(start)).sum()
    }

    /// Adds `start..end`; returns how many of them are new. Takes nothing when there are too many ranges.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        match self.ranges.back_mut() {
            Some(last) if last.0 <= start && last.1 >= start => {
                let new = end.saturating_sub(last.1);
                last.1 = last.1.max(end);
                self.total += new;
                new
            }
            Some(last) if last.1 >= start => self.insert_inside(start, end),
            _ => self.insert_at(self.ranges.len(), start, end),
        }
    }

    fn insert_at(&mut self, index: usize, start: u64, end: u64) -> u64 {
        if self.ranges.len() >= MAX_RANGES {
            return 0;
        }
        self.ranges.insert(index, (start, end));
        self.total += end - start;
        end - start
    }

    fn insert_inside(&mut self, start: u64, end: u64) -> u64 {
        // Ranges that overlap or touch the new one are joined with it.
        let from = self.ranges.partition_point(|range| range.1 < start);
        let Some(&(left, right)) = self.ranges.get(from).filter(|range| range.0 <= end) else {
            return self.insert_at(from, start, end);
        };
        let (mut joined, mut had, mut upto) = ((left.min(start), right), right - left, from + 1);
        while let Some(&(left, right)) = self.ranges.get(upto).filter(|range| range.0 <= end) {
            joined.1 = right;
            had += right - left;
            upto += 1;
        }
        joined.1 = joined.1.max(end);
        self.ranges[from] = joined;
        self.ranges.drain(from + 1..upto);
        let new = joined.1 - joined.0 - had;
        self.total += new;
        new
    }

    /// Removes all elements below `floor` and returns their number.
    pub(super) fn trim_below(&mut self, floor: u64) -> u64 {
        let before = self.total;
        while let Some(first) = self.ranges.front_mut().filter(|range| range.0 < floor) {
            if first.1 > floor {
                self.total -= floor - first.0;
                first.0 = floor;
                break;
            }
            self.total -= first.1 - first.0;
            self.ranges.pop_front();
        }
        before - self.total
    }

    /// Removes `start..end` and returns the number of removed elements.
    pub(super) fn remove(&mut self, start: u64, end: u64) -> u64 {
        let mut removed = 0;
        if start >= end {
            return 0;
        }
        loop {
            let index = self.ending_after(start);
            let Some(&(left, right)) = self.ranges.get(index).filter(|range| range.0 < end) else { break };
            removed += right.min(end) - left.max(start);
            self.ranges.remove(index);
            if right > end {
                self.ranges.insert(index, (end, right));
            }
            if left < start {
                self.ranges.insert(index, (left, start));
            }
        }
        self.total -= removed;
        removed
    }

    /// Removes all elements.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.total = 0;
    }

    /// Returns the index of the first range that ends above `at`.
    #[inline]
    fn ending_after(&self, at: u64) -> usize {
        match self.ranges.front() {
            Some(first) if first.1 > at => 0,
            _ => self.ranges.partition_point(|range| range.1 <= at),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64, u64),
        Remove(u64, u64),
        TrimBelow(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let one = prop_oneof![
            4 => (0u64..80, 0u64..12).prop_map(|(start, len)| Op::Insert(start, start + len)),
            2 => (0u64..80, 0u64..12).prop_map(|(start, len)| Op::Remove(start, start + len)),
            1 => (0u64..80).prop_map(Op::TrimBelow),
        ];
        proptest::collection::vec(one, 0..60)
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(ops in ops()) {
            let (mut ranges, mut plain) = (Ranges::default(), BTreeSet::new());
            for op in ops {
                let before = plain.len() as u64;
                let changed = match op {
                    Op::Insert(start, end) => { plain.extend(start..end); ranges.insert(start, end) }
                    Op::Remove(start, end) => { plain.retain(|n| !(start..end).contains(n)); ranges.remove(start, end) }
                    Op::TrimBelow(floor) => { plain.retain(|n| *n >= floor); ranges.trim_below(floor) }
                };
                prop_assert_eq!(changed, before.abs_diff(plain.len() as u64));
                prop_assert_eq!(ranges.total(), plain.len() as u64);
                prop_assert_eq!(ranges.covered(10, 60), plain.range(10..60).count() as u64);
                for at in [0, 17, 40, 79] {
                    prop_assert_eq!(ranges.around(at).is_some(), plain.contains(&at));
                    let (start, end) = ranges.gap(at);
                    prop_assert_eq!(start, (at..).find(|n| !plain.contains(n)).unwrap());
                    prop_assert_eq!(end, plain.range(start..).next().copied());
                }
                let touching = ranges.ranges.iter().zip(ranges.ranges.iter().skip(1)).any(|(a, b)| a.1 >= b.0);
                prop_assert!(!touching, "{:?}", ranges);
            }
        }
    }
}
