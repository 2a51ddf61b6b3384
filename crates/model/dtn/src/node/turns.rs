//! Bundles that wait for a neighbour: those of known senders first, then guests in turns.
//!
//! Guests have the link by start-time fair queueing (Goyal, Vin and Cheng, 1996): the next bundle is of the one whose turn began first, and a
//! turn is as long as the bundle. So a guest with one bundle waits for one of each other guest, not for all that one of them has.

use std::collections::{BTreeSet, HashMap, VecDeque};

use foldhash::fast::RandomState;

use super::Share;
use super::store::Entry;

/// Lines of guests without bundles beyond which they are cleared.
const SLACK: usize = 64;

/// Bundles of a guest.
#[derive(Debug, Default)]
struct Line {
    /// Bytes at which its next turn begins.
    start: u64,
    waiting: [VecDeque<u64>; 3],
}

impl Line {
    fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Removes and returns the first bundle that still waits, and its length.
    fn pop(&mut self, size: &dyn Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        let lines = self.waiting.iter_mut().rev();
        let mut ids = lines.flat_map(|line| std::iter::from_fn(|| line.pop_front()));
        ids.find_map(|id| Some((id, size(id)?)))
    }
}

/// Turns of guests.
#[derive(Debug, Default)]
pub(super) struct Turns {
    lines: HashMap<Share, Line, RandomState>,
    /// Guests with bundles, by the start of their next turn.
    order: BTreeSet<(u64, Share)>,
    /// Start of the present turn.
    now: u64,
    len: usize,
}

impl Turns {
    /// Appends a bundle.
    pub(super) fn push(&mut self, share: Share, id: u64, priority: usize) {
        if self.lines.len() > 2 * self.order.len() + SLACK {
            let now = self.now;
            self.lines.retain(|_, line| !line.is_empty() || line.start > now);
        }
        let line = self.lines.entry(share).or_default();
        if line.is_empty() {
            line.start = line.start.max(self.now);
            self.order.insert((line.start, share));
        }
        line.waiting[priority].push_back(id);
        self.len += 1;
    }

    /// Removes and returns the next bundle. `size` is the length of one that still waits.
    pub(super) fn pop(&mut self, size: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
        while let Some((start, share)) = self.order.pop_first() {
            let Some(line) = self.lines.get_mut(&share) else { continue };
            let before: usize = line.waiting.iter().map(VecDeque::len).sum();
            let next = line.pop(size);
            self.len -= before - line.waiting.iter().map(VecDeque::len).sum::<usize>();
            if let Some((_, size)) = next {
                self.now = start;
                line.start = start.saturating_add(size);
            }
            if !line.is_empty() {
                self.order.insert((line.start, share));
            }
            if let Some((id, _)) = next {
                return Some(id);
            }
        }
        None
    }

    /// Returns the bundle that is next, of those that still wait.
    pub(super) fn first(&self, is_waiting: &dyn Fn(u64) -> bool) -> Option<u64> {
        let lines = self.order.iter().filter_map(|(_, share)| self.lines.get(share));
        let ids = lines.flat_map(|line| line.waiting.iter().rev().flatten());
        ids.copied().find(|id| is_waiting(*id))
    }

    /// Returns the number of bundles in the lines. Some do not wait any more.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn ids(&self) -> impl Iterator<Item = &u64> {
        self.lines.values().flat_map(|line| line.waiting.iter().flatten())
    }

    /// Keeps the bundles that still wait.
    pub(super) fn retain(&mut self, is_waiting: &dyn Fn(u64) -> bool) {
        for line in self.lines.values_mut().flat_map(|line| &mut line.waiting) {
            line.retain(|id| is_waiting(*id));
        }
        let lines = &self.lines;
        self.order.retain(|(_, share)| lines.get(share).is_some_and(|line| !line.is_empty()));
        self.len = lines.values().flat_map(|line| &line.waiting).map(VecDeque::len).sum();
    }
}

/// Bundles that wait for a neighbour, and their bytes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Bundles of known senders, by priority.
    known: [VecDeque<u64>; 3],
    guests: Turns,
    /// Bytes by the priority of known senders. Those of guests have the lowest.
    pub(super) bytes: [u64; 3],
}

impl Queue {
    /// Appends a stored bundle.
    pub(super) fn push(&mut self, id: u64, entry: &Entry) {
        match entry.share.is_guest() {
            true => self.guests.push(entry.share, id, entry.priority),
            false => self.known[entry.priority].push_back(id),
        }
        self.bytes[entry.level()] += entry.size;
    }

