use bentpipe_units::Span;
use bentpipe_wire::ip::{Protocol, TrafficClass};
use proptest::prelude::*;

use super::*;
use crate::link::{Config as LinkConfig, Link};
use crate::queue::{CoDelConfig, DropTailConfig, FqCoDelConfig, RedConfig};
use crate::testing::Harness;

const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn mbit(mbit: f64) -> Rate {
    Rate::from_bps((mbit * 1e6) as u64)
}

fn dscps(dscps: &[u8]) -> Option<Dscps> {
    Some(Dscps::try_from(dscps.to_vec()).expect("DSCPs"))
}

/// A packet with this DSCP, length, and number in its identification.
fn packet(dscp: u8, len: u32, number: u16) -> Packet {
    let mut packet = Packet::new(20, len - 20);
    let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut repr = ip::Repr::new(from, to, Protocol::UDP, len as usize - 20);
    if let ip::Repr::V4(repr) = &mut repr {
        repr.traffic_class = TrafficClass(dscp << 2);
    }
    repr.emit(packet.header_mut());
    packet.header_mut()[4..6].copy_from_slice(&number.to_be_bytes());
    packet
}

fn dscp_of(packet: &Packet) -> u8 {
    packet.header()[1] >> 2
}

fn number_of(packet: &Packet) -> u16 {
    u16::from_be_bytes([packet.header()[4], packet.header()[5]])
}

/// Class `n`, of DSCP `n`; that of DSCP 0 has all others.
fn class(n: u8) -> Class {
    let queue = Leaf::DropTail(DropTailConfig { packets: Some(100_000), bytes: None });
    let dscp = if n == 0 { None } else { dscps(&[n]) };
    Class { queue, ..Class::new(&format!("c{n}"), dscp) }
}

fn of(classes: &[Class]) -> Config {
    Config { class: classes.to_vec(), ceil: None, cburst: default_burst() }
}

fn build(config: &Config) -> Classes {
    Classes::new(config).expect("possible")
}

/// Sends from a queue at a line's rate, classes of which packets of 1500 B always wait, and returns the rate of each in Mbit/s.
///
/// The line waits where the queue holds packets back. The first second is left out.
fn rates(config: &Config, backlogged: &[u8], line: Rate, seconds: u64) -> Vec<f64> {
    let (mut queue, mut stream) = (build(config), RandomStream::new(1, "classes"));
    let mut put = |queue: &mut Classes, dscp, now| queue.enqueue(packet(dscp, 1500, 0), now, &mut stream);
    for dscp in backlogged {
        (0..20).for_each(|_| put(&mut queue, *dscp, Time::ZERO));
    }
    let takes = Span::from_nanos(1500 * 8 * 1_000_000_000 / line.as_bps());
    let (mut bytes, mut now, end) = (vec![0_u64; config.class.len()], Time::ZERO, at(seconds * 1000 * MS));
    while now < end {
        match queue.dequeue(now) {
            Some(packet) => {
                put(&mut queue, dscp_of(&packet), now);
                if now >= at(1000 * MS) {
                    bytes[usize::from(queue.class(&packet))] += packet.len() as u64;
                }
                now += takes;
            }
            None => {
                assert!(queue.ready() > now, "a queue that is ready has a packet");
                now = queue.ready();
            }
        }
    }
    bytes.iter().map(|bytes| *bytes as f64 * 8.0 / ((seconds - 1) as f64 * 1e6)).collect()
}

fn near(found: &[f64], expected: &[f64], tolerance: f64) {
    for (found_one, expected_one) in found.iter().zip(expected) {
        let is_near = (found_one - expected_one).abs() <= tolerance * expected_one.max(0.05);
        assert!(is_near, "{found:?} {expected:?}");
    }
}

