use bentpipe_wire::ip::{Protocol, ipv4};

use super::*;

/// A UDP packet of `len` bytes from a port.
fn packet(port: u16, len: u32) -> Packet {
    let payload = len - 20;
    let mut packet = Packet::new(28, len - 28);
    let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    ip::Repr::new(from, to, Protocol::UDP, payload as usize).emit(packet.header_mut());
    packet.header_mut()[20..22].copy_from_slice(&port.to_be_bytes());
    packet
}

fn port(packet: &Packet) -> u16 {
    u16::from_be_bytes([packet.header()[20], packet.header()[21]])
}

fn queue(config: &Config) -> (FqCoDel, RandomStream) {
    (FqCoDel::new(config).expect("possible"), RandomStream::new(1, "fq"))
}

#[test]
fn flows_share_bytes_and_not_packets() {
    let (mut queue, mut stream) = queue(&Config { packets: 100_000, ..Config::default() });
    for _ in 0..2000 {
        queue.enqueue(packet(1, 1500), Time::ZERO, &mut stream);
        queue.enqueue(packet(2, 300), Time::ZERO, &mut stream);
        queue.enqueue(packet(3, 40), Time::ZERO, &mut stream);
    }
    let mut bytes = [0_u64; 4];
    for _ in 0..1500 {
        let packet = queue.dequeue(Time::ZERO).expect("a packet");
        bytes[usize::from(port(&packet))] += packet.len() as u64;
    }
    // While all three wait, each has sent as much as the others up to a quantum and a packet.
    assert!(bytes[1].abs_diff(bytes[2]) < 3000 && bytes[2].abs_diff(bytes[3]) < 3000, "{bytes:?}");
}

#[test]
fn a_new_flow_waits_for_no_backlog() {
    let (mut queue, mut stream) = queue(&Config::default());
    (0..500).for_each(|_| queue.enqueue(packet(1, 1500), Time::ZERO, &mut stream));
    queue.dequeue(Time::ZERO);
    let mut sent = 0;
    for n in 0..50 {
        queue.enqueue(packet(2, 200), Time::from_nanos(n), &mut stream);
        let mut before = 0;
        while port(&queue.dequeue(Time::from_nanos(n)).expect("a packet")) != 2 {
            before += 1500;
        }
        // Between two of its packets a sparse flow, now among the old ones, waits for a turn of the other.
        assert!(before <= 2 * 1500, "{before} bytes before packet {n}");
        sent += 1;
    }
    assert_eq!(sent, 50);
}

#[test]
fn the_longest_flow_makes_room() {
    let (mut queue, mut stream) = queue(&Config { packets: 200, ..Config::default() });
    (0..50).for_each(|_| queue.enqueue(packet(2, 1000), Time::ZERO, &mut stream));
    (0..150).for_each(|_| queue.enqueue(packet(1, 1000), Time::ZERO, &mut stream));
    assert_eq!((queue.packets(), queue.counts.limit), (200, 0));
    queue.enqueue(packet(2, 1000), Time::ZERO, &mut stream);
    // Half of 150 is more than 64.
    assert_eq!((queue.packets(), queue.counts.limit), (201 - 64, 64));
    let left = std::iter::from_fn(|| queue.dequeue(Time::ZERO));
    let (of_one, all) =
        left.fold((0, 0), |(one, all), packet| (one + u32::from(port(&packet) == 1), all + 1));
    assert_eq!((of_one, all), (86, 137));
    assert_eq!(queue.bytes(), 0);
}

#[test]
fn each_flow_has_its_own_law() {
    // A standing queue of one flow is cut; the other, whose packets leave at once, loses nothing.
    let (mut queue, mut stream) = queue(&Config { ecn: false, ..Config::default() });
    let mut lost_of = [0_u64; 2];
    for millis in 0..3000_u64 {
        let now = Time::from_nanos(1_000_000 * millis);
        (0..2).for_each(|_| queue.enqueue(packet(1, 1000), now, &mut stream));
        if millis % 10 == 0 {
            queue.enqueue(packet(2, 100), now, &mut stream);
            let before = queue.counts.aqm;
            while let Some(packet) = queue.dequeue(now)
                && port(&packet) != 2
            {}
            lost_of[0] += queue.counts.aqm - before;
        } else {
            let before = queue.counts.aqm;
            queue.dequeue(now);
            lost_of[1] += queue.counts.aqm - before;
        }
    }
    assert!(lost_of[0] + lost_of[1] > 50, "{lost_of:?}");
    let of_two = queue.flows.iter().filter(|flow| flow.law.is_idle()).count();
    assert_eq!(of_two, 1, "the law of the sparse flow never began");
}

#[test]
fn fragments_of_a_packet_are_one_flow() {
    let repr = ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, 480);
    let fragment = |offset: usize, more: bool, port: u16| {
        let mut packet = Packet::new(28, 472);
        ipv4::Repr { more_fragments: more, fragment_offset: offset, dont_fragment: false, ..repr }
            .emit(packet.header_mut());
        packet.header_mut()[20..22].copy_from_slice(&port.to_be_bytes());
        packet
    };
    assert_eq!(hash(&fragment(0, true, 5)), hash(&fragment(480, false, 77)));
    assert_ne!(hash(&packet(5, 500)), hash(&packet(6, 500)));
}

#[test]
fn a_thousand_flows_take_turns() {
    let (mut queue, mut stream) = queue(&Config { flows: 65_536, ..Config::default() });
    for _ in 0..3 {
        (0..1000).for_each(|port| queue.enqueue(packet(port, 1500), Time::ZERO, &mut stream));
    }
    let flows = queue.flows.len();
    let round: Vec<u16> = (0..flows).map(|_| port(&queue.dequeue(Time::ZERO).expect("a packet"))).collect();
    let different: std::collections::HashSet<u16> = round.iter().copied().collect();
    assert!(flows > 980 && different.len() == flows, "{flows} {}", different.len());
}

/// A frame or burst that takes packets until there are none relies on it.
#[test]
fn a_queue_that_is_not_empty_gives_a_packet() {
    let (mut queue, mut stream) = queue(&Config { ecn: false, packets: 300, ..Config::default() });
    let mut now = Time::ZERO;
    for _ in 0..100_000 {
        now += Span::from_nanos(stream.exponential(1e6) as u64);
        let port = (stream.unit() * 20.0) as u16;
        queue.enqueue(packet(port, 40 + (stream.unit() * 1400.0) as u32), now, &mut stream);
        if stream.unit() < 0.9 {
            assert!(queue.dequeue(now).is_some());
        }
    }
    assert!(queue.counts.aqm > 1000 && queue.packets() > 0, "{:?}", queue.counts);
}
