//! Data that queues and lines keep over changes of a way.
//!
//! A source that always sends fills each queue as far as any does. At no time does more leave the way of another one.

use bentpipe_scenario::{Role, Scenario, Way};
use bentpipe_units::{Bytes, Span};

use super::medium::Media;
use super::path::Path;
use super::queues::{queue_bytes, queue_of};
use super::states::States;
use super::takes::Takes;

/// Stages that keep packets as they come, and no more than their limit.
const STAGES_OF_PACKETS: [&str; 2] = ["shaper", "quick_start"];

/// The longest wait that is counted with, in seconds.
const LONG: f64 = 1e6;

/// Value from a time on, in seconds.
pub(super) type From = (f64, f64);

/// Rates and delays of a way, by the times at which data leave its sender.
#[derive(Default)]
pub(super) struct Course {
    /// Rates of payload of each link.
    rates: Vec<Vec<From>>,
    /// Seconds of a full packet without queueing.
    there: Trip,
    /// Parts of what leaves the last link that arrive.
    arriving: Vec<From>,
}

/// Way in a state of the run.
pub(super) struct Stage {
    /// Rates of payload of each link.
    pub(super) rates: Vec<f64>,
    /// Seconds of a full packet without queueing.
    pub(super) there: Takes,
    /// Part of what leaves the last link that arrives.
    pub(super) arriving: f64,
}

impl Course {
    /// Creates it with the state at a time.
    pub(super) fn new(at: Span, stage: &Stage) -> Course {
        let at = at.as_secs_f64();
        Course {
            rates: stage.rates.iter().map(|rate| vec![(at, *rate)]).collect(),
            there: Trip::new(at, &stage.there),
            arriving: vec![(at, stage.arriving)],
        }
    }

    /// Adds a state that begins at a time. `before` are the delays in front of each link in the state before.
    ///
    /// `changed` are the first and the last link that change.
    pub(super) fn push(&mut self, at: Span, (before, changed): (&[f64], [usize; 2]), stage: &Stage) {
        let at = at.as_secs_f64();
        let seen = |link: usize| at - before.get(link).copied().unwrap_or_default();
        for (link, rate) in stage.rates.iter().enumerate() {
            enter(&mut self.rates[link], seen(link), *rate);
        }
        self.there.push(at, (before, changed), &stage.there);
        enter(&mut self.arriving, seen(before.len().saturating_sub(1)), stage.arriving);
    }

    /// Follows a source through the queues of the links. It always sends, or at a rate.
    pub(super) fn leaving(&self, rooms: &[f64], source: Option<f64>) -> Vec<Leaving> {
        let links = self.rates.len();
        let mut walk = Walk { course: self, next: vec![1; links], held: vec![0.0; links] };
        let mut at = self.there.begin();
        let mut all: Vec<Leaving> = Vec::new();
        loop {
            let (now, until) = walk.leave(at, rooms, source);
            match all.last_mut() {
                Some(last) if last.rate == now.rate && last.wait >= now.wait => {}
                _ => all.push(now),
            }
            if !until.is_finite() || all.len() > MOST_LEAVING {
                return all;
            }
            walk.pass((at, until), rooms, source);
            at = until;
        }
    }

    /// Returns the time of a full packet from each time on, at the least.
    ///
    /// What waits behind a link whose delay grows does not take longer.
    pub(super) fn least_there(&self, leaving: &[Leaving]) -> Vec<From> {
        let mut all: Vec<From> = Vec::new();
        for (at, value) in &self.there.whole() {
            let grows = all.last().is_some_and(|(_, before)| before < value);
            let n = leaving.partition_point(|leaving| leaving.at <= *at).max(1) - 1;
            let wait = if grows { leaving.get(n).map_or(0.0, |leaving| leaving.wait) } else { 0.0 };
            while all.len() > 1 && all.last().is_some_and(|(last, _)| *last >= at + wait) {
                all.pop();
            }
            enter(&mut all, at + wait, *value);
        }
        all
    }

    /// Returns the bits that arrive between two times at most.
    fn arrived(&self, leaving: &[Leaving], from: f64, to: f64) -> f64 {
        let (first, last) =
            (comes_from(&self.there.whole(), from), comes_from(&self.least_there(leaving), to));
        let rates: Vec<From> = leaving.iter().map(|leaving| (leaving.at, leaving.rate)).collect();
        let mut cuts: Vec<f64> = rates.iter().chain(&self.arriving).map(|(at, _)| *at).collect();
        cuts.extend([first, last]);
        cuts.sort_by(f64::total_cmp);
        let inside = |pair: &&[f64]| pair[0] >= first && pair[1] <= last && pair[1] > pair[0];
        let bits =
            |pair: &[f64]| value(&rates, pair[0]) * value(&self.arriving, pair[0]) * (pair[1] - pair[0]);
        cuts.windows(2).filter(inside).map(bits).sum()
    }
}

