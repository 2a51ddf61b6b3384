//! Queries in the field: their way to the motes, their epochs, and their results.

use std::sync::Arc;

use bentpipe_units::{RandomStream, Span, Time};

use super::{BASE, Collected, FLOOD, GRACE, Motes, Task};
use crate::aggregate::{Groups, State, functions};
use crate::message::{MAX_MOTE_MESSAGE, MAX_PART, MoteMessage, RESULT_HEADER, Row};
use crate::query::{Column, Condition, Function, Item, Match, Query, Sensor, Side};

/// Part of a slot in which motes start to send.
const SPREAD: f64 = 0.8;
/// Number of earlier epochs of which rows wait for late ones to be joined with.
const EPOCHS: u32 = 4;
/// Time for which a parent listens after its children's slot.
const GUARD: Span = Span::from_millis(5);

/// Query as motes run it.
#[derive(Clone, Debug)]
struct Program {
    query: Query,
    ships_everything: bool,
    /// Conditions in the order of their samples.
    plan: Vec<Condition>,
    inputs: Vec<Column>,
    functions: Vec<Function>,
    parts: Vec<Vec<u8>>,
}

/// Query that runs.
#[derive(Clone, Debug)]
pub(super) struct Running {
    program: Arc<Program>,
    /// Instant of the first epoch.
    start: Time,
    slot: Span,
    depth: u8,
    /// Aggregates of the epochs that have not ended, at the base station.
    groups: Vec<(u32, Groups)>,
    /// Number of ended epochs.
    ended: u32,
    /// Rows of the latest epochs that wait for their pairs, at the base station.
    unpaired: Vec<Row>,
}

impl Running {
    pub(super) fn new(query: Query, text: &str, ships_everything: bool) -> Running {
        let slot = query.period;
        let program = Program {
            ships_everything,
            plan: query.plan(),
            inputs: query.inputs(),
            functions: functions(&query.items),
            parts: text.as_bytes().chunks(MAX_PART).map(<[u8]>::to_vec).collect(),
            query,
        };
        let program = Arc::new(program);
        Running {
            program,
            start: Time::ZERO,
            slot,
            depth: 1,
            groups: Vec::new(),
            ended: 0,
            unpaired: Vec::new(),
        }
    }

    /// Returns the instant of an epoch.
    pub(super) fn epoch(&self, epoch: u32) -> Time {
        self.start + self.program.query.period * u64::from(epoch)
    }

    /// Returns the end of the last epoch.
    pub(super) fn end(&self) -> Time {
        match self.program.query.epochs() {
            u32::MAX => Time::NEVER,
            epochs => self.epoch(epochs) + GRACE * 2,
        }
    }

    /// Returns the start of the slot of a level in an epoch.
    fn slot_of(&self, level: u8, epoch: u32) -> Time {
        self.epoch(epoch) + self.slot * u64::from(self.depth.saturating_sub(level))
    }

    fn groups(&mut self, epoch: u32) -> &mut Groups {
        let at = self.groups.iter().position(|(other, _)| *other == epoch).unwrap_or_else(|| {
            self.groups.push((epoch, Groups::default()));
            self.groups.len() - 1
        });
        &mut self.groups[at].1
    }
}

impl Program {
    /// Returns `true` if a row can be one side of a pair. `value` returns the value of a column of one mote.
    fn is_side(&self, side: Side, value: &mut dyn FnMut(Column) -> f32) -> bool {
        let is_of = |condition: &&Condition| matches!(condition.column, Column::Of(of, _) if of == side);
        self.plan.iter().filter(is_of).all(|condition| condition.holds(value(condition.column.alone())))
    }

    /// Returns the value of a column of a row that carries the inputs.
    fn input(&self, row: &Row, column: Column) -> f32 {
        match column.alone() {
            Column::Node => f32::from(row.node),
            Column::Epoch => row.epoch as f32,
            column => {
                self.inputs.iter().position(|other| *other == column).map_or(f32::NAN, |n| row.values[n])
            }
        }
    }

