//! Direction of a link in a BSS: its queue, rate, and channel.

use std::collections::VecDeque;

use bentpipe_net::channel::{self, FrameErrors};
use bentpipe_net::link::metrics as link_metrics;
use bentpipe_net::queue::{Discipline, Queue};
use bentpipe_net::{Busy, InvalidConfig, Observer, Packet};
use bentpipe_units::{RandomStream, Rate, Span, Time};

use super::phy::{Exchange, OVERHEAD, Preamble, Standard};
use super::rate::{RateControl, TxResult};
use super::runs::Runs;
use super::signal::{FrameReception, Signal};
use super::{Config, PathConfig, Refusal};
use crate::wifi::metrics;

/// Maximum number of rates that wait for an exchange.
const MAX_SET_RATES: usize = 64;

/// Result of a transmission without a collision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Frame received and acknowledged.
    Whole,
    /// Header received, answered by a NAK.
    HeaderOnly,
    /// Frame lost, without an answer.
    Lost,
    /// Frame to a group, without an answer.
    ToAll {
        /// Set if it was received.
        received: bool,
    },
}

/// Errors of the channel.
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
    /// Rates that were set, for exchanges from a time on.
    set_rates: VecDeque<(Time, usize)>,
    errors: Errors,
    queue: Box<dyn Queue>,
    /// Set if the queue may have a packet that may leave.
    pub(super) is_backlogged: bool,
    /// Set if the queue holds all its packets back.
    is_held: bool,
    /// Since when nothing of it was in hand.
    pub(super) free_since: Time,
    /// Last exchange, with its packet length and rate.
    known: (usize, usize, Exchange),
    /// The time its exchanges took.
    pub(super) busy: Busy,
    delivered: u64,
    delivered_bytes: u64,
    too_big: u64,
    pub(super) dropped: u64,
    sent: u64,
    wrong: u64,
    collided: u64,
    runs: Option<Box<Runs>>,
    /// Numbers of sent and corrupted frames, by signal state.
    states: [(u64, u64); 3],
}

