//! Identities of bundles that a node has had, bounded by number and by source.
//!
//! Hosts without a configuration forget first: the one with the most identities, of it the oldest. A host keeps an eighth of the room at most.
//! So a flood of bundles that live for long costs the memory of their sender.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use foldhash::fast::RandomState;

use super::Share;

/// Bit of a source that is a guest.
const GUEST: u64 = 1 << 63;
/// Part of the room that a guest may have.
const GUEST_PART: usize = 8;
/// Listed identities beyond twice the remembered ones at which lists are cleared.
const SLACK: usize = 4096;

/// Source of an identity: a known neighbour by its number, or a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(u64);

impl Source {
    /// Stands for any of the guests.
    pub const ANY: Source = Source(u64::MAX);

    /// Returns the source of bundles of an account, that a neighbour sent.
    pub fn of(share: Share, from: u64) -> Source {
        // Two bits for the kind of a guest.
        match share {
            Share::Known => Source(from & !GUEST),
            Share::Unproven => Source(GUEST),
            Share::Host(key) => Source(GUEST | 1 << 61 | key >> 3),
            Share::Node(number) => Source(GUEST | 1 << 62 | number >> 3),
        }
    }

    /// Returns the source of a number that [`Source::code`] gave.
    pub fn from_code(code: u64) -> Source {
        Source(code)
    }

    /// Returns the number of the source.
    pub fn code(self) -> u64 {
        self.0
    }

    /// Returns `true` if the source is a guest.
    pub fn is_guest(self) -> bool {
        self.0 & GUEST != 0
    }
}

#[derive(Debug)]
struct Note<V> {
    expiry: u64,
    number: u64,
    source: Source,
    value: V,
}

/// Identities of a source.
#[derive(Debug)]
struct Line<K> {
    len: usize,
    /// The oldest first. Some are forgotten already, or noted again.
    oldest: VecDeque<(u64, K)>,
}

/// Identities until the ends of their lives, with a value each.
#[derive(Debug)]
pub struct Memory<K, V> {
    most: usize,
    notes: HashMap<K, Note<V>, RandomState>,
    /// Some are forgotten already, or have another end.
    by_expiry: BTreeMap<u64, Vec<(u64, K)>>,
    listed: usize,
    lines: HashMap<Source, Line<K>, RandomState>,
    by_len: BTreeSet<(bool, usize, Reverse<Source>)>,
    next: u64,
    /// Identities forgotten before the ends of their lives, since they were last taken.
    early: u64,
}

impl<K: Clone + Eq + Hash, V> Memory<K, V> {
    /// Creates a memory with a maximum number of identities.
    pub fn new(most: usize) -> Memory<K, V> {
        Memory {
            most,
            notes: HashMap::default(),
            by_expiry: BTreeMap::new(),
            listed: 0,
            lines: HashMap::default(),
            by_len: BTreeSet::new(),
            next: 0,
            early: 0,
        }
    }

