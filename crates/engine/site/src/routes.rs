//! Paths through a topology: least delay, then fewest hops, then the order of the file.

mod graph;

use bentpipe_units::{Bytes, Span};

use crate::{IpVersion, LinkAt, Passage, Problem, Topology, Way};
pub(crate) use graph::SharedRoute;
use graph::{Edge, Graph};

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

/// Hops of a path, each with the node that it leads to.
pub type Steps = Vec<(Hop, usize)>;

/// Paths between nodes.
pub struct Router<'a> {
    topology: &'a Topology,
    /// Graphs of IPv4 and IPv6.
    graphs: [Graph; 2],
    /// Paths of all nodes to one that were asked for, node by node.
    surveyed: usize,
}

/// Returns `true` if `name` is a copy of `of`: "access.2" of "access".
pub(crate) fn is_copy(name: &str, of: &str) -> bool {
    let number = name.strip_prefix(of).and_then(|rest| rest.strip_prefix('.'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Most paths of all nodes to those that ask for them.
///
/// 2000 nodes of 2000 may ask. That takes a second and a half and 140 MB.
const MOST_SURVEYED: usize = 4_000_000;

impl<'a> Router<'a> {
    /// Creates a router over a topology.
    ///
    /// # Errors
    /// Returns an error if the ends of a tunnel do not reach each other over IPv4.
    pub fn new(topology: &'a Topology) -> Result<Router<'a>, Problem> {
        Router::with_tunnels(topology, edges(topology, &is_ordinary))
    }

    /// Creates a router of packets to groups, which also pass directions for groups alone.
    ///
    /// Of equal paths those directions are preferred.
    ///
    /// # Errors
    /// As [`Router::new`].
    pub fn of_groups(topology: &'a Topology) -> Result<Router<'a>, Problem> {
        let mut edges = edges(topology, &|passage| passage != Passage::Closed);
        let is_ordinary = |edge: &Edge| match edge.hop {
            Hop::Link(n, way) => topology.link[n].passage[way.index()] != Passage::Groups,
            Hop::Tunnel(..) => true,
        };
        edges.iter_mut().for_each(|edges| edges.sort_by_key(is_ordinary));
        Router::with_tunnels(topology, edges)
    }

    fn with_tunnels(topology: &'a Topology, mut edges: [Vec<Edge>; 2]) -> Result<Router<'a>, Problem> {
        edges[IpVersion::V6 as usize].extend(tunnel_edges(topology)?);
        Ok(Router::over(topology, edges))
    }

    /// Creates a router over links alone, apart from directions that are tunnelled.
    pub fn underlay(topology: &'a Topology) -> Router<'a> {
        Router::over(topology, edges(topology, &|passage| passage == Passage::Own))
    }

    fn over(topology: &'a Topology, edges: [Vec<Edge>; 2]) -> Router<'a> {
        let forwards: Vec<bool> = topology.node.values().map(|node| node.forwards).collect();
        Router { topology, graphs: edges.map(|edges| Graph::new(forwards.clone(), edges)), surveyed: 0 }
    }

    /// Counts the paths of all nodes to one more.
    ///
    /// # Errors
    /// Returns the refusal of a role at `key` that asks for more than a check may take.
    pub(crate) fn survey(&mut self, key: &str, node: usize) -> Result<(), Problem> {
        let nodes = self.topology.node.len();
        // Copies of the first node will ask for as much.
        let expected = if self.surveyed == 0 { self.copies_of(node) } else { 1 };
        self.surveyed += nodes;
        if self.surveyed + (expected - 1) * nodes <= MOST_SURVEYED {
            return Ok(());
        }
        let most = MOST_SURVEYED / nodes.max(1);
        Err(Problem::new(
            key,
            format!(
                "expected at most {most} such roles in a network of {nodes} nodes: each needs the paths of all of them"
            ),
        ))
    }

    /// Returns the number of copies of a node, itself included.
    fn copies_of(&self, node: usize) -> usize {
        let name = self.topology.node.get_index(node).map_or("", |(name, _)| name);
        let original = name.rsplit_once('.').map_or(name, |(original, _)| original);
        let is_other = |other: &&String| *other != name && is_copy(other, original);
        1 + self.topology.node.keys().filter(is_other).count()
    }

    fn graph(&mut self, ip: IpVersion) -> &mut Graph {
        &mut self.graphs[ip as usize]
    }

    /// Returns the nominal delay of a hop over a link.
    fn delay(&self, hop: Hop) -> Span {
        match hop {
            Hop::Link(n, way) => self.topology.link[n].delay[way.index()],
            Hop::Tunnel(..) => Span::ZERO,
        }
    }

    /// Returns the hops from one node to another, with the nodes that they lead to. `None` without a path.
    pub fn steps(&mut self, from: usize, to: usize, ip: IpVersion) -> Option<Steps> {
        self.graph(ip).steps(from, to)
    }

    /// Returns the routes of all nodes to destinations.
    ///
    /// `own` is called with a node, the number of a destination and the hop. Routes that many nodes share are returned: they
    /// count where a node has no other.
    pub(crate) fn routes(
        &mut self,
        ip: IpVersion,
        to: &[usize],
        own: impl FnMut(usize, usize, Hop),
    ) -> Vec<SharedRoute> {
        self.graph(ip).routes(to, own)
    }

    /// Returns the hops from one node to another.
    ///
    /// # Errors
    /// Returns an error that names both nodes and the obstacle if no path exists.
    pub fn path(&mut self, from: usize, to: usize, ip: IpVersion) -> Result<Vec<Hop>, Unreachable> {
        match self.steps(from, to, ip) {
            Some(steps) => Ok(steps.into_iter().map(|(hop, _)| hop).collect()),
            None => Err(self.unreachable(from, to, ip)),
        }
    }

    /// Returns the maximum IP packet that passes from one node to another. `None` without a path.
    pub fn mtu(&mut self, from: usize, to: usize, ip: IpVersion) -> Option<u64> {
        let steps = self.steps(from, to, ip)?;
        self.mtu_of(&steps)
    }

    /// Returns the maximum IP packet that passes over these hops. `None` if a tunnel among them has no path.
    pub(crate) fn mtu_of(&mut self, steps: &Steps) -> Option<u64> {
        let mut narrowest = u64::MAX;
        for (hop, _) in steps {
            let own = match *hop {
                Hop::Link(link, _) => self.topology.link[link].mtu.get(),
                Hop::Tunnel(tunnel, way) => {
                    let [a, b] = self.topology.tunnel_ends(tunnel, way);
                    self.mtu(a, b, IpVersion::V4)?.saturating_sub(20)
                }
            };
            narrowest = narrowest.min(own);
        }
        Some(narrowest)
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

    /// Returns the last link of a path without tunnels. `None` if it has one.
    pub(crate) fn plain_end(&self, steps: &Steps) -> Option<(usize, Way)> {
        let plain = |(hop, _): &(Hop, usize)| match hop {
            Hop::Link(link, way) => {
                let is_tunnelled = self.topology.link[*link].passage[way.index()] == Passage::Tunnelled;
                (!is_tunnelled).then_some((*link, *way))
            }
            Hop::Tunnel(..) => None,
        };
        steps.iter().map(plain).collect::<Option<Vec<_>>>()?.pop()
    }

    fn unreachable(&self, from: usize, to: usize, ip: IpVersion) -> Unreachable {
        let name = |node: usize| self.topology.name(node);
        let none = format!("no way from \"{}\" to \"{}\" for IPv{}", name(from), name(to), u8::from(ip));
        if let Some(hops) = self.graphs[ip as usize].if_all_forwarded().steps(from, to) {
            let on_way = hops.iter().map(|(_, node)| *node).filter(|node| *node != to);
            let host = on_way.into_iter().find(|&node| !self.topology.node[node].forwards);
            let host = host.map_or("", name);
            return Unreachable(format!(
                "{none}: \"{host}\" is a host and does not forward; expected `kind = \"router\"` there"
            ));
        }
        let of_groups = edges(self.topology, &|passage| passage != Passage::Closed);
        let of_groups = Router::over(self.topology, of_groups);
        if of_groups.graphs[ip as usize].if_all_forwarded().steps(from, to).is_some() {
            return Unreachable(format!(
                "{none}: a link on the way is a point-to-multipoint channel, which carries packets to groups alone; expected \
                 a group, or another link"
            ));
        }
        let other = if ip == IpVersion::V4 { IpVersion::V6 } else { IpVersion::V4 };
        if self.graphs[other as usize].if_all_forwarded().steps(from, to).is_some() {
            let hint = if ip == IpVersion::V6 { ", or a tunnel" } else { "" };
            return Unreachable(format!(
                "{none}: a link on the way does not carry it; expected `ip_versions = \"both\"`{hint}"
            ));
        }
        Unreachable(format!("{none}: expected links that join them"))
    }
}

/// Returns `true` for a passage that packets to one node take.
fn is_ordinary(passage: Passage) -> bool {
    !matches!(passage, Passage::Closed | Passage::Groups)
}

/// Returns the edges of IPv4 and IPv6 over links.
fn edges(topology: &Topology, has: &dyn Fn(Passage) -> bool) -> [Vec<Edge>; 2] {
    [IpVersion::V4, IpVersion::V6].map(|ip| link_edges(topology, ip, has))
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

/// Returns the edges of tunnels. Packets in a tunnel are addressed to its end.
fn tunnel_edges(topology: &Topology) -> Result<Vec<Edge>, Problem> {
    let mut edges_of_tunnels = Vec::new();
    if topology.tunnel.is_empty() {
        return Ok(edges_of_tunnels);
    }
    let mut router = Router::over(topology, edges(topology, &is_ordinary));
    for (n, name) in topology.tunnel.keys().enumerate() {
        for way in Way::BOTH {
            let [from, to] = topology.tunnel_ends(n, way);
            let path = router.path(from, to, IpVersion::V4);
            let path = path.map_err(|error| Problem::new(format!("tunnel.{name}"), error.to_string()))?;
            let delay = path.iter().map(|hop| router.delay(*hop)).sum();
            edges_of_tunnels.push(Edge { from, to, hop: Hop::Tunnel(n, way), delay });
        }
    }
    Ok(edges_of_tunnels)
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
    let mtu = router.mtu(from, to, ip);
    mtu.ok_or_else(|| Problem::new("", router.unreachable(from, to, ip).to_string()))
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
        for (from, to) in (0..60).flat_map(|from| (0..60).map(move |to| (from, to))) {
            let found = all.path(from, to, IpVersion::V4);
            assert_eq!(found, one.path(from, to, IpVersion::V4), "{from} to {to}");
        }
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
