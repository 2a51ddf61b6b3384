//! Nodes: addresses, interfaces, tunnels, ports and routes.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use bentpipe_net::node::{Destinations, Prefix, Tunnel};
use bentpipe_net::{Node, Port};
use bentpipe_wire::ip::Protocol;

use crate::routes::SharedRoute;
use crate::{Hop, IpVersion, LinkAt, NodeAt, Order, Part, Problem, Router, Site, Topology, Way};

/// First port number that ends of flows get.
const FIRST_PORT: u16 = 1024;

/// Nodes while they are set up.
pub struct Nodes<'a> {
    topology: &'a Topology,
    nodes: Vec<State>,
    /// Nodes by their first addresses.
    owners: HashMap<IpAddr, usize>,
    /// Ways of packets to addresses that no node has, by nodes. `None` at their end.
    led: HashMap<(usize, IpAddr), Option<Hop>>,
    /// Addresses that packets are sent to, with the node that has them: these need routes.
    destinations: BTreeSet<(IpVersion, usize)>,
    /// Numbers of each tunnel's ends at its first and second node.
    tunnels: Vec<[u16; 2]>,
    /// Interfaces of each node by the number of the link.
    interfaces: Vec<HashMap<usize, Port>>,
    /// Nodes and their interfaces behind which a translator hides all hosts.
    hidden: BTreeSet<(usize, Port)>,
    /// First port number that no flow to a group has.
    next_group_port: u16,
}

/// Port numbers of an endpoint, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortNumbers {
    /// Number of port numbers.
    pub count: u16,
    /// Distance of two port numbers. The first is a multiple of it, and those between stay free.
    pub step: u16,
}

impl PortNumbers {
    /// Creates `count` consecutive port numbers.
    pub const fn consecutive(count: u16) -> PortNumbers {
        PortNumbers { count, step: 1 }
    }

    /// Returns the lowest possible first number from `first` on.
    fn aligned(self, first: u16) -> Option<u16> {
        first.checked_next_multiple_of(self.step)
    }

    /// Returns the number above the last one and its distance.
    fn end(self, first: u16) -> Option<u16> {
        first.checked_add(self.count.checked_mul(self.step)?)
    }

    /// Returns all numbers from `first` on, which leave room for the last.
    pub(crate) fn above(self, first: u16) -> impl Iterator<Item = u16> {
        (0..self.count).map(move |n| first + n * self.step)
    }
}

struct State {
    node: Node,
    addresses: [IpAddr; 2],
    next_port: u16,
    /// Numbers that roles have bound.
    well_known: BTreeSet<(Protocol, u16)>,
}

/// Returns the interfaces of all nodes by the numbers of their links. A node's links are in the order of the
/// file.
fn interfaces(topology: &Topology) -> Vec<HashMap<usize, Port>> {
    let mut interfaces = vec![HashMap::new(); topology.node.len()];
    for (n, link) in topology.link.values().enumerate() {
        for end in &link.between {
            let of_node = &mut interfaces[topology.number(end)];
            of_node.insert(n, Port(of_node.len() as u16));
        }
    }
    interfaces
}

/// Node of a network that is put together.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    /// Name of the node.
    pub name: String,
    /// Part with its `bentpipe_net::Node`.
    pub part: Part,
    /// IPv4 and IPv6 address.
    pub addresses: [IpAddr; 2],
}

