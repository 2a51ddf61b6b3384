//! Multicast between real hosts: a tree of simulated routers, joined by membership messages.

use std::collections::BTreeMap;

use bentpipe_net::Port;
use bentpipe_net::node::Neighbour;
use bentpipe_scenario::{Hop, Ip, Layout, NodeKind, Scenario};
use bentpipe_site::{Nodes, Router, Topology, Way};
use bentpipe_wire::membership::Family;

use super::groups;

/// Enables multicast at the routers of real hosts. Real members of the scenario's groups are members there.
pub(super) fn enable(
    scenario: &Scenario,
    layout: &Layout<'_>,
    topology: &Topology,
    nodes: &mut Nodes<'_>,
    router: &mut Router<'_>,
) {
    share(layout, &Tree { scenario, topology, ip: Ip::V4 }, nodes);
    for ip in [Ip::V4, Ip::V6] {
        let tree = Tree { scenario, topology, ip };
        let hosts = tree.hosts();
        for &(_, at, link) in &hosts {
            let interface = nodes.interface(at, link);
            nodes.node(at).enable_multicast(interface, family(ip), Neighbour::Hosts);
        }
        for (hop, ends) in tree.trunks(&hosts, router) {
            for (end, is_far) in ends.into_iter().zip([false, true]) {
                match hop {
                    Hop::Link(link, _) => {
                        let interface = nodes.interface(end, link);
                        nodes.node(end).enable_multicast(interface, family(ip), Neighbour::Router);
                    }
                    Hop::Tunnel(tunnel, way) => {
                        let number = nodes.tunnel_end(tunnel, if is_far { way.back() } else { way });
                        nodes.node(end).enable_tunnel_multicast(number);
                    }
                }
            }
        }
        for (number, group) in scenario.group.values().enumerate() {
            let address = groups::address(scenario, number, ip);
            let is_member = |host: usize| group.members.iter().any(|name| topology.number(name) == host);
            let mut done = Vec::new();
            for &(host, at, link) in hosts.iter().filter(|(host, ..)| is_member(*host)) {
                // A host with several links is a member at the first one.
                if address.is_ipv4() == (ip == Ip::V4) && !done.contains(&host) {
                    let interface = nodes.interface(at, link);
                    nodes.node(at).add_member(interface, address);
                    done.push(host);
                }
            }
        }
    }
}

/// Sets up streams for groups.
///
/// One copy of a packet goes into each, and a site drops its own.
fn share(layout: &Layout<'_>, tree: &Tree<'_>, nodes: &mut Nodes<'_>) {
    let mut streams: BTreeMap<(usize, String), Vec<Port>> = BTreeMap::new();
    for (n, link) in tree.scenario.link.values().enumerate() {
        let ends = link.between.each_ref().map(|end| tree.topology.number(end));
        for way in Way::BOTH {
            let Some(stream) = layout.side(n, way).medium.multicast() else { continue };
            let (from, to) = (ends[way.index()], ends[way.back().index()]);
            if tree.is_router(from) {
                streams.entry((from, stream)).or_default().push(nodes.interface(from, n));
            }
            if tree.is_router(to) {
                let interface = nodes.interface(to, n);
                nodes.node(to).refuse_echoes(interface);
            }
        }
    }
    streams.into_iter().for_each(|((node, _), ports)| nodes.node(node).share_multicast(&ports));
}

const fn family(ip: Ip) -> Family {
    match ip {
        Ip::V4 => Family::V4,
        Ip::V6 => Family::V6,
    }
}

/// Simulated routers and the real hosts at them.
struct Tree<'a> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    ip: Ip,
}

impl Tree<'_> {
    fn is_router(&self, node: usize) -> bool {
        let node = &self.scenario.node[node];
        !node.real && node.kind != NodeKind::Host
    }

    /// Returns each real host with a router next to it and the link between them.
    fn hosts(&self) -> Vec<(usize, usize, usize)> {
        let mut hosts = Vec::new();
        for (n, (name, link)) in self.scenario.link.iter().enumerate() {
            let carries = self.topology.link.get(name).is_some_and(|link| link.ip_versions.has(self.ip));
            let ends = link.between.each_ref().map(|end| self.topology.number(end));
            for [host, router] in [ends, [ends[1], ends[0]]] {
                if carries && self.scenario.node[host].real && self.is_router(router) {
                    hosts.push((host, router, n));
                }
            }
        }
        hosts
    }

    /// Returns the hops between routers with real hosts on both sides, with their ends.
    ///
    /// They are the shortest paths to the first of the routers that reach each other.
    fn trunks(&self, hosts: &[(usize, usize, usize)], router: &mut Router<'_>) -> Vec<(Hop, [usize; 2])> {
        let mut rest: Vec<usize> =
            (0..self.scenario.node.len()).filter(|node| self.is_router(*node)).collect();
        let mut trunks = Vec::new();
        while let Some(&root) = rest.first() {
            let mut steps = |node: usize| router.steps(node, root, self.ip);
            // Real hosts behind each node, and the hop and node towards the root.
            let mut behind: BTreeMap<usize, (usize, Option<(Hop, usize)>)> = BTreeMap::new();
            let mut all = 0;
            for &(_, at, _) in hosts {
                let Some(steps) = steps(at) else { continue };
                all += 1;
                let mut node = at;
                // The way to the root, and the root itself.
                for step in steps.into_iter().map(Some).chain([None]) {
                    behind.entry(node).or_insert((0, step)).0 += 1;
                    let Some((_, then)) = step else { break };
                    node = then;
                }
            }
            let used = behind.into_iter().filter(|(_, (count, _))| *count < all);
            trunks.extend(used.filter_map(|(node, (_, step))| step.map(|(hop, then)| (hop, [node, then]))));
            rest.retain(|node| steps(*node).is_none());
        }
        trunks
    }
}
