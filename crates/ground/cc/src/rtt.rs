//! Round-trip time and retransmission timeout, RFC 6298.
//!
//! Modelled: smoothed RTT and variation, clock granularity, lower and upper bounds, exponential back-off, the weights of
//! RFC 7323 Appendix G for several samples in a round, and where Linux puts its lower bound. Not modelled: which samples
//! are valid (Karn's algorithm, timestamps: the caller's), and Linux's largest-deviation-in-a-round variation.

use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Quantity that the lower bound applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Floor {
    /// The whole timeout is at least the bound (RFC 6298 2.4).
    #[default]
    Timeout,
    /// Variation term of at least the bound: the timeout exceeds srtt by it (Linux). The term is `4 *
    /// rttvar`.
    Variation,
}

/// Constants of the RTT estimator and of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Clock granularity G: the variation term is at least this (RFC 6298 2.2, 2.3).
    pub granularity: Span,
    /// Timeout before the first sample (RFC 6298 2.1).
    pub initial: Span,
    /// Lower bound (RFC 6298 2.4: 1 s; Linux: 200 ms on the variation).
    pub min: Span,
    /// Quantity that the lower bound applies to.
    pub floor: Floor,
    /// Upper bound, also of the backed-off timeout. RFC 6298 2.5: at least 60 s; Linux: 120 s.
    pub max: Span,
}

impl Params {
    /// Constants of RFC 6298. Granularity 1 ms, initial and minimum RTO 1 s, maximum 60 s.
    pub const RFC6298: Params = Params {
        granularity: Span::from_millis(1),
        initial: Span::from_secs(1),
        min: Span::from_secs(1),
        floor: Floor::Timeout,
        max: Span::from_secs(60),
    };

    /// Linux: 200 ms at least above srtt, 120 s at most.
    pub const LINUX: Params = Params {
        granularity: Span::from_millis(1),
        initial: Span::from_secs(1),
        min: Span::from_millis(200),
        floor: Floor::Variation,
        max: Span::from_secs(120),
    };
}

impl Default for Params {
    fn default() -> Params {
        Params::RFC6298
    }
}

/// srtt, rttvar, RTO and the lowest RTT of one connection.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    params: Params,
    smoothed: Option<Smoothed>,
    min: Option<Span>,
    latest: Option<Span>,
    /// RTO before back-off.
    base: Span,
    /// Number of times the timer fired since the last sample.
    backoff: u32,
}

/// Nanoseconds, as the weights are powers of two.
#[derive(Clone, Copy, Debug)]
struct Smoothed {
    srtt_ns: u64,
    rttvar_ns: u64,
}

impl RttEstimator {
    /// Creates an estimator without a sample: its RTO is `params.initial`.
    pub fn new(params: Params) -> RttEstimator {
        RttEstimator { params, smoothed: None, min: None, latest: None, base: params.initial, backoff: 0 }
    }

    /// Adds a valid sample and ends the back-off. Karn: never of a retransmitted segment, unless timestamps
    /// distinguish the copies.
    pub fn sample(&mut self, rtt: Span) {
        self.sample_one_of(rtt, 1);
    }

    /// Adds one of `per_round` samples expected in this round trip. The weights 1/8 and 1/4 are divided by it
    /// (RFC 7323 Appendix G). Zero counts as one.
    pub fn sample_one_of(&mut self, rtt: Span, per_round: u32) {
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        self.latest = Some(rtt);
        self.backoff = 0;
        let next = match self.smoothed {
            None => Smoothed::first(rtt.as_nanos()),
            Some(before) => before.after(rtt.as_nanos(), u64::from(per_round.max(1))),
        };
        self.smoothed = Some(next);
        self.base = self.timeout(next);
    }

    /// Doubles the RTO, up to its maximum, as the timer fired (RFC 6298 5.5).
    pub fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Clears the back-off after forward progress without a valid sample, as Linux does. RFC 6298 keeps it
    /// until a sample: do not call this then.
    pub fn forget_back_off(&mut self) {
        self.backoff = 0;
    }

    /// Records that the SYN was retransmitted. With an initial RTO below 3 s, data starts with 3 s unless a
    /// sample arrived (RFC 6298 5.7).
    pub fn syn_repeated(&mut self) {
        if self.smoothed.is_none() {
            self.base = self.base.max(Span::from_secs(3)).min(self.params.max);
            self.backoff = 0;
        }
    }

    /// Returns the retransmission timeout with back-off.
    #[inline]
    pub fn rto(&self) -> Span {
        let factor = 1_u64.checked_shl(self.backoff).unwrap_or(u64::MAX);
        (self.base * factor).min(self.params.max)
    }

    /// Returns the smoothed RTT, once there was a sample.
    pub fn srtt(&self) -> Option<Span> {
        self.smoothed.map(|s| Span::from_nanos(s.srtt_ns))
    }

    /// Returns the RTT's variation, once there was a sample.
    pub fn rttvar(&self) -> Option<Span> {
        self.smoothed.map(|s| Span::from_nanos(s.rttvar_ns))
    }

    /// Returns the lowest sample.
    pub fn min_rtt(&self) -> Option<Span> {
        self.min
    }