impl<'a> Nodes<'a> {
    /// Creates the nodes of a topology with their addresses and interfaces.
    pub fn new(topology: &'a Topology) -> Nodes<'a> {
        let used = topology.node.values().flat_map(|node| node.addresses.clone()).collect();
        let mut free = FreeAddresses { used, next: [1; 2] };
        let mut links: Vec<Vec<&LinkAt>> = vec![Vec::new(); topology.node.len()];
        for link in topology.link.values() {
            link.between.iter().for_each(|end| links[topology.number(end)].push(link));
        }
        let states =
            topology.node.values().zip(&links).map(|(node, links)| State::new(node, links, &mut free));
        let nodes: Vec<State> = states.collect();
        let owned =
            nodes.iter().enumerate().flat_map(|(n, state)| state.addresses.map(|address| (address, n)));
        let owners = owned.collect();
        let interfaces = interfaces(topology);
        Nodes {
            topology,
            nodes,
            owners,
            led: HashMap::new(),
            interfaces,
            hidden: BTreeSet::new(),
            destinations: BTreeSet::new(),
            tunnels: Vec::new(),
            next_group_port: 0,
        }
    }

    /// Returns the links of a node with its interfaces, in the order of the file.
    pub(crate) fn interfaces_of(&self, node: usize) -> Vec<(usize, Port)> {
        let mut all: Vec<(usize, Port)> =
            self.interfaces[node].iter().map(|(link, port)| (*link, *port)).collect();
        all.sort_unstable();
        all
    }

    /// Returns the interface of a node to a link, both by number.
    pub fn interface(&self, node: usize, link: usize) -> Port {
        self.interfaces[node].get(&link).copied().unwrap_or(Port(0))
    }

    /// Records that a node translates the IPv4 addresses of all hosts behind an interface.
    pub(crate) fn hide(&mut self, node: usize, interface: Port) {
        self.hidden.insert((node, interface));
    }

    /// Returns the node on a path that hides its last node from its first.
    ///
    /// A packet on it cannot be the first of a connection then.
    pub(crate) fn hidden_by(&self, hops: &[Hop]) -> Option<usize> {
        let leaves = |(n, hop): (usize, &Hop)| match *hop {
            Hop::Link(link, way) if n > 0 => Some((self.topology.link_ends(link, way)[0], link)),
            // The first node's own packets are not translated, nor what a tunnel hides.
            Hop::Link(..) | Hop::Tunnel(..) => None,
        };
        let mut left = hops.iter().enumerate().filter_map(leaves);
        left.find(|&(node, link)| self.hidden.contains(&(node, self.interface(node, link))))
            .map(|(node, _)| node)
    }

    /// Returns the address of a node.
    pub fn address(&self, node: usize, ip: IpVersion) -> IpAddr {
        self.nodes[node].addresses[usize::from(ip == IpVersion::V6)]
    }

    /// Records a destination node, to which all others get a route.
    pub fn send_to(&mut self, node: usize, ip: IpVersion) {
        self.destinations.insert((ip, node));
    }

    /// Adds an endpoint and returns its port and the first of its port numbers.
    ///
    /// Returns `None` if too few port numbers are left.
    pub fn bind(&mut self, node: usize, protocol: Protocol, numbers: PortNumbers) -> Option<(Port, u16)> {
        let state = &mut self.nodes[node];
        let first = state.free(protocol, numbers)?;
        state.next_port = numbers.end(first)?;
        let endpoint = state.node.add_endpoint();
        numbers.above(first).for_each(|port| state.node.bind(endpoint, protocol, port));
        Some((endpoint, first))
    }

    /// Adds an endpoint with a row of port numbers that takes the room of one. Returns its port and the first number.
    ///
    /// Returns `None` if too few port numbers are left.
    pub(crate) fn bind_row(&mut self, node: usize, protocol: Protocol, count: u16) -> Option<(Port, u16)> {
        let (state, numbers) = (&mut self.nodes[node], PortNumbers::consecutive(count));
        let first = state.free(protocol, numbers)?;
        state.next_port = numbers.end(first)?;
        let endpoint = state.node.add_endpoint();
        state.node.bind_row(endpoint, protocol, first, count);
        Some((endpoint, first))
    }

    /// Returns the first free port number of a flow to a group, from `first` on.
    ///
    /// Returns `None` if too few port numbers are left.
    pub fn group_ports(&mut self, first: u16, numbers: PortNumbers) -> Option<u16> {
        let first = numbers.aligned(first.max(self.next_group_port))?;
        self.next_group_port = numbers.end(first)?;
        Some(first)
    }

    /// Binds an endpoint to a well-known port number, or returns `None` if that is taken.
    pub fn bind_at(&mut self, node: usize, protocol: Protocol, number: u16) -> Option<Port> {
        let state = &mut self.nodes[node];
        let is_given = (FIRST_PORT..state.next_port).contains(&number);
        if is_given || !state.well_known.insert((protocol, number)) {
            return None;
        }
        let endpoint = state.node.add_endpoint();
        state.node.bind(endpoint, protocol, number);
        Some(endpoint)
    }

    /// Returns a node, to be set up.
    pub fn node(&mut self, node: usize) -> &mut Node {
        &mut self.nodes[node].node
    }

    /// Returns the number of a tunnel's end at its starting node in a direction.
    pub fn tunnel_end(&self, tunnel: usize, way: Way) -> u16 {
        self.tunnels[tunnel][usize::from(way == Way::Return)]
    }

    /// Sets up both ends of all tunnels.
    ///
    /// # Errors
    /// Returns an error if the ends of a tunnel do not reach each other over IPv4.
    pub fn add_tunnels(&mut self, router: &mut Router<'_>) -> Result<(), Problem> {
        for (n, name) in self.topology.tunnel.keys().enumerate() {
            let mut numbers = [0; 2];
            for way in Way::BOTH {
                let [here, there] = self.topology.tunnel_ends(n, way);
                let path = router.path_of_links(here, there, IpVersion::V4);
                let path = path.map_err(|error| Problem::new(format!("tunnel.{name}"), error.to_string()))?;
                let mtus = path.iter().map(|(link, _)| self.topology.link[*link].mtu.get());
                let narrowest = mtus.min().unwrap_or(1500);
                let [local, remote] = [here, there].map(|node| self.address(node, IpVersion::V4));
                let (IpAddr::V4(local), IpAddr::V4(remote)) = (local, remote) else { continue };
                let tunnel = Tunnel::new(local, remote, narrowest as usize);
                numbers[way.index()] = self.node(here).add_tunnel(tunnel);
                self.send_to(there, IpVersion::V4);
            }
            self.tunnels.push(numbers);
        }
        Ok(())
    }

    /// Sets the MTU of the path at both of two nodes.
    pub(crate) fn set_path_mtus(&mut self, router: &mut Router<'_>, [a, b]: [usize; 2], ip: IpVersion) {
        for (from, to) in [(a, b), (b, a)].into_iter().filter(|(from, to)| from != to) {
            let (mtu, address) = (router.mtu(from, to, ip), self.address(to, ip));
            mtu.into_iter().for_each(|mtu| self.node(from).set_path_mtu(address, mtu as usize));
        }
    }

    /// Adds a second address of a node, to which [`Nodes::route_to`] adds routes.
    ///
    /// # Errors
    /// Returns an error if another node has the address.
    pub fn add_address(&mut self, node: usize, address: IpAddr) -> Result<(), String> {
        if let Some(owner) = self.owners.get(&address) {
            return Err(format!("{address} is node \"{}\"'s: expected another", self.topology.name(*owner)));
        }
        self.node(node).add_address(Prefix::host(address));
        Ok(())
    }

    /// Adds routes of all nodes to addresses, each with the node that has it.
    pub fn route_to(&mut self, addresses: &[(IpAddr, usize)], router: &mut Router<'_>) {
        for ip in [IpVersion::V4, IpVersion::V6] {
            let is_meant = |(address, _): &&(IpAddr, usize)| address.is_ipv4() == (ip == IpVersion::V4);
            let (addresses, owners): (Vec<IpAddr>, Vec<usize>) =
                addresses.iter().filter(is_meant).copied().unzip();
            let own = |node, n: usize, hop| self.route(node, Prefix::host(addresses[n]), hop);
            let shared = router.routes(ip, &owners, own);
            self.share(&addresses, &shared);
        }
    }

    /// Adds routes that many nodes share. Nodes with the same list follow each other, or have one of few.
    fn share(&mut self, addresses: &[IpAddr], routes: &[SharedRoute]) {
        let mut known: HashMap<*const Vec<usize>, Arc<Destinations>> = HashMap::new();
        for SharedRoute { node, hop, destinations } in routes {
            let named = || Arc::new(destinations.iter().map(|n| addresses[*n]).collect::<Destinations>());
            let destinations = known.entry(Rc::as_ptr(destinations)).or_insert_with(named);
            match *hop {
                Hop::Link(link, _) => {
                    let interface = self.interface(*node, link);
                    self.nodes[*node].node.share_routes(destinations, interface);
                }
                Hop::Tunnel(tunnel, way) => {
                    let end = self.tunnel_end(tunnel, way);
                    self.nodes[*node].node.share_tunnel_routes(destinations, end);
                }
            }
        }
    }

    /// Adds routes for `address`, which no node has, from node to node.
    ///
    /// # Errors
    /// Returns an error if no path exists, the address is another node's, or packets to it go another way.
    pub fn lead(
        &mut self,
        address: IpAddr,
        from: usize,
        to: usize,
        router: &mut Router<'_>,
    ) -> Result<(), String> {
        let (prefix, ip) =
            (Prefix::host(address), if address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 });
        router.path(from, to, ip).map_err(|error| error.to_string())?;
        match self.owners.get(&address).copied() {
            Some(owner) if owner == to => {
                self.send_to(to, ip);
                return Ok(());
            }
            Some(owner) => {
                let name = self.topology.name(owner);
                return Err(format!(
                    "packets of the capture go to {address}, which is node \"{name}\"'s: expected other addresses for the nodes, by `node.{name}.address`"
                ));
            }
            None => {}
        }
        let mut node = from;
        for (hop, then) in router.steps(from, to, ip).unwrap_or_default() {
            self.note_led(address, node, Some(hop))?;
            self.route(node, prefix, hop);
            node = then;
        }
        self.note_led(address, to, None)?;
        self.node(to).add_address(prefix);
        Ok(())
    }

