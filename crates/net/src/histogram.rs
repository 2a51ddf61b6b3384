//! Histograms of spans of time.
//!
//! Models: eight buckets an octave from 1.024 us to 1100 s, with 32-bit counts; about a kilobyte, made at the first sample. A
//! difference of two histograms of one element is the histogram of what came between.
//! Does not model: exact values; a quantile is within an eighth of its value, as a rule much closer.

use bentpipe_units::Span;

/// Number of buckets.
pub const BUCKETS: usize = 240;

/// Octave of the first bucket: 2^10 ns.
const FIRST_OCTAVE: u32 = 10;

/// Histogram of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Option<Box<[u32; BUCKETS]>>,
}

impl Histogram {
    /// Counts a span.
    #[inline]
    pub fn record(&mut self, span: Span) {
        self.add(span, 1);
    }

    /// Counts a span several times.
    #[inline]
    pub fn add(&mut self, span: Span, times: u32) {
        let counts = self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        let count = &mut counts[bucket(span.as_nanos())];
        *count = count.saturating_add(times);
    }

    /// Returns the number of spans counted.
    pub fn len(&self) -> u64 {
        self.buckets().map(|(_, count)| u64::from(count)).sum()
    }

    /// Returns `true` if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.buckets().next().is_none()
    }

    /// Returns the numbers of the buckets that have counts, and the counts.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u32)> {
        let counts = self.counts.iter().flat_map(|counts| counts.iter().copied().enumerate());
        counts.filter(|(_, count)| *count > 0)
    }

    /// Returns the histogram of what was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut difference = self.clone();
        if let (Some(counts), Some(before)) = (&mut difference.counts, &earlier.counts) {
            counts.iter_mut().zip(before.iter()).for_each(|(count, before)| *count -= (*count).min(*before));
        }
        difference
    }

    /// Returns the quantile `q` in seconds, if anything was counted.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = q * self.len() as f64;
        let (mut below, mut found) = (0.0, None);
        for (bucket, count) in self.buckets() {
            let (low, high) = (lower_bound_s(bucket), lower_bound_s(bucket + 1));
            let share = ((wanted - below) / f64::from(count)).clamp(0.0, 1.0);
            found = Some(low + (high - low) * share);
            below += f64::from(count);
            if below >= wanted {
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
    let place = (nanos >> (octave - 3)) as usize & 7;
    (((octave - FIRST_OCTAVE) as usize) * 8 + place).min(BUCKETS - 1)
}

/// Returns the lower bound of a bucket in seconds.
pub fn lower_bound_s(bucket: usize) -> f64 {
    let octave = FIRST_OCTAVE as usize + bucket / 8;
    let nanos = (8 + bucket as u64 % 8) << (octave - 3);
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_within_the_bounds_of_their_buckets() {
        for nanos in [1 << 10, 1500, 123_456, 270_000_000, 999_999_999_999] {
            let bucket = bucket(nanos);
            let seconds = nanos as f64 / 1e9;
            let (low, high) = (lower_bound_s(bucket), lower_bound_s(bucket + 1));
            assert!(low <= seconds && seconds < high && high / low < 1.13, "{nanos} ns: {low} to {high}");
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
            assert!((found / expected - 1.0).abs() < 0.08, "{q}: {found}");
        }
        let warm = histogram.clone();
        (0..50).for_each(|_| histogram.record(Span::from_millis(270)));
        let later = histogram.since(&warm);
        assert_eq!(later.len(), 50);
        assert!((later.quantile(0.5).expect("samples") - 0.27).abs() < 0.02);
        assert_eq!(histogram.since(&Histogram::default()), histogram);
    }
}
