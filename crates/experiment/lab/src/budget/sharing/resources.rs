//! Resources of a network, and what each path takes of them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bentpipe_scenario::{Flow, Role, Scenario, Way, copies};
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
            let to_group =
                scenario.group.contains_key(&scenario.flow[flow].to) && hop < path.hops_there().len();
            let own = match part {
                Part::Line if to_group => own * cost.to_group(path.packet as usize),
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
                let has_stream = stream.is_some();
                // A packet to a group passes once, however many of its members are behind.
                let number = tree.number(one.at, stream.as_ref()).unwrap_or_else(|| {
                    all.push(demand(Vec::new()));
                    new.insert(one.at);
                    tree.enter(one.at, stream, all.len() - 1)
                });
                if new.contains(&one.at) {
                    let count = if has_stream { 1 } else { self.members_on(*flow, one) };
                    all[number].uses.push(Use { own: one.own * count as f64, ..*one });
                }
                own.push(number);
            }
            numbers_of.push(own);
        }
        (all, numbers_of)
    }

    /// Counts the copies of a packet to a group on each resource.
    ///
    /// A link without a stream for groups in common with others gets one of its own.
    pub(super) fn count_copies(&self, paths: &[(usize, Path)], uses: &mut [Vec<Use>]) {
        let is_to_group = |flow: usize| self.scenario.group.contains_key(&self.scenario.flow[flow].to);
        let mut branches: HashMap<(usize, usize), HashMap<_, u64>> = HashMap::new();
        for ((flow, path), uses) in paths.iter().zip(uses.iter()).filter(|((flow, _), _)| is_to_group(*flow))
        {
            for one in uses.iter().filter(|one| one.hop < path.hops_there().len()) {
                let (link, way) = one.at;
                let sender = self.scenario.link[link].between[way.index()].as_str();
                let stream = self.media.side(link, way).medium.multicast();
                let (branch, count) = match stream {
                    Some(stream) => ((Some((sender, stream)), None), 1),
                    None => ((None, Some(one.at)), self.members_on(*flow, one)),
                };
                branches.entry((*flow, one.resource)).or_default().insert(branch, count);
            }
        }
        for ((flow, _), uses) in paths.iter().zip(uses) {
            for one in uses {
                let branches = branches.get(&(*flow, one.resource));
                one.own *= branches.map_or(1, |counts| counts.values().sum()) as f64;
            }
        }
    }

    /// Returns the number of a link's copies to members of a group on a resource.
    fn members_on(&self, flow: usize, one: &Use) -> u64 {
        let (link, way) = one.at;
        let all = u64::from(sharing_copies(self.scenario, self.media, one.at, one.part));
        let far = self.scenario.link[link].between[1 - way.index()].as_str();
        let members =
            self.scenario.group.get(&self.scenario.flow[flow].to).map_or(&[][..], |group| &group.members);
        let named = members.iter().filter(|member| {
            member.as_str() != far && copies::original(self.scenario, member.as_str()) == Some(far)
        });
        match named.count() as u64 {
            0 => all,
            _ if members.iter().any(|member| member.as_str() == far) => all,
            some => some.min(all),
        }
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
