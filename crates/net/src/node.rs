//! A node: host, router or satellite.
//!
//! Modelled: IPv4 and IPv6 forwarding by longest prefix with hop limits and header checksums (RFC 1812, RFC 8200), local
//! delivery by protocol and port, configured IPv6-in-IPv4 tunnels (RFC 4213), multicast to static groups. Not modelled:
//! ICMP (what is dropped is counted, nobody is told), fragmentation and reassembly (what is too long is dropped, whatever
//! its don't-fragment flag), ARP and neighbour discovery, routing protocols, loopback, IPv6 scopes other than link-local
//! multicast.
//!
//! Ports: the network interfaces come first, then the local endpoints, as inputs and as outputs.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};

use bentpipe_units::Time;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::{Kind, ipv4};

use crate::hash::Map;
use crate::{Cx, Element, Observer, Packet, Port, Unit};

mod demux;
mod prefix;
mod routes;
mod tunnel;

use demux::{Demux, Service};
pub use prefix::{NoPrefix, Prefix};
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
    counts: Counts,
}

/// Where a multicast group's packets go.
#[derive(Debug, Default)]
struct Group {
    branches: Vec<Via>,
    members: Vec<(Service, Port)>,
}

#[derive(Debug, Default)]
struct Counts {
    delivered: u64,
    forwarded: u64,
    drops: [u64; Drop::ALL.len()],
}

/// Why a node drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// No route leads to its destination, or the destination is the node that sent it.
    NoRoute,
    /// Its hop limit was used up.
    HopLimit,
    /// Its IPv4 header checksum does not match.
    BadChecksum,
    /// It is no well-formed IP packet, or comes out of a tunnel that is not there.
    BadHeader,
    /// It is longer than the interface's or tunnel's MTU.
    TooBig,
    /// Nobody here listens to its protocol and port.
    NoListener,
}

