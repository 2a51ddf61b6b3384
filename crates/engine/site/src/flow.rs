//! Flow as its traffic sees it, its ends, and their nodes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use bentpipe_net::ledger::AccountNumber;
use bentpipe_net::{Element, InvalidConfig, Port};
use bentpipe_sim::ElementId;
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::ip::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application::Application;
use crate::call::{CallReader, KeepsCalls};
use crate::change::Changes;
use crate::files::{FileContent, Files, Opened};
use crate::judge::Judge;
use crate::nodes::{Nodes, PortNumbers};
use crate::problem::Problem;
use crate::role::{Client, RolePlans};
use crate::routes::{Hop, Router, header_len};
use crate::topology::{IpVersion, Topology, Way};

/// First port of flows to groups, far from those of single nodes.
const FIRST_GROUP_PORT: u16 = 40_000;
/// Length of the longest IPv4 packet, in bytes.
const MAX_PACKET_LEN: u64 = 65_535;
/// Maximum number of flows with a port number each at a node.
const MAX_FLOWS: u16 = 64_511;

/// Flow, or a copy of one, whose elements are made.
#[derive(Clone, Debug)]
pub struct FlowAt<'a> {
    /// Number of the flow.
    pub flow: usize,
    /// Name in the file.
    pub name: &'a str,
    /// Number of the node that sends.
    pub from: usize,
    /// Numbers of the nodes that receive: one, unless they are a group.
    pub receivers: &'a [usize],
    /// Address of the group, if it goes to one.
    pub group: Option<IpAddr>,
    /// IP version.
    pub ip: IpVersion,
    /// Longest IP packet that reaches all receivers.
    pub mtu: Bytes,
    /// Set if its datagrams must not be fragmented.
    pub dont_fragment: bool,
    /// Start of the first copy.
    pub start: Span,
    /// End, if it has one.
    pub stop: Option<Span>,
    /// Number of copies that the elements are to stand for.
    pub copies: u32,
    /// Place among the flows with the same kind of traffic and the same sender.
    pub peers: Peers,
    /// Application that writes.
    pub application: Application,
    /// Seed of the run, for random streams that both ends share.
    pub seed: u64,
}

/// Place of a flow among those with its kind of traffic and its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Number of copies before it.
    pub before: u32,
    /// Number of all copies.
    pub all: u32,
}

impl FlowAt<'_> {
    /// Returns a key of the flow: "flow.bulk.count".
    pub fn key(&self, key: &str) -> String {
        format!("flow.{}.{key}", self.name)
    }

    /// Returns an element's refusal of the traffic, or of a key in it.
    pub fn impossible(&self, key: &str, impossible: &InvalidConfig) -> Problem {
        let traffic = self.key("traffic");
        let key = if key.is_empty() { traffic } else { format!("{traffic}.{key}") };
        Problem::impossible(&key, impossible)
    }

    /// Checks that packets of `payload` after `headers` bytes of transport headers fit the path, whole. `key` is in
    /// the traffic.
    ///
    /// # Errors
    /// Returns an error if they are longer than the path's MTU.
    pub fn ensure_fits(&self, payload: Bytes, headers: u64, key: &str) -> Result<(), Problem> {
        let (len, most) = (header_len(self.ip, headers).get() + payload.get(), self.mtu.get());
        if len <= most {
            return Ok(());
        }
        Err(self.too_long(len, &format!("the path's MTU, {most} B"), key))
    }

    fn too_long(&self, len: u64, most: &str, key: &str) -> Problem {
        let problem = format!("makes packets of {len} B: expected at most {most}");
        Problem::new(self.key(&format!("traffic.{key}")), problem)
    }

    /// Returns `true` if packets travel in fragments.
    ///
    /// They are of `payload` after `headers` bytes of transport headers. `key` is in the traffic.
    ///
    /// # Errors
    /// Returns an error if they are longer than the path's MTU and may not be fragmented, or longer than any IP packet.
    fn is_fragmented(&self, payload: Bytes, headers: u64, key: &str) -> Result<bool, Problem> {
        let (len, mtu) = (header_len(self.ip, headers).get() + payload.get(), self.mtu.get());
        if len > mtu && self.dont_fragment {
            return Err(self.too_long(len, &format!("the path's MTU, {mtu} B, with `dont_fragment`"), key));
        }
        if len > mtu.max(MAX_PACKET_LEN) {
            return Err(self.too_long(len, &format!("{MAX_PACKET_LEN} B"), key));
        }
        Ok(len > mtu)
    }
}