    /// Notes the way of packets to an address at a node.
    ///
    /// # Errors
    /// Returns an error if they go another way there.
    fn note_led(&mut self, address: IpAddr, node: usize, way: Option<Hop>) -> Result<(), String> {
        if *self.led.entry((node, address)).or_insert(way) == way {
            return Ok(());
        }
        let name = self.topology.name(node);
        Err(format!(
            "packets of captures go to {address} by two ways at node \"{name}\": expected other addresses, or one receiver for them"
        ))
    }

    /// Adds all routes to the nodes and records the nodes.
    pub fn install(mut self, site: &mut Site<'_>, router: &mut Router<'_>) -> Vec<NodeHandle> {
        let destinations = std::mem::take(&mut self.destinations);
        let addresses = destinations.into_iter().map(|(ip, node)| (self.address(node, ip), node));
        self.route_to(&addresses.collect::<Vec<_>>(), router);
        let named = self.topology.node.keys().zip(self.nodes).enumerate();
        let add = |(n, (name, state)): (usize, (&String, State))| {
            let part = site.add(Order::Node(n), format!("node/{name}"), state.node);
            NodeHandle { name: name.clone(), part, addresses: state.addresses }
        };
        named.map(add).collect()
    }

    /// Adds a node's route towards a prefix.
    fn route(&mut self, node: usize, prefix: Prefix, hop: Hop) {
        match hop {
            Hop::Link(link, _) => {
                let interface = self.interface(node, link);
                self.node(node).add_route(prefix, interface);
            }
            Hop::Tunnel(tunnel, way) => {
                let end = self.tunnel_end(tunnel, way);
                self.node(node).add_tunnel_route(prefix, end);
            }
        }
    }
}

