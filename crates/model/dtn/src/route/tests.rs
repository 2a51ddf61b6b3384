use std::collections::HashSet;

use bentpipe_units::{Rate, Span};
use proptest::prelude::*;

use super::*;
use crate::plan::Contact;

/// Plan of Fraire et al. (2021), figure 3: ranges of 1 s, both directions of each pair.
const TUTORIAL: [(u64, u64, u64, u64); 8] = [
    (1, 2, 0, 60),
    (2, 3, 0, 60),
    (1, 3, 0, 60),
    (3, 4, 0, 30),
    (1, 5, 10, 20),
    (4, 5, 0, 10),
    (4, 5, 30, 40),
    (4, 5, 50, 60),
];

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn contact(from: u64, to: u64, start: u64, end: u64, light: u64) -> Contact {
    let rate = Rate::from_bps(8);
    let light_time = Some(Span::from_secs(light));
    Contact { from, to, start: at(start), end: at(end), rate, confidence: 1.0, light_time }
}

fn graph(contacts: Vec<Contact>, candidates: usize) -> Graph {
    Graph::new(Plan { contacts, ranges: vec![] }, Options { candidates, margin: 0.0 })
}

fn tutorial() -> Graph {
    let both = |(from, to, start, end): (u64, u64, u64, u64)| {
        [contact(from, to, start, end, 1), contact(to, from, start, end, 1)]
    };
    graph(TUTORIAL.into_iter().flat_map(both).collect(), 100)
}

fn anyone(_: u64) -> bool {
    false
}

#[test]
fn the_tutorial_has_seven_routes() {
    let routes = tutorial().routes(1, 5, at(0), &anyone);
    let found: Vec<_> = routes.iter().map(|route| (route.arrival, route.contacts.len(), route.end)).collect();
    let expected = [(3, 3, 10), (4, 4, 10), (11, 1, 20), (31, 3, 30), (31, 4, 30), (51, 3, 30), (51, 4, 30)];
    assert_eq!(found, expected.map(|(arrival, hops, end)| (at(arrival), hops, at(end))));
}

#[test]
fn neighbours_can_be_excluded() {
    let routes = tutorial().routes(1, 5, at(0), &|node| node == 3);
    let arrivals: Vec<_> = routes.iter().map(|route| route.arrival).collect();
    assert_eq!(arrivals, [4, 11, 31, 51].map(at));
}

/// The query of HDTN's issue 71: the closing instant is within the contact.
#[test]
fn the_closing_instant_counts() {
    let plan = vec![contact(1, 2, 100, 200, 3), contact(2, 3, 100, 200, 3), contact(1, 2, 300, 400, 3)];
    let routes = graph(plan, 10).routes(1, 3, at(197), &anyone);
    assert_eq!(routes.iter().map(|route| route.arrival).collect::<Vec<_>>(), [at(203)]);
}

#[test]
fn a_bundle_takes_the_first_arrival_that_has_volume() {
    let big = |contact: Contact| Contact { rate: Rate::from_bps(8000), ..contact };
    let graph = graph(
        vec![big(contact(1, 2, 0, 10, 1)), big(contact(1, 3, 0, 10, 2)), big(contact(3, 2, 0, 20, 2))],
        10,
    );
    let routes = graph.routes(1, 2, at(0), &anyone);
    let mut ledger = Ledger::new(&graph);
    let demand = Demand { size: 5900, priority: 1, may_fragment: false, expiry: Time::NEVER };
    let choose = |ledger: &Ledger, priority: usize| {
        let demand = Demand { priority, ..demand };
        graph.choose(&routes, &demand, ledger, at(0), &|_| 0).map(|choice| choice.neighbour)
    };
    assert_eq!(choose(&ledger, 1), Some(2));
    ledger.book(&routes[0], &demand);
    assert_eq!(
        (choose(&ledger, 1), choose(&ledger, 2)),
        (Some(3), Some(2)),
        "the expedited have their own volume"
    );
    ledger.book(&routes[1], &demand);
    assert_eq!(choose(&ledger, 0), None);
    ledger.release(&routes[0], &demand);
    assert_eq!(choose(&ledger, 0), Some(2));
    let late = Demand { expiry: at(1), ..demand };
    assert_eq!(graph.choose(&routes, &late, &Ledger::new(&graph), at(0), &|_| 0), None);
    let backlog =
        graph.choose(&routes, &demand, &Ledger::new(&graph), at(0), &|to| if to == 2 { 9900 } else { 0 });
    assert_eq!(backlog.map(|choice| choice.neighbour), Some(3), "what waits takes the contact");
}

