//! Neighbour table and resolver on the far side of a TAP device (ARP, neighbour discovery).
//!
//! It answers ARP (RFC 826) and neighbour solicitations (RFC 4861) for the addresses behind it with a MAC address of its
//! own, and finds out the MAC address of those in front in the same way. Not modelled: VLAN tags, entries that expire (a
//! neighbour that moves is found as soon as it sends anything), router advertisements, link-local addresses.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bentpipe_wire::arp::{self, Operation};
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ethernet::{self, EtherType, Frame, MacAddr};
use bentpipe_wire::icmp::{self, nd};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::membership::Family;
use bentpipe_wire::{ip, ipv6};

use super::dhcp::Server;

/// Maximum number of known neighbours. When there are more, all are resolved again.
const MAX_KNOWN: usize = 1024;

/// The most packets that wait for an answer; then the oldest go.
const MAX_WAITING: usize = 64;

/// Interpretation of a frame from the device.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inbound {
    /// An IP packet for the network, behind a header of [`ethernet::HEADER_LEN`] bytes: its length.
    Packet(usize),
    /// A question, and the frame that answers it.
    Solicitation(Vec<u8>),
    /// No packet for the network.
    Ignored,
}

/// Next hop of an IP packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// MAC address of a known neighbour.
    Neighbour(MacAddr),
    /// Unknown neighbour, with the frame that asks for it.
    Unresolved(Vec<u8>),
    /// No destination: it is not an IP packet, or no neighbour can be asked.
    Unreachable,
}

/// The neighbours on an Ethernet.
#[derive(Debug)]
pub(crate) struct Neighbours {
    mac: MacAddr,
    behind: Vec<IpAddr>,
    known: HashMap<IpAddr, MacAddr>,
    waiting: VecDeque<(IpAddr, Vec<u8>)>,
    /// Server of the address of the machine in front.
    dhcp: Option<Server>,
}

impl Neighbours {
    /// Answers with `mac` for the addresses `behind` it.
    pub(crate) fn new(mac: MacAddr, behind: Vec<IpAddr>) -> Neighbours {
        Neighbours { mac, behind, known: HashMap::new(), waiting: VecDeque::new(), dhcp: None }
    }

