//! Bundle node (RFC 9171, section 5), without I/O.
//!
//! Models the reception of bundles with blocks that are malformed or not known, forwarding by contact plan or static routes, storage bounded in bytes with three priorities
//! and shares of hosts that are not configured, lifetime by clock or
//! age, hop limits, proactive fragmentation to the length that a convergence layer takes, reactive fragmentation of transfers
//! that were cut, reassembly, and status reports.
//! Epidemic routing and spray and wait forward copies, in `copies`.
//! Does not model custody and bundle-in-bundle encapsulation.
//!
//! Priorities are this project's own: block type 193 of the private range, an unsigned integer of 0 to 2. Nodes that do
//! not know it forward it. Bundles without it are of priority 1.

mod copies;
mod direct;
mod guests;
mod holdings;
mod hop;
mod memory;
mod operate;
mod origination;
mod rations;
mod reception;
mod reports;
mod routing;
mod spread;
mod store;
mod stranded;
mod turns;

use std::collections::{HashMap, HashSet, VecDeque};

use bentpipe_net::ledger::SubAccount;
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::admin::reason;
use bentpipe_wire::dtn::bundle::{Bundle, Content, Fragment, HopCount, Timestamp};
use bentpipe_wire::dtn::cbor;
use bentpipe_wire::dtn::eid::Eid;

pub use copies::COPIES_BLOCK;
use copies::Meeting;
pub use guests::{Guests, Share};
use holdings::Notes;
pub use holdings::{Gone, Holdings, Places, Registry, Whereabouts};
pub use memory::{Memory, Source};
pub use operate::{Listed, State};
use rations::Rations;
pub use routing::Routing;
use spread::Spread;
pub use store::Change;
use store::{Entry, Place, Store};
pub use stranded::Problem;
use stranded::Stranded;
use turns::Queue;

/// Type code of the priority block.
pub const PRIORITY_BLOCK: u64 = 193;
/// Priority of bundles without a priority block.
const NORMAL: usize = 1;
/// Bytes that the fields of a fragment take at most.
const FRAGMENT_LEN: u64 = 18;
/// Priority of expedited bundles.
pub(crate) const URGENT: usize = 2;
/// Maximum number of bundles in reassembly.
const MAX_PARTIAL: usize = 10_000;

/// Limits of what a convergence layer takes to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an encoded bundle.
    pub len: u64,
    /// Fragments that a bundle may be cut into.
    pub fragments: u64,
}

/// Settings of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Endpoint identifier of the node; scheme ipn.
    pub eid: Eid,
    /// Storage in bytes.
    pub storage: u64,
    /// Enables status reports.
    pub reports: bool,
    /// Time of instant 0 in milliseconds since 2000.
    pub epoch: u64,
    /// Time without a route after which forwarding has failed (RFC 9171, section 5.4.2).
    ///
    /// `None` if a bundle is kept until its lifetime ends.
    pub no_route: Option<Span>,
}

/// Counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bundles from applications.
    pub originated: u64,
    /// Bundles from other nodes.
    pub received: u64,
    /// Bundles that convergence layers have sent.
    pub forwarded: u64,
    /// Bundles to applications.
    pub delivered: u64,
    /// Bundles whose lifetime ended.
    pub expired: u64,
    /// Bundles that others of higher priority displaced, or those of hosts that give way.
    pub evicted: u64,
    /// Bundles that did not fit the storage.
    pub refused: u64,
    /// Bundles that break a rule.
    pub malformed: u64,
    /// Bundles with an unsupported block that demands deletion.
    pub unsupported: u64,
    /// Bundles beyond their hop limit.
    pub hop_limit: u64,
    /// Bundles that no convergence layer takes.
    pub too_long: u64,
    /// Bundles deleted as no route led to their destination.
    pub no_route: u64,
    /// Bundles that an operator has deleted.
    pub cancelled: u64,
    /// Bundles queued again after a transmission failed or a contact ended.
    pub rerouted: u64,
    /// Fragments made.
    pub fragments: u64,
    /// Bundles of which a neighbour keeps the first part, and only the rest is left.
    pub resumed: u64,
    /// Bytes of payload that those neighbours keep.
    pub spared: u64,
    /// Status reports sent.
    pub reports: u64,
    /// Status reports not sent, as a sender that is not known caused too many.
    pub reports_left_out: u64,
    /// Copies of bundles that this node has had already.
    pub duplicates: u64,
}

