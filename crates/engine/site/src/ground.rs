//! Ground of a role: its node, where it binds ports, diverts packets and serves clients.

use std::net::IpAddr;
use std::path::Path;

use bentpipe_net::Port;
use bentpipe_net::ledger::AccountNumber;
use bentpipe_net::node::Divert;
use bentpipe_wire::ip::Protocol;

use crate::capture::Artefact;
use crate::files::{Files, Opened};
use crate::routes::is_copy;
use crate::{At, IpVersion, Nodes, Problem, Router, Topology, Way};

/// Node of a role while networks are planned. Each call that makes a port of the role's element returns the next one.
pub struct Ground<'g, 'a> {
    topology: &'a Topology,
    files: &'a dyn Files,
    nodes: &'g mut Nodes<'a>,
    router: &'g mut Router<'a>,
    node: usize,
    /// Number of the role among those of the node.
    number: usize,
    key: &'g str,
    /// Ports of the node by the port of the element.
    joined: Vec<Port>,
    /// Conditions on packets in transit that it keeps from later roles.
    kept: Vec<Divert>,
    /// Conditions on those that it passes on.
    passed: Vec<Divert>,
    artefacts: Vec<Artefact<At>>,
}

/// Nodes whose packets arrive at a node over one of its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Addresses of the nodes.
    pub addresses: Vec<IpAddr>,
    /// Least MTU of the paths to them.
    pub mtu: u64,
    /// Least MTU of the paths to all other nodes.
    pub mtu_of_others: u64,
}

impl<'g, 'a> Ground<'g, 'a> {
    /// Creates the ground of the role of a number at `key` of a node.
    pub fn new(
        (topology, files): (&'a Topology, &'a dyn Files),
        nodes: &'g mut Nodes<'a>,
        router: &'g mut Router<'a>,
        (node, number, key): (usize, usize, &'g str),
    ) -> Ground<'g, 'a> {
        let (joined, artefacts) = (Vec::new(), Vec::new());
        let (kept, passed) = (Vec::new(), Vec::new());
        Ground { topology, files, nodes, router, node, number, key, joined, kept, passed, artefacts }
    }

    /// Returns the key of the role: "node.edge.role".
    pub fn key(&self) -> &str {
        self.key
    }

    /// Opens a file of the scenario.
    ///
    /// # Errors
    /// Returns an error that begins with the path if it cannot be read.
    pub fn open(&self, path: &Path) -> Result<Opened, String> {
        self.files.open(path)
    }

    /// Returns the name of the node.
    pub fn name(&self) -> &'a str {
        self.topology.name(self.node)
    }

    /// Returns the number of a node, from 0 in the order of the file.
    pub fn index(&self, node: &str) -> Option<usize> {
        self.topology.node.get_index_of(node)
    }

