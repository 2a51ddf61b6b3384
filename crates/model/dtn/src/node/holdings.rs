//! Whereabouts of the bundles of flows, over all nodes of a network.
//!
//! A bundle is waiting while a node has it or a part of it, delivered once an application took it, and else gone: deleted for a
//! reason, lost or on its way. Several nodes may have copies, and a node keeps what it sends until its neighbour has it. Over UDP the account of
//! a node's datagrams of the flow has what is on its way; otherwise that is what was sent so lately that it may arrive. A bundle in
//! fragments is lost with any part that no node stores and that is not on its way: what nodes store of it is of no use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_net::ledger::{Accounts, SubAccount};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::admin::reason;
use bentpipe_wire::dtn::bundle::{Bundle, Timestamp};
use bentpipe_wire::dtn::eid::Eid;
use foldhash::fast::RandomState;

/// Time beyond the light time in which a bundle may arrive.
const SLACK: Span = Span::from_secs(1);

/// Bundles of all flows of a network, by their source. Its nodes share it.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    flows: Arc<Mutex<HashMap<Eid, Bundles, RandomState>>>,
    /// Names of the nodes, by their number.
    nodes: Arc<Mutex<Vec<String>>>,
}

/// Bundles of a flow in a [`Registry`].
#[derive(Clone, Debug)]
pub struct Holdings {
    registry: Registry,
    source: Eid,
}

/// Numbers of bundles that are not delivered, by their whereabouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// Stored somewhere.
    pub waiting: u64,
    /// On their way between two nodes.
    pub in_flight: u64,
    /// Lost on their way.
    pub lost: u64,
    /// Deleted as their lifetime ended.
    pub expired: u64,
    /// Deleted for want of room.
    pub no_room: u64,
    /// Deleted for other reasons.
    pub deleted: u64,
}

impl Whereabouts {
    /// Returns the number of bundles that will not arrive.
    pub fn gone(&self) -> u64 {
        self.lost + self.expired + self.no_room + self.deleted
    }
}

/// Reason for which bundles will not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gone {
    /// Lost on their way.
    Lost,
    /// Lifetime ended.
    Expired,
    /// No room.
    NoRoom,
    /// Deleted for another reason.
    Deleted,
}

impl Gone {
    /// Returns the end of what was deleted for a reason, or else lost.
    fn of(deleted: Option<u64>) -> Gone {
        match deleted {
            None => Gone::Lost,
            Some(reason::EXPIRED) => Gone::Expired,
            Some(reason::STORAGE) => Gone::NoRoom,
            Some(_) => Gone::Deleted,
        }
    }
}

/// Bundles of a flow that are not delivered, by node: each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Stored bundles, at the node that got them last.
    pub waiting: BTreeMap<String, u64>,
    /// Bundles that will not arrive, at the node that had them last or deleted them.
    pub gone: BTreeMap<(Gone, String), u64>,
}

/// Whereabouts of all bundles of a flow, each looked at, with numbers of nodes.
#[derive(Debug, Default)]
struct Judged {
    sums: Whereabouts,
    waiting: BTreeMap<u32, u64>,
    gone: BTreeMap<(Gone, u32), u64>,
}

/// Sequence number of a creation timestamp, which is unique at its node.
type Number = u64;

/// Bundles of a flow. Those that are neither delivered nor open are unknown.
#[derive(Debug, Default)]
struct Bundles {
    open: HashMap<Number, Open, RandomState>,
    /// Bundles on their way, by the time until which they may arrive. Some are stored again, or deleted.
    flights: BTreeSet<(Time, Number)>,
    /// Delivered bundles, a bit each.
    delivered: Vec<u64>,
    /// Parts of bundles in fragments that are not delivered.
    parts: HashMap<Number, Parts, RandomState>,
    /// Instant up to which losses are known.
    settled_at: Time,
    sums: Whereabouts,
    /// Bundles that are stored nowhere, by the node that had them last.
    away: BTreeMap<u32, u64>,
    /// Accounts of each node's datagrams of the flow, where each has a bundle.
    datagrams: BTreeMap<u32, SubAccount>,
    /// Datagrams on their way by node, if accounts say it.
    on_their_way: Option<BTreeMap<u32, u64>>,
}

/// Parts of a bundle in fragments.
#[derive(Debug, Default)]
struct Parts {
    /// Length of the whole payload.
    total: u64,
    of: Vec<Part>,
}

