//! The contract between elements and whatever runs them.

use std::collections::VecDeque;

use bentpipe_units::{Span, Stream, Time};

use crate::Packet;

/// An input or output of an element. Inputs and outputs are numbered separately, each from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

/// A piece of a node or link: a queue, a channel, one end of a TCP connection.
pub trait Element: Send {
    /// Takes a packet that arrives at an input. Returns when to be woken next ([`Time::NEVER`]: not at all), which
    /// replaces what was said before.
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time;

    /// Called when the time asked for has come, and once at the start of the run. Returns when to be woken next.
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time;

    /// The smallest time from a packet coming in to a packet going out because of it. A loop of elements without
    /// any is refused when the network is built.
    fn lookahead(&self) -> Span {
        Span::ZERO
    }

    /// For how long after a packet came in nothing comes of it, nor of the order in which packets came in at different inputs: until
    /// then the element is not woken and sends nothing because of it. What leads to its inputs may so be run ahead, one after the
    /// other, where else it would be run in turns ([`Span::ZERO`]: not at all).
    fn patience(&self) -> Span {
        Span::ZERO
    }

    /// Whether a packet that comes in at `from` can cause one to go out at `to` at once. Narrows what counts as a
    /// loop for elements whose inputs and outputs are not all connected inside.
    fn forwards(&self, _from: Port, _to: Port) -> bool {
        true
    }

    /// Reports counters and gauges as they are at `now`. May bring lazily kept state up to `now`, but never changes
    /// what happens later.
    fn observe(&mut self, now: Time, observer: &mut dyn Observer);

    /// The element itself, for whoever built it and knows what it is: a running emulation changes a link's rate so.
    fn as_any(&mut self) -> &mut dyn std::any::Any;
}

/// What a value that an element reports is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Octets.
    Bytes,
    /// Packets, segments or frames, as the name says.
    Packets,
    /// ATM cells.
    Cells,
    /// Seconds.
    Seconds,
    /// Bits per second.
    BitsPerSecond,
    /// A number of events.
    Count,
    /// A share of one.
    Ratio,
}

impl Unit {
    /// As plots and column names write it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::Bytes => "B",
            Unit::Packets => "packets",
            Unit::Cells => "cells",
            Unit::Seconds => "s",
            Unit::BitsPerSecond => "bit/s",
            Unit::Count => "count",
            Unit::Ratio => "ratio",
        }
    }
}

/// Takes down what elements report. Names are fixed for an element: the same ones at every call, in the same order.
pub trait Observer {
    /// A running total since the start, which never falls.
    fn counter(&mut self, name: &'static str, unit: Unit, total: u64);

    /// A value at this instant; NaN where there is none yet.
    fn gauge(&mut self, name: &'static str, unit: Unit, value: f64);

    /// What follows is of this part, which stands in the scenario by itself ("link/trunk/forward" of a switch). Without it,
    /// it is of the element as a whole.
    fn part(&mut self, _path: &str) {}
}

/// Where an output leads: an input of an element.
///
/// One word: written in two parts and read at once a few instructions later it would wait for its own store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Wire(u64);

impl Wire {
    /// An output that leads nowhere: packets sent there are gone, and counted.
    pub const UNCONNECTED: Wire = Wire(u64::MAX);

    /// A wire to input `port` of the element with number `to` in the network.
    #[inline]
    pub const fn new(to: u32, port: Port) -> Wire {
        Wire((to as u64) << 16 | port.0 as u64)
    }

    /// The element's number in the network.
    #[inline]
    pub const fn to(self) -> u32 {
        (self.0 >> 16) as u32
    }

    /// The input there.
    #[inline]
    pub const fn port(self) -> Port {
        Port(self.0 as u16)
    }

    /// Element and input as one number, different for each input of the network.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Whether it leads somewhere.
    #[inline]
    pub const fn is_connected(self) -> bool {
        self.0 != u64::MAX
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wire({}, {})", self.to(), self.port().0)
    }
}

/// The packets of this instant, in the order they were sent.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The first of them. Most calls send one packet, which then never sees the queue.
    first: Option<(Wire, Packet)>,
    /// Those behind it; empty if there is no first.
    rest: VecDeque<(Wire, Packet)>,
    stray: u64,
}

impl Outbox {
    /// The next packet to deliver, and where.
    #[inline]
    pub fn pop(&mut self) -> Option<(Wire, Packet)> {
        let first = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        first
    }

    /// Sends `packet` along `wire`.
    #[inline(always)]
    pub fn push(&mut self, wire: Wire, packet: Packet) {
        if !wire.is_connected() {
            self.stray += 1;
        } else if self.first.is_none() {
            self.first = Some((wire, packet));
        } else {
            self.rest.push_back((wire, packet));
        }
    }

    /// How many packets were sent to outputs that lead nowhere.
    pub fn stray(&self) -> u64 {
        self.stray
    }
}

/// What an element has while it handles a packet or a wake-up.
pub struct Cx<'a> {
    now: Time,
    wires: &'a [Wire],
    outbox: &'a mut Outbox,
    stream: &'a mut Stream,
}

impl<'a> Cx<'a> {
    /// The context of one call to one element: the engine makes these.
    #[inline]
    pub fn new(now: Time, wires: &'a [Wire], outbox: &'a mut Outbox, stream: &'a mut Stream) -> Cx<'a> {
        Cx { now, wires, outbox, stream }
    }

    /// The instant of this call.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sends a packet out at `port`; it is received on the other side at this instant, after this call.
    #[inline]
    pub fn emit(&mut self, port: Port, packet: Packet) {
        let wire = self.wires.get(usize::from(port.0)).copied().unwrap_or(Wire::UNCONNECTED);
        self.outbox.push(wire, packet);
    }

    /// The element's own random stream.
    #[inline]
    pub fn stream(&mut self) -> &mut Stream {
        self.stream
    }
}
