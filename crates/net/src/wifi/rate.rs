//! Rate adaptation: which rate the next frame is sent at.

/// How a sender chooses its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Adaptation {
    /// The rate stays.
    #[default]
    None,
    /// Automatic rate fallback (Kamerman and Monteban 1997): up after some successes in a row or some frames, down after
    /// two failures in a row, or after one if it is of the first frame at a new rate.
    Arf(Steps),
    /// ARF that waits twice as long after each probe that failed (Lacage, Manshaei and Turletti 2004).
    Aarf(Steps),
    /// ARF that does not count collisions (Pang, Leung and Liew 2005). The receiver answers a frame whose header it understood
    /// and whose body it did not with a NAK in the ACK's place; with RTS a CTS without an ACK tells as much.
    LdArf(Steps),
}

/// When ARF tries a higher rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Steps {
    /// After so many successes in a row.
    #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 10000)))]
    pub successes: u32,
    /// After so many frames since the rate last changed or two failures in a row, whatever became of them.
    #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 10000)))]
    pub frames: u32,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { successes: 10, frames: 15 }
    }
}

/// AARF's highest number of successes before a probe.
const MOST_SUCCESSES: u32 = 50;

/// What became of a frame, as far as its sender can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Acked,
    /// By a NAK, or by a CTS without an ACK: the channel was to blame.
    LinkError,
    /// Nothing came back.
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
    /// How many successes AARF asks for.
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

    /// Whether it tells errors of the link from collisions.
    pub(super) fn asks_for_nak(&self) -> bool {
        matches!(self.adaptation, Adaptation::LdArf(_))
    }

    pub(super) fn sent(&mut self, told: Told) {
        let Some(steps) = self.adaptation.steps() else { return };
        match told {
            Told::Silence if self.asks_for_nak() => {}
            Told::Acked => self.succeeded(steps),
            Told::LinkError | Told::Silence => self.failed(steps),
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
    /// The frames before a probe; AARF's grow with its successes.
    fn frames(self, control: &RateControl) -> u32 {
        self.frames.saturating_mul(control.threshold) / self.successes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Told::{Acked, LinkError, Silence};
    use super::*;

    /// The rates after each of these, from the second of four on.
    fn rates(adaptation: Adaptation, told: &[(Told, usize)]) -> Vec<usize> {
        let mut control = RateControl::new(adaptation, 1, 4);
        let step = |&(told, times): &(Told, usize)| {
            (0..times).for_each(|_| control.sent(told));
            control.rate
        };
        told.iter().map(step).collect()
    }

    #[test]
    fn arf_rises_after_ten_and_falls_after_two_or_a_failed_probe() {
        let arf = Adaptation::Arf(Steps::default());
        let told = [(Acked, 9), (Acked, 1), (Silence, 1), (Silence, 1), (Silence, 1), (Silence, 4)];
        assert_eq!(rates(arf, &told), [1, 2, 1, 1, 0, 0]);
        // One success in between, and two failures are not in a row.
        assert_eq!(rates(arf, &[(Silence, 1), (Acked, 1), (Silence, 1)]), [1, 1, 1]);
        // A probe that succeeds is none any more.
        assert_eq!(rates(arf, &[(Acked, 11), (Silence, 1), (Silence, 1)]), [2, 2, 1]);
        // Fifteen frames without two failures in a row are enough.
        assert_eq!(rates(arf, &[(Acked, 9), (Silence, 1), (Acked, 4), (Acked, 1)]), [1, 1, 1, 2]);
    }

    #[test]
    fn aarf_waits_longer_after_each_failed_probe() {
        let aarf = Adaptation::Aarf(Steps::default());
        let told =
            [(Acked, 10), (Silence, 1), (Acked, 19), (Acked, 1), (Silence, 1), (Acked, 39), (Acked, 1)];
        assert_eq!(rates(aarf, &told), [2, 1, 1, 2, 1, 1, 2]);
        let told = [(Acked, 10), (Silence, 1), (Silence, 2), (Acked, 10)];
        assert_eq!(rates(aarf, &told), [2, 1, 0, 1]);
    }

    #[test]
    fn ld_arf_falls_on_link_errors_only() {
        let ld_arf = Adaptation::LdArf(Steps::default());
        assert_eq!(rates(ld_arf, &[(Silence, 50), (LinkError, 2)]), [1, 0]);
        assert_eq!(rates(Adaptation::None, &[(Silence, 50), (Acked, 50)]), [1, 1]);
    }
}
