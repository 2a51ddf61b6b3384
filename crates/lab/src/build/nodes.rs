//! Nodes: addresses, interfaces, tunnels, ports and routes.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bentpipe_net::node::{Prefix, Tunnel};
use bentpipe_net::{Node, Port};
use bentpipe_sim::Builder;
use bentpipe_wire::ip::Protocol;

use super::routes::{Hop, Router, Way, number};
use super::{NodeHandle, Problem, mtu};
use crate::scenario::{Ip, Scenario};

/// The first port that flows' ends get.
const FIRST_PORT: u16 = 1024;

/// All nodes while they are being set up.
pub(super) struct Nodes {
    nodes: Vec<State>,
    /// Addresses that packets are sent to, with the node that has them: these need routes.
    destinations: BTreeSet<(Ip, usize)>,
    /// For each tunnel the number of its end at its first and at its second node.
    tunnels: Vec<[u16; 2]>,
}

struct State {
    node: Node,
    addresses: [IpAddr; 2],
    next_port: u16,
}

/// The interface of a node to a link, both by number: a node's links in the order of the file.
pub(super) fn interface(scenario: &Scenario, node: usize, link: usize) -> Port {
    let name = scenario.node.get_index(node).map_or("", |(name, _)| name);
    let before = scenario.link.values().take(link).filter(|link| link.between.iter().any(|end| end == name));
    Port(before.count() as u16)
}

/// The interfaces of all nodes, by the numbers of their links.
fn interfaces(scenario: &Scenario) -> Vec<HashMap<usize, Port>> {
    let mut interfaces = vec![HashMap::new(); scenario.node.len()];
    for (n, link) in scenario.link.values().enumerate() {
        for end in &link.between {
            let of_node = &mut interfaces[number(&scenario.node, end)];
            of_node.insert(n, Port(of_node.len() as u16));
        }
    }
    interfaces
}

/// The links of a node.
fn links_of<'a>(scenario: &'a Scenario, name: &'a str) -> impl Iterator<Item = &'a crate::scenario::Link> {
    scenario.link.values().filter(move |link| link.between.iter().any(|end| end == name))
}

impl Nodes {
    /// The nodes of a scenario with their addresses and interfaces.
    pub(super) fn new(scenario: &Scenario) -> Nodes {
        let mut used: BTreeSet<IpAddr> =
            scenario.node.values().flat_map(|node| node.address.clone()).collect();
        let states = scenario.node.iter().map(|(name, settings)| {
            let mut pick = |is_v4: bool| {
                let own = settings.address.iter().copied().find(|address| address.is_ipv4() == is_v4);
                own.unwrap_or_else(|| automatic(is_v4, &mut used))
            };
            let addresses = [pick(true), pick(false)];
            let mut node = Node::new(links_of(scenario, name).count() as u16);
            addresses.iter().for_each(|&address| node.add_address(Prefix::host(address)));
            for (interface, link) in links_of(scenario, name).enumerate() {
                node.set_mtu(Port(interface as u16), mtu(link).get() as usize);
            }
            State { node, addresses, next_port: FIRST_PORT }
        });
        Nodes { nodes: states.collect(), destinations: BTreeSet::new(), tunnels: Vec::new() }
    }

    /// A node's address.
    pub(super) fn address(&self, node: usize, ip: Ip) -> IpAddr {
        self.nodes[node].addresses[usize::from(ip == Ip::V6)]
    }

    /// Says that packets are sent to a node.
    pub(super) fn send_to(&mut self, node: usize, ip: Ip) {
        self.destinations.insert((ip, node));
    }

    /// A port for an endpoint's element, and the first of `count` port numbers that lead to it.
    pub(super) fn bind(&mut self, node: usize, protocol: Protocol, count: u16) -> Option<(Port, u16)> {
        let state = &mut self.nodes[node];
        let first = state.next_port;
        state.next_port = first.checked_add(count)?;
        let endpoint = state.node.add_endpoint();
        (first..state.next_port).for_each(|port| state.node.bind(endpoint, protocol, port));
        Some((endpoint, first))
    }

    /// A node, to set up.
    pub(super) fn node(&mut self, node: usize) -> &mut Node {
        &mut self.nodes[node].node
    }

    /// The number of a tunnel's end at the node that it starts from in a direction.
    pub(super) fn tunnel_end(&self, tunnel: usize, way: Way) -> u16 {
        self.tunnels[tunnel][usize::from(way == Way::Return)]
    }