#[test]
fn guaranteed_rates_come_first_and_weights_share_the_rest() {
    let given = |n, rate: f64, weight| Class { rate: Some(mbit(rate)), weight, ..class(n) };
    // 10 Mbit/s: 6 are guaranteed, and of the rest the classes get 1, 2 and 5 eighths.
    let classes = [given(1, 3.0, 1), given(2, 2.0, 2), given(0, 1.0, 5)];
    near(&rates(&of(&classes), &[1, 2, 0], mbit(10.0), 21), &[3.5, 3.0, 3.5], 0.01);
    // What a class does not use, others borrow.
    near(&rates(&of(&classes), &[2, 0], mbit(10.0), 21), &[0.0, 4.0, 6.0], 0.01);
    // Guarantees beyond the line are shared as the rest would be.
    let classes = [given(1, 9.0, 1), given(0, 9.0, 3)];
    near(&rates(&of(&classes), &[1, 0], mbit(10.0), 21), &[2.5, 7.5], 0.01);
}

#[test]
fn ceilings_hold_even_on_an_idle_line() {
    let with = |n, ceil: f64| Class { ceil: Some(mbit(ceil)), ..class(n) };
    near(&rates(&of(&[with(1, 2.0), class(0)]), &[1, 0], mbit(10.0), 21), &[2.0, 8.0], 0.002);
    near(&rates(&of(&[with(1, 2.0), class(0)]), &[1], mbit(10.0), 21), &[2.0, 0.0], 0.002);
    near(
        &rates(&of(&[with(1, 0.5), with(2, 0.3), with(0, 4.0)]), &[1, 2, 0], mbit(10.0), 21),
        &[0.5, 0.3, 4.0],
        0.004,
    );
    // A share that a ceiling cuts goes to the others.
    near(
        &rates(&of(&[with(1, 2.0), class(2), class(0)]), &[1, 2, 0], mbit(9.0), 21),
        &[2.0, 3.5, 3.5],
        0.005,
    );
    let all = Config { ceil: Some(mbit(6.0)), ..of(&[with(1, 2.0), class(0)]) };
    near(&rates(&all, &[1, 0], mbit(10.0), 21), &[2.0, 4.0], 0.005);
    near(&rates(&all, &[0], mbit(10.0), 21), &[0.0, 6.0], 0.002);
}

#[test]
fn priority_is_strict_beyond_guaranteed_rates() {
    let of_priority = |n, priority| Class { priority, ..class(n) };
    let classes = [of_priority(1, 0), of_priority(2, 1), of_priority(0, 7)];
    near(&rates(&of(&classes), &[1, 2, 0], mbit(10.0), 5), &[10.0, 0.0, 0.0], 0.002);
    near(&rates(&of(&classes), &[2, 0], mbit(10.0), 5), &[0.0, 10.0, 0.0], 0.002);
    let mut guarded = classes.clone();
    guarded[2].rate = Some(mbit(1.0));
    guarded[0].ceil = Some(mbit(4.0));
    near(&rates(&of(&guarded), &[1, 2, 0], mbit(10.0), 21), &[4.0, 5.0, 1.0], 0.005);
}

#[test]
fn weights_share_bytes_and_not_packets() {
    let (mut queue, mut stream) =
        (build(&of(&[Class { weight: 3, ..class(1) }, class(0)])), RandomStream::new(1, "classes"));
    for _ in 0..20_000 {
        queue.enqueue(packet(1, 300, 0), Time::ZERO, &mut stream);
        queue.enqueue(packet(0, 1200, 0), Time::ZERO, &mut stream);
    }
    let mut bytes = [0_u64; 2];
    for _ in 0..10_000 {
        let packet = queue.dequeue(Time::ZERO).expect("a packet");
        bytes[usize::from(queue.class(&packet))] += packet.len() as u64;
    }
    assert!(bytes[0].abs_diff(3 * bytes[1]) <= 3 * 1500 + 4500, "{bytes:?}");
}

