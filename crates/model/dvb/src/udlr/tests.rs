use std::net::{IpAddr, Ipv4Addr};

use bentpipe_net::testing::{Harness, MS, check_metrics};
use bentpipe_net::{Packet, Port};
use bentpipe_units::Span;
use bentpipe_wire::ip::{self, Ecn, Protocol, TrafficClass};
use bentpipe_wire::{ipv4, udp};

use super::*;

const ENDS: Ends = Ends {
    receiver: Ipv4Addr::new(10, 0, 0, 3),
    feed: Ipv4Addr::new(10, 0, 0, 2),
    tunnel: Ipv4Addr::new(198, 18, 0, 1),
};

/// Processing time of the tests in nanoseconds.
const PROCESSING: u64 = 10_000;

fn receiver() -> Harness<TunnelEnd> {
    Harness::new(TunnelEnd::new(ENDS, 3, Span::from_nanos(PROCESSING)))
}

fn feed(ends: Ends) -> Harness<Feed> {
    Harness::new(Feed::new(ends, 5, Span::from_nanos(PROCESSING)))
}

/// A UDP packet with elided payload.
fn packet(to: &str, class: TrafficClass) -> Packet {
    let to: IpAddr = to.parse().expect("an address");
    let from: IpAddr = if to.is_ipv6() { "fd00::9".parse() } else { "10.0.0.9".parse() }.expect("an address");
    let mut repr = ip::Repr::new(from, to, Protocol::UDP, udp::HEADER_LEN + 100);
    match &mut repr {
        ip::Repr::V4(repr) => repr.traffic_class = class,
        ip::Repr::V6(repr) => repr.traffic_class = class,
    }
    let mut packet = Packet::new(repr.buffer_len() + udp::HEADER_LEN, 100);
    repr.emit(packet.header_mut());
    let at = repr.buffer_len();
    udp::Repr { src_port: 1, dst_port: 2, payload_len: 100 }.emit(&mut packet.header_mut()[at..]);
    packet
}

/// The feed's HELLOs up to a time.
fn hellos(ends: Ends, until: u64) -> Vec<Packet> {
    let mut feed = feed(ends);
    feed.run_until(until);
    feed.out
        .into_iter()
        .map(|(_, port, packet)| (port == Port(1)).then_some(packet))
        .map(Option::unwrap)
        .collect()
}

#[test]
fn the_feed_says_where_the_tunnel_ends_every_interval() {
    let hellos = hellos(ENDS, 11_000 * MS);
    assert_eq!(hellos.len(), 3, "at 0, 5 and 10 s");
    let sequences: Vec<u16> = hellos
        .iter()
        .map(|hello| {
            let bytes = hello.to_vec();
            assert_eq!(bytes[16..20], [224, 0, 0, 36]);
            assert_eq!(bytes[20..24], [0x02, 0x8c, 0x02, 0x8c], "port 652");
            assert_eq!(bytes[28..30], [0x11, 5], "version 1, JOIN, 5 s");
            assert_eq!(bytes[32..44], [4, 47, 1, 0, 10, 0, 0, 2, 198, 18, 0, 1]);
            u16::from_be_bytes([bytes[30], bytes[31]])
        })
        .collect();
    assert_eq!(sequences[1], sequences[0].wrapping_add(1));
    assert_eq!(sequences[2], sequences[0].wrapping_add(2));
}

#[test]
fn packets_wait_for_no_tunnel_and_go_in_one_that_is_known() {
    let mut receiver = receiver();
    receiver.receive(MS, 0, packet("10.0.0.1", TrafficClass::default()));
    assert_eq!(receiver.value("dropped-no-tunnel"), 1.0);
    receiver.receive(2 * MS, 1, hellos(ENDS, 0).remove(0));
    assert_eq!((receiver.value("tunnel"), receiver.value("hellos")), (1.0, 1.0));
    let class = TrafficClass::new(46, Ecn::Ect0);
    for to in ["10.0.0.1", "fd00::1", "239.1.2.3"] {
        receiver.receive(3 * MS, 0, packet(to, class));
    }
    receiver.run_until(4 * MS);
    let lens = [128 + 38, 148 + 38, 128 + 38];
    assert_eq!(receiver.times(), lens.map(|len| (3 * MS + PROCESSING, len)));
    let bytes = receiver.out[0].2.to_vec();
    assert_eq!(bytes[..2], [0x45, 46 << 2 | 2], "DSCP and ECN of the packet");
    assert_eq!((bytes[9], &bytes[12..20]), (47, &[10, 0, 0, 3, 198, 18, 0, 1][..]));
    assert_eq!(bytes[20..24], [0, 0, 0x65, 0x58]);
    assert_eq!(bytes[24..38], [2, 0, 10, 0, 0, 2, 2, 0, 10, 0, 0, 3, 8, 0]);
    assert_eq!(receiver.out[1].2.to_vec()[36..38], [0x86, 0xdd]);
    assert_eq!(receiver.out[2].2.to_vec()[24..30], [1, 0, 0x5e, 1, 2, 3]);
}

