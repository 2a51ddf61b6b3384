//! Clock recovery of a receiver by a phase-locked loop (ISO/IEC 13818-1, annex D).
//!
//! The loop is of second order and type 2: proportional and integral control of an oscillator that is off by a given offset. At
//! each reference the difference of the local clock and the reference is the phase error; the control holds until the next
//! one. With natural frequency w and damping d, gains are 2 d w and w^2, so the local clock follows the references' arrivals by
//! H(s) = (2 d w s + w^2) / (s^2 + 2 d w s + w^2).
//!
//! *Does not model*: limits of the oscillator's range, quantisation of control, other frequencies than one for all receivers.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Phase error beyond which a receiver sets its clock, in seconds.
const JUMP_S: f64 = 0.1;

/// Clock recovery of the receiver by a phase-locked loop on the programme clock references.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Recovery {
    /// Natural frequency of the loop, in Hz. Default: 0.5.
    #[schemars(range(min = 0.001, max = 2.0))]
    pub natural_frequency_hz: f64,
    /// Damping factor. Default: 0.7071.
    #[schemars(range(min = 0.1, max = 10.0))]
    pub damping: f64,
    /// Offset of the free oscillator from the sender's clock, in parts per million. Default: 30, the largest that is allowed.
    #[schemars(range(min = -1000.0, max = 1000.0))]
    pub offset_ppm: f64,
    /// Largest phase error of a locked clock. Default: "25 us", the jitter of the real-time interface (ISO/IEC 13818-9).
    pub tolerance: Span,
}

impl Default for Recovery {
    fn default() -> Recovery {
        let tolerance = Span::from_micros(25);
        Recovery { natural_frequency_hz: 0.5, damping: FRAC_1_SQRT_2, offset_ppm: 30.0, tolerance }
    }
}

/// Outcome of a clock recovery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovered {
    /// Time until the phase error stays within the tolerance, in seconds. It is counted from the first reference, and `None` if it
    /// never does.
    pub lock_s: Option<f64>,
    /// Standard deviation of the phase error of the settled clock, in seconds.
    pub jitter_s: f64,
    /// Range of the phase error of the settled clock, in seconds.
    pub peak_to_peak_s: f64,
    /// Jumps by which the receiver set its clock.
    pub jumps: u64,
}

