//! Terminal: queue of IP packets, requests, and bursts in assigned slots.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use bentpipe_net::link::metrics as link_metrics;
use bentpipe_net::queue::{Discipline, Queue};
use bentpipe_net::{Busy, Cx, Element, InvalidConfig, Observer, Packet, Port, Why};
use bentpipe_units::{Bytes, Rate, Span, Time};

use super::burst::Head;
use super::cells::{Encapsulation, Packer};
use super::demand::{Contract, Demand};
use super::plan::Entry;
use super::{Config, Frame, Requests};
use crate::dama::metrics;

/// Callback that returns the rate of further packets in bits, if it is known. The terminal requests that rate at once.
/// A router that has approved a rate in the packet knows it (RFC 4782).
pub type Announcement = fn(&Packet) -> Option<Rate>;

/// Superframes for which an announced rate is requested, until it is measured.
const ANNOUNCED_FOR: u64 = 2;

/// Configuration of a terminal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TerminalConfig {
    /// Number among the terminals of the carriers, from 0.
    pub number: u16,
    /// Contract.
    pub contract: Contract,
    /// Propagation delay from the end of a burst to the other end.
    pub delay: Span,
    /// Maximum length of an IP packet. Default: the limit of the encapsulation.
    pub mtu: Option<Bytes>,
    /// Queue of packets.
    pub queue: Discipline,
}

/// Returns the maximum length of an IP packet in an encapsulation.
fn max_packet(encapsulation: Encapsulation) -> usize {
    match encapsulation {
        Encapsulation::Ule => 0x7fff - 4,
        Encapsulation::Mpe => 4096 - 16,
        Encapsulation::Gse => 0xffff - 2,
        Encapsulation::Rle | Encapsulation::RleCrc => encapsulation.rle_max(),
    }
}

/// Terminal of a return link. Input 0 is for IP packets, input 1 for its part of the burst time plan. Bursts and
/// requests leave at output 0 at their arrival time on the other side.
pub struct Terminal {
    frame: Arc<Frame>,
    /// Structure that follows.
    following: Option<Arc<Frame>>,
    contract: Contract,
    number: u16,
    delay: Span,
    mtu: usize,
    queue: Box<dyn Queue>,
    packer: Packer,
    /// Requests; `None` if it never asks.
    demand: Option<Demand>,
    announcement: Option<Announcement>,
    schedule: Schedule,
    turn: Turn,
    /// Bursts in flight, with their arrival.
    pipe: VecDeque<(Time, Packet)>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    bursts: u64,
    requests: u64,
    slots: u64,
    cells: u64,
    delivered: u64,
    delivered_bytes: u64,
    too_big: u64,
    busy: Busy,
}