#[test]
fn a_burst_may_leave_at_once_and_a_debt_is_a_packet() {
    let capped = Class { ceil: Some(mbit(1.0)), cburst: Bytes::new(4000), ..class(1) };
    let (mut queue, mut stream) = (build(&of(&[capped, class(0)])), RandomStream::new(1, "classes"));
    (0..10).for_each(|n| queue.enqueue(packet(1, 1000, n), Time::ZERO, &mut stream));
    let sent = std::iter::from_fn(|| queue.dequeue(Time::ZERO)).count();
    assert_eq!(sent, 5, "4000 B of tokens, and a packet that is paid for later");
    assert_eq!(queue.ready(), at(8 * MS));
    assert!(queue.dequeue(at(8 * MS - 1)).is_none());
    assert!(queue.dequeue(at(8 * MS)).is_some());
    // Others are not held up by it.
    queue.enqueue(packet(0, 1000, 0), at(9 * MS), &mut stream);
    assert_eq!(queue.ready(), Time::ZERO);
    assert_eq!(queue.dequeue(at(9 * MS)).map(|packet| dscp_of(&packet)), Some(0));
}

#[test]
fn a_packet_that_finds_an_idle_line_is_held_back_too() {
    let config = of(&[Class { ceil: Some(mbit(1.0)), ..class(1) }, class(0)]);
    let (mut queue, mut stream) = (build(&config), RandomStream::new(1, "classes"));
    for n in 0..2 {
        assert!(queue.pass(packet(1, 1500, n), at(0), at(0), &mut stream).is_some());
    }
    assert!(
        queue.pass(packet(1, 1500, 2), at(0), at(0), &mut stream).is_none(),
        "1600 B are in debt by 1400"
    );
    assert_eq!((queue.packets(), queue.ready()), (1, at(8 * 1400 * 1000)));
    assert_eq!(queue.dequeue(queue.ready()).map(|packet| number_of(&packet)), Some(2));
    assert_eq!((queue.packets(), queue.ready()), (0, Time::NEVER));
}

/// Runs a line of 10 Mbit/s with a class of 1 Mbit/s and another one, and returns the instants at which packets arrive.
fn arrivals(delay: u64, sent: &[(u64, u8)]) -> Vec<(u64, u8)> {
    let config = of(&[Class { ceil: Some(mbit(1.0)), cburst: Bytes::new(1), ..class(1) }, class(0)]);
    let link = LinkConfig {
        rate: Some(mbit(10.0)),
        delay: Span::from_millis(delay),
        queue: Discipline::Classes(config),
        ..LinkConfig::default()
    };
    let mut rig = Harness::new(Link::new(&link).expect("possible"));
    for (when, dscp) in sent {
        rig.receive(*when, 0, packet(*dscp, 1250, 0));
    }
    rig.run_until(1000 * MS);
    rig.out.iter().map(|(at, _, packet)| (at.as_nanos(), dscp_of(packet))).collect()
}

/// A packet takes 1 ms, and 100 ms of propagation. One of the held class leaves 10 ms after the last, but for 8 us of tokens.
#[test]
fn a_line_waits_for_a_class_and_lets_others_pass() {
    let held = 10 * MS - 8000;
    let alone = arrivals(100, &[(0, 1), (0, 1), (0, 1)]);
    assert_eq!(alone, [(101 * MS, 1), (101 * MS + held, 1), (111 * MS + held, 1)]);
    // Another class has the line meanwhile, at once.
    let mixed = arrivals(100, &[(0, 1), (0, 1), (5 * MS, 0), (5 * MS, 0)]);
    assert_eq!(mixed, [(101 * MS, 1), (106 * MS, 0), (107 * MS, 0), (101 * MS + held, 1)]);
    // One on the line at the instant of release delays the held one.
    let behind = arrivals(100, &[(0, 1), (0, 1), (held - MS / 2, 0)]);
    assert_eq!(behind, [(101 * MS, 1), (held + 100 * MS + MS / 2, 0), (held + 101 * MS + MS / 2, 1)]);
    // After the pipe has run empty, the line wakes for it.
    let late = arrivals(2, &[(300 * MS, 1), (300 * MS, 1), (304 * MS, 1)]);
    assert_eq!(late, [(303 * MS, 1), (303 * MS + held, 1), (313 * MS + held, 1)]);
}

