use bentpipe_wire::ip::{self, Upper};
use bentpipe_wire::udp;

use super::*;
use crate::node::{Drop, Prefix, Tunnel};
use crate::testing::Harness;

const SECOND: u64 = 1_000_000_000;
const BOTH: [Family; 2] = [Family::V4, Family::V6];

/// A router with a host at each of interfaces 0 and 1, and another router at 2.
fn router() -> Harness<Node> {
    let mut node = Node::new(3);
    for text in ["10.0.0.1/32", "fd00::1/128"] {
        node.add_address(text.parse::<Prefix>().unwrap());
    }
    for family in BOTH {
        for port in 0..2 {
            node.enable_multicast(Port(port), family, Neighbour::Hosts);
        }
        node.enable_multicast(Port(2), family, Neighbour::Router);
    }
    Harness::new(node)
}

fn group(family: Family) -> IpAddr {
    match family {
        Family::V4 => "239.1.2.3",
        Family::V6 => "ff0e::1:3",
    }
    .parse()
    .unwrap()
}

fn change(group: IpAddr, change: Change) -> Packet {
    let (own, to): (IpAddr, IpAddr) = match group {
        IpAddr::V4(_) => ([10, 0, 0, 9].into(), membership::IGMP_ROUTERS.into()),
        IpAddr::V6(_) => ("fe80::9".parse().unwrap(), membership::MLD_ROUTERS.into()),
    };
    packet(own, to, &Repr::Report(vec![Record { group, change }]), 0)
}

/// A datagram of a host to a group.
fn datagram(group: IpAddr, hops: u8) -> Packet {
    let own: IpAddr = if group.is_ipv4() { [10, 0, 0, 9].into() } else { "fd00::9".parse().unwrap() };
    let mut ip = ip::Repr::new(own, group, Protocol::UDP, 18);
    match &mut ip {
        ip::Repr::V4(repr) => repr.ttl = hops,
        ip::Repr::V6(repr) => repr.hop_limit = hops,
    }
    let mut packet = Packet::new(ip.buffer_len() + 8, 10);
    let header = packet.header_mut();
    ip.emit(header);
    udp::Repr { src_port: 9, dst_port: 7, payload_len: 10 }.emit(&mut header[ip.buffer_len()..]);
    packet
}

fn message(packet: &Packet) -> Option<(IpAddr, Repr)> {
    let bytes = packet.to_vec();
    let ip = ip::Packet::new_checked(&bytes[..]).unwrap();
    let upper: Upper<'_> = ip.upper().unwrap();
    let family = Family::of(&upper)?;
    Some((ip.dst(), family.parse(upper.bytes, &upper.pseudo).expect("a sound message")))
}

/// Messages that came out of a port since the last call.
fn messages(rig: &mut Harness<Node>, port: u16) -> Vec<(u64, Repr)> {
    let out = rig.out.iter().filter(|(_, at, _)| *at == Port(port));
    let sent = out.filter_map(|(at, _, packet)| Some((at.as_nanos() / SECOND, message(packet)?.1)));
    let sent = sent.collect();
    rig.out.clear();
    sent
}

/// Ports at which a datagram that comes from a port is sent.
fn forwarded(rig: &mut Harness<Node>, at: u64, from: u16, packet: Packet) -> Vec<u16> {
    rig.run_until(at);
    rig.out.clear();
    rig.receive(at, from, packet);
    let data = rig.out.iter().filter(|(_, _, packet)| message(packet).is_none());
    data.map(|(_, port, _)| port.0).collect()
}

#[test]
fn a_group_is_forwarded_to_members_until_they_leave() {
    for family in BOTH {
        let (mut rig, group) = (router(), group(family));
        assert!(forwarded(&mut rig, SECOND, 0, datagram(group, 9)).is_empty());
        assert_eq!(rig.element.dropped(Drop::NoMember), 1);
        rig.receive(2 * SECOND, 1, change(group, Change::Join));
        assert_eq!(forwarded(&mut rig, 3 * SECOND, 0, datagram(group, 9)), [1]);
        assert_eq!(forwarded(&mut rig, 3 * SECOND, 2, datagram(group, 9)), [1]);
        // The only member is where it comes from.
        assert!(forwarded(&mut rig, 3 * SECOND, 1, datagram(group, 9)).is_empty());
        assert_eq!(rig.element.dropped(Drop::NoMember), 2);
        assert!(forwarded(&mut rig, 3 * SECOND, 0, datagram(group, 1)).is_empty());
        assert_eq!(rig.element.dropped(Drop::HopLimit), 1);
        rig.receive(4 * SECOND, 1, change(group, Change::Leave));
        let question = (4, Repr::Query { group: Some(group) });
        assert_eq!(messages(&mut rig, 1), [question]);
        assert_eq!(forwarded(&mut rig, 5 * SECOND, 0, datagram(group, 9)), [1]);
        assert!(forwarded(&mut rig, 6 * SECOND + 1, 0, datagram(group, 9)).is_empty());
        assert_eq!(rig.value("memberships"), 0.0);
    }
}

