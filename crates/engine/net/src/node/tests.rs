use bentpipe_wire::ip::Ecn;
use bentpipe_wire::{ipv6, udp};

use super::*;

mod answers;
mod fragments;

use crate::testing::Harness;

/// A UDP packet to port 7 with ten bytes of payload.
fn udp_packet(source: &str, destination: &str, hops: u8) -> Packet {
    let (source, destination) = (source.parse().expect("source"), destination.parse().expect("destination"));
    let mut ip = ip::Repr::new(source, destination, Protocol::UDP, 18);
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

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

/// A node with two interfaces: 10.0.0.0/8 and 2001:db8:a::/48 lie behind 0, 20.0.0.0/8 and 2001:db8:b::/48 behind 1; its
/// endpoint 2 listens to UDP port 7 at 10.0.0.1 and 2001:db8:a::1.
fn node() -> Node {
    let mut node = Node::new(2);
    for (interface, prefixes) in
        [["10.0.0.0/8", "2001:db8:a::/48"], ["20.0.0.0/8", "2001:db8:b::/48"]].iter().enumerate()
    {
        prefixes.iter().for_each(|text| node.add_route(prefix(text), Port(interface as u16)));
    }
    node.add_address(prefix("10.0.0.1"));
    node.add_address(prefix("2001:db8:a::1"));
    let endpoint = node.add_endpoint();
    assert_eq!(endpoint, Port(2));
    node.bind(endpoint, Protocol::UDP, 7);
    node
}

/// What a node makes of one packet.
fn pass(node: Node, port: u16, packet: Packet) -> Harness<Node> {
    let mut rig = Harness::new(node);
    rig.receive(0, port, packet);
    rig
}

fn dropped(rig: &Harness<Node>) -> Option<Drop> {
    Drop::ALL.into_iter().find(|&cause| rig.element.dropped(cause) > 0)
}

#[test]
fn packets_are_forwarded_with_a_hop_less_and_a_true_checksum() {
    for (from, to) in [("10.0.0.9", "20.0.0.9"), ("2001:db8:a::9", "2001:db8:b::9")] {
        let rig = pass(node(), 0, udp_packet(from, to, 5));
        let [(_, port, packet)] = &rig.out[..] else { panic!("one packet") };
        assert_eq!(*port, Port(1));
        let bytes = packet.to_vec();
        let ip = ip::Packet::new_checked(&bytes[..]).expect("IP");
        assert_eq!(ip.hop_limit(), 4);
        if let ip::Packet::V4(ip) = ip {
            ip.verify_checksum().expect("a checksum");
        }
    }
}

#[test]
fn what_an_endpoint_sends_keeps_its_hops() {
    let rig = pass(node(), 2, udp_packet("10.0.0.1", "20.0.0.9", 1));
    assert_eq!(view(&rig.out[0].2).expect("IP").hop_limit(), 1);
}

#[test]
fn every_cause_of_loss_is_counted() {
    let cause = |port, packet| dropped(&pass(node(), port, packet));
    assert_eq!(cause(0, udp_packet("10.0.0.9", "20.0.0.9", 1)), Some(Drop::HopLimit));
    assert_eq!(cause(0, udp_packet("10.0.0.9", "30.0.0.9", 9)), Some(Drop::NoRoute));
    assert_eq!(cause(2, udp_packet("10.0.0.1", "10.0.0.1", 9)), Some(Drop::NoRoute));
    let mut damaged = udp_packet("10.0.0.9", "20.0.0.9", 9);
    damaged.header_mut()[16] ^= 1;
    assert_eq!(cause(0, damaged), Some(Drop::BadChecksum));
    assert_eq!(cause(0, Packet::new(19, 0)), Some(Drop::BadHeader));
    assert_eq!(cause(0, Packet::new(0, 0)), Some(Drop::BadHeader));
    assert_eq!(cause(0, udp_packet("2001:db8:a::9", "::ffff:10.0.0.1", 9)), Some(Drop::BadHeader));
    let mut other_port = udp_packet("20.0.0.9", "10.0.0.1", 9);
    other_port.header_mut()[23] = 8;
    assert_eq!(cause(1, other_port), Some(Drop::NoListener));
    let mut small = node();
    small.set_mtu(Port(1), 37);
    assert_eq!(dropped(&pass(small, 0, udp_packet("10.0.0.9", "20.0.0.9", 9))), Some(Drop::TooBig));
}

#[test]
fn listeners_are_found_by_connection_then_port_then_rest() {
    let mut node = node();
    let (connected, rest) = (node.add_endpoint(), node.add_endpoint());
    node.bind_connection(connected, Protocol::UDP, 7, ("20.0.0.9".parse().expect("address"), 9));
    node.bind_rest(rest);
    let mut rig = Harness::new(node);
    rig.receive(0, 1, udp_packet("20.0.0.9", "10.0.0.1", 9));
    rig.receive(0, 1, udp_packet("20.0.0.8", "10.0.0.1", 9));
    let mut icmp = udp_packet("20.0.0.8", "10.0.0.1", 9);
    icmp.header_mut()[9] = 1;
    ipv4::Packet::new_unchecked(icmp.header_mut()).fill_checksum();
    rig.receive(0, 1, icmp);
    let ports: Vec<u16> = rig.out.iter().map(|(_, port, _)| port.0).collect();
    assert_eq!(ports, [3, 2, 4]);
}

#[test]
fn link_padding_is_cut_off() {
    let mut bytes = udp_packet("20.0.0.9", "10.0.0.1", 9).to_vec();
    bytes.resize(60, 0xaa);
    let rig = pass(node(), 1, Packet::from_bytes(&bytes));
    assert_eq!(rig.out[0].2.len(), 38);
}

/// The two ends of a tunnel between 10.0.0.1 and 20.0.0.1.
fn tunnelled() -> (Node, Node) {
    let (v4, v6) = (["10.0.0.1", "20.0.0.1"], ["2001:db8:a::/48", "2001:db8:b::/48"]);
    let end = |here: usize, there: usize| {
        let mut node = Node::new(2);
        node.add_route(prefix("0.0.0.0/0"), Port(1));
        node.add_route(prefix(v6[here]), Port(0));
        node.add_address(prefix(v4[here]));
        let ends = (v4[here].parse().expect("address"), v4[there].parse().expect("address"));
        let tunnel = node.add_tunnel(Tunnel::new(ends.0, ends.1, 9180));
        node.add_tunnel_route(prefix(v6[there]), tunnel);
        node
    };
    (end(0, 1), end(1, 0))
}

#[test]
fn ipv6_crosses_a_tunnel_as_one_hop_each_end() {
    let (near, far) = tunnelled();
    let sent = udp_packet("2001:db8:a::9", "2001:db8:b::9", 9);
    let rig = pass(near, 0, sent.clone());
    let outer = rig.out[0].2.to_vec();
    let ip = ipv4::Packet::new_checked(&outer[..]).expect("IPv4");
    ip.verify_checksum().expect("a checksum");
    assert_eq!((ip.protocol(), ip.total_len(), ip.ttl()), (Protocol::IPV6, sent.len() + 20, 64));
    let rig = pass(far, 1, rig.out[0].2.clone());
    let [(_, Port(0), inner)] = &rig.out[..] else { panic!("one packet out of port 0") };
    let inner = inner.to_vec();
    assert_eq!(inner[8..], sent.to_vec()[8..]);
    assert_eq!(ipv6::Packet::new_checked(&inner[..]).expect("IPv6").hop_limit(), 7);
}

#[test]
fn tunnels_take_only_what_fits_and_only_from_their_peer() {
    let (near, far) = tunnelled();
    let mut long = Packet::new(40, 9121);
    let address = |text: &str| text.parse().expect("an address");
    ip::Repr::new(address("2001:db8:a::9"), address("2001:db8:b::9"), Protocol::UDP, 9121)
        .emit(long.header_mut());
    assert_eq!(dropped(&pass(near, 0, long)), Some(Drop::TooBig));
    let mut stranger = udp_packet("2001:db8:a::9", "2001:db8:b::9", 9);
    Tunnel::new([10, 0, 0, 2].into(), [20, 0, 0, 1].into(), 9180).encapsulate(&mut stranger).expect("IPv6");
    assert_eq!(dropped(&pass(far, 1, stranger)), Some(Drop::BadHeader));
}

#[test]
fn congestion_marked_in_the_tunnel_is_seen_behind_it() {
    for (ecn, passes) in [(Ecn::Ect0, true), (Ecn::NotEct, false)] {
        let (near, far) = tunnelled();
        let mut packet = udp_packet("2001:db8:a::9", "2001:db8:b::9", 9);
        ipv6::Packet::new_unchecked(packet.header_mut()).mark_ecn(ecn);
        let mut outer = pass(near, 0, packet).out.remove(0).2;
        let mut ip = ipv4::Packet::new_unchecked(outer.header_mut());
        assert_eq!(ip.traffic_class().ecn(), ecn);
        ip.mark_ecn(Ecn::Ce);
        let rig = pass(far, 1, outer);
        let inside = rig.out.first().map(|(_, _, packet)| view(packet).expect("IP").traffic_class().ecn());
        assert_eq!(inside, passes.then_some(Ecn::Ce));
    }
}

#[test]
fn groups_reach_their_branches_and_members_but_never_the_way_they_came() {
    for (group, source) in [("239.1.1.1", "10.0.0.9"), ("ff0e::1", "2001:db8:a::9")] {
        let mut node = node();
        let address = group.parse().expect("a group");
        (0..2).for_each(|interface| node.add_group_interface(address, Port(interface)));
        node.join(Port(2), address, Protocol::UDP, 7);
        node.join(Port(2), address, Protocol::UDP, 8);
        let mut rig = Harness::new(node);
        rig.receive(0, 0, udp_packet(source, group, 9));
        let ports: Vec<u16> = rig.out.iter().map(|(_, port, _)| port.0).collect();
        assert_eq!(ports, [2, 1], "{group}");
        rig.out.clear();
        rig.receive(0, 2, udp_packet(source, group, 9));
        let ports: Vec<u16> = rig.out.iter().map(|(_, port, _)| port.0).collect();
        assert_eq!(ports, [0, 1], "{group} from here");
    }
}

#[test]
fn groups_nobody_joined_and_link_local_ones_are_not_forwarded() {
    let mut open = node();
    open.add_route(prefix("0.0.0.0/0"), Port(1));
    assert_eq!(dropped(&pass(open, 0, udp_packet("10.0.0.9", "239.9.9.9", 9))), Some(Drop::NoMember));
    for (group, source) in [("224.0.0.5", "10.0.0.9"), ("ff02::5", "2001:db8:a::9")] {
        let mut node = node();
        node.add_group_interface(group.parse().expect("a group"), Port(1));
        assert!(pass(node, 0, udp_packet(source, group, 9)).out.is_empty());
    }
}

/// A node as [`node`] has it, with a diversion to endpoint 3.
fn diverting(what: Divert) -> Node {
    let mut node = node();
    assert_eq!(node.divert(what), Port(3));
    node
}

/// The ports that one packet goes out at.
fn ports_of(node: Node, port: u16, packet: Packet) -> Vec<u16> {
    pass(node, port, packet).out.iter().map(|(_, port, _)| port.0).collect()
}

#[test]
fn each_part_of_a_condition_must_be_met() {
    let (source, destination) = ("10.0.0.9", "20.0.0.9");
    let port = |from, to| Some(crate::text::Ports::new(from, to));
    let any = Divert::default;
    for (what, matches) in [
        (any(), true),
        (Divert { protocol: Some(Protocol::UDP), ..any() }, true),
        (Divert { protocol: Some(Protocol::TCP), ..any() }, false),
        (Divert { ports: port(7, 7), ..any() }, true),
        (Divert { ports: port(9, 9), ..any() }, true),
        (Divert { ports: port(10, 99), ..any() }, false),
        (Divert { to: Some(prefix("20.0.0.0/8")), ..any() }, true),
        (Divert { to: Some(prefix("10.0.0.0/8")), ..any() }, false),
        (Divert { from: Some(Port(0)), ..any() }, true),
        (Divert { from: Some(Port(1)), ..any() }, false),
        (Divert { dscp: Some(0), ..any() }, true),
        (Divert { dscp: Some(46), ..any() }, false),
        (Divert { protocol: Some(Protocol::UDP), dscp: Some(46), ..any() }, false),
    ] {
        let ports = ports_of(diverting(what), 0, udp_packet(source, destination, 9));
        assert_eq!(ports, [if matches { 3 } else { 1 }], "{what:?}");
    }
    let v6 = Divert { to: Some(prefix("2001:db8:b::/48")), ports: port(7, 7), ..any() };
    assert_eq!(ports_of(diverting(v6), 0, udp_packet("2001:db8:a::9", "2001:db8:b::9", 9)), [3]);
}

#[test]
fn the_first_condition_that_matches_counts() {
    let mut node = diverting(Divert { dscp: Some(46), ..Divert::default() });
    let second = node.divert(Divert { protocol: Some(Protocol::UDP), ..Divert::default() });
    let third = node.divert(Divert::default());
    assert_eq!((second, third), (Port(4), Port(5)));
    assert_eq!(ports_of(node, 0, udp_packet("10.0.0.9", "20.0.0.9", 9)), [4]);
}

#[test]
fn later_fragments_have_no_ports() {
    let mut fragment = udp_packet("10.0.0.9", "20.0.0.9", 9);
    fragment.header_mut()[7] = 1;
    ipv4::Packet::new_unchecked(fragment.header_mut()).fill_checksum();
    let by_port = Divert { ports: Some(crate::text::Ports::new(0, 65_535)), ..Divert::default() };
    assert_eq!(ports_of(diverting(by_port), 0, fragment.clone()), [1]);
    let by_protocol = Divert { protocol: Some(Protocol::UDP), ..Divert::default() };
    assert_eq!(ports_of(diverting(by_protocol), 0, fragment), [3]);
}

#[test]
fn packets_given_back_go_on_with_one_hop_less_and_are_never_diverted_again() {
    let mut rig = Harness::new(diverting(Divert::default()));
    rig.receive(0, 0, udp_packet("10.0.0.9", "20.0.0.9", 5));
    let (_, port, diverted) = rig.out.remove(0);
    assert_eq!((port, view(&diverted).expect("IP").hop_limit()), (Port(3), 4));
    rig.receive(0, 3, diverted);
    let [(_, Port(1), packet)] = &rig.out[..] else { panic!("one packet out of port 1") };
    assert_eq!(view(packet).expect("IP").hop_limit(), 4);
    let mut plain = pass(node(), 0, udp_packet("10.0.0.9", "20.0.0.9", 5));
    assert_eq!(packet, &plain.out.remove(0).2);
    assert_eq!([rig.value("diverted"), rig.value("forwarded"), rig.value("delivered")], [1.0, 1.0, 0.0]);
}

#[test]
fn what_an_endpoint_passes_on_meets_later_conditions_of_other_stages() {
    let udp = Divert { protocol: Some(Protocol::UDP), ..Divert::default() };
    let mut node = node();
    let first = [0, 0].map(|stage| node.divert_through(udp, stage));
    let from_left = Divert { from: Some(Port(0)), ..Divert::default() };
    let last = [node.divert_through(from_left, 1), node.divert(from_left)];
    assert_eq!([first, last], [[Port(3), Port(4)], [Port(5), Port(6)]]);
    let mut rig = Harness::new(node);
    // Of one stage the first condition counts; the interface that a packet came from is known to the end.
    rig.receive(0, 0, udp_packet("10.0.0.9", "20.0.0.9", 5));
    for passed in [Port(3), Port(5)] {
        let (_, port, packet) = rig.out.remove(0);
        assert_eq!(port, passed);
        rig.receive(0, port.0, packet);
    }
    let (_, port, packet) = rig.out.remove(0);
    assert_eq!(port, Port(6));
    rig.receive(0, 6, packet);
    assert_eq!(rig.out.remove(0).1, Port(1), "what an endpoint keeps and sends itself goes on");
    // Another interface meets the first stage alone.
    rig.receive(0, 1, udp_packet("20.0.0.9", "10.0.0.9", 5));
    let (_, port, packet) = rig.out.remove(0);
    assert_eq!(port, Port(3));
    rig.receive(0, 3, packet);
    assert_eq!(rig.out.remove(0).1, Port(0));
}

#[test]
fn conditions_overlap_if_a_packet_may_meet_both() {
    let any = Divert::default;
    let udp = Divert { protocol: Some(Protocol::UDP), ..any() };
    let tcp = Divert { protocol: Some(Protocol::TCP), ..any() };
    let ports = |first, last| Divert { ports: Some(crate::text::Ports::new(first, last)), ..any() };
    let to = |text| Divert { to: Some(prefix(text)), ..any() };
    for (one, other, overlap) in [
        (any(), udp, true),
        (udp, tcp, false),
        (udp, ports(1, 9), true),
        (ports(1, 9), ports(9, 10), true),
        (ports(1, 8), ports(9, 10), false),
        (to("10.0.0.0/8"), to("10.1.0.0/16"), true),
        (to("10.0.0.0/8"), to("11.0.0.0/8"), false),
        (to("0.0.0.0/0"), to("2001:db8::/32"), false),
        (Divert { from: Some(Port(0)), ..any() }, Divert { into: Some(Port(0)), ..any() }, true),
        (Divert { from: Some(Port(0)), ..any() }, Divert { from: Some(Port(1)), ..any() }, false),
        (Divert { dscp: Some(46), ..any() }, Divert { dscp: Some(0), ..any() }, false),
    ] {
        assert_eq!([one.overlaps(&other), other.overlaps(&one)], [overlap; 2], "{one:?} {other:?}");
    }
}

#[test]
fn only_unicast_packets_in_transit_are_diverted() {
    let diverting = || diverting(Divert::default());
    assert_eq!(ports_of(diverting(), 0, udp_packet("10.0.0.9", "10.0.0.1", 9)), [2], "to the node");
    assert_eq!(ports_of(diverting(), 2, udp_packet("10.0.0.1", "20.0.0.9", 9)), [1], "from an endpoint");
    assert_eq!(dropped(&pass(diverting(), 0, udp_packet("10.0.0.9", "30.0.0.9", 9))), Some(Drop::NoRoute));
    assert_eq!(dropped(&pass(diverting(), 0, udp_packet("10.0.0.9", "20.0.0.9", 1))), Some(Drop::HopLimit));
    let mut group = diverting();
    group.add_group_interface("239.1.1.1".parse().expect("a group"), Port(1));
    assert_eq!(ports_of(group, 0, udp_packet("10.0.0.9", "239.1.1.1", 9)), [1]);
}

#[test]
fn what_goes_into_a_tunnel_or_comes_out_of_one_is_diverted() {
    let (mut near, mut far) = tunnelled();
    let [at_near, at_far] = [&mut near, &mut far].map(|node| node.divert(Divert::default()));
    let sent = udp_packet("2001:db8:a::9", "2001:db8:b::9", 9);
    let mut rig = pass(near, 0, sent);
    let (_, port, packet) = rig.out.remove(0);
    assert_eq!(port, at_near);
    rig.receive(0, at_near.0, packet);
    let outer = rig.out.remove(0).2;
    assert_eq!(ports_of(far, 1, outer), [at_far.0]);
}

#[test]
fn endpoints_do_not_reach_each_other_at_one_instant() {
    let node = node();
    assert!(
        node.forwards(Port(0), Port(1)) && node.forwards(Port(0), Port(2)) && node.forwards(Port(2), Port(0))
    );
    assert!(!node.forwards(Port(2), Port(3)));
}

proptest::proptest! {
    #[test]
    fn any_bytes_pass_or_are_dropped(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), version: bool) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = if version { 0x45 } else { 0x60 };
        }
        for port in [0, 2] {
            pass(node(), port, Packet::from_bytes(&bytes));
        }
    }
}
