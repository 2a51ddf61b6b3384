use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::testing::Harness;
use bentpipe_net::{Element, Packet};
use bentpipe_units::{Bytes, Rate, Span, Time};

use super::*;

const MS: u64 = 1_000_000;
const DELAY: u64 = 250 * MS;

fn path(encapsulation: Encapsulation) -> PathConfig {
    PathConfig {
        common: None,
        name: "link/sky/forward".into(),
        dvb: Config { encapsulation, ..Config::default() },
        modcod: None,
        queue: Discipline::DropTail(DropTailConfig { packets: Some(1_000_000), bytes: None }),
        delay: Span::from_nanos(DELAY),
        mtu: Bytes::new(1500),
    }
}

fn s2(modcod: &str, es_n0_db: Option<f64>, steps: Vec<Step>) -> Line {
    Line::DvbS2 {
        symbol_rate: 5_000_000,
        modcod: modcod.parse().expect("a MODCOD"),
        frame: FrameSize::Normal,
        pilots: false,
        roll_off: RollOff::R020,
        steps,
        es_n0_db,
        margin_db: 0.5,
        reaction: Span::from_millis(100),
        input_streams: InputStreams::Single,
        tables: None,
    }
}

fn packet(len: u32) -> Packet {
    let mut packet = Packet::new(20, len - 20);
    packet.header_mut()[0] = 0x45;
    packet
}

/// Runs a sender for a second, and changes its carrier at these times.
fn run(line: &Line, changes: &[(u64, Line)], load: usize) -> Vec<(u64, usize, Vec<u8>)> {
    let encapsulation =
        if matches!(line, Line::DvbS2 { .. }) { Encapsulation::Gse } else { Encapsulation::Ule };
    let mut rig = Harness::new(Sender::new(line, &[path(encapsulation)]).expect("possible"));
    for at in (0..1000).step_by(2) {
        for (_, line) in changes.iter().filter(|(when, _)| *when == at) {
            rig.run_until(at * MS);
            rig.element.set_line(Time::from_nanos(at * MS), line).expect("possible");
            rig.poke();
        }
        (0..load).for_each(|_| rig.receive(at * MS, 0, packet(1400)));
    }
    rig.run_until(20_000 * MS);
    let bytes = |packet: &Packet| packet.carried::<Unit>().map(|unit| unit.bytes.clone()).unwrap_or_default();
    rig.out.iter().map(|(at, _, packet)| (at.as_nanos(), packet.len(), bytes(packet))).collect()
}

/// The reference is a carrier with the same signal in its `steps`.
#[test]
fn a_signal_that_is_set_is_that_of_the_steps() {
    let step = |at, es_n0_db| Step { at: Span::from_millis(at), modcod: None, es_n0_db: Some(es_n0_db) };
    let stepped = s2("QPSK 1/4", None, vec![step(0, 11.0), step(300, 1.0), step(700, 6.0)]);
    let [first, second, third] = [11.0, 1.0, 6.0].map(|signal| s2("QPSK 1/4", Some(signal), Vec::new()));
    for load in [0, 1, 4] {
        let changes = [(300, second.clone()), (700, third.clone())];
        assert!(run(&stepped, &[], load) == run(&first, &changes, load), "{load} packets at a time");
    }
    assert!(run(&stepped, &[], 4) != run(&first, &[], 4), "the signal matters");
}

#[test]
fn a_modcod_that_is_set_holds_from_the_next_frame_on() {
    let (slow, fast) = (s2("QPSK 1/2", None, Vec::new()), s2("16APSK 3/4", None, Vec::new()));
    // 32,490 symbols of QPSK at 5 Msymbol/s are 6.498 ms. The frame that has begun at 401 ms ends.
    let out = run(&slow, &[(400, fast.clone())], 8);
    let boundary = 400_000_000_u64.div_ceil(6_498_000) * 6_498_000 + DELAY;
    let before: Vec<_> = out.iter().filter(|(at, ..)| *at <= boundary).collect();
    let after: Vec<_> = out.iter().filter(|(at, ..)| *at > boundary).collect();
    assert!(before.iter().all(|(at, ..)| (at - DELAY).is_multiple_of(6_498_000)));
    // 16,290 symbols of 16APSK.
    assert_eq!(after[0].0 - boundary, 16_290 * 200);
    assert!(after.iter().take(50).all(|(at, ..)| (at - boundary).is_multiple_of(16_290 * 200)));
    // Data fields of 4016 and 6041 bytes after the header.
    assert_eq!((before[9].2.len(), after[0].2.len()), (4026, 6051));
}