#[test]
fn a_tunnel_is_forgotten_after_three_intervals_without_hello() {
    let mut receiver = receiver();
    receiver.receive(0, 1, hellos(ENDS, 0).remove(0));
    receiver.receive(14_999 * MS, 0, packet("10.0.0.1", TrafficClass::default()));
    receiver.receive(15_000 * MS, 0, packet("10.0.0.1", TrafficClass::default()));
    assert_eq!((receiver.value("tunnelled"), receiver.value("dropped-no-tunnel")), (1.0, 1.0));
    assert_eq!((receiver.value("tunnels-lost"), receiver.value("tunnel")), (1.0, 0.0));
}

#[test]
fn hellos_of_other_feeds_and_bytes_at_random_are_refused() {
    let mut receiver = receiver();
    let other = Ends { feed: Ipv4Addr::new(10, 0, 0, 77), ..ENDS };
    receiver.receive(0, 1, hellos(other, 0).remove(0));
    receiver.receive(0, 1, packet("10.0.0.1", TrafficClass::default()));
    receiver.receive(0, 1, Packet::from_bytes(&[0x45; 3]));
    receiver.receive(0, 0, Packet::from_bytes(&[0x05; 3]));
    assert_eq!((receiver.value("hellos-refused"), receiver.value("tunnel")), (3.0, 0.0));
    receiver.receive(0, 1, hellos(ENDS, 0).remove(0));
    receiver.receive(0, 0, Packet::from_bytes(&[0x05; 3]));
    assert_eq!(receiver.value("dropped-malformed"), 1.0);
    let mut feed = feed(ENDS);
    for bytes in [&[0x45; 3][..], &[0x45; 60], &[0; 0]] {
        feed.receive(0, 0, Packet::from_bytes(bytes));
    }
    assert_eq!(feed.value("dropped-untunnelled"), 3.0);
}

/// Packets through both ends, in the form that the tunnel's end gave them or as bytes that were put together again.
#[test]
fn what_goes_into_the_tunnel_comes_out_at_the_feed() {
    for whole in [false, true] {
        let mut receiver = receiver();
        receiver.receive(0, 1, hellos(ENDS, 0).remove(0));
        let class = TrafficClass::new(10, Ecn::Ect0);
        let sent: Vec<Packet> = ["10.0.0.1", "fd00::1", "239.1.2.3"].map(|to| packet(to, class)).into();
        sent.iter().for_each(|packet| receiver.receive(MS, 0, packet.clone()));
        receiver.run_until(2 * MS);
        let mut feed = feed(ENDS);
        for (_, _, packet) in receiver.out {
            let packet = if whole { Packet::from_bytes(&packet.to_vec()) } else { packet };
            feed.receive(3 * MS, 0, packet);
        }
        feed.run_until(4 * MS);
        let out: Vec<Vec<u8>> = feed
            .out
            .iter()
            .filter(|(_, port, _)| *port == Port(0))
            .map(|(.., packet)| packet.to_vec())
            .collect();
        let sent: Vec<Vec<u8>> = sent.iter().map(Packet::to_vec).collect();
        assert_eq!(out, sent, "whole: {whole}");
        for packet in feed.out.iter().filter(|(_, port, _)| *port == Port(0)) {
            let header = packet.2.header();
            assert!(ip::Packet::new_elided(header, packet.2.len() - header.len()).is_ok());
        }
    }
}

#[test]
fn congestion_of_the_tunnel_is_marked_inside() {
    let mut receiver = receiver();
    receiver.receive(0, 1, hellos(ENDS, 0).remove(0));
    for ecn in [Ecn::Ect0, Ecn::NotEct] {
        receiver.receive(MS, 0, packet("10.0.0.1", TrafficClass::new(0, ecn)));
    }
    receiver.run_until(2 * MS);
    let mut feed = feed(ENDS);
    for (_, _, mut packet) in receiver.out {
        ipv4::Packet::new_unchecked(packet.header_mut()).mark_ecn(Ecn::Ce);
        feed.receive(3 * MS, 0, packet);
    }
    feed.run_until(4 * MS);
    assert_eq!(feed.value("dropped-untunnelled"), 1.0, "a transport without ECN would not learn of it");
    let out = feed.out.iter().find(|(_, port, _)| *port == Port(0)).map(|(.., packet)| packet.to_vec());
    assert_eq!(out.expect("one")[1] & 3, 3);
}

#[test]
fn metrics_have_names_and_labels() {
    check_metrics("udlr", metrics::ALL);
}
