//! Graph of one IP version: a core, and trees of nodes that hang on it.
//!
//! A node with one neighbour hangs on it, and so does a node whose other neighbours hang on it. All of their ways lead over
//! the node that they hang on, so that searches are needed in the core alone: one for each of its nodes with destinations
//! behind it, however many these are. A node of the core with few neighbours needs none of its own where those have many: it is reached
//! by way of one of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use bentpipe_units::Span;

use super::Hop;

/// Hop from a node to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) hop: Hop,
    pub(super) delay: Span,
}

/// Node outside of the core.
#[derive(Clone, Copy)]
struct Branch {
    /// Node that it hangs on.
    parent: usize,
    /// Number of nodes from it to the core.
    depth: u32,
    /// Edge to the parent.
    up: Option<usize>,
    /// Edge from the parent.
    down: Option<usize>,
}

/// Number of no edge.
const NONE: u32 = u32::MAX;

/// Edges, and the next hops that were found.
pub(super) struct Graph {
    edges: Vec<Edge>,
    /// Set for each node that forwards packets of others.
    forwards: Vec<bool>,
    /// Nodes outside of the core.
    branches: Vec<Option<Branch>>,
    /// Nodes of the core.
    core: Vec<usize>,
    /// Number of each node in the core.
    in_core: Vec<u32>,
    /// Edges in the core by the node that they lead to, in order.
    into: Vec<Vec<u32>>,
    /// Next edges of the core's nodes by the destination there.
    trees: BTreeMap<usize, Vec<u32>>,
    /// The tree that was found last, once no more are kept.
    latest: Option<(usize, Vec<u32>)>,
    /// Trees with costs, of neighbours of destinations.
    hubs: BTreeMap<usize, Rc<Hub>>,
}

/// Delay and hops of a path.
type Cost = (Span, u32);

/// Paths of the core's nodes to one of them.
struct Hub {
    next: Vec<u32>,
    best: Vec<Option<Cost>>,
}

/// Most edges in trees that are kept: 64 MB.
const MOST_KEPT: usize = 1 << 24;

/// Most neighbours of a destination that is reached by their trees.
const FEW: usize = 8;

/// Neighbours that each of those has at least.
const MANY: usize = 5;

/// Route of a node to all destinations that it has no other route to.
pub(crate) struct SharedRoute {
    pub(crate) node: usize,
    pub(crate) hop: Hop,
    /// Numbers of the destinations. Many nodes have the same list.
    pub(crate) destinations: Rc<Vec<usize>>,
}

impl Hub {
    fn at(&self, place: usize) -> (Option<Cost>, u32) {
        (self.best[place], self.next[place])
    }
}

impl Graph {
    /// Creates the graph. Of equal paths the one with the first edge is taken.
    pub(super) fn new(forwards: Vec<bool>, edges: Vec<Edge>) -> Graph {
        let branches = branches(forwards.len(), &edges);
        let core: Vec<usize> = (0..forwards.len()).filter(|node| branches[*node].is_none()).collect();
        let mut in_core = vec![NONE; forwards.len()];
        core.iter().enumerate().for_each(|(n, node)| in_core[*node] = n as u32);
        let mut into = vec![Vec::new(); core.len()];
        for (n, edge) in edges.iter().enumerate() {
            if branches[edge.from].is_none() && branches[edge.to].is_none() {
                into[in_core[edge.to] as usize].push(n as u32);
            }
        }
        let (trees, hubs) = (BTreeMap::new(), BTreeMap::new());
        Graph { edges, forwards, branches, core, in_core, into, trees, latest: None, hubs }
    }

    /// Returns the same graph with all nodes as routers.
    pub(super) fn if_all_forwarded(&self) -> Graph {
        Graph::new(vec![true; self.forwards.len()], self.edges.clone())
    }

    /// Returns the hops of the shortest path, each with the node that it leads to.
    pub(super) fn steps(&mut self, from: usize, to: usize) -> Option<Vec<(Hop, usize)>> {
        let (mut a, mut b) = (from, to);
        let (mut edges, mut last) = (Vec::new(), Vec::new());
        while a != b {
            match (self.branches[a], self.branches[b]) {
                (Some(up), other) if other.is_none_or(|other| up.depth >= other.depth) => {
                    edges.push(up.up?);
                    a = up.parent;
                }
                (_, Some(down)) => {
                    last.push(down.down?);
                    b = down.parent;
                }
                (_, None) => break,
            }
        }
        while a != b {
            let edge = self.in_core(a, b)?;
            edges.push(edge);
            a = self.edges[edge].to;
        }
        edges.extend(last.into_iter().rev());
        let steps = edges.into_iter().map(|edge| (self.edges[edge].hop, self.edges[edge].to));
        let steps: Vec<(Hop, usize)> = steps.collect();
        let passes = |(_, node): &(Hop, usize)| *node == to || self.forwards[*node];
        steps.iter().all(passes).then_some(steps)
    }

