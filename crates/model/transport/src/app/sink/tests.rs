use bentpipe_net::Channel;
use bentpipe_net::channel::Config;
use bentpipe_net::testing::{Harness, MS};

use super::*;
use crate::app::{Endpoints, flow::Template};

const CONFIG: SinkConfig =
    SinkConfig { first_port: 6000, count: 2, header: Header::Sequence, shared_ports: false };

fn packet(header: Header, flow: u32, number: u64, created_at: u64) -> Packet {
    let (source, destination) =
        ("10.0.0.1:5000".parse().expect("an end"), "10.0.0.2:6000".parse().expect("an end"));
    let template = Template::new(Endpoints { source, destination }, 40, header, 0).expect("possible");
    template.packet(flow, number, Time::from_nanos(created_at))
}

/// A sink's account of flow 0 after these numbers, sent each millisecond and 5 ms under way.
fn after(header: Header, numbers: &[u64]) -> FlowStats {
    let mut rig = Harness::new(Sink::new(SinkConfig { header, ..CONFIG }));
    for (i, &number) in (0_u64..).zip(numbers) {
        rig.receive((i + 5) * MS, 0, packet(header, 0, number, i * MS));
    }
    rig.element.flows()[0].clone()
}

#[test]
fn loss_duplicates_and_reordering_are_told_apart() {
    let stats = after(Header::Sequence, &[0, 1, 4, 3, 3, 6]);
    assert_eq!((stats.packets, stats.expected(), stats.lost()), (6, 7, 2));
    assert_eq!((stats.duplicates, stats.reordered), (1, 1));
    let stats = after(Header::Sequence, &[0, 100, 2]);
    assert_eq!((stats.lost(), stats.duplicates, stats.reordered), (98, 0, 1));
    // Each number twice, the second time 300 later, but for some that come once and late.
    let late = |n: &u64| n % 7 != 3;
    let numbers: Vec<u64> = (0..1000).filter(late).chain(0..1000).collect();
    let stats = after(Header::Sequence, &numbers);
    assert_eq!((stats.packets - stats.duplicates, stats.lost()), (1000, 0));
    assert_eq!(stats.arrived_bytes * stats.packets, stats.bytes * 1000, "each once");
}

#[test]
fn flows_on_one_port_are_told_apart_by_their_source() {
    let (source, destination) =
        ("10.0.0.1:5000".parse().expect("an end"), "10.0.0.2:6000".parse().expect("an end"));
    let template = Template::new(Endpoints { source, destination }, 45, Header::Rtp, 0).expect("possible");
    let template = template.sharing_ports(true);
    let config = SinkConfig { header: Header::Rtp, shared_ports: true, ..CONFIG };
    let mut rig = Harness::new(Sink::new(config));
    for flow in [0, 1, 1, 2] {
        rig.receive(5 * MS, 0, template.packet(flow, 0, Time::ZERO));
    }
    let packets = [0, 1].map(|flow: usize| rig.element.flows()[flow].packets);
    assert_eq!((packets, rig.value("dropped-unexpected")), ([1, 2], 1.0));
}

#[test]
fn sequence_numbers_of_sixteen_bits_go_on() {
    let numbers: Vec<u64> = (0..70_000).filter(|n| n % 1000 != 999).collect();
    let stats = after(Header::Rtp, &numbers);
    assert_eq!((stats.lost(), stats.expected(), stats.reordered), (69, 69_999, 0));
}

