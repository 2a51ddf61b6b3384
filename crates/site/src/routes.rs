//! Paths through a topology: least delay, then fewest hops, then the order of the file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bentpipe_units::{Bytes, Span};

use crate::{IpVersion, LinkAt, Passage, Problem, Topology, Way};

/// Step of a path, out of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hop {
    /// Over a link, by its number in the file.
    Link(usize, Way),
    /// Into a tunnel, by its number in the file, forward if from its first-named end.
    Tunnel(usize, Way),
}

/// Error returned when no path leads from a node to another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(String);

#[derive(Clone, Copy)]
struct Edge {
    from: usize,
    to: usize,
    hop: Hop,
    delay: Span,
}

/// Hop of each node, by its number, and the next node; `None` without a route.
type NextHops = Vec<Option<(Hop, usize)>>;

/// Ways to destinations: for each node the hop to take, found once for each destination.
pub struct Router<'a> {
    topology: &'a Topology,
    /// Edges by IP version.
    edges: BTreeMap<IpVersion, Vec<Edge>>,
    /// Routes found, by IP version and destination.
    found: BTreeMap<(IpVersion, usize), NextHops>,
    /// Trees found, by IP version and root, if paths are found by them.
    trees: Option<BTreeMap<(IpVersion, usize), Vec<Reached>>>,
}

/// Last hop to a node from the root of a tree.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// Hop and the node before; `None` at the root and without a path.
    hop: Option<(Hop, usize)>,
    /// Set if another path is as good.
    is_tied: bool,
}

