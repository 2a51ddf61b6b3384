//! Running motes of a field: tree, queries and radio.

mod mote;
mod running;
mod tree;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wireless::wpan::{AirLog, Cell, Counts, Event, Outcome, Sending};

use crate::field::{Field, Layout};
use crate::message::{MoteMessage, Place, Row};
use crate::query::{Query, Sensor};
use crate::samples::Samples;
use crate::world::World;
use mote::Mote;
use running::Running;

/// Number of the base station.
pub(crate) const BASE: u16 = 0;
/// Time from beacon to beacon of a mote.
const ROUND: Span = Span::from_secs(1);
/// Time in which a query passes a level of the tree.
const FLOOD: Span = Span::from_secs(1);
/// Time for which the base station waits for late partial aggregates after an epoch.
const GRACE: Span = Span::from_millis(50);
/// Number of times that a mote gives a result to its MAC again.
const REPEATS: u8 = 3;
/// Maximum number of queries of a field.
const MAX_QUERIES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// A mote sends its beacon.
    Beacon(u16),
    /// The tree is fixed.
    Freeze,
    /// The base station plans the epochs of a query.
    Plan(u8),
    /// A mote sends a query on.
    Flood(u16, u8),
    /// A mote sends its result of an epoch.
    Slot(u16, u8, u32),
    /// A mote starts to listen to its children.
    Open(u16, u8, u32),
    /// A mote ends listening.
    Close(u16),
    /// A query ends at a mote, which listens for the next one.
    Listen(u16),
    /// An epoch ends at the base station.
    EpochEnd(u8, u32),
}

/// Collected that reached the base station.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Collected {
    /// Number of the query in the field.
    pub(crate) query: u8,
    /// Instant of the first epoch.
    pub(crate) start: Time,
    /// Row.
    pub(crate) row: Row,
}

/// Totals of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    /// Messages of results, one for each hop.
    pub(crate) messages: u64,
    /// Messages given up.
    pub(crate) lost: u64,
    /// Results that reached the base station after their epoch.
    pub(crate) late: u64,
    /// Samples taken.
    pub(crate) samples: u64,
    /// Energy of samples in joules.
    pub(crate) sampling: f64,
    /// Rows at the base station.
    pub(crate) rows: u64,
    /// Queries that run or ran.
    pub(crate) queries: u64,
}

/// Energy of the motes in joules, without the base station.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Energy {
    /// Total.
    pub(crate) total: f64,
    /// Mote that used most.
    pub(crate) most: f64,
}

/// Base station and motes.
#[derive(Debug)]
pub(crate) struct Motes {
    field: Field,
    cell: Cell,
    world: World,
    samples: Option<Samples>,
    places: Vec<[f64; 2]>,
    motes: Vec<Mote>,
    queries: Vec<Running>,
    agenda: BinaryHeap<Reverse<(Time, u64, Task)>>,
    tasks: u64,
    results: Vec<Collected>,
    totals: Totals,
    /// Instant from which the tree is fixed.
    frozen: Time,
    /// Levels of the tree, once fixed.
    depth: u8,
}

impl Motes {
    /// Creates a field at instant 0.
    pub(crate) fn new(field: Field, samples: Option<Samples>, stream: &mut RandomStream) -> Motes {
        let places = field.layout.places(stream);
        let links = field.layout.links(&places, &field.radio, stream);
        let world = World::new(field.world, stream);
        let mut motes = Motes {
            cell: Cell::new(field.mac, links),
            world,
            samples,
            motes: vec![Mote::listening(); places.len()],
            places,
            queries: Vec::new(),
            agenda: BinaryHeap::new(),
            tasks: 0,
            results: Vec::new(),
            totals: Totals::default(),
            frozen: Time::ZERO + ROUND * u64::from(field.beacons),
            depth: 0,
            field,
        };
        motes.motes[0].set_base();
        match motes.field.layout.clone() {
            Layout::Tree { parents } => motes.plant(&parents),
            _ => motes.schedule_beacons(stream),
        }
        motes
    }