impl Drop {
    /// Every cause with the name of its counter.
    pub const ALL: [(Drop, &'static str); 6] = [
        (Drop::NoRoute, "dropped-no-route"),
        (Drop::HopLimit, "dropped-hop-limit"),
        (Drop::BadChecksum, "dropped-bad-checksum"),
        (Drop::BadHeader, "dropped-bad-header"),
        (Drop::TooBig, "dropped-too-big"),
        (Drop::NoListener, "dropped-no-listener"),
    ];
}

/// Setting up.
impl Node {
    /// A node with `interfaces` network interfaces, no address and no route.
    pub fn new(interfaces: u16) -> Node {
        let mut routes = Routes::new();
        for multicast in ["224.0.0.0/4", "ff00::/8", "255.255.255.255/32"] {
            routes.insert(multicast.parse().expect("a prefix"), Via::Nowhere);
        }
        Node {
            mtus: vec![usize::MAX; interfaces.into()],
            endpoints: 0,
            routes,
            demux: Demux::default(),
            tunnels: Vec::new(),
            tunnel_ends: Map::default(),
            groups: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Adds an endpoint's port: what the endpoint sends comes in there, and what it is to get goes out there.
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

    /// Takes what is sent to an address, or to any in a prefix, as sent to this node.
    pub fn add_address(&mut self, prefix: Prefix) {
        self.routes.insert(prefix, Via::Local);
    }

    /// Sends what goes to `prefix` out of an interface. May be called in the middle of a run.
    pub fn add_route(&mut self, prefix: Prefix, interface: Port) {
        self.routes.insert(prefix, Via::Interface(interface));
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

    /// Gives an endpoint what is sent to a local port, whoever sends it. Protocols without ports have port 0.
    pub fn bind(&mut self, endpoint: Port, protocol: Protocol, port: u16) {
        self.demux.bind(Service::new(protocol, port), endpoint);
    }

    /// Gives an endpoint what one remote address and port sends to a local port; goes before [`Node::bind`].
    pub fn bind_connection(&mut self, endpoint: Port, protocol: Protocol, port: u16, remote: (IpAddr, u16)) {
        self.demux.bind_connection(Service::new(protocol, port), (key(remote.0), remote.1), endpoint);
    }

    /// Gives an endpoint what no other takes.
    pub fn bind_rest(&mut self, endpoint: Port) {
        self.demux.bind_rest(endpoint);
    }

    /// Sends what goes to a multicast group out of an interface, in addition to others.
    pub fn add_group_interface(&mut self, group: IpAddr, interface: Port) {
        self.group(group).branches.push(Via::Interface(interface));
    }

    /// Sends what goes to an IPv6 multicast group through a tunnel, in addition to other ways.
    pub fn add_group_tunnel(&mut self, group: IpAddr, tunnel: u16) {
        self.group(group).branches.push(Via::Tunnel(tunnel));
    }

    /// Gives an endpoint a copy of what is sent to a group and port.
    pub fn join(&mut self, endpoint: Port, group: IpAddr, protocol: Protocol, port: u16) {
        self.group(group).members.push((Service::new(protocol, port), endpoint));
    }

    fn group(&mut self, group: IpAddr) -> &mut Group {
        let prefix = Prefix::host(group);
        let number = match self.routes.exact(prefix) {
            Some(Via::Group(number)) => usize::from(number),
            _ => {
                self.groups.push(Group::default());
                self.routes.insert(prefix, Via::Group(self.groups.len() as u16 - 1));
                self.groups.len() - 1
            }
        };
        &mut self.groups[number]
    }
}

/// Counting.
impl Node {
    #[inline]
    fn count_drop(&mut self, handled: Result<(), Drop>) {
        if let Err(cause) = handled {
            self.counts.drops[cause as usize] += 1;
        }
    }

    fn interfaces(&self) -> u16 {
        self.mtus.len() as u16
    }

    /// How many packets were dropped for a cause.
    pub fn dropped(&self, cause: Drop) -> u64 {
        self.counts.drops[cause as usize]
    }
}

/// Where a packet came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// An endpoint of this node.
    Here,
    /// A link or a tunnel.
    Elsewhere(Via),
}

/// Passing packets on.
impl Node {
    #[inline(always)]
    fn handle(&mut self, mut packet: Packet, origin: Origin, cx: &mut Cx<'_>) -> Result<(), Drop> {
        let (destination, len) = read(&packet, origin)?;
        if packet.len() > len {
            cut(&mut packet, len);
        }
        match self.routes.find(destination) {
            Via::Interface(port) => {
                if origin != Origin::Here && !take_hop(&mut packet) {
                    return Err(Drop::HopLimit);
                }
                self.send_out(packet, port, cx)
            }
            Via::Local if origin == Origin::Here => Err(Drop::NoRoute),
            Via::Local => self.deliver(packet, cx),
            Via::Group(group) => self.distribute(packet, group, origin, destination, cx),
            via => self.forward(packet, via, origin, cx),
        }
    }

    #[inline(never)]
    fn forward(&mut self, mut packet: Packet, via: Via, origin: Origin, cx: &mut Cx<'_>) -> Result<(), Drop> {
        if origin != Origin::Here && !take_hop(&mut packet) {
            return Err(Drop::HopLimit);
        }
        self.send(packet, via, cx)
    }

    #[inline(always)]
    fn send_out(&mut self, packet: Packet, port: Port, cx: &mut Cx<'_>) -> Result<(), Drop> {
        if self.mtus.get(usize::from(port.0)).is_none_or(|&mtu| packet.len() > mtu) {
            return Err(Drop::TooBig);
        }
        self.counts.forwarded += 1;
        cx.emit(port, packet);
        Ok(())
    }

    fn send(&mut self, packet: Packet, via: Via, cx: &mut Cx<'_>) -> Result<(), Drop> {
        match via {
            Via::Interface(port) => self.send_out(packet, port, cx),
            Via::Tunnel(number) => self.send_through(packet, number, cx),
            Via::Local | Via::Group(_) | Via::Nowhere => Err(Drop::NoRoute),
        }
    }

    /// Wraps an IPv6 packet and sends the result towards the tunnel's other end, which is never another tunnel.
    fn send_through(&mut self, mut packet: Packet, number: u16, cx: &mut Cx<'_>) -> Result<(), Drop> {
        let tunnel = self.tunnels.get_mut(usize::from(number)).ok_or(Drop::NoRoute)?;
        if packet.len() > tunnel.mtu {
            return Err(Drop::TooBig);
        }
        tunnel.encapsulate(&mut packet).ok_or(Drop::NoRoute)?;
        match self.routes.find(key(tunnel.outer.dst.into())) {
            via @ Via::Interface(_) => self.send(packet, via, cx),
            _ => Err(Drop::NoRoute),
        }
    }

    #[inline(never)]
    fn deliver(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Result<(), Drop> {
        match target(&packet)? {
            Target::Tunnelled(ends) => self.unwrap(packet, ends, cx),
            Target::Service(service, from) => {
                let endpoint = self.demux.find(service, from, || source(&packet)).ok_or(Drop::NoListener)?;
                self.counts.delivered += 1;
                cx.emit(endpoint, packet);
                Ok(())
            }
        }
    }

    /// Takes a packet out of its tunnel and handles what was inside (RFC 4213, section 3.6: only from the tunnel's
    /// other end).
    #[inline(never)]
    fn unwrap(
        &mut self,
        mut packet: Packet,
        ends: (Ipv4Addr, Ipv4Addr),
        cx: &mut Cx<'_>,
    ) -> Result<(), Drop> {
        let number = *self.tunnel_ends.get(&ends).ok_or(Drop::BadHeader)?;
        let outer_len = ipv4::Packet::new_unchecked(packet.header()).header_len();
        tunnel::decapsulate(&mut packet, outer_len).ok_or(Drop::BadHeader)?;
        self.handle(packet, Origin::Elsewhere(Via::Tunnel(number)), cx)
    }

    /// Gives a group's members here their copies and sends it on every branch but the one it came from.
    #[inline(never)]
    fn distribute(
        &mut self,
        mut packet: Packet,
        group: u16,
        origin: Origin,
        destination: Key,
        cx: &mut Cx<'_>,
    ) -> Result<(), Drop> {
        let group = usize::from(group);
        let members = if origin == Origin::Here { 0 } else { self.give_members(&packet, group, cx)? };
        let branches = self.groups[group].branches.len();
        if branches == 0 || origin != Origin::Here && is_link_local_group(destination) {
            return if members > 0 { Ok(()) } else { Err(Drop::NoListener) };
        }
        if origin != Origin::Here && !take_hop(&mut packet) {
            return if members > 0 { Ok(()) } else { Err(Drop::HopLimit) };
        }
        for branch in 0..branches {
            let via = self.groups[group].branches[branch];
            if origin != Origin::Elsewhere(via) {
                let sent = self.send(packet.clone(), via, cx);
                self.count_drop(sent);
            }
        }
        Ok(())
    }

    /// How many members of the group took a copy.
    fn give_members(&mut self, packet: &Packet, group: usize, cx: &mut Cx<'_>) -> Result<usize, Drop> {
        let Target::Service(service, _) = target(packet)? else { return Err(Drop::BadHeader) };
        let members = self.groups[group].members.iter().filter(|(wanted, _)| *wanted == service);
        let count = members.map(|(_, endpoint)| cx.emit(*endpoint, packet.clone())).count();
        self.counts.delivered += count as u64;
        Ok(count)
    }
}

/// What a packet that is for this node wants.
enum Target {
    /// A protocol and port, and the port it comes from.
    Service(Service, u16),
    /// The end of a tunnel, by its outer addresses.
    Tunnelled((Ipv4Addr, Ipv4Addr)),
}

/// What a packet wants whose header [`read`] has checked.
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
    let (from, to) = demux::ports(protocol, ip.payload(), is_later);
    Ok(Target::Service(Service::new(protocol, to), from))
}

fn target_v6(packet: &Packet) -> Result<Target, Drop> {
    let view = view(packet).map_err(|_| Drop::BadHeader)?;
    let upper = view.upper().map_err(|_| Drop::BadHeader)?;
    let (from, to) = demux::ports(upper.protocol, upper.bytes, upper.is_later_fragment);
    Ok(Target::Service(Service::new(upper.protocol, to), from))
}

/// The source of a packet whose header [`read`] has checked.
fn source(packet: &Packet) -> Key {
    let header = packet.header();
    match header[0] >> 4 {
        4 => key(ipv4::Packet::new_unchecked(header).src().into()),
        _ => key(bentpipe_wire::ipv6::Packet::new_unchecked(header).src().into()),
    }
}

/// The packet's header, checked.
#[inline]
fn view(packet: &Packet) -> Result<ip::Packet<&[u8]>, bentpipe_wire::Error> {
    let header = packet.header();
    ip::Packet::new_elided(header, packet.len() - header.len())
}

/// Where a packet goes, and its length by its own account.
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

/// Takes a hop off the packet's limit. False if there was none left.
#[inline]
fn take_hop(packet: &mut Packet) -> bool {
    let header = packet.header_mut();
    match header.first().map(|first| first >> 4) {
        Some(4) => ipv4::Packet::new_unchecked(header).decrement_ttl(),
        _ => bentpipe_wire::ipv6::Packet::new_unchecked(header).decrement_hop_limit(),
    }
}

/// Takes off what a link layer padded; out of the way, as hardly any packet has it.
#[cold]
fn cut(packet: &mut Packet, len: usize) {
    packet.truncate(len);
}

/// Groups that no router forwards: 224.0.0.0/24 (RFC 5771, section 4) and interface- and link-local IPv6 scopes
/// (RFC 4291, section 2.7).
fn is_link_local_group(destination: Key) -> bool {
    if routes::is_v4(destination) {
        return destination as u32 >> 8 == 0x00e0_0000;
    }
    let scope = (destination >> 112) & 0xf;
    (1..=2).contains(&scope)
}

impl Element for Node {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let is_local = port.0 >= self.interfaces();
        let origin = if is_local { Origin::Here } else { Origin::Elsewhere(Via::Interface(port)) };
        let handled = self.handle(packet, origin, cx);
        self.count_drop(handled);
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        from.0 < self.interfaces() || to.0 < self.interfaces()
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter("delivered", Unit::Packets, self.counts.delivered);
        observer.counter("forwarded", Unit::Packets, self.counts.forwarded);
        for (cause, name) in Drop::ALL {
            observer.counter(name, Unit::Packets, self.dropped(cause));
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
