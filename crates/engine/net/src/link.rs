//! Link in one direction: a queue, a transmitter and a pipe.
//!
//! Modelled: a queue discipline, serialisation at a rate with the framing's overhead and whole nanoseconds
//! that do not drift, propagation delay that may change while packets are in flight, an MTU. Not modelled:
//! errors (a channel after the link does that), shared media, fragmentation.
//!
//! A link wakes only when a packet leaves its pipe. Nothing happens at the end of a transmission; the queue
//! is served when the link is next processed, each transmission at the instant it was due, so a discipline
//! sees true times. A packet costs one receive and one wake-up. A queue that holds packets back on an idle line
//! costs one more.

pub mod metrics;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use bentpipe_units::{Bytes, Rate, Serialiser, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::queue::{Discipline, Queue};
use crate::{Busy, Cx, Element, Framing, InvalidConfig, Observer, Packet, Port, Why};

/// A link in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The line's rate, bits per second with framing. Default: none, sending takes no time.
    pub rate: Option<Rate>,
    /// Propagation delay from the end of a transmission to the other side. Default: "0 s".
    pub delay: Span,
    /// Later values of the delay, in the order of their time. Default: none.
    pub delay_changes: Vec<DelayChange>,
    /// Link-layer overhead of each packet. Default: none.
    pub framing: Framing,
    /// The longest IP packet the link takes; longer ones are dropped. Default: no limit.
    pub mtu: Option<Bytes>,
    /// Queue in front of the transmitter. Default: drop tail of 1000 packets.
    pub queue: Discipline,
}

/// A new value of a link's delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayChange {
    /// Start of the change, from the start of the run. No default.
    pub at: Span,
    /// The delay of packets whose transmission starts then or later. No default.
    pub delay: Span,
}

/// Link in one direction: input 0 to output 0.
pub struct Link {
    queue: Box<dyn Queue>,
    /// Set while the queue may hold packets.
    backlogged: bool,
    transmitter: Transmitter,
    propagation: Propagation,
    pipe: Pipe,
    mtu: usize,
    too_big: u64,
    delivered: u64,
    delivered_bytes: u64,
}

impl Link {
    /// Creates an empty link of this configuration.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<Link, InvalidConfig> {
        Ok(Link {
            queue: config.queue.build()?,
            backlogged: false,
            transmitter: Transmitter::new(config)?,
            propagation: Propagation::new(config)?,
            pipe: Pipe::default(),
            mtu: config.mtu.map_or(usize::MAX, |mtu| usize::try_from(mtu.get()).unwrap_or(usize::MAX)),
            too_big: 0,
            delivered: 0,
            delivered_bytes: 0,
        })
    }

    /// Sets the changes of the delay, which many links may share.
    ///
    /// # Errors
    /// Returns an error if they are not in the order of their time.
    pub fn with_delay_changes(mut self, changes: Arc<[DelayChange]>) -> Result<Link, InvalidConfig> {
        ensure_order(&changes)?;
        self.propagation = Propagation::with_changes(self.propagation.delay, changes, 0);
        Ok(self)
    }

    /// Changes the rate from the next transmission on. Packets in transmission and in flight are not
    /// affected. `None`: no serialisation delay; zero: no transmissions. Poke the link afterwards.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        self.catch_up(now);
        self.transmitter.set_rate(now, rate);
    }

    /// Changes the delay of later transmissions and cancels scheduled changes. Packets in flight are not affected, and
    /// order is preserved. Poke the link afterwards.
    pub fn set_delay(&mut self, now: Time, delay: Span) {
        self.catch_up(now);
        self.propagation = Propagation::with_changes(delay, Arc::default(), 0);
    }

    /// Changes the queue's limits and parameters for later arrivals. Waiting packets are not affected.
    ///
    /// # Errors
    /// The key whose value is impossible, `kind` if it is another discipline; nothing is changed then.
    pub fn set_queue(&mut self, now: Time, discipline: &Discipline) -> Result<(), InvalidConfig> {
        self.catch_up(now);
        self.queue.set(discipline, now)
    }

    /// Returns the delay of packets whose transmission starts at `now`.
    pub fn delay(&mut self, now: Time) -> Span {
        self.catch_up(now);
        self.propagation.delay_at(now)
    }

    /// Returns the number of packets in the queue.
    pub fn queued(&self) -> usize {
        self.queue.packets()
    }

    /// Starts every transmission due by `now`, each at its own instant.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        while self.backlogged && self.transmitter.is_idle(now) {
            let start = self.transmitter.free_at;
            match self.queue.dequeue(start) {
                Some(packet) => self.transmit(packet, start),
                None if self.pause(start, now) => {}
                None => return,
            }
        }
    }

    /// Returns `true` if a packet of the queue may leave by `now`. The line idles from `start` on until then.
    fn pause(&mut self, start: Time, now: Time) -> bool {
        let ready = self.queue.ready();
        self.backlogged = !ready.is_never();
        if self.backlogged {
            // An arrival at `now` may leave at once, but not before.
            self.transmitter.free_at = ready.clamp(start, now);
        }
        ready <= now
    }

    /// Returns the next arrival at the far end, or the end of a pause.
    ///
    /// With packets in flight the queue is served when the first arrives: those that it holds back arrive later.
    #[inline]
    fn deadline(&self) -> Time {
        let arrival = self.pipe.next();
        if self.backlogged && arrival.is_never() && !self.transmitter.is_down {
            return self.queue.ready().max(self.transmitter.free_at);
        }
        arrival
    }

    /// Starts the transmission of a packet at `start`.
    #[inline]
    fn transmit(&mut self, packet: Packet, start: Time) {
        let end = self.transmitter.start(packet.len(), start);
        self.pipe.push(packet, end + self.propagation.delay_at(start));
    }
}

