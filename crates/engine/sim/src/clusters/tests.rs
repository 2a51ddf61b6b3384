//! Clusters that are executed ahead, against the same network in the order of time.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bentpipe_net::{Cx, Observer, Packet, Port};
use bentpipe_units::Time;

use super::*;
use crate::{Builder, ElementId, Network};

const MIN_REACTION_DELAY: Span = Span::from_millis(4);

/// Keeps what comes in until the oldest of it has waited for its minimum reaction delay, and then sends out all of it, in the order of time: what
/// comes in at one input to the output behind it.
#[derive(Default)]
struct Office {
    inputs: u16,
    letters: BTreeSet<(Time, u16, u64)>,
    deadline: Option<Time>,
}

impl Element for Office {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.letters.insert((cx.now(), port.0, packet.digest()));
        let due = cx.now() + MIN_REACTION_DELAY;
        *self.deadline.insert(self.deadline.map_or(due, |deadline| deadline.min(due)))
    }
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let later = self.letters.split_off(&(cx.now(), 0, 0));
        for (_, port, digest) in std::mem::replace(&mut self.letters, later) {
            let mut packet = Packet::new(8, 0);
            packet.header_mut().copy_from_slice(&digest.to_le_bytes());
            cx.emit(Port((port + 1) % self.inputs), packet);
        }
        self.deadline = self.letters.first().map(|(time, _, _)| *time + MIN_REACTION_DELAY);
        self.deadline.unwrap_or(Time::NEVER)
    }
    fn lookahead(&self) -> Span {
        Span::from_nanos(1)
    }
    fn min_reaction_delay(&self) -> Span {
        MIN_REACTION_DELAY
    }
    fn observe(&mut self, _: Time, _: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Sends at random, writes down when, and changes what passes by what passed before.
struct Writer {
    passed: u64,
    next: Time,
    diary: Arc<Mutex<Vec<Time>>>,
}

impl Element for Writer {
    fn receive(&mut self, _: Port, mut packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.passed = self.passed.wrapping_mul(31).wrapping_add(packet.digest() ^ cx.now().as_nanos());
        packet.header_mut().copy_from_slice(&self.passed.to_le_bytes());
        if self.passed.is_multiple_of(3) {
            cx.emit(Port(0), packet);
        }
        self.next
    }
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.diary.lock().expect("a diary").push(cx.now());
        let mut packet = Packet::new(8, 0);
        packet.header_mut().copy_from_slice(&self.passed.to_le_bytes());
        cx.emit(Port(0), packet);
        // Often at the very instant at which others write.
        let wait = cx.stream().exponential(5.0).ceil() as u64;
        self.next = cx.now() + Span::from_micros(250) * wait;
        self.next
    }
    fn observe(&mut self, _: Time, _: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Two offices, between which every second output leads to the other; writers in pairs, the first of which sends through the
/// second. All that was written down, too.
fn network(seed: u64) -> (Network, Arc<Mutex<Vec<Time>>>) {
    let (mut builder, diary) = (Builder::new(seed), Arc::default());
    let offices = ["a", "b"].map(|name| builder.add(name, Office { inputs: 8, ..Office::default() }));
    let writer =
        |diary: &Arc<Mutex<Vec<Time>>>| Writer { passed: seed, next: Time::ZERO, diary: Arc::clone(diary) };
    for (office, other) in [(0, 1), (1, 0)] {
        for port in (0..8).map(Port) {
            if port.0 % 2 == 1 {
                builder.connect((offices[office], port), (offices[other], port));
                continue;
            }
            let [first, second] = ["first", "second"]
                .map(|name| builder.add(format!("{office}/{}/{name}", port.0), writer(&diary)));
            builder.connect((first, Port(0)), (second, Port(0)));
            builder.connect((second, Port(0)), (offices[office], port));
            builder.connect((offices[office], port), (first, Port(0)));
        }
    }
    (builder.build().expect("no loops"), diary)
}

#[test]
fn clusters_are_connected_elements_that_do_not_defer() {
    let (network, _) = network(1);
    let clusters = network.clusters();
    let first: Vec<u32> = clusters.clusters.iter().map(|cluster| cluster.elements[0]).collect();
    assert_eq!(first, [2, 4, 6, 8, 10, 12, 14, 16]);
    assert_eq!(clusters[0], Cluster { elements: vec![2, 3], upstream: vec![0] });
    assert_eq!(clusters[7], Cluster { elements: vec![16, 17], upstream: vec![1] });
    assert_eq!((clusters.of(0), clusters.of(3), clusters.of(17)), (None, Some(0), Some(7)));
    assert_eq!(clusters.min_reaction_delay(), MIN_REACTION_DELAY);
}

#[test]
fn what_leads_to_one_input_and_what_is_large_is_not_run_ahead() {
    let mut builder = Builder::new(1);
    let office = builder.add("office", Office { inputs: 2, ..Office::default() });
    let writer = || Writer { passed: 0, next: Time::ZERO, diary: Arc::default() };
    let writers: Vec<ElementId> = (0..12).map(|n| builder.add(n.to_string(), writer())).collect();
    let leads = [(0, 0), (1, 0), (2, 1)];
    leads.into_iter().for_each(|(n, port)| builder.connect((writers[n], Port(0)), (office, Port(port))));
    (3..11).for_each(|n| builder.connect((writers[n], Port(0)), (writers[n + 1], Port(0))));
    let network = builder.build().expect("no loops");
    let clusters = network.clusters();
    assert_eq!([1, 2, 3].map(|element| clusters.of(element)), [Some(0), Some(0), Some(1)]);
    assert!((4..=12).all(|element| clusters.of(element).is_none()));
    assert_eq!(clusters[1], Cluster { elements: vec![3], upstream: Vec::new() });
}

#[test]
fn executing_clusters_ahead_changes_nothing() {
    let end = Time::ZERO + Span::from_millis(600);
    for seed in 0..40 {
        let (mut ahead, diary) = network(seed);
        ahead.run_until(end);
        let (mut turns, in_turns) = network(seed);
        let first = turns.ids().next().expect("an element");
        turns.tap(first, Port(0), |_, _| {});
        turns.run_until(end);
        let (mut steps, _) = network(seed);
        (1..=900).for_each(|step| steps.run_until(Time::ZERO + Span::from_millis(600) * step / 900));
        for other in [&turns, &steps] {
            assert_eq!((ahead.fingerprint(), ahead.work()), (other.fingerprint(), other.work()), "{seed}");
        }
        // A comparison in which nothing is run ahead would be worth nothing.
        assert!(in_turns.lock().expect("a diary").is_sorted());
        let diary = diary.lock().expect("a diary");
        let returns = diary.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(returns > 500, "{returns} times back in {}", diary.len());
    }
}
