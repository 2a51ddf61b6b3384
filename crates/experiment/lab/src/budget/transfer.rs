//! Transfers over TCP on an idle path: slow start and completion.

use std::collections::{HashMap, HashSet};

use bentpipe_scenario::{Controller, Flow, Scenario, Traffic, Way};
use bentpipe_site::{Ascent, Climbed, PathState, TrafficKind};
use bentpipe_units::{Bytes, Rate, Span};

use super::active::{ends_early, is_bulk, rest_of, time};
use super::along::{Along, Carried, changes, product};
use super::medium::Media;
use super::path::{Path, splitter};
use super::sharing::of_bucket;
use super::size;
use super::states::States;

/// The most ACKs of a slow start.
const MOST_ACKS_EACH: u64 = 200_000;

/// The most ACKs of all slow starts of a budget together.
const MOST_ACKS: u64 = 2_000_000;

/// Greatest ratio of paths that have a slow start in common beyond those ACKs.
const LIKE: f64 = 1.05;

/// Slow starts of flows, those of equal flows once.
pub(super) struct Climbs {
    /// Directions of links that several paths use.
    shared: HashSet<(usize, Way)>,
    /// Number of ACKs that they may still take.
    acks: u64,
    /// Slow starts of each kind of traffic, by their paths.
    known: HashMap<String, HashMap<Ascent, Climbed>>,
}

impl Climbs {
    /// Creates it without a slow start, for some paths.
    pub(super) fn new(paths: &[(usize, Path)]) -> Climbs {
        let (mut used, mut shared) = (HashSet::new(), HashSet::new());
        for at in paths.iter().flat_map(|(_, path)| path.directions()) {
            if !used.insert(at) {
                shared.insert(at);
            }
        }
        Climbs { shared, acks: MOST_ACKS, known: HashMap::new() }
    }

    /// Returns `true` if several paths use a direction of a link.
    pub(super) fn is_shared(&self, at: (usize, Way)) -> bool {
        self.shared.contains(&at)
    }

    /// Returns the slow start of a flow, if it is forecast.
    fn of(&mut self, kind: &dyn TrafficKind, path: &Ascent) -> Option<Climbed> {
        let known = self.known.entry(format!("{kind:?}")).or_default();
        if let Some(climbed) = known.get(path) {
            return Some(*climbed);
        }
        if self.acks == 0 {
            return known.iter().find_map(|(other, climbed)| scaled(other, climbed, path));
        }
        let climbed = kind.ascend(&Ascent { most_acks: path.most_acks.min(self.acks), ..path.clone() })?;
        self.acks -= climbed.acks.min(self.acks);
        known.insert(path.clone(), climbed);
        Some(climbed)
    }
}

/// Returns a slow start of another path, for one that is nearly the same.
fn scaled(of: &Ascent, climbed: &Climbed, path: &Ascent) -> Option<Climbed> {
    let ratio = |this: f64, other: f64| this.max(other) / this.min(other).max(f64::MIN_POSITIVE);
    // The first state may be that of the handshake.
    let rtt = |of: &Ascent| of.path.last().map(|state| (state.there + state.back).as_secs_f64());
    let (this, other) = (rtt(path)?, rtt(of)?);
    let is_like = path.path.len() <= 2
        && of.path.len() == path.path.len()
        && ratio(this, other) < LIKE
        && ratio(path.window.get() as f64, of.window.get() as f64) < LIKE
        && (path.payload, path.data) == (of.payload, of.data);
    let time = |span: Span| span.mul_f64(this / other);
    is_like.then(|| Climbed { time: climbed.time.map(time), end: climbed.end.map(time), ..*climbed })
}

/// Transfer over TCP without other flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Time from the SYN until the window is open.
    pub(super) slow_start: Option<Span>,
    /// Goodput over its time, or until its data have arrived.
    pub(super) goodput: Option<Rate>,
    /// Least time until the data of a transfer of a size have arrived.
    pub(super) takes: Option<Span>,
    /// Set if it has a size.
    pub(super) is_of_size: bool,
    /// Set if rates or round trips of its way change while it sends.
    pub(super) changes: bool,
    /// Set if ACKs wait on the way back, and none is lost.
    pub(super) acks_wait: bool,
    /// Reason why the time that it takes is without slow start.
    pub(super) is_without: Option<&'static str>,
}

