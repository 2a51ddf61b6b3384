//! Bundles for endpoints of the node: waiting for applications, and fragments in reassembly.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bentpipe_dtn::node::{Guests, Share, priority};
use bentpipe_wire::dtn::bundle::{Bundle, Timestamp};
use bentpipe_wire::dtn::eid::Eid;

use super::spans::Spans;

/// Maximum number of spans of an incomplete bundle. Fragments that join others add none.
const MAX_SPANS: usize = 1 << 14;
/// Memory of a bundle in addition to its bytes.
const OVERHEAD: u64 = 256;

#[derive(Debug)]
struct Item {
    bundle: Bundle,
    len: u64,
    expiry: u64,
    share: Share,
}

impl Item {
    /// Returns the place among those of its share that give way.
    fn rank(&self, id: u64) -> (usize, u64, u64) {
        (priority(&self.bundle), self.expiry, id)
    }
}

/// Identity of a whole bundle, and the length of its payload. Fragments that state another length are of another one.
pub(crate) type WholeKey = (Eid, Timestamp, u64);

/// Returns the key of the whole bundle, and the place in it, of a fragment.
pub(crate) fn place(bundle: &Bundle) -> Option<(WholeKey, (u64, u64))> {
    let fragment = bundle.primary.fragment?;
    let (source, timestamp) = bundle.key();
    let end = fragment.offset.saturating_add(bundle.payload.len());
    Some(((source, timestamp, fragment.total), (fragment.offset, end)))
}

/// Fragments of an incomplete bundle.
#[derive(Debug, Default)]
struct Fragments {
    ids: BTreeSet<u64>,
    /// Bytes of known senders' fragments.
    known: Spans,
    /// Bytes of all fragments.
    all: Spans,
}

impl Fragments {
    fn add(&mut self, id: u64, (from, to): (u64, u64), share: Share) {
        self.ids.insert(id);
        self.all.insert(from, to);
        if !share.is_guest() {
            self.known.insert(from, to);
        }
    }

    /// Removes a fragment. Bytes that another one of its kind has too count as missing until they come again.
    fn remove(&mut self, id: u64, (from, to): (u64, u64), share: Share) {
        self.ids.remove(&id);
        self.all.remove(from, to);
        if share.is_guest() {
            let known: Vec<_> = self.known.within(from, to).collect();
            known.into_iter().for_each(|(from, to)| self.all.insert(from, to));
        } else {
            self.known.remove(from, to);
        }
    }
}

/// Mailboxes of a node.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    limit: u64,
    bytes: u64,
    items: HashMap<u64, Item>,
    /// Bundles that wait for an application, by service.
    waiting: BTreeMap<u32, VecDeque<u64>>,
    fragments: HashMap<WholeKey, Fragments>,
    /// Bundles of hosts that are not known.
    guests: Guests,
}

/// Returns the service of an endpoint of scheme ipn.
pub(crate) fn service(eid: &Eid) -> u32 {
    if let Eid::Ipn(ipn) = eid { ipn.service } else { 0 }
}

impl Mailboxes {
    pub(crate) fn new(limit: u64) -> Mailboxes {
        Mailboxes { limit, ..Mailboxes::default() }
    }

    /// Returns `true` if a bundle of this length can be kept.
    pub(crate) fn has_room(&self, len: u64) -> bool {
        self.bytes + len + OVERHEAD <= self.limit
    }

    /// Removes and returns guests' bundles until another one has room.
    ///
    /// `None` if too few may give way.
    pub(crate) fn make_room(
        &mut self,
        len: u64,
        newcomer: (Share, usize),
    ) -> Option<Vec<(u64, Bundle, Share)>> {
        let size = len + OVERHEAD;
        let excess = (self.bytes + size).saturating_sub(self.limit);
        let (ids, freed) = self.guests.giving_way(newcomer, size, excess);
        if freed < excess {
            return None;
        }
        let taken = |id| self.take(id).map(|(bundle, share)| (id, bundle, share));
        Some(ids.into_iter().filter_map(taken).collect())
    }

