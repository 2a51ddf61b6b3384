//! Copies of bundles: epidemic routing, and spray and wait.
//!
//! A node offers each bundle to each neighbour once, and remembers which neighbours have it: those that it sent a copy to, or had one
//! from. It does not ask a neighbour what it has; a second copy is dropped there and counted. A copy that reached the
//! destination is not kept.
//!
//! Of spray and wait's L copies the source gives one to each of the first neighbours (source spray), or each node gives half of its
//! copies (binary spray). A node with one copy waits for the destination. In binary spray a block of the bundle has their
//! number: type 192 of the private range, an unsigned integer, as dtn7-go has it.

use std::collections::{BTreeSet, HashMap};

use bentpipe_units::Time;
use bentpipe_wire::dtn::bundle::{Bundle, BundleFlags, Content, Timestamp};
use bentpipe_wire::dtn::cbor;
use bentpipe_wire::dtn::eid::Eid;

use super::memory::{Memory, Source};
use super::spread::Spread;
use super::store::{Entry, Place};
use super::{Limits, Node, Routing, Share, number};

/// Type code of the block with the number of copies.
pub const COPIES_BLOCK: u64 = 192;
/// Smallest number of a copy in flight; numbers of stored bundles are below.
const TICKET: u64 = 1 << 63;
/// Maximum number of bundles that a node remembers to have had.
const MAX_KNOWN: usize = 1_000_000;
/// Room for the block of copies, which fragments get when they leave.
const BLOCK: u64 = 16;

/// Returns `true` if the number is of a copy in flight.
pub(super) fn is_ticket(id: u64) -> bool {
    id >= TICKET
}

/// Identity of a bundle or fragment, and if a guest states it.
///
/// Guests have identities of their own: any host can state that of another's bundle.
type Key = (Eid, Timestamp, Option<(u64, u64)>, bool);

fn key(bundle: &Bundle, is_guest: bool) -> Key {
    let (source, timestamp) = bundle.key();
    let part = bundle.primary.fragment.map(|fragment| (fragment.offset, bundle.payload.len()));
    (source, timestamp, part, is_guest)
}

/// Copy in flight to a neighbour.
#[derive(Debug)]
struct Flight {
    id: u64,
    neighbour: u64,
    /// Copies that the neighbour gets, and this node loses.
    gift: u32,
}

/// Neighbours, copies in flight, and bundles that the node has had.
#[derive(Debug)]
pub(super) struct Meeting {
    neighbours: BTreeSet<u64>,
    flights: HashMap<u64, Flight>,
    tickets: u64,
    /// Numbers in storage of bundles that are there.
    known: Memory<Key, Option<u64>>,
}

impl Default for Meeting {
    fn default() -> Meeting {
        let known = Memory::new(MAX_KNOWN);
        Meeting { neighbours: BTreeSet::new(), flights: HashMap::new(), tickets: 0, known }
    }
}

impl Meeting {
    /// Remembers a bundle of an account until its life ends.
    pub(super) fn note(&mut self, (bundle, share): (&Bundle, Share), expiry: Time) {
        self.remember(key(bundle, share.is_guest()), expiry, Source::of(share, 0), None);
    }

    fn remember(&mut self, key: Key, expiry: Time, source: Source, id: Option<u64>) {
        self.known.insert(key, expiry.as_nanos(), source, id);
    }

    /// Forgets a bundle of an account, so that it can come again.
    pub(super) fn forget(&mut self, (bundle, share): (&Bundle, Share)) {
        self.known.remove(&key(bundle, share.is_guest()));
    }

    /// Forgets bundles whose life has ended.
    pub(super) fn expire(&mut self, now: Time) {
        self.known.expire_before(now.as_nanos().saturating_add(1));
    }

    /// Returns the number of bundles forgotten before their life ended, since the last call.
    pub(super) fn take_early(&mut self) -> u64 {
        self.known.take_early()
    }

    /// Returns the number in storage of a bundle that is known.
    ///
    /// A fragment of a known bundle is known. What a guest has sent is known to guests alone.
    fn find(&self, (bundle, share): (&Bundle, Share)) -> Option<Option<u64>> {
        let find = |is_guest: bool| {
            let own = key(bundle, is_guest);
            let whole = (own.0.clone(), own.1, None, is_guest);
            [own, whole].iter().find_map(|key| self.known.get(key)).copied()
        };
        find(false).or_else(|| find(true).filter(|_| share.is_guest()))
    }

    /// Returns the number in storage of a guest's bundle with this identity.
    fn stated(&self, bundle: &Bundle) -> Option<u64> {
        self.known.get(&key(bundle, true)).copied().flatten()
    }
}