    /// Notes the frames of the radio in a log.
    pub(crate) fn record(&mut self, log: AirLog) {
        self.cell.record(log);
    }

    /// Returns the instant of the next event.
    pub(crate) fn next_event(&self) -> Time {
        let task = self.agenda.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        task.min(self.cell.next_step())
    }

    /// Handles all events up to `now`.
    pub(crate) fn advance(&mut self, now: Time, stream: &mut RandomStream) {
        loop {
            let next = self.next_event();
            if next > now {
                return;
            }
            if self.cell.next_step() <= next {
                self.cell.step(stream);
            } else if let Some(Reverse((at, _, task))) = self.agenda.pop() {
                self.work(task, at, stream);
            }
            while let Some(event) = self.cell.poll_event() {
                self.handle(event, next, stream);
            }
        }
    }

    /// Removes and returns the results that reached the base station.
    pub(crate) fn take_results(&mut self) -> Vec<Collected> {
        std::mem::take(&mut self.results)
    }

    /// Returns the totals.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the counts of the radio.
    pub(crate) fn counts(&self) -> Counts {
        self.cell.counts()
    }

    /// Returns the number of motes with a route, and the levels of the tree.
    pub(crate) fn tree(&self) -> (usize, u8) {
        (self.motes[1..].iter().filter(|mote| mote.parent.is_some()).count(), self.depth)
    }

    /// Returns the map of the field.
    pub(crate) fn map(&self) -> Vec<Place> {
        let place = |(mote, place): (&Mote, &[f64; 2])| {
            let [x, y] = place.map(|metres| metres as f32);
            Place { x, y, parent: mote.parent.unwrap_or(u16::MAX) }
        };
        self.motes.iter().zip(&self.places).map(place).collect()
    }

    /// Returns the energy of radios and samples.
    pub(crate) fn energy(&self, now: Time) -> Energy {
        let mut energy = Energy::default();
        for (n, mote) in self.motes.iter().enumerate().skip(1) {
            let radio = self.cell.usage(n as u16, now).joules(&self.field.radio);
            energy.total += radio + mote.sampling;
            energy.most = energy.most.max(radio + mote.sampling);
        }
        energy
    }

    /// Returns the battery lifetime in seconds of the mote that uses most energy.
    pub(crate) fn lifetime(&self, now: Time) -> f64 {
        self.field.battery * now.as_secs_f64() / self.energy(now).most
    }

    fn schedule(&mut self, at: Time, task: Task) {
        self.tasks += 1;
        self.agenda.push(Reverse((at, self.tasks, task)));
    }

    fn work(&mut self, task: Task, now: Time, stream: &mut RandomStream) {
        match task {
            Task::Beacon(mote) => self.send_beacon(mote, now, stream),
            Task::Freeze => self.freeze(),
            Task::Plan(query) => self.plan(query, now),
            Task::Flood(mote, query) => self.send_query(mote, query, now, stream),
            Task::Slot(mote, query, epoch) => self.take_turn(mote, query, epoch, now, stream),
            Task::Open(mote, query, epoch) => self.open(mote, query, epoch, now),
            Task::Close(mote) => self.wake(mote, false, now),
            Task::Listen(mote) => self.wake(mote, true, now),
            Task::EpochEnd(query, epoch) => self.end_epoch(query, epoch, now),
        }
    }

    fn handle(&mut self, event: Event, now: Time, stream: &mut RandomStream) {
        match event {
            Event::Received { at, from, payload } => {
                if let Some(message) = MoteMessage::parse(&payload) {
                    self.receive(at, from, message, (now, &payload), stream);
                }
            }
            Event::Done { at, token, outcome } => self.done(at, token, outcome, now, stream),
        }
    }

    fn receive(
        &mut self,
        at: u16,
        from: u16,
        message: MoteMessage,
        (now, payload): (Time, &Arc<[u8]>),
        stream: &mut RandomStream,
    ) {
        match message {
            MoteMessage::Beacon { cost, level, deepest, parent } => {
                self.receive_beacon(at, from, (cost, level, deepest, parent), now);
            }
            MoteMessage::Query { query, part, parts, .. } => {
                self.learn(at, (query, part, parts), now, stream);
            }
            MoteMessage::Row { query, epoch, node, values } => {
                self.collect_row(at, (query, epoch), Row { epoch, node, values }, (now, payload), stream);
            }
            MoteMessage::Partial { query, epoch, groups, .. } => {
                self.collect_groups(at, (query, epoch), &groups, (now, payload), stream);
            }
        }
    }