    /// Returns the next edge from one node of the core to another.
    fn in_core(&mut self, from: usize, to: usize) -> Option<usize> {
        let place = self.in_core[from] as usize;
        let edge = match self.has_tree(to) {
            false => self.by_hubs(from, to),
            true => None,
        };
        let edge = edge.unwrap_or_else(|| self.tree(to)[place]);
        (edge != NONE).then_some(edge as usize)
    }

    /// Returns the next edge by the trees of the destination's neighbours, which many destinations share.
    ///
    /// `None` if it has many, or they have few themselves, or the paths by two of them are equal: the search decides then.
    fn by_hubs(&mut self, from: usize, to: usize) -> Option<u32> {
        let into = |node: usize| &self.into[self.in_core[node] as usize];
        let edge =
            |number: &u32| (*number, self.edges[*number as usize].from, self.edges[*number as usize].delay);
        let last: Vec<(u32, usize, Span)> = into(to).iter().take(FEW + 1).map(edge).collect();
        let many = MANY.max(last.len() + 1);
        if last.len() > FEW || last.iter().any(|(_, hub, _)| into(*hub).len() < many) {
            return None;
        }
        let place = self.in_core[from] as usize;
        let mut least: Option<(Cost, u32)> = None;
        let mut is_equal = false;
        for (number, hub, delay) in last {
            let (best, next) = match hub == from {
                true => (Some((Span::ZERO, 0)), number),
                false if !self.forwards[hub] => continue,
                false => self.hub(hub).at(place),
            };
            let Some((before, hops)) = best else { continue };
            let cost = (before + delay, hops + 1);
            match least {
                Some((known, _)) if known < cost => {}
                // Of several lines to the destination itself the first one counts.
                Some((known, other)) if known == cost => is_equal |= other != next && hub != from,
                _ => (least, is_equal) = (Some((cost, next)), false),
            }
        }
        (!is_equal).then(|| least.map_or(NONE, |(_, next)| next))
    }

    /// Returns the paths to a neighbour of destinations.
    fn hub(&mut self, node: usize) -> Rc<Hub> {
        if let Some(hub) = self.hubs.get(&node) {
            return Rc::clone(hub);
        }
        let hub = Rc::new(self.search(node));
        self.hubs.insert(node, Rc::clone(&hub));
        hub
    }

    /// Returns the next edges of the core's nodes towards one of them.
    fn tree(&mut self, to: usize) -> &[u32] {
        if !self.has_tree(to) {
            let Hub { next, .. } = self.search(to);
            if self.keeps_more() {
                self.trees.insert(to, next);
            } else {
                self.latest = Some((to, next));
            }
        }
        match (self.trees.get(&to), &self.latest) {
            (Some(tree), _) | (None, Some((_, tree))) => tree,
            (None, None) => &[],
        }
    }

    fn has_tree(&self, to: usize) -> bool {
        self.trees.contains_key(&to) || self.latest.as_ref().is_some_and(|(latest, _)| *latest == to)
    }

    /// Returns `true` if there is room for another tree.
    fn keeps_more(&self) -> bool {
        self.trees.len() * self.core.len() < MOST_KEPT
    }

    /// Searches backwards from the destination (Dijkstra).
    fn search(&self, destination: usize) -> Hub {
        let mut best: Vec<Option<Cost>> = vec![None; self.core.len()];
        let mut next = vec![NONE; self.core.len()];
        let place = |node: usize| self.in_core[node] as usize;
        best[place(destination)] = Some((Span::ZERO, 0));
        let mut open = BinaryHeap::from([Reverse((Span::ZERO, 0_u32, destination))]);
        while let Some(Reverse((delay, hops, node))) = open.pop() {
            let is_on_way = node == destination || self.forwards[node];
            if best[place(node)] != Some((delay, hops)) || !is_on_way {
                continue;
            }
            for &number in &self.into[place(node)] {
                let edge = &self.edges[number as usize];
                let (cost, from) = ((delay + edge.delay, hops + 1), place(edge.from));
                if best[from].is_none_or(|known| cost < known) {
                    best[from] = Some(cost);
                    next[from] = number;
                    open.push(Reverse((cost.0, cost.1, edge.from)));
                }
            }
        }
        Hub { next, best }
    }

    /// Returns the routes of all nodes to these destinations.
    ///
    /// `own` is called with a node, the number of a destination and the hop. A node that hangs on another one shares a
    /// list of the rest with the others there.
    pub(super) fn routes(
        &mut self,
        to: &[usize],
        mut own: impl FnMut(usize, usize, Hop),
    ) -> Vec<SharedRoute> {
        let down: Vec<Option<usize>> = (0..to.len()).map(|n| self.descend(n, to[n], &mut own)).collect();
        for (n, root) in down.into_iter().enumerate() {
            let Some(root) = root else { continue };
            if self.keeps_more() {
                self.tree(root);
            }
            let found;
            let tree = match self.trees.get(&root) {
                Some(kept) => kept,
                None => {
                    found = self.search(root).next;
                    &found
                }
            };
            let next = self.core.iter().zip(tree).filter(|(_, edge)| **edge != NONE);
            next.for_each(|(node, edge)| own(*node, n, self.edges[*edge as usize].hop));
        }
        self.shared(to)
    }

