//! ICMP errors and echo replies.

use bentpipe_wire::icmp::{HEADER_LEN, Message, v4, v6};

use super::*;

/// What a message of the node says: its version, type, code and rest of header. Source, destination and checksum are checked,
/// and that it quotes the beginning of `about`.
fn message(packet: &Packet, from: &str, to: &str, about: &Packet) -> (u8, u8, [u8; 4]) {
    let bytes = packet.to_vec();
    let ip = ip::Packet::new_checked(&bytes[..]).expect("IP");
    assert_eq!((ip.src().to_string(), ip.dst().to_string()), (from.to_owned(), to.to_owned()));
    let upper = ip.upper().expect("content");
    let message = Message::new_checked(upper.bytes).expect("a message");
    let pseudo = ip.src().is_ipv6().then_some(upper.pseudo);
    message.verify_checksum(pseudo.as_ref()).expect("a checksum");
    let quoted = &upper.bytes[HEADER_LEN..];
    assert!(bytes.len() <= if ip.src().is_ipv4() { 576 } else { 1280 });
    // The time to live may be one less by then.
    assert_eq!(quoted[12..], about.to_vec()[12..quoted.len()]);
    (message.kind(), message.code(), message.rest_of_header())
}

/// A node as [`node`] has it, with an MTU of 1300 bytes at interface 1.
fn narrow() -> Node {
    let mut node = node();
    node.set_mtu(Port(1), 1300);
    node
}

/// A packet of 1500 bytes that must not be fragmented.
fn long(from: &str, to: &str) -> Packet {
    let [source, destination] = [from, to].map(|address| address.parse().expect("an address"));
    let len = if from.contains(':') { 1460 } else { 1480 };
    let repr = ip::Repr::new(source, destination, Protocol::UDP, len);
    let mut packet = Packet::new(repr.buffer_len(), len as u32);
    repr.emit(packet.header_mut());
    packet
}

#[test]
fn each_cause_has_its_error() {
    let (v4, v6) =
        (["10.0.0.9", "20.0.0.9", "30.0.0.9"], ["2001:db8:a::9", "2001:db8:b::9", "2001:db8:c::9"]);
    let closed = |from, to| {
        let mut packet = udp_packet(from, to, 9);
        let end = packet.header().len() - 5;
        packet.header_mut()[end] = 8;
        packet
    };
    let mtu = 1300_u32.to_be_bytes();
    for (own, packet, expected) in [
        ("10.0.0.1", udp_packet(v4[0], v4[1], 1), (11, 0, [0; 4])),
        ("10.0.0.1", udp_packet(v4[0], v4[2], 9), (3, 0, [0; 4])),
        ("10.0.0.1", closed(v4[0], "10.0.0.1"), (3, 3, [0; 4])),
        ("10.0.0.1", long(v4[0], v4[1]), (3, 4, mtu)),
        ("2001:db8:a::1", udp_packet(v6[0], v6[1], 1), (3, 0, [0; 4])),
        ("2001:db8:a::1", udp_packet(v6[0], v6[2], 9), (1, 0, [0; 4])),
        ("2001:db8:a::1", closed(v6[0], "2001:db8:a::1"), (1, 4, [0; 4])),
        ("2001:db8:a::1", long(v6[0], v6[1]), (2, 0, mtu)),
    ] {
        let mut rig = pass(narrow(), 0, packet.clone());
        let [(_, Port(0), answer)] = &rig.out[..] else { panic!("one answer to {packet:?}: {:?}", rig.out) };
        let to = view(&packet).expect("IP").src().to_string();
        assert_eq!(message(answer, own, &to, &packet), expected, "{packet:?}");
        assert_eq!([rig.value("icmp-sent"), rig.value("forwarded")], [1.0, 1.0]);
    }
}

#[test]
fn errors_groups_fragments_and_own_packets_are_not_answered() {
    let error = pass(node(), 0, udp_packet("10.0.0.9", "20.0.0.9", 1)).out.remove(0).2;
    let mut lost = error.to_vec();
    lost[8] = 1;
    let mut to_nowhere = Packet::from_bytes(&lost);
    to_nowhere.header_mut()[16] = 20;
    ipv4::Packet::new_unchecked(to_nowhere.header_mut()).fill_checksum();
    let mut fragment = udp_packet("10.0.0.9", "20.0.0.9", 1);
    fragment.header_mut()[7] = 1;
    ipv4::Packet::new_unchecked(fragment.header_mut()).fill_checksum();
    let mut damaged = udp_packet("10.0.0.9", "20.0.0.9", 9);
    damaged.header_mut()[16] ^= 1;
    for (port, packet) in [
        (0, to_nowhere),
        (0, fragment),
        (0, damaged),
        (0, udp_packet("10.0.0.9", "239.9.9.9", 9)),
        (0, udp_packet("2001:db8:a::9", "ff0e::9", 9)),
        (0, udp_packet("0.0.0.0", "20.0.0.9", 1)),
        (0, udp_packet("239.1.1.1", "20.0.0.9", 1)),
        (0, udp_packet("10.0.0.1", "20.0.0.9", 1)),
        (2, udp_packet("10.0.0.1", "30.0.0.9", 9)),
    ] {
        let rig = pass(node(), port, packet.clone());
        assert!(rig.out.is_empty() && dropped(&rig).is_some(), "{packet:?}");
    }
}