    /// Sets up both ends of all tunnels.
    pub(super) fn add_tunnels(
        &mut self,
        scenario: &Scenario,
        router: &mut Router<'_>,
    ) -> Result<(), Problem> {
        for (name, tunnel) in &scenario.tunnel {
            let ends = [0, 1].map(|end| number(&scenario.node, &tunnel.between[end]));
            let mut numbers = [0; 2];
            for (end, (here, there)) in [(ends[0], ends[1]), (ends[1], ends[0])].into_iter().enumerate() {
                let path = router.path_of_links(here, there, Ip::V4);
                let path = path.map_err(|error| Problem::new(format!("tunnel.{name}"), error.to_string()))?;
                let narrowest =
                    path.iter().map(|(link, _)| mtu(&scenario.link[*link]).get()).min().unwrap_or(1500);
                let [local, remote] = [here, there].map(|node| self.address(node, Ip::V4));
                let (IpAddr::V4(local), IpAddr::V4(remote)) = (local, remote) else { continue };
                numbers[end] = self.node(here).add_tunnel(Tunnel::new(local, remote, narrowest as usize));
                self.send_to(there, Ip::V4);
            }
            self.tunnels.push(numbers);
        }
        Ok(())
    }

    /// Leads packets to `address`, which no node has, from node to node.
    ///
    /// # Errors
    /// If there is no way, or the address is another node's.
    pub(super) fn lead(
        &mut self,
        address: IpAddr,
        from: usize,
        to: usize,
        scenario: &Scenario,
        router: &mut Router<'_>,
    ) -> Result<(), String> {
        if let Some(owner) = self.nodes.iter().position(|state| state.addresses.contains(&address)) {
            let name = scenario.node.get_index(owner).map_or("", |(name, _)| name);
            let problem = format!(
                "packets of the capture go to {address}, which is node \"{name}\"'s: expected other addresses for the nodes"
            );
            return if owner == to { Ok(()) } else { Err(problem) };
        }
        let (prefix, ip) = (Prefix::host(address), if address.is_ipv4() { Ip::V4 } else { Ip::V6 });
        router.path(from, to, ip).map_err(|error| error.to_string())?;
        let next = router.towards(to, ip).to_vec();
        let mut node = from;
        while let Some((hop, then)) = next[node] {
            match hop {
                Hop::Link(link, _) => self.node(node).add_route(prefix, interface(scenario, node, link)),
                Hop::Tunnel(tunnel, way) => {
                    let end = self.tunnel_end(tunnel, way);
                    self.node(node).add_tunnel_route(prefix, end);
                }
            }
            node = then;
        }
        self.node(to).add_address(prefix);
        Ok(())
    }

    /// Gives every node its routes and adds all to the network.
    pub(super) fn add_to(
        mut self,
        scenario: &Scenario,
        builder: &mut Builder,
        router: &mut Router<'_>,
    ) -> Vec<NodeHandle> {
        let interfaces = interfaces(scenario);
        for (ip, destination) in std::mem::take(&mut self.destinations) {
            let prefix = Prefix::host(self.address(destination, ip));
            for (node, step) in router.towards(destination, ip).iter().enumerate() {
                match step {
                    Some((Hop::Link(link, _), _)) => {
                        self.node(node).add_route(prefix, interfaces[node][link])
                    }
                    Some((Hop::Tunnel(tunnel, way), _)) => {
                        let end = self.tunnel_end(*tunnel, *way);
                        self.node(node).add_tunnel_route(prefix, end);
                    }
                    None => {}
                }
            }
        }
        let named = scenario.node.keys().zip(self.nodes);
        let add = |(name, state): (&String, State)| {
            let element = builder.add(format!("node/{name}"), state.node);
            NodeHandle { name: name.clone(), element, addresses: state.addresses }
        };
        named.map(add).collect()
    }
}

/// The next address that no node has: 10.0.0.1 or fd00::1 and so on.
fn automatic(is_v4: bool, used: &mut BTreeSet<IpAddr>) -> IpAddr {
    let address = |n: u32| match is_v4 {
        true => IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + n)),
        false => IpAddr::from(Ipv6Addr::from_bits((0xfd00_u128 << 112) + u128::from(n))),
    };
    let free = (1..).map(address).find(|address| !used.contains(address)).expect("there are more than nodes");
    used.insert(free);
    free
}
