//! The TCP throughput equation and its inverse.

use bentpipe_units::Span;

/// Returns the TCP-equivalent rate in bytes per second. `segment` is the segment size in bytes, `p` the loss
/// event rate (RFC 5348, section 3.1, with b = 1 and t_RTO = 4 R). Infinite without loss or delay.
pub fn rate(segment: f64, rtt: Span, p: f64) -> f64 {
    let rtt = rtt.as_secs_f64();
    segment / (rtt * per_rtt(p))
}

/// Returns the equation's denominator in round trips: the time from one segment to the next.
fn per_rtt(p: f64) -> f64 {
    let congestion_avoidance = (2.0 * p / 3.0).sqrt();
    let timeouts = 4.0 * 3.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    congestion_avoidance + timeouts
}

/// Returns the loss event rate at which [`rate`] gives `target` bytes per second. At most 1. RFC 5348,
/// section 6.3.1.
pub fn loss_event_rate(segment: f64, rtt: Span, target: f64) -> f64 {
    // The denominator grows with p, so halving the interval finds it; in the exponent, as p spans decades.
    let (mut low, mut high) = (-60.0_f64, 0.0_f64);
    if rate(segment, rtt, 1.0) >= target {
        return 1.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if rate(segment, rtt, libm::exp2(middle)) > target { low = middle } else { high = middle }
    }
    libm::exp2(high)
}