#[test]
fn errors_are_limited_in_virtual_time() {
    let mut rig = Harness::new(node());
    let expired = || udp_packet("10.0.0.9", "20.0.0.9", 1);
    (0..60).for_each(|_| rig.receive(0, 0, expired()));
    assert_eq!(rig.out.len(), 50);
    (0..20).for_each(|_| rig.receive(10_500_000, 0, expired()));
    assert_eq!(rig.out.len(), 60);
    assert_eq!([rig.value("icmp-sent"), rig.value("icmp-suppressed")], [60.0, 20.0]);
    assert_eq!(rig.value("dropped-hop-limit"), 80.0);
}

/// An echo request with so many bytes, its checksum right.
fn echo(from: &str, to: &str, len: usize) -> Vec<u8> {
    let [source, destination] = [from, to].map(|address| address.parse::<IpAddr>().expect("an address"));
    let protocol = if source.is_ipv4() { Protocol::ICMP } else { Protocol::ICMPV6 };
    let repr = ip::Repr::new(source, destination, protocol, HEADER_LEN + len);
    let mut bytes = vec![0; repr.buffer_len() + HEADER_LEN];
    repr.emit(&mut bytes);
    bytes.extend((0..len).map(|n| n as u8));
    let pseudo = ip::Packet::new_checked(&bytes[..]).expect("IP").upper().expect("content").pseudo;
    let message = &mut bytes[repr.buffer_len()..];
    match protocol {
        Protocol::ICMP => v4::Repr::EchoRequest { ident: 7, seq: 1 }.emit(message),
        _ => v6::Repr::EchoRequest { ident: 7, seq: 1 }.emit(message),
    }
    let mut message = Message::new_checked(message).expect("a message");
    message.fill_checksum((protocol == Protocol::ICMPV6).then_some(&pseudo));
    bytes
}

#[test]
fn echo_requests_come_back_with_what_was_in_them() {
    for (from, own, kind) in [("10.0.0.9", "10.0.0.1", 0), ("2001:db8:a::9", "2001:db8:a::1", 129)] {
        for len in [0, 56, 1000] {
            let request = echo(from, own, len);
            let rig = pass(node(), 0, Packet::from_bytes(&request));
            let [(_, Port(0), reply)] = &rig.out[..] else { panic!("one reply") };
            let bytes = reply.to_vec();
            let ip = ip::Packet::new_checked(&bytes[..]).expect("IP");
            assert_eq!((ip.src().to_string(), ip.dst().to_string()), (own.to_owned(), from.to_owned()));
            let upper = ip.upper().expect("content");
            let message = Message::new_checked(upper.bytes).expect("a message");
            let pseudo = (kind == 129).then_some(upper.pseudo);
            message.verify_checksum(pseudo.as_ref()).expect("a checksum");
            assert_eq!((message.kind(), message.rest_of_header()), (kind, [0, 7, 0, 1]));
            assert_eq!(message.payload(), &request[request.len() - len..]);
        }
        let mut damaged = echo(from, own, 56);
        damaged.last_mut().into_iter().for_each(|byte| *byte ^= 1);
        let rig = pass(node(), 0, Packet::from_bytes(&damaged));
        assert_eq!((rig.out.len(), dropped(&rig)), (0, Some(Drop::BadChecksum)));
    }
}

#[test]
fn an_error_about_a_segment_reaches_its_connection() {
    let mut near = Node::new(1);
    near.add_address(prefix("10.0.0.9"));
    let endpoint = near.add_endpoint();
    near.bind_connection(endpoint, Protocol::TCP, 9, ("20.0.0.9".parse().expect("an address"), 7));
    let mut segment = long("10.0.0.9", "20.0.0.9").to_vec();
    segment[9] = Protocol::TCP.0;
    segment[20..24].copy_from_slice(&[0, 9, 0, 7]);
    ipv4::Packet::new_unchecked(&mut segment[..]).fill_checksum();
    let error = pass(narrow(), 0, Packet::from_bytes(&segment)).out.remove(0).2;
    let rig = pass(near, 0, error.clone());
    let [(_, port, given)] = &rig.out[..] else { panic!("one packet") };
    assert_eq!((*port, given.to_vec()), (endpoint, error.to_vec()));
}

#[test]
fn packets_that_a_role_gives_back_are_reported_too() {
    let mut node = narrow();
    let role = node.divert(Divert::default());
    let mut rig = Harness::new(node);
    let packet = long("10.0.0.9", "20.0.0.9");
    rig.receive(0, 0, packet.clone());
    let (_, port, diverted) = rig.out.remove(0);
    assert_eq!(port, role);
    rig.receive(0, role.0, diverted);
    let [(_, Port(0), answer)] = &rig.out[..] else { panic!("one answer") };
    assert_eq!(message(answer, "10.0.0.1", "10.0.0.9", &packet), (3, 4, 1300_u32.to_be_bytes()));
}