/// Place that an end of a flow is connected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// Number of a node and its port.
    Node(usize, Port),
    /// Sending end of a native channel, by its number.
    Entry(usize),
    /// Receiving end of a native channel, by the numbers of channel, receiver and node.
    Exit(usize, usize, usize),
    /// Client's place at a role of a node.
    Role(Client),
}

/// Form of what a medium carries without IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// ATM cells: packets of a mark and the payload. The mark is 1 in the last cell of a PDU.
    CellPayloads,
}

impl Form {
    /// Returns what is carried, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Form::CellPayloads => "payloads of ATM cells",
        }
    }
}

/// Channel on a link that a flow has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeChannel {
    /// Name of the flow.
    pub flow: String,
    /// Key that asks for it.
    pub key: String,
    /// Number of the link.
    pub link: usize,
    /// Direction.
    pub way: Way,
    /// Form of what it carries.
    pub form: Form,
    /// Numbers of the links to further receivers, all in the same direction.
    pub others: Vec<usize>,
}

/// End of a flow: its element, and its place.
pub struct End {
    /// Element, whose port 0 is connected.
    pub element: Box<dyn Element>,
    /// Place.
    pub at: Attach,
    /// Role that port 1 is connected with, if the element has that port.
    pub second: Option<Client>,
    /// Reader of the calls at this end.
    pub calls: Option<CallReader>,
    /// Switch of a sender that an event turns off and on.
    pub switch: Option<Switch>,
    /// End at a node on the way, where what is sent takes another form.
    pub between: Option<Box<End>>,
}

/// Sender that can be turned off and on.
pub trait Switchable: Element + 'static {
    /// Turns sending on or off from `now` on.
    fn set_active(&mut self, now: Time, active: bool);
}

/// Switch of a [`Switchable`] element.
#[derive(Clone, Copy)]
pub struct Switch(fn(ElementId, String, bool, &mut Changes));

impl Switch {
    /// Returns the switch of elements of a type.
    pub fn of<E: Switchable>() -> Switch {
        Switch(|element, key, active, to| {
            to.set(element, key, active, |sender: &mut E, now, active| {
                sender.set_active(now, active);
                Ok(())
            });
        })
    }

    /// Adds the change of an element.
    pub fn change(self, element: ElementId, key: String, active: bool, to: &mut Changes) {
        (self.0)(element, key, active, to);
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Switch")
    }
}

impl End {
    /// Creates the end of an element at a node.
    pub fn new(element: impl Element + 'static, (node, port): (usize, Port)) -> End {
        End::attached(element, Attach::Node(node, port))
    }

    /// Creates the end of an element at any place.
    pub fn attached(element: impl Element + 'static, at: Attach) -> End {
        End { element: Box::new(element), at, second: None, calls: None, switch: None, between: None }
    }

    /// Connects port 1 of the element with a role.
    pub fn joined(self, role: Client) -> End {
        End { second: Some(role), ..self }
    }

    /// Adds an end at a node on the way.
    pub fn through(self, between: End) -> End {
        End { between: Some(Box::new(between)), ..self }
    }

    /// Creates the end of a sender that can be turned off and on.
    pub fn switchable<E: Switchable>(element: E, at: (usize, Port)) -> End {
        End { switch: Some(Switch::of::<E>()), ..End::new(element, at) }
    }

    /// Creates the end of an element of calls at a node.
    pub fn of_calls<E: Element + KeepsCalls>(element: E, at: (usize, Port)) -> End {
        End { calls: Some(CallReader::of::<E>()), ..End::new(element, at) }
    }
}

/// Both ends of a flow.
pub struct FlowEnds {
    /// Sending end.
    pub sender: End,
    /// Receiving ends: one, or one for each member of a group.
    pub receivers: Vec<End>,
    /// Steps after the run, with the name of the receiver of each in a group.
    pub judges: Vec<(Option<String>, Box<dyn Judge>)>,
}

/// End of a connection that opens it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Opener {
    /// The end that sends the data, as an upload does.
    #[default]
    Sender,
    /// The end that receives them, as a download does, from behind a translator too.
    Receiver,
}

/// Addresses of both ends of a connection, and their ports at the nodes.
pub struct Pair {
    /// Address and port number of the sender.
    pub local: SocketAddr,
    /// Address and port number of the receiver.
    pub remote: SocketAddr,
    /// Node and port of the sender.
    pub sender: (usize, Port),
    /// Node and port of the receiver.
    pub receiver: (usize, Port),
}

