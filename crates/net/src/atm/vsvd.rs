//! Virtual source and virtual destination (ATM Forum Traffic Management 4.0: VS/VD): a box between two lines where the loop of
//! each ABR channel ends and another one begins.
//!
//! Modelled: for each channel and side an end system by the rules of [`abr`](super::abr), the virtual destination of what comes in there
//! and the virtual source of what goes out, with a queue of the channel's own. How the loops are coupled the standard leaves to
//! the box: the virtual destination says as explicit rate what the virtual source of the other side may send, times a share that
//! falls with its queue's drain time as ERICA+'s does. Cells of other categories pass as they come. Of those that may go the
//! categories are served in the order that a switch serves them. Not modelled: measurement at the box of what its line leaves to
//! ABR: that is for the switch behind it to say.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_units::{Rate, Time};
use bentpipe_wire::atm::rm;

use super::abr::{self, Choice, EndSystem, Strain};
use super::cell::{Cell, Inbox, Kind, Vc, Word, reload, unload};
use super::erica::QueueControl;
use super::line::{self, CELL_BITS, Line};
use super::order::Order;
use super::service::{Class, Service};
use crate::{Cx, Element, Impossible, Observer, Packet, Port, Unit};

/// What a box does with ABR channels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Config {
    /// What share of the rate on the other side the sources of a side are told, by how long the channel's queue takes to drain.
    pub queue: QueueControl,
    /// How many cells of data of a channel may wait in each direction; one beyond is lost. Default: no limit.
    pub limit: Option<u32>,
    /// Whether loops go through the box, and cells of ABR pass as those of other categories do: to see what the box changes.
    /// Default: false.
    pub transparent: bool,
}

/// The box: input and output 0 are the line of one side, 1 that of the other.
pub struct Coupling {
    config: Config,
    sides: [Side; 2],
    unknown: u64,
}

impl Coupling {
    /// A box without channels between two lines, which are reported under `paths`: "line/access/return".
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn new(
        config: &Config,
        paths: [String; 2],
        lines: [&line::Config; 2],
    ) -> Result<Coupling, Impossible> {
        config.queue.check()?;
        let [one, other] = paths;
        let sides = [Side::new(one, lines[0])?, Side::new(other, lines[1])?];
        Ok(Coupling { config: *config, sides, unknown: 0 })
    }

    /// Leads a channel through; the parameters of one of ABR hold for both of its loops. Each direction is reported under its
    /// path, that of cells which leave at side 0 first.
    ///
    /// # Errors
    /// The key whose value is impossible.
    ///
    /// # Panics
    /// If there is a channel of this number already.
    pub fn connect(&mut self, vc: Vc, service: &Service, paths: [String; 2]) -> Result<(), Impossible> {
        let abr = match service {
            Service::Abr(abr) if !self.config.transparent => Some(abr),
            _ => None,
        };
        for (side, path) in self.sides.iter_mut().zip(paths) {
            side.add(vc, service.class(), abr, path)?;
        }
        Ok(())
    }

    /// Hands each cell over by itself from now on. Nothing else differs; this is for showing that.
    pub fn cell_by_cell(&mut self) {
        self.sides.iter_mut().for_each(|side| side.line.cell_by_cell());
    }

    /// A hash over all cells sent at a side, and when each arrives.
    pub fn digest(&self, side: Port) -> u64 {
        self.sides[usize::from(side.0)].line.digest()
    }

    /// Does all that happens before `until`, each thing at its own instant: of one instant, cells that come before those that go.
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

    /// Takes the next cell that comes in at a side.
    fn arrive(&mut self, from: usize) {
        let [one, other] = &mut self.sides;
        let (near, far) = if from == 0 { (one, other) } else { (other, one) };
        let Some(Cell { at, word }) = near.inbox.pop() else { return };
        let Some(place) = near.places[word.vc().index()].map(usize::from) else {
            self.unknown += 1;
            near.inbox.drop_cargo(word);
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
            system.set_strain(onward.map(Strain::Rate));
        }
        half.send(start, &mut near.line);
        near.put_in_order(place, start);
    }

