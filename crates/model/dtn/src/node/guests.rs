//! Shares of a storage that hosts have which the node does not know.
//!
//! Hosts without a configuration may have the whole, until the node's own applications or its neighbours need it. Of hosts, the one that has
//! the most gives way, if it still has as much as the newcomer's. So none takes all, and none is driven out by one with as much.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use foldhash::fast::RandomState;

/// Account of the storage that a bundle counts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// Applications of the node, and neighbours that it is configured for.
    #[default]
    Known,
    /// Datagrams of unknown hosts, whose addresses can be forged.
    Unproven,
    /// Another host, by a key.
    Host(u64),
    /// Node that is not configured, of a bundle that was stored before the program started.
    Node(u64),
}

impl Share {
    /// Returns `true` if the share gives way to known ones.
    pub fn is_guest(self) -> bool {
        self != Share::Known
    }
}

/// Order in which bundles of a share give way: priority, end of the lifetime, number.
type Rank = (usize, u64, u64);

#[derive(Debug, Default)]
struct Shelf {
    bytes: u64,
    items: BTreeMap<Rank, u64>,
}

/// Bundles of guests, by their share.
#[derive(Debug, Default)]
pub struct Guests {
    shelves: HashMap<Share, Shelf, RandomState>,
    by_bytes: BTreeSet<(u64, Share)>,
}

/// Shelf of which some items are to give way.
struct Emptied<'a> {
    bytes: u64,
    share: Share,
    items: std::collections::btree_map::Iter<'a, Rank, u64>,
}

impl PartialEq for Emptied<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Emptied<'_> {}

impl PartialOrd for Emptied<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Emptied<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.bytes, self.share).cmp(&(other.bytes, other.share))
    }
}

impl Guests {
    /// Adds a bundle. Known shares are not listed.
    pub fn add(&mut self, share: Share, rank: Rank, size: u64) {
        self.change(share, |shelf| {
            if shelf.items.insert(rank, size).is_none() {
                shelf.bytes += size;
            }
        });
    }

    /// Removes a bundle.
    pub fn remove(&mut self, share: Share, rank: Rank) {
        self.change(share, |shelf| {
            if let Some(size) = shelf.items.remove(&rank) {
                shelf.bytes -= size;
            }
        });
    }

    fn change(&mut self, share: Share, change: impl FnOnce(&mut Shelf)) {
        if !share.is_guest() {
            return;
        }
        let shelf = self.shelves.entry(share).or_default();
        self.by_bytes.remove(&(shelf.bytes, share));
        change(shelf);
        if shelf.items.is_empty() {
            self.shelves.remove(&share);
        } else {
            self.by_bytes.insert((shelf.bytes, share));
        }
    }

    /// Returns the bytes of a share.
    pub fn bytes(&self, share: Share) -> u64 {
        self.shelves.get(&share).map_or(0, |shelf| shelf.bytes)
    }

    /// Returns bundles that give way to one of `size` bytes, and their bytes.
    ///
    /// These are `excess` at least, or as many as may.
    /// To known shares all others give way; to a guest its own of lower priority, and what others have more than it would have.
    pub fn giving_way(&self, newcomer: (Share, usize), size: u64, excess: u64) -> (Vec<u64>, u64) {
        let (share, priority) = newcomer;
        let (mut ids, mut freed) = (Vec::new(), 0);
        if excess == 0 {
            return (ids, 0);
        }
        let own = self.shelves.get(&share);
        for (rank, len) in own.iter().flat_map(|shelf| shelf.items.range(..(priority, 0, 0))) {
            if freed >= excess {
                return (ids, freed);
            }
            ids.push(rank.2);
            freed += len;
        }
        let least = match share.is_guest() {
            true => own.map_or(0, |shelf| shelf.bytes) - freed + size,
            false => 0,
        };
        let mut untouched = self.by_bytes.iter().rev().filter(|(_, other)| *other != share).peekable();
        let mut emptied: BinaryHeap<Emptied<'_>> = BinaryHeap::new();
        while freed < excess {
            // The share that has the most, with what it has lost already.
            let next = untouched.peek().map(|(bytes, share)| (*bytes, *share));
            if let Some((bytes, share)) =
                next.filter(|next| emptied.peek().is_none_or(|most| (most.bytes, most.share) < *next))
            {
                untouched.next();
                let items = self.shelves[&share].items.iter();
                emptied.push(Emptied { bytes, share, items });
            }
            let Some(mut most) = emptied.pop() else { break };
            let Some((rank, len)) = most.items.next() else { continue };
            if most.bytes - len < least {
                // It would have less than the newcomer's. A smaller share has no more to give.
                break;
            }
            ids.push(rank.2);
            freed += len;
            most.bytes -= len;
            emptied.push(most);
        }
        (ids, freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns guests with 100 B each: their shares, and the priorities of their bundles.
    fn guests(held: &[(Share, usize)]) -> Guests {
        let mut guests = Guests::default();
        held.iter()
            .enumerate()
            .for_each(|(n, (share, priority))| guests.add(*share, (*priority, 0, n as u64), 100));
        guests
    }

    #[test]
    fn all_give_way_to_known_ones_and_the_most_first() {
        let (one, two) = (Share::Host(1), Share::Host(2));
        let held = guests(&[(one, 2), (two, 1), (two, 0), (two, 1), (Share::Known, 0)]);
        assert_eq!(held.bytes(two), 300);
        assert_eq!(held.giving_way((Share::Known, 0), 900, 0), (vec![], 0));
        assert_eq!(held.giving_way((Share::Known, 0), 900, 150), (vec![2, 1], 200));
        assert_eq!(held.giving_way((Share::Known, 0), 900, 1000).1, 400, "all but the known one");
    }

    #[test]
    fn a_guest_has_no_more_than_the_one_that_gives_way() {
        let (one, two, three) = (Share::Host(1), Share::Host(2), Share::Host(3));
        let held = guests(&[(one, 1), (two, 1), (two, 1), (two, 1), (two, 1)]);
        assert_eq!(held.giving_way((three, 0), 100, 100), (vec![1], 100));
        assert_eq!(held.giving_way((one, 1), 100, 100), (vec![1], 100));
        assert_eq!(held.giving_way((two, 1), 100, 100), (vec![], 0), "it has its share");
        assert_eq!(held.giving_way((two, 2), 100, 100), (vec![1], 100), "its own of lower priority");
        assert_eq!(held.giving_way((three, 1), 400, 400).1, 0, "it would have the most");
        assert_eq!(held.giving_way((three, 1), 200, 200).1, 200);
    }

    #[test]
    fn what_is_removed_is_not_listed() {
        let one = Share::Host(1);
        let mut held = guests(&[(one, 1), (one, 1)]);
        held.remove(one, (1, 0, 0));
        held.remove(one, (1, 0, 0));
        assert_eq!(held.bytes(one), 100);
        held.remove(one, (1, 0, 1));
        assert_eq!((held.bytes(one), held.giving_way((Share::Known, 0), 1, 1)), (0, (vec![], 0)));
    }
}
