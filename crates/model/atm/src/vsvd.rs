//! Virtual source and virtual destination (ATM Forum Traffic Management 4.0: VS/VD).
//!
//! A VS/VD node between two lines ends the control loop of each ABR channel and starts another one. Modelled:
//! for each channel and side an end system by the rules of [`abr`](super::abr): the virtual destination of
//! arriving cells and the virtual source of departing ones, with a queue per channel. The standard leaves the
//! coupling of the loops to the node: the virtual destination's explicit rate is the rate that the virtual
//! source of the other side may send, times a share that falls with its queue's drain time as in ERICA+.
//! Cells of other categories pass as they arrive. Among cells that may be sent, the categories are served in
//! the order of a switch. Not modelled: measurement of the capacity that its line leaves to ABR, which is the
//! next switch's task.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_net::{Cx, Element, InvalidConfig, Observer, Packet, Peak, Port, Why};
use bentpipe_units::{Rate, Time};
use bentpipe_wire::atm::rm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::abr::{self, CongestionSignal, EndSystem, NextCell};
use super::cell::{Cell, Inbox, Kind, Vc, Word, reload, unload};
use super::erica::QueueControl;
use super::line::{self, CELL_BITS, Line};
use super::order::Order;
use super::places::Places;
use super::service::{Class, Service};
use crate::metrics;

/// Configuration of a VS/VD node for ABR channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Share of the other side's rate that is fed back, by the queue's drain time.
    pub queue: QueueControl,
    /// Maximum number of waiting data cells of a channel and direction; cells beyond are lost. Default: no
    /// limit.
    pub limit: Option<u32>,
    /// Disables the end of loops: cells of ABR pass as those of other categories do. For comparisons.
    /// Default: false.
    pub transparent: bool,
}

/// VS/VD node. Port 0 is the line of one side, 1 that of the other.
pub struct Coupling {
    config: Config,
    sides: [Side; 2],
    unknown: u64,
}

impl Coupling {
    /// Creates a node without channels between two lines, which are reported under `paths`:
    /// "line/access/return".
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(
        config: &Config,
        paths: [String; 2],
        lines: [&line::Config; 2],
    ) -> Result<Coupling, InvalidConfig> {
        config.queue.check()?;
        let [one, other] = paths;
        let sides = [Side::new(one, lines[0])?, Side::new(other, lines[1])?];
        Ok(Coupling { config: *config, sides, unknown: 0 })
    }

    /// Connects a channel; the parameters of an ABR channel hold for both of its loops.
    ///
    /// Each direction is reported under its path, that of cells which leave at side 0 first.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    ///
    /// # Panics
    /// Panics if there is a channel of this number already.
    pub fn connect(&mut self, vc: Vc, service: &Service, paths: [String; 2]) -> Result<(), InvalidConfig> {
        let abr = match service {
            Service::Abr(abr) if !self.config.transparent => Some(abr),
            _ => None,
        };
        for (side, path) in self.sides.iter_mut().zip(paths) {
            side.add(vc, service.class(), abr, path)?;
        }
        Ok(())
    }

    /// Delivers each cell in its own event: the oracle for trains.
    #[cfg(any(test, feature = "testing"))]
    pub fn disable_batching(&mut self) {
        self.sides.iter_mut().for_each(|side| side.line.disable_batching());
    }

    /// Returns a hash over all cells sent at a side and their arrival times.
    pub fn digest(&self, side: Port) -> u64 {
        self.sides[usize::from(side.0)].line.digest()
    }

    /// Processes all events before `until`, each at its own instant.
    ///
    /// At one instant, arrivals precede departures.
    fn advance(&mut self, until: Time) {
        loop {
            let heads = self.sides.each_ref().map(|side| side.inbox.head());
            let nexts = self.sides.each_ref().map(Side::next);
            let (from, to) = (usize::from(heads[1] < heads[0]), usize::from(nexts[1].0 < nexts[0].0));
            let (head, (start, place)) = (heads[from], nexts[to]);
            if head.min(start) >= until {
                return;
            }
            if head <= start { self.arrive(from) } else { self.depart(to, place, start) }
        }
    }

