//! Flows that share links and multiplexes, and what each of them gets.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bentpipe_scenario::copies::copies as copies_between;
use bentpipe_scenario::{Flow, Scenario, Way};
use bentpipe_site::SharingCopies;
use bentpipe_units::{Bytes, Rate};
use indexmap::IndexMap;

use super::medium::Media;
use super::path::{Path, splitter};
use super::share::{self, Demand};
use super::states::States;
use super::{Users, flows_on_copies};

/// Returns the number of copies of a link that share the resource of one.
fn sharing_copies(scenario: &Scenario, media: &Media<'_>, (link, way): (usize, Way)) -> u32 {
    let cost = media.cost(link, way);
    let between = &scenario.link[link].between;
    let [from, to] = [&between[way.index()], &between[1 - way.index()]].map(String::as_str);
    let all = copies_between(scenario, [from, to]);
    match cost.shared().map(|_| cost.sharing_copies()) {
        None | Some(SharingCopies::One) => 1,
        Some(SharingCopies::All) => all,
        Some(SharingCopies::OfNode) => all / copies_between(scenario, [from; 2]),
    }
}

/// Flows that share the rate of a direction of a link, or of its multiplex.
pub(super) struct Sharing {
    /// Link and direction, or the multiplex.
    name: String,
    /// Flows with the number of their copies; the most numerous first.
    flows: Vec<(String, u64)>,
    /// Number of flows, at least 1.
    pub(super) count: u64,
}

/// Shares of links and multiplexes, computed once for all flows of each.
pub(super) struct Sharings<'a> {
    scenario: &'a Scenario,
    media: &'a Media<'a>,
    /// Directions of links by the name of what they share.
    members: HashMap<&'a str, Vec<(usize, Way)>>,
    known: HashMap<(usize, Way), Rc<Sharing>>,
}

impl<'a> Sharings<'a> {
    pub(super) fn new(scenario: &'a Scenario, media: &'a Media<'a>) -> Sharings<'a> {
        let mut members: HashMap<&str, Vec<(usize, Way)>> = HashMap::new();
        for at in (0..scenario.link.len()).flat_map(|n| [(n, Way::Forward), (n, Way::Return)]) {
            if let Some(shared) = media.cost(at.0, at.1).shared() {
                members.entry(shared).or_default().push(at);
            }
        }
        Sharings { scenario, media, members, known: HashMap::new() }
    }

    /// Returns the flows that share the rate of a direction of a link.
    pub(super) fn of(&mut self, users: &Users<'_>, at: (usize, Way)) -> Rc<Sharing> {
        let shared = self.media.cost(at.0, at.1).shared();
        let all = shared
            .and_then(|shared| self.members.get(shared))
            .map_or(std::slice::from_ref(&at), Vec::as_slice);
        // Of those that share, the first stands for all.
        if let Some(known) = self.known.get(&all[0]) {
            return Rc::clone(known);
        }
        let (link_name, _) = self.scenario.link.get_index(at.0).expect("a path is of links");
        let name = shared.map_or_else(|| format!("{link_name} {}", at.1.name()), str::to_owned);
        let sharing = Rc::new(Sharing::new(self.scenario, self.media, users, name, all));
        self.known.insert(all[0], Rc::clone(&sharing));
        sharing
    }
}

impl Sharing {
    fn new(
        scenario: &Scenario,
        media: &Media<'_>,
        users: &Users<'_>,
        name: String,
        all: &[(usize, Way)],
    ) -> Sharing {
        let mut flows: IndexMap<usize, u64> = IndexMap::new();
        let (mut counted, mut streams) = (HashSet::new(), HashSet::new());
        for &(n, way) in all {
            let link = &scenario.link[n];
            let copies = sharing_copies(scenario, media, (n, way));
            for &(flow, _) in users.on(n, way) {
                // Where both directions are one medium, a flow shares it once, with its ACKs.
                if !counted.insert((n, flow)) && way == Way::Return {
                    continue;
                }
                // A stream that links have in common carries packets to a group once.
                let side = media.side(n, way);
                let group = scenario.group.get(&scenario.flow[flow].to);
                if let Some(stream) = group.and_then(|_| side.medium.multicast())
                    && !streams.insert((flow, &link.between[way.index()], stream))
                {
                    continue;
                }
                *flows.entry(flow).or_default() +=
                    flows_on_copies(scenario, link, &scenario.flow[flow], copies);
            }
        }
        let named =
            |(flow, count)| (scenario.flow.get_index(flow).map_or("", |(name, _)| name).to_owned(), count);
        let mut flows: Vec<(String, u64)> = flows.into_iter().map(named).collect();
        flows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let count = flows.iter().map(|(_, count)| count).sum::<u64>().max(1);
        Sharing { name, flows, count }
    }

