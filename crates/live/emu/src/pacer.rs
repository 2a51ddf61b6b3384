//! Doing things at their times.

use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_units::{Span, Time};

use crate::realtime::set_min_timer_slack;
use crate::{Clock, Lateness};

/// The longest sleep, so that a stop is seen.
const LONGEST_SLEEP: Span = Span::from_millis(20);

/// Waits for instants of a clock. What is paced by it never drifts: each instant is given, none is counted from when the
/// one before was met. How late things were is a recorded figure.
#[derive(Debug)]
pub struct Pacer<C> {
    clock: C,
    spin: Span,
    lateness: Lateness,
}

impl<C: Clock> Pacer<C> {
    /// Paces the calling thread by `clock`. The last `spin` before an instant it looks at the clock instead of sleeping:
    /// the kernel wakes a sleeper some tens of microseconds late, and spinning costs as much processor time.
    pub fn new(clock: C, spin: Span) -> Pacer<C> {
        set_min_timer_slack();
        Pacer { clock, spin, lateness: Lateness::default() }
    }

    /// The clock's present instant.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Waits until `due` and returns the time then, or `None` if `stop` was set.
    pub fn wait(&self, due: Time, stop: &AtomicBool) -> Option<Time> {
        loop {
            let now = self.clock.now();
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if now >= due {
                return Some(now);
            }
            let left = due - now;
            if left > self.spin {
                self.clock.pass_until(now + (left - self.spin).min(LONGEST_SLEEP));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Notes that what was due at `due` was done at `done`.
    pub fn record(&mut self, due: Time, done: Time) {
        self.lateness.record(done - due);
    }

    /// Returns the lateness until now.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FakeClock;

    #[test]
    fn instants_are_met_and_do_not_drift() {
        let stop = AtomicBool::new(false);
        let mut pacer = Pacer::new(FakeClock::new(Span::from_nanos(70)), Span::from_micros(1));
        for number in 1..=1000 {
            let due = Time::from_nanos(number * 33_333_333);
            let now = pacer.wait(due, &stop).expect("nobody stops it");
            assert!(now >= due && now - due <= Span::from_nanos(70), "{due:?} {now:?}");
            pacer.record(due, now);
        }
        assert_eq!(pacer.lateness().count(), 1000);
        assert!(pacer.lateness().max() <= Span::from_nanos(70));
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let pacer = Pacer::new(FakeClock::new(Span::from_nanos(1)), Span::ZERO);
        assert_eq!(pacer.wait(Time::NEVER, &AtomicBool::new(true)), None);
    }
}
