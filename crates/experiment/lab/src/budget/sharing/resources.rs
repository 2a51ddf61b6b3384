//! Resources of a network, and what each path takes of them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bentpipe_scenario::{Flow, Role, Scenario, Way};
use bentpipe_site::Window;
use bentpipe_units::{Bytes, Rate};

use super::super::ceilings::ClassOf;
use super::super::flows_on_copies;
use super::super::medium::Media;
use super::super::path::{Path, Taken, splitter};
use super::super::states::{Part, States};
use super::{Asked, Use, apart, sharing_copies};

/// Name of what is shared, or else a resource of a direction of a link.
pub(super) type Key<'a> = (Option<&'a str>, Option<((usize, Way), Part)>);

/// Bits that the ceiling of a class passes, apart from its burst.
pub(super) type Passes<'a> = &'a dyn Fn((usize, Way), ClassOf) -> f64;

/// Resources of a network by numbers.
pub(super) struct Resources<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) media: &'a Media<'a>,
    pub(super) numbers: HashMap<Key<'a>, usize>,
}

impl Resources<'_> {
    /// Returns the uses of a path that sends for some seconds.
    ///
    /// `passes` returns what ceilings pass in them.
    pub(super) fn uses(
        &mut self,
        (seconds, passes): (f64, Passes<'_>),
        number: usize,
        flow: usize,
        path: &Path,
    ) -> Vec<Use> {
        let (scenario, media) = (self.scenario, self.media);
        let slows = path.waits;
        let of = |Taken { at, part, hop, own, len, dscp }: Taken| {
            let cost = media.cost(at.0, at.1);
            let shared = match part {
                Part::Line => cost.shared(),
                Part::Passed(number) => cost.passed().get(number).map(|line| line.name.as_str()),
                Part::Stage | Part::Packets | Part::Class(_) => None,
            };
            let next = self.numbers.len();
            let key = (shared, shared.is_none().then_some((at, part)));
            let resource = *self.numbers.entry(key).or_insert(next);
            let some = sharing_copies(scenario, media, at, part);
            let copies = flows_on_copies(scenario, &scenario.link[at.0], flow, some) as f64;
            let own = match part {
                Part::Stage => own * of_bucket(media, at, seconds),
                Part::Class(class) => own * of_class(media, at, (class, dscp), passes),
                _ => own,
            };
            Use { path: number, hop, resource, at, part, len, dscp, own, copies, slows }
        };
        let mut all: Vec<Use> = path.loads(media).into_iter().map(of).collect();
        contend(media, &mut all);
        all
    }

    /// Returns what all flows ask for, and the numbers of each path's demands.
    ///
    /// A flow to a group has a demand for each link, as each of its branches carries what it can.
    pub(super) fn asked(
        &self,
        states: &States,
        paths: &[(usize, Path)],
        uses: &[Vec<Use>],
    ) -> (Vec<Asked>, Vec<Vec<usize>>) {
        let (mut all, mut numbers_of): (Vec<Asked>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        let (mut last, mut tree) = (None, Tree::default());
        for ((flow, path), uses) in paths.iter().zip(uses) {
            let windows = self.windows(states, *flow, path);
            let most = self.most(states, *flow, path, windows.is_empty());
            let is_fixed = !path.waits && most.is_finite();
            let demand =
                |uses: Vec<Use>| Asked { flow: *flow, most, windows: Rc::clone(&windows), is_fixed, uses };
            if path.voice.is_some() {
                // Speech back does not wait for that there.
                let (there, back) = apart(uses, path.hops_there().len());
                numbers_of.push(vec![all.len()]);
                all.extend([demand(there), demand(back)]);
                continue;
            }
            if !self.scenario.group.contains_key(&self.scenario.flow[*flow].to) {
                numbers_of.push(vec![all.len()]);
                all.push(demand(uses.clone()));
                continue;
            }
            if last.replace(*flow) != Some(*flow) {
                tree = Tree::default();
            }
            let (mut own, mut new) = (Vec::new(), HashSet::new());
            for one in uses {
                let (link, way) = one.at;
                let stream = self.media.side(link, way).medium.multicast();
                let stream =
                    stream.map(|stream| (self.scenario.link[link].between[way.index()].as_str(), stream));
                // A packet to a group passes once, however many of its members are behind.
                let number = tree.number(one.at, stream.as_ref()).unwrap_or_else(|| {
                    all.push(demand(Vec::new()));
                    new.insert(one.at);
                    tree.enter(one.at, stream, all.len() - 1)
                });
                if new.contains(&one.at) {
                    all[number].uses.push(*one);
                }
                own.push(number);
            }
            numbers_of.push(own);
        }
        (all, numbers_of)
    }

    /// Returns the rate that a connection has on both sides of a proxy.
    ///
    /// On each side one of its buffers is that of the flow's end. Those of the proxy are not smaller.
    fn split(&self, path: &Path, window: Window, node: &str) -> f64 {
        let topology = self.media.layout.topology(&self.media.facts);
        let legs = path.legs(&topology, self.media, topology.number(node));
        let of_legs = legs.into_iter().flat_map(|legs| legs.into_iter().zip(window.ends));
        let of_legs = of_legs.filter(|(rtt, _)| !rtt.is_zero()).map(|(rtt, most)| Rate::of(most, rtt));
        let fixed = self.scenario.roles_of(node).iter().filter_map(Role::split_rate);
        of_legs.chain(fixed).map(|rate| rate.as_bps() as f64).fold(f64::INFINITY, f64::min)
    }

    /// Returns the rates that a window allows in all states, where its round trips differ.
    fn windows(&self, states: &States, number: usize, path: &Path) -> Rc<[f64]> {
        let Some(window) = path.window.filter(|_| splitter(self.scenario, path).is_none()) else {
            return Rc::default();
        };
        let trips = path.round_trips(self.media, states, &states.of_flow(number));
        if trips.is_none_or(|[least, _, most]| least == most || least.is_zero()) {
            return Rc::default();
        }
        let rate = |state| path.window_rate(window.most, self.media, states, &[(state, 1.0)]).as_bps() as f64;
        (0..states.len()).map(rate).collect()
    }

    /// Returns the rate of payload that a flow offers, or that its window allows.
    ///
    /// `by_window` is false where the window is looked at in each state.
    fn most(&self, states: &States, number: usize, path: &Path, by_window: bool) -> f64 {
        let flow = &self.scenario.flow[number];
        if path.unknown.is_some() || (path.blocked.is_some() && path.window.is_some()) {
            return 0.0;
        }
        let offered = offered(flow, path).map_or(f64::INFINITY, |offered| offered.as_bps() as f64);
        let rtt = path.round_trips(self.media, states, &states.of_flow(number));
        let window = path.window.zip(rtt).filter(|(_, [_, mean, _])| !mean.is_zero());
        if let (Some(window), Some((node, _))) = (path.window, splitter(self.scenario, path)) {
            return offered.min(self.split(path, window, node));
        }
        window.filter(|_| by_window).map_or(offered, |(window, [_, mean, _])| {
            offered.min(Rate::of(window.most, mean).as_bps() as f64)
        })
    }
}

/// Links of a flow to a group, with the numbers of their demands.
#[derive(Default)]
struct Tree<'a> {
    links: HashMap<(usize, Way), usize>,
    /// Streams that links have in common, by their senders.
    streams: HashMap<(&'a str, String), usize>,
}

impl<'a> Tree<'a> {
    fn number(&self, at: (usize, Way), stream: Option<&(&'a str, String)>) -> Option<usize> {
        self.links.get(&at).or_else(|| self.streams.get(stream?)).copied()
    }

    fn enter(&mut self, at: (usize, Way), stream: Option<(&'a str, String)>, number: usize) -> usize {
        self.links.insert(at, number);
        stream.and_then(|stream| self.streams.insert(stream, number));
        number
    }
}

/// Shortens times on a medium on which packets and answers wait side by side.
fn contend(media: &Media<'_>, uses: &mut [Use]) {
    let both = |one: &Use| uses.iter().any(|other| other.resource == one.resource && other.at != one.at);
    let factor = |one: &Use| match one.len.filter(|_| both(one)) {
        Some(len) => media.cost(one.at.0, one.at.1).contended(len),
        None => 1.0,
    };
    let factors: Vec<f64> = uses.iter().map(factor).collect();
    uses.iter_mut().zip(factors).for_each(|(one, factor)| one.own *= factor);
}

/// Returns the part of a stage's time that is left behind a full bucket.
pub(in super::super) fn of_bucket(media: &Media<'_>, (link, way): (usize, Way), seconds: f64) -> f64 {
    let Some(limit) = media.limit(link, way) else { return 1.0 };
    let passes = limit.rate.as_bps() as f64 * seconds;
    if passes > 0.0 { passes / (passes + 8.0 * limit.burst.get() as f64) } else { 1.0 }
}

/// Returns the mean ceiling of a class in some states in bit/s. Those without a ceiling count as nothing.
pub(super) fn bounded_bps(
    of: &[(usize, f64)],
    (media, states): (&Media<'_>, &States),
    (at, class): ((usize, Way), ClassOf),
) -> f64 {
    let bps = |(state, part): &(usize, f64)| {
        let ceiling = media.ceilings.mean(at, class, states.span(*state));
        if ceiling.is_finite() { part * ceiling } else { 0.0 }
    };
    of.iter().map(bps).sum()
}

/// Returns the part of a class's time that remains after a burst.
fn of_class(media: &Media<'_>, at: (usize, Way), class: ClassOf, passes: Passes<'_>) -> f64 {
    let passes = passes(at, class);
    let burst = 8.0 * (media.ceilings.burst(at, class).get() + media.layout.mtu(at.0).get()) as f64;
    if passes > 0.0 { 1.0 / (1.0 + burst / passes) } else { 1.0 }
}

/// Returns the mean rate of speech, packets or application data that a flow offers.
pub(in super::super) fn offered(flow: &Flow, path: &Path) -> Option<Rate> {
    let speech = path.voice.as_ref().and_then(|voice| voice.offered());
    let packets = || flow.traffic.kind().offered(Bytes::new(path.whole[0]));
    let written = || flow.traffic.kind().takes().application.then(|| flow.application.offered()).flatten();
    // A controller of a fixed rate sends no more than is written.
    speech.or(path.recorded).or_else(|| packets().into_iter().chain(written()).min())
}