#[test]
fn a_member_that_remains_is_kept_and_a_silent_one_forgotten() {
    for family in BOTH {
        let (mut rig, group) = (router(), group(family));
        rig.receive(0, 1, change(group, Change::Join));
        rig.receive(SECOND, 1, change(group, Change::Leave));
        rig.receive(SECOND + 1, 1, change(group, Change::Join));
        assert_eq!(forwarded(&mut rig, 200 * SECOND, 0, datagram(group, 9)), [1]);
        assert_eq!(forwarded(&mut rig, 260 * SECOND, 0, datagram(group, 9)), [1]);
        assert!(forwarded(&mut rig, 262 * SECOND, 0, datagram(group, 9)).is_empty());
    }
}

#[test]
fn hosts_are_asked_at_intervals() {
    let mut rig = router();
    rig.run_until(300 * SECOND);
    let times: Vec<u64> = messages(&mut rig, 0).into_iter().map(|(at, _)| at).collect();
    // Each time once for either version.
    assert_eq!(times, [0, 0, 31, 31, 156, 156, 281, 281]);
}

#[test]
fn changes_are_reported_to_routers_and_their_queries_answered() {
    for family in BOTH {
        let (mut rig, group) = (router(), group(family));
        rig.run_until(1);
        messages(&mut rig, 2);
        rig.receive(SECOND, 1, change(group, Change::Join));
        rig.receive(2 * SECOND + 1, 0, change(group, Change::Join));
        rig.run_until(9 * SECOND);
        let record = |change| Repr::Report(vec![Record { group, change }]);
        // The second member changes nothing for the other router.
        assert_eq!(messages(&mut rig, 2), [(1, record(Change::Join)), (2, record(Change::Join))]);
        let (own, to): (IpAddr, IpAddr) = match family {
            Family::V4 => ([10, 0, 0, 8].into(), membership::IGMP_HOSTS.into()),
            Family::V6 => ("fd00::8".parse().unwrap(), membership::MLD_HOSTS.into()),
        };
        rig.receive(10 * SECOND, 2, packet(own, to, &Repr::Query { group: None }, 10_000));
        assert_eq!(messages(&mut rig, 2), [(10, record(Change::Join))]);
        for port in 0..2 {
            rig.receive(11 * SECOND + u64::from(port), port, change(group, Change::Leave));
        }
        rig.run_until(20 * SECOND);
        assert_eq!(messages(&mut rig, 2), [(13, record(Change::Leave)), (14, record(Change::Leave))]);
    }
}

#[test]
fn members_that_never_leave_are_reported_too() {
    let mut rig = router();
    let group = group(Family::V4);
    rig.element.add_member(Port(0), group);
    rig.receive(SECOND, 0, change(group, Change::Leave));
    assert_eq!(forwarded(&mut rig, 900 * SECOND, 2, datagram(group, 9)), [0]);
}

#[test]
fn link_local_groups_are_not_forwarded_and_damaged_reports_not_believed() {
    let mut rig = router();
    for text in ["224.0.0.251", "ff02::fb"] {
        let group: IpAddr = text.parse().unwrap();
        rig.receive(SECOND, 1, change(group, Change::Join));
        assert!(forwarded(&mut rig, SECOND, 0, datagram(group, 9)).is_empty());
    }
    assert_eq!((rig.value("memberships"), rig.element.dropped(Drop::NoMember)), (0.0, 2));
    let mut damaged = change(group(Family::V4), Change::Join);
    *damaged.header_mut().last_mut().unwrap() ^= 1;
    rig.receive(SECOND, 1, damaged);
    assert_eq!(rig.value("memberships"), 0.0);
}

#[test]
fn memberships_are_bounded_and_their_numbers_used_again() {
    let mut rig = router();
    for round in 0..3 {
        for n in 0..5000_u32 {
            let group = IpAddr::from((0xef00_0000 + round * 0x1_0000 + n).to_be_bytes());
            rig.receive(u64::from(round) * 300 * SECOND, 0, change(group, Change::Join));
        }
        assert_eq!(rig.value("memberships"), 4096.0);
        assert!(rig.element.groups.len() <= 4096);
    }
    assert_eq!(rig.value("joins-refused"), 3.0 * (5000.0 - 4096.0));
}