    /// Processes the next cell that arrives at a side.
    fn arrive(&mut self, from: usize) {
        let [one, other] = &mut self.sides;
        let (near, far) = if from == 0 { (one, other) } else { (other, one) };
        let Some(Cell { at, word }) = near.inbox.pop() else { return };
        let Some(place) = near.places.of(word.vc()).map(usize::from) else {
            self.unknown += 1;
            near.inbox.drop_cargo(word, Why::NoRoute);
            return;
        };
        let half = &mut near.halves[place];
        half.received += 1;
        match (&mut half.system, word.kind()) {
            (Some(system), Kind::Rm) => {
                system.on_rm(word);
                near.put_in_order(place, at);
            }
            (system, _) => {
                system.iter_mut().for_each(|system| system.on_data(word.efci()));
                far.halves[place].push(at, word, &mut near.inbox, self.config.limit);
                far.put_in_order(place, at);
            }
        }
    }

    /// Sends the cell of a channel that goes out at a side at `start`.
    fn depart(&mut self, to: usize, place: usize, start: Time) {
        let [one, other] = &mut self.sides;
        let (near, far) = if to == 0 { (one, other) } else { (other, one) };
        let half = &mut near.halves[place];
        if let Some(system) = half.system.as_mut().filter(|system| system.has_turn()) {
            let onward = far.halves[place].given(&self.config.queue);
            system.set_congestion(onward.map(CongestionSignal::Rate));
        }
        half.send(start, &mut near.line);
        near.put_in_order(place, start);
    }

    /// Returns the earliest time at which an output can be due.
    fn deadline(&self, now: Time) -> Time {
        let head = self.sides.iter().map(|side| side.inbox.head()).fold(Time::NEVER, Time::min);
        let of_side = |side: &Side| {
            let event = side.first().min(head);
            let sent = if event.is_never() { event } else { event.max(now) + side.line.shortest() };
            side.line.due().min(sent)
        };
        self.sides.iter().map(of_side).fold(Time::NEVER, Time::min)
    }
}