#[test]
fn each_class_has_its_discipline() {
    let codel = CoDelConfig {
        target: Span::from_millis(1),
        interval: Span::from_millis(10),
        ..CoDelConfig::default()
    };
    let few = Leaf::DropTail(DropTailConfig { packets: Some(2), bytes: None });
    let config = of(&[Class { queue: few, ..class(1) }, Class { queue: Leaf::CoDel(codel), ..class(0) }]);
    let (mut queue, mut stream) = (build(&config), RandomStream::new(1, "classes"));
    for n in 0..4 {
        queue.enqueue(packet(1, 1000, n), Time::ZERO, &mut stream);
        queue.enqueue(packet(0, 1000, n), Time::ZERO, &mut stream);
    }
    assert_eq!((queue.packets(), queue.bytes()), (6, 6000));
    assert_eq!(queue.members[0].dropped(), 2);
    for step in 0..6 {
        queue.dequeue(at(step * 20 * MS));
    }
    assert!(queue.members[1].dropped() > 0, "CoDel drops at departures");
    let all: u64 = queue.members.iter().map(|member| member.sent + member.dropped()).sum();
    assert_eq!((all, queue.packets()), (8, 0));
}

#[test]
fn changes_hold_from_their_instant_on() {
    let capped = |ceil: f64| of(&[Class { ceil: Some(mbit(ceil)), ..class(1) }, class(0)]);
    let (mut queue, mut stream) = (build(&capped(1.0)), RandomStream::new(1, "classes"));
    (0..10).for_each(|n| queue.enqueue(packet(1, 1600, n), Time::ZERO, &mut stream));
    while queue.dequeue(Time::ZERO).is_some() {}
    let debt = 1600 * 8 * 1000;
    assert_eq!(queue.ready(), at(debt));
    queue.set(&Discipline::Classes(capped(2.0)), at(debt / 2)).expect("the same classes");
    assert_eq!(queue.ready(), at(debt / 2 + debt / 4));
    // Without a ceiling nothing is held back.
    queue.set(&Discipline::Classes(of(&[class(1), class(0)])), at(debt / 2)).expect("the same classes");
    assert_eq!(queue.ready(), Time::ZERO);
    let mut priorities = of(&[Class { priority: 3, ..class(1) }, class(0)]);
    queue.set(&Discipline::Classes(priorities.clone()), at(debt)).expect("the same classes");
    queue.enqueue(packet(0, 100, 0), at(debt), &mut stream);
    assert_eq!(queue.dequeue(at(debt)).map(|packet| dscp_of(&packet)), Some(0));
    // A refusal changes nothing.
    priorities.class[0].queue = Leaf::DropTail(DropTailConfig { packets: Some(0), bytes: None });
    priorities.class[1].queue = Leaf::CoDel(CoDelConfig::default());
    let refusal = queue.set(&Discipline::Classes(priorities), at(debt)).expect_err("another discipline");
    assert_eq!(refusal.path(), "class.2.queue.kind");
    queue.enqueue(packet(1, 100, 0), at(debt), &mut stream);
    assert_eq!(queue.members[0].dropped(), 0);
    assert!(queue.set(&Discipline::Classes(of(&[class(2), class(0)])), at(debt)).is_err());
    assert!(queue.set(&Discipline::default(), at(debt)).is_err());
}

#[test]
fn packets_are_classified_by_codepoint() {
    let config = of(&[Class { dscp: dscps(&[46, 44]), ..class(1) }, class(0), class(8)]);
    let queue = build(&config);
    let numbers = [46, 44, 8, 0, 10, 63].map(|dscp| queue.class(&packet(dscp, 100, 0)));
    assert_eq!(numbers, [0, 0, 2, 1, 1, 1]);
    assert_eq!(queue.class(&Packet::new(0, 46)), 1, "not an IP packet");
    assert_eq!(config.class_of(44).map(|class| &*class.name), Some("c1"));
    assert_eq!(config.class_of(10).map(|class| &*class.name), Some("c0"));
    assert_eq!(of(&[Class { rate: Some(mbit(2.0)), ..class(1) }, class(0)]).guaranteed(), mbit(2.0));
}