/// Least part of a computed time where the path changes meanwhile.
///
/// Where in a flight a change falls is not followed to the packet.
const OF_CHANGES: f64 = 0.94;

/// The most starts of copies that are followed, where the path changes.
const MOST_STARTS: usize = 8;

impl Transfer {
    /// Computes the transfer of a flow. `None` if it has no window, or its path carries nothing.
    ///
    /// Of copies that start at times it takes the least time of any, and the goodput is their mean.
    pub(super) fn new(
        scenario: &Scenario,
        (media, states): (&Media<'_>, &States),
        (n, path): (usize, &Path),
        climbs: &mut Climbs,
    ) -> Option<Transfer> {
        path.window.filter(|_| path.blocked.is_none())?;
        let starts = states.activities.starts(n);
        let (first, last) = (*starts.first()?, *starts.last()?);
        let [first, last] = [first, last].map(Span::from_secs_f64);
        let along = Along::new(scenario, (media, states), (n, path), &|at| climbs.is_shared(at), first);
        let ground = Ground { scenario, media, states, n, path };
        let (mut paths, mut is_best) = (vec![(first, along.from(first))], false);
        // Times of the start differ by little where nothing changes.
        if !along.is_still(first, scenario.duration) && first < last {
            let mut own = starts.to_vec();
            own.dedup();
            is_best = own.len() > MOST_STARTS;
            let own = own.into_iter().map(Span::from_secs_f64);
            paths = match is_best {
                true => vec![(first, along.best())],
                false => own.map(|start| (start, along.from(start))).collect(),
            };
        }
        let transfer =
            |(start, path)| ground.up_to_its_end(path, if is_best { None } else { Some(start) }, climbs);
        let all: Vec<Transfer> = paths.into_iter().filter_map(transfer).collect();
        let first = *all.first()?;
        let takes = all.iter().map(|one| one.takes).min_by_key(|takes| takes.unwrap_or(Span::MAX)).flatten();
        let takes = takes.filter(|takes| !is_cut((&scenario.flow[n], path), last, (*takes, &along)));
        let sum: Option<u64> = all.iter().map(|one| one.goodput.map(Rate::as_bps)).sum();
        let goodput = sum.map(|sum| Rate::from_bps(sum / all.len() as u64));
        let changes = all.iter().any(|one| one.changes) || is_best;
        Some(Transfer { takes, goodput, changes, ..first })
    }
}

/// Path of a transfer, with what its short packets gain.
struct Edges {
    path: Vec<PathState>,
    /// Part of a round trip that packets of the handshake do not take.
    less: Span,
    /// Time by which it is later that the receiver opens.
    opens: Span,
    /// Time by which data of one short packet arrive earlier than a full one.
    shorter: Span,
}

impl Edges {
    /// Returns the time at which one packet that is sent at a time has arrived. `None` if that is not known.
    fn one_packet(&self, at: Span, payload: u64) -> Option<Span> {
        let all = Carried { path: self.path.clone(), window: None };
        let there = self.path.iter().map(|state| state.there).max()?;
        Some(all.end(at, Bytes::new(payload))? + there)
    }

    /// Returns the path for a walk, with a handshake of short packets.
    fn walked(&self) -> Vec<PathState> {
        let mut all: Vec<PathState> = Vec::new();
        for state in &self.path {
            let from = state.from.saturating_sub(self.opens);
            if from.is_zero() {
                all.clear();
            }
            all.push(PathState { from, ..*state });
        }
        let Some(short) = handshake(&all, self.less).filter(|_| !self.less.is_zero()) else { return all };
        let short = short.max(Span::from_nanos(1));
        let next = all.partition_point(|state| state.from <= short);
        let (first, then) = (all[0], all[next.max(1) - 1]);
        let there = first.there.saturating_sub(self.less).min(short);
        let first = PathState { there, back: short.saturating_sub(there), ..first };
        [first, PathState { from: short, ..then }].into_iter().chain(all.drain(next..)).collect()
    }
}

/// Flow whose transfer is computed.
struct Ground<'a> {
    scenario: &'a Scenario,
    media: &'a Media<'a>,
    states: &'a States,
    n: usize,
    path: &'a Path,
}

