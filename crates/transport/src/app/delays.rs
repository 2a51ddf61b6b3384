//! Sums of one-way delays.

use std::sync::LazyLock;

use bentpipe_net::Observer;
use bentpipe_units::Span;
use hdrhistogram::Histogram;

use crate::app::metrics;

/// Upper limit of delays in quantiles: a day.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// No delay yet.
static NONE: LazyLock<Histogram<u64>> = LazyLock::new(|| Histogram::new(3).expect("three digits"));

/// The delays of a receiver's packets.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    /// Histogram in nanoseconds, to three digits. It is created with the first delay, as there may be many
    /// receivers, and grows with the longest.
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
        observer.gauge(&metrics::DELAY_MEAN, seconds(self.mean()));
        observer.gauge(&metrics::DELAY_MIN, seconds(self.range().map(|range| range.0)));
        observer.gauge(&metrics::DELAY_P50, quantile(0.5));
        observer.gauge(&metrics::DELAY_P95, quantile(0.95));
        observer.gauge(&metrics::DELAY_P99, quantile(0.99));
        observer.gauge(&metrics::DELAY_MAX, seconds(self.range().map(|range| range.1)));
        if observer.takes_histograms() {
            observer.histogram(&metrics::DELAYS, &self.coarse());
        }
    }

    /// Returns the distribution in the buckets of all recordings.
    fn coarse(&self) -> bentpipe_net::Histogram {
        let mut coarse = bentpipe_net::Histogram::default();
        for value in self.histogram().iter_recorded() {
            let times = u32::try_from(value.count_at_value()).unwrap_or(u32::MAX);
            coarse.add(Span::from_nanos(value.value_iterated_to()), times);
        }
        coarse
    }
}