/// Part of a bundle's payload, at any number of nodes.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u64,
    end: u64,
    /// Number of nodes that store it.
    places: u32,
    /// Time until which it may arrive, once it is stored nowhere.
    due: Time,
    /// Reason and time of its deletion, by the node `left`.
    deleted: Option<(u64, Time)>,
    /// Number of the node that had it last, or refused it.
    left: u32,
}

impl Part {
    /// Returns its end, if it will not come.
    fn gone(&self) -> Gone {
        Gone::of(self.deleted.map(|(reason, _)| reason))
    }
}

impl Parts {
    /// Returns the part from `start` to `end`.
    fn part(&mut self, (start, end): (u64, u64)) -> &mut Part {
        let known = self.of.iter().position(|part| (part.start, part.end) == (start, end));
        let place = known.unwrap_or_else(|| {
            let place = self.of.partition_point(|part| part.start <= start);
            self.of.insert(place, Part { start, end, places: 0, due: Time::ZERO, deleted: None, left: 0 });
            place
        });
        &mut self.of[place]
    }

    /// Returns the part with which the bundle is lost.
    ///
    /// It is the first that was deleted, or could not arrive any more. A bundle and what became of it in further fragments are parts that had it before.
    fn lost(&self, is_on_its_way: impl Fn(u32, Time) -> bool + Copy) -> Option<&Part> {
        self.missing(is_on_its_way)?;
        let is_over = |(n, part): &(usize, &Part)| {
            let may_arrive = part.deleted.is_none() && is_on_its_way(part.left, part.due);
            part.places == 0 && !may_arrive && !self.is_superseded(*n)
        };
        let ended = |part: &&Part| part.deleted.map_or(part.due, |(_, at)| at);
        self.of.iter().enumerate().filter(is_over).map(|(_, part)| part).min_by_key(ended)
    }

    /// Returns the parts that are stored nowhere, and were sent as they are.
    fn away(&self) -> impl Iterator<Item = &Part> {
        let is_away = |(n, part): &(usize, &Part)| {
            part.places == 0 && part.deleted.is_none() && !self.is_superseded(*n)
        };
        self.of.iter().enumerate().filter(is_away).map(|(_, part)| part)
    }

    /// Returns `true` for a part in whose place are smaller ones.
    ///
    /// They follow it, and were stored or sent later.
    fn is_superseded(&self, n: usize) -> bool {
        let Part { start, end, places, due, .. } = self.of[n];
        let mut covered = start;
        for other in &self.of[n + 1..] {
            if other.start > covered {
                break;
            }
            if other.end <= end && (other.places > 0 || other.due >= due) {
                covered = covered.max(other.end);
            }
        }
        places == 0 && covered >= end && end > start
    }

    /// Returns the first byte that is neither stored nor on its way.
    fn missing(&self, is_on_its_way: impl Fn(u32, Time) -> bool) -> Option<u64> {
        let mut covered = 0;
        let is_there = |(n, part): &(usize, &Part)| {
            let may_arrive = part.deleted.is_none() && is_on_its_way(part.left, part.due);
            part.places > 0 || may_arrive && !self.is_superseded(*n)
        };
        for (_, part) in self.of.iter().enumerate().filter(is_there) {
            if part.start > covered {
                break;
            }
            covered = covered.max(part.end);
        }
        (covered < self.total).then_some(covered)
    }
}

/// Bundle that is not delivered.
#[derive(Debug, Default)]
struct Open {
    /// Nodes that store it, each once for the whole and for each part. The one that got it last is at the end.
    places: Vec<u32>,
    /// Time until which it may arrive, once it is stored nowhere.
    due: Time,
    is_lost: bool,
    /// End of a part that will not come, of which others may be stored.
    broken: Option<Gone>,
    /// Reason for which the last part was deleted.
    deleted: Option<u64>,
    /// Number of the node that had it last.
    left: u32,
}

impl Open {
    /// Returns `true` if it is stored nowhere, not deleted and not broken.
    fn is_away(&self) -> bool {
        self.broken.is_none() && self.places.is_empty() && self.deleted.is_none()
    }

    /// Returns the reason for which it will not arrive, if it will not.
    fn gone(&self) -> Option<Gone> {
        self.end(self.broken, self.is_lost)
    }

