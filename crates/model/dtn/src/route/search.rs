//! Yen's algorithm over contacts, with a search for the earliest arrival at its core.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use bentpipe_units::Time;

use super::{Graph, Route};

/// Restrictions of one search.
struct Spur<'g> {
    graph: &'g Graph,
    /// Nodes of the path up to here, which must not occur again.
    nodes: HashSet<u64>,
    /// Contacts that must not follow the path.
    banned: HashSet<usize>,
    is_excluded: &'g dyn Fn(u64) -> bool,
    /// Node that routes are of: its neighbours may be excluded.
    root: u64,
}

impl Spur<'_> {
    fn allows(&self, contact: usize, is_first: bool) -> bool {
        let of = &self.graph.plan.contacts[contact];
        let is_neighbour = of.from == self.root && (self.is_excluded)(of.to);
        let is_banned = is_first && self.banned.contains(&contact);
        !(is_neighbour || is_banned || self.nodes.contains(&of.to))
    }

    /// Returns the contacts of the earliest arrival at `to` from another node.
    fn search(&self, from: u64, to: u64, ready: Time) -> Option<Vec<usize>> {
        // Earlier is never worse, since waiting is allowed: labels by node are enough.
        let mut best: HashMap<u64, (Time, u32, Option<usize>)> = HashMap::from([(from, (ready, 0, None))]);
        let mut heap = BinaryHeap::from([Reverse((ready, 0u32, from))]);
        let mut done = HashSet::new();
        while let Some(Reverse((arrival, hops, node))) = heap.pop() {
            if node == to {
                break;
            }
            if !done.insert(node) {
                continue;
            }
            for &contact in self.graph.outgoing.get(&node).into_iter().flatten() {
                let next = self.graph.plan.contacts[contact].to;
                let Some(at) = self.graph.arrival(contact, arrival) else { continue };
                let known = best.get(&next).map(|(at, hops, _)| (*at, *hops));
                if self.allows(contact, node == from) && known.is_none_or(|known| (at, hops + 1) < known) {
                    best.insert(next, (at, hops + 1, Some(contact)));
                    heap.push(Reverse((at, hops + 1, next)));
                }
            }
        }
        self.path(&best, from, to)
    }

    fn path(
        &self,
        best: &HashMap<u64, (Time, u32, Option<usize>)>,
        from: u64,
        to: u64,
    ) -> Option<Vec<usize>> {
        let (mut contacts, mut node) = (Vec::new(), to);
        while node != from {
            let contact = best.get(&node)?.2?;
            contacts.push(contact);
            node = self.graph.plan.contacts[contact].from;
        }
        contacts.reverse();
        Some(contacts)
    }
}

pub(super) fn yen(
    graph: &Graph,
    (from, to): (u64, u64),
    now: Time,
    is_excluded: &dyn Fn(u64) -> bool,
) -> Vec<Route> {
    if from == to {
        return Vec::new();
    }
    let mut found: Vec<Route> = Vec::new();
    let mut known: HashSet<Vec<usize>> = HashSet::new();
    let mut candidates: BinaryHeap<Reverse<(Time, usize, Vec<usize>)>> = BinaryHeap::new();
    let mut offer = |contacts: Vec<usize>, candidates: &mut BinaryHeap<_>| {
        if let Some(route) = graph.route(contacts, now)
            && known.insert(route.contacts.clone())
        {
            candidates.push(Reverse((route.arrival, route.contacts.len(), route.contacts)));
        }
    };
    let mut spur =
        Spur { graph, nodes: HashSet::from([from]), banned: HashSet::new(), is_excluded, root: from };
    if let Some(first) = spur.search(from, to, now) {
        offer(first, &mut candidates);
    }
    while let Some(Reverse((_, _, contacts))) = candidates.pop() {
        let route = graph.route(contacts, now).expect("offered as a route");
        let last = route.contacts.clone();
        found.push(route);
        if found.len() == graph.options.candidates {
            break;
        }
        deviate(&mut spur, &found, &last, (from, to, now), |contacts| offer(contacts, &mut candidates));
    }
    found
}

/// Offers the best route that leaves `last` at each of its nodes.
fn deviate(
    spur: &mut Spur<'_>,
    found: &[Route],
    last: &[usize],
    (from, to, now): (u64, u64, Time),
    mut offer: impl FnMut(Vec<usize>),
) {
    spur.nodes = HashSet::from([from]);
    let (mut node, mut ready) = (from, now);
    for at in 0..last.len() {
        let root = &last[..at];
        let same_root =
            found.iter().filter(|route| route.contacts.len() > at && route.contacts[..at] == *root);
        spur.banned = same_root.map(|route| route.contacts[at]).collect();
        if let Some(rest) = spur.search(node, to, ready) {
            offer([root, &rest].concat());
        }
        let contact = last[at];
        node = spur.graph.plan.contacts[contact].to;
        spur.nodes.insert(node);
        ready = spur.graph.arrival(contact, ready).expect("passable");
    }
}
