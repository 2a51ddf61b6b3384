//! Bundles for endpoints of the node: waiting for applications, and fragments in reassembly.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bentpipe_dtn::node::{Guests, Share, priority};
use bentpipe_wire::dtn::bundle::{Bundle, Timestamp};
use bentpipe_wire::dtn::eid::Eid;

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

/// Mailboxes of a node.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    limit: u64,
    bytes: u64,
    items: HashMap<u64, Item>,
    /// Bundles that wait for an application, by service.
    waiting: BTreeMap<u32, VecDeque<u64>>,
    fragments: HashMap<(Eid, Timestamp), Vec<u64>>,
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
        let displaced: Vec<_> = ids.into_iter().filter_map(taken).collect();
        if !displaced.is_empty() {
            self.forget_fragments();
        }
        Some(displaced)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Keeps a bundle, at the end of its endpoint's line. Its life ends at `expiry`.
    pub(crate) fn keep(&mut self, id: u64, bundle: Bundle, len: u64, expiry: u64, share: Share) {
        self.bytes += len + OVERHEAD;
        if bundle.primary.fragment.is_some() {
            self.fragments.entry(bundle.key()).or_default().push(id);
        } else {
            self.waiting.entry(service(&bundle.primary.destination)).or_default().push_back(id);
        }
        let item = Item { bundle, len, expiry, share };
        self.guests.add(share, item.rank(id), len + OVERHEAD);
        self.items.insert(id, item);
    }

    /// Removes and returns the next bundle that waits for a service.
    pub(crate) fn next(&mut self, service: u32) -> Option<(u64, &Bundle)> {
        let line = self.waiting.get_mut(&service)?;
        let id = loop {
            let Some(id) = line.pop_front() else {
                self.waiting.remove(&service);
                return None;
            };
            if self.items.contains_key(&id) {
                break id;
            }
        };
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
        Some((item.bundle, item.share))
    }

    /// Returns the whole bundle of kept fragments, and its account.
    ///
    /// The numbers are those of fragments that are not needed any more.
    ///
    /// Those of known senders come first. A whole with parts of guests counts to one of them, and the parts of known senders stay: what guests say
    /// may be wrong.
    pub(crate) fn reassemble(&mut self, key: &(Eid, Timestamp)) -> Option<(Bundle, Vec<u64>, Share)> {
        let ids = self.fragments.get(key)?;
        let share_of = |id: &u64| self.items.get(id).map_or(Share::Known, |item| item.share);
        let (guests, known): (Vec<u64>, Vec<u64>) = ids.iter().partition(|id| share_of(id).is_guest());
        if let Some(whole) = self.whole_of(&known) {
            self.fragments.insert(key.clone(), guests);
            return Some((whole, known, Share::Known));
        }
        let share = share_of(guests.last()?);
        let whole = self.whole_of(ids)?;
        self.fragments.insert(key.clone(), known);
        Some((whole, guests, share))
    }

    /// Returns the whole bundle of fragments, if none is missing.
    fn whole_of(&self, ids: &[u64]) -> Option<Bundle> {
        let parts = || ids.iter().filter_map(|id| self.items.get(id)).map(|item| &item.bundle);
        let total = parts().next()?.primary.fragment?.total;
        if parts().map(|part| part.payload.len()).sum::<u64>() < total {
            return None;
        }
        Bundle::reassemble(&parts().cloned().collect::<Vec<_>>())
    }

    /// Removes bundles whose life has ended, and returns their numbers.
    pub(crate) fn expire(&mut self, now: u64) -> Vec<u64> {
        let over: Vec<u64> =
            self.items.iter().filter(|(_, item)| item.expiry <= now).map(|(id, _)| *id).collect();
        over.iter().for_each(|id| _ = self.remove(*id));
        if !over.is_empty() {
            self.forget_fragments();
        }
        over
    }

    /// Removes fragments that are gone from the lists.
    fn forget_fragments(&mut self) {
        let items = &self.items;
        self.fragments.retain(|_, ids| {
            ids.retain(|id| items.contains_key(id));
            !ids.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::dtn::bundle::{Payload, Primary};

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
        assert_eq!(boxes.next(5).map(|(id, _)| id), Some(0));
        boxes.put_back(0);
        assert_eq!(boxes.expire(100), [0]);
        assert_eq!(boxes.next(5).map(|(id, _)| id), Some(1));
        boxes.remove(1);
        assert!(boxes.next(6).is_none());
        assert_eq!(boxes.next(5).map(|(id, _)| id), Some(2));
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
        assert_eq!((boxes.len(), boxes.next(5).map(|(id, _)| id)), (3, Some(1)));
    }

    #[test]
    fn fragments_wait_for_each_other() {
        let mut boxes = Mailboxes::new(1 << 20);
        let whole = bundle(5, 1, 900);
        let parts = whole.clone().fragments(300).expect("fragments");
        let count = parts.len() as u64;
        for (id, part) in parts.into_iter().enumerate() {
            assert_eq!(boxes.reassemble(&whole.key()), None);
            boxes.keep(id as u64, part, 300, 100, Share::Known);
        }
        let (found, ids, share) = boxes.reassemble(&whole.key()).expect("all parts");
        assert_eq!((found.payload.to_vec(), ids.len() as u64), (whole.payload.to_vec(), count));
        assert_eq!((boxes.next(5), share), (None, Share::Known));
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
        let (found, used, share) = boxes.reassemble(&whole.key()).expect("as the guest has it");
        assert_eq!((found.payload.to_vec()[899], used, share), (8, vec![1], guest));
        boxes.remove(1);
        assert_eq!(boxes.reassemble(&whole.key()), None);
        boxes.keep(2, two, 500, 100, Share::Known);
        let (found, used, share) = boxes.reassemble(&whole.key()).expect("the true one");
        assert_eq!((found.payload.to_vec(), used, share), (vec![7; 900], vec![0, 2], Share::Known));
    }
}