    /// Returns that reason, given the end of a part. `is_lost` is of what no node stores.
    fn end(&self, broken: Option<Gone>, is_lost: bool) -> Option<Gone> {
        let is_over = self.places.is_empty() && (is_lost || self.deleted.is_some());
        broken.or(is_over.then(|| Gone::of(self.deleted)))
    }

    fn count<'a>(&self, gone: Option<Gone>, sums: &'a mut Whereabouts) -> &'a mut u64 {
        match gone {
            Some(Gone::Lost) => &mut sums.lost,
            Some(Gone::Expired) => &mut sums.expired,
            Some(Gone::NoRoom) => &mut sums.no_room,
            Some(Gone::Deleted) => &mut sums.deleted,
            None if self.places.is_empty() => &mut sums.in_flight,
            None => &mut sums.waiting,
        }
    }
}

impl Bundles {
    fn is_delivered(&self, number: Number) -> bool {
        let word = self.delivered.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Changes the entry of a bundle that is not delivered.
    fn change(&mut self, number: Number, change: impl FnOnce(&mut Open)) {
        if self.is_delivered(number) {
            return;
        }
        let known = self.open.remove(&number);
        known.iter().for_each(|open| self.leave_out(open));
        let mut open = known.unwrap_or_default();
        change(&mut open);
        *open.count(open.gone(), &mut self.sums) += 1;
        if open.is_away() {
            *self.away.entry(open.left).or_default() += 1;
        }
        if open.places.is_empty() && open.deleted.is_none() {
            self.flights.insert((open.due, number));
        }
        self.open.insert(number, open);
    }

    /// Subtracts a bundle from all sums.
    fn leave_out(&mut self, open: &Open) {
        *open.count(open.gone(), &mut self.sums) -= 1;
        if open.is_away() {
            self.away.entry(open.left).and_modify(|away| *away -= 1);
        }
    }

    /// Returns the bundles behind a node: on their way, and lost.
    fn behind(&self, node: u32, away: u64) -> Option<[u64; 2]> {
        let on_their_way = self.on_their_way.as_ref()?.get(&node).copied().unwrap_or(0).min(away);
        Some([on_their_way, away - on_their_way])
    }

    /// Returns the whereabouts, as far as accounts and times show.
    fn whereabouts(&self) -> Whereabouts {
        if self.on_their_way.is_none() {
            return self.sums;
        }
        if !self.parts.is_empty() {
            return self.judged().sums;
        }
        let behind = self.away.iter().filter_map(|(node, away)| self.behind(*node, *away));
        let [in_flight, lost] = behind.fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        Whereabouts { in_flight, lost, ..self.sums }
    }

    /// Returns the whereabouts of all bundles, each looked at.
    ///
    /// Of what a node sent, the last is on its way: as much as its datagrams are.
    fn judged(&self) -> Judged {
        let since = self.on_their_way.as_ref().map(|on_their_way| self.sent_since(on_their_way));
        let is_on_its_way = |left: u32, due: Time| match &since {
            Some(since) => since.get(&left).is_some_and(|since| due >= *since),
            None => due >= self.settled_at,
        };
        let mut judged = Judged::default();
        for (number, open) in &self.open {
            let part = self.parts.get(number).and_then(|parts| parts.lost(is_on_its_way));
            let broken = part.map(Part::gone);
            let gone = open.end(broken, !is_on_its_way(open.left, open.due));
            *open.count(gone, &mut judged.sums) += 1;
            match (gone, open.places.last()) {
                (Some(why), _) => {
                    *judged.gone.entry((why, part.map_or(open.left, |part| part.left))).or_default() += 1;
                }
                (None, Some(node)) => *judged.waiting.entry(*node).or_default() += 1,
                (None, None) => {}
            }
        }
        judged
    }

    /// Returns the time of the first bundle or part behind each node.
    fn sent_since(&self, on_their_way: &BTreeMap<u32, u64>) -> BTreeMap<u32, Time> {
        let mut away: BTreeMap<u32, Vec<Time>> = BTreeMap::new();
        for (number, open) in &self.open {
            match self.parts.get(number) {
                Some(parts) => {
                    parts.away().for_each(|part| away.entry(part.left).or_default().push(part.due));
                }
                None if open.is_away() => away.entry(open.left).or_default().push(open.due),
                None => {}
            }
        }
        let first = |(node, mut sent): (u32, Vec<Time>)| {
            sent.sort_unstable();
            let count = on_their_way.get(&node).copied().unwrap_or(0).min(sent.len() as u64);
            Some((node, *sent.get(sent.len() - count as usize)?))
        };
        away.into_iter().filter_map(first).collect()
    }

    fn deliver(&mut self, number: Number) {
        let word = (number / 64) as usize;
        if word >= self.delivered.len() {
            self.delivered.resize(word + 1, 0);
        }
        self.delivered[word] |= 1 << (number % 64);
        self.parts.remove(&number);
        if let Some(open) = self.open.remove(&number) {
            self.leave_out(&open);
        }
    }

    /// Changes the part of a bundle in fragments that a node had or has.
    fn change_part(&mut self, bundle: &Bundle, number: Number, change: impl FnOnce(&mut Part)) {
        let (fragment, len) = (bundle.primary.fragment, bundle.payload.len());
        if self.is_delivered(number) || fragment.is_none() && !self.parts.contains_key(&number) {
            return;
        }
        let open = self.open.get(&number);
        let total = fragment.map_or(len, |fragment| fragment.total);
        let parts = self.parts.entry(number).or_insert_with(|| {
            let (due, left) = open.map_or((Time::ZERO, 0), |open| (open.due, open.left));
            let places = open.map_or(0, |open| open.places.len() as u32);
            let whole = Part { start: 0, end: total, places, due, deleted: None, left };
            Parts { total, of: vec![whole] }
        });
        let start = fragment.map_or(0, |fragment| fragment.offset);
        let part = parts.part((start, start.saturating_add(len)));
        change(part);
        let due = (part.places == 0 && part.deleted.is_none()).then_some(part.due);
        self.flights.extend(due.map(|due| (due, number)));
        self.judge(number);
    }

    /// Notes whether a bundle in fragments can be complete.
    fn judge(&mut self, number: Number) {
        let Some(parts) = self.parts.get(&number) else { return };
        let now = self.settled_at;
        let broken = parts.lost(|_, due| due >= now).map(Part::gone);
        if self.open.get(&number).is_some_and(|open| open.broken != broken) {
            self.change(number, |open| open.broken = broken);
        }
    }

    /// Notes the bundles that cannot arrive any more.
    fn settle(&mut self, now: Time) {
        self.settled_at = self.settled_at.max(now);
        while let Some((due, number)) = self.flights.first().copied().filter(|(due, _)| *due < now) {
            self.flights.pop_first();
            self.judge(number);
            let is_on_its_way = |open: &&Open| open.due == due && open.is_away() && !open.is_lost;
            if self.open.get(&number).filter(is_on_its_way).is_some() {
                self.sums.in_flight -= 1;
                self.sums.lost += 1;
                self.open.entry(number).and_modify(|open| open.is_lost = true);
            }
        }
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<Eid, Bundles, RandomState>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<String>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a flow of bundles from a source.
    pub fn add(&self, source: Eid) -> Holdings {
        self.lock().entry(source.clone()).or_default();
        Holdings { registry: self.clone(), source }
    }
}

impl Holdings {
    /// Returns the numbers of the flow's bundles that are not delivered.
    pub fn whereabouts(&self, now: Time) -> Whereabouts {
        let mut flows = self.registry.lock();
        flows.get_mut(&self.source).map_or_else(Whereabouts::default, |bundles| {
            bundles.settle(now);
            bundles.whereabouts()
        })
    }

    /// Notes what the accounts of the flow's datagrams say.
    pub fn settle(&self, accounts: &Accounts) {
        let mut flows = self.registry.lock();
        let Some(bundles) = flows.get_mut(&self.source) else { return };
        let on_its_way = |account: &SubAccount| {
            let tally = accounts.tallies(account).all();
            tally.sent.saturating_sub(tally.arrived() + tally.lost())
        };
        // Accounts of which nothing was sent may be another machine's.
        let known = bundles.datagrams.iter().filter(|(_, account)| !account.is_new());
        let on_their_way: BTreeMap<u32, u64> =
            known.map(|(node, account)| (*node, on_its_way(account))).collect();
        bundles.on_their_way = (!on_their_way.is_empty()).then_some(on_their_way);
    }

    /// Returns the nodes of the flow's bundles that are stored, or will not arrive.
    pub fn places(&self, now: Time) -> Places {
        let (mut flows, nodes) = (self.registry.lock(), self.registry.nodes());
        let mut places = Places::default();
        let Some(bundles) = flows.get_mut(&self.source) else { return places };
        bundles.settle(now);
        let name = |node: u32| nodes.get(node as usize).cloned().unwrap_or_default();
        let Judged { waiting, gone, .. } = bundles.judged();
        for (node, count) in waiting {
            *places.waiting.entry(name(node)).or_default() += count;
        }
        for ((why, node), count) in gone {
            *places.gone.entry((why, name(node))).or_default() += count;
        }
        places
    }
}

/// Notes of a node for the registry of its network.
#[derive(Debug, Default)]
pub(super) struct Notes {
    registry: Option<Registry>,
    /// Number of the node in it.
    number: u32,
    /// Longest time to a neighbour and back.
    longest: Span,
}

impl Notes {
    /// Returns the registry.
    pub(super) fn registry(&self) -> Option<&Registry> {
        self.registry.as_ref()
    }

    /// Sets the registry, a name in it, and the longest light time.
    pub(super) fn register(&mut self, registry: Registry, name: &str, light_time: Span) {
        let mut nodes = registry.nodes();
        self.number = nodes.len() as u32;
        nodes.push(name.to_owned());
        drop(nodes);
        (self.registry, self.longest) = (Some(registry), light_time * 2);
    }

    /// Returns the account of the node's datagrams of a bundle's flow.
    pub(super) fn datagrams_of(&self, bundle: &Bundle) -> Option<SubAccount> {
        let mut flows = self.registry.as_ref()?.lock();
        let flow = flows.get_mut(&bundle.primary.source)?;
        Some(flow.datagrams.entry(self.number).or_default().clone())
    }

    fn note(&self, bundle: &Bundle, note: impl FnOnce(&mut Bundles, Number)) {
        let Some(registry) = &self.registry else { return };
        let Timestamp { sequence, .. } = bundle.primary.timestamp;
        let mut flows = registry.lock();
        if let Some(flow) = flows.get_mut(&bundle.primary.source) {
            note(flow, sequence);
        }
    }

    /// Notes that the node stores a bundle or a part of it.
    pub(super) fn hold(&self, bundle: &Bundle) {
        self.note(bundle, |flow, number| {
            flow.change_part(bundle, number, |part| (part.places, part.deleted) = (part.places + 1, None));
            flow.change(number, |open| {
                open.places.push(self.number);
                (open.deleted, open.is_lost) = (None, false);
            });
            flow.judge(number);
        });
    }

    /// Notes that the node does not store a bundle any more.
    pub(super) fn release(&self, bundle: &Bundle, now: Time) {
        let (due, left) = (self.due(now), self.number);
        self.note(bundle, |flow, number| {
            flow.change_part(bundle, number, |part| {
                part.places = part.places.saturating_sub(1);
                (part.due, part.deleted, part.left) = (part.due.max(due), None, left);
            });
            flow.change(number, |open| {
                if let Some(own) = open.places.iter().position(|node| *node == left) {
                    open.places.remove(own);
                }
                (open.due, open.deleted, open.left) = (open.due.max(due), None, left);
            });
        });
    }

    /// Returns the time until which a bundle that is sent at an instant may arrive.
    fn due(&self, now: Time) -> Time {
        now + self.longest + SLACK
    }

    /// Notes that the node deletes or refuses a bundle or a part of it.
    pub(super) fn delete(&self, bundle: &Bundle, reason: u64, now: Time) {
        let (due, left) = (self.due(now), self.number);
        self.note(bundle, |flow, number| {
            flow.change_part(bundle, number, |part| {
                // It is in the place of the whole that it came from: not older than that.
                (part.due, part.deleted, part.left) = (part.due.max(due), Some((reason, now)), left);
            });
            flow.change(number, |open| (open.deleted, open.left) = (Some(reason), left));
            flow.judge(number);
        });
    }

    /// Notes that an application took a bundle.
    pub(super) fn deliver(&self, bundle: &Bundle) {
        self.note(bundle, Bundles::deliver);
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::dtn::bundle::{Fragment, Payload, Primary};

    use super::*;

    fn bundle(sequence: u64) -> Bundle {
        let timestamp = Timestamp { time: 1, sequence };
        let primary = Primary::new(Eid::ipn(1, 2), Eid::ipn(2, 2), timestamp, 1000);
        Bundle { primary, blocks: vec![], payload: Payload::elided(10) }
    }

    #[test]
    fn a_bundle_at_two_nodes_waits_once_and_is_delivered_once() {
        let registry = Registry::default();
        let flow = registry.add(Eid::ipn(1, 2));
        let mut nodes = [Notes::default(), Notes::default()];
        for (node, name) in nodes.iter_mut().zip(["a", "b"]) {
            node.register(registry.clone(), name, Span::from_secs(2));
        }
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        (0..5).for_each(|n| nodes[0].hold(&bundle(n)));
        nodes[1].hold(&bundle(0));
        assert_eq!(flow.whereabouts(at(0)), Whereabouts { waiting: 5, ..Whereabouts::default() });
        let waiting = BTreeMap::from([("a".to_owned(), 4), ("b".to_owned(), 1)]);
        assert_eq!(flow.places(at(0)).waiting, waiting, "at the node that got it last");
        nodes[0].release(&bundle(0), at(1));
        nodes[0].release(&bundle(1), at(1));
        nodes[0].release(&bundle(2), at(1));
        nodes[0].delete(&bundle(2), reason::EXPIRED, at(1));
        nodes[1].deliver(&bundle(3));
        nodes[0].release(&bundle(3), at(1));
        let then = Whereabouts { waiting: 2, in_flight: 1, expired: 1, ..Whereabouts::default() };
        assert_eq!(flow.whereabouts(at(2)), then, "a node keeps what it sent until it is acknowledged");
        // 1 s, out and back in 4 s, and a second more.
        assert_eq!(flow.whereabouts(at(7)), Whereabouts { in_flight: 0, lost: 1, ..then });
        let gone = [(Gone::Lost, 1), (Gone::Expired, 1)].map(|(why, count)| ((why, "a".to_owned()), count));
        let places = flow.places(at(7));
        assert_eq!(places.gone, BTreeMap::from(gone));
        assert_eq!(places.waiting, BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 1)]));
        nodes[1].deliver(&bundle(1));
        assert_eq!(flow.whereabouts(at(7)).gone(), 1, "late, and not lost after all");
        let other = Bundle { primary: Primary { source: Eid::ipn(9, 2), ..bundle(7).primary }, ..bundle(7) };
        nodes[0].hold(&other);
        assert_eq!(flow.whereabouts(at(7)).waiting, 2, "the bundle of another flow");
    }

