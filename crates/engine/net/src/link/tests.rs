use super::*;
use crate::queue::DropTailConfig;
use crate::testing::{Harness, MS, ms, packet};

/// 1 byte a microsecond, 10 ms long.
fn slow() -> Config {
    Config { rate: Some(Rate::from_bps(8_000_000)), delay: ms(10), ..Config::default() }
}

fn rig(config: &Config) -> Harness<Link> {
    Harness::new(Link::new(config).expect("a possible link"))
}

#[test]
fn packets_queue_and_arrive_one_after_another() {
    let mut rig = rig(&slow());
    for len in [1000, 500, 250] {
        rig.receive(0, 0, packet(len));
    }
    rig.run_until(100 * MS);
    assert_eq!(rig.times(), [(11 * MS, 1000), (11 * MS + MS / 2, 500), (11 * MS + 3 * MS / 4, 250)]);
    assert_eq!((rig.value("delivered"), rig.value("delivered-bytes")), (3.0, 1750.0));
    assert!((rig.value("busy") - 1.75e-3).abs() < 1e-12);
    assert!((rig.value("utilisation") - 0.0175).abs() < 1e-12);
    assert_eq!(rig.value("queue-max-bytes"), 750.0);
}

#[test]
fn an_arrival_at_the_end_of_a_transmission_finds_the_line_free() {
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(0), bytes: None });
    let mut rig = rig(&Config { queue, ..slow() });
    rig.receive(0, 0, packet(1000));
    rig.receive(MS - 1, 0, packet(1000));
    rig.receive(MS, 0, packet(1000));
    rig.run_until(100 * MS);
    assert_eq!(rig.times(), [(11 * MS, 1000), (12 * MS, 1000)]);
    assert_eq!(rig.value("dropped-queue"), 1.0);
}

#[test]
fn room_in_the_queue_appears_when_a_transmission_starts() {
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(1), bytes: None });
    let mut rig = rig(&Config { queue, ..slow() });
    // Nothing wakes the link between these; each arrival sees the queue as it then is.
    for (at, queued) in [(0, 0), (1, 1), (2, 1), (MS, 1), (MS + 1, 1), (2 * MS, 1)] {
        rig.receive(at, 0, packet(1000));
        assert_eq!(rig.element.queued(), queued, "at {at}");
    }
    rig.run_until(100 * MS);
    assert_eq!(rig.out.len(), 4);
    assert_eq!(rig.value("dropped-queue"), 2.0);
}

#[test]
fn transmission_times_do_not_drift() {
    let rate = Some(Rate::from_bps(155_520_000));
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(u32::MAX), bytes: None });
    let mut rig = rig(&Config { rate, queue, ..Config::default() });
    for _ in 0..155_520 {
        rig.receive(0, 0, packet(125));
    }
    rig.run_until(2_000_000_000);
    assert_eq!(rig.times().last(), Some(&(1_000_000_000, 125)));
}

#[test]
fn framing_costs_time_and_the_mtu_is_kept() {
    let framing = Framing::Aal5LlcSnap { sdh: false };
    let mut rig = rig(&Config { framing, mtu: Some(Bytes::new(9180)), ..slow() });
    rig.receive(0, 0, packet(9181));
    rig.receive(0, 0, packet(9180));
    rig.run_until(100 * MS);
    assert_eq!(rig.times(), [(10 * MS + 192 * 53 * 1000, 9180)]);
    assert_eq!(rig.value("dropped-too-big"), 1.0);
}

#[test]
fn a_change_of_rate_leaves_what_is_sent_alone() {
    let mut rig = rig(&slow());
    for _ in 0..3 {
        rig.receive(0, 0, packet(1000));
    }
    rig.run_until(MS / 2);
    rig.element.set_rate(Time::from_nanos(MS / 2), Some(Rate::from_bps(16_000_000)));
    rig.poke();
    rig.run_until(100 * MS);
    assert_eq!(rig.times(), [(11 * MS, 1000), (11 * MS + MS / 2, 1000), (12 * MS, 1000)]);
}

#[test]
fn a_line_that_is_down_keeps_what_waits() {
    let mut rig = rig(&slow());
    for _ in 0..2 {
        rig.receive(0, 0, packet(1000));
    }
    rig.element.set_rate(Time::ZERO, Some(Rate::from_bps(0)));
    rig.run_until(50 * MS);
    assert_eq!(rig.times(), [(11 * MS, 1000)]);
    rig.element.set_rate(Time::from_nanos(50 * MS), Some(Rate::from_bps(8_000_000)));
    rig.poke();
    rig.run_until(100 * MS);
    assert_eq!(rig.times()[1..], [(61 * MS, 1000)]);
}

#[test]
fn a_change_of_delay_leaves_what_is_under_way_alone() {
    let change = |at, delay| DelayChange { at: ms(at), delay: ms(delay) };
    let delay_changes = vec![change(5, 20), change(50, 1)];
    let mut rig = rig(&Config { rate: None, delay_changes, ..slow() });
    assert_eq!(rig.element.lookahead(), ms(1));
    for at in [0, 4, 5, 49, 50, 51, 80] {
        rig.receive(at * MS, 0, packet(1000));
    }
    rig.run_until(200 * MS);
    let times: Vec<u64> = rig.times().iter().map(|(at, _)| at / MS).collect();
    // What is sent at 50 and 51 ms would be there first, but does not overtake.
    assert_eq!(times, [10, 14, 25, 69, 69, 69, 81]);
}

#[test]
fn impossible_values_are_refused() {
    let key = |config: &Config| Link::new(config).err().map(|error| error.key);
    assert_eq!(key(&Config { rate: Some(Rate::from_bps(0)), ..slow() }), Some("rate"));
    let back = |at| DelayChange { at: ms(at), delay: ms(1) };
    assert_eq!(key(&Config { delay_changes: vec![back(2), back(1)], ..slow() }), Some("delay_changes"));
}

#[test]
fn lookahead_is_delay_and_the_shortest_transmission() {
    let link = Link::new(&Config { framing: Framing::Ethernet, ..slow() }).expect("fine");
    assert_eq!(link.lookahead(), ms(10) + Span::from_micros(84));
    assert!(Link::new(&Config::default()).expect("fine").lookahead().is_zero());
}
