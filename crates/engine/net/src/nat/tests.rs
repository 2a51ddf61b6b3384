use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::udp;
use proptest::prelude::*;

use super::*;
use crate::testing::{Harness, MS};

const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const CONFIG: Config = Config {
    outside: OUTSIDE,
    first: [1000, 2000, 3000],
    count: 3,
    timeouts: [Span::from_secs(300), Span::from_secs(7440), Span::from_secs(240), Span::from_secs(60)],
    is_filtered: false,
};

fn end(text: &str) -> SocketAddrV4 {
    text.parse().expect("an end")
}

/// A datagram or segment with a true checksum and elided payload.
fn packet(protocol: Protocol, from: &str, to: &str, flags: tcp::Flags) -> Packet {
    let (from, to) = (end(from), end(to));
    let pseudo = Pseudo::v4(*from.ip(), *to.ip(), protocol);
    let (len, zeros) = (if protocol == Protocol::TCP { 20 } else { 8 }, 33);
    let mut transport = vec![0; len];
    if protocol == Protocol::TCP {
        let repr = tcp::Repr::new(from.port(), to.port(), tcp::SeqNumber(77));
        tcp::Repr { flags, ..repr }.emit(&mut transport);
        let mut segment = tcp::Segment::new_elided(&mut transport[..], zeros).expect("a segment");
        segment.fill_checksum(&pseudo);
    } else {
        transport[..2].copy_from_slice(&from.port().to_be_bytes());
        transport[2..4].copy_from_slice(&to.port().to_be_bytes());
        transport[4..6].copy_from_slice(&((len + zeros) as u16).to_be_bytes());
        let mut datagram = udp::Datagram::new_elided(&mut transport[..], zeros).expect("a datagram");
        datagram.fill_checksum(&pseudo);
    }
    let ip = ipv4::Repr::new(*from.ip(), *to.ip(), protocol, len + zeros);
    let mut packet = Packet::new(ip.buffer_len() + len, zeros as u32);
    ip.emit(packet.header_mut());
    packet.header_mut()[ipv4::HEADER_LEN..].copy_from_slice(&transport);
    packet
}

/// Returns both ends of a packet whose checksums all hold.
fn ends(packet: &Packet) -> [String; 2] {
    let bytes = packet.to_vec();
    let ip = ipv4::Packet::new_checked(&bytes[..]).expect("IPv4");
    ip.verify_checksum().expect("a checksum");
    let pseudo = Pseudo::v4(ip.src(), ip.dst(), ip.protocol());
    let sum = pseudo.datagram(&bytes[ip.header_len()..], 0);
    assert!(sum.is_valid(), "{bytes:02x?}");
    let fields = Fields::read(packet).expect("translated");
    [fields.source, fields.destination].map(|end| end.to_string())
}

#[test]
fn inside_ends_get_a_port_each_and_answers_find_them() {
    for (protocol, first) in [(Protocol::UDP, 1000), (Protocol::TCP, 2000)] {
        let mut nat = Harness::new(Nat::new(CONFIG, 1));
        let none = tcp::Flags::NONE;
        for (n, from) in ["10.0.0.1:5", "10.0.0.2:5", "10.0.0.1:5"].into_iter().enumerate() {
            nat.receive(n as u64, 0, packet(protocol, from, "198.51.100.7:80", none));
        }
        let sources: Vec<String> = nat.out.iter().map(|(.., packet)| ends(packet)[0].clone()).collect();
        let [one, two] = [first, first + 1].map(|port| format!("192.0.2.1:{port}"));
        assert_eq!(sources, [one.clone(), two.clone(), one]);
        nat.receive(9, 1, packet(protocol, "198.51.100.7:80", &two, none));
        assert_eq!(ends(&nat.out[3].2), ["198.51.100.7:80", "10.0.0.2:5"]);
        nat.receive(9, 1, packet(protocol, "198.51.100.7:80", &format!("192.0.2.1:{}", first + 2), none));
        assert_eq!((nat.value("outwards"), nat.value("inwards")), (3.0, 1.0));
        assert_eq!((nat.value("mappings"), nat.value("dropped-unmapped")), (2.0, 1.0));
    }
}