    /// Describes the flows: their number, the shared resource, and the names of the most numerous.
    pub(super) fn describe(&self) -> String {
        const SHOWN: usize = 5;
        let name = |(name, count): &(String, u64)| match count {
            1 => name.clone(),
            count => format!("{name} ({count})"),
        };
        let mut names: Vec<String> = self.flows.iter().take(SHOWN).map(name).collect();
        names.extend((self.flows.len() > SHOWN).then(|| format!("{} others", self.flows.len() - SHOWN)));
        format!("{} flows share {}: {}", self.count, self.name, names.join(", "))
    }
}

/// Forecast of what a path carries, without others and with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forecast {
    /// Mean rate of payload that arrives without other flows.
    pub(super) alone: Rate,
    /// Mean rate of payload that can be sent without other flows. Losses of channels are in it.
    pub(super) sent: Rate,
    /// The same in the first state in which it sends.
    pub(super) first: Rate,
    /// Direction that limits that.
    pub(super) narrowest: (usize, Way),
    /// Mean rate of payload that arrives with the other flows.
    pub(super) fair: Rate,
    /// Direction that limits it for most of the time. That of `narrowest` if it gets what it asks for.
    pub(super) limit: (usize, Way),
}

/// Time of a resource that a bit of payload takes.
#[derive(Clone, Copy)]
struct Use {
    /// Number of the path.
    path: usize,
    /// Number of the link on the way there.
    hop: usize,
    resource: usize,
    at: (usize, Way),
    /// Time that one flow takes.
    own: f64,
    /// Number of copies of the flow at one copy of the resource.
    copies: f64,
    /// Part of the rate that its terminal has if all of a carrier request.
    contended: f64,
}

/// Rate of payload that a flow asks for, and what a unit of it takes.
struct Asked {
    flow: usize,
    most: f64,
    uses: Vec<Use>,
}

/// Parts of each path's packets that come to each link and to the end. Empty if nothing is lost.
type Passing = Vec<Vec<f64>>;

/// Computes the forecast of each path.
///
/// `contended` has the part of their rates that terminals have if all of a carrier request.
pub(super) fn forecasts(
    scenario: &Scenario,
    media: &Media<'_>,
    states: &States,
    paths: &[(usize, Path)],
    contended: &HashMap<(usize, Way), f64>,
) -> Vec<Forecast> {
    let mut resources = Resources { scenario, media, contended, numbers: HashMap::new() };
    let uses: Vec<Vec<Use>> =
        paths.iter().enumerate().map(|(n, (flow, path))| resources.uses(n, *flow, path)).collect();
    let (asked, asked_of) = resources.asked(states, paths, &uses);
    let passing = passing(states, paths);
    let numbers = resources.numbers.len();
    let share = |state: usize| {
        let demands: Vec<Demand> =
            asked.iter().map(|asked| asked.demand(states, state, &passing[state])).collect();
        share::max_min(numbers, &demands)
    };
    let all: Vec<Vec<share::Share>> = (0..states.len()).map(share).collect();
    let forecast = |(n, (flow, path)): (usize, &(usize, Path))| {
        let of_flow = states.of_flow(*flow);
        let shares: Vec<share::Share> = of_flow.iter().map(|(state, _)| all[*state][asked_of[n]]).collect();
        let arriving: Vec<f64> =
            of_flow.iter().map(|(state, _)| arriving(&passing[*state], n, path)).collect();
        forecast(&Ways { states, uses: &uses[n], passing: &passing }, &of_flow, &shares, &arriving)
    };
    paths.iter().enumerate().map(forecast).collect()
}