/// Arrival of a bundle, by the keeper of what this node does not store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The bundle is deleted, with a report if it asks for one.
    Final,
    /// The neighbour keeps it: its convergence layer can be refused the bundle.
    Refusable,
    /// The bundle is stored even beyond the limit, as a part was acknowledged.
    ///
    /// There was room for it then ([`Node::has_room`]), and the neighbour may not have all of it any more.
    Promised,
}

impl Arrival {
    /// Returns [`Arrival::Promised`] if a part was acknowledged, and this arrival otherwise.
    #[must_use]
    pub fn or_promised(self, is_promised: bool) -> Arrival {
        if is_promised { Arrival::Promised } else { self }
    }
}

/// Bundle node.
#[derive(Debug)]
pub struct Node {
    config: Config,
    routing: Routing,
    store: Store,
    /// Waiting bundles of each neighbour by priority, and their bytes.
    queues: HashMap<u64, Queue>,
    /// Fragments of bundles for this node.
    partial: HashMap<(Eid, Timestamp), Vec<Bundle>>,
    deliveries: VecDeque<(Bundle, Share)>,
    /// Neighbours that are reached directly, not by the routes.
    direct: HashSet<u64>,
    /// Numbers of nodes whose identifiers are of scheme dtn.
    names: HashMap<Eid, u64>,
    /// Identifiers of those nodes by their numbers.
    named: HashMap<u64, Eid>,
    /// Bundles without a route, and what is to be said of them.
    stranded: Stranded,
    /// Neighbours, copies in flight and bundles known, for routing that makes copies.
    meeting: Meeting,
    /// Notes of what is stored, for the bundles of flows.
    notes: Notes,
    sequence: u64,
    counts: Counts,
    /// Set while a report is stored. What it displaces has no report, or each might displace another.
    is_reporting: bool,
    /// Reports that guests may cause.
    rations: Rations,
}

/// Bundles that wait for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Bytes of all of them.
    pub bytes: u64,
    /// Arrival of one that came first.
    pub since: Time,
    /// Highest priority.
    pub priority: usize,
}

/// Returns the priority of a bundle.
pub fn priority(bundle: &Bundle) -> usize {
    let code = |content: &Content| match content {
        Content::Other { code: PRIORITY_BLOCK, data } => cbor::Reader::new(data).uint().ok(),
        _ => None,
    };
    bundle
        .blocks
        .iter()
        .find_map(|block| code(&block.content))
        .map_or(NORMAL, |priority| priority.min(2) as usize)
}

/// Returns the block of a priority, 0 to 2.
pub fn priority_block(priority: u8) -> Content {
    Content::Other { code: PRIORITY_BLOCK, data: [priority.min(2)].into() }
}

