//! A node: host, router or satellite.
//!
//! Modelled: IPv4 and IPv6 forwarding by longest prefix with hop limits and header checksums (RFC 1812, RFC 8200), local
//! delivery by protocol and port, diversion of packets in transit to endpoints, configured IPv6-in-IPv4 tunnels (RFC 4213),
//! multicast to static groups and to those that hosts join (IGMP, MLD), fragmentation and reassembly (RFC 791, RFC 8200), ICMP and ICMPv6 errors and echo
//! (RFC 1812, RFC 4443). Not modelled: ARP and neighbour discovery, routing protocols, loopback, IPv6 scopes other
//! than link-local multicast.
//!
//! Ports: the network interfaces come first, then the local endpoints, as inputs and as outputs.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;

use bentpipe_units::Time;
use bentpipe_wire::ip::fragments::Reassembler;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::{Kind, ipv4, ipv6};

use crate::hash::Map;
use crate::ledger::AccountNumber;
pub use crate::text::Prefix;
use crate::{Cx, Element, Observer, Packet, Port, Why, ledger};

mod answer;
mod demux;
mod divert;
mod fragments;
mod groups;
pub mod metrics;
mod multicast;
mod routes;
mod tunnel;

use answer::Limit;
pub(crate) use demux::ports;
use demux::{Demux, Service};
pub use divert::Divert;
use divert::Diverts;
use fragments::{Sources, Tagged, is_fragment};
use multicast::Multicast;
pub use multicast::Neighbour;
pub use routes::Destinations;
use routes::{Key, Routes, Via, key};
pub use tunnel::Tunnel;

/// The protocol number of UDP, for [`Node::bind`].
pub const UDP: Protocol = Protocol::UDP;
/// The protocol number of TCP, for [`Node::bind`].
pub const TCP: Protocol = Protocol::TCP;

/// A host, router or satellite.
pub struct Node {
    /// The MTU of each interface in bytes.
    mtus: Vec<usize>,
    endpoints: u16,
    routes: Routes,
    demux: Demux,
    tunnels: Vec<Tunnel>,
    /// Tunnels by the outer source and destination of what comes out of them.
    tunnel_ends: Map<(Ipv4Addr, Ipv4Addr), u16>,
    groups: Vec<Group>,
    /// Numbers of groups that nothing is left of.
    free_groups: Vec<u16>,
    /// Memberships of hosts, if multicast is enabled at an interface.
    multicast: Option<Box<Multicast>>,
    /// Diversions, if there are any.
    diverts: Option<Box<Diverts>>,
    /// IPv4 and IPv6 address that messages of this node come from.
    addresses: [Option<IpAddr>; 2],
    /// Identification of the last message.
    ident: u16,
    limit: Limit,
    /// Incomplete datagrams, if there were any.
    reassembly: Option<Box<Reassembler<Tagged>>>,
    /// Endpoints whose longer packets are fragmented here, if there are any.
    sources: Option<Box<Sources>>,
    /// Number of the account of its own packets. Those of its endpoints follow.
    account: u32,
    /// Endpoints whose accounts others ask for, with the number that they get.
    named: Vec<(Port, AccountNumber)>,
    /// Accounts of echo requests, whose replies have accounts of their own behind those of endpoints.
    answered: Vec<AccountNumber>,
    counts: Counts,
}

/// Branches and members of a multicast group.
#[derive(Debug, Default)]
struct Group {
    branches: Vec<Via>,
    /// Branches with streams for groups: the interface that stands for each, and those with members.
    shared: BTreeMap<Port, BTreeSet<Port>>,
    members: Vec<(Service, Port)>,
}

#[derive(Debug, Default)]
struct Counts {
    delivered: u64,
    forwarded: u64,
    diverted: u64,
    fragments: u64,
    reassembled: u64,
    icmp_sent: u64,
    icmp_received: u64,
    icmp_suppressed: u64,
    drops: [u64; Drop::ALL.len()],
}

