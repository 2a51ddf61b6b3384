//! Runs one element alone, for tests.

use bentpipe_units::{Span, Stream, Time};

use crate::{Cx, Element, Observer, Outbox, Packet, Port, Unit, Wire};

pub(crate) struct Rig<E> {
    pub(crate) element: E,
    wires: Vec<Wire>,
    outbox: Outbox,
    stream: Stream,
    deadline: Time,
    now: Time,
    /// What came out, when and where.
    pub(crate) out: Vec<(Time, Port, Packet)>,
}

impl<E: Element> Rig<E> {
    pub(crate) fn new(element: E) -> Rig<E> {
        let wires = (0..64).map(|port| Wire::new(0, Port(port))).collect();
        let (outbox, stream) = (Outbox::default(), Stream::new(1, "rig"));
        let (now, deadline) = (Time::ZERO, Time::ZERO);
        Rig { element, wires, outbox, stream, deadline, now, out: Vec::new() }
    }

    /// Runs to `at` nanoseconds, wake-ups included.
    pub(crate) fn run_until(&mut self, at: u64) {
        let end = Time::from_nanos(at);
        while self.deadline <= end {
            assert!(self.deadline >= self.now, "a deadline in the past");
            self.now = self.deadline;
            let mut cx = Cx::new(self.now, &self.wires, &mut self.outbox, &mut self.stream);
            self.deadline = self.element.wake(&mut cx);
            self.collect();
        }
        self.now = end;
    }

    /// Hands a packet in at `at` nanoseconds, after what was due by then.
    pub(crate) fn receive(&mut self, at: u64, port: u16, packet: Packet) {
        self.run_until(at);
        let mut cx = Cx::new(self.now, &self.wires, &mut self.outbox, &mut self.stream);
        self.deadline = self.element.receive(Port(port), packet, &mut cx);
        self.collect();
    }

    /// As after a change from outside.
    pub(crate) fn poke(&mut self) {
        self.deadline = self.now;
        self.run_until(self.now.as_nanos());
    }

    /// What came out: nanoseconds and lengths.
    pub(crate) fn times(&self) -> Vec<(u64, usize)> {
        self.out.iter().map(|(at, _, packet)| (at.as_nanos(), packet.len())).collect()
    }

    /// The value an element reports under a name.
    pub(crate) fn value(&mut self, name: &str) -> f64 {
        let mut found = Find { name, value: None };
        self.element.observe(self.now, &mut found);
        found.value.expect("a value of that name")
    }

    fn collect(&mut self) {
        while let Some((wire, packet)) = self.outbox.pop() {
            self.out.push((self.now, wire.port(), packet));
        }
    }
}

struct Find<'a> {
    name: &'a str,
    value: Option<f64>,
}

impl Observer for Find<'_> {
    fn counter(&mut self, name: &'static str, unit: Unit, total: u64) {
        self.gauge(name, unit, total as f64);
    }
    fn gauge(&mut self, name: &'static str, _unit: Unit, value: f64) {
        if name == self.name {
            self.value = Some(value);
        }
    }
}

/// A packet of `len` bytes that is no IP packet.
pub(crate) fn packet(len: usize) -> Packet {
    Packet::new(0, len as u32)
}

pub(crate) const MS: u64 = 1_000_000;

/// So many milliseconds.
pub(crate) fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}
