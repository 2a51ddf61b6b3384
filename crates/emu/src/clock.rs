//! Clocks of the driver.

use std::time::{Duration, Instant};

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
pub struct Monotonic(Instant);

impl Monotonic {
    /// A clock that is at zero now.
    pub fn start() -> Monotonic {
        Monotonic(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
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
