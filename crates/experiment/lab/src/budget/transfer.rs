//! Transfers over TCP on an idle path: slow start and completion.

use std::collections::{HashMap, HashSet};

use bentpipe_scenario::{Controller, Flow, Scenario, Traffic, Way};
use bentpipe_site::route::Route;
use bentpipe_site::{Ascent, Climbed, TrafficKind};
use bentpipe_units::{Bytes, Rate, Span};

use super::active::{ends_early, is_bulk, rest_of, time};
use super::along::{Along, Carried, PathState, changes, product};
use super::medium::Media;
use super::path::{Path, splitter};
use super::route::Routed;
use super::sharing::{Alone, of_bucket};
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
    /// Set if nodes have roles, which send packets that no path is of.
    has_roles: bool,
    /// Number of ACKs that they may still take.
    acks: u64,
    /// Slow starts of each kind of traffic, by their paths.
    known: HashMap<String, HashMap<Ascent, Climbed>>,
}

impl Climbs {
    /// Creates it without a slow start, for some paths.
    pub(super) fn new(scenario: &Scenario, paths: &[(usize, Path)]) -> Climbs {
        let (mut used, mut shared) = (HashSet::new(), HashSet::new());
        for at in paths.iter().flat_map(|(_, path)| path.directions()) {
            if !used.insert(at) {
                shared.insert(at);
            }
        }
        let has_roles = scenario.node.values().any(|node| node.role.is_some());
        Climbs { shared, has_roles, acks: MOST_ACKS, known: HashMap::new() }
    }

    /// Returns `true` if several paths use a direction of a link.
    pub(super) fn is_shared(&self, at: (usize, Way)) -> bool {
        self.shared.contains(&at)
    }

    /// Returns `true` if only the packets of one path use its links.
    fn is_alone(&self, path: &Path) -> bool {
        !self.has_roles && !path.directions().into_iter().any(|at| self.is_shared(at))
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
    let [this, other] = [path, of].map(|of| of.route.longest_trip().as_secs_f64());
    let is_like = path.route.is_still(Span::MAX)
        && of.route.is_still(Span::MAX)
        && ratio(this, other) < LIKE
        && ratio(path.window.get() as f64, of.window.get() as f64) < LIKE
        && (path.payload, path.data) == (of.payload, of.data);
    let time = |span: Span| span.mul_f64(this / other);
    let whole = || path.route.least(path.data?.get(), path.payload.get(), true);
    is_like.then(|| Climbed {
        time: climbed.time.map(time),
        end: climbed.end.map(time),
        whole: whole(),
        ..*climbed
    })
}

/// Transfer over TCP without other flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Time from the SYN until the window is open. Times that are drawn count by their mean.
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

/// Least part of a walk on a changing path, or by a law that measures.
///
/// A run that is later may have more ACKs for the same segments, as timers send some, and grow faster.
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
        let alone = Alone::new(scenario, media, (n, path));
        let is_shared = |at| climbs.is_shared(at);
        let along = Along::new(scenario, (media, states), (n, path, &alone), &is_shared, first);
        let ground = Ground { scenario, media, states, n, path };
        let routed = Routed::new((scenario, media, states), (n, path, &alone));
        let route = routed.route(first, climbs.is_alone(path));
        let from = |start| Ways { route: route.later(start), states: along.from(start) };
        let (mut paths, mut is_best, begin) = (vec![from(first)], false, first);
        // Times of the start differ by little where nothing changes.
        if !along.is_still(first, scenario.duration) && first < last {
            let mut own = starts.to_vec();
            own.dedup();
            is_best = own.len() > MOST_STARTS;
            let own = own.into_iter().map(Span::from_secs_f64);
            paths = match is_best {
                true => vec![Ways { route: route.best(), states: along.best() }],
                false => own.map(from).collect(),
            };
        }
        let all: Vec<Transfer> =
            paths.into_iter().filter_map(|ways| ground.up_to_its_end(ways, climbs)).collect();
        let first = *all.first()?;
        let takes = all.iter().map(|one| one.takes).min_by_key(|takes| takes.unwrap_or(Span::MAX)).flatten();
        let takes = takes.filter(|takes| !is_cut((&scenario.flow[n], path), last, (*takes, &along)));
        let sum: Option<u64> = all.iter().map(|one| one.goodput.map(Rate::as_bps)).sum();
        let goodput = sum.map(|sum| Rate::from_bps(sum / all.len() as u64));
        let changes = all.iter().any(|one| one.changes) || is_best;
        let in_means = routed.in_means().map(|means| {
            let route = means.route(begin, false);
            match is_best {
                true => Ways { route: route.best(), states: along.best() },
                false => Ways { route: route.later(begin), states: along.from(begin) },
            }
        });
        let in_means = in_means.map(|ways| ground.transfer(&ways, climbs).and_then(|all| all.slow_start));
        let slow_start = in_means.unwrap_or(first.slow_start);
        Some(Transfer { slow_start, takes, goodput, changes, ..first })
    }
}

/// Path of a transfer from its start on.
struct Ways {
    /// Links by time.
    route: Route,
    /// Rate and round trip by time.
    states: Vec<PathState>,
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
    /// Computes a transfer on a path. What changes behind its end does not count.
    fn up_to_its_end(&self, mut ways: Ways, climbs: &mut Climbs) -> Option<Transfer> {
        let whole = self.transfer(&ways, climbs)?;
        let end = whole.takes.filter(|_| whole.changes);
        let states = &mut ways.states;
        let count = end.map_or(states.len(), |end| states.partition_point(|state| state.from <= end).max(1));
        let Some(next) = states.get(count).map(|state| state.from) else { return Some(whole) };
        states.truncate(count);
        let without = self.transfer(&ways, climbs);
        without.filter(|without| without.takes.is_some_and(|takes| takes <= next)).or(Some(whole))
    }