    /// Returns `true` unless a bundle is a fragment with too many gaps among the others.
    pub(crate) fn takes(&self, bundle: &Bundle) -> bool {
        place(bundle).is_none_or(|(key, (from, to))| {
            self.fragments.get(&key).is_none_or(|parts| parts.all.count_with(from, to) <= MAX_SPANS)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Keeps a bundle, at the end of its endpoint's line. Its life ends at `expiry`.
    pub(crate) fn keep(&mut self, id: u64, bundle: Bundle, len: u64, expiry: u64, share: Share) {
        self.bytes += len + OVERHEAD;
        if let Some((key, place)) = place(&bundle) {
            self.fragments.entry(key).or_default().add(id, place, share);
        } else {
            self.waiting.entry(service(&bundle.primary.destination)).or_default().push_back(id);
        }
        let item = Item { bundle, len, expiry, share };
        self.guests.add(share, item.rank(id), len + OVERHEAD);
        self.items.insert(id, item);
    }

    /// Removes and returns the next bundle that waits for a service.
    ///
    /// It has at most `limit` bytes. Longer ones wait for an application that takes them.
    pub(crate) fn next(&mut self, service: u32, limit: u64) -> Option<(u64, &Bundle)> {
        let line = self.waiting.get_mut(&service)?;
        let fits = |id: &u64| self.items.get(id).is_some_and(|item| item.len <= limit);
        let at = line.iter().position(fits)?;
        let id = line.remove(at)?;
        self.items.get(&id).map(|item| (id, &item.bundle))
    }

    /// Returns a bundle to its line, in front of those that came later.
    pub(crate) fn put_back(&mut self, id: u64) {
        if let Some(item) = self.items.get(&id) {
            let line = self.waiting.entry(service(&item.bundle.primary.destination)).or_default();
            line.insert(line.partition_point(|other| *other < id), id);
        }
    }

    /// Returns the bundles that wait for applications and fragments, in the order of their arrival.
    pub(crate) fn list(&self, first: u64, most: usize) -> Vec<(u64, &Bundle, u64, u64)> {
        let mut ids: Vec<u64> = self.items.keys().copied().filter(|id| *id >= first).collect();
        ids.sort_unstable();
        ids.truncate(most);
        let item = |id: u64| self.items.get(&id).map(|item| (id, &item.bundle, item.len, item.expiry));
        ids.into_iter().filter_map(item).collect()
    }

    /// Returns a bundle and its account of the storage.
    pub(crate) fn bundle(&self, id: u64) -> Option<(&Bundle, Share)> {
        self.items.get(&id).map(|item| (&item.bundle, item.share))
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Bundle> {
        self.take(id).map(|(bundle, _)| bundle)
    }

    /// Removes and returns a bundle, and its account of the storage.
    pub(crate) fn take(&mut self, id: u64) -> Option<(Bundle, Share)> {
        let item = self.items.remove(&id)?;
        self.bytes -= item.len + OVERHEAD;
        self.guests.remove(item.share, item.rank(id));
        match place(&item.bundle) {
            Some((key, place)) => {
                if let Some(parts) = self.fragments.get_mut(&key) {
                    parts.remove(id, place, item.share);
                    if parts.ids.is_empty() {
                        self.fragments.remove(&key);
                    }
                }
            }
            None => self.leave_line(id, service(&item.bundle.primary.destination)),
        }
        Some((item.bundle, item.share))
    }

    /// Removes a bundle from its endpoint's line, if it is there.
    fn leave_line(&mut self, id: u64, service: u32) {
        let Some(line) = self.waiting.get_mut(&service) else { return };
        let at = line.partition_point(|other| *other < id);
        if line.get(at) == Some(&id) {
            line.remove(at);
        }
        if line.is_empty() {
            self.waiting.remove(&service);
        }
    }

    /// Returns the whole bundle of kept fragments, and its account.
    ///
    /// The numbers are those of fragments that are not needed any more.
    ///
    /// Those of known senders come first. A whole with parts of guests counts to one of them, and the parts of known senders stay: what guests say
    /// may be wrong.
    pub(crate) fn reassemble(&self, key: &WholeKey) -> Option<(Bundle, Vec<u64>, Share)> {
        let Fragments { ids, known, all } = self.fragments.get(key)?;
        if !all.covers(key.2) {
            return None;
        }
        let share_of = |id: &u64| self.items.get(id).map_or(Share::Known, |item| item.share);
        let (guests, others): (Vec<u64>, Vec<u64>) = ids.iter().partition(|id| share_of(id).is_guest());
        if known.covers(key.2)
            && let Some(whole) = self.whole_of(&others)
        {
            return Some((whole, others, Share::Known));
        }
        let share = share_of(guests.last()?);
        let whole = self.whole_of(ids)?;
        Some((whole, guests, share))
    }

    /// Returns the whole bundle of fragments, if none is missing.
    fn whole_of<'a>(&self, ids: impl IntoIterator<Item = &'a u64>) -> Option<Bundle> {
        let parts = ids.into_iter().filter_map(|id| self.items.get(id)).map(|item| item.bundle.clone());
        Bundle::reassemble(&parts.collect::<Vec<_>>())
    }

    /// Removes bundles whose life has ended, and returns their numbers.
    pub(crate) fn expire(&mut self, now: u64) -> Vec<u64> {
        let over: Vec<u64> =
            self.items.iter().filter(|(_, item)| item.expiry <= now).map(|(id, _)| *id).collect();
        over.iter().for_each(|id| _ = self.remove(*id));
        over
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::dtn::bundle::{Fragment, Payload, Primary};

    use super::*;

    fn bundle(service: u32, sequence: u64, len: usize) -> Bundle {
        let stamp = Timestamp { time: 1, sequence };
        let primary = Primary::new(Eid::ipn(1, 1), Eid::ipn(2, service), stamp, 1000);
        Bundle { primary, blocks: vec![], payload: Payload::new(vec![7; len]) }
    }

    #[test]
    fn lines_are_in_order_bounded_and_expire() {
        let mut boxes = Mailboxes::new(1000);
        for id in 0..3 {
            assert!(boxes.has_room(50));
            boxes.keep(id, bundle(5, id, 10), 50, 100 + id, Share::Known);
        }
        assert!(!boxes.has_room(50), "each bundle costs its overhead too");
        assert_eq!(boxes.next(5, 50).map(|(id, _)| id), Some(0));
        boxes.put_back(0);
        assert_eq!(boxes.expire(100), [0]);
        assert_eq!(boxes.next(5, 50).map(|(id, _)| id), Some(1));
        boxes.remove(1);
        assert!(boxes.next(6, 50).is_none());
        assert_eq!(boxes.next(5, 50).map(|(id, _)| id), Some(2));
        assert_eq!(boxes.len(), 1);
    }

    #[test]
    fn guests_give_way_and_no_line_has_them_then() {
        let mut boxes = Mailboxes::new(1000);
        for id in 0..3 {
            boxes.keep(id, bundle(5, id, 10), 50, 100, Share::Host(1));
        }
        assert_eq!(boxes.make_room(50, (Share::Host(1), 1)), None, "its own");
        let gone = boxes.make_room(50, (Share::Known, 0)).expect("room");
        assert_eq!(gone.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [0]);
        boxes.keep(3, bundle(6, 3, 10), 50, 100, Share::Known);
        assert_eq!(boxes.make_room(900, (Share::Known, 2)), None, "known ones stay");
        assert_eq!((boxes.len(), boxes.next(5, 50).map(|(id, _)| id)), (3, Some(1)));
    }

    /// Returns the key of fragments of a bundle.
    fn key(whole: &Bundle) -> WholeKey {
        (whole.primary.source.clone(), whole.primary.timestamp, whole.payload.len())
    }

    /// Returns a fragment of a byte.
    fn piece(offset: u64, total: u64) -> Bundle {
        let one = bundle(7, 1, 1);
        let fragment = Some(Fragment { offset, total });
        Bundle { primary: Primary { fragment, ..one.primary }, ..one }
    }

    #[test]
    fn fragments_that_join_nothing_are_bounded_and_cost_no_more_the_more_there_are() {
        let (mut boxes, total, guest) = (Mailboxes::new(1 << 30), 8_000_000, Share::Host(9));
        let whole = (Eid::ipn(1, 1), Timestamp { time: 1, sequence: 1 }, total);
        // Another one states a total that it reaches.
        boxes.keep(9_000_000, piece(3, 4), 50, 100, guest);
        let begun = bentpipe_testkit::processor_time();
        let mut count = 0;
        while boxes.takes(&piece(2 * count, total)) && count < 100_000 {
            boxes.keep(count, piece(2 * count, total), 50, 100, guest);
            assert_eq!(boxes.reassemble(&whole), None);
            count += 1;
        }
        assert_eq!(count, MAX_SPANS as u64);
        let taken = bentpipe_testkit::processor_time() - begun;
        assert!(taken < std::time::Duration::from_secs(5), "{taken:?}");
        assert!(boxes.takes(&piece(1, total)), "it joins two");
        assert!(boxes.takes(&bundle(7, 2, 1)) && boxes.takes(&piece(5, 20)));
        for id in 0..count {
            assert!(boxes.remove(id).is_some());
        }
        assert_eq!((boxes.fragments.len(), boxes.len()), (1, 1), "nothing is left of it");
    }

    #[test]
    fn what_is_displaced_of_a_bundle_is_missing_until_it_comes_again() {
        let (mut boxes, guest) = (Mailboxes::new(1 << 20), Share::Host(9));
        let whole = (Eid::ipn(1, 1), Timestamp { time: 1, sequence: 1 }, 4);
        for (id, offset) in [0, 1, 3].into_iter().enumerate() {
            boxes.keep(id as u64, piece(offset, 4), 50, 100, guest);
        }
        boxes.keep(3, piece(1, 4), 50, 100, Share::Known);
        boxes.remove(1);
        boxes.remove(0);
        boxes.keep(4, piece(2, 4), 50, 100, guest);
        assert_eq!(boxes.reassemble(&whole), None);
        boxes.keep(5, piece(0, 4), 50, 100, guest);
        let (found, used, share) = boxes.reassemble(&whole).expect("all bytes");
        assert_eq!((found.payload.to_vec(), used, share), (vec![7; 4], vec![2, 4, 5], guest));
    }

    #[test]
    fn a_bundle_longer_than_its_application_takes_keeps_no_other_one_waiting() {
        let mut boxes = Mailboxes::new(1 << 20);
        boxes.keep(0, bundle(5, 0, 900), 940, 100, Share::Known);
        boxes.keep(1, bundle(5, 1, 10), 50, 100, Share::Known);
        assert_eq!(boxes.next(5, 100).map(|(id, _)| id), Some(1));
        assert_eq!(boxes.next(5, 100), None);
        assert_eq!(boxes.next(5, 940).map(|(id, _)| id), Some(0));
        boxes.put_back(0);
        boxes.remove(0);
        assert!(boxes.waiting.is_empty(), "what is gone has no place in a line");
    }

    #[test]
    fn fragments_wait_for_each_other() {
        let mut boxes = Mailboxes::new(1 << 20);
        let whole = bundle(5, 1, 900);
        let parts = whole.clone().fragments(300).expect("fragments");
        let count = parts.len() as u64;
        for (id, part) in parts.into_iter().enumerate() {
            assert_eq!(boxes.reassemble(&key(&whole)), None);
            boxes.keep(id as u64, part, 300, 100, Share::Known);
        }
        let (found, ids, share) = boxes.reassemble(&key(&whole)).expect("all parts");
        assert_eq!((found.payload.to_vec(), ids.len() as u64), (whole.payload.to_vec(), count));
        assert_eq!((boxes.next(5, 50), share), (None, Share::Known));
    }

    #[test]
    fn fragments_of_guests_spoil_no_bundle_of_known_senders() {
        let mut boxes = Mailboxes::new(1 << 20);
        let (whole, guest) = (bundle(5, 1, 900), Share::Host(9));
        let forged = Bundle { payload: Payload::new(vec![8; 900]), ..whole.clone() };
        let [one, two] = whole.clone().split(400).expect("two parts");
        let [_, false_two] = forged.split(400).expect("two parts");
        boxes.keep(0, one, 500, 100, Share::Known);
        boxes.keep(1, false_two, 500, 100, guest);
        let (found, used, share) = boxes.reassemble(&key(&whole)).expect("as the guest has it");
        assert_eq!((found.payload.to_vec()[899], used, share), (8, vec![1], guest));
        boxes.remove(1);
        assert_eq!(boxes.reassemble(&key(&whole)), None);
        boxes.keep(2, two, 500, 100, Share::Known);
        let (found, used, share) = boxes.reassemble(&key(&whole)).expect("the true one");
        assert_eq!((found.payload.to_vec(), used, share), (vec![7; 900], vec![0, 2], Share::Known));
    }
}
