//! One-way delays, summed up.

use bentpipe_units::Span;
use hdrhistogram::Histogram;

use crate::{Observer, Unit};

/// What longer delays count as in quantiles: a day.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// The delays of a receiver's packets.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    /// In nanoseconds, to three digits.
    histogram: Histogram<u64>,
    sum_ns: u128,
    range_ns: (u64, u64),
}

impl Delays {
    pub(crate) fn new() -> Delays {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds in order");
        Delays { histogram, sum_ns: 0, range_ns: (u64::MAX, 0) }
    }

    #[inline]
    pub(crate) fn record(&mut self, delay: Span) {
        let nanos = delay.as_nanos();
        self.histogram.saturating_record(nanos);
        self.sum_ns += u128::from(nanos);
        let (min, max) = self.range_ns;
        self.range_ns = (min.min(nanos), max.max(nanos));
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    pub(crate) fn mean(&self) -> Option<Span> {
        let mean = self.sum_ns.checked_div(self.histogram.len().into())?;
        Some(Span::from_nanos(mean as u64))
    }

    pub(crate) fn range(&self) -> Option<(Span, Span)> {
        let (min, max) = self.range_ns;
        (min <= max).then_some((Span::from_nanos(min), Span::from_nanos(max)))
    }

    pub(crate) fn observe(&self, observer: &mut dyn Observer) {
        let seconds = |span: Option<Span>| span.map_or(f64::NAN, Span::as_secs_f64);
        let quantile = |q| match self.histogram.len() {
            0 => f64::NAN,
            _ => self.histogram.value_at_quantile(q) as f64 / 1e9,
        };
        observer.gauge("delay-mean", Unit::Seconds, seconds(self.mean()));
        observer.gauge("delay-min", Unit::Seconds, seconds(self.range().map(|range| range.0)));
        observer.gauge("delay-p50", Unit::Seconds, quantile(0.5));
        observer.gauge("delay-p95", Unit::Seconds, quantile(0.95));
        observer.gauge("delay-p99", Unit::Seconds, quantile(0.99));
        observer.gauge("delay-max", Unit::Seconds, seconds(self.range().map(|range| range.1)));
    }
}
