//! Timers that stand still while a peer cannot be reached.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use bentpipe_units::{Span, Time};
use foldhash::quality::RandomState;

/// Number of stopped timers that may be in the queue before it is packed.
const SLACK: usize = 64;

/// Timers by key; each belongs to a peer. They expire in the order of their times, and of their keys at one time.
///
/// A peer's timers start and stop in nearly one order, as each waits for a round trip. So most of them are in a queue,
/// at whose ends all is done; the others are in a sorted set.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    /// Timers in the order of their expiry, with gaps where some were stopped. The first one runs.
    queue: VecDeque<Option<(Time, K)>>,
    /// Place in the queue of its first element, counted since the start.
    first: u64,
    /// Number of timers in the queue that run.
    queued: usize,
    /// Last timer that was added to the queue.
    last: Option<(Time, K)>,
    /// Timers that expire before that one.
    others: BTreeSet<(Time, K)>,
    /// Peer and state of each timer.
    timers: HashMap<K, (u64, State), RandomState>,
    suspended: HashSet<u64, RandomState>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Place in the queue, counted since the start.
    Queued(u64),
    /// Expiry of one among the others.
    Apart(Time),
    /// Time left while the peer cannot be reached.
    Suspended(Span),
}

impl<K: Copy + Ord + Hash> Timers<K> {
    pub(crate) fn new() -> Timers<K> {
        Timers {
            queue: VecDeque::new(),
            first: 0,
            queued: 0,
            last: None,
            others: BTreeSet::new(),
            timers: HashMap::default(),
            suspended: HashSet::default(),
        }
    }

    /// Starts a timer, or starts it again.
    pub(crate) fn start(&mut self, key: K, peer: u64, now: Time, after: Span) {
        let state = match self.suspended.contains(&peer) {
            true => State::Suspended(after),
            false => self.schedule(now + after, key),
        };
        match (self.timers.insert(key, (peer, state)), state) {
            // It was there already.
            (Some((_, State::Apart(before))), State::Apart(due)) if before == due => {}
            (Some((_, before)), _) => {
                self.take(&key, before);
            }
            (None, _) => {}
        }
    }

    /// Stops a timer, if it runs.
    pub(crate) fn stop(&mut self, key: &K) {
        if let Some((_, state)) = self.timers.remove(key) {
            self.take(key, state);
        }
    }

    /// Adds a timer to the queue or the others, and returns where it is.
    fn schedule(&mut self, due: Time, key: K) -> State {
        if self.last.is_some_and(|last| (due, key) < last) {
            self.others.insert((due, key));
            return State::Apart(due);
        }
        self.last = Some((due, key));
        self.queue.push_back(Some((due, key)));
        self.queued += 1;
        State::Queued(self.first + self.queue.len() as u64 - 1)
    }

    /// Removes a timer from where it is, and returns its expiry if it runs.
    fn take(&mut self, key: &K, state: State) -> Option<Time> {
        match state {
            State::Suspended(_) => None,
            State::Apart(due) => {
                self.others.remove(&(due, *key));
                Some(due)
            }
            State::Queued(place) => {
                let (due, _) = self.queue.get_mut((place - self.first) as usize)?.take()?;
                self.queued -= 1;
                while matches!(self.queue.front(), Some(None)) {
                    self.queue.pop_front();
                    self.first += 1;
                }
                if self.queue.is_empty() {
                    self.last = None;
                } else if self.queue.len() > 2 * self.queued + SLACK {
                    self.pack();
                }
                Some(due)
            }
        }
    }

    /// Removes the empty places of the queue.
    fn pack(&mut self) {
        self.queue.retain(Option::is_some);
        for (place, (_, key)) in (self.first..).zip(self.queue.iter().flatten()) {
            if let Some((_, state)) = self.timers.get_mut(key) {
                *state = State::Queued(place);
            }
        }
    }

    /// Suspends the timers of a peer.
    pub(crate) fn suspend(&mut self, peer: u64, now: Time) {
        self.suspended.insert(peer);
        let running = |(key, (of, state)): (&K, &(u64, State))| {
            (*of == peer && !matches!(state, State::Suspended(_))).then_some(*key)
        };
        for key in self.timers.iter().filter_map(running).collect::<Vec<_>>() {
            // Its place may have changed, as the queue is packed.
            let Some((_, state)) = self.timers.get(&key).copied() else { continue };
            let left = self.take(&key, state).map_or(Span::ZERO, |due| due.since(now));
            self.timers.insert(key, (peer, State::Suspended(left)));
        }
    }