/// Seconds of a packet on a way, by the time of its sending.
///
/// A packet has the delay of each link when it comes to it.
#[derive(Default)]
pub(super) struct Trip {
    /// Delays of each link.
    delays: Vec<Vec<From>>,
    /// Transmissions on all of them.
    sending: Vec<From>,
}

impl Trip {
    /// Creates it with the times from a time on.
    pub(super) fn new(at: f64, takes: &Takes) -> Trip {
        let delays = takes.delays.iter().map(|delay| vec![(at, *delay)]).collect();
        Trip { delays, sending: vec![(at, takes.sending)] }
    }

    /// Adds those of a state that begins at a time.
    ///
    /// `before` are the delays in front of each link in the state before, and `first` and `last` the links that change.
    pub(super) fn push(&mut self, at: f64, (before, [first, last]): (&[f64], [usize; 2]), takes: &Takes) {
        let seen = |link: usize| at - before.get(link).copied().unwrap_or_default();
        for (link, delay) in takes.delays.iter().enumerate() {
            enter(&mut self.delays[link], seen(link), *delay);
        }
        // Shorter ones of any link count for all that have not come to the last.
        let is_shorter = self.sending.last().is_some_and(|(_, before)| takes.sending < *before);
        enter(&mut self.sending, seen(if is_shorter { last } else { first }), takes.sending);
    }

    fn begin(&self) -> f64 {
        self.sending[0].0
    }

    /// Returns the whole of it from each time on.
    pub(super) fn whole(&self) -> Vec<From> {
        let parts = || self.delays.iter().chain([&self.sending]);
        let mut times: Vec<f64> = parts().flatten().map(|(at, _)| *at).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let mut all = Vec::new();
        for at in times {
            enter(&mut all, at, parts().map(|part| value(part, at)).sum());
        }
        all
    }
}

/// The most changes of what leaves a way.
const MOST_LEAVING: usize = 100_000;

/// Enters a value from a time on. Times of calls are in order.
fn enter(values: &mut Vec<From>, at: f64, value: f64) {
    let Some((last, before)) = values.last_mut() else { return values.push((at, value)) };
    if *before == value {
        return;
    }
    if at > *last { values.push((at, value)) } else { *before = value }
}

/// Returns the value at a time.
fn value(values: &[From], at: f64) -> f64 {
    values[values.partition_point(|(from, _)| *from <= at).max(1) - 1].1
}

/// Returns the first time at which something leaves that comes at a time or later. What leaves stays in order.
fn comes_from(there: &[From], at: f64) -> f64 {
    let ends = there.iter().skip(1).map(|(end, _)| *end).chain([f64::INFINITY]);
    let found = there.iter().zip(ends).map(|((from, takes), end)| (from.max(at - takes), end));
    found.filter(|(leaves, end)| leaves < end).map(|(leaves, _)| leaves).next().unwrap_or(at)
}

/// Data that leaves a way from a time on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    /// Seconds, by the time at which its sender sends.
    pub(super) at: f64,
    /// Rate of payload.
    pub(super) rate: f64,
    /// Seconds of what waits behind the first link until the next change.
    pub(super) wait: f64,
}

struct Walk<'a> {
    course: &'a Course,
    /// Numbers of the next rates of each link.
    next: Vec<usize>,
    /// Bits that wait in front of each link.
    held: Vec<f64>,
}