    /// When something has to go out at the earliest.
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
        observer.counter("unknown-channel", Unit::Cells, self.unknown);
        self.sides.iter().for_each(|side| side.observe(now, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A line, and what comes from it and goes out to it.
struct Side {
    path: String,
    rate: Rate,
    line: Line,
    inbox: Inbox,
    /// For each category when each channel may send, if it is of this category and has something to send.
    orders: [Order; Class::ALL.len()],
    halves: Vec<Half>,
    /// For each VCI the channel's place among `halves`.
    places: Vec<Option<u16>>,
}

impl Side {
    fn new(path: String, config: &line::Config) -> Result<Side, Impossible> {
        Ok(Side {
            path,
            rate: config.rate,
            line: Line::new(config)?,
            inbox: Inbox::default(),
            orders: Class::ALL.map(|_| Order::new(0)),
            halves: Vec::new(),
            places: vec![None; Vc::LAST.index() + 1],
        })
    }

    fn add(
        &mut self,
        vc: Vc,
        class: Class,
        abr: Option<&abr::Config>,
        path: String,
    ) -> Result<(), Impossible> {
        let taken = self.places[vc.index()].replace(self.halves.len() as u16);
        assert!(taken.is_none(), "two channels with VCI {}", vc.vci());
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

    /// When the first channel may send.
    fn first(&self) -> Time {
        self.orders.iter().map(|order| order.first().0).fold(Time::NEVER, Time::min)
    }

    /// When the next cell goes out, and the place of its channel: of those that may send by then, one of the category that comes
    /// first.
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

/// A channel at one side: what goes out there waits, and of ABR the end of the loop over there.
struct Half {
    path: String,
    class: Class,
    system: Option<Box<EndSystem>>,
    cells: VecDeque<(Time, Word)>,
    cargo: VecDeque<Packet>,
    most: usize,
    lost: u64,
    received: u64,
    sent: u64,
}

impl Half {
    fn new(path: String, class: Class, system: Option<EndSystem>) -> Half {
        let (cells, cargo) = (VecDeque::new(), VecDeque::new());
        let system = system.map(Box::new);
        Half { path, class, system, cells, cargo, most: 0, lost: 0, received: 0, sent: 0 }
    }

    /// Takes a cell that came in at the other side; what travels with it is next in `inbox`.
    fn push(&mut self, at: Time, word: Word, inbox: &mut Inbox, limit: Option<u32>) {
        let (_, cargo) = inbox.ahead();
        if limit.is_some_and(|limit| self.cells.len() >= limit as usize) {
            self.lost += 1;
            return unload(cargo, word);
        }
        reload(cargo, &mut self.cargo, word);
        // A virtual source sends its data without marks as any source (rule 12).
        let word = if self.system.is_some() { word.unmarked() } else { word };
        self.cells.push_back((at, word));
        self.most = self.most.max(self.cells.len());
    }

    /// When the next cell may go out, not before `now`; never if there is none.
    fn next(&self, now: Time) -> Time {
        let due = match &self.system {
            Some(system) if system.has_turn() || !self.cells.is_empty() => system.next(),
            Some(_) => return Time::NEVER,
            None => self.cells.front().map_or(Time::NEVER, |(at, _)| *at),
        };
        due.max(now)
    }

    /// What the loop on the other side may be given: none where it is no ABR.
    fn given(&self, queue: &QueueControl) -> Option<rm::Rate> {
        let acr = self.system.as_ref()?.acr();
        let x = if acr > 0.0 { self.cells.len() as f64 / acr / queue.t0.as_secs_f64() } else { 0.0 };
        Some(rm::Rate::from_cells_per_second(acr * queue.share(x)))
    }

    fn send(&mut self, start: Time, line: &mut Line) {
        let choice = self.system.as_mut().map(|system| system.choose(start, !self.cells.is_empty()));
        let word = match choice {
            Some(Choice::Rm(word)) => word,
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
        observer.counter("cells-sent", Unit::Cells, self.sent);
        observer.counter("cells-received", Unit::Cells, self.received);
        observer.gauge("queue", Unit::Cells, self.cells.len() as f64);
        observer.gauge("queue-max", Unit::Cells, self.most as f64);
        observer.counter("lost", Unit::Cells, self.lost);
        if let Some(system) = &self.system {
            let counts = system.counts;
            observer.gauge("acr", Unit::BitsPerSecond, system.acr() * CELL_BITS as f64);
            observer.counter("rm-forward-sent", Unit::Cells, counts.forward_sent);
            observer.counter("rm-backward-sent", Unit::Cells, counts.backward_sent);
            observer.counter("rm-backward-received", Unit::Cells, counts.backward_received);
            observer.counter("rm-out-of-rate-sent", Unit::Cells, counts.out_of_rate_sent);
            observer.counter("rm-overwritten", Unit::Cells, counts.overwritten);
        }
    }
}
