//! Paths of virtual channels over ATM lines: least delay, then fewest lines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use bentpipe_units::Span;

use super::Atm;
use bentpipe_site::Way;

/// Lines of a network by the ends that they lead to.
pub(super) struct Graph<'a> {
    atm: &'a Atm,
    /// Lines into each end: number, direction, other end, in the order of the file.
    into: HashMap<&'a str, Vec<(usize, Way, &'a str)>>,
}

/// Next line of each end towards one of them, and the end behind it.
type Towards<'a> = BTreeMap<&'a str, (usize, Way, &'a str)>;

impl<'a> Graph<'a> {
    pub(super) fn new(atm: &'a Atm) -> Graph<'a> {
        let mut into: HashMap<&str, Vec<(usize, Way, &str)>> = HashMap::new();
        for (n, line) in atm.line.values().enumerate() {
            let [a, b] = line.between.each_ref().map(String::as_str);
            for (here, there, way) in [(a, b, Way::Forward), (b, a, Way::Return)] {
                into.entry(there).or_default().push((n, way, here));
            }
        }
        Graph { atm, into }
    }

    /// Returns the end of this name. Before copies are written out, the node stands for each: "home" for "home.2".
    fn end<'n>(&self, name: &'n str) -> &'n str {
        let original =
            || name.rsplit_once('.').map(|(node, _)| node).filter(|node| self.into.contains_key(node));
        if self.into.contains_key(name) { name } else { original().unwrap_or(name) }
    }

    /// Searches backwards from `to` (Dijkstra).
    fn towards(&self, to: &str) -> Towards<'a> {
        let Some((&to, _)) = self.into.get_key_value(to) else { return Towards::new() };
        let mut best: BTreeMap<&str, (Span, u32)> = BTreeMap::from([(to, (Span::ZERO, 0))]);
        let mut next = Towards::new();
        let mut open = BinaryHeap::from([Reverse((Span::ZERO, 0_u32, to))]);
        while let Some(Reverse((delay, hops, at))) = open.pop() {
            if best[at] != (delay, hops) || (at != to && !self.atm.passes(at)) {
                continue;
            }
            for &(n, way, here) in self.into.get(at).map_or(&[][..], Vec::as_slice) {
                let cost = (delay + self.atm.line[n].delay, hops + 1);
                if best.get(here).is_none_or(|known| cost < *known) {
                    best.insert(here, cost);
                    next.insert(here, (n, way, at));
                    open.push(Reverse((cost.0, cost.1, here)));
                }
            }
        }
        next
    }

    /// Returns the numbers of the lines from one node to another, each with its direction. The path leads over
    /// switches.
    ///
    /// # Errors
    /// Returns an error that names both if no lines join them.
    pub(super) fn path(&self, from: &str, to: &str) -> Result<Vec<(usize, Way)>, String> {
        let (from, to) = (self.end(from), self.end(to));
        walk(&self.towards(to), from, to).ok_or_else(|| no_way(from, to))
    }

    /// Returns the tree of paths from a node.
    pub(super) fn tree(&self, root: &str) -> Tree<'_> {
        let root = self.end(root);
        Tree { graph: self, root: root.to_owned(), towards: self.towards(root) }
    }
}

/// Paths from a root to all other ends. No two of them part and meet again.
pub(super) struct Tree<'a> {
    graph: &'a Graph<'a>,
    root: String,
    towards: Towards<'a>,
}

impl Tree<'_> {
    /// Returns the lines from the root to a node, each with its direction.
    ///
    /// # Errors
    /// As [`Graph::path`].
    pub(super) fn path(&self, to: &str) -> Result<Vec<(usize, Way)>, String> {
        let to = self.graph.end(to);
        let mut lines = walk(&self.towards, to, &self.root).ok_or_else(|| no_way(&self.root, to))?;
        lines.reverse();
        lines.iter_mut().for_each(|(_, way)| *way = way.back());
        Ok(lines)
    }
}

fn walk(next: &Towards<'_>, from: &str, to: &str) -> Option<Vec<(usize, Way)>> {
    let (mut at, mut lines) = (from, Vec::new());
    while at != to {
        let (line, way, then) = next.get(at)?;
        lines.push((*line, *way));
        at = then;
    }
    Some(lines)
}

fn no_way(from: &str, to: &str) -> String {
    format!("no way from \"{from}\" to \"{to}\" over ATM lines: expected `atm.line` to join them")
}