    /// Resumes the timers of a peer with the time that each had left.
    pub(crate) fn resume(&mut self, peer: u64, now: Time) {
        self.suspended.remove(&peer);
        let left = |(key, (of, state)): (&K, &(u64, State))| match state {
            State::Suspended(left) if *of == peer => Some((now + *left, *key)),
            _ => None,
        };
        let mut due: Vec<(Time, K)> = self.timers.iter().filter_map(left).collect();
        due.sort_unstable();
        for (due, key) in due {
            let state = self.schedule(due, key);
            self.timers.insert(key, (peer, state));
        }
    }

    /// Returns the instant of the next expiry.
    pub(crate) fn next(&self) -> Time {
        self.first().map_or(Time::NEVER, |(due, _)| due)
    }

    /// Returns the timer that expires first.
    fn first(&self) -> Option<(Time, K)> {
        let queued = self.queue.front().copied().flatten();
        queued.into_iter().chain(self.others.first().copied()).min()
    }

    /// Removes and returns a timer that has expired.
    pub(crate) fn pop(&mut self, now: Time) -> Option<K> {
        let (due, key) = self.first()?;
        if due > now {
            return None;
        }
        self.stop(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Call of a timer's method.
    #[derive(Clone, Debug)]
    enum Call {
        Start(u8, u64),
        Stop(u8),
        Suspend(u64),
        Resume(u64),
        Pass(u64),
    }

    fn call() -> impl Strategy<Value = Call> {
        // Keys that leave a remainder of 0 belong to one peer, and their timers are long.
        prop_oneof![
            6 => (0u8..40, 0u64..3).prop_map(|(key, more)| Call::Start(key, more)),
            4 => (0u8..40).prop_map(Call::Stop),
            1 => (0u64..2).prop_map(Call::Suspend),
            1 => (0u64..2).prop_map(Call::Resume),
            3 => (0u64..30).prop_map(Call::Pass),
        ]
    }

    proptest! {
        #[test]
        fn timers_expire_as_those_of_a_sorted_list(calls in proptest::collection::vec(call(), 0..400)) {
            let mut timers = Timers::new();
            // Expiry or time left of each timer, by its key.
            let mut running: HashMap<u8, Result<Time, Span>> = HashMap::new();
            let (mut suspended, mut now) = ([false; 2], Time::ZERO);
            let peer = |key: u8| u64::from(key % 2);
            for call in calls {
                match call {
                    Call::Start(key, more) => {
                        let after = Span::from_secs(if peer(key) == 0 { 50 } else { 5 } + more);
                        timers.start(key, peer(key), now, after);
                        let state = if suspended[peer(key) as usize] { Err(after) } else { Ok(now + after) };
                        running.insert(key, state);
                    }
                    Call::Stop(key) => {
                        timers.stop(&key);
                        running.remove(&key);
                    }
                    Call::Suspend(of) => {
                        timers.suspend(of, now);
                        suspended[of as usize] = true;
                        for (_, state) in running.iter_mut().filter(|(key, _)| peer(**key) == of) {
                            *state = state.map_or_else(Err, |due| Err(due.since(now)));
                        }
                    }
                    Call::Resume(of) => {
                        timers.resume(of, now);
                        suspended[of as usize] = false;
                        for (_, state) in running.iter_mut().filter(|(key, _)| peer(**key) == of) {
                            *state = state.map_or_else(|left| Ok(now + left), Ok);
                        }
                    }
                    Call::Pass(seconds) => now += Span::from_secs(seconds),
                }
                loop {
                    let due = running.iter().filter_map(|(key, state)| Some((state.ok()?, *key))).min();
                    prop_assert_eq!(timers.next(), due.map_or(Time::NEVER, |(due, _)| due));
                    let expired = due.filter(|(due, _)| *due <= now).map(|(_, key)| key);
                    prop_assert_eq!(timers.pop(now), expired);
                    match expired {
                        Some(key) => running.remove(&key),
                        None => break,
                    };
                }
                prop_assert!(timers.queue.len() <= 2 * timers.queued + SLACK);
            }
        }
    }
}
