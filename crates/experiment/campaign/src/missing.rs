//! Set of finished runs.

use std::ops::Range;

/// Set of runs of a campaign.
#[derive(Clone, Debug)]
pub struct Missing {
    /// A bit for each run; set if it is finished.
    bits: Vec<u64>,
    runs: u64,
    finished: u64,
}

impl Missing {
    /// Creates the set in which all of `runs` runs are missing.
    pub fn all(runs: u64) -> Missing {
        let words = usize::try_from(runs.div_ceil(64)).expect("a sweep fits into memory as bits");
        Missing { bits: vec![0; words], runs, finished: 0 }
    }

    /// Notes that a run is finished. Numbers beyond the campaign are ignored.
    pub fn finish(&mut self, run: u64) {
        if run < self.runs && self.is_missing(run) {
            self.bits[(run / 64) as usize] |= 1 << (run % 64);
            self.finished += 1;
        }
    }

    /// Returns `true` if a run is not finished.
    pub fn is_missing(&self, run: u64) -> bool {
        run < self.runs && self.bits[(run / 64) as usize] & (1 << (run % 64)) == 0
    }

    /// Returns the number of finished runs.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Returns the number of runs of the campaign.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the missing runs of a range.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        (range.start..range.end.min(self.runs)).filter(|&run| self.is_missing(run))
    }

    /// Returns the missing runs as ranges, in rising order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next(at, true)?;
            let end = self.next(start, false).unwrap_or(self.runs);
            at = end;
            Some(start..end)
        })
    }

    /// Returns the first run from `from` on that is missing, or is not.
    fn next(&self, from: u64, missing: bool) -> Option<u64> {
        let mut run = from;
        while run < self.runs {
            let word = self.bits[(run / 64) as usize];
            let wanted = (if missing { !word } else { word }) >> (run % 64);
            if wanted != 0 {
                let found = run + u64::from(wanted.trailing_zeros());
                return (found < self.runs).then_some(found);
            }
            run = (run / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_of_what_is_missing() {
        for runs in [1, 63, 64, 65, 200] {
            let mut missing = Missing::all(runs);
            assert!(missing.ranges().eq(std::iter::once(0..runs)));
            let finished = |run: u64| run % 7 == 3 || (60..70).contains(&run) || run == 199;
            (0..300).filter(|run| finished(*run)).for_each(|run| missing.finish(run));
            missing.finish(3);
            let listed: Vec<u64> = missing.ranges().flatten().collect();
            let expected: Vec<u64> = (0..runs).filter(|run| !finished(*run)).collect();
            assert_eq!(listed, expected, "{runs} runs");
            assert_eq!(missing.finished(), runs - expected.len() as u64);
            assert_eq!(
                missing.within(2..9).collect::<Vec<_>>(),
                expected.iter().copied().filter(|run| (2..9).contains(run)).collect::<Vec<_>>()
            );
        }
    }
}
