use std::sync::{Arc, Mutex};

use bentpipe_units::Span;

use super::*;

/// Passes every packet on after a fixed delay, and asks for a far timer that moves later each time.
struct Delay {
    delay: Span,
    waiting: std::collections::VecDeque<(Time, Packet)>,
    passed: u64,
}

impl Delay {
    fn new(delay: Span) -> Delay {
        Delay { delay, waiting: Default::default(), passed: 0 }
    }
}

impl Element for Delay {
    fn receive(&mut self, _: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.waiting.push_back((cx.now() + self.delay, packet));
        self.wake(cx)
    }
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while self.waiting.front().is_some_and(|(due, _)| *due <= cx.now()) {
            let (_, packet) = self.waiting.pop_front().expect("just seen");
            self.passed += 1;
            cx.emit(Port(0), packet);
        }
        self.waiting.front().map_or(cx.now() + Span::from_secs(1), |(due, _)| *due)
    }
    fn lookahead(&self) -> Span {
        self.delay
    }
    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        observer.counter(&bentpipe_net::node::metrics::FORWARDED, self.passed);
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

fn ring(delays: &[Span]) -> Result<Network, BuildError> {
    let mut builder = Builder::new(1);
    let ids: Vec<ElementId> = delays
        .iter()
        .enumerate()
        .map(|(i, &delay)| builder.add(format!("delay/{i}"), Delay::new(delay)))
        .collect();
    for (i, &id) in ids.iter().enumerate() {
        builder.connect((id, Port(0)), (ids[(i + 1) % ids.len()], Port(0)));
    }
    builder.build()
}

#[test]
fn a_packet_goes_round_with_the_loop_time() {
    let mut network = ring(&[Span::from_millis(3), Span::from_millis(7)]).expect("delays");
    let first = network.ids().next().expect("one");
    network.inject(first, Port(0), Packet::new(20, 0));
    network.run_until(Time::ZERO + Span::from_millis(100));
    assert_eq!(network.element::<Delay>(first).expect("a delay").passed, 10);
    assert_eq!(network.now(), Time::from_nanos(100_000_000));
}

#[test]
fn the_same_run_has_the_same_fingerprint_in_one_step_or_many() {
    let run = |steps: u64| {
        let mut network = ring(&[Span::from_millis(3), Span::from_millis(7)]).expect("delays");
        let first = network.ids().next().expect("one");
        network.inject(first, Port(0), Packet::new(20, 0));
        (1..=steps).for_each(|i| network.run_until(Time::ZERO + Span::from_millis(100) * i / steps));
        network.fingerprint()
    };
    assert_eq!(run(1), run(37));
}

#[test]
fn loops_without_delay_are_refused_by_name() {
    let error = ring(&[Span::ZERO, Span::ZERO]).err().expect("refused");
    assert!(
        error.to_string().contains("delay/0 -> delay/1") || error.to_string().contains("delay/1 -> delay/0")
    );
    assert!(ring(&[Span::ZERO, Span::from_nanos(1)]).is_ok());
}

#[test]
fn two_elements_of_one_path_are_refused() {
    let mut builder = Builder::new(1);
    builder.add("a", Delay::new(Span::ZERO));
    builder.add("a", Delay::new(Span::ZERO));
    assert_eq!(builder.build().err(), Some(BuildError::SameName("a".into())));
}

#[test]
fn taps_see_and_unconnected_outputs_count() {
    let mut builder = Builder::new(1);
    let id = builder.add("a", Delay::new(Span::from_millis(1)));
    let mut network = builder.build().expect("fine");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    network.tap(id, Port(0), move |now, packet| log.lock().expect("log").push((now, packet.len())));
    network.inject(id, Port(0), Packet::new(20, 5));
    network.run_until(Time::from_nanos(2_000_000));
    assert_eq!(*seen.lock().expect("log"), [(Time::ZERO, 25)]);
    assert_eq!(network.unrouted_packets(), 1);
}

#[test]
fn scheduled_actions_run_at_their_time_behind_all_else_of_it() {
    let mut network = ring(&[Span::from_millis(3), Span::from_millis(7)]).expect("delays");
    let first = network.ids().next().expect("one");
    network.inject(first, Port(0), Packet::new(0, 100));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let action = |name: &'static str| {
        let seen = Arc::clone(&seen);
        move |network: &mut Network| {
            let passed = network.element::<Delay>(first).expect("a delay").passed;
            seen.lock().expect("a lock").push((name, network.now().as_nanos() / 1_000_000, passed));
        }
    };
    network.schedule(Time::ZERO + Span::from_millis(13), action("later"));
    network.schedule(Time::ZERO + Span::from_millis(3), action("sooner"));
    network.schedule(Time::ZERO + Span::from_millis(13), action("last"));
    assert_eq!(network.next_deadline(), Time::ZERO);
    network.run_until(Time::ZERO + Span::from_millis(4));
    network.run_until(Time::ZERO + Span::from_millis(30));
    network.schedule(Time::ZERO + Span::from_millis(2), action("past"));
    network.run_until(Time::ZERO + Span::from_millis(31));
    let expected = [("sooner", 3, 1), ("later", 13, 2), ("last", 13, 2), ("past", 30, 3)];
    assert_eq!(*seen.lock().expect("a lock"), expected);
}