    /// Returns the result of two rows, if they make a pair.
    fn pair(&self, [left, right]: [&Row; 2]) -> Option<Row> {
        let of = |column: Column| match column {
            Column::Of(Side::Right, _) => self.input(right, column),
            _ => self.input(left, column),
        };
        let is_left = self.is_side(Side::Left, &mut |column| self.input(left, column));
        let is_right = self.is_side(Side::Right, &mut |column| self.input(right, column));
        let matches = |pair: &Match| pair.comparison.holds(of(pair.left), of(pair.right));
        if !is_left || !is_right || !self.query.matches.iter().all(matches) {
            return None;
        }
        let values = self.query.items.iter().map(|item| match item {
            Item::Column(column) | Item::Aggregate(_, column) => of(*column),
        });
        Some(Row { epoch: left.epoch, node: BASE, values: values.collect() })
    }

    /// Returns the values of the items of a row of one mote. `value` returns that of an input.
    fn row(&self, (epoch, node): (u32, u16), value: &dyn Fn(Column) -> f32) -> Row {
        let of = |item: &Item| match item {
            Item::Column(Column::Node) => f32::from(node),
            Item::Column(Column::Epoch) => epoch as f32,
            Item::Column(column) | Item::Aggregate(_, column) => value(*column),
        };
        Row { epoch, node, values: self.query.items.iter().map(of).collect() }
    }

    /// Returns the key and the states of a row.
    fn states(&self, (epoch, node): (u32, u16), value: &mut dyn FnMut(Column) -> f32) -> (f32, Vec<State>) {
        let mut of = |column: Column| match column {
            Column::Node => f32::from(node),
            Column::Epoch => epoch as f32,
            column => value(column),
        };
        let key = self.query.group.map_or(0.0, |group| group.key(of(group.column)));
        let states = self.query.items.iter().filter_map(|item| match item {
            Item::Aggregate(function, column) => Some(State::new(*function, of(*column))),
            Item::Column(_) => None,
        });
        (key, states.collect())
    }

    /// Returns the result row of a group.
    fn evaluate(&self, epoch: u32, key: f32, states: &[State]) -> Row {
        let (mut values, mut next) = (Vec::new(), states.iter());
        for item in &self.query.items {
            match item {
                Item::Column(Column::Epoch) => values.push(epoch as f32),
                Item::Column(_) => values.push(key),
                Item::Aggregate(..) => next.by_ref().take(1).for_each(|state| state.evaluate(&mut values)),
            }
        }
        Row { epoch, node: BASE, values }
    }
}

impl Motes {
    /// Sets the epochs of a query by the depth of the tree.
    pub(super) fn plan(&mut self, number: u8, now: Time) {
        let depth = self.depth.max(1);
        let running = &mut self.queries[usize::from(number)];
        running.depth = depth;
        running.start = now + FLOOD * (u64::from(depth) + 1);
        let share = Span::from_nanos(running.program.query.period.as_nanos() / u64::from(depth));
        running.slot = self.field.slot.map_or(share, |slot| slot.min(share));
        if running.program.query.is_aggregate() {
            let end = running.epoch(1) + GRACE;
            self.schedule(end, Task::EpochEnd(number, 0));
        }
        self.schedule(now + FLOOD.mul_f64(0.5), Task::Flood(BASE, number));
    }

    pub(super) fn send_query(&mut self, from: u16, number: u8, now: Time, stream: &mut RandomStream) {
        let running = &self.queries[usize::from(number)];
        let (depth, start, parts) =
            (running.depth, running.start.as_nanos(), running.program.parts.len() as u8);
        for (part, text) in running.program.parts.clone().into_iter().enumerate() {
            let message = MoteMessage::Query { query: number, part: part as u8, parts, depth, start, text };
            self.broadcast(from, &message, now, stream);
        }
    }