    /// Returns a fragment of a bundle of 10 bytes.
    fn part(sequence: u64, offset: u64, len: u64) -> Bundle {
        let whole = bundle(sequence);
        let fragment = Some(Fragment { offset, total: 10 });
        Bundle { primary: Primary { fragment, ..whole.primary }, payload: Payload::elided(len), ..whole }
    }

    #[test]
    fn a_part_is_lost_behind_the_node_that_had_it_last() {
        let registry = Registry::default();
        let flow = registry.add(Eid::ipn(1, 2));
        let mut nodes = [Notes::default(), Notes::default()];
        for (node, name) in nodes.iter_mut().zip(["a", "s"]) {
            node.register(registry.clone(), name, Span::from_secs(2));
        }
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        nodes[0].hold(&bundle(0));
        nodes[0].release(&bundle(0), at(0));
        let parts = [part(0, 0, 4), part(0, 4, 6)];
        for part in &parts {
            nodes[0].hold(part);
            nodes[0].release(part, at(1));
            nodes[1].hold(part);
        }
        parts.iter().for_each(|part| nodes[1].release(part, at(4)));
        assert_eq!(flow.places(at(60)).gone, BTreeMap::from([((Gone::Lost, "s".to_owned()), 1)]));
    }

    #[test]
    fn a_part_without_room_ends_where_it_was_refused() {
        let registry = Registry::default();
        let flow = registry.add(Eid::ipn(1, 2));
        let mut nodes = [Notes::default(), Notes::default()];
        for (node, name) in nodes.iter_mut().zip(["a", "r"]) {
            node.register(registry.clone(), name, Span::from_secs(2));
        }
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        nodes[0].hold(&bundle(0));
        nodes[0].release(&bundle(0), at(0));
        let parts = [part(0, 0, 4), part(0, 4, 6)];
        for part in &parts {
            nodes[0].hold(part);
            nodes[0].release(part, at(1));
        }
        nodes[1].hold(&parts[0]);
        let waiting = Whereabouts { in_flight: 0, waiting: 1, ..Whereabouts::default() };
        assert_eq!(flow.whereabouts(at(1)), waiting, "the second part is on its way");
        nodes[1].delete(&parts[1], reason::STORAGE, at(1));
        let gone = BTreeMap::from([((Gone::NoRoom, "r".to_owned()), 1)]);
        // At once, and when it could not have arrived any more; whatever becomes of the first part.
        for seconds in [1, 20] {
            let without_room = Whereabouts { no_room: 1, ..Whereabouts::default() };
            assert_eq!(flow.whereabouts(at(seconds)), without_room);
            assert_eq!(flow.places(at(seconds)).gone, gone);
        }
        nodes[1].release(&parts[0], at(21));
        assert_eq!(flow.places(at(60)).gone, gone);
        // A copy that comes later has room after all.
        nodes[0].hold(&parts[1]);
        assert_eq!(flow.whereabouts(at(22)).no_room, 0);
    }

