//! The graph of a scenario, and the ways through it: least delay, then fewest hops, then the order of the file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bentpipe_units::Span;

use crate::scenario::{Carries, Ip, Link, Named, NodeKind, Scenario};

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// From the first-named node to the second.
    Forward,
    /// From the second-named node to the first.
    Return,
}

impl Way {
    /// As keys and paths write it.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Forward => "forward",
            Way::Return => "return",
        }
    }
}

/// One step of a path, out of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hop {
    /// Over a link, by its number in the file.
    Link(usize, Way),
    /// Into a tunnel, by its number in the file, forward if from its first-named end.
    Tunnel(usize, Way),
}

/// Why there is no way.
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

/// What one direction of a link is: the link's settings with the direction's own before them.
pub(crate) fn delay(link: &Link, way: Way) -> Span {
    let own = match way {
        Way::Forward => &link.forward,
        Way::Return => &link.reverse,
    };
    own.delay.or(link.delay).unwrap_or_default()
}

/// For each node, by its number: the hop to take and the node it leads to; none where there is no way.
type NextHops = Vec<Option<(Hop, usize)>>;

/// Ways to destinations: for each node the hop to take, found once for each destination.
pub(crate) struct Router<'a> {
    scenario: &'a Scenario,
    /// By IP version: what carries it.
    edges: BTreeMap<Ip, Vec<Edge>>,
    /// By IP version and destination.
    found: BTreeMap<(Ip, usize), NextHops>,
}

/// A node's number, in the order of the file.
pub(crate) fn number<T>(names: &Named<T>, name: &str) -> usize {
    names.get_index_of(name).expect("names are validated")
}