    /// Queues a message for all neighbours at a mote's MAC.
    fn broadcast(&mut self, from: u16, message: &MoteMessage, now: Time, stream: &mut RandomStream) {
        let payload: Arc<[u8]> = message.to_bytes().into();
        self.cell.send(from, Sending { to: None, payload, token: 0, wakes: false }, now, stream);
    }

    /// Queues a result for a mote's parent at its MAC.
    fn send_up(&mut self, from: u16, payload: Arc<[u8]>, repeats: u8, now: Time, stream: &mut RandomStream) {
        let Some(parent) = self.motes[usize::from(from)].parent else {
            self.totals.lost += 1;
            return;
        };
        if repeats == 0 {
            self.totals.messages += 1;
        }
        self.wake(from, true, now);
        let token = self.motes[usize::from(from)].remember(payload.clone(), repeats);
        self.cell.send(from, Sending { to: Some(parent), payload, token, wakes: true }, now, stream);
    }

    fn done(&mut self, at: u16, token: u32, outcome: Outcome, now: Time, stream: &mut RandomStream) {
        let Some((payload, repeats)) = self.motes[usize::from(at)].recall(token) else { return };
        self.wake(at, false, now);
        match outcome {
            Outcome::Sent => {}
            Outcome::Unacknowledged | Outcome::AccessFailure if repeats < REPEATS => {
                self.send_up(at, payload, repeats + 1, now, stream);
            }
            _ => self.totals.lost += 1,
        }
    }

    /// Notes a reason for a mote's radio to be on, or its end.
    fn wake(&mut self, mote: u16, is_reason: bool, now: Time) {
        let reasons = &mut self.motes[usize::from(mote)].reasons;
        *reasons = if is_reason { *reasons + 1 } else { reasons.saturating_sub(1) };
        if self.field.saves() && mote != BASE && now >= self.frozen {
            let is_awake = *reasons > 0;
            self.cell.set_awake(mote, is_awake, now);
        }
    }

    /// Returns a sample of a mote, and counts it.
    fn sample(&mut self, mote: u16, sensor: Sensor, at: Time) -> f32 {
        let joules = sensor.microjoules() * 1e-6;
        self.totals.samples += 1;
        self.totals.sampling += joules;
        self.motes[usize::from(mote)].sampling += joules;
        let read = self.samples.as_ref().and_then(|samples| samples.value(mote, sensor, at));
        read.unwrap_or_else(|| self.world.value(sensor, self.places[usize::from(mote)], at))
    }

    /// Starts a query once the tree is fixed, and returns its number.
    ///
    /// # Errors
    /// Returns an error if no other query can run.
    pub(crate) fn start(
        &mut self,
        query: Query,
        text: &str,
        ships_everything: bool,
        now: Time,
    ) -> std::result::Result<u8, String> {
        if self.queries.len() == MAX_QUERIES {
            return Err(format!("the field has {MAX_QUERIES} queries, which is the maximum"));
        }
        let mut floods_at = now.max(self.frozen);
        if self.field.saves() {
            let last = self.queries.iter().map(Running::end).max().unwrap_or(Time::ZERO);
            if last.is_never() {
                let problem =
                    "a field whose radios sleep runs one query at a time: expected a running one with FOR";
                return Err(problem.to_owned());
            }
            floods_at = floods_at.max(last);
        }
        self.totals.queries += 1;
        let number = self.queries.len() as u8;
        // The depth of the tree is known once it is fixed.
        self.queries.push(Running::new(query, text, ships_everything));
        self.schedule(floods_at, Task::Plan(number));
        self.schedule(floods_at, Task::Flood(BASE, number));
        Ok(number)
    }
}

#[cfg(test)]
mod tests;
