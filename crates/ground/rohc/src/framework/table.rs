//! The compressor's contexts: found by flow in O(1), replaced least-recently-used in O(1).

use alloc::vec::Vec;

use crate::framework::config::Lookup;
use crate::framework::flow::{Key, Owner};

const NONE: u16 = u16::MAX;
/// Contexts of one bucket that are compared. Beyond that a flow counts as unknown: crafted collisions
/// cause poor compression, not a slow compressor.
const MAX_CHAIN: usize = 16;

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
    /// Time of last use, in look-ups of the table.
    used_at: u32,
}

/// Place of a flow in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Flow with this context.
    Known(u16),
    /// CID assigned to a new flow. It holds what the last flow there left, or nothing yet.
    Assigned(u16),
}

/// Contexts by CID, with an index by flow and an order of use.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    /// Flow of each slot. Kept apart so that a slot fits a cache line.
    owners: Vec<Owner>,
    /// First context of each bucket. A linear search has one bucket.
    buckets: Vec<u16>,
    /// Bits of the hash that are compared before the flow. In a linear search there are none.
    compared_bits: u32,
    /// Contexts of one bucket that are compared.
    max_chain: usize,
    newest: u16,
    oldest: u16,
    max_cid: u16,
    /// Look-ups since the start.
    clock: u32,
    /// CID shared by flows that have none to keep. It is in no order of use; `NONE` until flows outnumber CIDs.
    shared: u16,
    /// Recent silence of flows that had lost their CID before they returned, in look-ups.
    absence: u32,
    /// Number of times a CID was reassigned to another flow.
    reassigned: u64,
    /// Flows that lost their CID, by hash. Empty until the first one did.
    ghosts: Vec<Ghost>,
}

/// A flow that lost its CID.
#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    hash: u32,
    /// Time of the last use of its CID, in look-ups of the table.
    used_at: u32,
    /// Number of consecutive early returns.
    returns: u8,
}

/// Maximum silence of a returning flow, in look-ups per CID.
const SOON: u32 = 64;
/// Ratio of silences above which the oldest flow loses its CID to another one.
const SLACK: u32 = 3;
/// Consecutive early returns after which a flow gets a CID of its own. A new CID costs IRs for as many packets as
/// changes are repeated, four by default, on either side: less would serve flows that have ended by then.
const RETURNS: u8 = 5;
/// Flows without a CID that are remembered, at least.
const GHOSTS: usize = 1024;
/// The CID that takes no octet on small-CID channels: the one to share first.
const SHORTEST: u16 = 0;

impl<T: Default> Table<T> {
    pub(crate) fn new(max_cid: u16, lookup: Lookup) -> Self {
        let (buckets, compared_bits, max_chain) = match lookup {
            Lookup::Hashed => (16, u32::MAX, MAX_CHAIN),
            Lookup::Linear => (1, 0, usize::MAX),
        };
        Self {
            slots: Vec::new(),
            owners: Vec::new(),
            buckets: alloc::vec![NONE; buckets],
            compared_bits,
            max_chain,
            newest: NONE,
            oldest: NONE,
            max_cid,
            clock: 0,
            shared: NONE,
            absence: 0,
            reassigned: 0,
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
            if self.shared == cid {
                self.shared = NONE;
            }
        }
    }

