//! Harness that runs one element alone, for tests.

use bentpipe_units::{RandomStream, Span, Time};

use crate::metric::{Counter, Gauge, Metric, Of};
use crate::{Cx, Element, Observer, Outbox, Packet, Port, Wire};

/// Harness that runs a single element.
pub struct Harness<E> {
    /// The element.
    pub element: E,
    wires: Vec<Wire>,
    outbox: Outbox,
    stream: RandomStream,
    deadline: Time,
    now: Time,
    /// Packets that came out, with time and output.
    pub out: Vec<(Time, Port, Packet)>,
}

impl<E: Element> Harness<E> {
    /// Creates a harness at time zero.
    pub fn new(element: E) -> Harness<E> {
        let wires = (0..64).map(|port| Wire::new(0, Port(port))).collect();
        let (outbox, stream) = (Outbox::default(), RandomStream::new(1, "rig"));
        let (now, deadline) = (Time::ZERO, Time::ZERO);
        Harness { element, wires, outbox, stream, deadline, now, out: Vec::new() }
    }

    /// Runs to `at` nanoseconds, wake-ups included.
    ///
    /// # Panics
    /// If the element asks for a deadline in the past.
    pub fn run_until(&mut self, at: u64) {
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

    /// Passes a packet in at `at` nanoseconds, after all events due by then.
    pub fn receive(&mut self, at: u64, port: u16, packet: Packet) {
        self.run_until(at);
        let mut cx = Cx::new(self.now, &self.wires, &mut self.outbox, &mut self.stream);
        self.deadline = self.element.receive(Port(port), packet, &mut cx);
        self.collect();
    }

    /// Wakes the element now, as after a change from outside.
    pub fn poke(&mut self) {
        self.deadline = self.now;
        self.run_until(self.now.as_nanos());
    }

    /// Times in nanoseconds and lengths of the packets that came out.
    pub fn times(&self) -> Vec<(u64, usize)> {
        self.out.iter().map(|(at, _, packet)| (at.as_nanos(), packet.len())).collect()
    }

    /// Returns the value that the element reports under a name.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn value(&mut self, name: &str) -> f64 {
        let mut found = Find { name, value: None };
        self.element.bring_up_to(self.now, &mut self.stream);
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
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        if metric.name == self.name {
            self.value = Some(total as f64);
        }
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        if metric.name == self.name {
            self.value = Some(value);
        }
    }
}

/// Returns a packet of `len` bytes that is not an IP packet.
pub fn packet(len: usize) -> Packet {
    Packet::new(0, len as u32)
}

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;

/// Returns a span of `millis` milliseconds.
pub fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// Checks the names and labels of a catalogue, and that each measure is made once.
///
/// # Panics
/// If they cannot, or a measure is made twice.
pub fn check_metrics(catalogue: &str, metrics: &[&Metric]) {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(!metrics.is_empty(), "{catalogue}");
    for metric in metrics {
        assert!(metric.name.chars().all(is_name) && !metric.name.is_empty(), "{catalogue}: {metric:?}");
        let is_start = |c: char| c.is_uppercase() || c.is_ascii_digit();
        assert!(metric.label.starts_with(is_start), "{catalogue}: {metric:?}");
        assert!(!metric.label.ends_with('.'), "{catalogue}: {metric:?}");
    }
    let mut names: Vec<&str> = metrics.iter().flat_map(|m| m.sums).map(|sum| sum.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    // Hosts and boxes of ATM are ends of channels alike, with their own counts.
    assert!(names.len() == all || catalogue == "atm", "{catalogue}: {names:?}");
}