#[test]
fn impossible_values_are_refused() {
    let key = |config: Config| Classes::new(&config).err().map(|error| error.path().into_owned());
    let with = |change: fn(&mut Class)| {
        let mut config = of(&[class(1), class(0)]);
        change(&mut config.class[0]);
        key(config).unwrap_or_default()
    };
    assert_eq!(with(|_| {}), "");
    assert_eq!(with(|class| class.name = "1".to_owned()), "class.1.name");
    assert_eq!(with(|class| class.name = "c0".to_owned()), "class.2.name");
    assert_eq!(with(|class| class.priority = 8), "class.1.priority");
    assert_eq!(with(|class| class.weight = 0), "class.1.weight");
    assert_eq!(with(|class| class.rate = Some(Rate::from_bps(0))), "class.1.rate");
    assert_eq!(with(|class| (class.rate, class.ceil) = (Some(mbit(2.0)), Some(mbit(1.0)))), "class.1.ceil");
    assert_eq!(with(|class| class.dscp = None), "class");
    assert_eq!(
        with(|class| class.queue = Leaf::Red(RedConfig::new(Bytes::new(2), Bytes::new(1), Bytes::new(3)))),
        "class.1.queue.max"
    );
    assert_eq!(key(of(&[])), Some("class".to_owned()));
    assert_eq!(
        key(of(&[class(1), class(0), Class { name: "x".to_owned(), ..class(1) }])),
        Some("class.3.dscp".to_owned())
    );
    let many: Vec<Class> = (0..17).map(class).collect();
    assert_eq!(key(of(&many)), Some("class".to_owned()));
    assert_eq!(key(Config { ceil: Some(Rate::from_bps(0)), ..of(&[class(0)]) }), Some("ceil".to_owned()));
}

#[test]
fn keys_are_read_and_written_back() {
    let text = r#"{ "kind": "classes", "ceil": "9 Mbit/s", "class": [
        { "name": "voice", "dscp": [46], "rate": "1 Mbit/s", "ceil": "2 Mbit/s", "queue": { "kind": "drop-tail", "packets": 20 } },
        { "name": "bulk", "priority": 1, "weight": 3, "queue": { "kind": "fq-codel" } } ] }"#;
    let read: Discipline = serde_json::from_str(text).expect("classes");
    let Discipline::Classes(config) = &read else { panic!("classes") };
    assert_eq!(config.class[1].queue, Leaf::FqCoDel(FqCoDelConfig::default()));
    assert_eq!(
        (config.class[0].ceil, config.ceil, config.class[1].rate),
        (Some(mbit(2.0)), Some(mbit(9.0)), None)
    );
    let written = serde_json::to_string(&read).expect("text");
    assert_eq!(serde_json::from_str::<Discipline>(&written).expect("classes"), read);
    let nested =
        r#"{ "kind": "classes", "class": [{ "name": "a", "queue": { "kind": "classes", "class": [] } }] }"#;
    assert!(serde_json::from_str::<Discipline>(nested).is_err());
}

/// A discipline of each kind that may lose packets.
fn leaves() -> impl Strategy<Value = Leaf> {
    prop::sample::select(vec![
        Leaf::DropTail(DropTailConfig { packets: Some(5), bytes: None }),
        Leaf::CoDel(CoDelConfig {
            target: Span::from_micros(500),
            interval: Span::from_millis(4),
            ..CoDelConfig::default()
        }),
        Leaf::FqCoDel(FqCoDelConfig { packets: 20, ..FqCoDelConfig::default() }),
        Leaf::Pie(crate::queue::PieConfig { packets: 20, ..crate::queue::PieConfig::default() }),
        Leaf::DualPi2(crate::queue::DualPi2Config { packets: 20, ..crate::queue::DualPi2Config::default() }),
    ])
}