impl Ground<'_> {
    /// Returns a path with what short packets gain at its start. `start` is `None` if there are many.
    ///
    /// What changes from `until` on, which is counted from the start, does not count.
    fn edges(&self, path: Vec<PathState>, start: Option<Span>, until: Span) -> Edges {
        let flow = &self.scenario.flow[self.n];
        let before = until.saturating_sub(Span::from_nanos(1));
        let during = |lasts: Option<Span>| match (start, lasts) {
            (Some(start), Some(lasts)) => {
                self.states.at(start)..self.states.at(start + lasts.min(before)) + 1
            }
            _ => 0..self.states.len(),
        };
        // That of a receiver has another way in front of it.
        let opened = handshake(&path, Span::ZERO).map(|takes| takes * 2);
        let states = during(opened);
        let at = |state| (self.media, self.states, state);
        let mut edges = Edges { path, less: Span::ZERO, opens: Span::MAX, shorter: Span::ZERO };
        for state in states {
            let [less, opens] = self.path.handshake(flow, at(state));
            (edges.less, edges.opens) = (edges.less.max(less), edges.opens.min(opens));
        }
        if let Some(data) = size(flow).filter(|data| data.get() < self.path.payload) {
            let states = during(opened.and_then(|opened| edges.one_packet(opened, self.path.payload)));
            let shorter = states.map(|state| self.path.shorter(data, at(state)));
            edges.shorter = shorter.max().unwrap_or_default();
        }
        edges
    }

    /// Computes a transfer on a path. What changes behind its end does not count.
    fn up_to_its_end(
        &self,
        path: Vec<PathState>,
        start: Option<Span>,
        climbs: &mut Climbs,
    ) -> Option<Transfer> {
        let mut during = path.clone();
        let whole = self.transfer(self.edges(path, start, Span::MAX), climbs)?;
        let end = whole.takes.filter(|_| whole.changes).map(|takes| takes.mul_f64(1.0 / OF_CHANGES));
        let count = end.map_or(during.len(), |end| during.partition_point(|state| state.from <= end).max(1));
        let Some(next) = during.get(count).map(|state| state.from) else { return Some(whole) };
        during.truncate(count);
        let without = self.transfer(self.edges(during, start, next), climbs);
        without.filter(|without| without.takes.is_some_and(|takes| takes <= next)).or(Some(whole))
    }

    fn transfer(&self, edges: Edges, climbs: &mut Climbs) -> Option<Transfer> {
        let (flow, path) = (&self.scenario.flow[self.n], self.path);
        let (states, walked) = (&edges.path, edges.walked());
        let (window, kind) = (path.window?, flow.traffic.kind());
        let first = *states.iter().find(|state| state.rate.as_bps() > 0)?;
        let rate = states.iter().map(|state| state.rate).max().filter(|rate| rate.as_bps() > 0)?;
        let (less, opens) = (edges.less, edges.opens);
        let until = |time: Span| time.saturating_sub(opens);
        let is_switched = self.states.activities.is_switched(self.n);
        let lasts = time(self.scenario, flow).filter(|_| !is_switched).unwrap_or(Span::MAX);
        let end = if lasts == Span::MAX { rest_of(self.scenario, flow) } else { lasts };
        let in_acks = |state: &PathState| match state.ack.as_secs_f64() {
            0.0 => state.rate,
            ack => state.rate.min(Rate::of(
                Bytes::new(path.payload),
                Span::from_secs_f64(ack * kind.answers_per_packet()),
            )),
        };
        let filled = in_acks(&first).bdp(first.there + first.back).min(window.most);
        let mut ascent = Ascent {
            payload: Bytes::new(path.payload),
            window: filled,
            full: product(states, end).min(window.most).max(filled),
            most_acks: MOST_ACKS_EACH,
            data: size(flow),
            lasts: until(if states.iter().any(|state| !state.ack.is_zero()) { end } else { lasts }),
            path: walked,
        };
        let all = Carried { path: states.clone(), window: Some(window.most) };
        let mut climbed = climbs.of(kind, &ascent);
        // What is in the buffer when the application stops is sent after that.
        if is_bulk(flow)
            && ends_early(self.scenario, flow)
            && let Some(Climbed { end: Some(end), arrived, .. }) = climbed
        {
            let left = all.between(end, ascent.lasts);
            let written = arrived.get() + left.get() + window.ends[0].get();
            let all = Bytes::new(size(flow).map_or(u64::MAX, Bytes::get).min(written));
            (ascent.data, ascent.lasts) = (Some(all), until(rest_of(self.scenario, flow)));
            climbed = climbs.of(kind, &ascent);
        }
        let climbed = climbed.map(|climbed| from_handshake(climbed, less, opens));
        let changes = changes(states, end);
        let is_without = self.without(climbed.as_ref(), changes);
        let measured = climbed.as_ref().filter(|_| is_without.is_none());
        // The walk has what it gains at the bottleneck.
        let gained = size(flow).map_or(0, |size| path.payload.saturating_sub(size.get()));
        let shorter = edges.shorter.saturating_sub(rate.span_of(Bytes::new(gained)));
        let measured = measured
            .and_then(|climbed| measured_of(self.scenario, flow, (climbed, shorter), (&ascent, &all)));
        let takes = match (measured.and_then(|(_, takes)| takes), size(flow)) {
            (Some(takes), _) => Some(takes),
            (None, Some(size)) if is_without.is_some() => self.least(&edges, size),
            _ => None,
        };
        let seconds = self.states.seconds(self.n, &self.states.of_flow(self.n));
        let of_buckets = path.hops_there().iter().map(|hop| of_bucket(self.media, (hop.0, hop.1), seconds));
        let slack = of_buckets.product::<f64>() * if changes { OF_CHANGES } else { 1.0 };
        Some(Transfer {
            slow_start: climbed.and_then(|climbed| climbed.time),
            goodput: measured.and_then(|(goodput, _)| goodput).map(|rate| rate.mul_f64(1.0 / slack)),
            takes: takes.map(|takes| takes.mul_f64(slack)),
            is_of_size: size(flow).is_some(),
            changes,
            acks_wait: ascent.path.iter().any(|state| !state.ack.is_zero()),
            is_without,
        })
    }

    /// Returns the reason why a transfer cannot be followed.
    fn without(&self, climbed: Option<&Climbed>, changes: bool) -> Option<&'static str> {
        let measures =
            |controller: &Controller| matches!(controller, Controller::Bbr(_) | Controller::Vegas(_));
        let is_of_bucket = |hop: &(usize, Way, u64)| {
            let seconds = self.states.seconds(self.n, &self.states.of_flow(self.n));
            of_bucket(self.media, (hop.0, hop.1), seconds) <= 0.98
        };
        if self.states.activities.is_switched(self.n) {
            Some("events turn it off and on")
        } else if matches!(&self.scenario.flow[self.n].traffic, Traffic::Tcp(tcp) if tcp.max_burst == Some(1))
        {
            Some("timers decide which segments have an ACK together")
        } else if splitter(self.scenario, self.path).is_some() {
            Some("a proxy splits it")
        } else if self.path.hops_there().iter().any(is_of_bucket) {
            Some("a bucket passes a part of it at once")
        } else if changes
            && let Traffic::Tcp(tcp) = &self.scenario.flow[self.n].traffic
            && measures(&tcp.controller)
        {
            Some("its law goes by measured rates and delays, which change")
        } else {
            let is_unknown = climbed.is_none_or(|climbed| climbed.end.is_none());
            is_unknown.then(|| match &self.scenario.flow[self.n].traffic {
                Traffic::Tcp(tcp) if tcp.quick_start.is_some() => "routers decide about its first window",
                Traffic::Tcp(tcp) if matches!(tcp.controller, Controller::Custom(_)) => {
                    "a program decides about its window"
                }
                _ => "its slow start has more ACKs than are followed",
            })
        }
    }

    /// Returns the least time of data that the line carries from the first packet on.
    fn least(&self, edges: &Edges, size: Bytes) -> Option<Span> {
        let states = &edges.path;
        let is_split = splitter(self.scenario, self.path).is_some();
        let bursts = self.path.hops_there().iter().filter_map(|hop| self.media.limit(hop.0, hop.1));
        let burst: u64 = bursts.map(|limit| limit.burst.get()).sum();
        let left = size.get().saturating_sub(burst + self.path.payload);
        let handshake = if is_split { Span::ZERO } else { handshake(states, edges.less)? };
        let least = states.iter().map(|state| state.there).min()?;
        // The last packet may go when the path is shorter.
        let begin = handshake + edges.opens;
        let end = Carried { path: states.clone(), window: None }.end(begin, Bytes::new(left))?;
        Some((end + least).saturating_sub(edges.shorter))
    }
}