impl Terminal {
    /// Creates a terminal of carriers of this structure.
    ///
    /// # Errors
    /// Returns the key whose value is not possible.
    pub fn new(config: &TerminalConfig, frame: &Arc<Frame>) -> Result<Terminal, InvalidConfig> {
        let contract = config.contract;
        let whole = contract.constant_units(frame) <= frame.units_of_one();
        InvalidConfig::ensure(whole, "dama.cra", "at most what one terminal can send")?;
        let most = max_packet(frame.encapsulation());
        let mtu = config.mtu.map_or(most, |mtu| usize::try_from(mtu.get()).unwrap_or(usize::MAX));
        Ok(Terminal {
            frame: Arc::clone(frame),
            following: None,
            contract,
            number: config.number,
            delay: config.delay,
            mtu: mtu.min(most),
            queue: config.queue.build()?,
            packer: Packer::new(frame.encapsulation()),
            demand: contract.asks().then(|| Demand::new(contract, frame)),
            announcement: None,
            schedule: Schedule::default(),
            turn: Turn::first(frame, config.number, contract.asks()),
            pipe: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    /// Adds an observer of packets that announces rates.
    pub fn with_announcement(mut self, announcement: Announcement) -> Terminal {
        self.announcement = Some(announcement);
        self
    }

    /// Changes the structure of its carriers from the first superframe on that begins after `now`.
    ///
    /// # Errors
    /// Returns the key whose value is not possible; nothing is changed then.
    pub fn set_frame(&mut self, now: Time, config: &Config) -> Result<(), InvalidConfig> {
        self.catch_up(now);
        let frame = Frame::following(config, &self.frame, now)?;
        let whole = self.contract.constant_units(&frame) <= frame.units_of_one();
        InvalidConfig::ensure(
            whole,
            "carriers",
            "as much as one terminal has of constant assignments (cra)",
        )?;
        self.following = Some(Arc::new(frame));
        Ok(())
    }

    /// Performs everything that was due by `now`, each at its own time.
    fn catch_up(&mut self, now: Time) {
        if let Some(frame) = self.following.take_if(|frame| frame.origin() <= now) {
            self.act(Time::from_nanos(frame.origin().as_nanos() - 1));
            let asks = self.contract.asks();
            self.turn = Turn::of(&frame, frame.first(), self.number, asks);
            self.demand.iter_mut().for_each(|demand| demand.follow(&frame));
            self.schedule.plans.clear();
            self.frame = frame;
        }
        self.act(now);
    }

    /// Performs what is due by `now` in the present structure.
    fn act(&mut self, now: Time) {
        loop {
            self.skip_unused(now);
            if self.is_quiet() {
                self.turn.skip(&self.frame, self.number, now);
            }
            let slot = self.schedule.next(&self.frame);
            let at = slot.min(self.turn.at);
            if at > now {
                return;
            }
            if slot <= self.turn.at {
                self.schedule.advance(&self.frame);
                self.burst(slot);
            } else {
                let at = self.turn.at;
                self.turn.advance(&self.frame, self.number);
                self.ask(at);
            }
        }
    }

    /// Skips slots up to `now` in which nothing may leave.
    fn skip_unused(&mut self, now: Time) {
        if !self.packer.is_empty() {
            return;
        }
        let ready = self.queue.ready();
        if ready > Time::ZERO {
            self.schedule.skip(&self.frame, now.min(Time::from_nanos(ready.as_nanos() - 1)));
        }
    }

    fn is_idle(&self) -> bool {
        self.packer.is_empty() && self.queue.packets() == 0
    }

    /// Returns `true` if nothing is to be sent or requested.
    fn is_quiet(&self) -> bool {
        self.is_idle() && self.demand.as_ref().is_none_or(Demand::is_quiet)
    }

    /// Returns the bytes of the backlog on the carrier.
    fn waiting(&self) -> u64 {
        self.frame.carrier_bytes(self.queue.packets(), self.queue.bytes()) + self.packer.bytes()
    }

    /// Sends a burst in the slot at `at`; there is something to send.
    fn burst(&mut self, at: Time) {
        let cells = self.frame.cells();
        while self.packer.has_room(cells)
            && let Some(packet) = self.queue.dequeue(at)
        {
            self.counts.delivered_bytes += packet.len() as u64;
            self.packer.push(packet);
        }
        let filled = self.packer.fill(cells);
        self.counts.bursts += 1;
        self.counts.cells += u64::from(filled.used);
        self.counts.delivered += filled.ends.len() as u64;
        self.counts.busy.add(at, [at, at + self.frame.slot()]);
        let requests = match self.frame.requests() {
            Requests::Piggyback => self.requests(at),
            Requests::Slots { .. } => Vec::new(),
        };
        let head = Head { terminal: self.number, cells: cells as u16, requests };
        self.send(head.packet(Some(filled), at), at + self.frame.slot());
    }

    /// Sends requests in a slot at `at`, if any.
    fn ask(&mut self, at: Time) {
        let requests = self.requests(at);
        if requests.is_empty() {
            return;
        }
        self.counts.requests += 1;
        let head = Head { terminal: self.number, cells: 0, requests };
        self.send(head.packet(None, at), at);
    }

    fn requests(&mut self, at: Time) -> Vec<super::request::Request> {
        let waiting = self.waiting();
        let assigned = self.schedule.slots_left(&self.frame) * u64::from(self.frame.cells());
        let demand = self.demand.as_mut();
        demand.map_or_else(Vec::new, |demand| demand.requests(at, waiting, assigned))
    }

    /// Inserts a burst that ends at `end`. A request may end during an earlier burst.
    fn send(&mut self, packet: Packet, end: Time) {
        let arrival = end + self.delay;
        let place = self.pipe.iter().rposition(|(other, _)| *other <= arrival).map_or(0, |last| last + 1);
        self.pipe.insert(place, (arrival, packet));
    }

    /// Returns the next known arrival at the other end, or the start of another structure.
    fn deadline(&self) -> Time {
        self.following.as_ref().map_or(Time::NEVER, |frame| frame.origin()).min(self.next_arrival())
    }

    fn next_arrival(&self) -> Time {
        let under_way = self.pipe.front().map_or(Time::NEVER, |(arrival, _)| *arrival);
        let slot = self.schedule.next(&self.frame);
        let burst = if self.is_idle() { Time::NEVER } else { slot + self.frame.slot() + self.delay };
        let request = if self.is_quiet() { Time::NEVER } else { self.turn.at + self.delay };
        under_way.min(burst).min(request)
    }

    fn take(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        if packet.len() > self.mtu {
            self.counts.too_big += 1;
            return packet.lose(Why::TooBig);
        }
        let announced = self.announcement.and_then(|announcement| announcement(&packet));
        let before = self.queue.bytes();
        let bytes = self.frame.carrier_bytes(1, packet.len() as u64);
        self.queue.enqueue(packet, cx.now(), cx.stream());
        let Some(demand) = &mut self.demand else { return };
        if self.queue.bytes() > before {
            demand.arrive(bytes);
        }
        if let Some(rate) = announced {
            // What follows is computed in packets of the longest length.
            let mtu = self.mtu as u64;
            let rate = rate.mul_f64(self.frame.carrier_bytes(1, mtu) as f64 / mtu as f64);
            demand.announce(rate, cx.now() + self.frame.superframe() * ANNOUNCED_FOR);
        }
    }

    fn plan(&mut self, packet: &Packet, now: Time) {
        let Some(entry) = Entry::parse(packet) else { return };
        self.counts.slots += entry.slots.len() as u64 * u64::from(self.frame.multiframes());
        if let Some(demand) = &mut self.demand {
            demand.assigned(entry.allocation, self.frame.cells_of_unit(), now);
        }
        self.schedule.add(&entry);
    }
}

impl Element for Terminal {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.catch_up(cx.now());
        if port == Port(0) {
            self.take(packet, cx);
        } else {
            self.plan(&packet, cx.now());
        }
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now);
        while self.pipe.front().is_some_and(|(arrival, _)| *arrival <= now) {
            let Some((_, packet)) = self.pipe.pop_front() else { break };
            cx.emit(Port(0), packet);
        }
        self.deadline()
    }

    fn lookahead(&self) -> Span {
        self.delay
    }

    /// Returns `true` if input reaches output at once, which is never. Output is delayed by at least a slot.
    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.catch_up(now);
        let counts = &self.counts;
        let sent = counts.bursts * u64::from(self.frame.cells());
        observer.counter(&link_metrics::DELIVERED, counts.delivered);
        observer.counter(&link_metrics::DELIVERED_BYTES, counts.delivered_bytes);
        observer.counter(&link_metrics::DROPPED_TOO_BIG, counts.too_big);
        observer.counter(&metrics::BURSTS, counts.bursts);
        observer.counter(&metrics::REQUESTS, counts.requests);
        observer.counter(&metrics::SLOTS_ASSIGNED, counts.slots);
        observer.counter(&metrics::CELLS, counts.cells);
        observer.counter(&metrics::CELLS_NULL, sent - counts.cells);
        let asked = self.demand.as_ref().map_or(Rate::default(), Demand::asked);
        observer.gauge(&metrics::RATE_ASKED, asked.as_bps() as f64);
        observer.gauge(&metrics::RATE_ASSIGNED, self.schedule.rate_at(&self.frame, now));
        let busy = counts.busy.until(now).as_secs_f64();
        observer.gauge(&link_metrics::BUSY, busy);
        observer.gauge(&link_metrics::UTILISATION, busy / now.as_secs_f64());
        self.queue.observe(now, observer);
        self.queue.observe_classes(now, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Assigned slots of a terminal, in this and future superframes.
#[derive(Debug, Default)]
struct Schedule {
    plans: VecDeque<Plan>,
    /// Superframe of the last plan, and its units.
    last: (u64, usize),
}

#[derive(Debug)]
struct Plan {
    superframe: u64,
    /// Slots in time order; never empty.
    slots: Vec<u16>,
    /// Next slot: multiframe, and index in `slots`.
    multiframe: u32,
    place: usize,
}

impl Schedule {
    fn add(&mut self, entry: &Entry) {
        // The plan of a superframe replaces an earlier one.
        self.plans.retain(|plan| plan.superframe != entry.superframe);
        self.last = (entry.superframe, entry.slots.len());
        if !entry.slots.is_empty() {
            let slots = entry.slots.iter().map(|slot| slot.slot).collect();
            self.plans.push_back(Plan { superframe: entry.superframe, slots, multiframe: 0, place: 0 });
        }
    }

    /// Returns the start of the next slot.
    fn next(&self, frame: &Frame) -> Time {
        self.plans.front().map_or(Time::NEVER, |plan| plan.start(frame))
    }

    fn advance(&mut self, frame: &Frame) {
        let Some(plan) = self.plans.front_mut() else { return };
        plan.place += 1;
        if plan.place == plan.slots.len() {
            (plan.multiframe, plan.place) = (plan.multiframe + 1, 0);
        }
        if plan.multiframe == frame.multiframes() {
            self.plans.pop_front();
        }
    }

    /// Skips the slots up to `now`.
    fn skip(&mut self, frame: &Frame, now: Time) {
        while let Some(plan) = self.plans.front_mut() {
            plan.skip(frame, now);
            if plan.multiframe < frame.multiframes() {
                return;
            }
            self.plans.pop_front();
        }
    }

    /// Returns the number of slots left.
    fn slots_left(&self, frame: &Frame) -> u64 {
        let left = |plan: &Plan| {
            let before = u64::from(plan.multiframe) * plan.slots.len() as u64 + plan.place as u64;
            (plan.slots.len() as u64 * u64::from(frame.multiframes())).saturating_sub(before)
        };
        self.plans.iter().map(left).sum()
    }

    /// Returns the rate of cells assigned at a time, in bits per second.
    fn rate_at(&self, frame: &Frame, now: Time) -> f64 {
        let (superframe, units) = self.last;
        let units = if superframe == frame.superframe_at(now) { units } else { 0 };
        units as f64 * frame.rate().as_bps() as f64 / f64::from(frame.slots_in_multiframe())
    }
}

impl Plan {
    fn start(&self, frame: &Frame) -> Time {
        let slot = self.slots.get(self.place).copied().unwrap_or(0);
        frame.slot_start(self.superframe, self.multiframe, slot.into())
    }

    /// Advances to the first slot after `now`, past the end if there is none.
    fn skip(&mut self, frame: &Frame, now: Time) {
        while self.multiframe < frame.multiframes()
            && frame.slot_start(self.superframe, self.multiframe + 1, 0) <= now
        {
            (self.multiframe, self.place) = (self.multiframe + 1, 0);
        }
        if self.multiframe < frame.multiframes() {
            let is_over =
                |slot: &u16| frame.slot_start(self.superframe, self.multiframe, (*slot).into()) <= now;
            self.place = self.place.max(self.slots.partition_point(is_over));
            if self.place == self.slots.len() {
                (self.multiframe, self.place) = (self.multiframe + 1, 0);
            }
        }
    }
}

/// Request opportunities of a terminal in slots for requests.
#[derive(Debug)]
struct Turn {
    superframe: u64,
    number: u32,
    at: Time,
}

impl Turn {
    /// Returns the first opportunity of a run; never if it does not ask.
    fn first(frame: &Frame, terminal: u16, asks: bool) -> Turn {
        Turn::of(frame, 0, terminal, asks)
    }

    /// Returns the first opportunity of a superframe.
    fn of(frame: &Frame, superframe: u64, terminal: u16, asks: bool) -> Turn {
        let at = if asks { frame.request_at(superframe, terminal.into(), 0) } else { Time::NEVER };
        Turn { superframe, number: 0, at }
    }

    fn advance(&mut self, frame: &Frame, terminal: u16) {
        let Requests::Slots { times, .. } = frame.requests() else { return };
        self.number += 1;
        if self.number == times {
            (self.superframe, self.number) = (self.superframe + 1, 0);
        }
        self.at = frame.request_at(self.superframe, terminal.into(), self.number);
    }

    /// Skips the opportunities up to `now`.
    fn skip(&mut self, frame: &Frame, terminal: u16, now: Time) {
        if self.at > now {
            return;
        }
        let superframe = frame.superframe_at(now).max(self.superframe);
        if superframe > self.superframe {
            (self.superframe, self.number) = (superframe, 0);
            self.at = frame.request_at(superframe, terminal.into(), 0);
        }
        while self.at <= now {
            self.advance(frame, terminal);
        }
    }
}