/// Returns the copies that a block gives to this node.
fn given(bundle: &Bundle) -> Option<u64> {
    bundle.blocks.iter().find_map(|block| match &block.content {
        Content::Other { code: COPIES_BLOCK, data } => cbor::Reader::new(data).uint().ok(),
        _ => None,
    })
}

fn copies_block(copies: u32) -> Content {
    let mut data = Vec::new();
    cbor::put_uint(&mut data, copies.into());
    Content::Other { code: COPIES_BLOCK, data: data.into() }
}

impl Node {
    /// Returns `true` if the routing makes copies.
    pub fn makes_copies(&self) -> bool {
        self.routing.copies(None).is_some()
    }

    /// Adds a neighbour that copies may go to.
    pub fn meet(&mut self, neighbour: u64) {
        if self.makes_copies() && self.meeting.neighbours.insert(neighbour) {
            self.store.spreading().into_iter().for_each(|id| self.offer(id));
        }
    }

    /// Removes a neighbour of [`Node::meet`].
    pub(super) fn part(&mut self, neighbour: u64) {
        if !self.meeting.neighbours.remove(&neighbour) {
            return;
        }
        self.queues.remove(&neighbour);
        for id in self.store.spreading() {
            if let Some(spread) = self.store.get_mut(id).and_then(|entry| entry.spread.as_mut()) {
                spread.waiting.retain(|other| *other != neighbour);
            }
        }
    }

    /// Returns the copies that may be made of a bundle to be stored.
    pub(super) fn spread(&self, bundle: &Bundle, from: Option<u64>) -> Option<Box<Spread>> {
        let copies = self.routing.copies(from.map(|_| given(bundle)))?;
        let mut spread = Spread::boxed(copies);
        spread.had.extend(from);
        spread.had.extend(number(&self.names, &bundle.primary.source).filter(|source| Some(*source) != from));
        Some(spread)
    }

    /// Returns `true` if a neighbour's bundle is one that this node has had.
    ///
    /// What the neighbour gave away with it is added to the copies of the stored one.
    pub(super) fn is_copy(&mut self, of: (&Bundle, Share), from: Option<u64>) -> bool {
        let Some(from) = from.filter(|_| self.makes_copies()) else { return false };
        let Some(id) = self.meeting.find(of) else { return false };
        let (bundle, _) = of;
        self.counts.duplicates += 1;
        let more = given(bundle);
        let limit = self.routing.copies(None).unwrap_or(1);
        let is_binary = matches!(self.routing, Routing::Spray { is_binary: true, .. });
        let Some(id) = id else { return true };
        let Some(entry) = self.store.get_mut(id) else { return true };
        let (size, level) = (entry.size, entry.level());
        let Some(spread) = &mut entry.spread else { return true };
        if let Some(place) = spread.waiting.iter().position(|other| *other == from) {
            spread.waiting.remove(place);
            if let Some(queue) = self.queues.get_mut(&from) {
                queue.bytes[level] -= size;
            }
        }
        if !spread.had.contains(&from) {
            spread.had.push(from);
        }
        if let Some(more) = more.filter(|_| is_binary) {
            spread.copies = (u64::from(spread.copies) + more.min(limit.into())).min(limit.into()) as u32;
            self.offer(id);
        }
        true
    }

    /// Remembers a bundle for this node, so that it is delivered once.
    pub(super) fn know(&mut self, of: (&Bundle, Share), expiry: Time) {
        if self.makes_copies() {
            self.meeting.note(of, expiry);
        }
    }

    /// Removes a guest's bundle that states the identity of one that a known sender brings.
    pub(super) fn replace_stated(&mut self, bundle: &Bundle, now: Time) {
        if let Some(id) = self.meeting.stated(bundle) {
            self.counts.duplicates += 1;
            self.drop_copy(id, now);
        }
    }

    /// Returns the number of identities forgotten before their bundles' lives ended, since the last call.
    pub fn take_forgotten(&mut self) -> u64 {
        self.meeting.take_early()
    }

    /// Queues a stored bundle for the neighbours that may get a copy.
    pub(super) fn offer(&mut self, id: u64) {
        let Some(entry) = self.store.get_mut(id) else { return };
        let to = number(&self.names, &entry.bundle.primary.destination);
        let Some(spread) = &mut entry.spread else { return };
        let mut added = Vec::new();
        for &neighbour in &self.meeting.neighbours {
            let is_listed = spread.waiting.contains(&neighbour);
            if !is_listed && spread.is_for(neighbour, Some(neighbour) == to) {
                spread.waiting.push(neighbour);
                added.push(neighbour);
            }
        }
        let (mut longest, is_idle) = (0, spread.flying == 0);
        for neighbour in added {
            let queue = self.queues.entry(neighbour).or_default();
            queue.push(id, entry);
            longest = longest.max(queue.longest());
        }
        if is_idle {
            let known = (key(&entry.bundle, entry.share.is_guest()), entry.expiry);
            let source = Source::of(entry.share, entry.from.unwrap_or(0));
            self.store.place(id, Place::Kept);
            self.meeting.remember(known.0, known.1, source, Some(id));
        }
        // Bundles that are gone are listed until their neighbour is met.
        if longest > 1000 + 2 * self.store.len() {
            self.compact();
        }
    }

