//! Storage of bundles, bounded in bytes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use bentpipe_units::Time;
use bentpipe_wire::dtn::bundle::{Bundle, Payload};
use bentpipe_wire::dtn::eid::Eid;
use foldhash::fast::RandomState;

use super::guests::{Guests, Share};
use super::hop::Hop;
use super::spread::Spread;

/// Whereabouts of a stored bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Waiting for a route.
    Limbo,
    /// Waiting for its next hop.
    Waiting(Hop),
    /// Given to a convergence layer.
    Flying,
    /// Kept for copies to several neighbours.
    Kept,
}

/// Stored bundle.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) bundle: Bundle,
    pub(crate) size: u64,
    pub(crate) priority: usize,
    /// Neighbour that it came from.
    pub(crate) from: Option<u64>,
    pub(crate) arrival: Time,
    pub(crate) expiry: Time,
    pub(crate) place: Place,
    /// Account of the storage that it counts to.
    pub(crate) share: Share,
    /// Copies that may be made of it, if the routing makes copies.
    pub(crate) spread: Option<Box<Spread>>,
}

impl Entry {
    /// Returns the place among those of its share that give way.
    fn rank(&self, id: u64) -> (usize, u64, u64) {
        (self.priority, self.expiry.as_nanos(), id)
    }

    /// Returns the priority on links and in contacts. What a guest says of its own has none there.
    pub(crate) fn level(&self) -> usize {
        if self.share.is_guest() { 0 } else { self.priority }
    }

    pub(crate) fn is_waiting_for(&self, neighbour: u64) -> bool {
        match &self.spread {
            Some(spread) => spread.waiting.contains(&neighbour),
            None => matches!(&self.place, Place::Waiting(hop) if hop.neighbour == neighbour),
        }
    }

    /// Returns the entry without its payload, for what depends on its place.
    pub(crate) fn clone_place(&self) -> Entry {
        let bundle =
            Bundle { payload: Payload::default(), blocks: vec![], primary: self.bundle.primary.clone() };
        Entry { bundle, place: self.place.clone(), spread: self.spread.clone(), ..*self }
    }
}

/// Change of the storage, for a copy on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A bundle is stored under a number.
    Stored(u64),
    /// The bundle of a number is not stored any more.
    Removed(u64),
}

/// Entries in the order of their expiry. Some are not stored any more: they are taken out when they come first, or are many.
type Line = BinaryHeap<Reverse<(Time, u64)>>;

/// Returns a key of an endpoint's node. Other nodes may have it too.
///
/// With scheme ipn it is the node's number.
pub(crate) fn node_key(eid: &Eid) -> u64 {
    let mut hasher = DefaultHasher::new();
    match eid {
        Eid::Ipn(ipn) => return ipn.number(),
        Eid::Dtn(_) => eid.node().hash(&mut hasher),
        Eid::None => {}
    }
    hasher.finish()
}

/// Listed entries beyond twice the stored ones at which lists are cleared.
const SLACK: usize = 4096;

#[derive(Debug)]
pub(crate) struct Store {
    limit: u64,
    bytes: u64,
    /// Bytes that each entry takes in addition.
    overhead: u64,
    next: u64,
    /// Boxed: a large table is half empty, and copied as it grows.
    entries: HashMap<u64, Box<Entry>, RandomState>,
    /// Entries of any place. The first is stored.
    by_expiry: Line,
    /// Known entries that may be displaced, by priority. Some are given to a convergence layer, and some are listed twice.
    displaceable: [Line; 3],
    /// Entries of others. Those that a convergence layer has give way too.
    guests: Guests,
    /// Entries for which no route was found, by a key of the destination's node.
    limbo: BTreeSet<(u64, u64)>,
    /// Changes since they were last taken, if they are recorded.
    changes: Option<Vec<Change>>,
}

impl Store {
    pub(crate) fn new(limit: u64) -> Store {
        Store {
            limit,
            bytes: 0,
            overhead: 0,
            next: 0,
            entries: HashMap::default(),
            by_expiry: Line::new(),
            displaceable: Default::default(),
            guests: Guests::default(),
            limbo: BTreeSet::new(),
            changes: None,
        }
    }

    /// Counts memory of each entry in addition to its bytes.
    pub(crate) fn set_overhead(&mut self, overhead: u64) {
        self.overhead = overhead;
    }

