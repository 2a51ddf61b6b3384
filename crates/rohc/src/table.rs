//! The compressor's contexts: found by flow in O(1), replaced least-recently-used in O(1).

use alloc::boxed::Box;
use alloc::vec::Vec;

const NONE: u16 = u16::MAX;
/// Words of a flow's key that are kept without an allocation: IPv6 and a transport fit, or a tunnel of IPv4.
const INLINE_KEY: usize = 8;
/// Contexts of one bucket that are compared. Beyond that a flow is taken for unknown: whoever crafts collisions gets
/// poor compression, not a slow compressor.
const MAX_CHAIN: usize = 16;

/// The static fields of a flow, in a form that can be compared, and their hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    words: [u64; INLINE_KEY],
    len: u8,
    hash: u64,
    spill: Vec<u64>,
}

impl Key {
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.len, self.hash) = (0, 0);
        self.spill.clear();
    }

    /// Adds a word. Whole words, not octets: they are hashed as they come, without a way through memory.
    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        self.hash = mix(self.hash, word);
        match self.words.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = word;
                self.len += 1;
            }
            None => self.spill.push(word),
        }
    }

    fn words(&self) -> &[u64] {
        &self.words[..usize::from(self.len)]
    }

    #[inline]
    pub(crate) const fn hash(&self) -> u32 {
        (self.hash >> 32) as u32
    }
}

/// The flow that has a slot: a [`Key`] as it is kept; the hash is in the slot.
#[derive(Debug, Default)]
struct Owner {
    words: [u64; INLINE_KEY],
    /// 0: nobody.
    len: u8,
    spill: Box<[u64]>,
}

impl Owner {
    fn of(key: &Key) -> Self {
        Self { words: key.words, len: key.len, spill: key.spill.as_slice().into() }
    }

    #[inline]
    fn is(&self, key: &Key) -> bool {
        let words = self.words.iter().zip(key.words());
        self.len == key.len && words.into_iter().all(|(one, two)| one == two) && *self.spill == *key.spill
    }
}

/// The hash of a [`Key`] of the same words, without the key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hash(u64);

impl Hash {
    #[inline]
    pub(crate) const fn push(self, word: u64) -> Self {
        Self(mix(self.0, word))
    }

    #[inline]
    pub(crate) const fn finish(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[inline]
const fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word ^ 0xf39c_c060_5ced_c835) as u128 * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ ((product >> 64) as u64)
}

#[derive(Debug)]
struct Slot<T> {
    value: T,
    hash: u32,
    /// Next in the bucket.
    next: u16,
    /// More recently and less recently used.
    newer: u16,
    older: u16,
    reserved: bool,
    /// When it was used last, in look-ups of the table.
    used_at: u32,
}

/// Where a flow is, or may be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Its context.
    Known(u16),
    /// It has none; this CID was given to it, and holds what the last flow there left (or nothing yet).
    Assigned(u16),
}

/// Contexts by CID, with an index by flow and an order of use.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    /// The flow of each slot; apart, so that a slot is in one line of the cache.
    owners: Vec<Owner>,
    buckets: Vec<u16>,
    newest: u16,
    oldest: u16,
    max_cid: u16,
    /// Look-ups so far.
    clock: u32,
    /// How long the oldest flow must have been silent before its CID is given away.
    patience: u32,
    /// Flows that lost their CID, each where its hash says; empty until the first one did.
    ghosts: Vec<Ghost>,
}

/// A flow that lost its CID.
#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    hash: u32,
    /// When it used its CID last, in look-ups of the table.
    used_at: u32,
}

/// Bounds of the patience when flows come back, in look-ups per CID. A flow that was silent for longer than that has only begun to
/// talk again.
const PATIENCE: core::ops::Range<u32> = 4..64;
/// Flows without a CID that are remembered, at least.
const GHOSTS: usize = 1024;
/// The CID that goes from flow to flow while all others are kept: the one that takes no octet on small-CID channels.
const SHARED: u16 = 0;

impl<T: Default> Table<T> {
    pub(crate) fn new(max_cid: u16) -> Self {
        Self {
            slots: Vec::new(),
            owners: Vec::new(),
            buckets: alloc::vec![NONE; 16],
            newest: NONE,
            oldest: NONE,
            max_cid,
            clock: 0,
            patience: 0,
            ghosts: Vec::new(),
        }
    }