#[test]
fn mappings_end_when_they_are_idle_and_numbers_run_out() {
    let mut nat = Harness::new(Nat::new(CONFIG, 1));
    let send = |nat: &mut Harness<Nat>, at_s: u64, from: &str| {
        nat.receive(at_s * 1000 * MS, 0, packet(Protocol::UDP, from, "198.51.100.7:80", tcp::Flags::NONE));
    };
    for n in 1..=4 {
        send(&mut nat, 0, &format!("10.0.0.{n}:5"));
    }
    assert_eq!((nat.value("mappings"), nat.value("dropped-exhausted")), (3.0, 1.0));
    send(&mut nat, 200, "10.0.0.2:5");
    send(&mut nat, 301, "10.0.0.4:5");
    assert_eq!((nat.value("mappings"), nat.value("outwards")), (2.0, 5.0));
    // What comes from outside does not renew a mapping.
    nat.receive(
        480_000 * MS,
        1,
        packet(Protocol::UDP, "198.51.100.7:80", "192.0.2.1:1001", tcp::Flags::NONE),
    );
    nat.receive(
        501_000 * MS,
        1,
        packet(Protocol::UDP, "198.51.100.7:80", "192.0.2.1:1001", tcp::Flags::NONE),
    );
    assert_eq!((nat.value("inwards"), nat.value("dropped-unmapped")), (1.0, 1.0));
}

#[test]
fn established_connections_last_longer_than_others() {
    let mut nat = Harness::new(Nat::new(CONFIG, 1));
    let segment = |from: &str, to: &str, flags| packet(Protocol::TCP, from, to, flags);
    let (host, server) = ("10.0.0.1:5", "198.51.100.7:80");
    nat.receive(0, 0, segment(host, server, tcp::Flags::SYN));
    nat.receive(1000 * MS, 1, segment(server, "192.0.2.1:2000", tcp::Flags::NONE));
    nat.receive(2000 * MS, 0, segment(host, server, tcp::Flags::NONE));
    nat.receive(1_000_000 * MS, 1, segment(server, "192.0.2.1:2000", tcp::Flags::NONE));
    assert_eq!((nat.value("inwards"), nat.value("mappings")), (2.0, 1.0));
    nat.receive(1_001_000 * MS, 0, segment(host, server, tcp::Flags::FIN));
    nat.run_until(1_300_000 * MS);
    assert_eq!(nat.value("mappings"), 0.0);
}

#[test]
fn filtered_mappings_pass_only_addresses_that_they_sent_to() {
    let mut nat = Harness::new(Nat::new(Config { is_filtered: true, ..CONFIG }, 1));
    let datagram = |from: &str, to: &str| packet(Protocol::UDP, from, to, tcp::Flags::NONE);
    nat.receive(0, 0, datagram("10.0.0.1:5", "198.51.100.7:80"));
    nat.receive(1, 1, datagram("198.51.100.7:81", "192.0.2.1:1000"));
    nat.receive(2, 1, datagram("198.51.100.8:80", "192.0.2.1:1000"));
    assert_eq!((nat.value("inwards"), nat.value("dropped-filtered")), (1.0, 1.0));
}

proptest! {
    #[test]
    fn noise_is_dropped(bytes in prop::collection::vec(any::<u8>(), 0..80), is_v4: bool, port in 0_u16..2) {
        let mut bytes = bytes;
        if is_v4 && bytes.len() > 20 {
            (bytes[0], bytes[6], bytes[7], bytes[9]) = (0x45, 0, 0, PROTOCOLS[bytes.len() % 3].0);
        }
        let mut nat = Harness::new(Nat::new(CONFIG, 1));
        nat.receive(0, port, Packet::from_bytes(&bytes));
        prop_assert!(nat.element.mappings() <= 1);
    }
}
