//! A direction of a link in a cell: its queue, its rate, and what its channel does to frames.

use bentpipe_units::{Rate, Span, Stream, Time};

use super::phy::{Exchange, OVERHEAD, Preamble, Standard};
use super::rate::{RateControl, Told};
use super::runs::Runs;
use super::signal::{Heard, Signal};
use super::{PathConfig, Refusal};
use crate::channel::{self, FrameErrors};
use crate::queue::Queue;
use crate::{Impossible, Observer, Packet, Unit};

/// What became of a frame that nobody else's collided with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It arrived, and an ACK comes back.
    Whole,
    /// Its header arrived, and a NAK comes back.
    HeaderOnly,
    /// Nothing comes back.
    Lost,
    /// It went to a group, so nothing would come back.
    ToAll {
        /// Whether it arrived.
        heard: bool,
    },
}

/// What the channel does.
enum Errors {
    None,
    Frames(FrameErrors),
    Signal(Box<Signal>),
}

/// A direction.
pub(super) struct Path {
    name: String,
    pub(super) station: usize,
    standard: Standard,
    preamble: Preamble,
    rts_bytes: u64,
    pub(super) attempts: u32,
    pub(super) delay: Span,
    mtu: u64,
    control: RateControl,
    errors: Errors,
    queue: Box<dyn Queue>,
    /// Whether the queue may hold something.
    pub(super) is_backlogged: bool,
    /// Since when nothing of it was in hand.
    pub(super) free_since: Time,
    /// The last exchange, what it was for, and its times.
    known: (usize, usize, Exchange),
    /// The time its exchanges took.
    pub(super) busy: Span,
    delivered: u64,
    delivered_bytes: u64,
    too_big: u64,
    pub(super) dropped: u64,
    sent: u64,
    wrong: u64,
    collided: u64,
    runs: Option<Box<Runs>>,
    /// By state of the signal: frames sent and wrong.
    states: [(u64, u64); 3],
}

impl Path {
    pub(super) fn new(config: &PathConfig) -> Result<Path, Refusal> {
        let refusal = |part| move |impossible| Refusal { path: 0, part, impossible };
        let wifi = &config.wifi;
        let rate = wifi.rate_number().map_err(refusal("wifi"))?;
        Impossible::unless(wifi.attempts > 0, "attempts", "at least 1").map_err(refusal("wifi"))?;
        let rates = wifi.standard.rates().len();
        Ok(Path {
            name: config.name.clone(),
            station: config.station,
            standard: wifi.standard,
            preamble: wifi.preamble,
            rts_bytes: wifi.rts.map_or(u64::MAX, |threshold| threshold.get()),
            attempts: wifi.attempts,
            delay: config.delay,
            mtu: config.mtu.get(),
            control: RateControl::new(wifi.adaptation, rate, rates),
            errors: Errors::new(config.errors.as_ref()).map_err(refusal("channel"))?,
            queue: config.queue.build().map_err(refusal("queue"))?,
            is_backlogged: false,
            free_since: Time::ZERO,
            known: (usize::MAX, 0, Exchange::default()),
            busy: Span::ZERO,
            delivered: 0,
            delivered_bytes: 0,
            too_big: 0,
            dropped: 0,
            sent: 0,
            wrong: 0,
            collided: 0,
            runs: wifi.runs.then(Box::default),
            states: [(0, 0); 3],
        })
    }

    pub(super) fn set_errors(&mut self, errors: Option<&channel::Config>) -> Result<(), Impossible> {
        self.errors = Errors::new(errors)?;
        Ok(())
    }

    /// Whether it is longer than the link takes; then it is counted.
    pub(super) fn refuses(&mut self, packet: &Packet) -> bool {
        let refuses = packet.len() as u64 > self.mtu;
        self.too_big += u64::from(refuses);
        refuses
    }

    pub(super) fn enqueue(&mut self, packet: Packet, now: Time, stream: &mut Stream) {
        self.queue.enqueue(packet, now, stream);
        self.is_backlogged = true;
    }

    /// A packet that finds nothing before it: given back, unless the discipline drops it.
    pub(super) fn pass(&mut self, packet: Packet, now: Time, stream: &mut Stream) -> Option<Packet> {
        self.queue.pass(packet, now, self.free_since.min(now), stream)
    }

    pub(super) fn dequeue(&mut self, at: Time) -> Option<Packet> {
        let next = if self.is_backlogged { self.queue.dequeue(at) } else { None };
        self.is_backlogged = next.is_some();
        next
    }

    pub(super) fn deliver(&mut self, packet: &Packet) {
        self.delivered += 1;
        self.delivered_bytes += packet.len() as u64;
    }

    /// The exchange for a packet at the present rate, those to a group at the rate of control frames.
    fn exchange(&self, packet: &Packet) -> Exchange {
        let (len, rate) = (packet.len(), self.control.rate);
        if self.known.0 == len && self.known.1 == rate {
            return self.known.2;
        }
        let rts = len as u64 >= self.rts_bytes;
        Exchange::of(self.standard, self.preamble, self.rate(), len, rts)
    }

    fn rate(&self) -> Rate {
        self.standard.rates()[self.control.rate]
    }

    /// No more than the time from the beginning of its exchange to its arrival.
    pub(super) fn least(&self, packet: &Packet) -> Span {
        let exchange = if is_to_group(packet) { self.to_group(packet) } else { self.exchange(packet) };
        exchange.lead + exchange.data + self.delay
    }

