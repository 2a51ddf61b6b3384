//! One-way delays, summed up.

use std::sync::LazyLock;

use bentpipe_units::Span;
use hdrhistogram::Histogram;

use crate::{Observer, Unit};

/// What longer delays count as in quantiles: a day.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// No delay yet.
static NONE: LazyLock<Histogram<u64>> = LazyLock::new(|| Histogram::new(3).expect("three digits"));

/// The delays of a receiver's packets.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    /// In nanoseconds, to three digits. There may be very many receivers, so it is made when there is a delay, and grows with
    /// the longest.
    histogram: Option<Histogram<u64>>,
    sum_ns: u128,
    range_ns: (u64, u64),
}

impl Delays {
    pub(crate) fn new() -> Delays {
        Delays { histogram: None, sum_ns: 0, range_ns: (u64::MAX, 0) }
    }

    #[inline]
    pub(crate) fn record(&mut self, delay: Span) {
        let nanos = delay.as_nanos();
        let histogram = self.histogram.get_or_insert_with(|| NONE.clone());
        histogram.record(nanos.min(LONGEST_NS)).expect("it grows");
        self.sum_ns += u128::from(nanos);
        let (min, max) = self.range_ns;
        self.range_ns = (min.min(nanos), max.max(nanos));
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        self.histogram.as_ref().unwrap_or(&NONE)
    }

    pub(crate) fn mean(&self) -> Option<Span> {
        let mean = self.sum_ns.checked_div(self.histogram().len().into())?;
        Some(Span::from_nanos(mean as u64))
    }

    pub(crate) fn range(&self) -> Option<(Span, Span)> {
        let (min, max) = self.range_ns;
        (min <= max).then_some((Span::from_nanos(min), Span::from_nanos(max)))
    }

    pub(crate) fn observe(&self, observer: &mut dyn Observer) {
        let seconds = |span: Option<Span>| span.map_or(f64::NAN, Span::as_secs_f64);
        let histogram = self.histogram();
        let quantile = |q| match histogram.len() {
            0 => f64::NAN,
            _ => histogram.value_at_quantile(q) as f64 / 1e9,
        };
        observer.gauge("delay-mean", Unit::Seconds, seconds(self.mean()));
        observer.gauge("delay-min", Unit::Seconds, seconds(self.range().map(|range| range.0)));
        observer.gauge("delay-p50", Unit::Seconds, quantile(0.5));
        observer.gauge("delay-p95", Unit::Seconds, quantile(0.95));
        observer.gauge("delay-p99", Unit::Seconds, quantile(0.99));
        observer.gauge("delay-max", Unit::Seconds, seconds(self.range().map(|range| range.1)));
    }
}