    /// Leases `address` to the machine in front by DHCP.
    pub(crate) fn serve(&mut self, address: Ipv4Addr, mtu_bytes: u16) {
        let v4 = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        };
        let behind: Vec<Ipv4Addr> = self.behind.iter().filter_map(v4).collect();
        self.dhcp = Server::new(address, &behind, mtu_bytes);
    }

    /// MAC address of this side.
    pub(crate) fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Interprets a frame from the device.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Inbound {
        let Ok(frame) = Frame::new_checked(bytes) else { return Inbound::Ignored };
        let is_ours = frame.dst() == self.mac || frame.dst().is_multicast();
        if !is_ours || frame.src().is_multicast() || frame.header_len() != ethernet::HEADER_LEN {
            return Inbound::Ignored;
        }
        match frame.ethertype() {
            EtherType::ARP => self.receive_arp(frame.payload()),
            EtherType::IPV4 | EtherType::IPV6 => self.receive_ip(frame.src(), frame.payload()),
            _ => Inbound::Ignored,
        }
    }

    fn receive_arp(&mut self, payload: &[u8]) -> Inbound {
        let Ok(packet) = arp::Packet::new_checked(payload) else { return Inbound::Ignored };
        let arp::Repr { operation, sender, target } = arp::Repr::parse(&packet);
        if ![Operation::REQUEST, Operation::REPLY].contains(&operation) {
            return Inbound::Ignored;
        }
        self.learn(sender.1.into(), sender.0);
        if operation == Operation::REPLY || !self.behind.contains(&target.1.into()) {
            return Inbound::Ignored;
        }
        let answer = arp::Repr { operation: Operation::REPLY, sender: (self.mac, target.1), target: sender };
        Inbound::Solicitation(arp_frame(&answer, sender.0))
    }

    fn receive_ip(&mut self, from: MacAddr, payload: &[u8]) -> Inbound {
        // Other than IP packets go on unchanged, as they do from a TUN device; simulated nodes see to it.
        let Ok(packet) = ip::Packet::new_checked(payload) else { return Inbound::Packet(payload.len()) };
        if let Some(inbound) = self.receive_discovery(from, payload) {
            return inbound;
        }
        if let Some((to, answer)) = self.dhcp.as_mut().and_then(|server| server.answer(payload)) {
            return Inbound::Solicitation(framed(self.mac, to, EtherType::IPV4, &answer));
        }
        let is_membership = packet.upper().is_ok_and(|upper| Family::of(&upper).is_some());
        if stays_on_link(packet.dst()) && !is_membership {
            return Inbound::Ignored;
        }
        self.learn(packet.src(), from);
        // What follows is Ethernet's padding.
        Inbound::Packet(packet.total_len())
    }

    /// Interprets neighbour discovery, or returns `None` for any other packet.
    fn receive_discovery(&mut self, from: MacAddr, payload: &[u8]) -> Option<Inbound> {
        let packet = ipv6::Packet::new_checked(payload).ok()?;
        if packet.next_header() != Protocol::ICMPV6 || packet.hop_limit() != nd::HOP_LIMIT {
            return None;
        }
        let message = icmp::Message::new_checked(packet.payload()).ok()?;
        message.verify_checksum(Some(&Pseudo::v6(packet.src(), packet.dst(), Protocol::ICMPV6))).ok()?;
        let address = |mac: Option<MacAddr>| mac.filter(|mac| !mac.is_multicast()).unwrap_or(from);
        let target = match nd::Repr::parse(&message).ok()? {
            nd::Repr::Advertisement { target, link, .. } => {
                self.learn(target.into(), address(link));
                return Some(Inbound::Ignored);
            }
            nd::Repr::Solicitation { target, source } => {
                self.learn(packet.src().into(), address(source));
                target
            }
        };
        if packet.src().is_unspecified() || !self.behind.contains(&target.into()) {
            return Some(Inbound::Ignored);
        }
        let (router, solicited, overrides, link) = (false, true, true, Some(self.mac));
        let answer = nd::Repr::Advertisement { router, solicited, overrides, target, link };
        let packet = discovery(&answer, (target, packet.src()));
        Some(Inbound::Solicitation(framed(self.mac, from, EtherType::IPV6, &packet)))
    }

    fn learn(&mut self, address: IpAddr, mac: MacAddr) {
        if self.known.get(&address) == Some(&mac)
            || address.is_unspecified()
            || self.behind.contains(&address)
        {
            return;
        }
        if self.known.len() == MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(address, mac);
    }

    /// Returns the next hop of `packet`. `held` is what to keep until that is known; see [`Neighbours::released`].
    pub(crate) fn towards(&mut self, packet: &[u8], held: &[u8]) -> NextHop {
        let Some(to) = destination(packet) else { return NextHop::Unreachable };
        if let Some(mac) = MacAddr::of_group(to).or_else(|| self.known.get(&to).copied()) {
            return NextHop::Neighbour(mac);
        }
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((to, held.to_vec()));
        self.ask(to)
    }

    fn ask(&self, to: IpAddr) -> NextHop {
        match to {
            IpAddr::V4(to) => {
                let mut own = self.behind.iter().filter_map(|address| match address {
                    IpAddr::V4(address) => Some(*address),
                    IpAddr::V6(_) => None,
                });
                // Without an address of its own it asks as RFC 5227's probes do.
                let own = own.next().unwrap_or(Ipv4Addr::UNSPECIFIED);
                let target = (MacAddr::default(), to);
                let sender = (self.mac, own);
                let question = arp::Repr { operation: Operation::REQUEST, sender, target };
                NextHop::Unresolved(arp_frame(&question, MacAddr::BROADCAST))
            }
            IpAddr::V6(to) => {
                let own = self.behind.iter().find_map(|address| match address {
                    IpAddr::V6(address) => Some(*address),
                    IpAddr::V4(_) => None,
                });
                let Some(own) = own else { return NextHop::Unreachable };
                let everybody = nd::solicited_node(to);
                let question = nd::Repr::Solicitation { target: to, source: Some(self.mac) };
                let question = discovery(&question, (own, everybody));
                let mac = MacAddr::of_group(everybody.into()).unwrap_or(MacAddr::BROADCAST);
                NextHop::Unresolved(framed(self.mac, mac, EtherType::IPV6, &question))
            }
        }
    }

    /// The next of what was kept whose neighbour is known by now.
    pub(crate) fn released(&mut self) -> Option<(MacAddr, Vec<u8>)> {
        let at = self.waiting.iter().position(|(to, _)| self.known.contains_key(to))?;
        let (to, held) = self.waiting.remove(at)?;
        Some((*self.known.get(&to)?, held))
    }
}