/// Cause of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// No route leads to its destination, or the destination is the node that sent it.
    NoRoute,
    /// Hop limit exceeded.
    HopLimit,
    /// Wrong IPv4 header checksum.
    BadChecksum,
    /// Malformed IP packet, or a packet of a tunnel that does not exist.
    BadHeader,
    /// Packet longer than the interface's or tunnel's MTU.
    TooBig,
    /// No endpoint for its protocol and port.
    NoListener,
    /// Fragment of a packet that was never complete.
    Reassembly,
    /// Destination is a multicast group without a member elsewhere, or the packet is an echo.
    NoMember,
}

impl Drop {
    /// Every cause, in the order of their metrics.
    pub const ALL: [Drop; 8] = [
        Drop::NoRoute,
        Drop::HopLimit,
        Drop::BadChecksum,
        Drop::BadHeader,
        Drop::TooBig,
        Drop::NoListener,
        Drop::Reassembly,
        Drop::NoMember,
    ];

    /// Returns the reason in accounts of packets.
    const fn why(self) -> Why {
        match self {
            Drop::NoRoute => Why::NoRoute,
            Drop::HopLimit => Why::HopLimit,
            Drop::BadChecksum => Why::Checksum,
            Drop::BadHeader => Why::Malformed,
            Drop::TooBig => Why::TooBig,
            Drop::NoListener => Why::NoListener,
            Drop::Reassembly => Why::Reassembly,
            Drop::NoMember => Why::NoMember,
        }
    }
}

