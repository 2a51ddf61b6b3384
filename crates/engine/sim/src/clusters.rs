//! Clusters of elements that may be executed ahead of the others.
//!
//! Deferring elements ([`Element::min_reaction_delay`]) divide the network into clusters. Events in one
//! cluster do not reach another before a deferring element was woken, so a cluster may be executed up to that
//! time in one batch: its data stays in the cache, instead of being fetched again for each turn. This is
//! conservative synchronisation with lookahead, as in parallel simulators (Chandy and Misra 1979, Bryant
//! 1977), on one processor.

use std::collections::HashMap;
use std::ops::Index;

use bentpipe_net::{Element, Wire};
use bentpipe_units::Span;

/// Maximum number of elements of a cluster. In larger ones the agenda finds the first element sooner.
const LARGEST: usize = 8;

/// Clusters of a network, if it has a deferring element.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    clusters: Vec<Cluster>,
    /// Cluster of each element; `None` for deferring elements and in large clusters.
    of: Vec<Option<u32>>,
    /// Minimum reaction delay of the deferring elements.
    min_reaction_delay: Span,
}

/// Elements that are wired to each other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) elements: Vec<u32>,
    /// Deferring elements upstream of the cluster.
    pub(crate) upstream: Vec<u32>,
}

impl Clusters {
    /// Finds the clusters; `wires[e][p]` is the destination of output `p` of element `e`.
    pub(crate) fn find(elements: &[&dyn Element], wires: &[&[Wire]]) -> Clusters {
        let delays: Vec<Span> = elements.iter().map(|element| element.min_reaction_delay()).collect();
        let is_deferring = |element: &usize| !delays[*element].is_zero();
        let Some(least) = delays.iter().copied().filter(|delay| !delay.is_zero()).min() else {
            return Clusters::default();
        };
        let connected = |from: usize| wires[from].iter().filter(|wire| wire.is_connected());
        let all = || 0..elements.len();
        // Connected elements belong together, and those that lead to one input of a deferring one.
        let (mut names, mut leads): (Vec<usize>, HashMap<u64, usize>) = (all().collect(), HashMap::new());
        for from in all().filter(|from| !is_deferring(from)) {
            for wire in connected(from) {
                let to = wire.to() as usize;
                let other = if is_deferring(&to) { *leads.entry(wire.number()).or_insert(from) } else { to };
                join(&mut names, from, other);
            }
        }
        let mut clusters: Vec<Cluster> = all().map(|_| Cluster::default()).collect();
        for element in all() {
            if !is_deferring(&element) {
                clusters[name(&names, element)].elements.push(element as u32);
                continue;
            }
            for wire in connected(element).filter(|wire| !is_deferring(&(wire.to() as usize))) {
                let upstream = &mut clusters[name(&names, wire.to() as usize)].upstream;
                if upstream.last() != Some(&(element as u32)) {
                    upstream.push(element as u32);
                }
            }
        }
        clusters.retain(|cluster| (1..=LARGEST).contains(&cluster.elements.len()));
        let mut of = vec![None; elements.len()];
        for (place, cluster) in clusters.iter().enumerate() {
            cluster.elements.iter().for_each(|&element| of[element as usize] = Some(place as u32));
        }
        Clusters { clusters, of, min_reaction_delay: least }
    }

    /// Returns the cluster of an element, if that may be executed ahead.
    #[inline]
    pub(crate) fn of(&self, element: usize) -> Option<usize> {
        self.of.get(element).copied().flatten().map(|cluster| cluster as usize)
    }

    /// Returns the minimum reaction delay of the deferring elements.
    ///
    /// None of them reacts to an arrival within that time.
    pub(crate) fn min_reaction_delay(&self) -> Span {
        self.min_reaction_delay
    }
}

impl Index<usize> for Clusters {
    type Output = Cluster;

    fn index(&self, cluster: usize) -> &Cluster {
        &self.clusters[cluster]
    }
}

/// Returns the element that represents a cluster.
pub(crate) fn name(names: &[usize], mut element: usize) -> usize {
    while names[element] != element {
        element = names[element];
    }
    element
}

/// Joins the clusters of two elements.
pub(crate) fn join(names: &mut [usize], a: usize, b: usize) {
    let (of_a, of_b) = (name(names, a), name(names, b));
    let joined = of_a.min(of_b);
    // The elements as well, so that the next search from them is short.
    for element in [of_a, of_b, a, b] {
        names[element] = joined;
    }
}

#[cfg(test)]
mod tests;
