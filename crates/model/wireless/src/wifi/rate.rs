//! Rate adaptation: which rate the next frame is sent at.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rate adaptation of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Adaptation {
    /// The rate stays.
    #[default]
    None,
    /// Automatic rate fallback (Kamerman and Monteban 1997).
    ///
    /// The rate rises after a number of successes in a row, or of frames. It falls after two failures in a
    /// row, or after one of the first frame at a new rate.
    Arf(Steps),
    /// ARF with doubled thresholds after each failed probe (Lacage, Manshaei and Turletti 2004).
    Aarf(Steps),
    /// ARF that ignores collisions (Pang, Leung and Liew 2005). The receiver answers a frame with a correct
    /// header and a corrupted body with a NAK in place of the ACK; with RTS, a CTS without an ACK has the
    /// same meaning.
    LdArf(Steps),
}

/// Thresholds at which ARF probes a higher rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Steps {
    /// Number of successes in a row.
    #[schemars(range(min = 1, max = 10000))]
    pub successes: u32,
    /// Number of frames since the rate last changed, or since two failures in a row.
    #[schemars(range(min = 1, max = 10000))]
    pub frames: u32,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { successes: 10, frames: 15 }
    }
}

/// AARF's highest number of successes before a probe.
const MOST_SUCCESSES: u32 = 50;

/// Result of a transmission as seen by its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TxResult {
    Acked,
    /// Channel error, shown by a NAK, or by a CTS without an ACK.
    LinkError,
    /// No answer.
    Silence,
}

/// The choice of a rate towards one receiver, as an index from the lowest rate.
#[derive(Debug)]
pub(super) struct RateControl {
    adaptation: Adaptation,
    pub(super) rate: usize,
    rates: usize,
    successes: u32,
    failures: u32,
    /// Since the rate changed.
    frames: u32,
    /// Number of successes that AARF requires.
    threshold: u32,
    /// No frame was sent at this rate yet.
    is_probe: bool,
}

impl RateControl {
    pub(super) fn new(adaptation: Adaptation, rate: usize, rates: usize) -> RateControl {
        let threshold = adaptation.steps().map_or(0, |steps| steps.successes);
        RateControl {
            adaptation,
            rate,
            rates,
            successes: 0,
            failures: 0,
            frames: 0,
            threshold,
            is_probe: false,
        }
    }

    /// Returns `true` if channel errors are distinguished from collisions.
    pub(super) fn asks_for_nak(&self) -> bool {
        matches!(self.adaptation, Adaptation::LdArf(_))
    }

    pub(super) fn sent(&mut self, result: TxResult) {
        let Some(steps) = self.adaptation.steps() else { return };
        match result {
            TxResult::Silence if self.asks_for_nak() => {}
            TxResult::Acked => self.succeeded(steps),
            TxResult::LinkError | TxResult::Silence => self.failed(steps),
        }
    }

    fn succeeded(&mut self, steps: Steps) {
        (self.failures, self.is_probe) = (0, false);
        self.successes += 1;
        self.frames += 1;
        if self.rate + 1 < self.rates
            && (self.successes >= self.threshold || self.frames >= steps.frames(self))
        {
            self.change(self.rate + 1);
            self.is_probe = true;
        }
    }

    fn failed(&mut self, steps: Steps) {
        self.successes = 0;
        self.failures += 1;
        self.frames += 1;
        let doubles = matches!(self.adaptation, Adaptation::Aarf(_));
        if self.is_probe {
            if doubles {
                self.threshold = (self.threshold * 2).min(MOST_SUCCESSES.max(steps.successes));
            }
            self.change(self.rate.saturating_sub(1));
        } else if self.failures == 2 {
            self.threshold = steps.successes;
            self.change(self.rate.saturating_sub(1));
        }
    }

    /// Sets the rate; adaptation begins again there.
    pub(super) fn set(&mut self, rate: usize) {
        self.threshold = self.adaptation.steps().map_or(0, |steps| steps.successes);
        self.change(rate);
    }

    fn change(&mut self, rate: usize) {
        self.rate = rate;
        (self.successes, self.failures, self.frames, self.is_probe) = (0, 0, 0, false);
    }
}

impl Adaptation {
    fn steps(self) -> Option<Steps> {
        match self {
            Adaptation::None => None,
            Adaptation::Arf(steps) | Adaptation::Aarf(steps) | Adaptation::LdArf(steps) => Some(steps),
        }
    }
}

impl Steps {
    /// Returns the number of frames before a probe; AARF's grow with its successes.
    fn frames(self, control: &RateControl) -> u32 {
        self.frames.saturating_mul(control.threshold) / self.successes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::TxResult::{Acked, LinkError, Silence};
    use super::*;

    /// Returns the rates after each of these results, starting at the second of four.
    fn rates(adaptation: Adaptation, result: &[(TxResult, usize)]) -> Vec<usize> {
        let mut control = RateControl::new(adaptation, 1, 4);
        let step = |&(result, times): &(TxResult, usize)| {
            (0..times).for_each(|_| control.sent(result));
            control.rate
        };
        result.iter().map(step).collect()
    }

    #[test]
    fn arf_rises_after_ten_and_falls_after_two_or_a_failed_probe() {
        let arf = Adaptation::Arf(Steps::default());
        let result = [(Acked, 9), (Acked, 1), (Silence, 1), (Silence, 1), (Silence, 1), (Silence, 4)];
        assert_eq!(rates(arf, &result), [1, 2, 1, 1, 0, 0]);
        // One success in between, and two failures are not in a row.
        assert_eq!(rates(arf, &[(Silence, 1), (Acked, 1), (Silence, 1)]), [1, 1, 1]);
        // A successful probe ends.
        assert_eq!(rates(arf, &[(Acked, 11), (Silence, 1), (Silence, 1)]), [2, 2, 1]);
        // Fifteen frames without two failures in a row are enough.
        assert_eq!(rates(arf, &[(Acked, 9), (Silence, 1), (Acked, 4), (Acked, 1)]), [1, 1, 1, 2]);
    }

    #[test]
    fn aarf_waits_longer_after_each_failed_probe() {
        let aarf = Adaptation::Aarf(Steps::default());
        let result =
            [(Acked, 10), (Silence, 1), (Acked, 19), (Acked, 1), (Silence, 1), (Acked, 39), (Acked, 1)];
        assert_eq!(rates(aarf, &result), [2, 1, 1, 2, 1, 1, 2]);
        let result = [(Acked, 10), (Silence, 1), (Silence, 2), (Acked, 10)];
        assert_eq!(rates(aarf, &result), [2, 1, 0, 1]);
    }

    #[test]
    fn ld_arf_falls_on_link_errors_only() {
        let ld_arf = Adaptation::LdArf(Steps::default());
        assert_eq!(rates(ld_arf, &[(Silence, 50), (LinkError, 2)]), [1, 0]);
        assert_eq!(rates(Adaptation::None, &[(Silence, 50), (Acked, 50)]), [1, 1]);
    }
}