/// Addresses of datagrams, and the ports of their ends at the nodes.
pub struct Datagrams {
    /// Address and first port number of the sender.
    pub source: SocketAddr,
    /// Address and first port number of the receivers.
    pub destination: SocketAddr,
    /// Node and port of the sender.
    pub sender: (usize, Port),
    /// Nodes and ports of the receivers.
    pub receivers: Vec<(usize, Port)>,
}

/// Nodes, routes and files, to which the ends of flows are attached.
pub struct FlowGround<'g, 't> {
    topology: &'t Topology,
    nodes: &'g mut Nodes<'t>,
    router: &'g mut Router<'t>,
    files: &'g dyn Files,
    natives: &'g mut Vec<NativeChannel>,
    roles: &'g mut RolePlans,
}

impl<'g, 't> FlowGround<'g, 't> {
    /// Creates the ground of a topology.
    pub fn new(
        topology: &'t Topology,
        nodes: &'g mut Nodes<'t>,
        router: &'g mut Router<'t>,
        files: &'g dyn Files,
        natives: &'g mut Vec<NativeChannel>,
        roles: &'g mut RolePlans,
    ) -> FlowGround<'g, 't> {
        FlowGround { topology, nodes, router, files, natives, roles }
    }

    /// Adds a client to a node's role, by the word of its kind.
    ///
    /// # Errors
    /// Returns an error if the node has no such role.
    pub fn client(&mut self, at: &FlowAt<'_>, node: usize, word: &str) -> Result<Client, Problem> {
        let key = if node == at.from { "from" } else { "to" };
        let name = self.topology.name(node);
        let problem =
            format!("node \"{name}\" has no role \"{word}\": expected `node.{name}.role` of that kind");
        self.roles.client_of(node, word).ok_or_else(|| match self.roles.clients_of(node, word) {
            None => Problem::new(at.key(key), problem),
            Some(most) => Problem::new(
                at.key("count"),
                format!("role \"{word}\" of node \"{name}\" has {most} clients: expected no more"),
            ),
        })
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.topology.node.len()
    }

    /// Returns the number of a node by its name.
    pub fn number(&self, node: &str) -> Option<usize> {
        self.topology.node.get_index_of(node)
    }

    /// Returns the element of a node's first role of a kind, before the run.
    pub fn role(&mut self, node: usize, word: &str) -> Option<&mut dyn Element> {
        self.roles.element_of(node, word)
    }