/// The header of a frame with an IP packet from `src` to `dst`.
pub(crate) fn header(src: MacAddr, dst: MacAddr, packet: &[u8]) -> [u8; ethernet::HEADER_LEN] {
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let mut bytes = [0; ethernet::HEADER_LEN];
    ethernet::Repr::new(src, dst, if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 }).emit(&mut bytes);
    bytes
}

fn framed(src: MacAddr, dst: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    ethernet::Repr::new(src, dst, ethertype).emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn destination(packet: &[u8]) -> Option<IpAddr> {
    ip::Packet::new_checked(packet).ok().map(|packet| packet.dst())
}

/// Returns `true` for link-local groups, whose packets no router forwards.
///
/// Those of IGMP and MLD are for the router itself.
fn stays_on_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.octets()[0] == 0xff && address.octets()[1] & 0x0f <= 2,
    }
}

/// A message of neighbour discovery as a packet.
fn discovery(repr: &nd::Repr, (src, dst): (Ipv6Addr, Ipv6Addr)) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN + repr.buffer_len()];
    let (header, message) = packet.split_at_mut(ipv6::HEADER_LEN);
    let ip = ipv6::Repr::new(src, dst, Protocol::ICMPV6, message.len());
    ipv6::Repr { hop_limit: nd::HOP_LIMIT, ..ip }.emit(header);
    repr.emit(message);
    let pseudo = Pseudo::v6(src, dst, Protocol::ICMPV6);
    icmp::Message::new_checked(message).expect("longer than a header").fill_checksum(Some(&pseudo));
    packet
}

