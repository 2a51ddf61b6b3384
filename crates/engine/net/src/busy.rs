//! Time that a transmitter is busy, cut at the instant of a look.

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};

/// Time of transmissions that are decided when they begin, or before.
///
/// A look at any instant sees what lies before it: of a transmission that lasts on, its part. So the growth over an
/// interval is never longer than the interval, if no two transmissions overlap.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// Time of all, with that to come.
    sum: Span,
    /// Transmissions that may not have ended: begin, end, and the time of it that counts.
    last: VecDeque<(Time, Time, Span)>,
}

impl Busy {
    /// Returns the time up to `now` of a line on which one transmission follows another.
    ///
    /// `sum` is the time of all, and the last one ends at `free_at`. The line needs no list: what is to come is its last part.
    #[inline]
    pub fn of_line(sum: Span, free_at: Time, now: Time) -> Span {
        sum.saturating_sub(free_at.since(now))
    }

    /// Adds a transmission from `begin` to `end`, which is decided at `now`.
    pub fn add(&mut self, now: Time, [begin, end]: [Time; 2]) {
        self.add_share(now, [begin, end], end.since(begin));
    }

    /// Adds a share of a transmission from `begin` to `end`.
    ///
    /// The share is spread over it evenly. No later look is at an instant before `now`.
    pub fn add_share(&mut self, now: Time, [begin, end]: [Time; 2], share: Span) {
        self.sum += share;
        while self.last.front().is_some_and(|(_, before, _)| *before <= now) {
            self.last.pop_front();
        }
        let is_whole = share == end.since(begin);
        match self.last.back_mut() {
            // Slots in a row are one transmission.
            Some((from, until, time)) if is_whole && *until == begin && *time == until.since(*from) => {
                (*until, *time) = (end, *time + share);
            }
            _ => self.last.push_back((begin, end, share)),
        }
    }

    /// Returns the time up to `now`.
    pub fn until(&self, now: Time) -> Span {
        let to_come = self.last.iter().map(|(begin, end, share)| {
            let (len, rest) = (end.since(*begin).as_nanos(), end.since(now).as_nanos());
            match rest < len {
                true => u128::from(share.as_nanos()) * u128::from(rest) / u128::from(len.max(1)),
                false => u128::from(share.as_nanos()),
            }
        });
        Span::from_nanos(self.sum.as_nanos() - to_come.sum::<u128>() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_look_within_a_transmission_sees_its_part() {
        let mut busy = Busy::default();
        busy.add(at(0), [at(10), at(30)]);
        let seen = [0, 10, 15, 30, 99].map(|now| busy.until(at(now)).as_nanos() / 1_000_000);
        assert_eq!(seen, [0, 0, 5, 20, 20]);
        busy.add_share(at(40), [at(40), at(60)], Span::from_millis(5));
        assert_eq!(busy.until(at(44)), Span::from_millis(21));
    }

    proptest! {
        /// Slots that are decided in groups, some of them empty: no interval has more of them than it lasts.
        #[test]
        fn no_interval_is_busier_than_it_lasts(
            slots in proptest::collection::vec(any::<bool>(), 1..200), group in 1..50_u64, looks in proptest::collection::vec(0..1000_u64, 2..20),
        ) {
            let (mut busy, mut looks) = (Busy::default(), looks);
            looks.sort_unstable();
            let (mut next, mut before) = (0, (0, Span::ZERO));
            for now in looks {
                // All slots of a group are decided at its beginning.
                while next < slots.len() as u64 && next / group * group * 5 <= now {
                    if slots[next as usize] {
                        let opens = at(next / group * group * 5);
                        busy.add(opens, [at(next * 5), at(next * 5 + 5)]);
                    }
                    next += 1;
                }
                let seen = busy.until(at(now));
                let exact: u64 = (0..now).filter(|ms| slots.get((ms / 5) as usize) == Some(&true)).count() as u64;
                prop_assert_eq!(seen, Span::from_millis(exact));
                prop_assert!(seen - before.1 <= Span::from_millis(now - before.0));
                before = (now, seen);
            }
        }
    }
}
