//! How late the emulator was.

use bentpipe_units::Span;
use hdrhistogram::Histogram;

/// How long after its scheduled time each packet left.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram<u64>);

/// One minute in nanoseconds; anything later counts as that.
const LONGEST_NS: u64 = 60_000_000_000;

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness(
            Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("constant bounds that hdrhistogram takes"),
        )
    }
}

impl Lateness {
    pub(crate) fn record(&mut self, late: Span) {
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