impl Node {
    /// Creates a node.
    pub fn new(config: Config, routing: Routing) -> Node {
        Node {
            store: Store::new(config.storage),
            config,
            routing,
            queues: HashMap::new(),
            partial: HashMap::new(),
            deliveries: VecDeque::new(),
            direct: HashSet::new(),
            names: HashMap::new(),
            named: HashMap::new(),
            stranded: Stranded::default(),
            meeting: Meeting::default(),
            notes: Notes::default(),
            sequence: 0,
            counts: Counts::default(),
            is_reporting: false,
            rations: Rations::default(),
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Notes the whereabouts of bundles in a registry, that others of its network share.
    ///
    /// The light time is the longest to a neighbour.
    pub fn register(&mut self, registry: Registry, name: &str, light_time: Span) {
        self.notes.register(registry, name, light_time);
    }

    /// Returns the registry of [`Node::register`].
    pub fn registry(&self) -> Option<&Registry> {
        self.notes.registry()
    }

    /// Returns the account of the datagrams of a stored bundle's flow.
    pub fn datagrams_of(&self, id: u64) -> Option<SubAccount> {
        self.notes.datagrams_of(&self.store.get(id)?.bundle)
    }

    /// Removes a bundle from the storage.
    fn unstore(&mut self, id: u64, now: Time) -> Option<Entry> {
        let entry = self.store.remove(id)?;
        self.notes.release(&entry.bundle, now);
        Some(entry)
    }

    /// Returns the number of bundles in storage and their bytes.
    pub fn stored(&self) -> (usize, u64) {
        (self.store.len(), self.store.bytes())
    }

    /// Counts memory of each stored bundle in addition to its bytes. Default: 0.
    pub fn set_overhead(&mut self, bytes: u64) {
        self.store.set_overhead(bytes);
    }

    /// Records changes of the storage from here on, for [`Node::take_changes`]. New bundles are numbered from `next`.
    pub fn record_changes(&mut self, next: u64) {
        self.store.record(next);
    }

    /// Removes and returns the recorded changes.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.store.take_changes()
    }

    /// Returns the changes that are recorded and not taken.
    pub fn changes(&self) -> &[Change] {
        self.store.changes()
    }

    /// Removes a bundle that the caller cannot store after all. Its neighbour keeps it, and may send it again.
    pub fn discard(&mut self, id: u64) {
        if let Some(entry) = self.store.remove(id) {
            self.counts.refused += 1;
            self.meeting.forget((&entry.bundle, entry.share));
            self.forget(&entry);
        }
    }

    /// Forgets a bundle for an application that the caller cannot store after all.
    pub fn forget_delivery(&mut self, of: (&Bundle, Share)) {
        self.meeting.forget(of);
    }

    /// Returns a stored bundle, its sender among the neighbours, and its arrival.
    pub fn bundle(&self, id: u64) -> Option<(&Bundle, Option<u64>, Time)> {
        self.store.get(id).map(|entry| (&entry.bundle, entry.from, entry.arrival))
    }

    /// Returns the account of a stored bundle.
    pub fn share(&self, id: u64) -> Share {
        self.store.get(id).map_or(Share::Known, |entry| entry.share)
    }

    /// Stores a bundle of an earlier run again under its number.
    ///
    /// It has been at this node for `resided`, and its encoded length was `len`.
    ///
    /// Its route is chosen by [`Node::reroute`].
    pub fn restore(
        &mut self,
        id: u64,
        (mut bundle, len): (Bundle, u64),
        (from, share): (Option<u64>, Share),
        resided: Span,
        now: Time,
    ) {
        let mut size = len;
        if let Some(age) = bundle.age() {
            bundle.set(Content::Age(age.saturating_add(resided.as_nanos() / 1_000_000)));
            size = bundle.encoded_len();
        }
        let (priority, expiry) = (priority(&bundle), self.expiry(&bundle, now));
        // Copies that were given away before are not known any more.
        let spread = self.routing.copies(Some(None)).map(Spread::boxed);
        let place = Place::Limbo;
        self.stranded.note_restart(now);
        // What it brought before the restart, its reports may have.
        self.rations.earn(share, size, now);
        self.store
            .put(id, Entry { size, priority, from, expiry, arrival: now, place, share, spread, bundle });
        self.store.strand(id);
    }

    /// Returns the endpoint identifier of the node.
    pub fn eid(&self) -> &Eid {
        &self.config.eid
    }

    /// Sets the time of instant 0 in milliseconds since 2000. Bundles that are stored keep the end of their lifetime.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.config.epoch = epoch;
    }

    /// Returns the time of an instant in milliseconds since 2000.
    pub fn dtn_time(&self, now: Time) -> u64 {
        self.config.epoch + now.as_nanos() / 1_000_000
    }

    /// Returns a creation timestamp that no other bundle of the node has.
    pub fn timestamp(&mut self, now: Time) -> Timestamp {
        self.sequence += 1;
        Timestamp { time: self.dtn_time(now), sequence: self.sequence }
    }

    /// Returns `true` if the storage has room for as many bytes.
    pub fn has_room(&self, len: u64) -> bool {
        self.store.has_room(len)
    }

    /// Returns `true` if a bundle is stored. It then has a route, if there is one.
    fn keep(
        &mut self,
        bundle: Bundle,
        (from, share, expiry): (Option<u64>, Share, Time),
        spread: Option<Box<Spread>>,
        is_promised: bool,
        now: Time,
    ) -> bool {
        let (size, priority) = (bundle.encoded_len(), priority(&bundle));
        let place = Place::Limbo;
        let entry = Entry { size, priority, from, expiry, arrival: now, place, share, spread, bundle };
        let id = self.put(entry, is_promised, now);
        id.into_iter().for_each(|id| self.dispatch(id, now));
        id.is_some()
    }

