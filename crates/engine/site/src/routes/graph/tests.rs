use std::collections::BTreeMap;

use bentpipe_units::RandomStream;

use super::*;
use crate::Way;

/// Next hops of all nodes towards a destination, by a search through the whole graph.
fn searched(forwards: &[bool], edges: &[Edge], to: usize) -> Vec<Option<(Hop, usize)>> {
    let mut best: Vec<Option<(Span, u32)>> = vec![None; forwards.len()];
    let mut next = vec![None; forwards.len()];
    best[to] = Some((Span::ZERO, 0));
    let mut open = BinaryHeap::from([Reverse((Span::ZERO, 0_u32, to))]);
    while let Some(Reverse((delay, hops, node))) = open.pop() {
        if best[node] != Some((delay, hops)) || (node != to && !forwards[node]) {
            continue;
        }
        for edge in edges.iter().filter(|edge| edge.to == node) {
            let cost = (delay + edge.delay, hops + 1);
            if best[edge.from].is_none_or(|known| cost < known) {
                best[edge.from] = Some(cost);
                next[edge.from] = Some((edge.hop, node));
                open.push(Reverse((cost.0, cost.1, edge.from)));
            }
        }
    }
    next
}

/// A graph of some routers in a mesh, trees of routers and hosts on them, several links between two nodes, and links of one
/// direction.
fn drawn(stream: &mut RandomStream) -> (Vec<bool>, Vec<Edge>) {
    let mut below = |most: usize| (stream.unit() * most as f64) as usize;
    let count = 2 + below(20);
    let forwards: Vec<bool> = (0..count).map(|_| below(3) > 0).collect();
    let mesh = below(count);
    let mut edges = Vec::new();
    for n in 0..count + below(6) {
        // Each node joins one before it, and some nodes of the mesh others.
        let (a, b) = if n < count { (n, below(n.max(1))) } else { (below(mesh.max(1)), below(mesh.max(1))) };
        if a == b || below(12) == 0 {
            continue;
        }
        for link in 0..1 + below(5) / 4 {
            let delays = [below(3), below(3)].map(|ms| Span::from_millis(ms as u64));
            let hop = |way| Hop::Link(8 * n + link, way);
            let both = [
                Edge { from: a, to: b, hop: hop(Way::Forward), delay: delays[0] },
                Edge { from: b, to: a, hop: hop(Way::Return), delay: delays[1] },
            ];
            edges.extend(both.into_iter().filter(|_| below(15) > 0));
        }
    }
    (forwards, edges)
}

/// A graph of two or three hubs and many nodes between them, some of which have a line to each other.
fn between_hubs(stream: &mut RandomStream) -> (Vec<bool>, Vec<Edge>) {
    let mut below = |most: usize| (stream.unit() * most as f64) as usize;
    let (hubs, count) = (2 + below(2), 12 + below(12));
    let forwards: Vec<bool> = (0..count).map(|node| below(4) > usize::from(node < hubs)).collect();
    let mut edges = Vec::new();
    for n in hubs..count {
        for hub in 0..hubs + below(8) / 7 {
            let other = if hub < hubs { hub } else { hubs + below(count - hubs) };
            let delays = [below(40), below(40)].map(|ms| Span::from_millis(ms as u64));
            let hop = |way| Hop::Link(8 * n + hub, way);
            edges.extend([
                Edge { from: other, to: n, hop: hop(Way::Forward), delay: delays[0] },
                Edge { from: n, to: other, hop: hop(Way::Return), delay: delays[1] },
            ]);
        }
    }
    edges.retain(|edge| edge.from != edge.to && below(30) > 0);
    (forwards, edges)
}

#[test]
fn paths_are_those_of_a_search_through_the_whole_graph() {
    let (mut stream, mut paths, mut trees) = (RandomStream::new(1, "graphs"), 0, 0);
    let mut by_hubs = 0;
    for round in 0..800 {
        let draw = if round % 2 == 0 { drawn } else { between_hubs };
        let (forwards, edges) = draw(&mut stream);
        let mut graph = Graph::new(forwards.clone(), edges.clone());
        trees += graph.branches.iter().flatten().filter(|branch| branch.depth > 1).count();
        for to in 0..forwards.len() {
            let next = searched(&forwards, &edges, to);
            for from in 0..forwards.len() {
                let mut expected = (from == to || next[from].is_some()).then(Vec::new);
                let mut node = from;
                while let (Some(steps), Some(step)) = (&mut expected, next[node].filter(|_| node != to)) {
                    steps.push(step);
                    node = step.1;
                }
                paths += usize::from(expected.as_ref().is_some_and(|steps| steps.len() > 1));
                assert_eq!(
                    graph.steps(from, to),
                    expected,
                    "{round}: {from} to {to} in {edges:?} {forwards:?}"
                );
            }
        }
        by_hubs += if graph.hubs.is_empty() { 0 } else { graph.core.len() - graph.trees.len() };
    }
    assert!(paths > 10_000 && trees > 500, "{paths} paths, {trees} nodes deep in trees");
    assert!(by_hubs > 1000, "{by_hubs} destinations without a search of their own");
}

/// Thousands of nodes between two routers are searched for by these two.
#[test]
fn nodes_between_hubs_need_no_search_of_their_own() {
    let mut edges = Vec::new();
    for n in 2..2002 {
        for hub in 0..2 {
            let delay = Span::from_millis(1 + 249 * hub as u64);
            let hop = |way| Hop::Link(2 * n + hub, way);
            edges.push(Edge { from: hub, to: n, hop: hop(Way::Forward), delay });
            edges.push(Edge { from: n, to: hub, hop: hop(Way::Return), delay });
        }
    }
    let mut graph = Graph::new(vec![true; 2002], edges);
    for n in 2..2002 {
        assert!((0..2).all(|hub| graph.steps(hub, n).is_some_and(|steps| steps.len() == 1)));
    }
    assert_eq!((graph.trees.len(), graph.hubs.len()), (0, 2));
}

#[test]
fn own_and_shared_routes_are_those_of_a_search() {
    let (mut stream, mut shared) = (RandomStream::new(2, "graphs"), 0);
    for round in 0..400 {
        let (forwards, edges) = drawn(&mut stream);
        let to: Vec<usize> = (0..forwards.len()).filter(|_| stream.unit() < 0.7).collect();
        let mut table: BTreeMap<(usize, usize), Hop> = BTreeMap::new();
        let own = |node, n: usize, hop| {
            assert!(table.insert((node, to[n]), hop).is_none(), "{round}: twice");
        };
        let routes = Graph::new(forwards.clone(), edges.clone()).routes(&to, own);
        for SharedRoute { node, hop, destinations } in routes {
            for n in destinations.iter().filter(|n| to[**n] != node) {
                // A node's own route comes first.
                table.entry((node, to[*n])).or_insert(hop);
                shared += 1;
            }
        }
        for &to in &to {
            let next = searched(&forwards, &edges, to);
            for from in (0..forwards.len()).filter(|from| *from != to) {
                let found = table.get(&(from, to)).copied();
                assert_eq!(
                    found,
                    next[from].map(|(hop, _)| hop),
                    "{round}: {from} to {to} in {edges:?} {forwards:?}"
                );
            }
        }
    }
    assert!(shared > 5000, "{shared} shared routes");
}
