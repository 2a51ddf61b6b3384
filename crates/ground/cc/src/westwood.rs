//! TCP Westwood+: New Reno's growth, and after a loss a window from the measured rate. Reference: Grieco &
//! Mascolo, "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP congestion control",
//! CCR 34(2), 2004.
//!
//! One bandwidth sample in each round trip, low-pass filtered. Not modelled: the first Westwood's sample for each ACK.
//! Switches reproduce Linux's filter, its early zero start, its integer units (bytes in a clock tick), when it sets
//! ssthresh, and what ns-2 makes of it.

use bentpipe_units::{Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::classic::{half_flight, params};
use crate::new_reno::NewReno;
use crate::rho::Rho;
use crate::{Ack, Classic, Connection, Growth, Loss, Window, WindowLaw};

/// The low-pass filter over the bandwidth samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// `B = a B + (1 - a) b`, beginning with the first sample.
    #[default]
    Paper,
    /// Series of two filters `(7 B + b) / 8`, starting with the first sample. Linux since 2.6.17.
    Linux,
    /// Filters in series, starting with zero (older Linux). 41 % of the rate after 10 round trips, 92 % after
    /// 31.
    LinuxZero,
}

/// Update of ssthresh from the estimate after fast recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SsthreshUpdate {
    /// Set at detection of the loss (the paper).
    #[default]
    Loss,
    /// Set at the end of recovery, which has half the window. Linux since 3.2.
    RecoveryEnd,
    /// Set at detection of the loss, but at least half of the outstanding data. Linux's code as ns-2.35 runs
    /// it: its transport uses the law's minimum window as the window and does not signal the end of recovery.
    LossAboveHalf,
}

params! {
    /// Parameters of Westwood+.
    slow_start: Growth::Standard;
    /// The filter.
    filter: Filter = Filter::Paper,
    /// The paper filter's pole a, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pole: f64 = 0.9,
    /// A sample takes at least this long (Linux: 50 ms).
    min_sample: Span = Span::from_millis(50),
    /// Clock tick in which Linux counts; zero: exact. The estimate is in whole bytes per tick, rounded down
    /// at each step of the filter, and the window in whole segments. Affects `linux` and `linux-zero`.
    tick: Span = Span::ZERO,
    /// Update of ssthresh from the estimate.
    adoption: SsthreshUpdate = SsthreshUpdate::Loss,
    /// Enables a new measurement of the lowest RTT after a timeout (Linux).
    forget_min_rtt: bool = false,
}

impl Params {
    /// Returns a Westwood+ controller.
    pub fn build(&self, connection: &Connection) -> Classic<Westwood> {
        let pole = if self.pole >= 0.0 { self.pole.min(1.0) } else { 0.0 };
        let law = Westwood {
            params: Params { pole, ..*self },
            reno: NewReno::default(),
            estimate: Estimate::new(self.filter, pole, self.tick),
            min_rtt: None,
            rtt: None,
            sample_start: None,
            sample_bytes: 0,
        };
        Classic::new(connection, self.frame(Rho::default()), law)
    }
}

/// Westwood+'s law.
#[derive(Clone, Debug)]
pub struct Westwood {
    params: Params,
    reno: NewReno,
    estimate: Estimate,
    min_rtt: Option<Span>,
    rtt: Option<Span>,
    sample_start: Option<Time>,
    sample_bytes: u64,
}

impl Westwood {
    fn note_rtt(&mut self, ack: &Ack) {
        self.rtt = ack.rtt.or(self.rtt);
        let lowest = if self.params.forget_min_rtt { ack.rtt } else { ack.min_rtt.or(ack.rtt) };
        self.min_rtt = match (self.min_rtt, lowest) {
            (Some(before), Some(rtt)) => Some(before.min(rtt)),
            (before, rtt) => before.or(rtt),
        };
    }