    /// Returns the name of a node by its number.
    pub fn node_at(&self, index: usize) -> Option<&'a str> {
        self.topology.node.get_index(index).map(|(name, _)| name.as_str())
    }

    /// Returns the addresses of a node.
    pub fn addresses(&self, node: &str) -> Option<[IpAddr; 2]> {
        let node = self.topology.node.get_index_of(node)?;
        Some([IpVersion::V4, IpVersion::V6].map(|ip| self.nodes.address(node, ip)))
    }

    /// Returns the interfaces to a link, or to the copies of one.
    pub fn interfaces(&self, link: &str) -> Vec<Port> {
        let is_meant = |name: &str| name == link || is_copy(name, link);
        let of = |n: usize| self.topology.link.get_index(n).is_some_and(|(name, _)| is_meant(name));
        let own = self.nodes.interfaces_of(self.node).into_iter();
        own.filter(|(n, _)| of(*n)).map(|(_, interface)| interface).collect()
    }

    /// Returns the nodes whose packets arrive over a link.
    ///
    /// Copies of the link count as it.
    ///
    /// # Errors
    /// Returns the refusal of a network with too many nodes and roles that ask for them.
    pub fn behind(&mut self, link: &str) -> Result<Behind, Problem> {
        self.router.survey(self.key, self.node)?;
        let is_meant = |(n, _): &(usize, Way)| {
            let (name, _) = self.topology.link.get_index(*n).expect("a link of the topology");
            name == link || is_copy(name, link)
        };
        let mut found = Behind { addresses: Vec::new(), mtu: u64::MAX, mtu_of_others: u64::MAX };
        let versions = [IpVersion::V4, IpVersion::V6];
        for (node, ip) in (0..self.topology.node.len()).flat_map(|node| versions.map(|ip| (node, ip))) {
            if node == self.node {
                continue;
            }
            let Some(steps) = self.router.steps(node, self.node, ip) else { continue };
            let last = match self.router.plain_end(&steps) {
                Some(last) => Some(last),
                None => self.router.path_of_links(node, self.node, ip).unwrap_or_default().last().copied(),
            };
            let mtu = self.router.mtu_of(&steps).unwrap_or(u64::MAX);
            if last.as_ref().is_some_and(is_meant) {
                found.addresses.push(self.nodes.address(node, ip));
                found.mtu = found.mtu.min(mtu);
            } else {
                found.mtu_of_others = found.mtu_of_others.min(mtu);
            }
        }
        Ok(found)
    }

    /// Diverts the packets in transit that match. Later roles of the node get none of them.
    pub fn divert(&mut self, what: Divert) -> Port {
        self.kept.push(what);
        let endpoint = self.nodes.node(self.node).divert(what);
        self.join(endpoint)
    }

    /// Diverts the packets in transit that match to an element that returns each at once. Later roles of the node get them too.
    pub fn divert_through(&mut self, what: Divert) -> Port {
        self.passed.push(what);
        let endpoint = self.nodes.node(self.node).divert_through(what, self.number);
        self.join(endpoint)
    }

    /// Records that the role translates the IPv4 addresses of all hosts behind an interface.
    pub(crate) fn hide(&mut self, interface: Port) {
        self.nodes.hide(self.node, interface);
    }

    /// Binds `count` free port numbers in a row and returns the first of them.
    ///
    /// # Errors
    /// Returns an error if too few port numbers are left.
    pub fn bind(&mut self, protocol: Protocol, count: u16) -> Result<(Port, u16), Problem> {
        let bound = self.nodes.bind_row(self.node, protocol, count);
        let none = || Problem::new(self.key, format!("no port is left at node \"{}\"", self.name()));
        let (endpoint, first) = bound.ok_or_else(none)?;
        Ok((self.join(endpoint), first))
    }

    /// Binds a well-known port number.
    ///
    /// # Errors
    /// Returns an error if another role of the node has it.
    pub fn bind_at(&mut self, protocol: Protocol, number: u16) -> Result<Port, Problem> {
        let bound = self.nodes.bind_at(self.node, protocol, number);
        let taken = || {
            let problem = format!("{protocol} port {number} of node \"{}\" is taken", self.name());
            Problem::new(self.key, format!("{problem}: expected one role that binds it"))
        };
        let endpoint = bound.ok_or_else(taken)?;
        Ok(self.join(endpoint))
    }

    /// Returns the account of the packets that the element sends at a port.
    pub fn account_of(&mut self, port: Port) -> AccountNumber {
        let own = self.joined.get(usize::from(port.0)).copied();
        own.map(|own| self.nodes.node(self.node).account_of(own)).unwrap_or_default()
    }

    /// Adds routes of all nodes to a node that the role sends packets to.
    ///
    /// # Errors
    /// Returns an error if no path exists, or there are copies in place of the node.
    pub fn reach(&mut self, node: &str, ip: IpVersion) -> Result<(), Problem> {
        let several =
            || Problem::new(self.key, format!("\"{node}\" is not one node: expected one without `count`"));
        let to = self.topology.find(node).ok_or_else(several)?;
        let unreachable = |error: crate::Unreachable| Problem::new(self.key, error.to_string());
        self.router.path(self.node, to, ip).map_err(unreachable)?;
        self.nodes.send_to(to, ip);
        Ok(())
    }

    /// Has the node fragment what the element sends at a port.
    ///
    /// The MTU of the path is that of [`Ground::set_path_mtus`].
    pub fn fragment(&mut self, port: Port) {
        let own = self.joined.get(usize::from(port.0)).copied();
        own.into_iter().for_each(|own| self.nodes.node(self.node).fragment(own));
    }

    /// Sets the MTU of the path at this node and another, and returns it.
    pub fn set_path_mtus(&mut self, node: &str, ip: IpVersion) -> Option<u64> {
        let to = self.topology.find(node)?;
        self.nodes.set_path_mtus(self.router, [self.node, to], ip);
        self.router.mtu(self.node, to, ip)
    }

    /// Adds routes of all nodes to this node, whose address the role gives others.
    pub fn advertise(&mut self, ip: IpVersion) {
        self.nodes.send_to(self.node, ip);
    }

    fn join(&mut self, endpoint: Port) -> Port {
        self.joined.push(endpoint);
        Port(self.joined.len() as u16 - 1)
    }

    /// Adds a file that the run leaves.
    pub fn leave(&mut self, artefact: Artefact<At>) {
        self.artefacts.push(artefact);
    }

    /// Returns its ports of the node, its files, and its conditions on packets in transit.
    pub(crate) fn into_parts(self) -> (Vec<Port>, Vec<Artefact<At>>, Vec<Divert>) {
        (self.joined, self.artefacts, self.kept)
    }

    /// Returns `true` if another role keeps packets in transit that this one needs.
    pub(crate) fn comes_behind(&self, kept: &[Divert]) -> bool {
        let mut own = self.kept.iter().chain(&self.passed);
        own.any(|own| kept.iter().any(|kept| kept.overlaps(own)))
    }
}
