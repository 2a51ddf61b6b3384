//! Path of a connection by time.
//!
//! It has rates and delays of the run's states, as the sender sees them.

use bentpipe_net::queue::Discipline;
use bentpipe_scenario::{Scenario, Way};
use bentpipe_units::{Bytes, Rate, Span};

use super::kept::{Course, Stage, Trip, rooms};
use super::medium::Media;
use super::path::Path;
use super::queues::{queue_bytes, queue_of};
use super::sharing::Alone;
use super::states::States;
use super::{copies_of, size};

/// The most states of a path.
///
/// Behind them it has the greatest rate and the least delays of some of the rest.
pub(super) const MOST_STATES: usize = 1000;

/// Part of the rate at which ACKs fill their way from which on they wait.
const NEARLY: f64 = 0.98;

/// Seconds that a bit takes of a line that is down.
///
/// ACKs on it have no distance, as how long they wait is that of the state.
const DOWN: f64 = 1.0;

/// Idle path from a time on, as a sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathState {
    /// Time from the start of the flow.
    pub(super) from: Span,
    /// Rate of payload at the bottleneck. Zero while it is down.
    pub(super) rate: Rate,
    /// Time of a full packet without queueing.
    pub(super) there: Span,
    /// Time of an ACK without queueing.
    pub(super) back: Span,
    /// Distance of ACKs at the bottleneck of the way back. Zero: none waits there.
    pub(super) ack: Span,
}

/// Path of a flow over the run.
pub(super) struct Along {
    /// States from the start of the run on.
    all: Vec<PathState>,
}