impl<'a> Router<'a> {
    /// The graph of a valid scenario.
    ///
    /// # Errors
    /// The key of a tunnel whose ends do not reach each other over IPv4.
    pub(crate) fn new(scenario: &'a Scenario) -> Result<Router<'a>, (String, Unreachable)> {
        let edges =
            BTreeMap::from([(Ip::V4, link_edges(scenario, Ip::V4)), (Ip::V6, link_edges(scenario, Ip::V6))]);
        let mut router = Router { scenario, edges, found: BTreeMap::new() };
        let tunnels = router.tunnel_edges()?;
        router.edges.entry(Ip::V6).or_default().extend(tunnels);
        Ok(router)
    }

    fn tunnel_edges(&mut self) -> Result<Vec<Edge>, (String, Unreachable)> {
        let mut edges = Vec::new();
        for (n, (name, tunnel)) in self.scenario.tunnel.iter().enumerate() {
            let [a, b] = [0, 1].map(|end| number(&self.scenario.node, &tunnel.between[end]));
            for (from, to, way) in [(a, b, Way::Forward), (b, a, Way::Return)] {
                let path = self.path(from, to, Ip::V4).map_err(|error| (format!("tunnel.{name}"), error))?;
                let delay = path.iter().map(|hop| self.delay(*hop)).sum();
                edges.push(Edge { from, to, hop: Hop::Tunnel(n, way), delay });
            }
        }
        Ok(edges)
    }

    /// Propagation delay of a hop over a link.
    fn delay(&self, hop: Hop) -> Span {
        match hop {
            Hop::Link(n, way) => delay(&self.scenario.link[n], way),
            Hop::Tunnel(..) => Span::ZERO,
        }
    }

    /// For each node the hop towards `destination` and the node it leads to; none where there is no way.
    pub(crate) fn towards(&mut self, destination: usize, ip: Ip) -> &[Option<(Hop, usize)>] {
        let (edges, scenario) = (&self.edges[&ip], self.scenario);
        let forwards = |node: usize| scenario.node[node].kind != NodeKind::Host;
        self.found
            .entry((ip, destination))
            .or_insert_with(|| search(scenario.node.len(), edges, destination, forwards))
    }

    /// The hops from one node to another.
    ///
    /// # Errors
    /// If there is no way, naming both and what stands in it.
    pub(crate) fn path(&mut self, from: usize, to: usize, ip: Ip) -> Result<Vec<Hop>, Unreachable> {
        let next = self.towards(to, ip);
        match walk(next, from, to) {
            Some(hops) => Ok(hops.into_iter().map(|(hop, _)| hop).collect()),
            None => Err(self.unreachable(from, to, ip)),
        }
    }

    /// The hops from one node to another with what tunnels run over in the tunnels' place; only links.
    pub(crate) fn path_of_links(
        &mut self,
        from: usize,
        to: usize,
        ip: Ip,
    ) -> Result<Vec<(usize, Way)>, Unreachable> {
        let mut links = Vec::new();
        for hop in self.path(from, to, ip)? {
            match hop {
                Hop::Link(link, way) => links.push((link, way)),
                Hop::Tunnel(tunnel, way) => {
                    let ends = &self.scenario.tunnel[tunnel].between;
                    let [a, b] = [0, 1].map(|end| number(&self.scenario.node, &ends[end]));
                    let (from, to) = if way == Way::Forward { (a, b) } else { (b, a) };
                    links.extend(self.path_of_links(from, to, Ip::V4)?);
                }
            }
        }
        Ok(links)
    }

    fn unreachable(&self, from: usize, to: usize, ip: Ip) -> Unreachable {
        let name = |node: usize| self.scenario.node.get_index(node).map_or("", |(name, _)| name);
        let none = format!("no way from \"{}\" to \"{}\" for IPv{}", name(from), name(to), u8::from(ip));
        let count = self.scenario.node.len();
        if let Some(hops) = walk(&search(count, &self.edges[&ip], to, |_| true), from, to) {
            let on_way = hops.iter().map(|(_, node)| *node).filter(|node| *node != to);
            let host = on_way.into_iter().find(|&node| self.scenario.node[node].kind == NodeKind::Host);
            let host = host.map_or("", name);
            return Unreachable(format!(
                "{none}: \"{host}\" is a host and does not forward; expected `kind = \"router\"` there"
            ));
        }
        let other = if ip == Ip::V4 { Ip::V6 } else { Ip::V4 };
        if walk(&search(count, &self.edges[&other], to, |_| true), from, to).is_some() {
            let hint = if ip == Ip::V6 { ", or a tunnel" } else { "" };
            return Unreachable(format!(
                "{none}: a link on the way does not carry it; expected `carries = \"both\"`{hint}"
            ));
        }
        Unreachable(format!("{none}: expected links that join them"))
    }
}

fn link_edges(scenario: &Scenario, ip: Ip) -> Vec<Edge> {
    let carries = |link: &Link| match link.carries {
        Carries::Both => true,
        Carries::Ipv4 => ip == Ip::V4,
        Carries::Ipv6 => ip == Ip::V6,
    };
    let links = scenario.link.values().enumerate().filter(|(_, link)| carries(link));
    links
        .flat_map(|(n, link)| {
            let [a, b] = [0, 1].map(|end| number(&scenario.node, &link.between[end]));
            let edge = |from, to, way| Edge { from, to, hop: Hop::Link(n, way), delay: delay(link, way) };
            [edge(a, b, Way::Forward), edge(b, a, Way::Return)]
        })
        .collect()
}

/// Dijkstra from the destination backwards.
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

fn walk(next: &[Option<(Hop, usize)>], from: usize, to: usize) -> Option<Vec<(Hop, usize)>> {
    let (mut node, mut hops) = (from, Vec::new());
    while node != to {
        let (hop, then) = next[node]?;
        hops.push((hop, then));
        node = then;
    }
    Some(hops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    fn scenario(links: &str) -> Scenario {
        let text = format!(
            "title = \"t\"\nduration = \"1 s\"\nnode.a = {{}}\nnode.b = {{}}\nnode.c = {{ kind = \"host\" }}\n\
             node.r = {{ kind = \"router\" }}\nnode.s = {{ kind = \"satellite\" }}\n{links}"
        );
        let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
        document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    fn link(name: &str, a: &str, b: &str, rest: &str) -> String {
        format!("[link.{name}]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"1 Mbit/s\"\n{rest}\n")
    }

    fn path(scenario: &Scenario, from: &str, to: &str, ip: Ip) -> Result<Vec<String>, String> {
        let [from, to] = [from, to].map(|name| number(&scenario.node, name));
        let mut router = Router::new(scenario).map_err(|(key, error)| format!("{key}: {error}"))?;
        let links = router.path_of_links(from, to, ip).map_err(|error| error.to_string())?;
        let name = |(link, way): &(usize, Way)| {
            format!("{} {}", scenario.link.get_index(*link).expect("there").0, way.name())
        };
        Ok(links.iter().map(name).collect())
    }

    #[test]
    fn the_way_of_least_delay_is_taken_then_of_fewest_hops() {
        let slow = link("slow", "a", "b", "delay = \"300 ms\"");
        let fast = link("up", "a", "s", "delay = \"100 ms\"") + &link("down", "b", "s", "delay = \"100 ms\"");
        assert_eq!(
            path(&scenario(&(slow.clone() + &fast)), "a", "b", Ip::V4).unwrap(),
            ["up forward", "down return"]
        );
        let even = slow.replace("300", "200") + &fast;
        assert_eq!(path(&scenario(&even), "b", "a", Ip::V6).unwrap(), ["slow return"]);
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let through_host = scenario(&(link("x", "a", "c", "") + &link("y", "c", "b", "")));
        let error = path(&through_host, "a", "b", Ip::V4).unwrap_err();
        assert_eq!(
            error,
            "no way from \"a\" to \"b\" for IPv4: \"c\" is a host and does not forward; expected `kind = \"router\"` there"
        );
        let only_v4 = scenario(&link("x", "a", "b", "carries = \"ipv4\""));
        let error = path(&only_v4, "a", "b", Ip::V6).unwrap_err();
        assert!(error.ends_with("does not carry it; expected `carries = \"both\"`, or a tunnel"), "{error}");
        let error = path(&scenario(&link("x", "a", "r", "")), "a", "b", Ip::V4).unwrap_err();
        assert!(error.ends_with("expected links that join them"), "{error}");
    }

    #[test]
    fn ipv6_takes_a_tunnel_where_only_ipv4_is_carried() {
        let links =
            link("x", "a", "r", "") + &link("y", "r", "s", "carries = \"ipv4\"") + &link("z", "s", "b", "");
        let tunnel = "[tunnel.t]\nbetween = [\"s\", \"r\"]\n";
        let tunnelled = scenario(&(links.clone() + tunnel));
        assert_eq!(path(&tunnelled, "a", "b", Ip::V6).unwrap(), ["x forward", "y forward", "z forward"]);
        assert!(path(&scenario(&links), "a", "b", Ip::V6).is_err());
    }
}