    #[test]
    fn a_bundle_in_fragments_was_not_sent_itself() {
        let registry = Registry::default();
        let flow = registry.add(Eid::ipn(1, 2));
        let mut nodes = [Notes::default(), Notes::default()];
        for (node, name) in nodes.iter_mut().zip(["a", "b"]) {
            node.register(registry.clone(), name, Span::from_secs(2));
        }
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        for number in 0..2 {
            // The second is in fragments after all of the first are sent.
            nodes[0].hold(&bundle(number));
            nodes[0].release(&bundle(number), at(3 * number));
            [part(number, 0, 4), part(number, 4, 6)].iter().for_each(|part| nodes[0].hold(part));
            if number == 0 {
                nodes[0].release(&part(0, 0, 4), at(1));
                nodes[1].hold(&part(0, 0, 4));
                nodes[0].release(&part(0, 4, 6), at(2));
            }
        }
        let of = Eid::ipn(1, 2);
        registry.lock().entry(of).and_modify(|flow| flow.on_their_way = Some(BTreeMap::from([(0, 1)])));
        let waiting = Whereabouts { waiting: 2, ..Whereabouts::default() };
        assert_eq!(flow.whereabouts(at(3)), waiting, "a datagram is on its way: that of the first one");
        // What became of it is not covered by the whole, which is nowhere.
        nodes[0].hold(&bundle(2));
        nodes[0].release(&bundle(2), at(20));
        let parts = [part(2, 0, 4), part(2, 4, 6)];
        parts.iter().for_each(|part| nodes[0].hold(part));
        nodes[0].release(&parts[0], at(20));
        registry
            .lock()
            .entry(Eid::ipn(1, 2))
            .and_modify(|flow| flow.on_their_way = Some(BTreeMap::from([(0, 0)])));
        assert_eq!(flow.whereabouts(at(20)), Whereabouts { waiting: 1, lost: 2, ..Whereabouts::default() });
    }