#[test]
fn a_rate_that_is_set_holds_from_the_next_slot_on() {
    let line = |rate: &str, group: u32, buffers: u32| {
        let rate: Rate = rate.parse().expect("a rate");
        Line::TransportStream { rate, group, buffers, tables: None }
    };
    for (group, buffers) in [(1, 2), (6, 4)] {
        // 188 us a TS packet, then 47 us.
        let (slow, fast) = (line("8 Mbit/s", group, buffers), line("32 Mbit/s", group, buffers));
        let out = run(&slow, &[(400, fast), (600, slow.clone())], 8);
        let count = |from: u64, to: u64| {
            let range = from * MS + DELAY..to * MS + DELAY;
            out.iter().filter(|(at, ..)| range.contains(at)).count() as f64
        };
        assert!((count(200, 400) - 200e3 / 188.0).abs() < 2.0);
        assert!((count(410, 600) - 190e3 / 47.0).abs() < 2.0);
        assert!((count(620, 820) - 200e3 / 188.0).abs() < 2.0);
        assert!(out.is_sorted_by_key(|(at, ..)| *at), "in order");
        let gaps: Vec<u64> = out.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(gaps.iter().skip(1000).all(|gap| [188_000, 47_000].contains(gap)), "no slot is lost or cut");
    }
}

/// Cards and captures follow the slots of the sender, also in flight.
#[test]
fn others_follow_the_slots() {
    let line = |code_rate| Line::DvbS { symbol_rate: 1_000_000, code_rate, tables: None };
    let (slow, fast) = (line(CodeRate::Half), line(CodeRate::SevenEighths));
    let mut sender = Sender::new(&slow, &[path(Encapsulation::Ule)]).expect("possible");
    let idle = Idle::new(&slow, sender.slots());
    let slot = |n: u64| idle.ends(n).as_nanos() - idle.ends(n - 1).as_nanos();
    let before: Vec<u64> = (1..20).map(|n| idle.ends(n).as_nanos()).collect();
    // 1.632 ms and 0.9326 ms a TS packet.
    assert_eq!(slot(1000), 1_632_000);
    sender.set_line(Time::from_nanos(100 * MS), &fast).expect("possible");
    assert_eq!((1..20).map(|n| idle.ends(n).as_nanos()).collect::<Vec<_>>(), before, "the past stays");
    assert_eq!(slot(61), 1_632_000, "the slot that has begun ends");
    assert!((932_571..=932_572).contains(&slot(62)) && (932_571..=932_572).contains(&slot(1000)));
    assert!(sender.lookahead() > Span::ZERO);
}

#[test]
fn what_a_line_counts_by_stays() {
    let gse = s2("QPSK 1/2", None, Vec::new());
    let adaptive = s2("QPSK 1/2", Some(9.0), Vec::new());
    let faster = |line: &Line| {
        let mut line = line.clone();
        let Line::DvbS2 { symbol_rate, .. } = &mut line else { unreachable!() };
        *symbol_rate *= 2;
        line
    };
    assert_eq!(gse.fixed_key(&faster(&gse), true), None);
    assert_eq!(gse.fixed_key(&faster(&gse), false), Some("symbol_rate"));
    assert_eq!(gse.fixed_key(&s2("QPSK 3/4", None, Vec::new()), false), Some("modcod"));
    assert_eq!(gse.fixed_key(&adaptive, true), Some("es_n0_db"));
    assert_eq!(adaptive.fixed_key(&s2("QPSK 1/2", Some(2.0), Vec::new()), true), None);
    let other = Line::DvbS { symbol_rate: 1, code_rate: CodeRate::Half, tables: None };
    assert_eq!(gse.fixed_key(&other, true), Some(""));
    let mut sender = Sender::new(&gse, &[path(Encapsulation::Gse)]).expect("possible");
    let refusal = sender.set_line(Time::ZERO, &other).expect_err("another kind");
    assert_eq!(refusal.key, "kind");
    let signal = sender.set_line(Time::ZERO, &s2("QPSK 1/2", Some(99.0), Vec::new())).expect_err("no signal");
    assert_eq!(signal.key, "es_n0_db");
}