impl Walk<'_> {
    fn rate(&self, link: usize) -> f64 {
        self.course.rates[link][self.next[link] - 1].1
    }

    /// Returns the rates at which queues grow, and that at the end.
    fn growth(&self, rooms: &[f64], source: Option<f64>) -> (Vec<f64>, f64) {
        let mut come = source.unwrap_or(f64::INFINITY);
        let of = |link: usize| {
            let rate = self.rate(link);
            let leaves = if self.held[link] > 0.0 { rate } else { rate.min(come) };
            // A source that always sends has no more than it may.
            let growth = if come.is_finite() { come - leaves } else { 0.0 };
            come = leaves;
            if self.held[link] >= rooms[link] { growth.min(0.0) } else { growth }
        };
        let growth = (0..self.held.len()).map(of).collect();
        (growth, come)
    }

    /// Returns what leaves from a time on, and the time up to which it stays.
    fn leave(&self, at: f64, rooms: &[f64], source: Option<f64>) -> (Leaving, f64) {
        let (growth, rate) = self.growth(rooms, source);
        let ends = (0..self.held.len()).map(|link| self.ends(link, at, (growth[link], rooms[link])));
        let change = |link: usize| self.course.rates[link].get(self.next[link]).map(|(at, _)| *at);
        let changes = (0..self.held.len()).filter_map(change);
        let until = ends.chain(changes).fold(f64::INFINITY, f64::min);
        let of_link = |link: usize| {
            let grows = growth[link].max(0.0) * (until - at);
            let held = self.held[link].max(if grows > 0.0 { self.held[link] + grows } else { 0.0 });
            if held > 0.0 { (held.min(rooms[link]) / self.rate(link).max(1.0)).min(LONG) } else { 0.0 }
        };
        let wait = (1..self.held.len()).map(of_link).sum();
        (Leaving { at, rate, wait }, until)
    }

    /// Returns the time at which a queue that grows or shrinks is full or empty.
    fn ends(&self, link: usize, at: f64, (growth, room): (f64, f64)) -> f64 {
        match growth {
            growth if growth < 0.0 => at - self.held[link] / growth,
            growth if growth > 0.0 => at + (room - self.held[link]) / growth,
            _ => f64::INFINITY,
        }
    }

    /// Passes the time between two instants, the second of which [`Walk::leave`] has returned.
    fn pass(&mut self, (at, until): (f64, f64), rooms: &[f64], source: Option<f64>) {
        let (growth, _) = self.growth(rooms, source);
        for link in 0..self.held.len() {
            let (grows, room) = (growth[link], rooms[link]);
            let is_over = self.ends(link, at, (grows, room)) <= until;
            self.held[link] = match is_over {
                true if grows < 0.0 => 0.0,
                true => room,
                false => (self.held[link] + grows * (until - at)).clamp(0.0, room),
            };
            let rates = &self.course.rates[link];
            while rates.get(self.next[link]).is_some_and(|(at, _)| *at <= until) {
                self.next[link] += 1;
            }
        }
    }
}

/// Returns the bits of payload that wait in front of each link there at most.
pub(super) fn rooms(scenario: &Scenario, media: &Media<'_>, path: &Path) -> Vec<f64> {
    let window = path.window.map_or(f64::INFINITY, |window| window.most.get() as f64);
    let part = path.payload as f64 / path.packet.max(1) as f64;
    let of = |(n, hop): (usize, &(usize, Way, u64))| {
        let node = path.nodes.get(n).map_or("", String::as_str);
        let keeps = |role: &Role| matches!(role, Role::Dtn(_)) || role.splits_at().is_some();
        if n > 0 && scenario.roles_of(node).iter().any(keeps) {
            return f64::INFINITY;
        }
        // One more is in transmission.
        let bytes = held(media, (hop.0, hop.1), path.packet).map(|held| held + path.packet as f64);
        8.0 * bytes.map_or(f64::INFINITY, |bytes| bytes * part).min(window)
    };
    path.hops_there().iter().enumerate().map(of).collect()
}

/// Returns the bytes that wait in front of a direction at most. `None` without a known bound.
fn held(media: &Media<'_>, (link, way): (usize, Way), packet: u64) -> Option<f64> {
    let side = media.side(link, way);
    let rows = side.stages.by_row();
    if rows.iter().any(|(row, stage)| stage.is_some() && !STAGES_OF_PACKETS.contains(&row.key)) {
        return None;
    }
    let shaped = side.stages.shaper.as_ref().map_or(0, |shaper| shaper.limit.get());
    let queue = queue_bytes(&queue_of(media, link, way)?, Bytes::new(packet))?;
    Some(shaped.saturating_add(queue.get()) as f64)
}

/// Payload that is kept over changes of a flow's way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Bits of a source that always sends, beyond those of each moment's rates.
    pub(super) more: f64,
    /// Mean rate of a source with its own rate.
    pub(super) offered: f64,
}