    /// Notes a part of a query at a mote. A mote that has all sends them on, and takes part from the next epoch on.
    pub(super) fn learn(
        &mut self,
        at: u16,
        (number, part, parts): (u8, u8, u8),
        now: Time,
        stream: &mut RandomStream,
    ) {
        let (slot, Some(running)) = (usize::from(number), self.queries.get(usize::from(number))) else {
            return;
        };
        let all = (1_u16 << parts.min(8)) - 1;
        let mote = &mut self.motes[usize::from(at)];
        if at == BASE || mote.turns[slot].is_some() {
            return;
        }
        mote.parts[slot] |= 1 << part.min(7);
        if u16::from(mote.parts[slot]) & all != all {
            return;
        }
        let level = mote.level;
        let late = now.since(running.slot_of(level, 0)).as_nanos() / running.program.query.period.as_nanos();
        let first = if now < running.slot_of(level, 0) { 0 } else { late as u32 + 1 };
        mote.turns[slot] = Some(first);
        for half in [0, 1] {
            let wait = FLOOD.mul_f64(0.5 * f64::from(half) + 0.4 * stream.unit());
            self.schedule(now + wait, Task::Flood(at, number));
        }
        if first < self.queries[slot].program.query.epochs() && self.motes[usize::from(at)].parent.is_some() {
            self.schedule_turn(at, number, first, stream);
            self.schedule_listening(at, number, first);
            let (first, end) = (self.queries[slot].epoch(first), self.queries[slot].end());
            self.schedule(first.max(now + FLOOD), Task::Close(at));
            if !end.is_never() {
                self.schedule(end.max(now + FLOOD), Task::Listen(at));
            }
        }
    }

    fn schedule_turn(&mut self, mote: u16, number: u8, epoch: u32, stream: &mut RandomStream) {
        let running = &self.queries[usize::from(number)];
        let level = self.motes[usize::from(mote)].level;
        let at = running.slot_of(level, epoch) + running.slot.mul_f64(SPREAD * stream.unit());
        self.schedule(at, Task::Slot(mote, number, epoch));
    }

    /// Schedules the listening of a parent in the slot of its children.
    fn schedule_listening(&mut self, mote: u16, number: u8, epoch: u32) {
        let own = &self.motes[usize::from(mote)];
        if self.field.sleep && own.has_children {
            let at = self.queries[usize::from(number)].slot_of(own.level + 1, epoch);
            self.schedule(at, Task::Open(mote, number, epoch));
        }
    }

    pub(super) fn open(&mut self, mote: u16, number: u8, epoch: u32, now: Time) {
        let running = &self.queries[usize::from(number)];
        let (end, epochs) = (now + running.slot + GUARD, running.program.query.epochs());
        self.wake(mote, true, now);
        self.schedule(end, Task::Close(mote));
        if epoch + 1 < epochs {
            self.schedule_listening(mote, number, epoch + 1);
        }
    }

    /// Samples, and sends what the mote has of an epoch.
    pub(super) fn take_turn(
        &mut self,
        mote: u16,
        number: u8,
        epoch: u32,
        now: Time,
        stream: &mut RandomStream,
    ) {
        let own = self.measure(mote, number, epoch);
        let running = &self.queries[usize::from(number)];
        let (functions, epochs) = (running.program.functions.clone(), running.program.query.epochs());
        let aggregates = running.program.query.is_aggregate() && !running.program.ships_everything;
        let state = &mut self.motes[usize::from(mote)];
        state.turns[usize::from(number)] = Some(epoch + 1);
        let mut payloads: Vec<Arc<[u8]>> = Vec::new();
        if aggregates {
            let mut groups = state.take_groups((number, epoch));
            if let Some(Measured::States(key, states)) = own {
                groups.add(&functions, key, &states);
            }
            let pieces = groups.emit(&functions, MAX_MOTE_MESSAGE - RESULT_HEADER);
            let piece = |groups| MoteMessage::Partial { query: number, epoch, node: mote, groups }.to_bytes();
            payloads.extend(pieces.into_iter().map(|groups| piece(groups).into()));
        } else {
            if let Some(Measured::Values(values)) = own {
                payloads
                    .push(MoteMessage::Row { query: number, epoch, node: mote, values }.to_bytes().into());
            }
            let waiting = std::mem::take(&mut state.waiting);
            let (due, others) = waiting.into_iter().partition(|(query, _)| *query == number);
            state.waiting = others;
            let due: Vec<(u8, Arc<[u8]>)> = due;
            payloads.extend(due.into_iter().map(|(_, payload)| payload));
        }
        for payload in payloads {
            self.send_up(mote, payload, 0, now, stream);
        }
        if epoch + 1 < epochs {
            self.schedule_turn(mote, number, epoch + 1, stream);
        }
    }