    /// CIDs in use are 0 to this, exclusive.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn value(&self, cid: u16) -> Option<&T> {
        self.slots.get(usize::from(cid)).map(|slot| &slot.value)
    }

    pub(crate) fn value_mut(&mut self, cid: u16) -> Option<&mut T> {
        self.slots.get_mut(usize::from(cid)).map(|slot| &mut slot.value)
    }

    /// Keeps `cid` for the flow it has now: it is never given to another.
    pub(crate) fn reserve(&mut self, cid: u16) {
        // A reserved context is in no order of use, so the oldest one is always one that can go.
        if self.slots.get(usize::from(cid)).is_some_and(|slot| !slot.reserved) {
            self.unlink_use(cid);
            self.slots[usize::from(cid)].reserved = true;
        }
    }

    /// The context of the flow `key`, made the most recently used; or the CID that it gets now. `None` when every CID
    /// is reserved for another flow, or an unknown flow is not `admitted`.
    #[inline]
    pub(crate) fn find_or_assign(&mut self, key: &Key, admitted: impl FnOnce() -> bool) -> Option<Found> {
        let hash = key.hash();
        if let Some(cid) = self.find(key, hash) {
            self.used(cid);
            return Some(Found::Known(cid));
        }
        if !admitted() {
            return None;
        }
        self.clock = self.clock.wrapping_add(1);
        let cid = self.vacate(hash)?;
        self.occupy(cid, key, hash);
        Some(Found::Assigned(cid))
    }

    /// The flow of `cid` sends a packet: makes it the most recently used.
    #[inline]
    pub(crate) fn used(&mut self, cid: u16) {
        self.clock = self.clock.wrapping_add(1);
        let clock = self.clock;
        if let Some(slot) = self.slots.get_mut(usize::from(cid)) {
            slot.used_at = clock;
            self.touch(cid);
        }
    }

    /// The flow with that hash whose value `fits`; it is not counted as used.
    #[inline]
    pub(crate) fn find_if(&self, hash: u32, fits: impl Fn(&T) -> bool) -> Option<u16> {
        let mut cid = self.buckets[self.bucket(hash)];
        for _ in 0..MAX_CHAIN {
            let slot = self.slots.get(usize::from(cid))?;
            if slot.hash == hash && fits(&slot.value) {
                return Some(cid);
            }
            cid = slot.next;
        }
        None
    }

    /// Gives `cid` to the flow `key`, whatever it held, and makes slots up to it.
    pub(crate) fn assign(&mut self, cid: u16, key: &Key) {
        let hash = key.hash();
        if let Some(old) = self.find(key, hash) {
            self.unlink_bucket(old);
            self.owners[usize::from(old)] = Owner::default();
        }
        while self.slots.len() <= usize::from(cid) {
            let new = self.add_slot();
            self.link_newest(new);
        }
        self.unlink_bucket(cid);
        self.unlink_use(cid);
        self.occupy(cid, key, hash);
    }

    #[inline]
    fn find(&self, key: &Key, hash: u32) -> Option<u16> {
        let mut cid = self.buckets[self.bucket(hash)];
        for _ in 0..MAX_CHAIN {
            let slot = self.slots.get(usize::from(cid))?;
            if slot.hash == hash && self.owners[usize::from(cid)].is(key) {
                return Some(cid);
            }
            cid = slot.next;
        }
        None
    }

    const fn bucket_mask(&self) -> usize {
        self.buckets.len() - 1
    }

    const fn bucket(&self, hash: u32) -> usize {
        hash as usize & self.bucket_mask()
    }

    /// A CID for the flow with `hash`: a new one, or that of the least recently used flow that is not reserved.
    ///
    /// Where more flows come in turn than there are CIDs, that would give each a CID just when it has lost it again. So
    /// once flows come back that had lost their CID, the oldest flow keeps its own until it has been silent for a
    /// while, and meanwhile those without share one CID. The while is three times as long as flows take to come back; it shrinks
    /// with every one that was never seen, or not for long.
    fn vacate(&mut self, hash: u32) -> Option<u16> {
        if self.slots.len() <= usize::from(self.max_cid) {
            return Some(self.add_slot());
        }
        let silence = self.clock.wrapping_sub(self.slots.get(usize::from(self.oldest))?.used_at);
        let size = self.slots.len() as u32;
        self.patience = match self.silence_of_ghost(hash).filter(|silence| *silence < PATIENCE.end * size) {
            Some(silence) => (3 * silence)
                .max(self.patience - self.patience.div_ceil(8))
                .clamp(PATIENCE.start * size, PATIENCE.end * size),
            // Little by little: the ghost of a flow may have been overwritten.
            None => self.patience - self.patience.div_ceil(8),
        };
        let keeps = silence < self.patience && !self.slots[usize::from(SHARED)].reserved;
        let cid = if keeps { SHARED } else { self.oldest };
        let Slot { hash, used_at, .. } = self.slots[usize::from(cid)];
        self.remember(Ghost { hash, used_at });
        self.unlink_bucket(cid);
        self.unlink_use(cid);
        Some(cid)
    }

    /// For how long a flow that lost its CID has been silent.
    fn silence_of_ghost(&self, hash: u32) -> Option<u32> {
        let ghost = self.ghosts[self.ghost_of(hash)?];
        (ghost.hash == hash).then(|| self.clock.wrapping_sub(ghost.used_at))
    }

    fn remember(&mut self, ghost: Ghost) {
        if self.ghosts.is_empty() {
            self.ghosts.resize((4 * self.slots.len()).next_power_of_two().max(GHOSTS), Ghost::default());
        }
        if let Some(at) = self.ghost_of(ghost.hash) {
            self.ghosts[at] = ghost;
        }
    }

    fn ghost_of(&self, hash: u32) -> Option<usize> {
        self.ghosts.len().checked_sub(1).map(|mask| hash as usize & mask)
    }

    fn add_slot(&mut self) -> u16 {
        let cid = self.slots.len() as u16;
        let (hash, next, newer, older) = (0, NONE, NONE, NONE);
        let slot = Slot { value: T::default(), hash, next, newer, older, reserved: false, used_at: 0 };
        self.slots.push(slot);
        self.owners.push(Owner::default());
        if self.slots.len() > self.buckets.len() / 2 {
            self.grow_index();
        }
        cid
    }

    fn grow_index(&mut self) {
        let size = self.buckets.len() * 2;
        self.buckets.clear();
        self.buckets.resize(size, NONE);
        for cid in 0..self.slots.len() {
            if self.owners[cid].len > 0 {
                self.link_bucket(cid as u16);
            }
        }
    }

    fn occupy(&mut self, cid: u16, key: &Key, hash: u32) {
        let clock = self.clock;
        let slot = &mut self.slots[usize::from(cid)];
        slot.used_at = clock;
        slot.hash = hash;
        self.owners[usize::from(cid)] = Owner::of(key);
        self.link_bucket(cid);
        self.link_newest(cid);
    }

    fn link_bucket(&mut self, cid: u16) {
        let bucket = self.bucket(self.slots[usize::from(cid)].hash);
        self.slots[usize::from(cid)].next = self.buckets[bucket];
        self.buckets[bucket] = cid;
    }

    fn unlink_bucket(&mut self, cid: u16) {
        let bucket = self.bucket(self.slots[usize::from(cid)].hash);
        let next = self.slots[usize::from(cid)].next;
        if self.buckets[bucket] == cid {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while let Some(slot) = self.slots.get_mut(usize::from(at)) {
            if slot.next == cid {
                slot.next = next;
                return;
            }
            at = slot.next;
        }
    }

    #[inline]
    fn touch(&mut self, cid: u16) {
        if self.newest != cid {
            self.unlink_use(cid);
            self.link_newest(cid);
        }
    }

    fn link_newest(&mut self, cid: u16) {
        let older = self.newest;
        let slot = &mut self.slots[usize::from(cid)];
        if slot.reserved {
            return;
        }
        (slot.newer, slot.older) = (NONE, older);
        match self.slots.get_mut(usize::from(older)) {
            Some(slot) => slot.newer = cid,
            None => self.oldest = cid,
        }
        self.newest = cid;
    }

    fn unlink_use(&mut self, cid: u16) {
        let Slot { newer, older, reserved, .. } = self.slots[usize::from(cid)];
        if reserved {
            return;
        }
        match self.slots.get_mut(usize::from(newer)) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(usize::from(older)) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(flow: u32) -> Key {
        let mut key = Key::default();
        key.push(u64::from(flow));
        key
    }

    #[test]
    fn flows_keep_their_cid_and_the_least_recently_used_goes() {
        let mut table = Table::<u32>::new(3);
        for flow in 0..4 {
            assert_eq!(table.find_or_assign(&key(flow), || true), Some(Found::Assigned(flow as u16)));
        }
        assert_eq!(table.find_or_assign(&key(0), || true), Some(Found::Known(0)));
        assert_eq!(table.find_or_assign(&key(9), || true), Some(Found::Assigned(1)));
        // The next one shares CID 0 until the oldest has been silent for a while.
        assert_eq!(table.find_or_assign(&key(1), || true), Some(Found::Assigned(0)));
        for _ in 0..20 {
            assert_eq!(table.find_or_assign(&key(9), || true), Some(Found::Known(1)));
        }
        assert_eq!(table.find_or_assign(&key(5), || true), Some(Found::Assigned(2)));
    }

    #[test]
    fn a_reserved_cid_is_never_taken() {
        let mut table = Table::<u32>::new(2);
        table.assign(1, &key(7));
        table.reserve(1);
        for flow in 100..200 {
            let found = table.find_or_assign(&key(flow), || true);
            assert!(!matches!(found, Some(Found::Assigned(1) | Found::Known(1))), "{found:?}");
        }
        assert_eq!(table.find_or_assign(&key(7), || true), Some(Found::Known(1)));
        table.reserve(0);
        table.reserve(2);
        assert_eq!(table.find_or_assign(&key(300), || true), None);
    }

    /// Flows that have a CID keep it, and no two have the same, whatever comes.
    #[test]
    fn cids_are_given_to_one_flow_at_a_time() {
        let mut table = Table::<u32>::new(63);
        let mut owners = [u32::MAX; 64];
        let mut state = 1u32;
        for _ in 0..50_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let flow = state >> 16 & if state & 1 == 0 { 31 } else { 255 };
            let owned = owners.iter().position(|&owner| owner == flow);
            match table.find_or_assign(&key(flow), || true) {
                Some(Found::Known(cid)) => assert_eq!(owned, Some(usize::from(cid))),
                Some(Found::Assigned(cid)) => {
                    assert_eq!(owned, None);
                    owners[usize::from(cid)] = flow;
                }
                None => panic!("no CID is reserved"),
            }
        }
    }

    /// 40 flows in turn on 16 CIDs: 15 of them keep theirs.
    /// Calls that talk for a quarter of the time: there are enough CIDs for those that talk at a time.
    #[test]
    fn flows_that_talk_again_get_the_cid_that_was_unused_for_longest() {
        let mut table = Table::<u32>::new(15);
        let mut assigned = 0;
        for round in 0..2000 {
            for flow in (0..40).filter(|flow| (round + flow * 5) % 200 < 50) {
                let found = table.find_or_assign(&key(flow), || true);
                assigned += u32::from(matches!(found, Some(Found::Assigned(_))));
            }
        }
        let spurts = 40 * 10 + 10;
        assert!(assigned <= spurts, "{assigned} for {spurts} spurts");
    }

    #[test]
    fn flows_in_turn_do_not_all_lose_their_cids() {
        let mut table = Table::<u32>::new(15);
        let mut known = 0;
        for round in 0..20 {
            for flow in 0..40 {
                let found = table.find_or_assign(&key(flow), || true);
                known += usize::from(round > 2 && matches!(found, Some(Found::Known(_))));
            }
        }
        assert_eq!(known, 17 * 15);
    }

    /// Flows that end make room, however short they are.
    #[test]
    fn flows_that_follow_each_other_are_all_served() {
        let mut table = Table::<u32>::new(15);
        let mut assigned = 0;
        for group in 0..50 {
            for _ in 0..20 {
                for flow in 0..10 {
                    let found = table.find_or_assign(&key(group * 10 + flow), || true);
                    assigned += usize::from(matches!(found, Some(Found::Assigned(_))));
                }
            }
        }
        assert_eq!(assigned, 50 * 10);
        for flow in 1000..1500 {
            assert!(matches!(table.find_or_assign(&key(flow), || true), Some(Found::Assigned(_))));
            assert!(matches!(table.find_or_assign(&key(flow), || true), Some(Found::Known(_))));
            assert!(
                flow == 1000
                    || matches!(table.find_or_assign(&key(flow - 1), || true), Some(Found::Known(_)))
            );
        }
    }

    /// Beside the context itself (at most 800 octets).
    #[test]
    fn a_place_in_the_table_is_small() {
        assert!(size_of::<Slot<crate::compressor::Context>>() <= 64);
        assert!(size_of::<Owner>() <= 96);
    }

    #[test]
    fn long_keys_spill_and_still_differ() {
        let (mut one, mut two) = (Key::default(), Key::default());
        for part in 0..40 {
            one.push(part);
            two.push(part);
        }
        assert!(Owner::of(&one).is(&two) && one.hash() == two.hash());
        two.push(1);
        assert!(!Owner::of(&one).is(&two) && !Owner::of(&two).is(&one) && one.hash() != two.hash());
    }
}