/// Each router has hosts at interface 1, and at 0 an IPv4 link with a tunnel to the other.
#[test]
fn memberships_and_groups_pass_a_tunnel() {
    let ends: [std::net::Ipv4Addr; 2] = [[10, 0, 0, 1].into(), [20, 0, 0, 1].into()];
    let router = |own: usize, address: &str| {
        let mut node = Node::new(2);
        node.add_address(format!("{}/32", ends[own]).parse().unwrap());
        node.add_address(address.parse::<Prefix>().unwrap());
        node.add_route("0.0.0.0/0".parse().unwrap(), Port(0));
        let tunnel = node.add_tunnel(Tunnel::new(ends[own], ends[1 - own], 1500));
        node.enable_multicast(Port(1), Family::V6, Neighbour::Hosts);
        node.enable_tunnel_multicast(tunnel);
        Harness::new(node)
    };
    let (mut near, mut far) = (router(0, "fd00::1/128"), router(1, "fd01::1/128"));
    let group = group(Family::V6);
    // Hands over what came out at the link since the last call.
    let pass = |from: &mut Harness<Node>, to: &mut Harness<Node>, at: u64| {
        to.run_until(at);
        to.out.clear();
        let out: Vec<_> = from.out.drain(..).filter(|(_, port, _)| *port == Port(0)).collect();
        out.into_iter().for_each(|(_, _, packet)| to.receive(at, 0, packet));
    };
    assert!(forwarded(&mut near, SECOND, 1, datagram(group, 9)).is_empty());
    far.run_until(2 * SECOND);
    far.out.clear();
    far.receive(2 * SECOND, 1, change(group, Change::Join));
    let report = far.out.iter().find(|(_, port, _)| *port == Port(0)).expect("a report");
    let outer = report.2.to_vec();
    let ip = ipv4::Packet::new_checked(&outer[..]).unwrap();
    assert_eq!((ip.protocol(), ip.dst()), (Protocol::IPV6, ends[0]));
    pass(&mut far, &mut near, 2 * SECOND);
    near.out.clear();
    near.receive(3 * SECOND, 1, datagram(group, 9));
    pass(&mut near, &mut far, 3 * SECOND);
    let got: Vec<u16> = far.out.iter().map(|(_, port, _)| port.0).collect();
    assert_eq!(got, [1], "to the host alone, and not back");
    // The last member leaves, its router says so, and nothing enters the tunnel.
    far.out.clear();
    far.receive(4 * SECOND, 1, change(group, Change::Leave));
    far.run_until(8 * SECOND);
    pass(&mut far, &mut near, 8 * SECOND);
    near.run_until(12 * SECOND);
    assert!(forwarded(&mut near, 13 * SECOND, 1, datagram(group, 9)).is_empty());
}

/// A hub with two sites at interfaces 0 and 1 of one stream for groups, and a host at 2.
#[test]
fn a_stream_for_groups_gets_one_copy_while_anybody_behind_it_is_a_member() {
    for family in BOTH {
        let mut node = Node::new(3);
        for text in ["10.0.0.1/32", "fd00::1/128"] {
            node.add_address(text.parse::<Prefix>().unwrap());
        }
        node.share_multicast(&[Port(0), Port(1)]);
        (0..2).for_each(|port| node.enable_multicast(Port(port), family, Neighbour::Router));
        node.enable_multicast(Port(2), family, Neighbour::Hosts);
        let (mut rig, group) = (Harness::new(node), group(family));
        // One query for both sites.
        rig.run_until(SECOND);
        assert_eq!(messages(&mut rig, 1), []);
        assert!(forwarded(&mut rig, SECOND, 2, datagram(group, 9)).is_empty());
        rig.receive(2 * SECOND, 1, change(group, Change::Join));
        assert_eq!(forwarded(&mut rig, 3 * SECOND, 2, datagram(group, 9)), [0]);
        rig.receive(4 * SECOND, 0, change(group, Change::Join));
        assert_eq!(forwarded(&mut rig, 5 * SECOND, 2, datagram(group, 9)), [0]);
        // From one site to the other, which the stream takes back to the first too.
        assert_eq!(forwarded(&mut rig, 5 * SECOND, 0, datagram(group, 9)), [0]);
        rig.receive(6 * SECOND, 1, change(group, Change::Leave));
        assert!(forwarded(&mut rig, 9 * SECOND, 0, datagram(group, 9)).is_empty());
        assert_eq!(forwarded(&mut rig, 9 * SECOND, 2, datagram(group, 9)), [0]);
        rig.receive(10 * SECOND, 0, change(group, Change::Leave));
        assert!(forwarded(&mut rig, 13 * SECOND, 2, datagram(group, 9)).is_empty());
        assert_eq!(rig.value("memberships"), 0.0);
    }
}

#[test]
fn a_site_drops_what_its_own_host_sent_and_the_stream_brings_back() {
    for family in BOTH {
        let mut node = Node::new(2);
        for text in ["10.0.0.1/32", "fd00::1/128"] {
            node.add_address(text.parse::<Prefix>().unwrap());
        }
        // The host of `datagram` is at interface 0, the stream comes in at 1.
        for text in ["10.0.0.9/32", "fd00::9/128"] {
            node.add_route(text.parse::<Prefix>().unwrap(), Port(0));
        }
        node.refuse_echoes(Port(1));
        node.enable_multicast(Port(0), family, Neighbour::Hosts);
        node.enable_multicast(Port(1), family, Neighbour::Router);
        let (mut rig, group) = (Harness::new(node), group(family));
        rig.receive(SECOND, 0, change(group, Change::Join));
        assert!(forwarded(&mut rig, 2 * SECOND, 1, datagram(group, 9)).is_empty());
        assert_eq!(rig.element.dropped(Drop::NoMember), 1);
    }
}