impl Element for Link {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now);
        if packet.len() > self.mtu {
            self.too_big += 1;
            packet.lose(Why::TooBig);
        } else if self.transmitter.is_idle(now) && !self.backlogged {
            let passed = self.queue.pass(packet, now, self.transmitter.free_at, cx.stream());
            match passed {
                Some(packet) => self.transmit(packet, now),
                None => self.backlogged = self.queue.packets() > 0,
            }
        } else {
            self.queue.enqueue(packet, now, cx.stream());
            self.backlogged = true;
            // The queue may hold others back on an idle line.
            self.catch_up(now);
        }
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now);
        while let Some(packet) = self.pipe.pop_due(now) {
            self.delivered += 1;
            self.delivered_bytes += packet.len() as u64;
            cx.emit(Port(0), packet);
        }
        self.deadline()
    }

    fn lookahead(&self) -> Span {
        self.propagation.shortest() + self.transmitter.shortest()
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.catch_up(now);
        let busy = self.transmitter.busy_until(now).as_secs_f64();
        observer.delay(self.propagation.delay_at(now));
        observer.counter(&metrics::DELIVERED, self.delivered);
        observer.counter(&metrics::DELIVERED_BYTES, self.delivered_bytes);
        observer.counter(&metrics::DROPPED_TOO_BIG, self.too_big);
        observer.gauge(&metrics::IN_FLIGHT, self.pipe.packets() as f64);
        observer.gauge(&metrics::BUSY, busy);
        observer.gauge(&metrics::UTILISATION, busy / now.as_secs_f64());
        self.queue.observe(now, observer);
        self.queue.observe_classes(now, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Turns packets into bits on the line, one after another.
struct Transmitter {
    /// Serialiser; `None` without serialisation delay.
    serialiser: Option<Serialiser>,
    framing: Framing,
    /// End of the current transmission, or of the last one.
    free_at: Time,
    /// Set while no transmission may start.
    is_down: bool,
    /// The time of all transmissions, to the end of the last one started.
    busy: Span,
}

impl Transmitter {
    fn new(config: &Config) -> Result<Transmitter, InvalidConfig> {
        let rate_is_real = config.rate.is_none_or(|rate| rate.as_bps() > 0);
        InvalidConfig::ensure(rate_is_real, "rate", "more than zero, or none for a line that takes no time")?;
        let framing = config.framing;
        let serialiser = config.rate.map(|rate| Serialiser::new(framing.usable(rate)));
        Ok(Transmitter { serialiser, framing, free_at: Time::ZERO, is_down: false, busy: Span::ZERO })
    }

    fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        let was_down = std::mem::replace(&mut self.is_down, rate == Some(Rate::from_bps(0)));
        if was_down {
            self.free_at = self.free_at.max(now);
        }
        self.serialiser = rate.map(|rate| Serialiser::new(self.framing.usable(rate)));
    }

    #[inline]
    fn is_idle(&self, now: Time) -> bool {
        self.free_at <= now && !self.is_down
    }

    /// Sends `len_bytes` from `start` on; returns when the last bit is on the line.
    #[inline]
    fn start(&mut self, len_bytes: usize, start: Time) -> Time {
        let wire_len = self.framing.wire_len(len_bytes);
        let span = self.serialiser.as_mut().map_or(Span::ZERO, |serialiser| serialiser.transmit(wire_len));
        self.busy += span;
        self.free_at = start + span;
        self.free_at
    }

    /// Returns the time spent transmitting up to `now`.
    fn busy_until(&self, now: Time) -> Span {
        Busy::of_line(self.busy, self.free_at, now)
    }

    /// Returns the minimum time of a packet, in whole nanoseconds.
    fn shortest(&self) -> Span {
        let bits = u128::from(self.framing.wire_len(1).bits());
        let nanos =
            |serialiser: &Serialiser| bits * 1_000_000_000 / u128::from(serialiser.rate().as_bps().max(1));
        Span::from_nanos(self.serialiser.as_ref().map_or(0, |serialiser| nanos(serialiser) as u64))
    }
}

/// Packets sent and in transmission, in the order of their arrival.
#[derive(Default)]
struct Pipe {
    /// The first to arrive, and when. On a line that is not busy it is the only one, and never sees the queue.
    first: Option<(Time, Packet)>,
    /// Packets after the first; empty without a first one.
    rest: VecDeque<(Time, Packet)>,
    last: Time,
}

impl Pipe {
    /// Appends a packet. A reduced delay preserves the order on a line.
    #[inline]
    fn push(&mut self, packet: Packet, arrival: Time) {
        self.last = arrival.max(self.last);
        if self.first.is_none() {
            self.first = Some((self.last, packet));
        } else {
            self.rest.push_back((self.last, packet));
        }
    }

    /// Returns the arrival time of the first packet.
    #[inline]
    fn next(&self) -> Time {
        self.first.as_ref().map_or(Time::NEVER, |(arrival, _)| *arrival)
    }

    #[inline]
    fn pop_due(&mut self, now: Time) -> Option<Packet> {
        let (_, packet) = self.first.take_if(|(arrival, _)| *arrival <= now)?;
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        Some(packet)
    }

    fn packets(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }
}

fn ensure_order(changes: &[DelayChange]) -> Result<(), InvalidConfig> {
    let in_order = changes.is_sorted_by_key(|change| change.at);
    InvalidConfig::ensure(in_order, "delay_changes", "changes in the order of their time")
}

/// Propagation delay, now and later.
struct Propagation {
    delay: Span,
    /// Changes, which copies of a link share.
    changes: Arc<[DelayChange]>,
    /// Number of the first change that does not hold yet.
    next: usize,
    /// Time of the first scheduled change.
    next_change: Time,
}

impl Propagation {
    fn new(config: &Config) -> Result<Propagation, InvalidConfig> {
        ensure_order(&config.delay_changes)?;
        Ok(Propagation::with_changes(config.delay, config.delay_changes.as_slice().into(), 0))
    }

    fn with_changes(delay: Span, changes: Arc<[DelayChange]>, next: usize) -> Propagation {
        let next_change = changes.get(next).map_or(Time::NEVER, |change| Time::ZERO + change.at);
        Propagation { delay, changes, next, next_change }
    }

    /// Returns the delay of packets sent at `now`, which never decreases.
    #[inline]
    fn delay_at(&mut self, now: Time) -> Span {
        while self.next_change <= now {
            let Some(change) = self.changes.get(self.next).copied() else { break };
            *self = Propagation::with_changes(change.delay, std::mem::take(&mut self.changes), self.next + 1);
        }
        self.delay
    }

    fn shortest(&self) -> Span {
        self.changes[self.next..].iter().map(|change| change.delay).fold(self.delay, Span::min)
    }
}

#[cfg(test)]
mod tests;