fn any_class(n: u8) -> impl Strategy<Value = Class> {
    let rates = (prop::option::of(100_u64..2000), prop::option::of(2000_u64..9000));
    (0_u8..3, 1_u32..4, rates, 1_u64..5000, leaves()).prop_map(
        move |(priority, weight, rates, burst, queue)| {
            let rate = |kbit: u64| Rate::from_bps(1000 * kbit);
            let (rate, ceil) = (rates.0.map(rate), rates.1.map(rate));
            Class { priority, weight, rate, ceil, cburst: Bytes::new(burst), queue, ..class(n) }
        },
    )
}

proptest! {
    /// Of any classes and arrivals each packet leaves once or is counted as dropped, in order within its class, none while its
    /// class or all are in debt, and the queue is ready as long as packets wait.
    #[test]
    fn packets_leave_once_in_order_and_within_their_ceilings(
        classes in (any_class(1), any_class(2), any_class(0)),
        ceil in prop::option::of(1000_u64..9000),
        load in prop::collection::vec((0_u64..2_000_000, 0_u8..3, 60_u32..1500), 1..300),
        takes in 100_000_u64..2_000_000,
    ) {
        let ceil = ceil.map(|kbit| Rate::from_bps(1000 * kbit));
        let config = Config { ceil, ..of(&[classes.0, classes.1, classes.2]) };
        let (mut queue, mut stream) = (build(&config), RandomStream::new(1, "classes"));
        let (mut now, mut free, mut last) = (0, Time::ZERO, [None; 3]);
        let (mut sent, mut bytes) = ([0_u64; 3], [0_u64; 3]);
        let mut arrivals = load.into_iter().enumerate().map(|(n, (gap, dscp, len))| { now += gap; (now, dscp, len, n as u16) }).peekable();
        let mut count = 0;
        loop {
            let service = queue.ready().max(free);
            let arrival = arrivals.peek().map_or(Time::NEVER, |next| at(next.0));
            if arrival.is_never() && service.is_never() {
                break;
            }
            if arrival <= service {
                let (when, dscp, len, n) = arrivals.next().expect("one");
                queue.enqueue(packet(dscp, len, n), at(when), &mut stream);
                (count, free) = (count + 1, free.max(at(when)));
            } else if let Some(packet) = queue.dequeue(service) {
                let class = usize::from(queue.class(&packet));
                prop_assert!(last[class] < Some(number_of(&packet)), "order");
                last[class] = Some(number_of(&packet));
                (sent[class], bytes[class]) = (sent[class] + 1, bytes[class] + packet.len() as u64);
                free = service + Span::from_nanos(takes);
                // At most the burst, a packet in debt, and the rate since the beginning.
                let most = |rate: Option<Rate>, burst: Bytes| rate.map_or(f64::MAX, |rate| {
                    rate.as_bps() as f64 / 8.0 * service.as_secs_f64() + burst.get() as f64 + 1500.0
                });
                prop_assert!(bytes[class] as f64 <= most(config.class[class].ceil, config.class[class].cburst));
                prop_assert!(bytes.iter().sum::<u64>() as f64 <= most(config.ceil, config.cburst));
            }
            let waiting: usize = queue.members.iter().map(|member| member.queue.packets()).sum();
            prop_assert_eq!(waiting, queue.packets());
            prop_assert_eq!(queue.ready().is_never(), waiting == 0);
        }
        let dropped: u64 = queue.members.iter().map(Member::dropped).sum();
        prop_assert_eq!(sent.iter().sum::<u64>() + dropped, count);
        prop_assert_eq!((queue.packets(), queue.bytes(), queue.able, queue.timers.len()), (0, 0, 0, 0));
    }
}
