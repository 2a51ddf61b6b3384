//! Spans of bytes that are there of a bundle in fragments.

/// Set of spans, sorted and joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// Returns the spans that touch one.
    fn touched(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        let start = self.0.partition_point(|span| span.1 < from);
        start..self.0.partition_point(|span| span.0 <= to).max(start)
    }

    pub(super) fn insert(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let touched = self.touched(from, to);
        let low = self.0[touched.clone()].first().map_or(from, |span| span.0.min(from));
        let high = self.0[touched.clone()].last().map_or(to, |span| span.1.max(to));
        self.0.splice(touched, [(low, high)]);
    }

    pub(super) fn remove(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let touched = self.touched(from, to);
        let spans = &self.0[touched.clone()];
        let before = spans.first().map(|span| (span.0, span.1.min(from)));
        let after = spans.last().map(|span| (span.0.max(to), span.1));
        let rest: Vec<_> = before.into_iter().chain(after).filter(|span| span.0 < span.1).collect();
        self.0.splice(touched, rest);
    }

    /// Returns the parts of the set between two places.
    pub(super) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
        let cut = move |span: &(u64, u64)| (span.0.max(from), span.1.min(to));
        self.0[self.touched(from, to)].iter().map(cut).filter(|span| span.0 < span.1)
    }

    /// Returns `true` if all bytes up to `to` are in the set.
    pub(super) fn covers(&self, to: u64) -> bool {
        to == 0 || self.0.first().is_some_and(|span| span.0 == 0 && span.1 >= to)
    }

    /// Returns the number of spans once another one is in the set.
    pub(super) fn count_with(&self, from: u64, to: u64) -> usize {
        self.0.len() + 1 - self.touched(from, to).len()
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_units::RandomStream;

    use super::*;

    #[test]
    fn spans_are_a_set() {
        let mut stream = RandomStream::new(1, "spans");
        let (mut spans, mut naive) = (Spans::default(), [false; 80]);
        for _ in 0..2000 {
            let from = (stream.unit() * 60.0) as u64;
            let (to, is_in) = (from + (stream.unit() * 20.0) as u64, stream.chance(0.5));
            let expected = spans.count_with(from, to);
            match is_in {
                true => spans.insert(from, to),
                false => spans.remove(from, to),
            }
            naive[from as usize..to as usize].fill(is_in);
            let found: Vec<u64> = spans.within(0, 80).flat_map(|(from, to)| from..to).collect();
            let all: Vec<u64> = (0..80).filter(|at| naive[*at as usize]).collect();
            assert_eq!(found, all);
            assert!(spans.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "{spans:?}");
            assert!(!is_in || from == to || spans.0.len() == expected, "{spans:?}");
            let first = naive.iter().position(|is_in| !is_in).unwrap_or(80) as u64;
            assert!(spans.covers(first) && !spans.covers(first + 1));
        }
    }
}