impl Path {
    pub(super) fn new(config: &PathConfig) -> Result<Path, Refusal> {
        let refusal = |part| move |impossible| Refusal { path: 0, part, impossible };
        let wifi = &config.wifi;
        let rate = wifi.rate_number().map_err(refusal("wifi"))?;
        InvalidConfig::ensure(wifi.attempts > 0, "attempts", "at least 1").map_err(refusal("wifi"))?;
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
            set_rates: VecDeque::new(),
            errors: Errors::new(config.errors.as_ref()).map_err(refusal("channel"))?,
            queue: config.queue.build().map_err(refusal("queue"))?,
            is_backlogged: false,
            is_held: false,
            free_since: Time::ZERO,
            known: (usize::MAX, 0, Exchange::default()),
            busy: Busy::default(),
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

    /// Sets the rate of exchanges that begin at `now` or later. Rate adaptation starts again there.
    ///
    /// # Errors
    /// Returns an error if the standard lacks the rate.
    pub(super) fn set_rate(&mut self, now: Time, wifi: &Config) -> Result<(), InvalidConfig> {
        let rate = wifi.rate_number()?;
        if self.set_rates.len() == MAX_SET_RATES {
            self.set_rates.pop_front();
        }
        self.set_rates.push_back((now, rate));
        Ok(())
    }

    /// Applies the rates that were set before an exchange at `at`.
    pub(super) fn take_rates(&mut self, at: Time) {
        while let Some((_, rate)) = self.set_rates.front().copied().filter(|(from, _)| *from <= at) {
            self.set_rates.pop_front();
            self.control.set(rate);
        }
    }

    pub(super) fn set_errors(&mut self, errors: Option<&channel::Config>) -> Result<(), InvalidConfig> {
        self.errors = Errors::new(errors.map(Into::into).as_ref())?;
        Ok(())
    }

    /// Changes the limits of the queue. Waiting packets stay.
    pub(super) fn set_queue(&mut self, now: Time, discipline: &Discipline) -> Result<(), InvalidConfig> {
        self.queue.set(discipline, now)
    }

    /// Returns `true` if the packet exceeds the link's maximum, and counts it.
    pub(super) fn refuses(&mut self, packet: &Packet) -> bool {
        let refuses = packet.len() as u64 > self.mtu;
        self.too_big += u64::from(refuses);
        refuses
    }

    pub(super) fn enqueue(&mut self, packet: Packet, now: Time, stream: &mut RandomStream) {
        self.queue.enqueue(packet, now, stream);
        self.is_backlogged = true;
    }

    /// Passes a packet that finds an empty queue, unless it is dropped or held back.
    pub(super) fn pass(&mut self, packet: Packet, now: Time, stream: &mut RandomStream) -> Option<Packet> {
        let passed = self.queue.pass(packet, now, self.free_since.min(now), stream);
        self.is_held = passed.is_none() && self.queue.packets() > 0;
        passed
    }

    pub(super) fn dequeue(&mut self, at: Time) -> Option<Packet> {
        if !self.is_backlogged {
            return None;
        }
        let next = self.queue.dequeue(at);
        self.is_backlogged = next.is_some();
        self.is_held = next.is_none() && self.queue.packets() > 0;
        next
    }

    /// Returns the instant at which the first of the packets held back may leave.
    pub(super) fn held_until(&self) -> Option<Time> {
        self.is_held.then(|| self.queue.ready())
    }

    /// Notes that packets are held back no more.
    pub(super) fn release(&mut self) {
        (self.is_backlogged, self.is_held) = (true, false);
    }

    pub(super) fn deliver(&mut self, packet: &Packet) {
        self.delivered += 1;
        self.delivered_bytes += packet.len() as u64;
    }

    /// Returns the exchange for a packet at the present rate. Those to a group have the rate of control
    /// frames.
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

    /// Returns a lower bound of the time from the exchange's beginning to the packet's arrival.
    pub(super) fn least(&self, packet: &Packet) -> Span {
        let exchange = if is_to_group(packet) { self.to_group(packet) } else { self.exchange(packet) };
        let set = self.set_rates.iter().map(|(_, rate)| self.exchange_at(packet, *rate));
        let least = set.map(|exchange| exchange.lead + exchange.data).min().unwrap_or(Span::MAX);
        (exchange.lead + exchange.data).min(least) + self.delay
    }

    /// Returns the exchange for a packet at a rate, by its number.
    fn exchange_at(&self, packet: &Packet, rate: usize) -> Exchange {
        let rts = packet.len() as u64 >= self.rts_bytes;
        Exchange::of(self.standard, self.preamble, self.standard.rates()[rate], packet.len(), rts)
    }

    fn to_group(&self, packet: &Packet) -> Exchange {
        Exchange::to_group(self.standard, self.preamble, packet.len())
    }

    /// Returns the minimum time in which any packet passes.
    pub(super) fn lookahead(&self) -> Span {
        let fastest = self.standard.rates().last().copied().unwrap_or_default();
        Exchange::of(self.standard, Preamble::Short, fastest, 1, false).data + self.delay
    }

    /// Sends a frame alone.
    pub(super) fn send(&mut self, packet: &Packet, at: Time, stream: &mut RandomStream) -> (Sent, Exchange) {
        self.sent += 1;
        if is_to_group(packet) {
            let exchange = self.to_group(packet);
            let received = self.receive(packet, at + exchange.lead, 0, stream) == FrameReception::Whole;
            return (Sent::ToAll { received }, exchange);
        }
        let exchange = self.exchange(packet);
        self.known = (packet.len(), self.control.rate, exchange);
        let reception = self.receive(packet, at + exchange.lead, self.control.rate, stream);
        let has_cts = packet.len() as u64 >= self.rts_bytes;
        let (sent, result) = match reception {
            FrameReception::Whole => (Sent::Whole, TxResult::Acked),
            _ if has_cts => (Sent::Lost, TxResult::LinkError),
            FrameReception::Header if self.control.asks_for_nak() => (Sent::HeaderOnly, TxResult::LinkError),
            FrameReception::Header | FrameReception::Nothing => (Sent::Lost, TxResult::Silence),
        };
        self.note(result, reception != FrameReception::Whole, exchange.lead + exchange.data);
        (sent, exchange)
    }

    /// Sends a frame that collides and returns its duration.
    pub(super) fn collide(&mut self, packet: &Packet) -> Span {
        self.sent += 1;
        self.collided += 1;
        if is_to_group(packet) {
            return self.to_group(packet).data;
        }
        let first = self.exchange(packet).first;
        self.note(TxResult::Silence, true, first);
        first
    }

    fn note(&mut self, result: TxResult, lost: bool, on_air: Span) {
        self.control.sent(result);
        if let Some(runs) = &mut self.runs {
            runs.note(lost, on_air);
        }
    }

    fn receive(
        &mut self,
        packet: &Packet,
        at: Time,
        rate: usize,
        stream: &mut RandomStream,
    ) -> FrameReception {
        let bytes = packet.len() + OVERHEAD;
        let reception = match &mut self.errors {
            Errors::None => FrameReception::Whole,
            // These models do not say what of a frame was wrong; with a NAK the header counts as understood.
            Errors::Frames(errors) => match errors.loses(at, bytes as u64 * 8, stream) {
                true => FrameReception::Header,
                false => FrameReception::Whole,
            },
            Errors::Signal(signal) => {
                let reception = signal.receive(at, bytes, rate, stream);
                let state = &mut self.states[signal.state()];
                *state = (state.0 + 1, state.1 + u64::from(reception != FrameReception::Whole));
                reception
            }
        };
        self.wrong += u64::from(reception != FrameReception::Whole);
        reception
    }

    pub(super) fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.part(&self.name);
        observer.counter(&link_metrics::DELIVERED, self.delivered);
        observer.counter(&link_metrics::DELIVERED_BYTES, self.delivered_bytes);
        observer.counter(&link_metrics::DROPPED_TOO_BIG, self.too_big);
        observer.counter(&metrics::DROPPED_RETRIES, self.dropped);
        observer.counter(&metrics::FRAMES_SENT, self.sent);
        observer.counter(&metrics::FRAMES_WRONG, self.wrong);
        observer.counter(&metrics::FRAMES_COLLIDED, self.collided);
        let busy = self.busy.until(now).as_secs_f64();
        observer.gauge(&link_metrics::BUSY, busy);
        observer.gauge(&link_metrics::UTILISATION, busy / now.as_secs_f64());
        let set = self.set_rates.iter().rfind(|(from, _)| *from <= now).map(|(_, rate)| *rate);
        let rate = self.standard.rates()[set.unwrap_or(self.control.rate)];
        observer.gauge(&metrics::WIFI_RATE, rate.as_bps() as f64);
        self.queue.observe(now, observer);
        if let Some(runs) = &self.runs {
            runs.observe(observer);
        }
        if let Errors::Signal(signal) = &self.errors {
            observer.gauge(&metrics::SIGNAL_STATE, signal.state() as f64 + 1.0);
            let metrics = metrics::SENT_IN.iter().zip(&metrics::WRONG_IN);
            for ((sent_in, wrong_in), (sent, wrong)) in metrics.zip(self.states) {
                observer.counter(sent_in, sent);
                observer.counter(wrong_in, wrong);
            }
        }
        self.queue.observe_classes(now, observer);
    }
}

impl Errors {
    fn new(fault: Option<&channel::LoadedFault>) -> Result<Errors, InvalidConfig> {
        let Some(fault) = fault else { return Ok(Errors::None) };
        Ok(match &fault.config {
            channel::Config::Signal(config) => Errors::Signal(Box::new(Signal::new(config)?)),
            _ => Errors::Frames(FrameErrors::new(fault)?),
        })
    }
}

/// Returns `true` if an IP packet is for a multicast group (RFC 1112, RFC 4291).
#[inline]
fn is_to_group(packet: &Packet) -> bool {
    let header = packet.header();
    match header.first().map(|first| first >> 4) {
        Some(4) => header.get(16).is_some_and(|first| first >> 4 == 0xe),
        Some(6) => header.get(24) == Some(&0xff),
        _ => false,
    }
}