    /// Returns the number of identities.
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    /// Returns `true` if it is empty.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Returns the value of an identity.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.notes.get(key).map(|note| &note.value)
    }

    /// Returns all identities with the ends of their lives, sources and values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, u64, Source, &mut V)> {
        self.notes.iter_mut().map(|(key, note)| (key, note.expiry, note.source, &mut note.value))
    }

    /// Remembers an identity until the end of its life. Others may be forgotten for it.
    pub fn insert(&mut self, key: K, expiry: u64, source: Source, value: V) {
        let before = self.notes.get(&key).map(|note| (note.expiry, note.source));
        if before == Some((expiry, source)) {
            self.notes.entry(key).and_modify(|note| note.value = value);
            return;
        }
        self.remove(&key);
        let number = self.next;
        self.next += 1;
        self.notes.insert(key.clone(), Note { expiry, number, source, value });
        self.by_expiry.entry(expiry).or_default().push((number, key.clone()));
        self.listed += 1;
        self.lines.entry(source).or_insert_with(|| Line { len: 0, oldest: VecDeque::new() });
        self.count(source, |line| {
            line.len += 1;
            line.oldest.push_back((number, key));
        });
        self.bound(source);
        self.tidy(source);
    }

    /// Changes the line of a source. It is gone when it is empty.
    fn count(&mut self, source: Source, change: impl FnOnce(&mut Line<K>)) {
        let Some(line) = self.lines.get_mut(&source) else { return };
        let (is_guest, place) = (source.is_guest(), Reverse(source));
        self.by_len.remove(&(is_guest, line.len, place));
        change(line);
        match line.len {
            0 => _ = self.lines.remove(&source),
            len => _ = self.by_len.insert((is_guest, len, place)),
        }
    }

    /// Forgets identities beyond the limits.
    fn bound(&mut self, newest: Source) {
        let share = if newest.is_guest() { (self.most / GUEST_PART).max(1) } else { self.most };
        while self.lines.get(&newest).is_some_and(|line| line.len > share) {
            self.forget_oldest(newest);
        }
        while self.notes.len() > self.most {
            let Some((_, _, Reverse(most))) = self.by_len.last() else { return };
            self.forget_oldest(*most);
        }
    }

    fn forget_oldest(&mut self, source: Source) {
        let Some(line) = self.lines.get_mut(&source) else { return };
        while let Some((number, key)) = line.oldest.pop_front() {
            if self.notes.get(&key).is_some_and(|note| note.number == number) {
                self.remove(&key);
                self.early += 1;
                return;
            }
        }
    }

    /// Forgets an identity.
    pub fn remove(&mut self, key: &K) {
        if let Some(note) = self.notes.remove(key) {
            self.count(note.source, |line| line.len -= 1);
        }
    }

    /// Removes what is forgotten from the lists.
    fn tidy(&mut self, source: Source) {
        let notes = &self.notes;
        let is_noted = |number: u64, key: &K| notes.get(key).is_some_and(|note| note.number == number);
        if let Some(line) =
            self.lines.get_mut(&source).filter(|line| line.oldest.len() > 2 * line.len + SLACK)
        {
            line.oldest.retain(|(number, key)| is_noted(*number, key));
        }
        if self.listed > 2 * notes.len() + SLACK {
            self.by_expiry.retain(|_, all| {
                all.retain(|(number, key)| is_noted(*number, key));
                !all.is_empty()
            });
            self.listed = notes.len();
        }
    }

    /// Forgets identities whose lives have ended before an instant.
    pub fn expire_before(&mut self, now: u64) {
        while let Some(first) = self.by_expiry.first_entry().filter(|first| *first.key() < now) {
            let all = first.remove();
            self.listed -= all.len();
            for (number, key) in all {
                if self.notes.get(&key).is_some_and(|note| note.number == number) {
                    self.remove(&key);
                }
            }
        }
    }

    /// Returns the number of identities forgotten early since the last call.
    pub fn take_early(&mut self) -> u64 {
        std::mem::take(&mut self.early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(key: u64) -> Source {
        Source::of(Share::Host(key << 3), 0)
    }

    #[test]
    fn a_flood_of_a_guest_costs_its_own_identities_the_oldest_first() {
        let mut memory = Memory::new(800);
        let known = Source::of(Share::Known, 2);
        // These end first.
        (0..100).for_each(|n| memory.insert(n, 10, known, ()));
        (1000..1050).for_each(|n| memory.insert(n, 10, host(2), ()));
        (2000..9000).for_each(|n| memory.insert(n, u64::MAX, host(1), ()));
        assert_eq!(memory.len(), 250);
        assert!((0..100).chain(1000..1050).all(|n| memory.get(&n).is_some()));
        assert!(memory.get(&8900).is_some() && memory.get(&8899).is_none());
        assert_eq!((memory.take_early(), memory.take_early()), (6900, 0));
        // Many guests share what known ones leave.
        (0..10_000).for_each(|n| memory.insert(10_000 + n, 20, host(10 + n % 50), ()));
        assert_eq!(memory.len(), 800);
        assert!((0..100).all(|n| memory.get(&n).is_some()));
        (20_000..20_800).for_each(|n| memory.insert(n, 30, known, ()));
        assert!(memory.get(&99).is_none() && memory.get(&20_000).is_some() && memory.len() == 800);
        assert!(memory.listed <= 2 * 800 + SLACK + 1, "{}", memory.listed);
    }

    #[test]
    fn identities_end_with_their_lives_and_not_before() {
        let mut memory = Memory::new(100);
        let source = Source::default();
        memory.insert("a", 5, source, 1);
        memory.insert("b", 6, source, 2);
        memory.insert("a", 9, source, 3);
        memory.insert("a", 9, source, 4);
        memory.expire_before(6);
        assert_eq!((memory.get(&"a"), memory.get(&"b")), (Some(&4), Some(&2)));
        memory.expire_before(7);
        assert_eq!((memory.get(&"b"), memory.len()), (None, 1));
        memory.remove(&"a");
        memory.expire_before(100);
        assert!(memory.is_empty() && memory.lines.is_empty() && memory.by_len.is_empty());
        assert_eq!((memory.listed, memory.take_early()), (0, 0));
    }

    #[test]
    fn lists_stay_short_when_identities_are_forgotten_and_come_again() {
        let mut memory = Memory::new(100);
        for n in 0..100_000_u64 {
            memory.insert(n % 7, u64::MAX - n % 3, host(1), ());
            memory.remove(&(n % 7));
        }
        assert!(memory.listed <= SLACK + 1, "{}", memory.listed);
    }
}