    /// Returns the last sample.
    pub fn latest(&self) -> Option<Span> {
        self.latest
    }

    /// Returns the number of times the timer fired since the last sample.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Returns `srtt + max(G, 4 * rttvar)` within its bounds (RFC 6298 2.2 to 2.5).
    fn timeout(&self, smoothed: Smoothed) -> Span {
        let Params { granularity, min, max, floor, .. } = self.params;
        let variation = (Span::from_nanos(smoothed.rttvar_ns) * 4).max(granularity);
        let srtt = Span::from_nanos(smoothed.srtt_ns);
        let timeout = match floor {
            Floor::Timeout => (srtt + variation).max(min),
            Floor::Variation => srtt + variation.max(min),
        };
        timeout.min(max)
    }
}

impl Smoothed {
    /// Returns the state after the first sample (RFC 6298 2.2).
    fn first(rtt_ns: u64) -> Smoothed {
        Smoothed { srtt_ns: rtt_ns, rttvar_ns: rtt_ns / 2 }
    }

    /// Updates rttvar with the old srtt, then srtt (RFC 6298 2.3). beta 1/4 and alpha 1/8 are divided by
    /// `per_round`.
    fn after(self, rtt_ns: u64, per_round: u64) -> Smoothed {
        let deviation_ns = self.srtt_ns.abs_diff(rtt_ns);
        Smoothed {
            rttvar_ns: blend(self.rttvar_ns, deviation_ns, 4 * per_round),
            srtt_ns: blend(self.srtt_ns, rtt_ns, 8 * per_round),
        }
    }
}

/// Returns `((n - 1) * old + new) / n` without overflow.
fn blend(old: u64, new: u64, n: u64) -> u64 {
    match old.checked_mul(n - 1).and_then(|sum| sum.checked_add(new)) {
        Some(sum) => sum / n,
        None => ((u128::from(old) * u128::from(n - 1) + u128::from(new)) / u128::from(n)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Span {
        Span::from_millis(millis)
    }

    #[test]
    fn hand_computed_sequence() {
        let mut rtt = RttEstimator::new(Params { min: ms(1), ..Params::RFC6298 });
        assert_eq!(rtt.rto(), ms(1000));
        rtt.sample(ms(600));
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(600)), Some(ms(300)), ms(1800)));
        rtt.sample(ms(680));
        // rttvar = 3/4 300 + 1/4 80 = 245; srtt = 7/8 600 + 1/8 680 = 610.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(610)), Some(ms(245)), ms(1590)));
        rtt.sample(ms(530));
        // rttvar = 183.75 + 20 = 203.75; srtt = 533.75 + 66.25 = 600.
        assert_eq!(rtt.srtt(), Some(ms(600)));
        assert_eq!(rtt.rttvar(), Some(Span::from_micros(203_750)));
        assert_eq!(rtt.rto(), ms(1415));
        assert_eq!(rtt.min_rtt(), Some(ms(530)));
    }

    #[test]
    fn bounds_granularity_and_the_linux_floor() {
        let steady = |params| {
            let mut rtt = RttEstimator::new(params);
            (0..200).for_each(|_| rtt.sample(ms(550)));
            rtt.rto()
        };
        assert_eq!(steady(Params::RFC6298), ms(1000));
        assert_eq!(steady(Params::LINUX), ms(750));
        let coarse = Params { granularity: ms(500), min: Span::ZERO, ..Params::RFC6298 };
        assert_eq!(steady(coarse), ms(1050));
        assert_eq!(steady(Params { max: ms(600), ..Params::LINUX }), ms(600));
    }

    #[test]
    fn back_off_doubles_to_the_maximum_and_a_sample_ends_it() {
        let mut rtt = RttEstimator::new(Params::RFC6298);
        rtt.syn_repeated();
        assert_eq!(rtt.rto(), ms(3000));
        let series: Vec<u64> = (0..6)
            .map(|_| {
                rtt.back_off();
                rtt.rto().as_nanos() / 1_000_000_000
            })
            .collect();
        assert_eq!(series, [6, 12, 24, 48, 60, 60]);
        (0..100).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), Span::from_secs(60));
        rtt.sample(ms(400));
        assert_eq!((rtt.rto(), rtt.backoff()), (ms(1200), 0));
    }

    #[test]
    fn many_samples_a_round_weigh_as_one() {
        let mut one = RttEstimator::new(Params::RFC6298);
        let mut many = RttEstimator::new(Params::RFC6298);
        one.sample(ms(500));
        many.sample(ms(500));
        one.sample(ms(900));
        (0..100).for_each(|_| many.sample_one_of(ms(900), 100));
        let secs = |rtt: &RttEstimator| rtt.srtt().unwrap().as_secs_f64();
        assert!((secs(&one) - 0.55).abs() < 1e-6);
        // (1 - 1/800)^100 instead of 7/8.
        assert!((secs(&many) - 0.547).abs() < 1e-3, "{}", secs(&many));
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut rtt = RttEstimator::new(Params { max: Span::MAX, ..Params::RFC6298 });
        for sample in [Span::MAX, Span::ZERO, Span::MAX, Span::MAX] {
            rtt.sample_one_of(sample, u32::MAX);
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Span::MAX);
    }
}