    fn transfer(&self, ways: &Ways, climbs: &mut Climbs) -> Option<Transfer> {
        let (flow, path, states) = (&self.scenario.flow[self.n], self.path, &ways.states);
        let (window, kind) = (path.window?, flow.traffic.kind());
        let first = *states.iter().find(|state| state.rate.as_bps() > 0)?;
        let rate = states.iter().map(|state| state.rate).max().filter(|rate| rate.as_bps() > 0)?;
        let acks_wait = states.iter().any(|state| !state.ack.is_zero());
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
            lasts: if acks_wait { end } else { lasts },
            route: Route { acks_wait, ..ways.route.clone() },
            fastest: rate,
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
            (ascent.data, ascent.lasts) = (Some(all), rest_of(self.scenario, flow));
            climbed = climbs.of(kind, &ascent);
        }
        let changes = changes(states, end);
        let whole = climbed.as_ref().and_then(|climbed| climbed.whole).unwrap_or(Span::MAX);
        let is_down = size(flow).is_some_and(|size| self.is_down(&ways.route, (size, whole)));
        let is_without = self.without(climbed.as_ref(), [changes, is_down]);
        let measured = climbed.as_ref().filter(|_| is_without.is_none());
        let measured =
            measured.and_then(|climbed| measured_of(self.scenario, flow, climbed, (&ascent, &all)));
        let takes = match (measured.and_then(|(_, takes)| takes), size(flow)) {
            (Some(takes), _) => Some(takes),
            (None, Some(size)) if is_without.is_some() => self.least(&ways.route, size),
            _ => None,
        };
        let seconds = self.states.seconds(self.n, &self.states.of_flow(self.n));
        let of_buckets = path.hops_there().iter().map(|hop| of_bucket(self.media, (hop.0, hop.1), seconds));
        let of_buckets = of_buckets.product::<f64>();
        let slack = of_buckets * if changes { OF_CHANGES } else { 1.0 };
        let is_one_flight =
            size(flow).is_some_and(|size| size.get() <= u64::from(window.initial) * path.payload);
        let is_still = takes.is_some_and(|takes| ways.route.is_still(takes));
        let is_followed = is_one_flight || is_still && !self.measures();
        let of_growth = of_buckets * if is_followed { 1.0 } else { OF_CHANGES };
        Some(Transfer {
            slow_start: climbed.and_then(|climbed| climbed.time),
            goodput: measured.and_then(|(goodput, _)| goodput).map(|rate| rate.mul_f64(1.0 / slack)),
            takes: takes.map(|takes| takes.mul_f64(of_growth)),
            is_of_size: size(flow).is_some(),
            changes,
            acks_wait,
            is_without,
        })
    }

    /// Returns `true` if the law of its controller goes by measured rates and delays.
    fn measures(&self) -> bool {
        let Traffic::Tcp(tcp) = &self.scenario.flow[self.n].traffic else { return false };
        matches!(tcp.controller, Controller::Bbr(_) | Controller::Vegas(_))
    }

    /// Returns the reason why a transfer cannot be followed.
    fn without(&self, climbed: Option<&Climbed>, [changes, is_down]: [bool; 2]) -> Option<&'static str> {
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
        } else if self.path.class_burst(self.media).is_some() {
            Some("a class passes a burst of it beyond its ceiling")
        } else if is_down {
            Some("a link is down meanwhile, and timers send segments without ACKs")
        } else if changes && self.measures() {
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

    /// Returns `true` if a link is down before several flights have arrived.
    fn is_down(&self, route: &Route, (size, lasts): (Bytes, Span)) -> bool {
        let window = self.path.window.map_or(0, |window| u64::from(window.initial) * self.path.payload);
        size.get() > window && route.first_down().is_some_and(|first| first <= lasts)
    }

    /// Returns the least time of data that the links carry from the first packet on.
    fn least(&self, route: &Route, size: Bytes) -> Option<Span> {
        let is_split = splitter(self.scenario, self.path).is_some();
        let bursts = self.path.hops_there().iter().filter_map(|hop| self.media.limit(hop.0, hop.1));
        let burst = bursts.map(|limit| limit.burst.get()).sum::<u64>();
        let burst = burst + self.path.class_burst(self.media).unwrap_or(0);
        let left = size.get().saturating_sub(burst).max(1).min(size.get());
        route.least(left, self.path.payload, !is_split)
    }
}

/// Returns `true` if a transfer may stop before all of its data are written.
fn is_cut((flow, path): (&Flow, &Path), last: Span, (takes, along): (Span, &Along)) -> bool {
    let (Some(stop), Some(size), Some(window)) = (flow.stop, size(flow), path.window) else { return false };
    let left = stop.saturating_sub(last);
    let trip = along.from(last).first().map_or(Span::ZERO, |state| state.there + state.back);
    left < takes && (size > window.ends[0] || left < trip * 2)
}

/// Returns goodput, and the completion of a transfer of a size.
fn measured_of(
    scenario: &Scenario,
    flow: &Flow,
    climbed: &Climbed,
    (ascent, carried): (&Ascent, &Carried),
) -> Option<(Option<Rate>, Option<Span>)> {
    let lasts = time(scenario, flow)?;
    let lasts = if is_bulk(flow) { rest_of(scenario, flow) } else { lasts };
    let (end, arrived) = (climbed.end?, climbed.arrived);
    let is_measured = flow.start >= scenario.probe.warm_up;
    let whole = ascent.data.zip(climbed.whole);
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
