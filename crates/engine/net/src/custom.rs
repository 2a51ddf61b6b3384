//! Elements that a program registers while it runs, such as classes in Python.
//!
//! Models: an element in front of a link's queue, which passes packets on at once or later, changed or not, and drops or adds some. Does
//! not model: elements with several inputs or outputs.

pub mod metrics;

use std::any::Any;

use bentpipe_units::{Id, RandomStream, Rate, Registered, Registry, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ledger::{self, Entry};
use crate::{Cx, Element, Observer, Packet, Port, Why};

/// Work of a registered element. It must depend on its arguments alone, as results are repeatable.
pub trait Script: Send {
    /// Begins the run. `stream` is the element's own.
    fn start(&mut self, stream: &mut RandomStream, done: &mut Done);

    /// Handles a packet.
    fn receive(&mut self, now: Time, packet: Packet, done: &mut Done);

    /// Handles a wake-up.
    fn wake(&mut self, now: Time, done: &mut Done);
}

/// Result of a call to a [`Script`]. The next call gets it without packets, and otherwise as this call left it.
#[derive(Debug)]
pub struct Done {
    /// Packets to pass on, in their order.
    pub sent: Vec<Packet>,
    /// Number of packets dropped by this call.
    pub dropped: u64,
    /// Time of the next wake-up, not in the past; [`Time::NEVER`] for none.
    pub wake: Time,
    /// Value to record; NaN for none.
    pub value: f64,
}

type Make = dyn Fn(Rate) -> Box<dyn Script> + Send + Sync;

/// Maker of the element of a direction of a link, from the link's rate.
pub struct Maker(Box<Make>);

impl Registered for Maker {
    const WORD: &str = "element";

    fn registry() -> &'static Registry<Maker> {
        static REGISTERED: Registry<Maker> = Registry::new();
        &REGISTERED
    }
}

/// An element that is a class in Python, for trying ideas. Each call of it takes some 2 µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Identifier under which the program registered it.
    #[schemars(with = "String")]
    pub id: Id<Maker>,
}

/// Registers an element under an identifier: see [`Registry::register`].
pub fn register(id: &str, make: impl Fn(Rate) -> Box<dyn Script> + Send + Sync + 'static) -> Config {
    Config { id: Maker::registry().register(id, Maker(Box::new(make))) }
}

/// Element around a [`Script`]: input 0 to output 0.
pub struct Custom {
    script: Box<dyn Script>,
    done: Done,
    is_started: bool,
    received: u64,
    delivered: u64,
    delivered_bytes: u64,
    dropped: u64,
}

impl Custom {
    /// Creates the element of a direction with this rate.
    pub fn new(config: &Config, rate: Rate) -> Custom {
        Custom {
            script: (config.id.value().0)(rate),
            done: Done { sent: Vec::new(), dropped: 0, wake: Time::NEVER, value: f64::NAN },
            is_started: false,
            received: 0,
            delivered: 0,
            delivered_bytes: 0,
            dropped: 0,
        }
    }

    /// Starts the script, which its first call does.
    fn start(&mut self, cx: &mut Cx<'_>) {
        if !self.is_started {
            self.is_started = true;
            self.call(|script, done| script.start(cx.stream(), done));
            self.pass_on(cx);
        }
    }

    /// Calls the script. Packets that it does not keep are dropped by it.
    fn call(&mut self, call: impl FnOnce(&mut dyn Script, &mut Done)) {
        let Custom { script, done, .. } = self;
        ledger::with_entry(Entry::Dropped(Why::Policy), || call(&mut **script, done));
    }

    /// Sends what a call left, and returns the time of the next wake-up.
    fn pass_on(&mut self, cx: &mut Cx<'_>) -> Time {
        self.dropped += std::mem::take(&mut self.done.dropped);
        for packet in self.done.sent.drain(..) {
            self.delivered += 1;
            self.delivered_bytes += packet.len() as u64;
            cx.emit(Port(0), packet);
        }
        self.done.wake.max(cx.now())
    }
}

impl Element for Custom {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.start(cx);
        self.received += 1;
        self.call(|script, done| script.receive(cx.now(), packet, done));
        self.pass_on(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.start(cx);
        if self.done.wake <= cx.now() {
            self.done.wake = Time::NEVER;
            self.call(|script, done| script.wake(cx.now(), done));
        }
        self.pass_on(cx)
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::RECEIVED, self.received);
        observer.counter(&metrics::DELIVERED, self.delivered);
        observer.counter(&metrics::DELIVERED_BYTES, self.delivered_bytes);
        observer.counter(&metrics::DROPPED, self.dropped);
        observer.gauge(&metrics::VALUE, self.done.value);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_units::Span;

    use super::*;
    use crate::testing::{Harness, MS, packet};

    /// Drops every third packet, and holds the others for a millisecond.
    #[derive(Default)]
    struct Thinning {
        held: Vec<(Time, Packet)>,
        seen: u32,
    }

    impl Script for Thinning {
        fn start(&mut self, _: &mut RandomStream, done: &mut Done) {
            done.value = 0.0;
        }

        fn receive(&mut self, now: Time, packet: Packet, done: &mut Done) {
            self.seen += 1;
            done.value = f64::from(self.seen);
            if self.seen.is_multiple_of(3) {
                done.dropped += 1;
                return;
            }
            self.held.push((now + Span::from_millis(1), packet));
            done.wake = self.held[0].0;
        }

        fn wake(&mut self, _: Time, done: &mut Done) {
            done.sent.push(self.held.remove(0).1);
            done.wake = self.held.first().map_or(Time::NEVER, |held| held.0);
        }
    }

    #[test]
    fn a_script_holds_and_drops_packets() {
        let config = register("tests-element@1", |_| Box::new(Thinning::default()));
        let mut rig = Harness::new(Custom::new(&config, Rate::from_bps(1_000_000)));
        (0..6).for_each(|n| rig.receive(n * MS / 4, 0, packet(100 + n as usize)));
        rig.run_until(10 * MS);
        let times: Vec<(u64, usize)> =
            [0, 1, 3, 4].map(|n| (n * MS / 4 + MS, 100 + n as usize)).into_iter().collect();
        assert_eq!(rig.times(), times);
        let values = ["received", "delivered", "delivered-bytes", "dropped-by-element", "value"];
        assert_eq!(values.map(|name| rig.value(name)), [6.0, 4.0, 408.0, 2.0, 6.0]);
    }

    #[test]
    fn a_file_names_it_where_it_is_registered() {
        let config = register("tests-element@2", |_| Box::new(Thinning::default()));
        assert_eq!(serde_json::to_string(&config).unwrap(), r#"{"id":"tests-element@2"}"#);
        assert_eq!(serde_json::from_str::<Config>(r#"{"id":"tests-element@2"}"#).unwrap(), config);
        let error = serde_json::from_str::<Config>(r#"{"id":"x@1"}"#).unwrap_err().to_string();
        assert!(error.contains("no element \"x@1\" is registered in this process"), "{error}");
    }
}