    /// Returns what a mote contributes to an epoch.
    fn measure(&mut self, mote: u16, number: u8, epoch: u32) -> Option<Measured> {
        let running = &self.queries[usize::from(number)];
        let (at, program) = (running.epoch(epoch), running.program.clone());
        if !self.field.is_joined(&program.query, mote) {
            return None;
        }
        let mut samples: Vec<(Sensor, f32)> = Vec::new();
        let mut value = |motes: &mut Motes, column: Column| match column.alone() {
            Column::Node => f32::from(mote),
            Column::Epoch => epoch as f32,
            Column::Joined(column) => motes.field.joined(&program.query, mote, column).unwrap_or(f32::NAN),
            // A column alone has no side.
            Column::Of(..) => f32::NAN,
            Column::Sensor(sensor) => match samples.iter().find(|(other, _)| *other == sensor) {
                Some((_, value)) => *value,
                None => {
                    let value = motes.sample(mote, sensor, at);
                    samples.push((sensor, value));
                    value
                }
            },
        };
        if program.query.is_pair() && !program.ships_everything {
            let is_left = program.is_side(Side::Left, &mut |column| value(self, column));
            if !is_left && !program.is_side(Side::Right, &mut |column| value(self, column)) {
                return None;
            }
        }
        if program.ships_everything || program.query.is_pair() {
            return Some(Measured::Values(
                program.inputs.iter().map(|column| value(self, *column)).collect(),
            ));
        }
        for condition in &program.plan {
            if !condition.holds(value(self, condition.column)) {
                return None;
            }
        }
        if program.query.is_aggregate() {
            let (key, states) = program.states((epoch, mote), &mut |column| value(self, column));
            return Some(Measured::States(key, states));
        }
        let sent = program.query.items.iter().filter_map(sent_column);
        Some(Measured::Values(sent.map(|column| value(self, column)).collect()))
    }

    /// Handles a row of a child, or at the base station.
    pub(super) fn collect_row(
        &mut self,
        at: u16,
        (number, epoch): (u8, u32),
        row: Row,
        (now, payload): (Time, &Arc<[u8]>),
        stream: &mut RandomStream,
    ) {
        if at != BASE {
            let mote = &mut self.motes[usize::from(at)];
            match mote.turns.get(usize::from(number)).copied().flatten() {
                Some(turn) if epoch >= turn => mote.waiting.push((number, payload.clone())),
                _ => self.send_up(at, payload.clone(), 0, now, stream),
            }
            return;
        }
        let Some(running) = self.queries.get_mut(usize::from(number)) else { return };
        if running.program.query.is_pair() {
            if running.program.inputs.len() == row.values.len() {
                self.pair_up(number, row);
            }
            return;
        }
        let columns: Vec<Column> = if running.program.ships_everything {
            running.program.inputs.clone()
        } else {
            running.program.query.items.iter().filter_map(sent_column).collect()
        };
        if columns.len() != row.values.len() {
            return;
        }
        let key = (row.epoch, row.node);
        let value = |column: Column| match column {
            Column::Node => f32::from(row.node),
            Column::Epoch => row.epoch as f32,
            _ => columns.iter().position(|other| *other == column).map_or(f32::NAN, |n| row.values[n]),
        };
        let conditions = if running.program.ships_everything { &running.program.plan[..] } else { &[] };
        if !conditions.iter().all(|condition| condition.holds(value(condition.column))) {
            return;
        }
        if running.program.query.is_aggregate() {
            if epoch < running.ended {
                self.totals.late += 1;
                return;
            }
            let (group, states) = running.program.states(key, &mut |column| value(column));
            let functions = running.program.functions.clone();
            running.groups(epoch).add(&functions, group, &states);
            return;
        }
        let row = running.program.row(key, &value);
        let start = running.start;
        self.give(Collected { query: number, start, row });
    }