    /// Stores a bundle without a route, and returns its number.
    fn put(&mut self, entry: Entry, is_promised: bool, now: Time) -> Option<u64> {
        match self.store.insert(entry, is_promised) {
            Ok((id, evicted)) => {
                self.store.get(id).into_iter().for_each(|entry| self.notes.hold(&entry.bundle));
                for entry in evicted {
                    self.notes.release(&entry.bundle, now);
                    self.counts.evicted += 1;
                    self.forget(&entry);
                    self.report_deletion((&entry.bundle, entry.share), reason::STORAGE, now);
                }
                Some(id)
            }
            Err(entry) => {
                self.counts.refused += 1;
                self.report_deletion((&entry.bundle, entry.share), reason::STORAGE, now);
                None
            }
        }
    }

    /// Returns the end of a bundle's lifetime. Without a clock at its source the age counts.
    fn expiry(&self, bundle: &Bundle, now: Time) -> Time {
        let lifetime = bundle.primary.lifetime;
        let left = match bundle.primary.timestamp.time {
            0 => lifetime.saturating_sub(bundle.age().unwrap_or(0)),
            created => created.saturating_add(lifetime).saturating_sub(self.dtn_time(now)),
        };
        // Lifetimes may exceed what instants hold.
        now + Span::from_millis(left.min(3_000_000_000_000))
    }

    fn deliver(&mut self, bundle: Bundle, share: Share, now: Time) {
        let key = bundle.key();
        if bundle.primary.fragment.is_none() {
            // Fragments of a bundle that came whole after all are of no use.
            self.drop_parts(&key, now);
            return self.deliveries.push_back((bundle, share));
        }
        if self.partial.len() >= MAX_PARTIAL && !self.partial.contains_key(&key) {
            self.counts.refused += 1;
            return self.notes.delete(&bundle, reason::STORAGE, now);
        }
        self.notes.hold(&bundle);
        let parts = self.partial.entry(key.clone()).or_default();
        parts.push(bundle);
        if let Some(whole) = Bundle::reassemble(parts) {
            self.drop_parts(&key, now);
            let expiry = self.expiry(&whole, now);
            self.know((&whole, share), expiry);
            self.deliveries.push_back((whole, share));
        }
    }

    /// Drops the parts of a bundle.
    fn drop_parts(&mut self, key: &(Eid, Timestamp), now: Time) {
        let parts = self.partial.remove(key).unwrap_or_default();
        parts.iter().for_each(|part| self.notes.release(part, now));
    }

    /// Records that an application took a bundle of [`Node::poll_delivery`], and reports it.
    pub fn note_delivery(&mut self, bundle: &Bundle, now: Time) {
        self.note_delivery_for((bundle, Share::Known), now);
    }

    /// Records that an application took a bundle of an account, and reports it.
    pub fn note_delivery_for(&mut self, of: (&Bundle, Share), now: Time) {
        self.notes.deliver(of.0);
        self.counts.delivered += 1;
        self.report_delivery(of, now);
    }

    /// Removes and returns the next bundle for an application of this node.
    ///
    /// It counts as delivered once the application has it ([`Node::note_delivery`]).
    pub fn poll_delivery(&mut self) -> Option<Bundle> {
        self.poll_delivery_of().map(|(bundle, _)| bundle)
    }

    /// Removes and returns the next bundle for an application, and its account.
    pub fn poll_delivery_of(&mut self) -> Option<(Bundle, Share)> {
        self.deliveries.pop_front()
    }

