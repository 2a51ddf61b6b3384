//! Sums of one-way delays.

use bentpipe_net::metric::{self, Of};
use bentpipe_net::{Histogram, Observer};
use bentpipe_units::Span;

use crate::app::metrics;

/// Reports the delays of a receiver's packets.
pub(crate) fn observe(delays: &Histogram, observer: &mut dyn Observer) {
    observe_as(&metrics::DELAYS, delays, observer);
}

/// Reports the delays of a receiver's packets, with their distribution as `metric`.
pub(crate) fn observe_as(
    metric: &'static Of<metric::Histogram>,
    delays: &Histogram,
    observer: &mut dyn Observer,
) {
    let seconds = |span: Option<Span>| span.map_or(f64::NAN, Span::as_secs_f64);
    let quantile = |q| delays.quantile(q).unwrap_or(f64::NAN);
    observer.gauge(&metrics::DELAY_MEAN, seconds(delays.mean()));
    observer.gauge(&metrics::DELAY_MIN, seconds(delays.range().map(|range| range.0)));
    observer.gauge(&metrics::DELAY_P50, quantile(0.5));
    observer.gauge(&metrics::DELAY_P95, quantile(0.95));
    observer.gauge(&metrics::DELAY_P99, quantile(0.99));
    observer.gauge(&metrics::DELAY_MAX, seconds(delays.range().map(|range| range.1)));
    observer.histogram(metric, delays);
}