    /// Calls `own` for the nodes that a destination hangs on. Returns the node of the core that it is reached by from
    /// others there.
    fn descend(&self, n: usize, to: usize, own: &mut impl FnMut(usize, usize, Hop)) -> Option<usize> {
        let mut node = to;
        while let Some(Branch { parent, down, .. }) = self.branches[node] {
            if node != to && !self.forwards[node] {
                return None;
            }
            own(parent, n, self.edges[down?].hop);
            node = parent;
        }
        (node == to || self.forwards[node]).then_some(node)
    }

    /// Returns the routes to parents.
    fn shared(&mut self, to: &[usize]) -> Vec<SharedRoute> {
        let all = Rc::new((0..to.len()).collect::<Vec<usize>>());
        let mut beyond: BTreeMap<usize, Rc<Vec<usize>>> = BTreeMap::new();
        let mut routes = Vec::new();
        for node in self.by_depth() {
            let Some(Branch { parent, up: Some(up), .. }) = self.branches[node] else { continue };
            if !beyond.contains_key(&parent) {
                let reached = self.beyond(parent, to, &beyond, &all);
                beyond.insert(parent, reached);
            }
            let destinations = Rc::clone(&beyond[&parent]);
            routes.push(SharedRoute { node, hop: self.edges[up].hop, destinations });
        }
        routes
    }

    /// Returns the nodes outside of the core, those next to it first.
    fn by_depth(&self) -> Vec<usize> {
        let mut nodes: Vec<(u32, usize)> = self
            .branches
            .iter()
            .enumerate()
            .filter_map(|(node, at)| Some((at.as_ref()?.depth, node)))
            .collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    /// Returns the destinations that packets through a node reach, itself included.
    fn beyond(
        &mut self,
        node: usize,
        to: &[usize],
        known: &BTreeMap<usize, Rc<Vec<usize>>>,
        all: &Rc<Vec<usize>>,
    ) -> Rc<Vec<usize>> {
        if let Some(Branch { parent, up: Some(_), down: Some(_), .. }) = self.branches[node]
            && self.forwards[node]
            && self.forwards[parent]
            && let Some(of_parent) = known.get(&parent)
        {
            return Rc::clone(of_parent);
        }
        let forwards = self.forwards[node];
        let is_reached = |n: &usize| to[*n] == node || (forwards && self.steps(node, to[*n]).is_some());
        let reached: Vec<usize> = (0..to.len()).filter(is_reached).collect();
        if reached.len() == all.len() { Rc::clone(all) } else { Rc::new(reached) }
    }
}

/// Returns the nodes outside of the core.
///
/// Nodes with one neighbour are removed until none is left.
fn branches(count: usize, edges: &[Edge]) -> Vec<Option<Branch>> {
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); count];
    for edge in edges.iter().filter(|edge| edge.from != edge.to) {
        near[edge.from].push(edge.to);
        near[edge.to].push(edge.from);
    }
    near.iter_mut().for_each(|nodes| {
        nodes.sort_unstable();
        nodes.dedup();
    });
    let mut left: Vec<usize> = near.iter().map(Vec::len).collect();
    let mut ends: Vec<usize> = (0..count).rev().filter(|node| left[*node] == 1).collect();
    let mut branches: Vec<Option<Branch>> = vec![None; count];
    let mut order = Vec::new();
    while let Some(node) = ends.pop() {
        let parent = near[node].iter().copied().find(|other| branches[*other].is_none());
        // The last of two has none left.
        let Some(parent) = parent.filter(|_| left[node] == 1) else { continue };
        branches[node] = Some(Branch { parent, depth: 1, up: None, down: None });
        order.push(node);
        left[parent] -= 1;
        if left[parent] == 1 {
            ends.push(parent);
        }
    }
    for node in order.into_iter().rev() {
        let depth = branches[node].and_then(|own| branches[own.parent]).map_or(1, |parent| parent.depth + 1);
        branches[node].iter_mut().for_each(|own| own.depth = depth);
    }
    join(&mut branches, edges);
    branches
}

/// Sets the edges between nodes and their parents.
///
/// Of several the fastest is taken, of equal ones the first.
fn join(branches: &mut [Option<Branch>], edges: &[Edge]) {
    for (n, edge) in edges.iter().enumerate() {
        let better = |old: Option<usize>| old.is_none_or(|old| edge.delay < edges[old].delay);
        if let Some(own) = branches[edge.from].as_mut().filter(|own| own.parent == edge.to)
            && better(own.up)
        {
            own.up = Some(n);
        }
        if let Some(own) = branches[edge.to].as_mut().filter(|own| own.parent == edge.from)
            && better(own.down)
        {
            own.down = Some(n);
        }
    }
}

#[cfg(test)]
mod tests;