impl Recovery {
    /// Returns the key of an invalid value, with the expected one.
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let frequency_fits = (0.001..=2.0).contains(&self.natural_frequency_hz);
        [
            (frequency_fits, "natural_frequency_hz", "0.001 to 2 Hz"),
            ((0.1..=10.0).contains(&self.damping), "damping", "0.1 to 10"),
            ((-1000.0..=1000.0).contains(&self.offset_ppm), "offset_ppm", "-1000 to 1000"),
            (!self.tolerance.is_zero(), "tolerance", "more than no time"),
            (
                frequency_fits && self.damping * self.natural_frequency_hz <= 2.0,
                "damping",
                "one that makes at most 2 Hz with `natural_frequency_hz`: references are up to 100 ms apart",
            ),
        ]
        .into_iter()
        .find_map(|(holds, key, expected)| (!holds).then_some((key, expected)))
    }

    /// Returns the settling time of the loop in seconds: four time constants of its decay.
    ///
    /// Of an overdamped loop the slower of both time constants counts.
    pub fn settling_s(&self) -> f64 {
        let (w, d) = (TAU * self.natural_frequency_hz, self.damping);
        let decay = if d <= 1.0 { d * w } else { w * (d - (d * d - 1.0).sqrt()) };
        4.0 / decay
    }

    /// Recovers a clock from references: time of arrival and value of each, in seconds.
    ///
    /// Sender and receiver of a simulation have the same time, so that the phase error of the local clock is known: its
    /// value less that of a clock which is late by the mean delay. `None` for fewer than two references.
    pub fn recover(&self, references: &[(f64, f64)]) -> Option<Recovered> {
        let (phases, jumps) = self.phases(references)?;
        let start = references[0].0;
        let tolerance_s = self.tolerance.as_secs_f64();
        let last_outside = phases.iter().rposition(|(_, phase)| phase.abs() > tolerance_s);
        let lock_s = match last_outside {
            None => Some(0.0),
            Some(last) => phases.get(last + 1).map(|(at, _)| at - start),
        };
        // A short stream is judged by its last half.
        let end = phases.last()?.0;
        let from = (start + self.settling_s()).min((start + end) / 2.0);
        let settled: Vec<f64> =
            phases.iter().filter(|(at, _)| *at >= from).map(|(_, phase)| *phase).collect();
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        let square = settled.iter().map(|phase| (phase - mean).powi(2)).sum::<f64>() / settled.len() as f64;
        let (low, high) = settled
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), phase| (low.min(*phase), high.max(*phase)));
        Some(Recovered { lock_s, jitter_s: square.sqrt(), peak_to_peak_s: high - low, jumps })
    }

    /// Returns phase errors of the local clock, and the number of jumps.
    ///
    /// There is one for each reference, with its time: the error before the loop acts on it.
    fn phases(&self, references: &[(f64, f64)]) -> Option<(Vec<(f64, f64)>, u64)> {
        if references.len() < 2 {
            return None;
        }
        let (w, d) = (TAU * self.natural_frequency_hz, self.damping);
        let (proportional, integral) = (2.0 * d * w, w * w);
        let offset = self.offset_ppm * 1e-6;
        // Values are kept as differences from the time of arrival, whose own size would cost digits.
        let late = |(at, value): (f64, f64)| value - at;
        let mean = references.iter().map(|reference| late(*reference)).sum::<f64>() / references.len() as f64;
        let (mut local, mut control, mut sum, mut jumps) = (late(references[0]), 0.0, 0.0, 0);
        let mut before = references[0].0;
        let mut phases = Vec::with_capacity(references.len());
        for &(at, value) in references {
            let step = at - before;
            local += (offset - control) * step;
            before = at;
            let mut error = local - late((at, value));
            if error.abs() > JUMP_S {
                (local, error) = (late((at, value)), 0.0);
                jumps += 1;
            }
            phases.push((at, local - mean));
            sum += integral * error * step;
            control = proportional * error + sum;
        }
        Some((phases, jumps))
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_units::RandomStream;

    use super::*;

    /// References every `step_s`, each late by the given function of time.
    fn references(count: usize, step_s: f64, late_s: impl FnMut(f64) -> f64) -> Vec<(f64, f64)> {
        let mut late_s = late_s;
        (0..count).map(|n| n as f64 * step_s).map(|at| (at + 0.25 + late_s(at), at)).collect()
    }

    fn recovery(natural_frequency_hz: f64, damping: f64) -> Recovery {
        Recovery { natural_frequency_hz, damping, ..Recovery::default() }
    }

    /// Phase of a second-order loop after a step of frequency, underdamped.
    fn step_response(w: f64, d: f64, offset: f64, at: f64) -> f64 {
        let damped = w * (1.0 - d * d).sqrt();
        offset / damped * (-d * w * at).exp() * (damped * at).sin()
    }

    #[test]
    fn a_frequency_offset_settles_by_the_closed_form() {
        for (frequency, damping) in [(0.1, 0.5), (0.1, FRAC_1_SQRT_2), (0.5, 0.9)] {
            let loop_of = Recovery { tolerance: Span::from_nanos(500), ..recovery(frequency, damping) };
            let all = references(40_000, 0.002, |_| 0.0);
            let (phases, jumps) = loop_of.phases(&all).expect("references");
            let w = TAU * frequency;
            let expected = |at: f64| step_response(w, damping, 30e-6, at);
            let peak = 30e-6 / w;
            for (at, phase) in &phases {
                let error = phase - expected(at - 0.25);
                assert!(error.abs() < 0.01 * peak, "{frequency} {damping} at {at}: {phase}, off by {error}");
            }
            let outside = (0..400_000).rev().map(|n| f64::from(n) * 0.0002);
            let last = outside.map(|at| (at, expected(at))).find(|(_, phase)| phase.abs() > 500e-9);
            let lock_s = loop_of.recover(&all).and_then(|found| found.lock_s).expect("locked");
            assert!((lock_s - last.expect("outside").0).abs() < 0.05 / frequency, "{lock_s}: {last:?}");
            assert_eq!(jumps, 0);
        }
    }

    #[test]
    fn sinusoidal_jitter_passes_by_the_transfer_function() {
        let (frequency, damping) = (0.2, FRAC_1_SQRT_2);
        let loop_of = Recovery { offset_ppm: 0.0, ..recovery(frequency, damping) };
        for of_natural in [0.2, 1.0, 3.0, 10.0] {
            let (w, x) = (TAU * frequency, TAU * frequency * of_natural);
            let all = references(100_000, 0.004, |at| 1e-4 * (x * at).sin());
            let found = loop_of.recover(&all).expect("references");
            let (re, im) = (w * w - x * x, 2.0 * damping * w * x);
            let gain = ((w * w).hypot(im) / re.hypot(im)) * 1e-4 / 2.0_f64.sqrt();
            let relative = found.jitter_s / gain - 1.0;
            assert!(relative.abs() < 0.03, "{of_natural}: {} for {gain}", found.jitter_s);
        }
    }

    #[test]
    fn independent_jitter_is_reduced_to_the_noise_bandwidth() {
        let mut stream = RandomStream::new(7, "jitter");
        for (frequency, damping, step_s) in [(0.1, FRAC_1_SQRT_2, 0.04), (0.5, 1.0, 0.01), (0.2, 0.5, 0.02)] {
            let loop_of = Recovery { offset_ppm: 0.0, ..recovery(frequency, damping) };
            let all = references(400_000, step_s, |_| 1e-3 * stream.unit());
            let found = loop_of.recover(&all).expect("references");
            let bandwidth = TAU * frequency / 2.0 * (damping + 1.0 / (4.0 * damping));
            let expected = 1e-3 / 12.0_f64.sqrt() * (2.0 * bandwidth * step_s).sqrt();
            assert!((found.jitter_s / expected - 1.0).abs() < 0.05, "{} for {expected}", found.jitter_s);
        }
    }

    #[test]
    fn jumps_set_the_clock_and_large_jitter_never_locks() {
        let mut all = references(4000, 0.04, |_| 0.0);
        all[2000..].iter_mut().for_each(|reference| reference.1 += 5.0);
        assert_eq!(recovery(0.5, 0.7).phases(&all).map(|(_, jumps)| jumps), Some(1));
        let mut stream = RandomStream::new(7, "jitter");
        let all = references(4000, 0.04, |_| 1e-2 * stream.unit());
        assert_eq!(
            recovery(0.5, 0.7).recover(&all).map(|found| found.lock_s.is_some_and(|s| s < 150.0)),
            Some(false)
        );
        assert_eq!(recovery(0.5, 0.7).recover(&all[..1]), None);
    }

    #[test]
    fn impossible_loops_are_named() {
        let key = |recovery: Recovery| recovery.problem().map(|(key, _)| key);
        assert_eq!(key(Recovery::default()), None);
        assert_eq!(key(recovery(3.0, 0.7)), Some("natural_frequency_hz"));
        assert_eq!(key(recovery(f64::NAN, 0.7)), Some("natural_frequency_hz"));
        assert_eq!(key(recovery(2.0, 5.0)), Some("damping"));
        assert_eq!(key(Recovery { offset_ppm: 1e9, ..Recovery::default() }), Some("offset_ppm"));
        assert_eq!(key(Recovery { tolerance: Span::ZERO, ..Recovery::default() }), Some("tolerance"));
    }
}