    /// Finds the CID of the flow `key`, made the most recently used, or assigns one. `None` when every CID is
    /// reserved for another flow, or an unknown flow is not `admitted`.
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
        if cid == self.shared {
            self.keep_shared();
        }
        let clock = self.clock;
        if let Some(slot) = self.slots.get_mut(usize::from(cid)) {
            slot.used_at = clock;
            if self.newest != cid {
                self.make_newest(cid);
            }
        }
    }

    /// Keeps the shared CID for its flow if that is much busier than the oldest. The oldest flow's CID is then
    /// shared.
    #[inline(never)]
    fn keep_shared(&mut self) {
        if self.silence(self.oldest) > SLACK.saturating_mul(self.silence(self.shared)) {
            self.share(self.oldest);
        }
    }

    /// The flow with that hash whose value `fits`; it is not counted as used.
    #[inline]
    pub(crate) fn find_if(&self, hash: u32, fits: impl Fn(u16, &T) -> bool) -> Option<u16> {
        let mut cid = self.buckets[self.bucket(hash)];
        for _ in 0..self.max_chain {
            let slot = self.slots.get(usize::from(cid))?;
            if self.is_equal(slot.hash, hash) && fits(cid, &slot.value) {
                return Some(cid);
            }
            cid = slot.next;
        }
        None
    }

    /// Assigns `cid` to the flow `key`, replacing its flow, and adds slots up to it.
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
        for _ in 0..self.max_chain {
            let slot = self.slots.get(usize::from(cid))?;
            if self.is_equal(slot.hash, hash) && self.owners[usize::from(cid)].is(key) {
                return Some(cid);
            }
            cid = slot.next;
        }
        None
    }

    /// Returns `true` if two flows cannot be distinguished by their hashes.
    #[inline]
    const fn is_equal(&self, one: u32, two: u32) -> bool {
        (one ^ two) & self.compared_bits == 0
    }

    const fn is_linear(&self) -> bool {
        self.compared_bits == 0
    }

    /// Returns the mean number of contexts compared to find that of a flow. It is 0 without flows.
    pub(crate) fn mean_comparisons(&self) -> f64 {
        let (mut compared, mut flows) = (0_u64, 0_u64);
        for &first in &self.buckets {
            let chain = core::iter::successors(self.slots.get(usize::from(first)), |slot| {
                self.slots.get(usize::from(slot.next))
            });
            for (before, _) in (0_u64..).zip(chain) {
                compared += before + 1;
                flows += 1;
            }
        }
        if flows == 0 { 0.0 } else { compared as f64 / flows as f64 }
    }

    const fn bucket_mask(&self) -> usize {
        self.buckets.len() - 1
    }

    const fn bucket(&self, hash: u32) -> usize {
        hash as usize & self.bucket_mask()
    }

    /// Returns a CID for the flow with `hash`. It is new, the oldest flow's, or the shared one.
    ///
    /// Where more flows come in turn than there are CIDs, the least recently used CID would always be that of the flow that comes
    /// next. So all but one CID are kept, and the flows without share that one. The oldest kept one is given away
    /// when its flow has been silent for much longer than those without a CID are of late (it has ended, or pauses), and to a flow
    /// that comes much more often: one that sends again before another one shares its CID (its CID is kept then, and the
    /// oldest one shared), or that has come back soon several times.
    ///
    /// After LIRS (S. Jiang, X. Zhang: LIRS: an efficient low inter-reference recency set replacement policy, SIGMETRICS 2002), with
    /// a price for what is moved.
    fn vacate(&mut self, hash: u32) -> Option<u16> {
        if self.slots.len() <= usize::from(self.max_cid) {
            return Some(self.add_slot());
        }
        if self.shared == NONE {
            let first = if self.slots[usize::from(SHORTEST)].reserved { self.oldest } else { SHORTEST };
            self.slots.get(usize::from(first))?;
            self.share(first);
        }
        let oldest = self.silence(self.oldest);
        let is_due = self.count_return(hash) >= RETURNS || oldest > SLACK * self.absence;
        let cid = if is_due && oldest > self.silence(self.shared) { self.oldest } else { self.shared };
        self.remember(cid);
        self.unlink_bucket(cid);
        self.unlink_use(cid);
        Some(cid)
    }

    /// Counts the consecutive early returns of the flow with `hash`.
    fn count_return(&mut self, hash: u32) -> u8 {
        // Little by little: the ghost of a flow may have been overwritten.
        self.absence -= self.absence.div_ceil(8);
        let Some(place) = self.ghost_of(hash) else { return 0 };
        let ghost = self.ghosts[place];
        let silence = self.clock.wrapping_sub(ghost.used_at);
        if ghost.hash != hash || silence >= SOON * self.slots.len() as u32 {
            return 0;
        }
        self.absence = self.absence.max(silence);
        let is_often = self.silence(self.oldest) > SLACK * silence;
        let returns = if is_often { ghost.returns.saturating_add(1) } else { 0 };
        self.ghosts[place].returns = returns;
        returns
    }

    /// Returns the silence of the flow of `cid` in look-ups, or 0.
    fn silence(&self, cid: u16) -> u32 {
        self.slots.get(usize::from(cid)).map_or(0, |slot| self.clock.wrapping_sub(slot.used_at))
    }

    /// Marks `cid` as the shared one. The flow of the last shared one keeps it.
    fn share(&mut self, cid: u16) {
        self.unlink_use(cid);
        let kept = core::mem::replace(&mut self.shared, cid);
        if kept != NONE {
            self.link_newest(kept);
        }
    }

    /// Number of times a CID was reassigned to another flow.
    pub(crate) const fn reassigned(&self) -> u64 {
        self.reassigned
    }

    /// The flow of `cid` loses it.
    fn remember(&mut self, cid: u16) {
        self.reassigned += 1;
        if self.ghosts.is_empty() {
            self.ghosts.resize((4 * self.slots.len()).next_power_of_two().max(GHOSTS), Ghost::default());
        }
        let Slot { hash, used_at, .. } = self.slots[usize::from(cid)];
        if let Some(place) = self.ghost_of(hash) {
            let ghost = &mut self.ghosts[place];
            let returns = if ghost.hash == hash { ghost.returns } else { 0 };
            *ghost = Ghost { hash, used_at, returns };
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
        if self.slots.len() > self.buckets.len() / 2 && !self.is_linear() {
            self.grow_index();
        }
        cid
    }

    fn grow_index(&mut self) {
        let size = self.buckets.len() * 2;
        self.buckets.clear();
        self.buckets.resize(size, NONE);
        for cid in 0..self.slots.len() {
            if self.owners[cid].is_assigned() {
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

    #[inline(never)]
    fn make_newest(&mut self, cid: u16) {
        self.unlink_use(cid);
        self.link_newest(cid);
    }

    /// Returns `true` if `cid` is in the order of use: neither reserved nor shared.
    fn is_ordered(&self, cid: u16) -> bool {
        cid != self.shared && !self.slots[usize::from(cid)].reserved
    }

    fn link_newest(&mut self, cid: u16) {
        if !self.is_ordered(cid) {
            return;
        }
        let older = self.newest;
        let slot = &mut self.slots[usize::from(cid)];
        (slot.newer, slot.older) = (NONE, older);
        match self.slots.get_mut(usize::from(older)) {
            Some(slot) => slot.newer = cid,
            None => self.oldest = cid,
        }
        self.newest = cid;
    }

    fn unlink_use(&mut self, cid: u16) {
        if !self.is_ordered(cid) {
            return;
        }
        let Slot { newer, older, .. } = self.slots[usize::from(cid)];
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
        let mut table = Table::<u32>::new(3, Lookup::Hashed);
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
        let mut table = Table::<u32>::new(2, Lookup::Hashed);
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
        let mut table = Table::<u32>::new(63, Lookup::Hashed);
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

    /// Calls that talk for a quarter of the time: there are enough CIDs for those that talk at a time.
    #[test]
    fn flows_that_talk_again_get_the_cid_that_was_unused_for_longest() {
        let mut table = Table::<u32>::new(15, Lookup::Hashed);
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

    /// Numbers below what is asked for, at random.
    fn dice() -> impl FnMut(u32) -> u32 {
        let mut state = 1_u64;
        move |count| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % count
        }
    }

    /// Calls of which a quarter talks at a time: a talking one pauses after one packet in 50, a silent one talks after one in 150.
    fn calls(count: usize) -> Vec<u32> {
        let mut below = dice();
        let mut talks = alloc::vec![false; count];
        let mut packets = Vec::new();
        for _ in 0..3000 {
            for (call, talks) in (0..).zip(&mut talks) {
                *talks ^= below(if *talks { 50 } else { 150 }) == 0;
                packets.extend(talks.then_some(call));
            }
        }
        packets
    }

    /// Packets that are IRs where four are sent to each new assignment: those of flows on 16 CIDs, and those if the least recently used
    /// CID were always taken.
    fn irs(packets: &[u32]) -> (usize, usize) {
        let mut table = Table::<u32>::new(15, Lookup::Hashed);
        // Packets since the CID, or the flow, got its place.
        let (mut irs, mut sent) = (0, [0; 16]);
        let (mut plain_irs, mut recent) = (0, Vec::<(u32, u32)>::new());
        for &flow in packets {
            let (cid, before) = match table.find_or_assign(&key(flow), || true) {
                Some(Found::Known(cid)) => (cid, sent[usize::from(cid)]),
                Some(Found::Assigned(cid)) => (cid, 0),
                None => panic!("no CID is reserved"),
            };
            sent[usize::from(cid)] = before + 1;
            irs += usize::from(before < 4);
            let place = recent.iter().position(|(other, _)| *other == flow);
            let (_, before) = place.map_or((flow, 0), |place| recent.remove(place));
            recent.push((flow, before + 1));
            plain_irs += usize::from(before < 4);
            if recent.len() > 16 {
                recent.remove(0);
            }
        }
        (irs, plain_irs)
    }

    #[test]
    fn few_more_irs_than_with_the_least_recently_used_cid_where_that_serves_all() {
        let (irs, plain) = irs(&calls(40));
        assert!(plain > 2000 && irs * 100 <= plain * 116, "{irs} for {plain}");
    }

    #[test]
    fn much_fewer_where_more_flows_talk_than_there_are_cids() {
        let in_turn = (0..17).cycle().take(8500).collect();
        let mut below = dice();
        let at_random = (0..30_000).map(|_| below(20)).collect();
        for (packets, at_most) in [(calls(60), 40), (calls(90), 50), (in_turn, 13), (at_random, 56)] {
            let (irs, plain) = irs(&packets);
            assert!(irs * 100 <= plain * at_most, "{irs} for {plain}");
        }
    }

    /// Fourteen that last, alongside short ones of six packets, three at a time.
    #[test]
    fn short_flows_do_not_displace_those_that_last() {
        let short = |step: u32| 100 + step / 18 * 3 + step % 3;
        let packets: Vec<_> = (0..9000).flat_map(|step| [step % 14, short(step)]).collect();
        let (irs, plain) = irs(&packets);
        assert!(irs * 100 <= plain * 77, "{irs} for {plain}");
    }

    /// 40 flows in turn on 16 CIDs: 15 of them keep theirs.
    #[test]
    fn flows_in_turn_do_not_all_lose_their_cids() {
        let mut table = Table::<u32>::new(15, Lookup::Hashed);
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
        let mut table = Table::<u32>::new(15, Lookup::Hashed);
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

    /// CIDs are the same. A linear search compares half of the contexts, the index one or two.
    #[test]
    fn a_linear_search_finds_the_same_and_compares_more() {
        for flows in [1, 31, 311, 4000] {
            let mut tables = [Lookup::Hashed, Lookup::Linear].map(|lookup| Table::<u32>::new(16_383, lookup));
            for flow in (0..flows).chain(0..flows) {
                let [hashed, linear] =
                    tables.each_mut().map(|table| table.find_or_assign(&key(flow), || true));
                assert_eq!(hashed, linear);
            }
            let [hashed, linear] = tables.each_ref().map(Table::mean_comparisons);
            assert!((1.0..1.6).contains(&hashed), "{hashed} of {flows}");
            assert_eq!(linear, (f64::from(flows) + 1.0) / 2.0);
        }
    }

    /// Beside the context itself (at most 800 octets).
    #[test]
    fn a_place_in_the_table_is_small() {
        assert!(size_of::<Slot<u16>>() <= 64);
        assert!(size_of::<Owner>() <= 96);
    }
}