/// Returns what passes in each state. States of equal losses have it in common.
fn passing(states: &States, paths: &[(usize, Path)]) -> Vec<Rc<Passing>> {
    let mut all: Vec<Rc<Passing>> = Vec::new();
    for state in 0..states.len() {
        let time = states.start(state);
        let same = state > 0 && !states.losses.change_between(states.start(state - 1), time);
        all.push(match all.last().filter(|_| same || states.losses.is_empty()) {
            Some(last) => Rc::clone(last),
            None if states.losses.is_empty() => Rc::default(),
            None => Rc::new(paths.iter().map(|(_, path)| path.passing(&states.losses, time)).collect()),
        });
    }
    all
}

/// Returns the part of a path's packets, or of its datagrams in fragments, that arrives.
fn arriving(passing: &Passing, path: usize, way: &Path) -> f64 {
    let packets = passing.get(path).and_then(|parts| parts.last());
    packets.map_or(1.0, |part| part.powi(i32::try_from(way.fragments).unwrap_or(i32::MAX)))
}

impl Use {
    /// Returns the part of the resource that a unit of rate takes in a state.
    fn own(&self, states: &States, state: usize, passing: &Passing) -> f64 {
        let comes = passing.get(self.path).map_or(1.0, |parts| parts[self.hop]);
        self.own * comes / states.factor(state, self.at).max(1e-12)
    }
}

impl Asked {
    /// Returns the demand of its copies that send in a state.
    fn demand(&self, states: &States, state: usize, passing: &Passing) -> Demand {
        let part = states.part(state, self.flow);
        let all = |one: &Use| {
            let copies = (one.copies * part).max(1.0);
            (one.resource, one.own(states, state, passing) * copies / one.contended)
        };
        let most = if part > 0.0 { self.most } else { 0.0 };
        Demand { most, uses: self.uses.iter().map(all).collect() }
    }
}

/// Uses of a path.
struct Ways<'a> {
    states: &'a States,
    uses: &'a [Use],
    passing: &'a [Rc<Passing>],
}

impl Ways<'_> {
    /// Returns the greatest rate of payload in a state, and the direction that limits it. Of equal ones the first on the way.
    fn alone(&self, state: usize) -> (f64, (usize, Way)) {
        let mut taken: HashMap<usize, (f64, f64, (usize, Way))> = HashMap::new();
        for one in self.uses {
            let time = one.own(self.states, state, &self.passing[state]);
            let (sum, most, at) = taken.entry(one.resource).or_insert((0.0, 0.0, one.at));
            *sum += time;
            if time > *most {
                (*most, *at) = (time, one.at);
            }
        }
        let narrowest = self
            .uses
            .iter()
            .map(|one| taken[&one.resource])
            .reduce(|a, b| if b.0 > a.0 * (1.0 + 1e-9) { b } else { a });
        let (time, _, at) = narrowest.unwrap_or((f64::INFINITY, 0.0, (0, Way::Forward)));
        (1.0 / time, at)
    }

    /// Returns the direction of a resource on the way.
    fn of(&self, resource: usize) -> Option<(usize, Way)> {
        self.uses.iter().find(|one| one.resource == resource).map(|one| one.at)
    }
}

fn forecast(
    ways: &Ways<'_>,
    of_flow: &[(usize, f64)],
    shares: &[share::Share],
    arriving: &[f64],
) -> Forecast {
    let alone: Vec<(f64, (usize, Way))> = of_flow.iter().map(|(state, _)| ways.alone(*state)).collect();
    let (mut narrow, mut limits) = (HashMap::new(), HashMap::new());
    for ((_, part), (_, at)) in of_flow.iter().zip(&alone) {
        *narrow.entry(*at).or_insert(0.0) += part;
    }
    let narrowest = longest(narrow).unwrap_or((0, Way::Forward));
    for ((_, part), share) in of_flow.iter().zip(shares) {
        let at = share.limit.and_then(|limit| ways.of(limit));
        *limits.entry(at.unwrap_or(narrowest)).or_insert(0.0) += part;
    }
    let mean = |rate: &dyn Fn(usize) -> f64| {
        let sum: f64 = of_flow.iter().enumerate().map(|(n, (_, part))| rate(n).min(1e15) * part).sum();
        Rate::from_bps(sum.round() as u64)
    };
    Forecast {
        alone: mean(&|n| alone[n].0 * arriving[n]),
        sent: mean(&|n| alone[n].0),
        first: Rate::from_bps(alone.first().map_or(0.0, |(rate, _)| rate.min(1e15)).round() as u64),
        narrowest,
        fair: mean(&|n| shares[n].rate * arriving[n]),
        limit: longest(limits).unwrap_or(narrowest),
    }
}

