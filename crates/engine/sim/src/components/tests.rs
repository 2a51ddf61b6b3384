//! Components, against the same network in the order of time.

use std::any::Any;
use std::sync::{Arc, Mutex};

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_units::Span;

use super::*;
use crate::{Builder, Network};

/// Passes on what comes after a random delay, with its own count of packets in it, and writes down when it does so.
struct Passer {
    waiting: Vec<(Time, u64)>,
    passed: u64,
    diary: Arc<Mutex<Vec<Time>>>,
}

impl Passer {
    fn next(&self) -> Time {
        self.waiting.iter().map(|(time, _)| *time).min().unwrap_or(Time::NEVER)
    }
}

impl Element for Passer {
    fn receive(&mut self, _: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        // Often at the very instant at which others do.
        let delay = Span::from_micros(250) * (1 + cx.stream().exponential(3.0) as u64);
        self.waiting.push((cx.now() + delay, packet.digest()));
        self.next()
    }
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.diary.lock().expect("a diary").push(cx.now());
        if cx.now() == Time::ZERO {
            self.waiting.extend([(Time::ZERO, 1), (Time::ZERO, 2)]);
        }
        let now = cx.now();
        for (_, digest) in self.waiting.extract_if(.., |(time, _)| *time <= now) {
            self.passed = self.passed.wrapping_mul(31).wrapping_add(digest ^ now.as_nanos());
            let mut packet = Packet::new(8, 0);
            packet.header_mut().copy_from_slice(&self.passed.to_le_bytes());
            cx.emit(Port(0), packet);
        }
        self.next()
    }
    fn lookahead(&self) -> Span {
        Span::from_micros(250)
    }
    fn observe(&mut self, _: Time, _: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Three rings of four passers, whose numbers are mixed, and one passer without a wire.
fn network(seed: u64) -> (Network, Arc<Mutex<Vec<Time>>>) {
    let (mut builder, diary) = (Builder::new(seed), Arc::default());
    let passer = |diary: &Arc<Mutex<Vec<Time>>>| Passer {
        waiting: Vec::new(),
        passed: seed,
        diary: Arc::clone(diary),
    };
    let ids: Vec<_> = (0..13).map(|n| builder.add(n.to_string(), passer(&diary))).collect();
    (0..12).for_each(|n| builder.connect((ids[n], Port(0)), (ids[(n + 3) % 12], Port(0))));
    (builder.build().expect("no loop without delay"), diary)
}

#[test]
fn components_are_what_wires_connect() {
    let (network, _) = network(1);
    let expected: [&[u32]; 4] = [&[0, 3, 6, 9], &[1, 4, 7, 10], &[2, 5, 8, 11], &[12]];
    assert_eq!(network.components().members(), expected);
}

#[test]
fn executing_components_one_after_the_other_changes_nothing() {
    let end = Time::ZERO + Span::from_millis(300);
    for seed in 0..40 {
        let (mut apart, diary) = network(seed);
        apart.run_until(end);
        let (mut turns, in_turns) = network(seed);
        let first = turns.ids().next().expect("an element");
        turns.tap(first, Port(0), |_, _| {});
        turns.run_until(end);
        let (mut steps, _) = network(seed);
        (1..=300).for_each(|step| steps.run_until(Time::ZERO + Span::from_millis(step)));
        // Within a run order may be asked for as well.
        let (mut late, _) = network(seed);
        late.run_until(Time::ZERO + Span::from_millis(100));
        late.tap(first, Port(0), |_, _| {});
        late.run_until(end);
        for other in [&turns, &steps, &late] {
            assert_eq!((apart.fingerprint(), apart.work()), (other.fingerprint(), other.work()), "{seed}");
            assert_eq!((apart.now(), apart.next_deadline()), (end, other.next_deadline()));
        }
        assert!(in_turns.lock().expect("a diary").is_sorted());
        // A comparison in which all is in the order of time would be worth nothing.
        let diary = diary.lock().expect("a diary");
        assert_eq!(diary.windows(2).filter(|pair| pair[1] < pair[0]).count(), 3, "{} entries", diary.len());
    }
}

#[test]
fn actions_and_packets_from_outside_are_at_their_time() {
    let (mut network, diary) = network(7);
    let last = network.ids().last().expect("an element");
    let at = Time::ZERO + Span::from_millis(5);
    network.schedule(at, move |network| {
        assert_eq!(network.now(), Time::ZERO + Span::from_millis(5));
        network.inject(last, Port(0), Packet::new(8, 0));
    });
    network.run_until(at);
    diary.lock().expect("a diary").clear();
    network.run_until(at);
    assert!(diary.lock().expect("a diary").is_empty(), "the passer without a wire waits");
    network.run_until(at + Span::from_millis(50));
    assert!(network.unrouted_packets() >= 3, "two of its own at the start, and the one from outside");
}