    fn to_group(&self, packet: &Packet) -> Exchange {
        let rate = self.standard.rates()[0];
        Exchange { ack: Span::ZERO, ..Exchange::of(self.standard, self.preamble, rate, packet.len(), false) }
    }

    /// The shortest time in which any packet passes.
    pub(super) fn lookahead(&self) -> Span {
        let fastest = self.standard.rates().last().copied().unwrap_or_default();
        Exchange::of(self.standard, Preamble::Short, fastest, 1, false).data + self.delay
    }

    /// Sends a frame alone.
    pub(super) fn send(&mut self, packet: &Packet, at: Time, stream: &mut Stream) -> (Sent, Exchange) {
        self.sent += 1;
        if is_to_group(packet) {
            let exchange = self.to_group(packet);
            let heard = self.hears(packet, at + exchange.lead, 0, stream) == Heard::Whole;
            return (Sent::ToAll { heard }, exchange);
        }
        let exchange = self.exchange(packet);
        self.known = (packet.len(), self.control.rate, exchange);
        let heard = self.hears(packet, at + exchange.lead, self.control.rate, stream);
        let has_cts = packet.len() as u64 >= self.rts_bytes;
        let (sent, told) = match heard {
            Heard::Whole => (Sent::Whole, Told::Acked),
            _ if has_cts => (Sent::Lost, Told::LinkError),
            Heard::Header if self.control.asks_for_nak() => (Sent::HeaderOnly, Told::LinkError),
            Heard::Header | Heard::Nothing => (Sent::Lost, Told::Silence),
        };
        self.note(told, heard != Heard::Whole, exchange.lead + exchange.data);
        (sent, exchange)
    }

    /// Sends a frame at the same time as somebody else; how long it is on the air.
    pub(super) fn collide(&mut self, packet: &Packet) -> Span {
        self.sent += 1;
        self.collided += 1;
        if is_to_group(packet) {
            return self.to_group(packet).data;
        }
        let first = self.exchange(packet).first;
        self.note(Told::Silence, true, first);
        first
    }

    fn note(&mut self, told: Told, lost: bool, on_air: Span) {
        self.control.sent(told);
        if let Some(runs) = &mut self.runs {
            runs.note(lost, on_air);
        }
    }

    fn hears(&mut self, packet: &Packet, at: Time, rate: usize, stream: &mut Stream) -> Heard {
        let bytes = packet.len() + OVERHEAD;
        let heard = match &mut self.errors {
            Errors::None => Heard::Whole,
            // These models do not say what of a frame was wrong; with a NAK the header counts as understood.
            Errors::Frames(errors) => match errors.loses(at, bytes as u64 * 8, stream) {
                true => Heard::Header,
                false => Heard::Whole,
            },
            Errors::Signal(signal) => {
                let heard = signal.hears(at, bytes, rate, stream);
                let state = &mut self.states[signal.state()];
                *state = (state.0 + 1, state.1 + u64::from(heard != Heard::Whole));
                heard
            }
        };
        self.wrong += u64::from(heard != Heard::Whole);
        heard
    }

    pub(super) fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.part(&self.name);
        observer.counter("delivered", Unit::Packets, self.delivered);
        observer.counter("delivered-bytes", Unit::Bytes, self.delivered_bytes);
        observer.counter("dropped-too-big", Unit::Packets, self.too_big);
        observer.counter("dropped-retries", Unit::Packets, self.dropped);
        observer.counter("frames-sent", Unit::Packets, self.sent);
        observer.counter("frames-wrong", Unit::Packets, self.wrong);
        observer.counter("frames-collided", Unit::Packets, self.collided);
        let busy = self.busy.as_secs_f64();
        observer.gauge("busy", Unit::Seconds, busy);
        observer.gauge("utilisation", Unit::Ratio, busy / now.as_secs_f64());
        observer.gauge("wifi-rate", Unit::BitsPerSecond, self.rate().as_bps() as f64);
        self.queue.observe(observer);
        if let Some(runs) = &self.runs {
            runs.observe(observer);
        }
        if let Errors::Signal(signal) = &self.errors {
            observer.gauge("signal-state", Unit::Count, signal.state() as f64 + 1.0);
            let names =
                [("sent-in-1", "wrong-in-1"), ("sent-in-2", "wrong-in-2"), ("sent-in-3", "wrong-in-3")];
            for ((sent_name, wrong_name), (sent, wrong)) in names.into_iter().zip(self.states) {
                observer.counter(sent_name, Unit::Packets, sent);
                observer.counter(wrong_name, Unit::Packets, wrong);
            }
        }
    }
}

impl Errors {
    fn new(config: Option<&channel::Config>) -> Result<Errors, Impossible> {
        Ok(match config {
            None => Errors::None,
            Some(channel::Config::Signal(config)) => Errors::Signal(Box::new(Signal::new(config)?)),
            Some(config) => Errors::Frames(FrameErrors::new(config)?),
        })
    }
}

/// Whether an IP packet goes to a multicast group (RFC 1112, RFC 4291).
#[inline]
fn is_to_group(packet: &Packet) -> bool {
    let header = packet.header();
    match header.first().map(|first| first >> 4) {
        Some(4) => header.get(16).is_some_and(|first| first >> 4 == 0xe),
        Some(6) => header.get(24) == Some(&0xff),
        _ => false,
    }
}
