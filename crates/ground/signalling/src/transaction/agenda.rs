//! Deadlines of many timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bentpipe_units::Time;

/// Queue of deadlines, earliest first. A deadline that changed stays in it and is skipped later.
#[derive(Debug)]
pub(crate) struct Agenda<K>(BinaryHeap<Reverse<(Time, K)>>);

impl<K: Ord + Copy> Agenda<K> {
    /// Creates an empty queue.
    pub(crate) fn new() -> Agenda<K> {
        Agenda(BinaryHeap::new())
    }

    /// Adds a deadline; `NEVER` is none.
    pub(crate) fn add(&mut self, at: Time, key: K) {
        if !at.is_never() {
            self.0.push(Reverse((at, key)));
        }
    }

    /// Returns the earliest deadline that is still the one of its key.
    pub(crate) fn next(&mut self, of: impl Fn(K) -> Option<Time>) -> Time {
        while let Some(&Reverse((at, key))) = self.0.peek() {
            if of(key) == Some(at) {
                return at;
            }
            self.0.pop();
        }
        Time::NEVER
    }

    /// Removes and returns a key whose deadline has come.
    pub(crate) fn due(&mut self, now: Time, of: impl Fn(K) -> Option<Time>) -> Option<K> {
        let is_due = self.next(of) <= now && !self.0.is_empty();
        is_due.then(|| self.0.pop().map(|Reverse((_, key))| key))?
    }
}
