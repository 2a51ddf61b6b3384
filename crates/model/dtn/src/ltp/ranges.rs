//! Set of byte ranges, kept sorted and joined.

/// Set of byte ranges. A single one needs no memory of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    one: Option<(u64, u64)>,
    /// Ranges, if there are several.
    many: Vec<(u64, u64)>,
}

impl Ranges {
    fn as_slice(&self) -> &[(u64, u64)] {
        if self.many.is_empty() { self.one.as_slice() } else { &self.many }
    }

    /// Adds a range of bytes and returns the number of new ones.
    pub(crate) fn insert(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let ranges = self.as_slice();
        // Ranges that touch the new one are `start..end`.
        let start = ranges.partition_point(|range| range.1 < from);
        let end = ranges.partition_point(|range| range.0 <= to);
        let touched = &ranges[start..end];
        let known: u64 = touched.iter().map(|range| range.1.min(to).saturating_sub(range.0.max(from))).sum();
        let low = touched.first().map_or(from, |range| range.0.min(from));
        let high = touched.last().map_or(to, |range| range.1.max(to));
        if touched.len() == ranges.len() {
            self.many = Vec::new();
            self.one = Some((low, high));
        } else {
            self.many.extend(self.one.take());
            self.many.splice(start..end, [(low, high)]);
        }
        to - from - known
    }

    /// Returns `true` if all bytes from `from` up to `to` are in the set.
    pub(crate) fn covers(&self, from: u64, to: u64) -> bool {
        let ranges = self.as_slice();
        let next = ranges.partition_point(|range| range.1 < to);
        from >= to || ranges.get(next).is_some_and(|range| range.0 <= from)
    }

    /// Returns the parts of `from..to` that are in the set.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
        let ranges = self.as_slice();
        let start = ranges.partition_point(|range| range.1 <= from);
        let within = ranges[start..].iter().take_while(move |range| range.0 < to);
        within.map(move |range| (range.0.max(from), range.1.min(to))).filter(|range| range.0 < range.1)
    }

    /// Returns the parts of `from..to` that are missing.
    pub(crate) fn gaps(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut at) = (Vec::new(), from);
        for range in self.within(from, to) {
            if range.0 > at {
                gaps.push((at, range.0));
            }
            at = range.1;
        }
        if at < to {
            gaps.push((at, to));
        }
        gaps
    }

    /// Returns the number of ranges.
    pub(crate) fn count(&self) -> usize {
        self.as_slice().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_a_set(inserts in proptest::collection::vec((0u64..60, 0u64..20), 0..20)) {
            let (mut ranges, mut naive) = (Ranges::default(), [false; 80]);
            for (from, len) in inserts {
                let touched = naive[from as usize..(from + len) as usize].iter_mut();
                let new = touched.map(|is_in| u64::from(!std::mem::replace(is_in, true))).sum::<u64>();
                prop_assert_eq!(ranges.insert(from, from + len), new);
            }
            let missing: Vec<u64> = (0..80).filter(|at| !naive[*at as usize]).collect();
            let gaps: Vec<u64> = ranges.gaps(0, 80).into_iter().flat_map(|(from, to)| from..to).collect();
            prop_assert_eq!(gaps, missing);
        }
    }
}
