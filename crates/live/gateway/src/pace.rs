//! Slots of a carrier at a constant rate.

use bentpipe_units::{Rate, Span, Time};

const NANOS_PER_S: u128 = 1_000_000_000;

/// Maximum time that is made up for after a stop. The far end could not take more.
const LONGEST_CATCH_UP: Span = Span::from_millis(250);

/// Slots of a carrier, which do not drift.
///
/// Slot `k` ends `k + 1` times its bits after the start. A timer that fires late delays a burst and does not lower the rate.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
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
    pub(crate) fn new(rate: Rate, slot_len: usize, start: Time) -> Pace {
        assert!(rate.as_bps() > 0 && slot_len > 0, "a carrier has a rate");
        Pace { rate, slot_bits: 8 * slot_len as u128, start, taken: 0, skipped: 0 }
    }

    /// Returns the rate of the carrier.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the number of slots that are over and were not taken yet.
    ///
    /// Slots more than a quarter of a second late are skipped.
    pub(crate) fn due(&mut self, now: Time) -> u64 {
        let over = self.slots_in(now.since(self.start));
        let most = self.slots_in(LONGEST_CATCH_UP).max(1);
        let due = over.saturating_sub(self.taken);
        if due > most {
            self.skipped += due - most;
            self.taken = over - most;
        }
        due.min(most)
    }

    /// Returns the number of slots over at `time` and not taken yet, however late.
    pub(crate) fn over(&self, time: Time) -> u64 {
        self.slots_in(time.since(self.start)).saturating_sub(self.taken)
    }

    /// Marks `count` slots as taken.
    pub(crate) fn take(&mut self, count: u64) {
        self.taken += count;
    }

    /// Returns the time when `count` slots more will be over.
    pub(crate) fn when(&self, count: u64) -> Time {
        let bits = u128::from(self.taken + count) * self.slot_bits;
        let nanos = (bits * NANOS_PER_S).div_ceil(u128::from(self.rate.as_bps()));
        self.start + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the number of slots lost because the program was stopped.
    pub(crate) fn skipped(&self) -> u64 {
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