    #[test]
    fn a_bundle_is_lost_with_any_of_its_parts() {
        let registry = Registry::default();
        let flow = registry.add(Eid::ipn(1, 2));
        let mut nodes = [Notes::default(), Notes::default()];
        for (node, name) in nodes.iter_mut().zip(["a", "b"]) {
            node.register(registry.clone(), name, Span::from_secs(2));
        }
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        for number in 0..2 {
            nodes[0].hold(&bundle(number));
            nodes[0].release(&bundle(number), at(0));
            for part in [part(number, 0, 4), part(number, 4, 6)] {
                nodes[0].hold(&part);
                nodes[0].release(&part, at(10));
            }
            nodes[1].hold(&part(number, 0, 4));
        }
        nodes[1].hold(&part(0, 4, 6));
        let waiting = Whereabouts { waiting: 2, ..Whereabouts::default() };
        assert_eq!(flow.whereabouts(at(14)), waiting, "the second part may arrive");
        assert_eq!(flow.whereabouts(at(16)), Whereabouts { waiting: 1, lost: 1, ..waiting });
        nodes[1].release(&part(1, 0, 4), at(20));
        nodes[1].delete(&part(1, 0, 4), reason::EXPIRED, at(20));
        assert_eq!(flow.whereabouts(at(30)).gone(), 1, "once");
        nodes[1].deliver(&bundle(0));
        assert_eq!(flow.whereabouts(at(30)), Whereabouts { lost: 1, ..Whereabouts::default() });
    }
}
