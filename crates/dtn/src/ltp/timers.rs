//! Timers that stand still while a peer cannot be reached.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use bentpipe_units::{Span, Time};
use foldhash::quality::RandomState;

/// Timers by key; each belongs to a peer.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    due: BTreeSet<(Time, K)>,
    /// Peer and state of each timer.
    timers: HashMap<K, (u64, State), RandomState>,
    suspended: HashSet<u64, RandomState>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Running(Time),
    /// Time left while the peer cannot be reached.
    Suspended(Span),
}

impl<K: Copy + Ord + Hash> Timers<K> {
    pub(crate) fn new() -> Timers<K> {
        Timers { due: BTreeSet::new(), timers: HashMap::default(), suspended: HashSet::default() }
    }

    /// Starts a timer, or starts it again.
    pub(crate) fn start(&mut self, key: K, peer: u64, now: Time, after: Span) {
        self.stop(&key);
        let state = match self.suspended.contains(&peer) {
            true => State::Suspended(after),
            false => {
                self.due.insert((now + after, key));
                State::Running(now + after)
            }
        };
        self.timers.insert(key, (peer, state));
    }

    /// Stops a timer, if it runs.
    pub(crate) fn stop(&mut self, key: &K) {
        if let Some((_, State::Running(due))) = self.timers.remove(key) {
            self.due.remove(&(due, *key));
        }
    }

    /// Suspends the timers of a peer.
    pub(crate) fn suspend(&mut self, peer: u64, now: Time) {
        self.suspended.insert(peer);
        for (key, (of, state)) in &mut self.timers {
            if let (true, State::Running(due)) = (*of == peer, *state) {
                self.due.remove(&(due, *key));
                *state = State::Suspended(if due > now { due - now } else { Span::ZERO });
            }
        }
    }

    /// Resumes the timers of a peer with the time that each had left.
    pub(crate) fn resume(&mut self, peer: u64, now: Time) {
        self.suspended.remove(&peer);
        for (key, (of, state)) in &mut self.timers {
            if let (true, State::Suspended(left)) = (*of == peer, *state) {
                self.due.insert((now + left, *key));
                *state = State::Running(now + left);
            }
        }
    }

    /// Returns the instant of the next expiry.
    pub(crate) fn next(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(due, _)| *due)
    }

    /// Removes and returns a timer that has expired.
    pub(crate) fn pop(&mut self, now: Time) -> Option<K> {
        let (due, key) = *self.due.first()?;
        if due > now {
            return None;
        }
        self.stop(&key);
        Some(key)
    }
}
