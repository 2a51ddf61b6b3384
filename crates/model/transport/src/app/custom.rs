//! Sources of datagrams that a program registers while it runs, such as classes in Python.
//!
//! Models: UDP datagrams of any lengths at any times, numbered as those of [`Source`](super::Source). Does not model: sources that react
//! to what arrives.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_site::{
    FlowAt, FlowEnds, FlowGround, FlowTakes, PortNumbers, Problem, Switch, Switchable, TrafficKind,
};
use bentpipe_units::{Bytes, Id, RandomStream, Registered, Registry, Time};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::udp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flow::{Endpoints, Header, Template};
use super::kind::{datagram_ends, endpoints};
use super::sink::SinkConfig;
use crate::app::metrics;

/// Work of a registered source. It must depend on its arguments alone, as results are repeatable.
pub trait Script: Send {
    /// Begins the flow. `stream` is the source's own.
    fn start(&mut self, now: Time, stream: &mut RandomStream, done: &mut Done);

    /// Handles a wake-up.
    fn wake(&mut self, now: Time, done: &mut Done);
}

/// Result of a call to a [`Script`]. The next call gets it without datagrams.
#[derive(Debug)]
pub struct Done {
    /// Payloads of datagrams to send, in bytes. They are kept within [`Facts::min_payload`] and [`Facts::max_payload`].
    pub sent: Vec<u64>,
    /// Time of the next wake-up, not in the past; [`Time::NEVER`] for the end.
    pub wake: Time,
}

/// Path of a flow, as its source knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Least payload of a datagram: its number.
    pub min_payload: Bytes,
    /// Longest payload that passes without fragmentation.
    pub max_payload: Bytes,
}

type Make = dyn Fn(&Facts) -> Box<dyn Script> + Send + Sync;

/// Maker of the source of a flow or copy.
pub struct Maker(Box<Make>);

impl Registered for Maker {
    const WORD: &str = "source";

    fn registry() -> &'static Registry<Maker> {
        static REGISTERED: Registry<Maker> = Registry::new();
        &REGISTERED
    }
}

/// UDP datagrams of a class in Python, for trying ideas. Each call of it takes some 2 µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Config {
    /// Identifier under which the program registered it.
    #[schemars(with = "String")]
    pub id: Id<Maker>,
    /// Differentiated services codepoint.
    #[serde(default)]
    #[schemars(range(min = 0, max = 63))]
    pub dscp: u8,
}

/// Registers a source under an identifier: see [`Registry::register`].
pub fn register(id: &str, make: impl Fn(&Facts) -> Box<dyn Script> + Send + Sync + 'static) -> Config {
    Config { id: Maker::registry().register(id, Maker(Box::new(make))), dscp: 0 }
}

impl TrafficKind for Config {
    fn takes(&self) -> FlowTakes {
        FlowTakes { groups: true, ..FlowTakes::default() }
    }

    fn unknown_rate(&self) -> Option<&'static str> {
        Some("a program decides what it sends")
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let header = Header::Sequence;
        let min_payload = Bytes::new(header.len_bytes() as u64);
        at.ensure_fits(min_payload, udp::HEADER_LEN as u64, "id")?;
        let headers = bentpipe_site::header_len(at.ip, udp::HEADER_LEN as u64).get();
        let max_payload = Bytes::new((at.mtu.get() - headers).min(65_000));
        let datagrams = ground.datagrams(at, Protocol::UDP, PortNumbers::consecutive(1))?;
        let ends = endpoints(&datagrams);
        let make = |payload| Template::new(ends, payload, header, self.dscp);
        let template = make(header.len_bytes()).map_err(|error| at.impossible("", &error))?;
        let facts = Facts { min_payload, max_payload };
        let source = Custom {
            script: (self.id.value().0)(&facts),
            done: Done { sent: Vec::new(), wake: Time::ZERO + at.start },
            facts,
            stop: at.stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
            ends,
            dscp: self.dscp,
            template,
            is_started: false,
            over: Time::ZERO,
            is_active: true,
            sent: 0,
            sent_bytes: 0,
        };
        let sink =
            SinkConfig { first_port: datagrams.destination.port(), count: 1, header, shared_ports: false };
        let mut ends = datagram_ends(source, sink, &datagrams);
        ends.sender.switch = Some(Switch::of::<Custom>());
        Ok(ends)
    }
}

/// Source around a [`Script`]: sends at port 0 and ignores received packets.
struct Custom {
    script: Box<dyn Script>,
    done: Done,
    facts: Facts,
    stop: Time,
    ends: Endpoints,
    dscp: u8,
    /// Packets of the last length.
    template: Template,
    is_started: bool,
    /// Time at which the flow is over, once its wake-ups have ended.
    over: Time,
    /// Clear while the source is turned off: datagrams are left out.
    is_active: bool,
    sent: u64,
    sent_bytes: u64,
}

impl Custom {
    fn call(&mut self, cx: &mut Cx<'_>) {
        self.done.wake = Time::NEVER;
        if self.is_started {
            self.script.wake(cx.now(), &mut self.done);
        } else {
            self.is_started = true;
            self.script.start(cx.now(), cx.stream(), &mut self.done);
        }
        let mut sent = std::mem::take(&mut self.done.sent);
        if self.is_active {
            sent.iter().for_each(|payload| self.send(*payload, cx));
        }
        sent.clear();
        self.done.sent = sent;
        if self.done.wake.is_never() {
            self.over = cx.now();
        } else if self.done.wake >= self.stop {
            self.over = self.stop;
            self.done.wake = Time::NEVER;
        }
    }

    fn send(&mut self, payload: u64, cx: &mut Cx<'_>) {
        let (least, most) = (self.facts.min_payload.get(), self.facts.max_payload.get());
        let payload = payload.clamp(least, most) as usize;
        if self.template.payload_len() != payload {
            // All that could be wrong was checked with the first one.
            let Ok(template) = Template::new(self.ends, payload, Header::Sequence, self.dscp) else { return };
            self.template = template;
        }
        let packet = self.template.packet(0, self.sent, cx.now());
        self.sent += 1;
        self.sent_bytes += packet.len() as u64;
        cx.emit(Port(0), packet);
    }
}

impl Switchable for Custom {
    fn set_active(&mut self, _now: Time, active: bool) {
        self.is_active = active;
    }
}

impl Element for Custom {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        self.done.wake
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.done.wake <= cx.now() {
            self.call(cx);
        }
        self.done.wake.max(cx.now())
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::SENT, self.sent);
        observer.counter(&metrics::SENT_BYTES, self.sent_bytes);
        let is_over = self.is_started && self.done.wake.is_never();
        metrics::observe_end(is_over.then_some(self.over), now, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