impl Element for Coupling {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.advance(cx.now());
        if let Some(side) = self.sides.get_mut(usize::from(port.0)) {
            side.inbox.announce(packet);
        }
        self.wake(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.advance(cx.now());
        for (n, side) in self.sides.iter_mut().enumerate() {
            while let Some(train) = side.line.take(cx.now()) {
                cx.emit(Port(n as u16), train);
            }
        }
        self.deadline(cx.now())
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        // A cell takes its own time to the other end of the line.
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.advance(now);
        observer.counter(&metrics::UNKNOWN_CHANNEL, self.unknown);
        self.sides.iter().for_each(|side| side.observe(now, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Line of one side, with its arriving and departing cells.
struct Side {
    path: String,
    rate: Rate,
    line: Line,
    inbox: Inbox,
    /// Earliest sending times of the channels with cells to send, for each category.
    orders: [Order; Class::ALL.len()],
    halves: Vec<Half>,
    /// Index among `halves`, for each VCI.
    places: Places,
}

impl Side {
    fn new(path: String, config: &line::Config) -> Result<Side, InvalidConfig> {
        Ok(Side {
            path,
            rate: config.rate,
            line: Line::new(config)?,
            inbox: Inbox::default(),
            orders: Class::ALL.map(|_| Order::new(0)),
            halves: Vec::new(),
            places: Places::default(),
        })
    }

    fn add(
        &mut self,
        vc: Vc,
        class: Class,
        abr: Option<&abr::Config>,
        path: String,
    ) -> Result<(), InvalidConfig> {
        self.places.add(vc, self.halves.len());
        let system = abr.map(|abr| EndSystem::new(abr, vc, self.rate)).transpose()?;
        self.halves.push(Half::new(path, class, system));
        self.orders = Class::ALL.map(|_| Order::new(self.halves.len()));
        Ok(())
    }

    /// Notes when a channel may send next, not before `now`.
    fn put_in_order(&mut self, place: usize, now: Time) {
        let half = &self.halves[place];
        self.orders[half.class as usize].set(place, half.next(now));
    }

    /// Returns the earliest time at which a channel may send.
    fn first(&self) -> Time {
        self.orders.iter().map(|order| order.first().0).fold(Time::NEVER, Time::min)
    }

    /// Returns the time and channel of the next cell.
    ///
    /// Among the channels that may send by then, the category that is served first wins.
    fn next(&self) -> (Time, usize) {
        let first = self.first();
        let start = if first.is_never() { first } else { first.max(self.line.free_at()) };
        let mut firsts = self.orders.iter().map(Order::first);
        let place = firsts.find(|(eligible, _)| *eligible <= start).map_or(0, |(_, place)| place);
        (start, place)
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.part(&self.path);
        self.line.observe_sent(observer);
        self.line.observe_use(now, observer);
        self.halves.iter().for_each(|half| half.observe(observer));
    }
}

/// Side of a channel, with its queue, and for ABR the loop's end system.
struct Half {
    path: String,
    class: Class,
    system: Option<Box<EndSystem>>,
    cells: VecDeque<(Time, Word)>,
    cargo: VecDeque<Packet>,
    most: Peak,
    lost: u64,
    received: u64,
    sent: u64,
}

impl Half {
    fn new(path: String, class: Class, system: Option<EndSystem>) -> Half {
        let (cells, cargo) = (VecDeque::new(), VecDeque::new());
        let system = system.map(Box::new);
        Half { path, class, system, cells, cargo, most: Peak::default(), lost: 0, received: 0, sent: 0 }
    }

    /// Enqueues a cell that arrived at the other side. Its packets are next in `inbox`.
    fn push(&mut self, at: Time, word: Word, inbox: &mut Inbox, limit: Option<u32>) {
        let (_, cargo) = inbox.ahead();
        if limit.is_some_and(|limit| self.cells.len() >= limit as usize) {
            self.lost += 1;
            return unload(cargo, word, Why::Queue);
        }
        reload(cargo, &mut self.cargo, word);
        // A virtual source sends its data without marks as any source (rule 12).
        let word = if self.system.is_some() { word.unmarked() } else { word };
        self.cells.push_back((at, word));
        self.most.note(self.cells.len() as u64);
    }

    /// Returns the earliest time of the next cell, from `now` on. Never if there is none.
    fn next(&self, now: Time) -> Time {
        let due = match &self.system {
            Some(system) if system.has_turn() || !self.cells.is_empty() => system.next(),
            Some(_) => return Time::NEVER,
            None => self.cells.front().map_or(Time::NEVER, |(at, _)| *at),
        };
        due.max(now)
    }

    /// Returns the rate for the loop on the other side, or `None` without ABR.
    fn given(&self, queue: &QueueControl) -> Option<rm::Rate> {
        let acr = self.system.as_ref()?.acr();
        let x = if acr > 0.0 { self.cells.len() as f64 / acr / queue.t0.as_secs_f64() } else { 0.0 };
        Some(rm::Rate::from_cells_per_second(acr * queue.share(x)))
    }

    fn send(&mut self, start: Time, line: &mut Line) {
        let choice = self.system.as_mut().map(|system| system.choose(start, !self.cells.is_empty()));
        let word = match choice {
            Some(NextCell::Rm(word)) => word,
            _ => match self.cells.pop_front() {
                Some((_, word)) => word,
                None => return,
            },
        };
        self.sent += 1;
        line.transmit(word, start);
        line.load(&mut self.cargo, word);
    }

    fn observe(&self, observer: &mut dyn Observer) {
        observer.part(&self.path);
        observer.counter(&metrics::CELLS_SENT, self.sent);
        observer.counter(&metrics::CELLS_RECEIVED, self.received);
        observer.gauge(&metrics::NODE_QUEUE, self.cells.len() as f64);
        self.most.observe(&metrics::NODE_QUEUE_MAX, self.cells.len() as u64, observer);
        observer.counter(&metrics::NODE_LOST, self.lost);
        if let Some(system) = &self.system {
            let counts = system.counts;
            observer.gauge(&metrics::ACR, system.acr() * CELL_BITS as f64);
            observer.counter(&metrics::RM_FORWARD_SENT, counts.forward_sent);
            observer.counter(&metrics::RM_BACKWARD_SENT, counts.backward_sent);
            observer.counter(&metrics::RM_BACKWARD_RECEIVED, counts.backward_received);
            observer.counter(&metrics::RM_OUT_OF_RATE_SENT, counts.out_of_rate_sent);
            observer.counter(&metrics::RM_OVERWRITTEN, counts.overwritten);
        }
    }
}
