//! Fragmentation and reassembly.

use bentpipe_units::Span;

use super::*;

/// A datagram of so many bytes to port 7 that may be fragmented.
fn datagram(ident: u16, len: usize) -> Packet {
    let mut bytes = udp_packet("10.0.0.9", "20.0.0.1", 9).to_vec();
    bytes.truncate(28);
    bytes.extend((28..len).map(|n| (n / 8) as u8));
    bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    bytes[4..6].copy_from_slice(&ident.to_be_bytes());
    bytes[6] = 0;
    ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    Packet::from_bytes(&bytes)
}

/// The fragments that a node makes of a packet.
fn fragments(packet: Packet, mtu: usize) -> Vec<Packet> {
    let mut node = node();
    node.set_mtu(Port(1), mtu);
    let mut rig = pass(node, 0, packet);
    assert_eq!(rig.value("forwarded"), 1.0);
    assert_eq!(rig.value("fragments"), if rig.out.len() == 1 { 0.0 } else { rig.out.len() as f64 });
    rig.out.into_iter().map(|(_, _, packet)| packet).collect()
}

/// A host at 20.0.0.1 whose endpoint 1 listens to UDP port 7.
fn host() -> Harness<Node> {
    let mut node = Node::new(1);
    node.add_address(prefix("20.0.0.1"));
    let endpoint = node.add_endpoint();
    node.bind(endpoint, Protocol::UDP, 7);
    Harness::new(node)
}

#[test]
fn fragments_fit_and_make_the_packet_again_in_any_order() {
    for (len, mtu, count) in [(1300, 1300, 1), (1300, 1299, 2), (3000, 576, 6), (100, 68, 2), (9000, 1500, 7)]
    {
        let mut parts = fragments(datagram(len as u16, len), mtu);
        assert_eq!(parts.len(), count, "{len} in {mtu}");
        for (n, part) in parts.iter().enumerate() {
            assert!(part.len() <= mtu);
            let bytes = part.to_vec();
            let ip = ipv4::Packet::new_checked(&bytes[..]).expect("IPv4");
            ip.verify_checksum().expect("a checksum");
            assert_eq!((ip.more_fragments(), ip.ident()), (n + 1 < count, len as u16));
        }
        let mut whole = datagram(len as u16, len);
        assert!(take_hop(&mut whole));
        for turn in 0..count {
            parts.rotate_left(turn);
            let mut host = host();
            // Each fragment twice: a repeated one is harmless.
            parts.iter().flat_map(|part| [part, part]).take(2 * count - 1).for_each(|part| {
                host.receive(0, 0, part.clone());
            });
            assert_eq!(host.out[0].2.to_vec(), whole.to_vec(), "{len} in {mtu}");
            assert_eq!(dropped(&host), None);
        }
    }
}

#[test]
fn fragments_are_fragmented_again() {
    let parts = fragments(datagram(1, 3000), 1500).into_iter().map(|mut part| {
        part.header_mut()[8] += 1;
        ipv4::Packet::new_unchecked(part.header_mut()).fill_checksum();
        part
    });
    let mut host = host();
    parts.flat_map(|part| fragments(part, 300)).for_each(|part| host.receive(0, 0, part));
    assert_eq!((host.out.len(), host.out[0].2.len()), (1, 3000));
}

#[test]
fn options_that_are_not_copied_stay_in_the_first_fragment() {
    let mut bytes = datagram(1, 200).to_vec();
    // Record route (not copied), then loose source route (copied), padded.
    bytes.splice(20..20, [7, 3, 4, 131, 3, 4, 0, 0]);
    bytes[0] = 0x47;
    bytes[3] += 8;
    ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    let parts = fragments(Packet::from_bytes(&bytes), 100);
    let options: Vec<Vec<u8>> = parts
        .iter()
        .map(|part| {
            let bytes = part.to_vec();
            ipv4::Packet::new_checked(&bytes[..]).expect("IPv4").options().to_vec()
        })
        .collect();
    assert_eq!(options[0], [7, 3, 4, 131, 3, 4, 0, 0]);
    assert!(options[1..].iter().all(|options| options[..] == [131, 3, 4, 0]), "{options:?}");
}

#[test]
fn incomplete_packets_are_dropped_in_time_and_contradictions_at_once() {
    let mut host = host();
    let parts = fragments(datagram(1, 3000), 1500);
    host.receive(0, 0, parts[0].clone());
    host.receive(0, 0, parts[2].clone());
    let after = Span::from_secs(31).as_nanos();
    host.receive(after, 0, parts[1].clone());
    assert_eq!((host.out.len(), host.value("dropped-reassembly")), (0, 2.0));
    host.run_until(2 * after);
    assert_eq!(host.value("dropped-reassembly"), 3.0);
    let others = fragments(datagram(1, 3000), 700);
    host.receive(2 * after, 0, parts[0].clone());
    host.receive(2 * after, 0, others[1].clone());
    assert_eq!((host.out.len(), host.value("dropped-reassembly")), (0, 5.0));
}

