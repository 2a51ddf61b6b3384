//! Actions on calls after a fixed time, which are thus due in order.

use std::collections::VecDeque;

use bentpipe_signalling::agent::CallId;
use bentpipe_units::Time;

/// Queue of calls by time.
#[derive(Debug, Default)]
pub(crate) struct Schedule(VecDeque<(Time, CallId)>);

impl Schedule {
    /// Adds a call. The time must not be before those added earlier.
    pub(crate) fn add(&mut self, at: Time, call: CallId) {
        self.0.push_back((at, call));
    }

    /// Returns the time of the first call.
    pub(crate) fn next(&self) -> Time {
        self.0.front().map_or(Time::NEVER, |(time, _)| *time)
    }

    /// Removes and returns a call whose time has come.
    pub(crate) fn due(&mut self, now: Time) -> Option<CallId> {
        if self.next() > now { None } else { self.0.pop_front().map(|(_, call)| call) }
    }
}