    /// Counts bytes. The sample closes with the first ACK a round trip after it began.
    fn note_bytes(&mut self, ack: &Ack) {
        self.sample_bytes = self.sample_bytes.saturating_add(ack.delivered);
        let Some(start) = self.sample_start else { return self.begin_sample(ack.now) };
        let Some(rtt) = self.rtt else { return };
        let length = ack.now.since(start);
        if length >= rtt.max(self.params.min_sample) && !length.is_zero() {
            self.estimate.sample(self.sample_bytes as f64, length);
            self.begin_sample(ack.now);
        }
    }

    fn begin_sample(&mut self, now: Time) {
        (self.sample_start, self.sample_bytes) = (Some(now), 0);
    }

    /// Returns `B * RTTmin`, in bytes, if both are known.
    fn pipe(&self, window: &Window) -> Option<f64> {
        let pipe = self.estimate.rate()? * self.min_rtt?.as_secs_f64();
        let whole = self.estimate.is_whole();
        Some(if whole { (pipe / window.smss()).floor() * window.smss() } else { pipe })
    }
}

impl WindowLaw for Westwood {
    const NAME: &'static str = "westwood+";

    fn measure(&mut self, ack: &Ack, _window: &mut Window) {
        self.note_rtt(ack);
        self.note_bytes(ack);
    }

    fn avoid(&mut self, _ack: &Ack, credit: f64, window: &mut Window) {
        self.reno.count(credit, window);
    }

    fn ssthresh(&mut self, loss: &Loss, window: &Window) -> f64 {
        self.reno = NewReno::default();
        match self.params.adoption {
            SsthreshUpdate::Loss => self.ssthresh_after_timeout(loss, window),
            SsthreshUpdate::RecoveryEnd => half_flight(loss),
            SsthreshUpdate::LossAboveHalf => half_flight(loss).max(self.pipe(window).unwrap_or(0.0)),
        }
    }

    fn ssthresh_after_timeout(&mut self, loss: &Loss, window: &Window) -> f64 {
        let pipe = self.pipe(window).unwrap_or_else(|| half_flight(loss));
        if self.params.forget_min_rtt {
            self.min_rtt = None;
        }
        pipe
    }

    fn on_recovered(&mut self, window: &mut Window) {
        if let (SsthreshUpdate::RecoveryEnd, Some(pipe)) = (self.params.adoption, self.pipe(window)) {
            window.set_ssthresh(pipe);
            window.set(window.ssthresh());
        }
    }

    /// Discards the sample, as a pause of the sender carries no information on the path.
    fn on_restart(&mut self, now: Time) {
        self.begin_sample(now);
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.estimate.rate().map(|bytes_per_sec| Rate::from_bps((8.0 * bytes_per_sec) as u64))
    }
}

/// The filtered bandwidth. In whole units the two filters in series stick: a value must be exceeded by eight units to
/// rise, so at 50 bytes a tick the estimate is up to a quarter too small.
#[derive(Clone, Debug)]
struct Estimate {
    filter: Filter,
    pole: f64,
    /// Unit of time of the rates, in seconds.
    unit: f64,
    /// The first of two filters in series.
    inner: f64,
    value: Option<f64>,
}

impl Estimate {
    fn new(filter: Filter, pole: f64, tick: Span) -> Estimate {
        let counts_ticks = filter != Filter::Paper && !tick.is_zero();
        let unit = if counts_ticks { tick.as_secs_f64() } else { 0.0 };
        Estimate { filter, pole, unit, inner: 0.0, value: None }
    }

    /// Returns `true` if it is in whole bytes a tick.
    fn is_whole(&self) -> bool {
        self.unit > 0.0
    }

    /// Returns the estimate in bytes per second.
    fn rate(&self) -> Option<f64> {
        self.value.map(|value| if self.is_whole() { value / self.unit } else { value })
    }

    /// Adds a sample of `bytes` in `length`.
    fn sample(&mut self, bytes: f64, length: Span) {
        let length = length.as_secs_f64();
        let sample =
            if self.is_whole() { bytes / (length / self.unit).floor().max(1.0) } else { bytes / length };
        self.filter(self.rounded(sample));
    }