#[test]
fn delay_and_jitter_follow_their_formulas() {
    let mut rig = Harness::new(Sink::new(CONFIG));
    // Transit times of 5, 7 and 6 ms: D is 2, then 1; J = 2/16, then J + (1 - J)/16.
    for (number, (sent, arrived)) in (0..).zip([(0, 5), (10, 17), (20, 26)]) {
        rig.receive(arrived * MS, 0, packet(Header::Sequence, 1, number, sent * MS));
    }
    let jitter = 0.125 + (1.0 - 0.125) / 16.0;
    assert!((rig.element.flows()[1].jitter_ns / 1e6 - jitter).abs() < 1e-9);
    assert!((rig.value("jitter") * 1e3 - jitter).abs() < 1e-9);
    assert!((rig.value("delay-mean") - 0.006).abs() < 1e-12);
    assert!((rig.value("delay-p50") - 0.006).abs() < 6e-6);
    assert_eq!((rig.value("delay-min"), rig.value("delay-max")), (0.005, 0.007));
    // Arrivals at 5, 17 and 26 ms: intervals of 12 and 9 ms.
    assert!((rig.value("interarrival") - 0.0105).abs() < 1e-12);
    assert!((rig.value("interarrival-deviation") - 0.0015).abs() < 1e-12);
    assert_eq!(rig.value("copies"), f64::from(CONFIG.count), "goodput is that of all together");
    assert_eq!((rig.value("packets"), rig.value("delivered-bytes"), rig.value("lost")), (3.0, 120.0, 0.0));
}

#[test]
fn the_spread_over_copies_is_reported() {
    let mut rig = Harness::new(Sink::new(SinkConfig { count: 3, ..CONFIG }));
    for number in [0, 1, 2, 3] {
        rig.receive(5 * MS, 0, packet(Header::Sequence, 0, number, 0));
    }
    for number in [0, 3] {
        rig.receive(5 * MS, 0, packet(Header::Sequence, 1, number, 0));
    }
    assert_eq!(
        (rig.value("copies-silent"), rig.value("copies-loss-p50"), rig.value("copies-loss-max")),
        (1.0, 0.0, 0.5)
    );
    // Packets 4, 2 and 0: 36 / (3 * 20).
    assert!((rig.value("copies-jain") - 0.6).abs() < 1e-12);
}

#[test]
fn damage_and_strangers_are_not_counted_as_received() {
    let mut rig = Harness::new(Sink::new(CONFIG));
    assert!(rig.value("delay-mean").is_nan() && rig.value("jitter").is_nan());
    let mut damaged = packet(Header::Sequence, 0, 0, 0);
    damaged.header_mut()[31] ^= 4;
    rig.receive(0, 0, damaged);
    rig.receive(0, 0, packet(Header::Sequence, 2, 0, 0));
    rig.receive(0, 0, Packet::new(20, 0));
    assert_eq!((rig.value("dropped-bad-checksum"), rig.value("dropped-unexpected")), (1.0, 2.0));
    assert_eq!(rig.value("packets"), 0.0);
}

#[test]
fn damage_is_seen_by_the_receiver_s_checksum_or_the_link_s_crc() {
    let endpoints = Endpoints {
        source: "10.0.0.1:5000".parse().expect("an end"),
        destination: "10.0.0.2:6000".parse().expect("an end"),
    };
    let template = Template::new(endpoints, 400, Header::Sequence, 0).expect("possible");
    for crc in [false, true] {
        let mut channel =
            Harness::new(Channel::new(&Config::BitErrors { ber: 1e-4, crc }).expect("possible"));
        let mut sink = Harness::new(Sink::new(SinkConfig {
            first_port: 6000,
            count: 1,
            header: Header::Sequence,
            shared_ports: false,
        }));
        for at in 0..2000 {
            channel.receive(at, 0, template.packet(0, at, Time::ZERO));
            channel.out.drain(..).for_each(|(_, _, packet)| sink.receive(at, 0, packet));
        }
        let seen = sink.value("dropped-bad-checksum") + sink.value("dropped-unexpected");
        // A flip in the IP header that UDP does not cover gets through here: a node would see it.
        assert!(channel.value("damaged") > 400.0);
        if crc {
            assert_eq!((seen, channel.value("lost")), (0.0, channel.value("damaged")));
        } else {
            assert!(seen > 0.9 * channel.value("damaged"), "{seen}");
        }
    }
}