/// Returns what is kept over changes of a flow's way. `None` if it stays.
///
/// `last` is the last state in which it sends, `of` the way in a state, and `offered` the rate of its source.
pub(super) fn kept(
    (scenario, media, states): (&Scenario, &Media<'_>, &States),
    (n, path): (usize, &Path),
    (last, of, offered): (usize, &dyn Fn(usize) -> Stage, Option<f64>),
) -> Option<Kept> {
    let start = Span::from_secs_f64(*states.activities.starts(n).first()?);
    let first = states.at(start);
    let from = states.activities.warm_up().unwrap_or_default().max(start);
    let to = states.end(last);
    if from >= to {
        return None;
    }
    let (mut course, mut now, mut bits) = (Course::new(start, &of(first)), of(first), 0.0);
    for state in first..=last {
        if state > first
            && let Some(changed) = path.changes_there(states, state)
        {
            let before = now.there.before();
            now = of(state);
            course.push(states.start(state), (&before, changed), &now);
        }
        let lasts = states.end(state).min(to).saturating_sub(states.start(state).max(from));
        bits += now.rates.iter().copied().fold(f64::INFINITY, f64::min) * now.arriving * lasts.as_secs_f64();
    }
    let rooms = rooms(scenario, media, path);
    let begin = if from > start { from.as_secs_f64() } else { f64::NEG_INFINITY };
    let arrived = |source| course.arrived(&course.leaving(&rooms, source), begin, to.as_secs_f64());
    let seconds = to.saturating_sub(from).as_secs_f64();
    Some(Kept {
        more: (arrived(None) - bits).max(0.0),
        offered: offered.map_or(0.0, |offered| arrived(Some(offered)) / seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(delays: &[f64], sending: f64) -> Takes {
        Takes { delays: delays.to_vec(), sending }
    }

    fn stage(rates: &[f64], there: f64) -> Stage {
        Stage { rates: rates.to_vec(), there: takes(&[], there), arriving: 1.0 }
    }

    /// Two links of 4 and 1 bit/s change places after 4 s: what waits goes at the rate of the second.
    #[test]
    fn a_queue_keeps_what_came_before_a_change() {
        let mut course = Course::new(Span::ZERO, &stage(&[4.0, 1.0], 0.0));
        course.push(Span::from_secs(4), (&[0.0, 0.0], [0, 1]), &stage(&[0.1, 4.0], 0.0));
        let arrived = |room: f64, source| {
            let leaving = course.leaving(&[room, room], source);
            course.arrived(&leaving, f64::NEG_INFINITY, 10.0)
        };
        // 12 wait, and 0.6 come.
        assert!((arrived(f64::INFINITY, None) - (4.0 + 12.0 + 0.6)).abs() < 1e-9);
        assert!((arrived(5.0, None) - (4.0 + 5.0 + 0.6)).abs() < 1e-9);
        assert!((arrived(0.0, None) - (4.0 + 0.6)).abs() < 1e-9);
        // Of 2 bit/s the first link keeps what it cannot send later.
        assert!((arrived(100.0, Some(2.0)) - (4.0 + 4.0 + 0.6)).abs() < 1e-9);
    }

    /// What is on a long line arrives when the line is short, and then what is sent later with it.
    #[test]
    fn a_line_keeps_what_was_sent_before_a_change() {
        let mut course = Course::new(Span::ZERO, &stage(&[1.0], 2.0));
        course.push(Span::from_secs(5), (&[0.0], [0, 0]), &stage(&[1.0], 0.5));
        let arrived = |from: f64, to: f64| course.arrived(&course.leaving(&[1.0], None), from, to);
        assert!((arrived(5.0, 10.0) - 6.5).abs() < 1e-9);
        assert!((arrived(2.0, 4.0) - 2.0).abs() < 1e-9);
        // In a delay that grows nothing comes.
        let mut course = Course::new(Span::ZERO, &stage(&[1.0], 1.0));
        course.push(Span::from_secs(5), (&[0.0], [0, 0]), &stage(&[1.0], 3.0));
        assert!((course.arrived(&course.leaving(&[1.0], None), 5.0, 10.0) - 3.0).abs() < 1e-9);
    }

    /// What is on the first link has the delay that the second one has when it comes there.
    #[test]
    fn each_link_has_its_delay_when_a_packet_comes_to_it() {
        let trip = |first: f64, second: f64| {
            let mut trip = Trip::new(0.0, &takes(&[0.2, 0.2], 0.0));
            trip.push(0.9, (&[0.0, 0.2], [0, 1]), &takes(&[first, second], 0.0));
            trip.whole().into_iter().map(|(at, all)| (at, (all * 1e6).round() / 1e6)).collect::<Vec<_>>()
        };
        assert_eq!(trip(0.2, 0.005), [(0.0, 0.4), (0.7, 0.205)]);
        assert_eq!(trip(0.1, 0.005), [(0.0, 0.4), (0.7, 0.205), (0.9, 0.105)]);
        // Transmissions that are shorter from a time on count for what has not come to the last link.
        let mut trip = Trip::new(0.0, &takes(&[0.2, 0.2], 0.3));
        trip.push(0.9, (&[0.0, 0.2], [0, 1]), &takes(&[0.2, 0.2], 0.1));
        assert_eq!(trip.whole()[1].0, 0.7);
    }
}