    /// Returns the name of a node by its number.
    pub fn name(&self, node: usize) -> &'t str {
        self.topology.name(node)
    }

    /// Returns the nodes, to be set up.
    pub fn nodes(&mut self) -> &mut Nodes<'t> {
        self.nodes
    }

    /// Returns the router.
    pub fn router(&mut self) -> &mut Router<'t> {
        self.router
    }

    /// Opens a file of the scenario.
    ///
    /// # Errors
    /// Returns an error that begins with the path if it cannot be read.
    pub fn open(&self, path: &Path) -> Result<Opened, String> {
        self.files.open(path)
    }

    /// Returns what flows with equal settings make of a file: see [`Files::common`].
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub fn common(
        &self,
        key: &str,
        make: &mut dyn FnMut() -> Result<FileContent, String>,
    ) -> Result<FileContent, String> {
        self.files.common(key, make)
    }

    /// Returns files that a program produces: see [`Files::make`].
    ///
    /// # Errors
    /// Returns an error if the program is missing or fails.
    pub fn make(&self, what: &str, order: &serde_json::Value) -> Result<Vec<Vec<u8>>, String> {
        self.files.make(what, order)
    }

    /// Adds a channel to the links that join sender and receivers, and returns its ends.
    ///
    /// `key` is what asks for it in the traffic.
    ///
    /// # Errors
    /// Returns an error unless one link joins the sender with each receiver.
    pub fn native(
        &mut self,
        at: &FlowAt<'_>,
        key: &str,
        form: Form,
    ) -> Result<(Attach, Vec<Attach>), Problem> {
        let key = at.key(&format!("traffic.{key}"));
        let mut links = Vec::new();
        for to in at.receivers {
            let path = self.router.path(at.from, *to, at.ip);
            let path = path.map_err(|error| Problem::new(at.key("to"), error.to_string()))?;
            let [Hop::Link(link, way)] = path[..] else {
                let problem = format!(
                    "no link joins \"{}\" and \"{}\": expected one, which carries {}",
                    self.topology.name(at.from),
                    self.topology.name(*to),
                    form.name()
                );
                return Err(Problem::new(key, problem));
            };
            links.push((link, way));
        }
        let Some((&(link, way), others)) = links.split_first() else {
            return Err(Problem::new(at.key("to"), "a group without other members: expected a receiver"));
        };
        let others = others.iter().map(|(link, _)| *link).collect();
        self.natives.push(NativeChannel { flow: at.name.to_owned(), key, link, way, form, others });
        let number = self.natives.len() - 1;
        let exits = at.receivers.iter().enumerate().map(|(n, node)| Attach::Exit(number, n, *node));
        Ok((Attach::Entry(number), exits.collect()))
    }

    /// Adds an endpoint to a node and returns its port and first port number.
    ///
    /// # Errors
    /// Returns an error if too few port numbers are left.
    pub fn bind(
        &mut self,
        at: &FlowAt<'_>,
        node: usize,
        protocol: Protocol,
        numbers: PortNumbers,
    ) -> Result<(Port, u16), Problem> {
        self.nodes.bind(node, protocol, numbers).ok_or_else(|| {
            let (name, most) = (self.topology.name(node), MAX_FLOWS / numbers.step);
            let problem = format!("no port is left at node \"{name}\": {most} flows can end there");
            Problem::new(at.key("count"), problem)
        })
    }

    /// Adds both ends of a connection that one of them opens.
    ///
    /// # Errors
    /// Returns an error if no port number is left, or a translator hides the other end from the one that opens.
    pub fn pair(&mut self, at: &FlowAt<'_>, protocol: Protocol, opened_by: Opener) -> Result<Pair, Problem> {
        let (from, to) = (at.from, at.receivers[0]);
        self.ensure_opens(at, opened_by)?;
        let (sender, local) = self.bind(at, from, protocol, PortNumbers::consecutive(1))?;
        let (receiver, remote) = self.bind(at, to, protocol, PortNumbers::consecutive(1))?;
        [from, to].into_iter().for_each(|node| self.nodes.send_to(node, at.ip));
        Ok(Pair {
            local: SocketAddr::new(self.nodes.address(from, at.ip), local),
            remote: SocketAddr::new(self.nodes.address(to, at.ip), remote),
            sender: (from, sender),
            receiver: (to, receiver),
        })
    }

    fn ensure_opens(&mut self, at: &FlowAt<'_>, opened_by: Opener) -> Result<(), Problem> {
        let (from, to) = (at.from, at.receivers[0]);
        let (opener, other, key) = match opened_by {
            Opener::Sender => (from, to, "to"),
            Opener::Receiver => (to, from, "from"),
        };
        // Without a path another error follows.
        let path = self.router.path(opener, other, at.ip).unwrap_or_default();
        let Some(translator) = self.nodes.hidden_by(&path).filter(|_| at.ip == IpVersion::V4) else {
            return Ok(());
        };
        let [opener, other, translator] = [opener, other, translator].map(|node| self.topology.name(node));
        let problem = format!(
            "the translator at \"{translator}\" hides \"{other}\", so \"{opener}\" cannot open a connection to it: \
             expected one that \"{other}\" opens"
        );
        Err(Problem::new(at.key(key), problem))
    }

    /// Adds the ends of datagrams from port numbers to as many at each receiver.
    ///
    /// # Errors
    /// Returns an error if too few port numbers are left.
    pub fn datagrams(
        &mut self,
        at: &FlowAt<'_>,
        protocol: Protocol,
        numbers: PortNumbers,
    ) -> Result<Datagrams, Problem> {
        let (sender, first) = self.bind(at, at.from, protocol, numbers)?;
        let source = SocketAddr::new(self.nodes.address(at.from, at.ip), first);
        let (destination, receivers) = match at.group {
            Some(address) => self.members(at, address, protocol, numbers)?,
            None => self.receiver(at, protocol, numbers)?,
        };
        Ok(Datagrams { source, destination, sender: (at.from, sender), receivers })
    }

    /// Returns the account of the packets that an end sends.
    pub fn account_of(&mut self, (node, port): (usize, Port)) -> AccountNumber {
        self.nodes.node(node).account_of(port)
    }

    /// Has both ends' nodes fragment datagrams longer than the path's MTU.
    ///
    /// They are of `payload` after `headers` bytes of transport headers. `key` is in the traffic.
    ///
    /// # Errors
    /// Returns an error if they are, and may not be fragmented, or if they are longer than any IP packet.
    pub fn fit(
        &mut self,
        at: &FlowAt<'_>,
        ends: &Datagrams,
        (payload, headers): (Bytes, u64),
        key: &str,
    ) -> Result<(), Problem> {
        if at.is_fragmented(payload, headers, key)? {
            self.fragment_at_ends(at, ends);
        }
        Ok(())
    }

    /// Has both ends' nodes fragment all datagrams longer than the path's MTU.
    ///
    /// They do not with `dont_fragment`. It is for traffic with messages of any length. `payload` after `headers` bytes of transport headers is known to be sent;
    /// `key` is in the traffic.
    ///
    /// # Errors
    /// Returns the errors of [`FlowGround::fit`].
    pub fn fit_all(
        &mut self,
        at: &FlowAt<'_>,
        ends: &Datagrams,
        (payload, headers): (Bytes, u64),
        key: &str,
    ) -> Result<(), Problem> {
        at.is_fragmented(payload, headers, key)?;
        if !at.dont_fragment {
            self.fragment_at_ends(at, ends);
        }
        Ok(())
    }

    fn fragment_at_ends(&mut self, at: &FlowAt<'_>, ends: &Datagrams) {
        for (node, port) in ends.receivers.iter().chain([&ends.sender]) {
            self.nodes.node(*node).fragment_at(*port, at.mtu.get() as usize);
        }
    }

    /// Sets the MTU of the path at both of two nodes.
    ///
    /// Their endpoints fragment by it what they fragment at all.
    pub fn set_path_mtus(&mut self, nodes: [usize; 2], ip: IpVersion) {
        self.nodes.set_path_mtus(self.router, nodes, ip);
    }

    /// Has both ends' nodes fragment echo requests and replies, as [`FlowGround::fit`] does.
    ///
    /// The requests come from the sender's `port`.
    ///
    /// # Errors
    /// Returns the errors of [`FlowGround::fit`].
    pub fn fit_echo(
        &mut self,
        at: &FlowAt<'_>,
        port: Port,
        (payload, headers): (Bytes, u64),
        key: &str,
    ) -> Result<(), Problem> {
        if at.is_fragmented(payload, headers, key)? {
            let mtu = at.mtu.get() as usize;
            self.nodes.node(at.from).fragment_at(port, mtu);
            self.nodes.node(at.receivers[0]).fragment_own_at(mtu);
        }
        Ok(())
    }

    fn receiver(
        &mut self,
        at: &FlowAt<'_>,
        protocol: Protocol,
        numbers: PortNumbers,
    ) -> Result<(SocketAddr, Vec<(usize, Port)>), Problem> {
        let to = at.receivers[0];
        self.nodes.send_to(to, at.ip);
        let (port, first) = self.bind(at, to, protocol, numbers)?;
        Ok((SocketAddr::new(self.nodes.address(to, at.ip), first), vec![(to, port)]))
    }

    /// Joins all receivers to a group. One port number serves all members: each flow to the group has its own.
    fn members(
        &mut self,
        at: &FlowAt<'_>,
        address: IpAddr,
        protocol: Protocol,
        numbers: PortNumbers,
    ) -> Result<(SocketAddr, Vec<(usize, Port)>), Problem> {
        let first = FIRST_GROUP_PORT.checked_add(at.flow as u16);
        let first = first.and_then(|first| self.nodes.group_ports(first, numbers));
        let first = first.ok_or_else(|| Problem::new(at.key("count"), "more flows to groups than ports"))?;
        let join = |to: &usize| {
            let node = self.nodes.node(*to);
            let port = node.add_endpoint();
            numbers.above(first).for_each(|number| node.join(port, address, protocol, number));
            (*to, port)
        };
        Ok((SocketAddr::new(address, first), at.receivers.iter().map(join).collect()))
    }

    /// Routes packets to `address`, which no node has, from sender to receiver.
    ///
    /// # Errors
    /// Returns an error without a path, or if the address is another node's.
    pub fn lead(&mut self, at: &FlowAt<'_>, address: IpAddr) -> Result<(), Problem> {
        let led = self.nodes.lead(address, at.from, at.receivers[0], self.router);
        led.map_err(|problem| Problem::new(at.key("to"), problem))
    }

    /// Routes packets to `address`, which no node has, from receiver to sender.
    ///
    /// # Errors
    /// Returns an error without a path, or if the address is another node's.
    pub fn lead_back(&mut self, at: &FlowAt<'_>, address: IpAddr) -> Result<(), Problem> {
        let led = self.nodes.lead(address, at.receivers[0], at.from, self.router);
        led.map_err(|problem| Problem::new(at.key("from"), problem))
    }
}