    fn rounded(&self, value: f64) -> f64 {
        if self.is_whole() { value.floor() } else { value }
    }

    fn filter(&mut self, sample: f64) {
        let before = self.value.or_else(|| (self.filter == Filter::LinuxZero).then_some(0.0));
        self.value = Some(match (before, self.filter) {
            (None, _) => {
                self.inner = sample;
                sample
            }
            (Some(before), Filter::Paper) => self.pole * before + (1.0 - self.pole) * sample,
            (Some(before), Filter::Linux | Filter::LinuxZero) => {
                self.inner = self.rounded((7.0 * self.inner + sample) / 8.0);
                self.rounded((7.0 * before + self.inner) / 8.0)
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_response(filter: Filter, before: &[f64], samples: usize) -> f64 {
        let mut estimate = Estimate::new(filter, 0.9, Span::ZERO);
        before.iter().for_each(|&b| estimate.filter(b));
        (0..samples).for_each(|_| estimate.filter(1.0));
        estimate.value.unwrap_or(0.0)
    }

    /// Fact sheet: 41 % after 10 samples, 58 % after 14, 76 % after 20.
    ///
    /// 92 % after 31. Closed form with q = 7/8: 1 - q^n (1 + n/8).
    #[test]
    fn zero_start_takes_thirty_round_trips() {
        for (n, percent) in [(10, 41.0), (14, 58.0), (20, 76.0), (31, 92.0)] {
            let ours = step_response(Filter::LinuxZero, &[], n);
            let closed = 1.0 - 0.875_f64.powi(n as i32) * (1.0 + n as f64 / 8.0);
            assert!((ours - closed).abs() < 1e-12, "{n}: {ours} {closed}");
            assert!((100.0 * ours - percent).abs() < 0.6, "{n}: {ours}");
        }
    }

    /// Behind a slow start the mean is far below the rate, and the window of the first loss with it (Grieco & Mascolo: a = 0.9).
    ///
    /// Of samples that grow by g each it has (1 - a) / (1 - a / g), and then comes nearer by a tenth with each at the rate.
    #[test]
    fn a_slow_start_leaves_a_part_of_the_rate() {
        let mut estimate = Estimate::new(Filter::Paper, 0.9, Span::ZERO);
        (0..60).rev().for_each(|n| estimate.filter(1.5_f64.powi(-n)));
        let part = estimate.value.expect("samples");
        assert!((part - 0.1 / (1.0 - 0.9 / 1.5)).abs() < 1e-6, "{part}");
        (0..2).for_each(|_| estimate.filter(1.0));
        let part = estimate.value.expect("samples");
        assert!((part - (1.0 - 0.75 * 0.81)).abs() < 1e-6, "{part}");
    }

    /// Linux's integers: both filters stop below a steady sample. From zero the inner one stops seven below
    /// it, the outer one seven below that.
    #[test]
    fn whole_bytes_a_tick_stick_below_the_rate() {
        let settled = |bytes: f64| {
            let mut estimate = Estimate::new(Filter::LinuxZero, 0.9, Span::from_millis(1));
            (0..500).for_each(|_| estimate.sample(bytes, Span::from_millis(600)));
            estimate.rate().expect("a sample")
        };
        assert_eq!(settled(600.0 * 54.0), 40_000.0);
        assert_eq!(settled(600.0 * 250.0), 236_000.0);
        // A part of a byte in a tick does not count.
        assert_eq!(settled(600.0 * 54.9), 40_000.0);
    }

    #[test]
    fn paper_filter_forgets_by_its_pole() {
        assert_eq!(step_response(Filter::Paper, &[], 1), 1.0);
        let ours = step_response(Filter::Paper, &[3.0], 10);
        assert!((ours - (1.0 + 2.0 * 0.9_f64.powi(10))).abs() < 1e-12);
        assert_eq!(step_response(Filter::Linux, &[], 1), 1.0);
    }
}