    /// Returns `true` if a bundle for an application waits.
    pub fn has_delivery(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Returns the number of bundles that wait for applications.
    pub fn deliveries(&self) -> usize {
        self.deliveries.len()
    }

    /// Queues a stored bundle for the neighbour on its route.
    ///
    /// Parts of it are queued if no route takes it whole.
    fn dispatch(&mut self, id: u64, now: Time) {
        if !self.enqueue(id, now) {
            self.divide(id, now);
            self.strand(id, now);
        }
    }

    /// Returns `true` if a stored bundle has a route or needs none. It is queued then.
    fn enqueue(&mut self, id: u64, now: Time) -> bool {
        let Some(entry) = self.store.get(id) else { return true };
        if entry.spread.is_some() {
            self.offer(id);
            return true;
        }
        let backlog = |neighbour: u64| backlog(&self.queues, neighbour, entry.level());
        let to = number(&self.names, &entry.bundle.primary.destination);
        let hop = match direct(&self.direct, to, entry) {
            Some(hop) => Some(hop),
            None => self.routing.choose((entry, to), now, &backlog),
        };
        let Some(hop) = hop else {
            self.store.strand(id);
            return false;
        };
        self.queues.entry(hop.neighbour).or_default().push(id, entry);
        self.store.place(id, Place::Waiting(hop));
        true
    }

    /// Replaces a bundle by parts, if contacts take all of them.
    fn divide(&mut self, id: u64, now: Time) {
        let may_divide = |entry: &&Entry| self.routing.has_contacts() && entry.bundle.is_divisible();
        let Some(entry) = self.store.get(id).filter(may_divide) else { return };
        let overhead = self.outgoing(entry, now).encoded_len() - entry.bundle.payload.len() + FRAGMENT_LEN;
        let backlog = |neighbour: u64| backlog(&self.queues, neighbour, entry.level());
        let to = number(&self.names, &entry.bundle.primary.destination);
        let Some(sizes) = self.routing.parts((entry, overhead), to, now, &backlog) else { return };
        let Some(entry) = self.unstore(id, now) else { return };
        let (mut parts, mut rest) = (Vec::new(), aged(&entry, now));
        for size in &sizes[..sizes.len() - 1] {
            let Ok([first, after]) = rest.clone().split(size - overhead) else { break };
            parts.push(first);
            rest = after;
        }
        parts.push(rest);
        self.counts.fragments += parts.len() as u64;
        let Entry { from, share, expiry, priority, .. } = entry;
        for bundle in parts {
            let (size, place) = (bundle.encoded_len(), Place::Limbo);
            let part =
                Entry { size, priority, from, expiry, arrival: now, place, share, spread: None, bundle };
            // Headers alone make them longer than the bundle, which had its place.
            let id = self.put(part, true, now);
            id.into_iter().for_each(|id| _ = self.enqueue(id, now));
        }
    }

    /// Removes an entry from its queue's count and from the ledger.
    fn forget(&mut self, entry: &Entry) {
        for neighbour in entry.spread.iter().flat_map(|spread| &spread.waiting) {
            if let Some(queue) = self.queues.get_mut(neighbour) {
                queue.forget(entry);
            }
        }
        if let Place::Waiting(hop) = &entry.place {
            if let Some(queue) = self.queues.get_mut(&hop.neighbour) {
                queue.forget(entry);
            }
            self.routing.release(entry, hop);
        }
    }

    /// Returns `true` if a bundle waits for a neighbour.
    pub fn has_bundle(&self, neighbour: u64) -> bool {
        self.queues.get(&neighbour).is_some_and(|queue| queue.bytes.iter().any(|bytes| *bytes > 0))
    }

    /// Returns what waits for a neighbour, if something does.
    pub fn waiting(&mut self, neighbour: u64) -> Option<Waiting> {
        let queue = self.queues.get_mut(&neighbour)?;
        let is_waiting = |id| self.store.get(id).is_some_and(|entry| entry.is_waiting_for(neighbour));
        let (mut since, mut highest) = (None, 0);
        for (priority, id) in queue.first(&is_waiting) {
            let Some(entry) = self.store.get(id) else { continue };
            since = Some(since.map_or(entry.arrival, |earlier: Time| earlier.min(entry.arrival)));
            highest = highest.max(priority);
        }
        Some(Waiting { bytes: queue.bytes.iter().sum(), since: since?, priority: highest })
    }

    /// Returns the next bundle for a neighbour and its number, for [`Node::done`].
    ///
    /// The encoded bundle has at most `limit` bytes; a longer one is fragmented.
    pub fn poll_transmit(&mut self, neighbour: u64, limit: u64, now: Time) -> Option<(u64, Bundle)> {
        self.poll_transmit_within(neighbour, Limits { len: limit, fragments: u64::MAX }, now)
    }

    /// Returns the next bundle for a neighbour as [`Node::poll_transmit`].
    ///
    /// A bundle that would be in too many fragments is deleted: it is too long for the neighbour.
    pub fn poll_transmit_within(
        &mut self,
        neighbour: u64,
        limits: Limits,
        now: Time,
    ) -> Option<(u64, Bundle)> {
        loop {
            let id = self.pop(neighbour)?;
            let entry = self.store.get(id)?;
            if entry.spread.is_some() {
                match self.copy(id, neighbour, limits, now) {
                    Some(copy) => return Some(copy),
                    None => continue,
                }
            }
            let bundle = self.outgoing(entry, now);
            if bundle.encoded_len() <= limits.len {
                self.store.place(id, Place::Flying);
                return Some((id, bundle));
            }
            self.fragment(id, limits, now);
        }
    }

    /// Removes the next bundle from a queue.
    fn pop(&mut self, neighbour: u64) -> Option<u64> {
        let (queue, store) = (self.queues.get_mut(&neighbour)?, &self.store);
        let waiting = |id| store.get(id).filter(|entry| entry.is_waiting_for(neighbour));
        let id = queue.pop(&|id| waiting(id).map(|entry| entry.size))?;
        waiting(id).into_iter().for_each(|entry| queue.forget(entry));
        Some(id)
    }

    /// Returns a bundle as it leaves, with previous node, age and hop count updated.
    fn outgoing(&self, entry: &Entry, now: Time) -> Bundle {
        let mut bundle = aged(entry, now);
        if entry.from.is_some() {
            bundle.set(Content::PreviousNode(self.config.eid.clone()));
        }
        if let Some(HopCount { limit, count }) = bundle.hop_count() {
            bundle.set(Content::HopCount(HopCount { limit, count: count.saturating_add(1) }));
        }
        bundle
    }

    /// Replaces a bundle by fragments that leave room for the blocks of [`Node::outgoing`].
    fn fragment(&mut self, id: u64, limits: Limits, now: Time) {
        let Some(entry) = self.unstore(id, now) else { return };
        match &entry.place {
            // It is not in its queue any more; its fragments book the contacts again.
            Place::Waiting(hop) => self.routing.release(&entry, hop),
            _ => self.forget(&entry),
        }
        let spread = entry.spread.as_deref().map(Spread::again);
        let growth = self.outgoing(&entry, now).encoded_len()
            - entry.size.min(self.outgoing(&entry, now).encoded_len());
        let (limit, payload) = (limits.len.saturating_sub(growth + 16), entry.bundle.payload.len());
        let overhead = entry.bundle.encoded_len().saturating_sub(payload) + FRAGMENT_LEN;
        let count = payload.div_ceil(limit.saturating_sub(overhead).max(1));
        let is_fit = count <= limits.fragments;
        let Some(parts) = is_fit.then(|| aged(&entry, now).fragments(limit)).and_then(Result::ok) else {
            self.counts.too_long += 1;
            return self.report_deletion((&entry.bundle, entry.share), reason::NO_ROUTE, now);
        };
        self.counts.fragments += parts.len() as u64;
        for part in parts {
            self.keep(part, (entry.from, entry.share, entry.expiry), spread.clone(), false, now);
        }
    }

    /// Notes that a transmission was cut. The neighbour keeps `sent` bytes of the payload.
    ///
    /// The rest is stored in place of the bundle: reactive fragmentation. A bundle that must stay whole, and a copy, is sent again.
    pub fn cut(&mut self, id: u64, sent: u64, now: Time) {
        let Some(rest) = self.rest(id, sent, now) else { return self.done(id, false, now) };
        let Some(entry) = self.unstore(id, now) else { return };
        self.counts.rerouted += 1;
        self.counts.fragments += 1;
        self.counts.resumed += 1;
        self.counts.spared += entry.bundle.payload.len() - rest.payload.len();
        self.keep(rest, (entry.from, entry.share, entry.expiry), None, true, now);
    }

    /// Returns the fragment of a bundle after its first bytes. It has one byte at least.
    fn rest(&self, id: u64, sent: u64, now: Time) -> Option<Bundle> {
        let entry = self.store.get(id).filter(|entry| entry.spread.is_none())?;
        let sent = sent.min(entry.bundle.payload.len().saturating_sub(1));
        aged(entry, now).split(sent).ok().map(|[_, rest]| rest)
    }

    /// Notes that a convergence layer has sent a bundle, or could not. `id` is of [`Node::poll_transmit`].
    pub fn done(&mut self, id: u64, is_sent: bool, now: Time) {
        if copies::is_ticket(id) {
            self.copied(id, is_sent, now);
        } else if is_sent {
            let Some(entry) = self.unstore(id, now) else { return };
            self.counts.forwarded += 1;
            self.report_forwarding((&entry.bundle, entry.share), now);
        } else if self.store.get(id).is_some() {
            self.counts.rerouted += 1;
            self.store.place(id, Place::Limbo);
            self.dispatch(id, now);
        }
    }

    /// Routes bundles again that missed their contact or have no route.
    pub fn reroute(&mut self, now: Time) {
        let missed = match self.routing.has_contacts() {
            true => self.store.stranded(&|hop| self.routing.is_over(hop, now)),
            false => Vec::new(),
        };
        for id in missed {
            if let Some(entry) = self.store.get(id) {
                let gone = entry.clone_place();
                self.forget(&gone);
                self.counts.rerouted += 1;
                self.store.place(id, Place::Limbo);
                self.store.strand(id);
            }
        }
        self.store.limbo().into_iter().for_each(|id| self.dispatch(id, now));
    }

    /// Returns the instant at which [`Node::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Time {
        self.store.next_expiry().min(self.stranded.next_timeout())
    }