/// Returns the direction with the most time; of equal ones the first in the file.
fn longest(times: HashMap<(usize, Way), f64>) -> Option<(usize, Way)> {
    let order = |(link, way): (usize, Way)| (link, way.index());
    let most = times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(order(b.0).cmp(&order(a.0))));
    most.map(|(at, _)| at)
}

/// Name of a shared medium, or else a direction of a link.
type Key<'a> = (Option<&'a str>, Option<(usize, Way)>);

/// Resources of a network by numbers.
struct Resources<'a> {
    scenario: &'a Scenario,
    media: &'a Media<'a>,
    contended: &'a HashMap<(usize, Way), f64>,
    numbers: HashMap<Key<'a>, usize>,
}

impl Resources<'_> {
    fn uses(&mut self, number: usize, flow: usize, path: &Path) -> Vec<Use> {
        let of = |(at, hop, own): ((usize, Way), usize, f64)| {
            let shared = self.media.cost(at.0, at.1).shared();
            let next = self.numbers.len();
            let key = (shared, shared.is_none().then_some(at));
            let resource = *self.numbers.entry(key).or_insert(next);
            let some = sharing_copies(self.scenario, self.media, at);
            let link = &self.scenario.link[at.0];
            let copies = flows_on_copies(self.scenario, link, &self.scenario.flow[flow], some) as f64;
            let contended = self.contended.get(&at).copied().unwrap_or(1.0);
            Use { path: number, hop, resource, at, own, copies, contended }
        };
        path.loads(self.media).into_iter().map(of).collect()
    }

    /// Returns what all flows ask for, and the number of each path's demand. The paths of a flow to a group have one.
    fn asked(&self, states: &States, paths: &[(usize, Path)], uses: &[Vec<Use>]) -> (Vec<Asked>, Vec<usize>) {
        let (mut all, mut number_of): (Vec<Asked>, Vec<usize>) = (Vec::new(), Vec::new());
        let (mut last, mut seen, mut streams) = (None, HashSet::new(), HashSet::new());
        for ((flow, path), uses) in paths.iter().zip(uses) {
            let to_group = self.scenario.group.contains_key(&self.scenario.flow[*flow].to);
            if !(to_group && last == Some(*flow)) {
                all.push(Asked { flow: *flow, most: self.most(states, *flow, path), uses: Vec::new() });
                seen.clear();
            }
            last = Some(*flow);
            let number = all.len() - 1;
            for one in uses {
                let (link, way) = one.at;
                let stream = self.media.side(link, way).medium.multicast().filter(|_| to_group);
                let from = &self.scenario.link[link].between[way.index()];
                let is_new = stream.is_none_or(|stream| streams.insert((*flow, from, stream)));
                // A packet to a group passes once, however many of its members are behind.
                if !to_group || (seen.insert(one.at) && is_new) {
                    all[number].uses.push(*one);
                }
            }
            number_of.push(number);
        }
        (all, number_of)
    }

    /// Returns the rate of payload that a flow offers, or that its window allows.
    fn most(&self, states: &States, number: usize, path: &Path) -> f64 {
        let flow = &self.scenario.flow[number];
        if flow.traffic.kind().unknown_rate().is_some() {
            return 0.0;
        }
        let offered = offered(flow, path).map_or(f64::INFINITY, |offered| offered.as_bps() as f64);
        let rtt = path.round_trips(self.media, states, &states.of_flow(number));
        let window = path.window.zip(rtt).filter(|(_, [_, mean, _])| !mean.is_zero());
        // A proxy on the way has windows of its own for each part.
        let window = window.filter(|_| splitter(self.scenario, path).is_none());
        window.map_or(offered, |(window, [_, mean, _])| {
            offered.min(Rate::of(window.most, mean).as_bps() as f64)
        })
    }
}

/// Returns the mean rate of speech, packets or application data that a flow offers.
pub(super) fn offered(flow: &Flow, path: &Path) -> Option<Rate> {
    let speech = path.voice.as_ref().and_then(|voice| voice.offered());
    let packets = || flow.traffic.kind().offered(Bytes::new(path.packet * path.fragments));
    let written = || flow.traffic.kind().takes().application.then(|| flow.application.offered()).flatten();
    speech.or(path.recorded).or_else(packets).or_else(written)
}