    /// Returns the bytes by which another entry exceeds the limit.
    fn excess(&self, size: u64) -> u64 {
        let count = self.entries.len() as u64 + 1;
        let used = self.bytes.saturating_add(count.saturating_mul(self.overhead));
        used.saturating_add(size).saturating_sub(self.limit)
    }

    /// Records changes from here on, and numbers entries from `next`.
    pub(crate) fn record(&mut self, next: u64) {
        self.changes = Some(Vec::new());
        self.next = self.next.max(next);
    }

    /// Removes and returns the recorded changes.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the recorded changes.
    pub(crate) fn changes(&self) -> &[Change] {
        self.changes.as_deref().unwrap_or_default()
    }

    fn note(&mut self, change: Change) {
        self.changes.iter_mut().for_each(|changes| changes.push(change));
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `true` if as many bytes fit without displacing others.
    pub(crate) fn has_room(&self, len: u64) -> bool {
        self.excess(len) == 0
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Entry> {
        self.entries.get(&id).map(Box::as_ref)
    }

    /// Stores an entry and returns the entries that it displaced.
    ///
    /// Gives the entry back if it does not fit, unless it is to be kept even so.
    pub(crate) fn insert(
        &mut self,
        entry: Entry,
        is_promised: bool,
    ) -> Result<(u64, Vec<Entry>), Box<Entry>> {
        let excess = self.excess(entry.size);
        let newcomer = (entry.share, entry.priority);
        let victims = self.victims(newcomer, entry.size, excess).or(is_promised.then(Vec::new));
        let Some(victims) = victims else { return Err(Box::new(entry)) };
        let evicted = victims.into_iter().filter_map(|id| self.remove(id)).collect();
        let id = self.next;
        self.put(id, entry);
        self.note(Change::Stored(id));
        Ok((id, evicted))
    }

    /// Returns `true` if a bundle can be stored. It may displace others: of guests, and of lower priority.
    pub(crate) fn fits(&mut self, size: u64, newcomer: (Share, usize)) -> bool {
        let excess = self.excess(size);
        let victims = self.victims(newcomer, size, excess);
        victims.iter().flatten().for_each(|id| self.list(*id));
        victims.is_some()
    }

    /// Lists an entry among those that may be displaced.
    fn list(&mut self, id: u64) {
        let entry = &self.entries[&id];
        if !entry.share.is_guest() {
            self.displaceable[entry.priority].push(Reverse((entry.expiry, id)));
        }
    }

    /// Returns entries of `excess` bytes that give way to a newcomer of `size` bytes.
    ///
    /// `None` if there are too few. Guests come first, then lower priorities.
    fn victims(&mut self, newcomer: (Share, usize), size: u64, excess: u64) -> Option<Vec<u64>> {
        let (mut guests, freed) = self.guests.giving_way(newcomer, size + self.overhead, excess);
        if freed < excess {
            let (share, priority) = newcomer;
            // Priorities of guests count among their own.
            let priority = if share.is_guest() { 0 } else { priority };
            guests.extend(self.known_victims(excess - freed, priority)?);
        }
        Some(guests)
    }

    /// Returns known entries below a priority that occupy `excess` bytes, if there are enough.
    fn known_victims(&mut self, excess: u64, priority: usize) -> Option<Vec<u64>> {
        let (mut freed, mut victims) = (0, Vec::new());
        for line in &mut self.displaceable[..priority] {
            while freed < excess
                && let Some(Reverse((expiry, id))) = line.pop()
            {
                let entry = self.entries.get(&id).filter(|entry| entry.place != Place::Flying);
                if let Some(entry) = entry.filter(|_| victims.last() != Some(&(expiry, id))) {
                    freed += entry.size + self.overhead;
                    victims.push((expiry, id));
                }
            }
        }
        let is_enough = freed >= excess;
        if !is_enough {
            victims.iter().for_each(|(_, id)| self.list(*id));
        }
        is_enough.then(|| victims.into_iter().map(|(_, id)| id).collect())
    }

    /// Stores an entry under a number that was given before, even beyond the limit.
    pub(crate) fn put(&mut self, id: u64, entry: Entry) {
        self.next = self.next.max(id.saturating_add(1));
        self.bytes += entry.size;
        self.by_expiry.push(Reverse((entry.expiry, id)));
        match entry.share.is_guest() {
            true => self.guests.add(entry.share, entry.rank(id), entry.size + self.overhead),
            false => self.displaceable[entry.priority].push(Reverse((entry.expiry, id))),
        }
        self.entries.insert(id, Box::new(entry));
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = *self.entries.remove(&id)?;
        if entry.place == Place::Limbo && !self.limbo.is_empty() {
            self.limbo.remove(&(node_key(&entry.bundle.primary.destination), id));
        }
        self.bytes -= entry.size;
        self.guests.remove(entry.share, entry.rank(id));
        self.tidy();
        self.note(Change::Removed(id));
        Some(entry)
    }

    /// Removes entries that are gone from the lists.
    fn tidy(&mut self) {
        let (entries, most) = (&self.entries, 2 * self.entries.len() + SLACK);
        let is_stored = |Reverse((_, id)): &Reverse<(Time, u64)>| entries.contains_key(id);
        while self.by_expiry.peek().is_some_and(|first| !is_stored(first)) {
            self.by_expiry.pop();
        }
        if self.by_expiry.len() > most {
            self.by_expiry.retain(is_stored);
        }
        for line in self.displaceable.iter_mut().filter(|line| line.len() > most) {
            let mut left = std::mem::take(line).into_vec();
            left.retain(|Reverse((_, id))| entries.get(id).is_some_and(|entry| entry.place != Place::Flying));
            left.sort_unstable();
            left.dedup();
            *line = left.into();
        }
    }

    /// Moves an entry. What a convergence layer has is not displaced.
    pub(crate) fn place(&mut self, id: u64, place: Place) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.place == Place::Flying && place != Place::Flying && !entry.share.is_guest() {
            self.displaceable[entry.priority].push(Reverse((entry.expiry, id)));
        }
        if entry.place == Place::Limbo && !self.limbo.is_empty() {
            self.limbo.remove(&(node_key(&entry.bundle.primary.destination), id));
        }
        entry.place = place;
    }

    /// Lists an entry for which no route was found.
    ///
    /// What has a route at once, as nearly all has, is never listed.
    pub(crate) fn strand(&mut self, id: u64) {
        if let Some(entry) = self.entries.get(&id).filter(|entry| entry.place == Place::Limbo) {
            self.limbo.insert((node_key(&entry.bundle.primary.destination), id));
        }
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&id).map(Box::as_mut)
    }