    /// Joins a row with those of its epoch or window, at the base station. Each pair of rows is found once per order.
    fn pair_up(&mut self, number: u8, row: Row) {
        let running = &mut self.queries[usize::from(number)];
        let program = running.program.clone();
        let window = program.query.pairing.map_or(0, |pairing| pairing.window(program.query.period));
        let oldest = row.epoch.saturating_sub(EPOCHS + window);
        running.unpaired.retain(|other| other.epoch >= oldest);
        let is_near = |other: &&Row| {
            let is_itself = (other.epoch, other.node) == (row.epoch, row.node);
            !is_itself && other.epoch.abs_diff(row.epoch) <= window
        };
        let others = running.unpaired.iter().filter(is_near);
        let pairs = others.flat_map(|other| [[other, &row], [&row, other]]);
        let rows: Vec<Row> = pairs.filter_map(|pair| program.pair(pair)).collect();
        let start = running.start;
        running.unpaired.push(row);
        rows.into_iter().for_each(|row| self.give(Collected { query: number, start, row }));
    }

    /// Handles partial aggregates of a child, or at the base station.
    pub(super) fn collect_groups(
        &mut self,
        at: u16,
        (number, epoch): (u8, u32),
        groups: &[u8],
        (now, payload): (Time, &Arc<[u8]>),
        stream: &mut RandomStream,
    ) {
        let Some(running) = self.queries.get_mut(usize::from(number)) else { return };
        let functions = running.program.functions.clone();
        if at == BASE {
            if epoch < running.ended {
                self.totals.late += 1;
            } else if let Some(groups) = Groups::parse(&functions, groups) {
                running.groups(epoch).merge(&functions, &groups);
            }
            return;
        }
        let mote = &mut self.motes[usize::from(at)];
        let is_early = mote.turns[usize::from(number)].is_some_and(|turn| epoch >= turn);
        match Groups::parse(&functions, groups) {
            Some(groups) if is_early => mote.groups((number, epoch)).merge(&functions, &groups),
            _ => self.send_up(at, payload.clone(), 0, now, stream),
        }
    }

    /// Evaluates the aggregates of an epoch at the base station.
    pub(super) fn end_epoch(&mut self, number: u8, epoch: u32, _now: Time) {
        let running = &mut self.queries[usize::from(number)];
        running.ended = epoch + 1;
        let ended = running.groups.iter().position(|(other, _)| *other == epoch);
        let groups = ended.map(|at| running.groups.swap_remove(at).1).unwrap_or_default();
        let rows: Vec<Row> =
            groups.0.iter().map(|(key, states)| running.program.evaluate(epoch, *key, states)).collect();
        let (start, next) = (running.start, running.epoch(epoch + 2) + GRACE);
        if epoch + 1 < running.program.query.epochs() {
            self.schedule(next, Task::EpochEnd(number, epoch + 1));
        }
        rows.into_iter().for_each(|row| self.give(Collected { query: number, start, row }));
    }

    fn give(&mut self, result: Collected) {
        self.totals.rows += 1;
        self.results.push(result);
    }
}

/// Contribution of a mote to an epoch.
enum Measured {
    /// Values of a row.
    Values(Vec<f32>),
    /// Group and states of an aggregate.
    States(f32, Vec<State>),
}

/// Returns the column of an item that a row carries. Node and epoch are in its header.
fn sent_column(item: &Item) -> Option<Column> {
    match item {
        Item::Column(Column::Node | Column::Epoch) => None,
        Item::Column(column) | Item::Aggregate(_, column) => Some(*column),
    }
}