#[test]
fn memory_of_incomplete_packets_is_bounded() {
    let mut host = host();
    (0..1000).for_each(|ident| host.receive(0, 0, fragments(datagram(ident, 1600), 1500).remove(0)));
    assert_eq!(host.value("dropped-reassembly"), 1000.0 - 64.0);
}

proptest::proptest! {
    #[test]
    fn any_fragments_are_taken(
        pieces in proptest::collection::vec((0_u16..40, proptest::bool::ANY, 0_usize..80, 0_u16..3), 1..40)
    ) {
        let mut host = host();
        for (offset, more, len, ident) in pieces {
            let mut bytes = datagram(ident, 28 + len).to_vec();
            let flags = offset | if more { 0x2000 } else { 0 };
            bytes[6..8].copy_from_slice(&flags.to_be_bytes());
            ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
            host.receive(0, 0, Packet::from_bytes(&bytes));
        }
    }
}

/// A UDP packet to port 7 of so many bytes, from an endpoint and to a host of a version.
fn from_endpoint(is_v4: bool, len: usize) -> Packet {
    let [from, to] = if is_v4 { ["10.0.0.9", "20.0.0.1"] } else { ["fd00::9", "fd20::1"] };
    let bytes = udp_packet(from, to, 9).to_vec();
    let headers = bytes.len();
    let mut bytes = [bytes, (headers..len).map(|n| (n / 8) as u8).collect()].concat();
    let at = if is_v4 { 2 } else { 4 };
    let field = if is_v4 { len } else { len - 40 } as u16;
    bytes[at..at + 2].copy_from_slice(&field.to_be_bytes());
    if is_v4 {
        ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    }
    Packet::from_bytes(&bytes)
}

#[test]
fn an_endpoint_s_node_fragments_both_versions_and_a_host_or_a_group_s_member_gets_the_whole() {
    for (is_v4, group) in [(true, "239.0.0.1"), (false, "ff0e::1")] {
        let mut sender = Node::new(1);
        sender.add_route(prefix(if is_v4 { "0.0.0.0/0" } else { "::/0" }), Port(0));
        let endpoint = sender.add_endpoint();
        sender.fragment_at(endpoint, 1280);
        let mut sender = Harness::new(sender);
        sender.receive(0, 1, from_endpoint(is_v4, 3000));
        sender.receive(0, 1, from_endpoint(is_v4, 1280));
        assert_eq!((sender.out.len(), sender.value("fragments"), sender.value("forwarded")), (4, 3.0, 4.0));
        let mut host = Node::new(1);
        host.add_address(prefix(if is_v4 { "20.0.0.1" } else { "fd20::1" }));
        let endpoint = host.add_endpoint();
        host.bind(endpoint, Protocol::UDP, 7);
        host.join(endpoint, group.parse().expect("an address"), Protocol::UDP, 7);
        let mut host = Harness::new(host);
        sender.out.iter().for_each(|(_, _, packet)| host.receive(0, 0, packet.clone()));
        let lens: Vec<usize> = host.out.iter().map(|(_, _, packet)| packet.len()).collect();
        assert_eq!((lens, host.value("reassembled"), host.value("delivered")), (vec![3000, 1280], 1.0, 2.0));
        let regrouped = sender.out.iter().map(|(_, _, packet)| {
            let mut bytes = packet.to_vec();
            match group.parse().expect("an address") {
                std::net::IpAddr::V4(group) => bytes[16..20].copy_from_slice(&group.octets()),
                std::net::IpAddr::V6(group) => bytes[24..40].copy_from_slice(&group.octets()),
            }
            if is_v4 {
                ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
            }
            Packet::from_bytes(&bytes)
        });
        regrouped.for_each(|packet| host.receive(1, 0, packet));
        let lens: Vec<usize> = host.out[2..].iter().map(|(_, _, packet)| packet.len()).collect();
        assert_eq!((lens, host.value("reassembled")), (vec![3000, 1280], 2.0));
        assert_eq!(dropped(&host), None);
    }
}

#[test]
fn a_sender_s_packet_without_its_fragments_is_refused() {
    let mut sender = Node::new(1);
    sender.add_route(prefix("::/0"), Port(0));
    sender.set_mtu(Port(0), 1280);
    sender.add_endpoint();
    let mut sender = Harness::new(sender);
    sender.receive(0, 1, from_endpoint(false, 3000));
    assert_eq!((sender.out.len(), sender.value("dropped-too-big")), (0, 1.0));
}