    /// Returns the entries of which copies are made, in the order of their arrival.
    pub(crate) fn spreading(&self) -> Vec<u64> {
        self.numbers(|entry| entry.spread.is_some())
    }

    /// Returns the entries without a route, in the order of their arrival.
    pub(crate) fn limbo(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.limbo.iter().map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the entries without a route for a node, in the order of their arrival.
    pub(crate) fn limbo_for(&self, key: u64) -> Vec<u64> {
        self.limbo.range((key, 0)..=(key, u64::MAX)).map(|(_, id)| *id).collect()
    }

    /// Returns the entries whose contact is over, in the order of their arrival.
    pub(crate) fn stranded(&self, is_over: &dyn Fn(&Hop) -> bool) -> Vec<u64> {
        self.numbers(|entry| matches!(&entry.place, Place::Waiting(hop) if is_over(hop)))
    }

    pub(super) fn numbers(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<u64> {
        let mut ids: Vec<u64> =
            self.entries.iter().filter(|(_, entry)| is_wanted(entry)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the first numbers of entries from one on, `most` at most.
    pub(crate) fn first_numbers(&self, first: u64, most: usize) -> Vec<u64> {
        let mut lowest = BinaryHeap::new();
        for id in self.entries.keys().copied().filter(|id| *id >= first) {
            lowest.push(id);
            if lowest.len() > most {
                lowest.pop();
            }
        }
        lowest.into_sorted_vec()
    }

    pub(crate) fn next_expiry(&self) -> Time {
        self.by_expiry.peek().map_or(Time::NEVER, |Reverse((expiry, _))| *expiry)
    }

    pub(crate) fn pop_expired(&mut self, now: Time) -> Option<Entry> {
        let Reverse((expiry, id)) = *self.by_expiry.peek()?;
        if expiry <= now { self.remove(id) } else { None }
    }
}
