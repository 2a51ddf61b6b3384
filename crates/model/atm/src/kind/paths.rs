//! Paths of virtual channels over ATM lines: least delay, then fewest lines.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use bentpipe_units::Span;

use super::Atm;
use bentpipe_site::Way;

/// Lines of a network by the ends that they join.
///
/// Only switches and the like pass cells on. A path has other ends at its two ends alone, so that a search visits
/// none of them: its cost does not grow with the number of hosts.
pub(super) struct Graph<'a> {
    atm: &'a Atm,
    /// Lines into each end, in the order of the file.
    ///
    /// They come from ends that pass cells on.
    into: HashMap<&'a str, Vec<Hop<'a>>>,
    /// Lines out of each end, likewise.
    out_of: HashMap<&'a str, Vec<Hop<'a>>>,
}

/// A line, a direction on it, and an end of it.
type Hop<'a> = (usize, Way, &'a str);

/// Delay and lines to an end that is searched for.
type Cost = (Span, u32);

/// Costs of ends to one of them, and the next lines.
///
/// It has those that pass cells on.
struct Towards<'a> {
    best: HashMap<&'a str, Cost>,
    next: HashMap<&'a str, Hop<'a>>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(atm: &'a Atm) -> Graph<'a> {
        let (mut into, mut out_of): (HashMap<&str, Vec<_>>, HashMap<&str, Vec<_>>) = Default::default();
        for (n, line) in atm.line.values().enumerate() {
            let [a, b] = line.between.each_ref().map(String::as_str);
            for (here, there, way) in [(a, b, Way::Forward), (b, a, Way::Return)] {
                out_of.entry(here).or_default().push((n, way, there));
                if atm.passes(here) {
                    into.entry(there).or_default().push((n, way, here));
                }
            }
        }
        Graph { atm, into, out_of }
    }

    /// Returns the end of this name. Before copies are written out, the node stands for each: "home" for "home.2".
    fn end<'n>(&self, name: &'n str) -> &'n str {
        let original =
            || name.rsplit_once('.').map(|(node, _)| node).filter(|node| self.out_of.contains_key(node));
        if self.out_of.contains_key(name) { name } else { original().unwrap_or(name) }
    }

    /// Returns the cost of a line in front of a path.
    fn longer(&self, (delay, hops): Cost, line: usize) -> Cost {
        (delay + self.atm.line[line].delay, hops + 1)
    }

    /// Searches backwards from `to` (Dijkstra), over ends that pass cells on.
    fn towards(&self, to: &str) -> Towards<'a> {
        let mut found = Towards { best: HashMap::new(), next: HashMap::new() };
        let Some((&to, _)) = self.out_of.get_key_value(to) else { return found };
        found.best.insert(to, (Span::ZERO, 0));
        let mut open = BinaryHeap::from([Reverse(((Span::ZERO, 0_u32), to))]);
        while let Some(Reverse((cost, at))) = open.pop() {
            if found.best[at] != cost {
                continue;
            }
            for &(n, way, here) in self.into.get(at).map_or(&[][..], Vec::as_slice) {
                let cost = self.longer(cost, n);
                if found.best.get(here).is_none_or(|known| cost < *known) {
                    found.best.insert(here, cost);
                    found.next.insert(here, (n, way, at));
                    open.push(Reverse((cost, here)));
                }
            }
        }
        found
    }

    /// Returns the next line from an end towards the one that was searched from.
    ///
    /// Of equal ones it is that to the nearer end, by name and by number.
    fn first(&self, found: &Towards<'a>, from: &str) -> Option<Hop<'a>> {
        if self.atm.passes(from) {
            return found.next.get(from).copied();
        }
        let hops = self.out_of.get(from)?;
        let key = |(cost, (n, _, at)): &(Cost, Hop<'a>)| (self.longer(*cost, *n), *cost, *at, *n);
        let least = match self.has_fewer(found, hops.len()) {
            true => self.by_ends(found, from).min_by_key(key),
            false => hops.iter().filter_map(|hop| Some((*found.best.get(hop.2)?, *hop))).min_by_key(key),
        };
        Some(least?.1)
    }

    /// Returns `true` if the ends that were found have fewer lines than this.
    fn has_fewer(&self, found: &Towards<'a>, lines: usize) -> bool {
        let mut left = lines;
        found.best.keys().all(|end| {
            left = left.saturating_sub(self.out_of.get(end).map_or(0, Vec::len));
            left > 0
        })
    }

    /// Returns the lines from a node to the ends that were found.
    ///
    /// They are looked for among the lines of these ends.
    fn by_ends<'f>(
        &'f self,
        found: &'f Towards<'a>,
        from: &'f str,
    ) -> impl Iterator<Item = (Cost, Hop<'a>)> + 'f {
        found.best.iter().flat_map(move |(at, cost)| {
            let lines = self.out_of.get(at).map_or(&[][..], Vec::as_slice).iter();
            let back =
                move |(n, way, there): &Hop<'a>| (*there == from).then_some((*cost, (*n, way.back(), *at)));
            lines.filter_map(back)
        })
    }

    /// Returns the lines from one end to that which was searched from.
    fn walk(&self, found: &Towards<'a>, from: &str, to: &str) -> Option<Vec<(usize, Way)>> {
        if from == to {
            return Some(Vec::new());
        }
        let (line, way, mut at) = self.first(found, from)?;
        let mut lines = vec![(line, way)];
        while at != to {
            let (line, way, then) = found.next.get(at)?;
            lines.push((*line, *way));
            at = then;
        }
        Some(lines)
    }

    /// Returns the numbers of the lines from one node to another, each with its direction. The path leads over
    /// switches.
    ///
    /// # Errors
    /// Returns an error that names both if no lines join them.
    pub(super) fn path(&self, from: &str, to: &str) -> Result<Vec<(usize, Way)>, String> {
        let (from, to) = (self.end(from), self.end(to));
        self.walk(&self.towards(to), from, to).ok_or_else(|| no_way(from, to))
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
        let walked = self.graph.walk(&self.towards, to, &self.root);
        let mut lines = walked.ok_or_else(|| no_way(&self.root, to))?;
        lines.reverse();
        lines.iter_mut().for_each(|(_, way)| *way = way.back());
        Ok(lines)
    }
}

fn no_way(from: &str, to: &str) -> String {
    format!("no way from \"{from}\" to \"{to}\" over ATM lines: expected `atm.line` to join them")
}