    /// Removes bundles from the queues that are not stored any more.
    fn compact(&mut self) {
        let store = &self.store;
        for (neighbour, queue) in &mut self.queues {
            queue.retain(&|id| store.get(id).is_some_and(|entry| entry.is_waiting_for(*neighbour)));
        }
    }

    /// Removes a bundle from the queues of all neighbours but its destination.
    fn withdraw(&mut self, id: u64) {
        let Some(entry) = self.store.get_mut(id) else { return };
        let to = number(&self.names, &entry.bundle.primary.destination);
        let (size, level) = (entry.size, entry.level());
        let Some(spread) = &mut entry.spread else { return };
        let gone: Vec<u64> = spread.waiting.extract_if(.., |other| Some(*other) != to).collect();
        for neighbour in gone {
            if let Some(queue) = self.queues.get_mut(&neighbour) {
                queue.bytes[level] -= size;
            }
        }
    }

    /// Returns a copy for a neighbour from whose queue the bundle was taken.
    ///
    /// `None` if it is too long, and fragments are queued in its place.
    pub(super) fn copy(
        &mut self,
        id: u64,
        neighbour: u64,
        limits: Limits,
        now: Time,
    ) -> Option<(u64, Bundle)> {
        let entry = self.store.get(id)?;
        let spread = entry.spread.as_ref()?;
        let is_last = number(&self.names, &entry.bundle.primary.destination) == Some(neighbour);
        let gift = if is_last { 0 } else { self.routing.gift(spread.copies) };
        let mut bundle = self.outgoing(entry, now);
        let is_too_long = self.mark(&mut bundle, gift) > limits.len;
        let spread = self.store.get_mut(id)?.spread.as_mut()?;
        spread.waiting.retain(|other| *other != neighbour);
        if is_too_long {
            self.fragment(id, Limits { len: limits.len.saturating_sub(BLOCK), ..limits }, now);
            return None;
        }
        spread.had.push(neighbour);
        spread.flying += 1;
        spread.copies -= gift;
        let is_single = spread.copies == 1;
        let ticket = TICKET | self.meeting.tickets;
        self.meeting.tickets += 1;
        self.meeting.flights.insert(ticket, Flight { id, neighbour, gift });
        self.store.place(id, Place::Flying);
        if is_single {
            self.withdraw(id);
        }
        Some((ticket, bundle))
    }

    /// Writes the copies that a neighbour gets into a bundle, and returns the bundle's length.
    fn mark(&self, bundle: &mut Bundle, gift: u32) -> u64 {
        if let Routing::Spray { is_binary, .. } = self.routing {
            if is_binary && gift > 0 {
                bundle.set(copies_block(gift));
            } else {
                bundle.blocks.retain(|block| block.content.code() != COPIES_BLOCK);
            }
        }
        bundle.encoded_len()
    }

    /// Notes that a copy has been sent, or could not.
    pub(super) fn copied(&mut self, ticket: u64, is_sent: bool, now: Time) {
        let Some(Flight { id, neighbour, gift }) = self.meeting.flights.remove(&ticket) else { return };
        let Some(entry) = self.store.get_mut(id) else { return };
        let is_last = number(&self.names, &entry.bundle.primary.destination) == Some(neighbour);
        let Some(spread) = &mut entry.spread else { return };
        spread.flying -= 1;
        let is_idle = spread.flying == 0;
        if !is_sent {
            spread.had.retain(|other| *other != neighbour);
            spread.copies = spread.copies.saturating_add(gift);
            self.counts.rerouted += 1;
            return self.offer(id);
        }
        self.counts.forwarded += 1;
        self.report_copy(id, now);
        if is_last {
            self.drop_copy(id, now);
        } else if is_idle {
            self.store.place(id, Place::Kept);
        }
    }

    fn report_copy(&mut self, id: u64, now: Time) {
        let wants = |entry: &&Entry| entry.bundle.primary.flags.has(BundleFlags::REPORT_FORWARDING);
        let entry = self.store.get(id).filter(wants);
        if let Some((bundle, share)) = entry.map(|entry| (entry.bundle.clone(), entry.share)) {
            self.report_forwarding((&bundle, share), now);
        }
    }

    /// Removes a bundle that has reached its destination.
    fn drop_copy(&mut self, id: u64, now: Time) {
        if let Some(entry) = self.unstore(id, now) {
            self.forget(&entry);
        }
    }
}