impl Along {
    /// Returns the path of a flow from a time on.
    pub(super) fn new(
        scenario: &Scenario,
        (media, states): (&Media<'_>, &States),
        (n, path, alone): (usize, &Path, &Alone),
        is_shared: &dyn Fn((usize, Way)) -> bool,
        from: Span,
    ) -> Along {
        let states = states.fine();
        let acks_stay = acks_stay(scenario, (media, states), (n, path), is_shared);
        let flow = &scenario.flow[n];
        let per_ack = 8.0 * path.payload as f64 / flow.traffic.kind().answers_per_packet().max(1e-9);
        let ack = |state: usize| {
            let [data, answers] = alone.of(media, states, state);
            // Where they are lost, others acknowledge more.
            let waits = acks_stay && answers > NEARLY * data && answers < DOWN;
            if waits { Span::from_secs_f64(answers * per_ack) } else { Span::ZERO }
        };
        let of = |state: usize| {
            let [there, back] = path.ways(media, states, state);
            let rate = alone.by_link(media, states, state).into_iter().fold(MOST_RATE, f64::min);
            PathState { from: Span::ZERO, rate: Rate::from_bps(rate as u64), there, back, ack: ack(state) }
        };
        let stage = |state: usize| Stage {
            rates: alone.by_link(media, states, state),
            there: path.takes_there(media, states, state),
            arriving: 1.0,
        };
        let first = states.at(from);
        let last = states.len().min(first + MOST_STATES);
        let mut course = None;
        let takes_back = |state: usize| path.takes_back(media, states, state);
        let mut back = Trip::new(from.as_secs_f64(), &takes_back(first));
        let mut changes: Vec<(Span, Change)> = Vec::new();
        for state in first + 1..last {
            if let Some(changed) = path.changes_there(states, state) {
                let before = path.takes_there(media, states, state - 1).before();
                let course = course.get_or_insert_with(|| Course::new(from, &stage(first)));
                course.push(states.start(state), (&before, changed), &stage(state));
            }
            // The sender sees a change on its way by what it sent before.
            if let Some(changed) = path.changes_back(states, state) {
                let (start, before) = (states.start(state), takes_back(state - 1).before());
                back.push(start.as_secs_f64(), (&before, changed), &takes_back(state));
                let before = Span::from_secs_f64(before[changed[0]]);
                changes.push((start.saturating_sub(before), Change::Ack(ack(state))));
            }
        }
        let of_back = |(at, back): (f64, f64)| {
            (Span::from_secs_f64(at.max(0.0)), Change::Back(Span::from_secs_f64(back)))
        };
        changes.extend(back.whole().into_iter().skip(1).map(of_back));
        changes.extend(course.iter().flat_map(|course| of_course(course, &rooms(scenario, media, path))));
        changes.sort_by_key(|(at, _)| *at);
        let mut all = vec![of(first)];
        for (at, change) in changes {
            enter(&mut all, at.max(from), change);
        }
        let mut along = Along { all };
        if last < states.len() {
            let rest: Vec<PathState> =
                (last..states.len()).step_by((states.len() / MOST_STATES).max(1)).map(of).collect();
            let at = states.start(last);
            along.all.retain(|state| state.from < at);
            along.all.extend(best(&rest).map(|best| PathState { from: at, ..best }));
        }
        along
    }

    /// Returns the path from the start of a copy on.
    pub(super) fn from(&self, start: Span) -> Vec<PathState> {
        let first = self.all.partition_point(|state| state.from <= start).max(1) - 1;
        let since = |state: &PathState| PathState { from: state.from.saturating_sub(start), ..*state };
        self.all[first..].iter().map(since).collect()
    }

    /// Returns the path with the best of all states.
    pub(super) fn best(&self) -> Vec<PathState> {
        best(&self.all).into_iter().collect()
    }

    /// Returns `true` if it stays in a time.
    pub(super) fn is_still(&self, from: Span, to: Span) -> bool {
        !self.all.iter().any(|state| state.from > from && state.from < to)
    }
}

/// Returns a state that is as good as the best of some.
fn best(all: &[PathState]) -> Option<PathState> {
    all.iter().copied().reduce(|a, b| PathState {
        from: Span::ZERO,
        rate: a.rate.max(b.rate),
        there: a.there.min(b.there),
        back: a.back.min(b.back),
        ack: a.ack.min(b.ack),
    })
}

/// Change of a path.
#[derive(Clone, Copy)]
enum Change {
    /// Rate at the end of the way there.
    Rate(Rate),
    /// Time there.
    There(Span),
    /// Time back.
    Back(Span),
    /// Distance of ACKs.
    Ack(Span),
}

/// The greatest rate that is counted with.
const MOST_RATE: f64 = 1e15;

/// Returns the changes of the way there. Its queues keep what came before them.
fn of_course(course: &Course, rooms: &[f64]) -> Vec<(Span, Change)> {
    let leaving = course.leaving(rooms, None);
    let there = course.least_there(&leaving);
    let rates =
        leaving.iter().map(|now| (now.at, Change::Rate(Rate::from_bps(now.rate.min(MOST_RATE) as u64))));
    let there = there.iter().map(|(at, there)| (*at, Change::There(Span::from_secs_f64(*there))));
    rates.chain(there).map(|(at, change)| (Span::from_secs_f64(at.max(0.0)), change)).collect()
}

/// Enters a change at a time. Times of calls are in order.
fn enter(all: &mut Vec<PathState>, at: Span, change: Change) {
    let Some(last) = all.last().copied() else { return };
    let next = match change {
        Change::Rate(rate) => PathState { from: at, rate, ..last },
        Change::There(there) => PathState { from: at, there, ..last },
        Change::Back(back) => PathState { from: at, back, ..last },
        Change::Ack(ack) => PathState { from: at, ack, ..last },
    };
    if (PathState { from: last.from, ..next }) == last {
        return;
    }
    if at <= last.from {
        all.pop();
        all.push(PathState { from: last.from, ..next });
    } else {
        all.push(next);
    }
}

/// Returns `true` if no ACK is lost, though many wait on the way back.
fn acks_stay(
    scenario: &Scenario,
    (media, states): (&Media<'_>, &States),
    (n, path): (usize, &Path),
    is_shared: &dyn Fn((usize, Way)) -> bool,
) -> bool {
    let (Some(window), flow) = (path.window, &scenario.flow[n]) else { return false };
    let all = window.most.get().min(size(flow).map_or(u64::MAX, Bytes::get));
    let acks = all / path.payload.max(1) + MORE_ACKS;
    let len = path.answer_len();
    let holds = |&(link, way): &(usize, Way)| {
        let queue = queue_of(media, link, way).filter(|queue| matches!(queue, Discipline::DropTail(_)));
        let held = queue.and_then(|queue| queue_bytes(&queue, Bytes::new(len)));
        let is_enough = held.is_some_and(|held| held.get() >= acks.saturating_mul(len));
        is_enough && media.limit(link, way).is_none() && states.losses.all((link, way)).next().is_none()
    };
    let is_alone = |at: &(usize, Way)| !is_shared(*at) && copies_of(scenario, n) == 1;
    path.ways_back().iter().all(|at| holds(at) && is_alone(at))
}

/// Number of ACKs beyond one for each segment of a window.
const MORE_ACKS: u64 = 20;

/// Data that a path carries in times.
pub(super) struct Carried {
    /// The path from the start of a flow on.
    pub(super) path: Vec<PathState>,
    /// The most bytes in flight, if they count.
    pub(super) window: Option<Bytes>,
}

impl Carried {
    /// Returns the goodput of a state.
    pub(super) fn rate(&self, state: &PathState) -> Rate {
        let rtt = state.there + state.back;
        let window = self.window.filter(|_| !rtt.is_zero()).map(|window| Rate::of(window, rtt));
        window.map_or(state.rate, |window| window.min(state.rate))
    }

    /// Returns rates from a time on, each with begin and end.
    fn from(&self, from: Span) -> impl Iterator<Item = (Rate, Span, Span)> {
        let ends = self.path.iter().skip(1).map(|state| state.from).chain([Span::MAX]);
        let all = self.path.iter().zip(ends).enumerate().flat_map(|(n, (state, end))| {
            let released = self.released(n).min(end);
            [(state.rate, state.from, released), (self.rate(state), released, end)]
        });
        let all = all.filter(move |(_, begin, end)| *end > from && begin < end);
        all.map(move |(rate, begin, end)| (rate, begin.max(from), end))
    }

    /// Returns the time up to which a state carries what waited before it.
    fn released(&self, n: usize) -> Span {
        let (state, Some(window)) = (&self.path[n], self.window) else { return self.path[n].from };
        let Some(before) = n.checked_sub(1).map(|before| &self.path[before]) else { return state.from };
        if state.rate <= before.rate || self.rate(state) == state.rate {
            return state.from;
        }
        let on_way = before.rate.bdp(before.there + before.back);
        state.from + state.rate.span_of(Bytes::new(window.get().saturating_sub(on_way.get())))
    }

    /// Returns the bytes carried between two times.
    pub(super) fn between(&self, from: Span, to: Span) -> Bytes {
        let of = |(rate, begin, end): (Rate, Span, Span)| rate.bdp(end.min(to).saturating_sub(begin)).get();
        Bytes::new(self.from(from).map(of).fold(0, u64::saturating_add))
    }
}

/// Returns the greatest of some path's bandwidth-delay products, up to an end.
pub(super) fn product(path: &[PathState], end: Span) -> Bytes {
    let held = path.iter().filter(|state| state.from < end || state.from.is_zero());
    held.map(|state| state.rate.bdp(state.there + state.back)).max().unwrap_or_default()
}

/// Returns `true` if rates or round trips differ, up to an end.
pub(super) fn changes(path: &[PathState], end: Span) -> bool {
    let held = || path.iter().filter(|state| state.from < end || state.from.is_zero());
    let differs = |of: &dyn Fn(&PathState) -> f64| {
        let [least, most] =
            [held().map(of).fold(f64::INFINITY, f64::min), held().map(of).fold(0.0, f64::max)];
        most - least > SAME * most
    };
    differs(&|state| state.rate.as_bps() as f64) || differs(&|state| (state.there + state.back).as_secs_f64())
}

/// Part by which rates and round trips may differ that windows need not follow.
const SAME: f64 = 0.02;