/// Setting up.
impl Node {
    /// A node with `interfaces` network interfaces, no address and no route.
    pub fn new(interfaces: u16) -> Node {
        let mut routes = Routes::new();
        for multicast in ["224.0.0.0/4", "ff00::/8"] {
            routes.insert(multicast.parse().expect("a prefix"), Via::NoGroup);
        }
        routes.insert("255.255.255.255/32".parse().expect("a prefix"), Via::Nowhere);
        Node {
            mtus: vec![usize::MAX; interfaces.into()],
            endpoints: 0,
            routes,
            demux: Demux::default(),
            tunnels: Vec::new(),
            tunnel_ends: Map::default(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            multicast: None,
            diverts: None,
            addresses: [None; 2],
            ident: 0,
            limit: Limit::default(),
            reassembly: None,
            sources: None,
            account: 0,
            named: Vec::new(),
            answered: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Adds the port of an endpoint. Packets from it come in there, and packets to it leave.
    ///
    /// # Panics
    /// If there are more than 65,535 ports.
    pub fn add_endpoint(&mut self) -> Port {
        let port = self.interfaces().checked_add(self.endpoints).expect("at most 65535 ports at a node");
        self.endpoints += 1;
        Port(port)
    }

    /// Sets the longest packet, in bytes, that leaves at an interface. Without it there is no limit.
    ///
    /// # Panics
    /// If there is no such interface.
    pub fn set_mtu(&mut self, interface: Port, mtu: usize) {
        self.mtus[usize::from(interface.0)] = mtu;
    }

    /// Adds an address, or all addresses of a prefix, to this node. Its messages come from the first of each version.
    pub fn add_address(&mut self, prefix: Prefix) {
        self.addresses[usize::from(prefix.address.is_ipv6())].get_or_insert(prefix.address);
        self.routes.insert(prefix, Via::Local);
    }

    /// Sends what goes to `prefix` out of an interface. May be called in the middle of a run.
    pub fn add_route(&mut self, prefix: Prefix, interface: Port) {
        self.routes.insert(prefix, Via::Interface(interface));
    }

    /// Sends packets to any of these addresses out of an interface.
    ///
    /// Routes to single addresses come first.
    pub fn share_routes(&mut self, destinations: &Arc<Destinations>, interface: Port) {
        self.routes.share(Arc::clone(destinations), Via::Interface(interface));
    }

    /// Sends packets to any of these IPv6 addresses through a tunnel.
    ///
    /// Routes to single addresses come first.
    pub fn share_tunnel_routes(&mut self, destinations: &Arc<Destinations>, tunnel: u16) {
        self.routes.share(Arc::clone(destinations), Via::Tunnel(tunnel));
    }

    /// Adds a tunnel's end; returns its number for [`Node::add_tunnel_route`].
    pub fn add_tunnel(&mut self, tunnel: Tunnel) -> u16 {
        let number = self.tunnels.len() as u16;
        self.tunnels.push(tunnel);
        self.tunnel_ends.insert((tunnel.outer.dst, tunnel.outer.src), number);
        number
    }

    /// Sends what goes to an IPv6 `prefix` through a tunnel.
    pub fn add_tunnel_route(&mut self, prefix: Prefix, tunnel: u16) {
        self.routes.insert(prefix, Via::Tunnel(tunnel));
    }

    /// Binds an endpoint to a local port, for any remote. Protocols without ports have port 0.
    pub fn bind(&mut self, endpoint: Port, protocol: Protocol, port: u16) {
        self.demux.bind(Service::new(protocol, port), endpoint);
    }

    /// Binds an endpoint to a row of local ports, for any remote. It takes the room of one.
    pub fn bind_row(&mut self, endpoint: Port, protocol: Protocol, first: u16, count: u16) {
        self.demux.bind_row(Service::new(protocol, first), count, endpoint);
    }

    /// Binds an endpoint to a local port for one remote address and port. Takes precedence over [`Node::bind`].
    pub fn bind_connection(&mut self, endpoint: Port, protocol: Protocol, port: u16, remote: (IpAddr, u16)) {
        self.demux.bind_connection(Service::new(protocol, port), (key(remote.0), remote.1), endpoint);
    }

    /// Returns the number that the account of an endpoint will have.
    ///
    /// The other end of its flow asks for it: [`Node::bind_account`].
    pub fn account_of(&mut self, endpoint: Port) -> AccountNumber {
        let number = AccountNumber::default();
        self.named.push((endpoint, number.clone()));
        number
    }

    /// Opens an account for the replies to the echo requests of another.
    ///
    /// Replies to others are in the account of the node's own packets.
    pub fn answer(&mut self, requests: AccountNumber) {
        self.answered.push(requests);
    }

    /// Binds an endpoint to the packets of one account, with any addresses and ports.
    ///
    /// It takes precedence over all others. The account's fragments are its packets: they are not reassembled.
    pub fn bind_account(&mut self, endpoint: Port, number: AccountNumber) {
        self.demux.bind_account(number, endpoint);
    }

    /// Binds an endpoint to the rest of what comes from outside the network.
    ///
    /// No other endpoint is bound to it.
    /// Those of this network have their own endpoints: a ping's request is the node's, next to any replay.
    pub fn bind_rest(&mut self, endpoint: Port) {
        self.demux.bind_rest(endpoint);
    }

    /// Adds an endpoint that gets the unicast packets in transit that match. Of several conditions the first that matches
    /// counts.
    ///
    /// Their hop limit is decremented already. What the endpoint sends is routed and never diverted again: a packet that it
    /// returns unchanged goes on as if there were no diversion. [`Node::divert_through`] has stages.
    pub fn divert(&mut self, what: Divert) -> Port {
        let endpoint = self.add_endpoint();
        self.diverts.get_or_insert_default().add(what, endpoint, None);
        endpoint
    }

    /// Adds an endpoint that gets packets in transit and returns each at once, in order.
    ///
    /// It is one of [`Node::divert`]. What it returns may meet conditions that were added later, but for those of the same `stage`.
    pub fn divert_through(&mut self, what: Divert, stage: usize) -> Port {
        let endpoint = self.add_endpoint();
        self.diverts.get_or_insert_default().add(what, endpoint, Some(stage));
        endpoint
    }

    /// Sends what goes to a multicast group out of an interface, in addition to others.
    pub fn add_group_interface(&mut self, group: IpAddr, interface: Port) {
        match self.multicast.as_ref().and_then(|multicast| multicast.stream(interface)) {
            Some(stream) => drop(self.group(group).shared.entry(stream).or_default().insert(interface)),
            None => self.group(group).branches.push(Via::Interface(interface)),
        }
    }

    /// Adds a tunnel as a branch of an IPv6 multicast group.
    pub fn add_group_tunnel(&mut self, group: IpAddr, tunnel: u16) {
        self.group(group).branches.push(Via::Tunnel(tunnel));
    }

    /// Adds an endpoint as a member of a group and port.
    pub fn join(&mut self, endpoint: Port, group: IpAddr, protocol: Protocol, port: u16) {
        self.group(group).members.push((Service::new(protocol, port), endpoint));
    }

    fn group(&mut self, group: IpAddr) -> &mut Group {
        let prefix = Prefix::host(group);
        let number = match self.routes.exact(prefix) {
            Some(Via::Group(number)) => usize::from(number),
            _ => {
                let number = self.free_groups.pop().unwrap_or_else(|| {
                    self.groups.push(Group::default());
                    self.groups.len() as u16 - 1
                });
                self.routes.insert(prefix, Via::Group(number));
                usize::from(number)
            }
        };
        &mut self.groups[number]
    }
}

/// Counting.
impl Node {
    fn interfaces(&self) -> u16 {
        self.mtus.len() as u16
    }

    /// Returns the number of packets dropped for a cause.
    pub fn dropped(&self, cause: Drop) -> u64 {
        let incomplete = self.reassembly.as_ref().map_or(0, |reassembly| reassembly.dropped());
        self.counts.drops[cause as usize] + if cause == Drop::Reassembly { incomplete } else { 0 }
    }
}

/// Origin of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// An endpoint of this node.
    Here,
    /// A link or a tunnel.
    Elsewhere(Via),
}

/// Passing packets on.
impl Node {
    #[inline(always)]
    fn handle(&mut self, mut packet: Packet, origin: Origin, cx: &mut Cx<'_>) {
        let (destination, len) = match read(&packet, origin) {
            Ok(read) => read,
            Err(cause) => return self.refuse(packet, cause, cx),
        };
        if packet.len() > len {
            cut(&mut packet, len);
        }
        match self.routes.find(destination) {
            Via::Interface(port) => {
                if origin != Origin::Here && !take_hop(&mut packet) {
                    return self.refuse(packet, Drop::HopLimit, cx);
                }
                if self.diverts.is_some() {
                    return self.divert_or_send(packet, Via::Interface(port), origin, cx);
                }
                self.send_out(packet, port, cx);
            }
            Via::Local if origin != Origin::Here => self.deliver(packet, cx),
            via @ (Via::Group(_) | Via::NoGroup) => {
                if self.multicast.is_none() || !self.takes_membership(&packet, origin, cx) {
                    self.distribute(packet, via, origin, destination, cx);
                } else {
                    cx.accept(&mut packet);
                }
            }
            via => self.forward(packet, via, origin, cx),
        }
    }

    #[inline(never)]
    fn forward(&mut self, mut packet: Packet, via: Via, origin: Origin, cx: &mut Cx<'_>) {
        if origin != Origin::Here && !take_hop(&mut packet) {
            return self.refuse(packet, Drop::HopLimit, cx);
        }
        if self.diverts.is_some() && matches!(via, Via::Tunnel(_)) {
            return self.divert_or_send(packet, via, origin, cx);
        }
        self.send(packet, via, cx);
    }

    /// Diverts a packet in transit, or sends it on.
    #[cold]
    #[inline(never)]
    fn divert_or_send(&mut self, packet: Packet, via: Via, origin: Origin, cx: &mut Cx<'_>) {
        let endpoint = self.diverts.as_mut().and_then(|diverts| match origin {
            Origin::Here => diverts.find_next(&packet, via),
            Origin::Elsewhere(_) => diverts.find(&packet, (origin, via)),
        });
        let Some(endpoint) = endpoint else { return self.send(packet, via, cx) };
        self.counts.diverted += 1;
        cx.emit(endpoint, packet);
    }

    #[inline(always)]
    fn send_out(&mut self, packet: Packet, port: Port, cx: &mut Cx<'_>) {
        if self.mtus.get(usize::from(port.0)).is_none_or(|&mtu| packet.len() > mtu) {
            return self.send_fragments(packet, port, cx);
        }
        self.counts.forwarded += 1;
        cx.emit(port, packet);
    }

    fn send(&mut self, packet: Packet, via: Via, cx: &mut Cx<'_>) {
        match via {
            Via::Interface(port) => self.send_out(packet, port, cx),
            Via::Tunnel(number) => self.send_through(packet, number, cx),
            Via::Local | Via::Group(_) | Via::NoGroup | Via::Nowhere => {
                self.refuse(packet, Drop::NoRoute, cx)
            }
        }
    }

    /// Encapsulates an IPv6 packet and routes it to the tunnel's other end. It does not enter another tunnel.
    fn send_through(&mut self, mut packet: Packet, number: u16, cx: &mut Cx<'_>) {
        let Some(tunnel) = self.tunnels.get_mut(usize::from(number)) else {
            return self.refuse(packet, Drop::NoRoute, cx);
        };
        if packet.len() > tunnel.mtu {
            let mtu = tunnel.mtu;
            return self.refuse_too_big(packet, mtu, cx);
        }
        let destination = key(tunnel.outer.dst.into());
        match (self.routes.find(destination), tunnel.encapsulate(&mut packet)) {
            (via @ Via::Interface(_), Some(())) => self.send(packet, via, cx),
            _ => self.refuse(packet, Drop::NoRoute, cx),
        }
    }

    #[inline(never)]
    fn deliver(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        if self.demux.has_accounts()
            && let Some(endpoint) = self.demux.of_account(cx.account_of(&packet))
        {
            return self.hand_over(packet, endpoint, cx);
        }
        if is_fragment(&packet) && (!self.demux.has_rest() || self.demux.has_accounts()) {
            return self.reassemble(packet, cx);
        }
        match target(&packet) {
            Ok(Target::Tunnelled(ends)) => self.unwrap(packet, ends, cx),
            Ok(Target::Service(service, from)) => match self.demux.find(service, from, || source(&packet)) {
                Some(endpoint) => self.hand_over(packet, endpoint, cx),
                None if self.demux.has_rest() && cx.is_from_outside(&packet) => self.hand_to_rest(packet, cx),
                None if service.is_icmp() => self.receive_icmp(packet, cx),
                None => self.refuse(packet, Drop::NoListener, cx),
            },
            Err(cause) => self.refuse(packet, cause, cx),
        }
    }

    /// Delivers a packet to the endpoint of the rest.
    #[cold]
    fn hand_to_rest(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        match self.demux.rest() {
            Some(endpoint) => self.hand_over(packet, endpoint, cx),
            None => self.refuse(packet, Drop::NoListener, cx),
        }
    }

    /// Delivers a packet to an endpoint.
    #[inline]
    fn hand_over(&mut self, mut packet: Packet, endpoint: Port, cx: &mut Cx<'_>) {
        self.counts.delivered += 1;
        cx.accept(&mut packet);
        cx.emit(endpoint, packet);
    }

    /// Decapsulates a tunnelled packet from the tunnel's other end, and handles its content. See RFC 4213, section 3.6.
    #[inline(never)]
    fn unwrap(&mut self, mut packet: Packet, ends: (Ipv4Addr, Ipv4Addr), cx: &mut Cx<'_>) {
        let Some(number) = self.tunnel_ends.get(&ends).copied() else {
            return self.refuse(packet, Drop::BadHeader, cx);
        };
        let outer_len = ipv4::Packet::new_unchecked(packet.header()).header_len();
        match tunnel::decapsulate(&mut packet, outer_len) {
            Some(()) => self.handle(packet, Origin::Elsewhere(Via::Tunnel(number)), cx),
            None => self.refuse(packet, Drop::BadHeader, cx),
        }
    }

    /// Returns `true` for a membership message from an interface or a tunnel, which it handles.
    #[inline(never)]
    fn takes_membership(&mut self, packet: &Packet, origin: Origin, cx: &mut Cx<'_>) -> bool {
        match origin {
            Origin::Elsewhere(via) => self.take_membership(packet, via, cx),
            Origin::Here => false,
        }
    }

    /// Returns the time of the next task of its own.
    fn deadline(&self) -> Time {
        self.multicast.as_ref().map_or(Time::NEVER, |multicast| multicast.deadline())
    }
}

/// Purpose of a packet that is addressed to this node.
enum Target {
    /// A protocol and port, and the port it comes from.
    Service(Service, u16),
    /// The end of a tunnel, by its outer addresses.
    Tunnelled((Ipv4Addr, Ipv4Addr)),
}

/// Returns the purpose of a packet whose header [`read`] has checked.
#[inline]
fn target(packet: &Packet) -> Result<Target, Drop> {
    let header = packet.header();
    if header[0] >> 4 == 6 {
        return target_v6(packet);
    }
    let ip = ipv4::Packet::new_unchecked(header);
    let (protocol, is_later) = (ip.protocol(), ip.fragment_offset() != 0);
    if protocol == Protocol::IPV6 {
        // A fragment would have to be reassembled first.
        let is_fragment = is_later || ip.more_fragments();
        return if is_fragment { Err(Drop::BadHeader) } else { Ok(Target::Tunnelled((ip.src(), ip.dst()))) };
    }
    let (from, to) = ports(protocol, ip.payload(), is_later);
    Ok(Target::Service(Service::new(protocol, to), from))
}

fn target_v6(packet: &Packet) -> Result<Target, Drop> {
    let view = view(packet).map_err(|_| Drop::BadHeader)?;
    let upper = view.upper().map_err(|_| Drop::BadHeader)?;
    let (from, to) = ports(upper.protocol, upper.bytes, upper.is_later_fragment);
    Ok(Target::Service(Service::new(upper.protocol, to), from))
}

/// The source of a packet whose header [`read`] has checked.
fn source(packet: &Packet) -> Key {
    let header = packet.header();
    match header[0] >> 4 {
        4 => key(ipv4::Packet::new_unchecked(header).src().into()),
        _ => key(ipv6::Packet::new_unchecked(header).src().into()),
    }
}

/// The packet's header, checked.
#[inline]
fn view(packet: &Packet) -> Result<ip::Packet<&[u8]>, bentpipe_wire::Error> {
    let header = packet.header();
    ip::Packet::new_elided(header, packet.len() - header.len())
}

/// Returns the destination of a packet and its length according to its header.
#[inline(always)]
fn read(packet: &Packet, origin: Origin) -> Result<(Key, usize), Drop> {
    match ipv4::Packet::plain(packet.header(), packet.len()) {
        Some(header) => read_v4(&header, origin),
        None => read_any(packet, origin),
    }
}

#[inline(always)]
fn read_v4<T: AsRef<[u8]>>(header: &ipv4::Packet<T>, origin: Origin) -> Result<(Key, usize), Drop> {
    if origin != Origin::Here && header.verify_checksum().is_err() {
        return Err(Drop::BadChecksum);
    }
    Ok((key(header.dst().into()), header.total_len()))
}

fn read_any(packet: &Packet, origin: Origin) -> Result<(Key, usize), Drop> {
    match view(packet).map_err(|error| refusal(error.kind))? {
        ip::Packet::V4(header) => read_v4(&header, origin),
        ip::Packet::V6(header) => {
            let destination = header.dst().to_bits();
            if routes::is_v4(destination) {
                return Err(Drop::BadHeader);
            }
            Ok((destination, header.total_len()))
        }
    }
}

fn refusal(kind: Kind) -> Drop {
    if kind == Kind::Checksum { Drop::BadChecksum } else { Drop::BadHeader }
}

/// Returns `true` if the hop limit was not used up, after decrementing it.
#[inline]
fn take_hop(packet: &mut Packet) -> bool {
    let header = packet.header_mut();
    match header.first().map(|first| first >> 4) {
        Some(4) => ipv4::Packet::new_unchecked(header).decrement_ttl(),
        _ => ipv6::Packet::new_unchecked(header).decrement_hop_limit(),
    }
}

/// Removes link-layer padding. Cold, since hardly any packet has padding.
#[cold]
fn cut(packet: &mut Packet, len: usize) {
    packet.truncate(len);
}

/// Returns `true` for groups that no router forwards. They are 224.0.0.0/24 (RFC 5771, section 4) and interface- and
/// link-local IPv6 scopes (RFC 4291, section 2.7).
fn is_link_local_group(destination: Key) -> bool {
    if routes::is_v4(destination) {
        return destination as u32 >> 8 == 0x00e0_0000;
    }
    let scope = (destination >> 112) & 0xf;
    (1..=2).contains(&scope)
}

impl Element for Node {
    fn receive(&mut self, port: Port, mut packet: Packet, cx: &mut Cx<'_>) -> Time {
        let is_local = port.0 >= self.interfaces();
        if is_local {
            cx.offer(&mut packet, self.account + 1 + u32::from(port.0 - self.interfaces()));
            if let Some(diverts) = &mut self.diverts {
                diverts.comes_from(port);
            }
            if self.sources.is_some() {
                self.send_as_source(packet, port, cx);
                return self.deadline();
            }
        }
        let origin = if is_local { Origin::Here } else { Origin::Elsewhere(Via::Interface(port)) };
        self.handle(packet, origin, cx);
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.run_multicast(cx);
        self.deadline()
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        from.0 < self.interfaces() || to.0 < self.interfaces()
    }

    fn open_accounts(&mut self, first: u32) -> Option<Range<u16>> {
        self.account = first;
        let interfaces = self.interfaces();
        let number = |endpoint: Port| first + 1 + u32::from(endpoint.0 - interfaces);
        self.named.iter().for_each(|(endpoint, named)| named.open(number(*endpoint)));
        Some(self.interfaces()..self.interfaces() + self.endpoints)
    }

    fn answered(&self) -> &[AccountNumber] {
        &self.answered
    }

    fn alike(&self, from: Port) -> Port {
        Port(if from.0 < self.interfaces() { 0 } else { self.interfaces() })
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        if let Some(reassembly) = &mut self.reassembly {
            ledger::dropping(Why::Reassembly, || reassembly.expire(now));
        }
        observer.counter(&metrics::DELIVERED, self.counts.delivered);
        observer.counter(&metrics::FORWARDED, self.counts.forwarded);
        if self.diverts.is_some() {
            observer.counter(&metrics::DIVERTED, self.counts.diverted);
        }
        observer.counter(&metrics::FRAGMENTS, self.counts.fragments);
        observer.counter(&metrics::REASSEMBLED, self.counts.reassembled);
        observer.counter(&metrics::ICMP_SENT, self.counts.icmp_sent);
        observer.counter(&metrics::ICMP_RECEIVED, self.counts.icmp_received);
        observer.counter(&metrics::ICMP_SUPPRESSED, self.counts.icmp_suppressed);
        if let Some(multicast) = &self.multicast {
            observer.counter(&metrics::MEMBERSHIP_RECEIVED, multicast.received);
            observer.counter(&metrics::MEMBERSHIP_SENT, multicast.sent);
            observer.counter(&metrics::JOINS_REFUSED, multicast.refused);
            observer.gauge(&metrics::MEMBERSHIPS, multicast.len() as f64);
        }
        for (cause, metric) in Drop::ALL.into_iter().zip(&metrics::DROPPED) {
            observer.counter(metric, self.dropped(cause));
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