    /// Deletes bundles whose lifetime, or time without a route, has ended.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(entry) = self.store.pop_expired(now) {
            self.notes.release(&entry.bundle, now);
            self.counts.expired += 1;
            self.forget(&entry);
            self.report_deletion((&entry.bundle, entry.share), reason::EXPIRED, now);
        }
        self.fail_stranded(now);
        self.meeting.expire(now);
        let epoch = self.dtn_time(now);
        let notes = &self.notes;
        self.partial.retain(|(_, created), parts| {
            let is_kept = created.time == 0
                || parts.iter().any(|part| created.time.saturating_add(part.primary.lifetime) > epoch);
            for part in parts.iter().filter(|_| !is_kept) {
                notes.release(part, now);
                notes.delete(part, reason::EXPIRED, now);
            }
            is_kept
        });
    }
}

/// Returns the bytes that wait for a neighbour with a priority or a higher one.
fn backlog(queues: &HashMap<u64, Queue>, neighbour: u64, priority: usize) -> u64 {
    queues.get(&neighbour).map_or(0, |queue| queue.bytes[priority..].iter().sum())
}

/// Returns a bundle with the age that it has now.
fn aged(entry: &Entry, now: Time) -> Bundle {
    let mut bundle = entry.bundle.clone();
    if let Some(age) = bundle.age() {
        let resided = (now - entry.arrival).as_nanos() / 1_000_000;
        bundle.set(Content::Age(age.saturating_add(resided)));
    }
    bundle
}

/// Returns the number of an endpoint's node, if it has one.
fn number(names: &HashMap<Eid, u64>, eid: &Eid) -> Option<u64> {
    match eid {
        Eid::Ipn(ipn) => Some(ipn.number()),
        Eid::Dtn(_) if names.is_empty() => None,
        Eid::Dtn(_) => names.get(&eid.node()).copied(),
        Eid::None => None,
    }
}

/// Returns the hop to a destination that is a direct neighbour.
fn direct(neighbours: &HashSet<u64>, to: Option<u64>, entry: &Entry) -> Option<hop::Hop> {
    let neighbour = to?;
    let is_direct = neighbours.contains(&neighbour) && Some(neighbour) != entry.from;
    is_direct.then_some(hop::Hop { neighbour, route: None })
}

/// Returns the offset and length of a fragment, for reports.
fn place_of(bundle: &Bundle) -> (Option<Fragment>, u64) {
    (bundle.primary.fragment, bundle.payload.len())
}

#[cfg(test)]
mod tests;
