//! Lateness of the emulator.

use bentpipe_units::Span;
use hdrhistogram::Histogram;

/// Distribution of the time by which packets left after their scheduled time.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram<u64>);

/// Limit of the histogram: one minute in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness(
            Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("constant bounds that hdrhistogram takes"),
        )
    }
}

impl Lateness {
    /// Records a packet that left `late` after its scheduled time.
    pub fn record(&mut self, late: Span) {
        self.0.saturating_record(late.as_nanos());
    }

    /// The number of packets that left.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The lateness that a share of the packets did not exceed: 0.5 is the median.
    pub fn quantile(&self, share: f64) -> Span {
        Span::from_nanos(self.0.value_at_quantile(share))
    }

    /// The worst.
    pub fn max(&self) -> Span {
        Span::from_nanos(self.0.max())
    }
}
