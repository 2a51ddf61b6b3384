//! Operation of a node: list, deletion, names and routes while it runs.

use bentpipe_units::Time;
use bentpipe_wire::dtn::admin::reason;
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::dtn::eid::Eid;

use super::store::Place;
use super::{Node, Routing, Share};

/// State of a stored bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No route.
    Stranded,
    /// Waiting for a neighbour.
    Waiting(u64),
    /// Transmission that has begun.
    Sending,
    /// Kept for copies to several neighbours.
    Kept,
}

/// Stored bundle in a list.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// Number in the storage.
    pub id: u64,
    /// Bundle as it was stored.
    pub bundle: &'a Bundle,
    /// Encoded length in bytes.
    pub size: u64,
    /// Neighbour that it came from.
    pub from: Option<u64>,
    /// Instant at which it came.
    pub arrival: Time,
    /// End of its lifetime.
    pub expiry: Time,
    /// State.
    pub state: State,
}

impl Node {
    /// Returns `most` stored bundles from a number on, in the order of their arrival.
    pub fn list(&self, first: u64, most: usize) -> Vec<Listed<'_>> {
        let ids = self.store.first_numbers(first, most);
        ids.into_iter().filter_map(|id| self.listed(id)).collect()
    }

    fn listed(&self, id: u64) -> Option<Listed<'_>> {
        let entry = self.store.get(id)?;
        let state = match &entry.place {
            Place::Limbo => State::Stranded,
            Place::Waiting(hop) => State::Waiting(hop.neighbour),
            Place::Flying => State::Sending,
            Place::Kept => State::Kept,
        };
        let (bundle, size, from) = (&entry.bundle, entry.size, entry.from);
        Some(Listed { id, bundle, size, from, arrival: entry.arrival, expiry: entry.expiry, state })
    }

    /// Returns the number of bundles that wait for a neighbour, and their bytes.
    pub fn queued(&self, neighbour: u64) -> (usize, u64) {
        let Some(queue) = self.queues.get(&neighbour) else { return (0, 0) };
        let is_waiting =
            |id: &&u64| self.store.get(**id).is_some_and(|entry| entry.is_waiting_for(neighbour));
        (queue.ids().filter(is_waiting).count(), queue.bytes.iter().sum())
    }

    /// Returns the bytes of the bundles that wait for a neighbour.
    pub fn queued_bytes(&self, neighbour: u64) -> u64 {
        self.queues.get(&neighbour).map_or(0, |queue| queue.bytes.iter().sum())
    }

    /// Returns `true` if a stored bundle is there, and is deleted now.
    ///
    /// The reason is "transmission cancelled" (RFC 9171, section 5.12). One that a convergence layer has may arrive all the same.
    pub fn cancel(&mut self, id: u64, now: Time) -> bool {
        let Some(entry) = self.unstore(id, now) else { return false };
        self.counts.cancelled += 1;
        self.forget(&entry);
        self.report_deletion((&entry.bundle, entry.share), reason::CANCELLED, now);
        true
    }

    /// Sets the number of a node whose identifier is of scheme dtn. Any endpoint of it may be given.
    pub fn set_name(&mut self, eid: &Eid, number: u64) {
        self.names.insert(eid.node(), number);
        self.named.insert(number, eid.node());
    }

    /// Forgets the number of a node of [`Node::set_name`].
    pub fn forget_name(&mut self, eid: &Eid) {
        let number = self.names.remove(&eid.node());
        number.into_iter().for_each(|number| _ = self.named.remove(&number));
    }

    /// Returns the number of an endpoint's node, if it has one.
    pub fn number(&self, eid: &Eid) -> Option<u64> {
        super::number(&self.names, eid)
    }

    /// Replaces the routing. Bundles that wait are routed again.
    pub fn set_routing(&mut self, routing: Routing, now: Time) {
        self.release(&|_| true);
        self.routing = routing;
        self.reroute(now);
    }

    /// Returns the neighbours that are reached directly, without a route.
    pub fn direct(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.direct.iter().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Records that a bundle for an application was displaced, and reports it.
    pub fn note_displaced(&mut self, of: (&Bundle, Share), now: Time) {
        self.counts.evicted += 1;
        self.report_deletion(of, reason::STORAGE, now);
    }

    /// Records that the operator has deleted a bundle for an application, and reports it.
    pub fn note_cancelled(&mut self, of: (&Bundle, Share), now: Time) {
        self.counts.cancelled += 1;
        self.report_deletion(of, reason::CANCELLED, now);
    }
}
