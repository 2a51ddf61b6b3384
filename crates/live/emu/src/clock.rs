//! Clocks of the driver.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bentpipe_units::{Span, Time};

/// A clock that starts at zero.
pub trait Clock {
    /// The present instant.
    fn now(&self) -> Time;

    /// Waits until `deadline`, where there is no file descriptor to wait for.
    fn pass_until(&self, deadline: Time);
}

/// The machine's monotonic clock, which no clock step moves.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    start: Instant,
    /// Frequency error that tests make, in parts per million.
    drift_ppm: f64,
}

impl Monotonic {
    /// A clock that is at zero now.
    pub fn start() -> Monotonic {
        Monotonic::from_instant(Instant::now())
    }

    /// Creates a clock that is at zero until `start`.
    pub const fn from_instant(start: Instant) -> Monotonic {
        Monotonic { start, drift_ppm: 0.0 }
    }

    /// Returns the wall-clock time at which it is at zero, since 1970.
    ///
    /// A later step of the system's clock does not move it.
    pub fn date(&self) -> Span {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Instant::now();
        let date = match now.checked_duration_since(self.start) {
            Some(over) => since.saturating_sub(over),
            None => since + (self.start - now),
        };
        Span::from_nanos(u64::try_from(date.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the clock with a frequency error, for tests.
    pub(crate) const fn skewed(self, drift_ppm: f64) -> Monotonic {
        Monotonic { drift_ppm, ..self }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Time {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.drift_ppm == 0.0 {
            return Time::from_nanos(nanos);
        }
        Time::from_nanos(nanos.saturating_add_signed((nanos as f64 * self.drift_ppm * 1e-6) as i64))
    }

    fn pass_until(&self, deadline: Time) {
        std::thread::sleep(Duration::from_nanos((deadline - self.now()).as_nanos()));
    }
}

/// Clock that jumps to every deadline it is asked to wait for. Each reading costs a fixed time, so what a driver does
/// on it can be compared with a simulation.
#[derive(Debug)]
pub struct FakeClock {
    now: std::cell::Cell<Time>,
    reading: Span,
}

impl FakeClock {
    /// A clock at zero; each reading advances it by `reading`.
    pub const fn new(reading: Span) -> FakeClock {
        FakeClock { now: std::cell::Cell::new(Time::ZERO), reading }
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Time {
        self.now.set(self.now.get() + self.reading);
        self.now.get()
    }

    fn pass_until(&self, deadline: Time) {
        self.now.set(self.now.get().max(deadline));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_the_date_of_its_zero() {
        let (now, since) =
            (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970"));
        for (start, expected) in [
            (now.checked_sub(Duration::from_secs(5)).expect("up for 5 s"), since - Duration::from_secs(5)),
            (now + Duration::from_secs(5), since + Duration::from_secs(5)),
        ] {
            let date = Monotonic::from_instant(start).date().as_secs_f64();
            assert!((date - expected.as_secs_f64()).abs() < 1.0, "{date} for {expected:?}");
        }
    }
}
