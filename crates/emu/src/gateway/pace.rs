//! When TS packets leave: a grid of slots that starts once and goes on at the carrier's rate, whenever anybody looks at it.

use bentpipe_units::{Rate, Span, Time};

const NANOS_PER_S: u128 = 1_000_000_000;

/// A program that was stopped for longer than this does not send afterwards what it missed: the far end could not take it.
const LONGEST_CATCH_UP: Span = Span::from_millis(250);

/// The slots of a carrier: slot `k` ends `k + 1` times its bits after the start, without rounding that adds up. So a timer
/// that fires late makes a burst later, and never the rate lower.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    rate: Rate,
    slot_bits: u128,
    start: Time,
    taken: u64,
    skipped: u64,
}

impl Pace {
    /// Slots of `slot_len` bytes at `rate`, the first of which begins at `start`.
    ///
    /// # Panics
    /// If the rate or the length is 0.
    pub(super) fn new(rate: Rate, slot_len: usize, start: Time) -> Pace {
        assert!(rate.as_bps() > 0 && slot_len > 0, "a carrier has a rate");
        Pace { rate, slot_bits: 8 * slot_len as u128, start, taken: 0, skipped: 0 }
    }

    /// The carrier's rate.
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// How many slots are over and were not taken yet. What is more than a quarter of a second late is skipped.
    pub(super) fn due(&mut self, now: Time) -> u64 {
        let over = self.slots_in(now.since(self.start));
        let most = self.slots_in(LONGEST_CATCH_UP).max(1);
        let due = over.saturating_sub(self.taken);
        if due > most {
            self.skipped += due - most;
            self.taken = over - most;
        }
        due.min(most)
    }

    /// Takes `count` slots.
    pub(super) fn take(&mut self, count: u64) {
        self.taken += count;
    }

    /// When `count` slots that were not taken yet will be over.
    pub(super) fn when(&self, count: u64) -> Time {
        let bits = u128::from(self.taken + count) * self.slot_bits;
        let nanos = (bits * NANOS_PER_S).div_ceil(u128::from(self.rate.as_bps()));
        self.start + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Slots that were never used, because the program was stopped for too long.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    fn slots_in(&self, span: Span) -> u64 {
        let slots =
            u128::from(span.as_nanos()) * u128::from(self.rate.as_bps()) / (self.slot_bits * NANOS_PER_S);
        u64::try_from(slots).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate::from_bps(8_000_000);

    #[test]
    fn a_slot_is_over_when_its_last_bit_is_sent() {
        let mut pace = Pace::new(RATE, 188, Time::from_nanos(500));
        assert_eq!(pace.when(1), Time::from_nanos(188_500));
        assert_eq!((pace.due(Time::from_nanos(188_499)), pace.due(Time::from_nanos(188_500))), (0, 1));
        pace.take(1);
        assert_eq!(
            (pace.due(Time::from_nanos(188_500)), pace.when(6)),
            (0, Time::from_nanos(7 * 188_000 + 500))
        );
    }

    #[test]
    fn what_was_slept_through_is_skipped() {
        let mut pace = Pace::new(RATE, 188, Time::ZERO);
        let hour = Time::from_nanos(3_600_000_000_000);
        let due = pace.due(hour);
        assert_eq!(due, 1329, "a quarter of a second at 188 us");
        pace.take(due);
        assert_eq!((pace.due(hour), pace.skipped()), (0, 19_148_936 - 1329));
    }

    proptest! {
        /// However late it is looked at, as long as that is under the limit, every slot is used: the mean rate is exact.
        #[test]
        fn lateness_does_not_change_the_rate(
            bps in 1_000_000u64..2_000_000_000,
            lateness_us in proptest::collection::vec(0u64..100_000, 1..200),
        ) {
            let mut pace = Pace::new(Rate::from_bps(bps), 188, Time::ZERO);
            let (mut now, mut sent) = (Time::ZERO, 0);
            for late in lateness_us {
                now = pace.when(7) + Span::from_micros(late);
                let due = pace.due(now) / 7 * 7;
                pace.take(due);
                sent += due;
            }
            let exact = u128::from(now.as_nanos()) * u128::from(bps) / (1504 * 1_000_000_000);
            prop_assert_eq!(pace.skipped(), 0);
            prop_assert!(exact - u128::from(sent) < 7, "{} of {}", sent, exact);
        }
    }
}
