//! Neighbours that are reached directly, without a route.
//!
//! Any host may connect as a node that is not listed, and leave again. What that costs is for the bundles of the node alone, not for all that are stored.

use bentpipe_units::Time;

use super::Node;
use super::hop::Hop;
use super::store::{Entry, Place, node_key};
use super::turns::Queue;

impl Node {
    /// Adds a neighbour that can be reached at this time. Bundles for it need no route.
    pub fn add_direct(&mut self, neighbour: u64, now: Time) {
        if self.direct.insert(neighbour) {
            self.stranded.meet(neighbour);
            self.meet(neighbour);
            let key = self.named.get(&neighbour).map_or(neighbour, node_key);
            self.store.limbo_for(key).into_iter().for_each(|id| self.dispatch(id, now));
        }
    }

    /// Removes a neighbour of [`Node::add_direct`]. Bundles that wait for it are routed again.
    pub fn remove_direct(&mut self, neighbour: u64, now: Time) {
        if self.direct.remove(&neighbour) {
            self.part(neighbour);
            let listed = self.queues.get(&neighbour).into_iter().flat_map(Queue::ids);
            let is_over = |hop: &Hop| hop.neighbour == neighbour && hop.route.is_none();
            let waits = |id: &u64| {
                let place = self.store.get(*id).map(|entry| &entry.place);
                matches!(place, Some(Place::Waiting(hop)) if is_over(hop))
            };
            let mut ids: Vec<u64> = listed.copied().filter(waits).collect();
            ids.sort_unstable();
            ids.dedup();
            self.put_in_limbo(&ids);
            // Nothing of the list waits for it any more, or it would be listed again with each return.
            let store = &self.store;
            let is_waiting = |id| store.get(id).is_some_and(|entry| entry.is_waiting_for(neighbour));
            self.queues.get_mut(&neighbour).into_iter().for_each(|queue| queue.retain(&is_waiting));
            ids.into_iter().for_each(|id| self.dispatch(id, now));
        }
    }

    /// Removes bundles from their hops.
    pub(super) fn release(&mut self, is_over: &dyn Fn(&Hop) -> bool) {
        let ids = self.store.stranded(is_over);
        self.put_in_limbo(&ids);
        ids.into_iter().for_each(|id| self.store.strand(id));
    }

    fn put_in_limbo(&mut self, ids: &[u64]) {
        for id in ids {
            if let Some(gone) = self.store.get(*id).map(Entry::clone_place) {
                self.forget(&gone);
                self.store.place(*id, Place::Limbo);
            }
        }
    }
}