/// Returns `true` if a transfer may stop before all of its data are written.
fn is_cut((flow, path): (&Flow, &Path), last: Span, (takes, along): (Span, &Along)) -> bool {
    let (Some(stop), Some(size), Some(window)) = (flow.stop, size(flow), path.window) else { return false };
    let left = stop.saturating_sub(last);
    let trip = along.from(last).first().map_or(Span::ZERO, |state| state.there + state.back);
    left < takes && (size > window.ends[0] || left < trip * 2)
}

/// Returns the time of a SYN and its answer, each by the path then.
///
/// `less` is the part of a round trip that they do not take.
fn handshake(states: &[PathState], less: Span) -> Option<Span> {
    let there = states.first()?.there;
    let comes = there.saturating_sub(less);
    let back = states.iter().rev().find(|state| state.from <= comes)?.back;
    Some((there + back).saturating_sub(less))
}

/// Returns a slow start by the times of its flow.
///
/// It is shown with a handshake of full packets. `opens` is the time by which it is later that a receiver opens.
fn from_handshake(climbed: Climbed, less: Span, opens: Span) -> Climbed {
    Climbed {
        time: climbed.time.map(|time| time + less + opens),
        end: climbed.end.map(|end| end + opens),
        ..climbed
    }
}

/// Returns goodput, and the completion of a transfer of a size. One short packet arrives earlier by `shorter`.
fn measured_of(
    scenario: &Scenario,
    flow: &Flow,
    (climbed, shorter): (&Climbed, Span),
    (ascent, carried): (&Ascent, &Carried),
) -> Option<(Option<Rate>, Option<Span>)> {
    let lasts = time(scenario, flow)?;
    let lasts = if is_bulk(flow) { rest_of(scenario, flow) } else { lasts };
    let (end, arrived) = (climbed.end?, climbed.arrived);
    let is_measured = flow.start >= scenario.probe.warm_up;
    let left = |of: Bytes| Bytes::new(of.get().saturating_sub(arrived.get()));
    let ends = |size: Bytes| Some(carried.end(end, left(size))?.saturating_sub(shorter));
    let whole = ascent.data.and_then(|size| Some((size, ends(size)?)));
    if let Some((size, takes)) = whole.filter(|(_, takes)| *takes <= lasts) {
        let limit = (carried.path.len() == 1).then(|| carried.rate(&carried.path[0]));
        let rate = if is_measured { Some(Rate::of(size, takes)) } else { limit };
        return Some((rate, Some(takes)));
    }
    let rest = carried.between(end, lasts).get();
    // That of a flow which has stopped is up to its last arrival.
    let trip = carried.path.last().map_or(Span::ZERO, |state| state.there + state.back);
    let stops = time(scenario, flow).filter(|_| is_bulk(flow) && ends_early(scenario, flow));
    let over = stops.map_or(lasts, |stops| lasts.saturating_sub(trip).max(stops).min(lasts));
    let goodput = is_measured.then(|| Rate::of(Bytes::new(arrived.get() + rest), over));
    Some((goodput, whole.map(|(_, takes)| takes)))
}
