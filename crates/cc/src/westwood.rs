//! TCP Westwood+ (Grieco & Mascolo, "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP
//! congestion control", CCR 34(2), 2004): New Reno's growth, and after a loss a window of what the path was measured to
//! carry.
//!
//! One bandwidth sample in each round trip, low-pass filtered. Not modelled: the first Westwood's sample for each ACK.
//! Switches reproduce Linux's filter, its early zero start, and when it sets ssthresh; its integer units (bytes in a
//! clock tick) are not reproduced.

use bentpipe_units::{Rate, Span, Time};

use crate::classic::params;
use crate::hybla::Rho;
use crate::new_reno::{NewReno, half_flight};
use crate::{Ack, Classic, Connection, Growth, Loss, Window, WindowLaw};

/// The low-pass filter over the bandwidth samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Filter {
    /// `B = a B + (1 - a) b`, beginning with the first sample.
    #[default]
    Paper,
    /// Two in series, each `(7 B + b) / 8`, beginning with the first sample (Linux since 2.6.17).
    Linux,
    /// The same, beginning with zero (Linux before): 41 % of the rate after 10 round trips, 92 % after 31.
    LinuxZero,
}

/// When ssthresh is taken from the estimate after fast recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Adoption {
    /// When the loss is detected (the paper).
    #[default]
    Loss,
    /// When recovery ends; it is passed with half the window (Linux).
    RecoveryEnd,
}

params! {
    /// Parameters of Westwood+.
    slow_start: Growth::Standard;
    /// The filter.
    filter: Filter = Filter::Paper,
    /// The paper filter's pole a, from 0 to 1.
    pole: f64 = 0.9,
    /// A sample takes at least this long (Linux: 50 ms).
    min_sample: Span = Span::from_millis(50),
    /// When ssthresh is taken from the estimate.
    adoption: Adoption = Adoption::Loss,
    /// Begin the lowest RTT anew after a timeout (Linux).
    forget_min_rtt: bool = false,
}

impl Params {
    /// A Westwood+ controller.
    pub fn build(&self, connection: &Connection) -> Classic<Westwood> {
        let pole = if self.pole >= 0.0 { self.pole.min(1.0) } else { 0.0 };
        let law = Westwood {
            params: Params { pole, ..*self },
            reno: NewReno::default(),
            estimate: Estimate::new(self.filter, pole),
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

    /// The sample closes with the first ACK a round trip after it began.
    fn note_bytes(&mut self, ack: &Ack) {
        self.sample_bytes = self.sample_bytes.saturating_add(ack.delivered);
        let Some(start) = self.sample_start else { return self.begin_sample(ack.now) };
        let Some(rtt) = self.rtt else { return };
        let length = ack.now.since(start);
        if length >= rtt.max(self.params.min_sample) && !length.is_zero() {
            self.estimate.sample(self.sample_bytes as f64 / length.as_secs_f64());
            self.begin_sample(ack.now);
        }
    }

    fn begin_sample(&mut self, now: Time) {
        (self.sample_start, self.sample_bytes) = (Some(now), 0);
    }

    /// `B * RTTmin`, in bytes, if both are known.
    fn pipe(&self) -> Option<f64> {
        Some(self.estimate.value? * self.min_rtt?.as_secs_f64())
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
            Adoption::Loss => self.ssthresh_after_timeout(loss, window),
            Adoption::RecoveryEnd => half_flight(loss),
        }
    }

    fn ssthresh_after_timeout(&mut self, loss: &Loss, _window: &Window) -> f64 {
        let pipe = self.pipe().unwrap_or_else(|| half_flight(loss));
        if self.params.forget_min_rtt {
            self.min_rtt = None;
        }
        pipe
    }

    fn on_recovered(&mut self, window: &mut Window) {
        if let (Adoption::RecoveryEnd, Some(pipe)) = (self.params.adoption, self.pipe()) {
            window.set_ssthresh(pipe);
            window.set(window.ssthresh());
        }
    }

    /// A pause of the sender says nothing about the path.
    fn on_restart(&mut self, now: Time) {
        self.begin_sample(now);
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.estimate.value.map(|bytes_per_sec| Rate::from_bps((8.0 * bytes_per_sec) as u64))
    }
}

/// The filtered bandwidth in bytes per second.
#[derive(Clone, Debug)]
struct Estimate {
    filter: Filter,
    pole: f64,
    /// The first of two filters in series.
    inner: f64,
    value: Option<f64>,
}

impl Estimate {
    fn new(filter: Filter, pole: f64) -> Estimate {
        Estimate { filter, pole, inner: 0.0, value: None }
    }

    fn sample(&mut self, sample: f64) {
        let before = self.value.or_else(|| (self.filter == Filter::LinuxZero).then_some(0.0));
        self.value = Some(match (before, self.filter) {
            (None, _) => {
                self.inner = sample;
                sample
            }
            (Some(before), Filter::Paper) => self.pole * before + (1.0 - self.pole) * sample,
            (Some(before), Filter::Linux | Filter::LinuxZero) => {
                self.inner = (7.0 * self.inner + sample) / 8.0;
                (7.0 * before + self.inner) / 8.0
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_response(filter: Filter, before: &[f64], samples: usize) -> f64 {
        let mut estimate = Estimate::new(filter, 0.9);
        before.iter().for_each(|&b| estimate.sample(b));
        (0..samples).for_each(|_| estimate.sample(1.0));
        estimate.value.unwrap_or(0.0)
    }

    /// Sheet: 41 % after 10 samples, 58 % after 14, 76 % after 20, 92 % after 31. Closed form with q = 7/8:
    /// 1 - q^n (1 + n/8).
    #[test]
    fn zero_start_takes_thirty_round_trips() {
        for (n, percent) in [(10, 41.0), (14, 58.0), (20, 76.0), (31, 92.0)] {
            let ours = step_response(Filter::LinuxZero, &[], n);
            let closed = 1.0 - 0.875_f64.powi(n as i32) * (1.0 + n as f64 / 8.0);
            assert!((ours - closed).abs() < 1e-12, "{n}: {ours} {closed}");
            assert!((100.0 * ours - percent).abs() < 0.6, "{n}: {ours}");
        }
    }

    #[test]
    fn paper_filter_forgets_by_its_pole() {
        assert_eq!(step_response(Filter::Paper, &[], 1), 1.0);
        let ours = step_response(Filter::Paper, &[3.0], 10);
        assert!((ours - (1.0 + 2.0 * 0.9_f64.powi(10))).abs() < 1e-12);
        assert_eq!(step_response(Filter::Linux, &[], 1), 1.0);
    }
}