impl<'a> Router<'a> {
    /// Creates a router over a topology.
    ///
    /// # Errors
    /// Returns an error if the ends of a tunnel do not reach each other over IPv4.
    pub fn new(topology: &'a Topology) -> Result<Router<'a>, Problem> {
        Router::over(topology, &|passage| !matches!(passage, Passage::Closed | Passage::Groups))
            .with_tunnels()
    }

    /// Creates a router of packets to groups, which also pass directions for groups alone.
    ///
    /// Of equal paths those directions are preferred.
    ///
    /// # Errors
    /// As [`Router::new`].
    pub fn of_groups(topology: &'a Topology) -> Result<Router<'a>, Problem> {
        let mut router = Router::over(topology, &|passage| passage != Passage::Closed);
        let is_ordinary = |edge: &Edge| match edge.hop {
            Hop::Link(n, way) => topology.link[n].passage[way.index()] != Passage::Groups,
            Hop::Tunnel(..) => true,
        };
        router.edges.values_mut().for_each(|edges| edges.sort_by_key(is_ordinary));
        router.trees = Some(BTreeMap::new());
        router.with_tunnels()
    }

    fn with_tunnels(mut self) -> Result<Router<'a>, Problem> {
        // Packets in a tunnel are addressed to its end.
        let tunnels = if self.topology.tunnel.is_empty() {
            Vec::new()
        } else {
            Router::over(self.topology, &|passage| !matches!(passage, Passage::Closed | Passage::Groups))
                .tunnel_edges()?
        };
        self.edges.entry(IpVersion::V6).or_default().extend(tunnels);
        Ok(self)
    }

    /// Creates a router over links alone, apart from directions that are tunnelled.
    pub fn underlay(topology: &'a Topology) -> Router<'a> {
        Router::over(topology, &|passage| passage == Passage::Own)
    }

    fn over(topology: &'a Topology, has: &dyn Fn(Passage) -> bool) -> Router<'a> {
        let edges = [IpVersion::V4, IpVersion::V6].map(|ip| (ip, link_edges(topology, ip, has)));
        Router { topology, edges: BTreeMap::from(edges), found: BTreeMap::new(), trees: None }
    }

    fn tunnel_edges(&mut self) -> Result<Vec<Edge>, Problem> {
        let mut edges = Vec::new();
        for (n, name) in self.topology.tunnel.keys().enumerate() {
            for way in Way::BOTH {
                let [from, to] = self.topology.tunnel_ends(n, way);
                let path = self.path(from, to, IpVersion::V4);
                let path = path.map_err(|error| Problem::new(format!("tunnel.{name}"), error.to_string()))?;
                let delay = path.iter().map(|hop| self.delay(*hop)).sum();
                edges.push(Edge { from, to, hop: Hop::Tunnel(n, way), delay });
            }
        }
        Ok(edges)
    }

    /// Returns the nominal delay of a hop over a link.
    fn delay(&self, hop: Hop) -> Span {
        match hop {
            Hop::Link(n, way) => self.topology.link[n].delay[way.index()],
            Hop::Tunnel(..) => Span::ZERO,
        }
    }

    /// Returns each node's hop towards `destination`, and the next node. `None` without a path.
    pub fn towards(&mut self, destination: usize, ip: IpVersion) -> &[Option<(Hop, usize)>] {
        let (edges, topology) = (&self.edges[&ip], self.topology);
        let forwards = |node: usize| topology.node[node].forwards;
        self.found
            .entry((ip, destination))
            .or_insert_with(|| search(topology.node.len(), edges, destination, forwards))
    }

    /// Returns the hops from one node to another.
    ///
    /// # Errors
    /// Returns an error that names both nodes and the obstacle if no path exists.
    pub fn path(&mut self, from: usize, to: usize, ip: IpVersion) -> Result<Vec<Hop>, Unreachable> {
        if let Some(hops) = self.path_in_tree(from, to, ip) {
            return Ok(hops);
        }
        let next = self.towards(to, ip);
        match walk(next, from, to) {
            Some(hops) => Ok(hops.into_iter().map(|(hop, _)| hop).collect()),
            None => Err(self.unreachable(from, to, ip)),
        }
    }

    /// Returns the hops of the only shortest path, by the tree of its first node.
    ///
    /// One tree serves all receivers of a group. `None` without a path, or with another one as good, between which a search
    /// from the receiver decides.
    fn path_in_tree(&mut self, from: usize, to: usize, ip: IpVersion) -> Option<Vec<Hop>> {
        let (edges, topology) = (&self.edges[&ip], self.topology);
        let forwards = |node: usize| topology.node[node].forwards;
        let tree = self
            .trees
            .as_mut()?
            .entry((ip, from))
            .or_insert_with(|| tree(topology.node.len(), edges, from, forwards));
        let (mut node, mut hops) = (to, Vec::new());
        while node != from {
            let Reached { hop, is_tied } = tree[node];
            let (hop, before) = hop.filter(|_| !is_tied)?;
            hops.push(hop);
            node = before;
        }
        hops.reverse();
        Some(hops)
    }

    /// Returns the links from one node to another, those under tunnels included.
    pub fn path_of_links(
        &mut self,
        from: usize,
        to: usize,
        ip: IpVersion,
    ) -> Result<Vec<(usize, Way)>, Unreachable> {
        let mut links = Vec::new();
        for hop in self.path(from, to, ip)? {
            match hop {
                Hop::Link(link, way)
                    if self.topology.link[link].passage[way.index()] == Passage::Tunnelled =>
                {
                    let [from, to] = self.topology.link_ends(link, way);
                    links.extend(Router::underlay(self.topology).path_of_links(from, to, IpVersion::V4)?);
                }
                Hop::Link(link, way) => links.push((link, way)),
                Hop::Tunnel(tunnel, way) => {
                    let [from, to] = self.topology.tunnel_ends(tunnel, way);
                    links.extend(self.path_of_links(from, to, IpVersion::V4)?);
                }
            }
        }
        Ok(links)
    }

    fn unreachable(&self, from: usize, to: usize, ip: IpVersion) -> Unreachable {
        let name = |node: usize| self.topology.name(node);
        let none = format!("no way from \"{}\" to \"{}\" for IPv{}", name(from), name(to), u8::from(ip));
        let count = self.topology.node.len();
        if let Some(hops) = walk(&search(count, &self.edges[&ip], to, |_| true), from, to) {
            let on_way = hops.iter().map(|(_, node)| *node).filter(|node| *node != to);
            let host = on_way.into_iter().find(|&node| !self.topology.node[node].forwards);
            let host = host.map_or("", name);
            return Unreachable(format!(
                "{none}: \"{host}\" is a host and does not forward; expected `kind = \"router\"` there"
            ));
        }
        let of_groups = link_edges(self.topology, ip, &|passage| passage != Passage::Closed);
        if walk(&search(count, &of_groups, to, |_| true), from, to).is_some() {
            return Unreachable(format!(
                "{none}: a link on the way is a point-to-multipoint channel, which carries packets to groups alone; expected \
                 a group, or another link"
            ));
        }
        let other = if ip == IpVersion::V4 { IpVersion::V6 } else { IpVersion::V4 };
        if walk(&search(count, &self.edges[&other], to, |_| true), from, to).is_some() {
            let hint = if ip == IpVersion::V6 { ", or a tunnel" } else { "" };
            return Unreachable(format!(
                "{none}: a link on the way does not carry it; expected `ip_versions = \"both\"`{hint}"
            ));
        }
        Unreachable(format!("{none}: expected links that join them"))
    }
}

fn link_edges(topology: &Topology, ip: IpVersion, has: &dyn Fn(Passage) -> bool) -> Vec<Edge> {
    let links = topology.link.values().enumerate().filter(|(_, link)| link.ip_versions.has(ip));
    let both = |(n, link): (usize, &LinkAt)| {
        let [a, b] = link.between.each_ref().map(|end| topology.number(end));
        let edge =
            |from, to, way: Way| Edge { from, to, hop: Hop::Link(n, way), delay: link.delay[way.index()] };
        let edges = [edge(a, b, Way::Forward), edge(b, a, Way::Return)];
        edges.into_iter().zip(link.passage).filter(|(_, passage)| has(*passage)).map(|(edge, _)| edge)
    };
    links.flat_map(both).collect()
}

/// Searches backwards from the destination (Dijkstra).
fn search(count: usize, edges: &[Edge], destination: usize, forwards: impl Fn(usize) -> bool) -> NextHops {
    let mut into: Vec<Vec<&Edge>> = vec![Vec::new(); count];
    edges.iter().for_each(|edge| into[edge.to].push(edge));
    let mut best: Vec<Option<(Span, u32)>> = vec![None; count];
    let mut next = vec![None; count];
    best[destination] = Some((Span::ZERO, 0));
    let mut open = BinaryHeap::from([Reverse((Span::ZERO, 0_u32, destination))]);
    while let Some(Reverse((delay, hops, node))) = open.pop() {
        if best[node] != Some((delay, hops)) || (node != destination && !forwards(node)) {
            continue;
        }
        for edge in &into[node] {
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

/// Searches forwards from the root (Dijkstra).
fn tree(count: usize, edges: &[Edge], root: usize, forwards: impl Fn(usize) -> bool) -> Vec<Reached> {
    let mut out: Vec<Vec<&Edge>> = vec![Vec::new(); count];
    edges.iter().for_each(|edge| out[edge.from].push(edge));
    let mut best: Vec<Option<(Span, u32)>> = vec![None; count];
    let mut reached = vec![Reached::default(); count];
    best[root] = Some((Span::ZERO, 0));
    let mut open = BinaryHeap::from([Reverse((Span::ZERO, 0_u32, root))]);
    while let Some(Reverse((delay, hops, node))) = open.pop() {
        if best[node] != Some((delay, hops)) || (node != root && !forwards(node)) {
            continue;
        }
        for edge in &out[node] {
            let cost = (delay + edge.delay, hops + 1);
            match best[edge.to] {
                Some(known) if known < cost => {}
                Some(known) if known == cost => reached[edge.to].is_tied = true,
                _ => {
                    best[edge.to] = Some(cost);
                    reached[edge.to] = Reached { hop: Some((edge.hop, node)), is_tied: false };
                    open.push(Reverse((cost.0, cost.1, edge.to)));
                }
            }
        }
    }
    reached
}

fn walk(next: &[Option<(Hop, usize)>], from: usize, to: usize) -> Option<Vec<(Hop, usize)>> {
    let (mut node, mut hops) = (from, Vec::new());
    while node != to {
        let (hop, then) = next[node]?;
        hops.push((hop, then));
        node = then;
    }
    Some(hops)
}

/// Returns the length of the IP header and of `transport` bytes of headers after it.
pub const fn header_len(ip: IpVersion, transport: u64) -> Bytes {
    match ip {
        IpVersion::V4 => Bytes::new(20 + transport),
        IpVersion::V6 => Bytes::new(40 + transport),
    }
}

/// Returns the maximum IP packet that passes from one node to another.
///
/// # Errors
/// Returns an error without a key if no path exists.
pub fn path_mtu(router: &mut Router<'_>, from: usize, to: usize, ip: IpVersion) -> Result<u64, Problem> {
    let unreachable = |error: Unreachable| Problem::new("", error.to_string());
    let mut narrowest = u64::MAX;
    for hop in router.path(from, to, ip).map_err(unreachable)? {
        let own = match hop {
            Hop::Link(link, _) => router.topology.link[link].mtu.get(),
            Hop::Tunnel(tunnel, way) => {
                let [a, b] = router.topology.tunnel_ends(tunnel, way);
                path_mtu(router, a, b, IpVersion::V4)?.saturating_sub(20)
            }
        };
        narrowest = narrowest.min(own);
    }
    Ok(narrowest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IpVersions, NodeAt};

    /// Hosts a, b, c, the router r and the satellite s.
    fn topology(links: &[(&str, LinkAt)]) -> Topology {
        let node =
            |name: &str| (name.to_owned(), NodeAt { forwards: "rs".contains(name), addresses: vec![] });
        let link = links.iter().map(|(name, link)| ((*name).to_owned(), link.clone())).collect();
        let node = ["a", "b", "c", "r", "s"].map(node).into_iter().collect();
        Topology { node, link, tunnel: Default::default() }
    }

    fn link(a: &str, b: &str, delay_ms: u64, ip_versions: IpVersions) -> LinkAt {
        let between = [a.to_owned(), b.to_owned()];
        let (mtu, delay) = (Bytes::new(1500), [Span::from_millis(delay_ms); 2]);
        LinkAt { between, ip_versions, mtu, delay, passage: [Passage::Own; 2] }
    }

    fn both(a: &str, b: &str, delay_ms: u64) -> LinkAt {
        link(a, b, delay_ms, IpVersions::Both)
    }

    fn path(topology: &Topology, from: &str, to: &str, ip: IpVersion) -> Result<Vec<String>, String> {
        let mut router = Router::new(topology).map_err(|problem| problem.to_string())?;
        let links = router.path_of_links(topology.number(from), topology.number(to), ip);
        let name = |(link, way): &(usize, Way)| {
            format!("{} {}", topology.link.get_index(*link).expect("there").0, way.name())
        };
        Ok(links.map_err(|error| error.to_string())?.iter().map(name).collect())
    }

    #[test]
    fn the_way_of_least_delay_is_taken_then_of_fewest_hops() {
        let (up, down) = (("up", both("a", "s", 100)), ("down", both("b", "s", 100)));
        let fast = topology(&[("slow", both("a", "b", 300)), up.clone(), down.clone()]);
        assert_eq!(path(&fast, "a", "b", IpVersion::V4).unwrap(), ["up forward", "down return"]);
        let even = topology(&[("slow", both("a", "b", 200)), up, down]);
        assert_eq!(path(&even, "b", "a", IpVersion::V6).unwrap(), ["slow return"]);
    }

    #[test]
    fn paths_to_groups_are_those_to_each_member() {
        // A grid of routers with equal and other delays, and hosts at some of them.
        let name = |n: usize| if n % 5 == 4 { format!("h{n}") } else { format!("r{n}") };
        let node = |n: usize| (name(n), NodeAt { forwards: n % 5 != 4, addresses: vec![] });
        let at = |a: usize, b: usize| {
            let delay = if (a * 7 + b).is_multiple_of(3) { 2 } else { 1 + (a * 31 + b * 17) as u64 % 40 };
            (format!("{a}-{b}"), both(&name(a), &name(b), delay))
        };
        let right = (0..60).filter(|n| n % 10 != 9).map(|n| at(n, n + 1));
        let link = right.chain((0..50).map(|n| at(n, n + 10))).collect();
        let topology = Topology { node: (0..60).map(node).collect(), link, tunnel: Default::default() };
        let (mut one, mut all) = (Router::new(&topology).unwrap(), Router::of_groups(&topology).unwrap());
        let mut in_tree = 0;
        for (from, to) in (0..60).flat_map(|from| (0..60).map(move |to| (from, to))) {
            let found = all.path(from, to, IpVersion::V4);
            assert_eq!(found, one.path(from, to, IpVersion::V4), "{from} to {to}");
            in_tree += usize::from(all.path_in_tree(from, to, IpVersion::V4).is_some());
        }
        assert!((1000..3600).contains(&in_tree), "{in_tree} without ties");
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let through_host = topology(&[("x", both("a", "c", 0)), ("y", both("c", "b", 0))]);
        let error = path(&through_host, "a", "b", IpVersion::V4).unwrap_err();
        assert_eq!(
            error,
            "no way from \"a\" to \"b\" for IPv4: \"c\" is a host and does not forward; expected `kind = \"router\"` there"
        );
        let only_v4 = topology(&[("x", link("a", "b", 0, IpVersions::Ipv4))]);
        let error = path(&only_v4, "a", "b", IpVersion::V6).unwrap_err();
        assert!(
            error.ends_with("does not carry it; expected `ip_versions = \"both\"`, or a tunnel"),
            "{error}"
        );
        let error = path(&topology(&[("x", both("a", "r", 0))]), "a", "b", IpVersion::V4).unwrap_err();
        assert!(error.ends_with("expected links that join them"), "{error}");
    }

    #[test]
    fn ipv6_takes_a_tunnel_where_only_ipv4_is_carried() {
        let links =
            [("x", both("a", "r", 0)), ("y", link("r", "s", 0, IpVersions::Ipv4)), ("z", both("s", "b", 0))];
        let plain = topology(&links);
        let tunnel = [("t".to_owned(), ["s".to_owned(), "r".to_owned()])].into_iter().collect();
        let tunnelled = Topology { tunnel, ..plain.clone() };
        assert_eq!(
            path(&tunnelled, "a", "b", IpVersion::V6).unwrap(),
            ["x forward", "y forward", "z forward"]
        );
        assert!(path(&plain, "a", "b", IpVersion::V6).is_err());
        let mut router = Router::new(&tunnelled).expect("the tunnel's ends reach each other");
        assert_eq!(path_mtu(&mut router, 0, 1, IpVersion::V6), Ok(1480));
    }
}