/// An ARP message in a frame from its sender.
fn arp_frame(repr: &arp::Repr, to: MacAddr) -> Vec<u8> {
    let mut bytes = [0; arp::LEN];
    repr.emit(&mut bytes);
    framed(repr.sender.0, to, EtherType::ARP, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_units::RandomStream;

    const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    const OWN: MacAddr = MacAddr([2, 0x62, 0x70, 0, 0, 1]);

    fn addresses() -> [IpAddr; 4] {
        ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"].map(|text| text.parse().expect("an address"))
    }

    fn neighbours() -> Neighbours {
        let [_, far, _, far_v6] = addresses();
        Neighbours::new(OWN, vec![far, far_v6])
    }

    fn udp(src: IpAddr, dst: IpAddr) -> Vec<u8> {
        let repr = ip::Repr::new(src, dst, Protocol::UDP, 8);
        let mut bytes = vec![0; repr.buffer_len() + 8];
        repr.emit(&mut bytes);
        bytes
    }

    fn v4(address: IpAddr) -> Ipv4Addr {
        match address {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => panic!("an IPv4 address"),
        }
    }

    fn v6(address: IpAddr) -> Ipv6Addr {
        match address {
            IpAddr::V6(address) => address,
            IpAddr::V4(_) => panic!("an IPv6 address"),
        }
    }

    #[test]
    fn arp_is_answered_for_what_is_behind_and_nobody_else() {
        let [near, far, ..] = addresses();
        let question = |target| {
            let target = (MacAddr::default(), v4(target));
            let sender = (HOST, v4(near));
            arp_frame(&arp::Repr { operation: Operation::REQUEST, sender, target }, MacAddr::BROADCAST)
        };
        let mut neighbours = neighbours();
        let Inbound::Solicitation(answer) = neighbours.receive(&question(far)) else { panic!("no answer") };
        let frame = Frame::new_checked(&answer[..]).expect("a frame");
        let arp = arp::Packet::new_checked(frame.payload()).expect("an answer");
        assert_eq!((frame.src(), frame.dst(), arp.operation()), (OWN, HOST, Operation::REPLY));
        assert_eq!((arp.sender(), arp.target()), ((OWN, v4(far)), (HOST, v4(near))));
        let other = "10.0.0.77".parse().expect("an address");
        assert_eq!(neighbours.receive(&question(other)), Inbound::Ignored, "somebody on the same bridge");
        assert_eq!(neighbours.receive(&question(near)), Inbound::Ignored, "who announces itself");
        assert_eq!(neighbours.towards(&udp(far, near), &[]), NextHop::Neighbour(HOST), "it was heard");
    }

    #[test]
    fn a_solicitation_is_answered_and_one_that_looks_for_duplicates_is_not() {
        let [_, _, near, far] = addresses();
        let question = |src: Ipv6Addr| {
            let (target, group) = (v6(far), nd::solicited_node(v6(far)));
            let packet = discovery(&nd::Repr::Solicitation { target, source: Some(HOST) }, (src, group));
            framed(HOST, MacAddr::of_group(group.into()).expect("a group"), EtherType::IPV6, &packet)
        };
        let mut neighbours = neighbours();
        let Inbound::Solicitation(answer) = neighbours.receive(&question(v6(near))) else {
            panic!("no answer")
        };
        let mut host = Neighbours::new(HOST, vec![near]);
        assert_eq!(host.receive(&answer), Inbound::Ignored);
        assert_eq!(host.towards(&udp(near, far), &[]), NextHop::Neighbour(OWN), "the answer was understood");
        assert_eq!(neighbours.receive(&question(Ipv6Addr::UNSPECIFIED)), Inbound::Ignored);
        let mut damaged = question(v6(near));
        *damaged.last_mut().expect("bytes") ^= 1;
        assert_eq!(
            neighbours.receive(&damaged),
            Inbound::Ignored,
            "its checksum is wrong, and groups stay here"
        );
    }

    #[test]
    fn what_goes_to_a_stranger_waits_for_the_answer() {
        let [near, far, near_v6, far_v6] = addresses();
        for (src, dst) in [(far, near), (far_v6, near_v6)] {
            let (mut neighbours, mut host) = (neighbours(), Neighbours::new(HOST, vec![near, near_v6]));
            let NextHop::Unresolved(question) = neighbours.towards(&udp(src, dst), b"one") else {
                panic!("known")
            };
            assert!(matches!(neighbours.towards(&udp(src, dst), b"two"), NextHop::Unresolved(_)));
            assert_eq!(neighbours.released(), None);
            let Inbound::Solicitation(answer) = host.receive(&question) else { panic!("no answer") };
            assert_eq!(neighbours.receive(&answer), Inbound::Ignored);
            assert_eq!(neighbours.released(), Some((HOST, b"one".to_vec())));
            assert_eq!(neighbours.released(), Some((HOST, b"two".to_vec())));
            assert_eq!(neighbours.released(), None);
        }
    }

    #[test]
    fn packets_lose_their_padding_and_local_groups_stay() {
        let [near, far, ..] = addresses();
        let mut neighbours = neighbours();
        let mut frame = framed(HOST, OWN, EtherType::IPV4, &udp(near, far));
        frame.resize(ethernet::MIN_LEN, 0);
        assert_eq!(neighbours.receive(&frame), Inbound::Packet(28));
        frame[5] ^= 0xff;
        assert_eq!(neighbours.receive(&frame), Inbound::Ignored, "for somebody else");
        let report =
            framed(HOST, MacAddr::BROADCAST, EtherType::IPV4, &udp(near, "224.0.0.22".parse().expect("one")));
        assert_eq!(neighbours.receive(&report), Inbound::Ignored);
    }

    #[test]
    fn strangers_are_bounded_and_garbage_is_harmless() {
        let [_, far, ..] = addresses();
        let (mut neighbours, mut stream) = (neighbours(), RandomStream::new(4, "garbage"));
        for n in 0..20_000_u32 {
            let address = IpAddr::from((0x0b00_0000 + n).to_be_bytes());
            neighbours.towards(&udp(far, address), &[0; 40]);
            neighbours.learn(IpAddr::from((0x0c00_0000 + n).to_be_bytes()), HOST);
            let mut frame =
                framed(HOST, OWN, [EtherType::ARP, EtherType::IPV4, EtherType::IPV6][n as usize % 3], &[]);
            frame.extend((0..n % 97).map(|_| (stream.unit() * 256.0) as u8));
            let _ = neighbours.receive(&frame);
            let _ = neighbours.receive(&frame[..frame.len().min(n as usize % 20)]);
        }
        assert!(neighbours.known.len() <= MAX_KNOWN && neighbours.waiting.len() <= MAX_WAITING);
    }
}