#[test]
fn a_bundle_that_no_route_takes_is_cut_into_parts_for_several() {
    let big = |contact: Contact| Contact { rate: Rate::from_bps(8000), ..contact };
    let pass = |n: u64| {
        [big(contact(1, 2, 100 * n, 100 * n + 10, 1)), big(contact(2, 3, 100 * n + 20, 100 * n + 30, 1))]
    };
    let graph = graph((0..3).flat_map(pass).collect(), 10);
    let routes = graph.routes(1, 3, at(0), &anyone);
    let mut ledger = Ledger::new(&graph);
    // 10 kB a pass, with 3 % of overhead each.
    let demand = Demand { size: 25_070, priority: 1, may_fragment: true, expiry: at(900) };
    let parts =
        |demand: Demand, ledger: &mut Ledger| graph.parts(&routes, (&demand, 70), ledger, at(0), &|_| 0);
    assert_eq!(
        graph.choose(&routes, &Demand { may_fragment: false, ..demand }, &ledger, at(0), &|_| 0),
        None
    );
    let found = parts(demand, &mut ledger).expect("three passes take it");
    let sizes: Vec<u64> = found.iter().map(|part| part.size).collect();
    assert_eq!(sizes.iter().map(|size| size - 70).sum::<u64>(), 25_000);
    // 9708 + 292 is 10,000; the last one arrives when 2 hops have taken what is left.
    assert_eq!((&sizes[..2], found.len()), (&[9708, 9708][..], 3));
    assert!(found.iter().all(|part| part.choice.neighbour == 2));
    let last = Demand { size: sizes[2], ..demand }.volume();
    assert_eq!(found[2].choice.arrival, at(221) + Span::from_millis(last));
    assert_eq!((ledger.left(0, 1), ledger.left(3, 1)), (10_000, 10_000), "nothing is booked");
    for demand in [
        Demand { may_fragment: false, ..demand },
        Demand { expiry: at(220), ..demand },
        Demand { size: 40_000, ..demand },
    ] {
        assert_eq!(parts(demand, &mut ledger), None, "{demand:?}");
        assert_eq!((ledger.left(0, 1), ledger.left(3, 1)), (10_000, 10_000));
    }
}

/// Returns all routes without loops, found by trying everything.
fn brute(
    graph: &Graph,
    node: u64,
    to: u64,
    ready: Time,
    path: &mut Vec<usize>,
    seen: &mut HashSet<u64>,
    out: &mut Vec<(Time, Vec<usize>)>,
) {
    if node == to {
        out.push((ready, path.clone()));
        return;
    }
    for (n, contact) in graph.plan.contacts.iter().enumerate() {
        if contact.from != node || seen.contains(&contact.to) || contact.end < ready {
            continue;
        }
        seen.insert(contact.to);
        path.push(n);
        let arrival = ready.max(contact.start) + contact.light_time.unwrap();
        brute(graph, contact.to, to, arrival, path, seen, out);
        path.pop();
        seen.remove(&contact.to);
    }
}

proptest! {
    #[test]
    fn routes_are_those_of_brute_force(
        raw in proptest::collection::vec((1u64..6, 1u64..6, 0u64..50, 1u64..30, 0u64..9), 1..14), now in 0u64..30,
    ) {
        let contacts: Vec<_> = raw.iter().filter(|raw| raw.0 != raw.1)
            .map(|(from, to, start, len, light)| contact(*from, *to, *start, start + len, *light)).collect();
        let graph = graph(contacts, 1000);
        let mut all = Vec::new();
        brute(&graph, 1, 5, at(now), &mut vec![], &mut HashSet::from([1]), &mut all);
        let routes = graph.routes(1, 5, at(now), &anyone);
        let arrivals: Vec<_> = routes.iter().map(|route| route.arrival).collect();
        let mut expected: Vec<_> = all.iter().map(|(arrival, _)| *arrival).collect();
        expected.sort();
        prop_assert_eq!(arrivals, expected);
        let found: HashSet<_> = routes.into_iter().map(|route| route.contacts).collect();
        prop_assert_eq!(found, all.into_iter().map(|(_, contacts)| contacts).collect::<HashSet<_>>());
    }
}