    /// Removes a bundle from the bytes. It stays listed until it would come.
    pub(super) fn forget(&mut self, entry: &Entry) {
        self.bytes[entry.level()] -= entry.size;
    }

    /// Removes and returns the next bundle.
    ///
    /// It is of the highest priority of known senders, or of the guest whose turn it is. `size` is the length of one that still waits. Bundles that were removed or routed elsewhere are still listed.
    pub(super) fn pop(&mut self, size: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
        for line in self.known.iter_mut().rev() {
            while let Some(id) = line.pop_front() {
                if size(id).is_some() {
                    return Some(id);
                }
            }
        }
        self.guests.pop(size)
    }

    /// Returns the first bundle of each priority that still waits. Those of guests have the lowest.
    pub(super) fn first(&mut self, is_waiting: &dyn Fn(u64) -> bool) -> Vec<(usize, u64)> {
        let mut first = Vec::new();
        for (priority, line) in self.known.iter_mut().enumerate() {
            while line.front().is_some_and(|id| !is_waiting(*id)) {
                line.pop_front();
            }
            first.extend(line.front().map(|id| (priority, *id)));
        }
        first.extend(self.guests.first(is_waiting).map(|id| (0, id)));
        first
    }

    /// Returns the bundles that are listed.
    pub(super) fn ids(&self) -> impl Iterator<Item = &u64> {
        self.known.iter().flatten().chain(self.guests.ids())
    }

    /// Returns the number of bundles in the longest list.
    pub(super) fn longest(&self) -> usize {
        self.known.iter().map(VecDeque::len).fold(self.guests.len(), usize::max)
    }

    /// Keeps the bundles that still wait in the lists.
    pub(super) fn retain(&mut self, is_waiting: &dyn Fn(u64) -> bool) {
        self.known.iter_mut().for_each(|line| line.retain(|id| is_waiting(*id)));
        self.guests.retain(is_waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u64) -> Share {
        Share::Host(number)
    }

    #[test]
    fn each_guest_has_its_turn_by_bytes() {
        let mut turns = Turns::default();
        (0..100).for_each(|id| turns.push(host(1), id, 2));
        (100..110).for_each(|id| turns.push(host(2), id, 0));
        let size = |id: u64| Some(if id < 100 { 1000 } else { 500 });
        let first: Vec<u64> = (0..6).filter_map(|_| turns.pop(&size)).collect();
        assert_eq!(first, [0, 100, 101, 1, 102, 103], "as many bytes for both");
        turns.push(host(3), 200, 0);
        let rest: Vec<u64> = std::iter::from_fn(|| turns.pop(&size)).collect();
        let place = rest.iter().position(|id| *id == 200);
        assert!(place.is_some_and(|place| place < 3), "{place:?}");
        assert_eq!((turns.pop(&size), turns.len()), (None, 0));
    }

    #[test]
    fn a_guest_that_comes_again_and_again_is_not_first_each_time() {
        let mut turns = Turns::default();
        (0..50).for_each(|id| turns.push(host(1), id, 1));
        let mut own = 0;
        for id in 100..150 {
            turns.push(host(2), id, 1);
            own += u64::from(turns.pop(&|_| Some(100)).is_some_and(|next| next < 50));
        }
        assert!((24..=26).contains(&own), "{own}");
    }

    #[test]
    fn what_does_not_wait_any_more_takes_no_turn() {
        let mut turns = Turns::default();
        (0..10).for_each(|id| turns.push(host(id % 2), id, 1));
        let is_waiting = |id: u64| id == 8;
        assert_eq!(turns.first(&is_waiting), Some(8));
        turns.retain(&|id| id > 3);
        assert_eq!(turns.len(), 6);
        assert_eq!(turns.pop(&|id| is_waiting(id).then_some(9)), Some(8));
        assert_eq!((turns.pop(&|_| None), turns.len()), (None, 0));
        (0..1000).for_each(|id| turns.push(host(id), id, 1));
        while turns.pop(&|_| Some(1)).is_some() {}
        turns.push(host(1), 1, 1);
        turns.pop(&|_| Some(1_000));
        (0..2).for_each(|id| turns.push(host(5), id, 1));
        assert!(turns.lines.len() < 1000, "lines of guests that are gone: {}", turns.lines.len());
    }
}