impl State {
    fn new(at: &NodeAt, links: &[&LinkAt], free: &mut FreeAddresses) -> State {
        let mut pick = |is_v4: bool| {
            let own = at.addresses.iter().copied().find(|address| address.is_ipv4() == is_v4);
            own.unwrap_or_else(|| free.take(is_v4))
        };
        let addresses = [pick(true), pick(false)];
        let mut node = Node::new(links.len() as u16);
        addresses.iter().for_each(|&address| node.add_address(Prefix::host(address)));
        for (interface, link) in links.iter().enumerate() {
            node.set_mtu(Port(interface as u16), link.mtu.get() as usize);
        }
        State { node, addresses, next_port: FIRST_PORT, well_known: BTreeSet::new() }
    }

    /// Returns the first of `numbers` that nothing has, nor any number between them.
    fn free(&self, protocol: Protocol, numbers: PortNumbers) -> Option<u16> {
        let mut first = numbers.aligned(self.next_port)?;
        loop {
            let end = numbers.end(first)?;
            match self.well_known.range((protocol, first)..(protocol, end)).next_back() {
                Some((_, taken)) => first = numbers.aligned(taken.checked_add(1)?)?,
                None => return Some(first),
            }
        }
    }
}

/// Addresses that no node has: 10.0.0.1 or fd00::1 and so on.
struct FreeAddresses {
    used: BTreeSet<IpAddr>,
    /// The next number of IPv4 and of IPv6.
    next: [u32; 2],
}

impl FreeAddresses {
    fn take(&mut self, is_v4: bool) -> IpAddr {
        let next = &mut self.next[usize::from(!is_v4)];
        loop {
            let n = *next;
            *next += 1;
            let address = match is_v4 {
                true => IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + n)),
                false => IpAddr::from(Ipv6Addr::from_bits((0xfd00_u128 << 112) + u128::from(n))),
            };
            if !self.used.contains(&address) {
                return address;
            }
        }
    }
}
