//! Histograms of spans of time.
//!
//! Models: 1024 buckets an octave from 1.024 us to 417 days, with 32-bit counts, kept from the least to the greatest that was
//! recorded; exact mean, minimum and maximum. A difference of two histograms of one element is the histogram of what came
//! between.
//! Does not model: exact quantiles; a quantile is within 0.1 % of its value.

use bentpipe_units::Span;

/// Number of buckets.
pub const BUCKETS: usize = 45 * OCTAVE;

/// Number of buckets of an octave.
const OCTAVE: usize = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 10;

/// Octave of the first bucket: 2^10 ns.
const FIRST_OCTAVE: u32 = 10;

/// Number of buckets by which the memory of a histogram grows.
const GROWTH: usize = 64;

/// Histogram of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of the first bucket in `counts`.
    first: usize,
    counts: Vec<u32>,
    /// Sum of the counts.
    len: u64,
    sum_ns: u64,
    range: Option<(Span, Span)>,
}

impl Histogram {
    /// Counts a span.
    #[inline]
    pub fn record(&mut self, span: Span) {
        let place = bucket(span.as_nanos()).wrapping_sub(self.first);
        if place >= self.counts.len() {
            self.grow(bucket(span.as_nanos()));
        }
        let count = &mut self.counts[bucket(span.as_nanos()) - self.first];
        self.len += u64::from(*count < u32::MAX);
        *count = count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(span.as_nanos());
        self.range = Some(self.range.map_or((span, span), |(min, max)| (min.min(span), max.max(span))));
    }

    /// Extends the counts to those of a bucket.
    #[cold]
    fn grow(&mut self, bucket: usize) {
        let first = bucket / GROWTH * GROWTH;
        if self.counts.is_empty() {
            self.first = first;
        }
        if first < self.first {
            self.counts.splice(..0, std::iter::repeat_n(0, self.first - first));
            self.first = first;
        }
        self.counts.resize(self.counts.len().max(first + GROWTH - self.first), 0);
    }

    /// Returns the number of spans counted.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the numbers of the buckets that have counts, and the counts.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u32)> {
        let counts = self.counts.iter().copied().enumerate();
        counts.map(|(place, count)| (self.first + place, count)).filter(|(_, count)| *count > 0)
    }

    /// Returns the mean, if anything was counted.
    pub fn mean(&self) -> Option<Span> {
        self.sum_ns.checked_div(self.len()).map(Span::from_nanos)
    }

    /// Returns the least and the greatest span. Of a difference, those that bound the later histogram.
    pub fn range(&self) -> Option<(Span, Span)> {
        self.range
    }

    /// Returns the histogram of what was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut difference = self.clone();
        for (bucket, before) in earlier.buckets() {
            let count = bucket.checked_sub(self.first).and_then(|place| difference.counts.get_mut(place));
            count.into_iter().for_each(|count| *count = count.saturating_sub(before));
        }
        difference.len = difference.counts.iter().copied().map(u64::from).sum();
        difference.sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
        difference
    }

    /// Returns the quantile `q` in seconds, if anything was counted.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = q * self.len as f64;
        let (bucket, count, below) =
            if q > 0.5 { self.rank_from_above(wanted) } else { self.rank_from_below(wanted) }?;
        let (low, high) = (lower_bound_s(bucket), lower_bound_s(bucket + 1));
        let share = ((wanted - below as f64) / f64::from(count)).clamp(0.0, 1.0);
        let quantile = low + (high - low) * share;
        let (min, max) = self.range?;
        Some(quantile.clamp(min.as_secs_f64(), max.as_secs_f64()))
    }

    /// Returns bucket, count, and number of spans below it, for a rank.
    fn rank_from_below(&self, rank: f64) -> Option<(usize, u32, u64)> {
        let (mut below, mut found) = (0, None);
        for (bucket, count) in self.buckets() {
            found = Some((bucket, count, below));
            below += u64::from(count);
            if below as f64 >= rank {
                break;
            }
        }
        found
    }

    /// Returns the same as [`Histogram::rank_from_below`], from the greatest span on.
    fn rank_from_above(&self, rank: f64) -> Option<(usize, u32, u64)> {
        let (mut below, mut found) = (self.len, None);
        for (place, &count) in self.counts.iter().enumerate().rev().filter(|(_, count)| **count > 0) {
            below -= u64::from(count);
            found = Some((self.first + place, count, below));
            if (below as f64) < rank {
                break;
            }
        }
        found
    }
}

/// Returns the number of the bucket of a span.
#[inline]
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(1 << FIRST_OCTAVE);
    let octave = nanos.ilog2();
    let place = (nanos >> (octave - OCTAVE_BITS)) as usize & (OCTAVE - 1);
    (((octave - FIRST_OCTAVE) as usize) * OCTAVE + place).min(BUCKETS - 1)
}

/// Returns the lower bound of a bucket in seconds.
pub fn lower_bound_s(bucket: usize) -> f64 {
    let octave = FIRST_OCTAVE as usize + bucket / OCTAVE;
    let nanos = (OCTAVE as u64 + (bucket % OCTAVE) as u64) << (octave - OCTAVE_BITS as usize);
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_within_the_bounds_of_their_buckets() {
        for nanos in [1 << 10, 1500, 123_456, 270_000_000, 999_999_999_999, 31_622_400_000_000_000] {
            let bucket = bucket(nanos);
            let seconds = nanos as f64 / 1e9;
            let (low, high) = (lower_bound_s(bucket), lower_bound_s(bucket + 1));
            assert!(low <= seconds && seconds < high && high / low < 1.001, "{nanos} ns: {low} to {high}");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn quantiles_are_close_and_differences_are_of_what_came_between() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.len(), histogram.is_empty()), (None, 0, true));
        (1..=1000).for_each(|ms| histogram.record(Span::from_millis(ms)));
        for (q, expected) in [(0.05, 0.05), (0.5, 0.5), (0.95, 0.95), (1.0, 1.0)] {
            let found = histogram.quantile(q).expect("samples");
            assert!((found / expected - 1.0).abs() < 0.002, "{q}: {found}");
        }
        let warm = histogram.clone();
        (0..50).for_each(|_| histogram.record(Span::from_millis(270)));
        let later = histogram.since(&warm);
        assert_eq!((later.len(), later.mean()), (50, Some(Span::from_millis(270))));
        assert!((later.quantile(0.5).expect("samples") - 0.27).abs() < 0.002);
        assert_eq!(histogram.since(&Histogram::default()), histogram);
    }

    #[test]
    fn quantiles_of_a_constant_are_the_constant() {
        let mut histogram = Histogram::default();
        (0..100).for_each(|_| histogram.record(Span::from_micros(6_200)));
        assert_eq!([0.0, 0.5, 1.0].map(|q| histogram.quantile(q)), [Some(0.0062); 3]);
        assert_eq!(histogram.mean(), Some(Span::from_micros(6_200)));
    }

    #[test]
    fn memory_is_of_the_range_that_was_recorded() {
        let mut histogram = Histogram::default();
        for ms in [300, 271, 1500, 4] {
            histogram.record(Span::from_millis(ms));
            histogram.record(Span::from_millis(ms));
        }
        assert!(histogram.counts.len() < 9 * OCTAVE, "{}", histogram.counts.len());
        let found: Vec<(f64, u32)> =
            histogram.buckets().map(|(n, count)| (lower_bound_s(n), count)).collect();
        let expected = [0.004, 0.271, 0.3, 1.5];
        assert!(found.iter().zip(expected).all(|((low, n), s)| *n == 2 && *low <= s && s < low * 1.001));
        assert_eq!(found.len(), 4);
    }
}
