//! Flows that share links and multiplexes, and what each of them gets.

mod alone;
mod crossing;
mod resources;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bentpipe_scenario::copies::copies as copies_between;
use bentpipe_scenario::{Flow, Scenario, Traffic, Way};
use bentpipe_site::SharingCopies;
use bentpipe_transport::app::Pattern;
use bentpipe_units::Rate;
use indexmap::IndexMap;

use super::kept::{self, Kept, Stage};
use super::medium::Media;
use super::path::Path;
use super::sent::OF_CEILINGS;
use super::share::{self, Demand};
use super::states::{Part, PassageKey, States};
use super::{Users, flows_on_copies};
pub(super) use alone::Alone;
pub(super) use crossing::Crossing;
use resources::{Resources, bounded_bps};
pub(super) use resources::{of_bucket, offered};

/// Returns the number of copies of a link that share a resource of one.
fn sharing_copies(scenario: &Scenario, media: &Media<'_>, (link, way): (usize, Way), part: Part) -> u32 {
    let cost = media.cost(link, way);
    let between = &scenario.link[link].between;
    let [from, to] = [&between[way.index()], &between[1 - way.index()]].map(String::as_str);
    let all = copies_between(scenario, [from, to]);
    match (part, cost.shared().map(|_| cost.sharing_copies())) {
        (Part::Stage | Part::Packets | Part::Class(_), _) | (Part::Line, None | Some(SharingCopies::One)) => {
            1
        }
        (Part::Passed(number), _) => {
            let ends = cost.passed()[number].between.each_ref().map(String::as_str);
            all / copies_between(scenario, ends).min(all)
        }
        (Part::Line, Some(SharingCopies::All)) => all,
        (Part::Line, Some(SharingCopies::OfNode)) => all / copies_between(scenario, [from; 2]),
    }
}

/// Returns the shared resource of a medium: itself, or the slowest line that it passes.
fn shared<'m>(media: &'m Media<'_>, (link, way): (usize, Way)) -> Option<(&'m str, Part)> {
    let cost = media.cost(link, way);
    let slowest = || {
        let lines = cost.passed().iter().enumerate();
        let slowest = lines.min_by_key(|(_, line)| line.rate);
        slowest.map(|(n, line)| (line.name.as_str(), Part::Passed(n)))
    };
    cost.shared().map(|shared| (shared, Part::Line)).or_else(slowest)
}

/// Returns the resources of a direction that others may share.
fn all_shared<'m>(media: &'m Media<'_>, (link, way): (usize, Way)) -> impl Iterator<Item = (&'m str, Part)> {
    let cost = media.cost(link, way);
    let lines = cost.passed().iter().enumerate().map(|(n, line)| (line.name.as_str(), Part::Passed(n)));
    cost.shared().map(|shared| (shared, Part::Line)).into_iter().chain(lines)
}

/// Flows that share the rate of a direction of a link, or of its multiplex.
pub(super) struct Sharing {
    /// Link and direction, or the multiplex.
    name: String,
    /// Flows with the number of their copies; the most numerous first.
    flows: Vec<(String, u64)>,
    /// Number of flows, at least 1.
    pub(super) count: u64,
    /// The first two of them that send in bursts. Each flow looks at them.
    bursty: Vec<String>,
}

/// Direction of a link, and the resource of it that others share.
type Member = ((usize, Way), Part);

/// Shares of links and multiplexes, computed once for all flows of each.
pub(super) struct Sharings<'a> {
    scenario: &'a Scenario,
    media: &'a Media<'a>,
    /// Directions of links by the name of what they share.
    members: HashMap<&'a str, Vec<Member>>,
    /// Parts of each flow's copies that begin.
    begin: Vec<f64>,
    known: HashMap<(usize, Way), Rc<Sharing>>,
}

impl<'a> Sharings<'a> {
    pub(super) fn new(scenario: &'a Scenario, media: &'a Media<'a>, states: &States) -> Sharings<'a> {
        let mut members: HashMap<&str, Vec<_>> = HashMap::new();
        for at in (0..scenario.link.len()).flat_map(|n| [(n, Way::Forward), (n, Way::Return)]) {
            for (shared, part) in all_shared(media, at) {
                members.entry(shared).or_default().push((at, part));
            }
        }
        let begin = (0..scenario.flow.len()).map(|flow| states.activities.begin(flow)).collect();
        Sharings { scenario, media, members, begin, known: HashMap::new() }
    }

    /// Returns the flows that share the rate of a direction of a link.
    pub(super) fn of(&mut self, users: &Users<'_>, at: (usize, Way)) -> Rc<Sharing> {
        let shared = shared(self.media, at);
        let alone = [(at, Part::Line)];
        let all = shared.and_then(|(name, _)| self.members.get(name)).map_or(&alone[..], Vec::as_slice);
        // Of those that share, the first stands for all.
        if let Some(known) = self.known.get(&all[0].0) {
            return Rc::clone(known);
        }
        let (link_name, _) = self.scenario.link.get_index(at.0).expect("a path is of links");
        let name = shared.map_or_else(|| format!("{link_name} {}", at.1.name()), |(name, _)| name.to_owned());
        let sharing = Rc::new(Sharing::new((self.scenario, self.media), &self.begin, users, name, all));
        self.known.insert(all[0].0, Rc::clone(&sharing));
        sharing
    }
}

impl Sharing {
    fn new(
        (scenario, media): (&Scenario, &Media<'_>),
        begin: &[f64],
        users: &Users<'_>,
        name: String,
        all: &[Member],
    ) -> Sharing {
        let mut flows: IndexMap<usize, u64> = IndexMap::new();
        let (mut counted, mut streams) = (HashSet::new(), HashSet::new());
        for &((n, way), part) in all {
            let link = &scenario.link[n];
            let copies = sharing_copies(scenario, media, (n, way), part);
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
                let count = flows_on_copies(scenario, link, flow, copies) as f64 * begin[flow];
                // Copies that never begin share nothing.
                if count > 0.0 {
                    *flows.entry(flow).or_default() += count.ceil() as u64;
                }
            }
        }
        let named =
            |(flow, count)| (scenario.flow.get_index(flow).map_or("", |(name, _)| name).to_owned(), count);
        let mut flows: Vec<(String, u64)> = flows.into_iter().map(named).collect();
        flows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let count = flows.iter().map(|(_, count)| count).sum::<u64>().max(1);
        let is_bursty = |name: &&String| scenario.flow.get(*name).is_some_and(sends_in_bursts);
        let bursty = flows.iter().map(|(name, _)| name).filter(is_bursty).take(2).cloned().collect();
        Sharing { name, flows, count, bursty }
    }

    /// Returns another flow that sends in bursts.
    pub(super) fn bursty_other(&self, name: &str) -> Option<&str> {
        self.bursty.iter().map(String::as_str).find(|other| *other != name)
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
    /// Mean rate of payload that arrives alone if answers take nothing of their way.
    pub(super) of_data: Rate,
    /// Mean rate of payload that can be sent without other flows. Losses of channels are in it.
    pub(super) sent: Rate,
    /// Mean part of its packets that arrives.
    ///
    /// It is over time, and over what is sent where it slows down.
    pub(super) arrives: f64,
    /// Direction that limits that for most of the time.
    pub(super) narrowest: (usize, Way),
    /// Part of the time in which others do.
    pub(super) elsewhere: f64,
    /// Mean rate of payload that arrives with the other flows.
    pub(super) fair: Rate,
    /// Direction that limits it for most of the time. That of `narrowest` if it gets what it asks for.
    pub(super) limit: (usize, Way),
    /// Overfilled resource on its way.
    pub(super) pressed: Option<Pressed>,
    /// Set if its share is without what queues keep over changes.
    pub(super) keeps_more: bool,
    /// Mean rate of speech that can be sent back, and the direction that limits it. Speech there is another one.
    pub(super) back: Option<(Rate, (usize, Way))>,
}

/// Overfilled resource of a direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressed {
    pub(super) at: (usize, Way),
    /// Flow that does not slow down there.
    pub(super) by: usize,
    /// Set if several flows take a part of it.
    pub(super) is_shared: bool,
}

fn sends_in_bursts(flow: &Flow) -> bool {
    matches!(&flow.traffic, Traffic::Udp(udp) if matches!(udp.pattern, Pattern::OnOff { .. }))
}

impl Forecast {
    /// Returns it with what is kept over changes of a flow's way.
    ///
    /// `is_alone` is set if no other flow takes a part of what it asks for.
    fn keeping(self, kept: &Kept, seconds: f64, is_alone: bool) -> Forecast {
        let more = |rate: Rate| Rate::from_bps((rate.as_bps() as f64 + kept.more / seconds.max(1e-9)) as u64);
        let most = more(self.of_data);
        let is_more = most.as_bps() as f64 > 1.001 * self.of_data.as_bps() as f64;
        let factor = most.as_bps() as f64 / self.of_data.as_bps().max(1) as f64;
        let by_answers = self.is_by_answers();
        let alone = if by_answers { self.alone } else { most };
        let fair = match is_alone {
            true if by_answers => self.fair,
            true if kept.offered > 0.0 => self.fair.max(Rate::from_bps(kept.offered as u64)),
            true => more(self.fair).min(most),
            false => self.fair,
        };
        let sent = if is_more { self.sent.mul_f64(factor) } else { self.sent };
        Forecast { of_data: most, alone, fair, sent, keeps_more: is_more && !is_alone, ..self }
    }

    /// Returns `true` if answers fill their way before data fills its own.
    pub(super) fn is_by_answers(&self) -> bool {
        self.of_data.as_bps() as f64 > 1.001 * self.alone.as_bps() as f64
    }
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
    part: Part,
    /// Length of its packets, if the time depends on it.
    len: Option<usize>,
    /// DSCP of its packets, if it is known.
    dscp: Option<u8>,
    /// Time that one flow takes.
    own: f64,
    /// Number of copies of the flow at one copy of the resource.
    copies: f64,
    /// Set if the flow waits where nothing is received.
    slows: bool,
}

/// Rate of payload that a flow asks for, and what a unit of it takes.
struct Asked {
    flow: usize,
    most: f64,
    /// The most that its window allows in each state. Empty if that is the same in all.
    windows: Rc<[f64]>,
    /// Set if it does not slow down at losses.
    is_fixed: bool,
    uses: Vec<Use>,
}

/// Share of a path without links.
const IDLE: share::Share = share::Share { rate: 0.0, limit: None };

/// Parts of each path's packets that come to each link and to the end. Empty if nothing is lost.
type Passing = Vec<Vec<f64>>;

/// Computes the forecast of each path, and what crosses its links if that is captured.
pub(super) fn forecasts(
    scenario: &Scenario,
    media: &Media<'_>,
    states: &States,
    paths: &[(usize, Path)],
) -> Vec<(Forecast, Vec<Crossing>)> {
    let mut resources = Resources { scenario, media, numbers: HashMap::new() };
    let of_path = |(n, (flow, path)): (usize, &(usize, Path))| {
        let of_flow = states.of_flow(*flow);
        let seconds = states.seconds(*flow, &of_flow);
        let passes = |at, class| seconds * bounded_bps(&of_flow, (media, states), (at, class));
        resources.uses((seconds, &passes), n, *flow, path)
    };
    let mut uses: Vec<Vec<Use>> = paths.iter().enumerate().map(of_path).collect();
    let (asked, asked_of) = resources.asked(states, paths, &uses);
    resources.count_copies(paths, &mut uses);
    let passing = passing(media, states, paths);
    let numbers = resources.numbers.len();
    let mut pressed: HashMap<usize, usize> = HashMap::new();
    let share = |state: usize| {
        let demands: Vec<Demand> =
            asked.iter().map(|asked| asked.demand(states, media, state, &passing[state])).collect();
        let shares = share::max_min(numbers, &demands);
        pressed.extend(overfilled((states, state), numbers, &asked, &demands, &shares));
        shares
    };
    let all: Vec<Vec<share::Share>> = (0..states.len()).map(share).collect();
    let is_captured = !scenario.probe.capture.is_empty();
    let shared = if pressed.is_empty() { HashSet::new() } else { of_several(paths, &uses) };
    let forecast = |(n, (flow, path)): (usize, &(usize, Path))| {
        let of_flow = states.of_flow(*flow);
        let share = |state: usize| {
            let own = asked_of[n].iter().map(|number| all[state][*number]);
            own.reduce(|a, b| if b.rate < a.rate { b } else { a }).unwrap_or(IDLE)
        };
        let shares: Vec<share::Share> = of_flow.iter().map(|(state, _)| share(*state)).collect();
        let arriving: Vec<f64> = of_flow.iter().map(|(state, _)| arriving(&passing[*state], n)).collect();
        let links = path.hops_there().len();
        let (there, back) = match path.voice {
            Some(_) => apart(&uses[n], links),
            None => (Vec::new(), Vec::new()),
        };
        let own = if path.voice.is_some() { &there[..] } else { &uses[n][..] };
        let ways = Ways { states, media, uses: own, links, passing: &passing };
        let of_use = |one: &Use| {
            let by = *pressed.get(&one.resource)?;
            Some(Pressed { at: one.at, by, is_shared: shared.contains(&one.resource) })
        };
        // A ceiling of its own may hold back less than a line that others share.
        let on_way = || own.iter().filter_map(of_use);
        let pressed = on_way().find(|pressed| pressed.is_shared).or_else(|| on_way().next());
        let back = Ways { uses: &back, ..ways }.mean_alone(&of_flow);
        let back = back.map(|(rate, at)| (rate.mul_f64(path.answers_per_packet()), at));
        let forecast = forecast(&ways, &of_flow, &shares, &arriving);
        let asked = asked_of[n].first().map(|number| &asked[*number]);
        let forecast = ways.with_kept((scenario, &of_flow), (*flow, path), asked, (forecast, &shares));
        let is_fixed = !path.waits;
        let arrives = if is_fixed { mean_of(&of_flow, &arriving) } else { forecast.arrives };
        let offered = asked.filter(|asked| asked.is_fixed).map(|asked| asked.most);
        let at_limit = |share: share::Share| {
            let limit = share.limit?;
            uses[n].iter().find(|one| one.resource == limit).map(|one| one.hop)
        };
        let in_state = |state: usize| {
            let share = share(state);
            let parts = passing[state].get(n).map_or(&[][..], Vec::as_slice);
            crossing::Carried { offered, rate: share.rate, limit: at_limit(share), parts }
        };
        let crossings = if is_captured { crossing::all(states, (*flow, path), in_state) } else { Vec::new() };
        (Forecast { pressed, arrives, back, ..forecast }, crossings)
    };
    paths.iter().enumerate().map(forecast).collect()
}

/// Returns the resources of which several flows take a part.
fn of_several(paths: &[(usize, Path)], uses: &[Vec<Use>]) -> HashSet<usize> {
    let (mut first, mut several) = (HashMap::new(), HashSet::new());
    for one in uses.iter().flatten() {
        let (flow, _) = paths[one.path];
        if *first.entry(one.resource).or_insert(flow) != flow {
            several.insert(one.resource);
        }
    }
    several
}

/// Returns the uses of what is sent there, and those of what is sent back.
fn apart(uses: &[Use], links: usize) -> (Vec<Use>, Vec<Use>) {
    uses.iter().copied().partition(|one| one.hop < links)
}

/// Returns the mean over states with their parts.
fn mean_of(states: &[(usize, f64)], values: &[f64]) -> f64 {
    states.iter().zip(values).map(|((_, part), value)| part * value).sum()
}

/// Returns what passes in each state. States of equal losses have it in common.
fn passing(media: &Media<'_>, states: &States, paths: &[(usize, Path)]) -> Vec<Rc<Passing>> {
    let mut known: HashMap<PassageKey, Rc<Passing>> = HashMap::new();
    let of_state = |state| {
        let found = || {
            let of = |(_, path): &(usize, Path)| path.passing(media, states, state, path.waits);
            let parts: Passing = paths.iter().map(of).collect();
            let is_lossless = parts.iter().flatten().all(|part| *part == 1.0);
            if is_lossless { Rc::default() } else { Rc::new(parts) }
        };
        Rc::clone(known.entry(states.passage(state)).or_insert_with(found))
    };
    (0..states.len()).map(of_state).collect()
}

/// Returns the part of a path's packets that arrives.
fn arriving(passing: &Passing, path: usize) -> f64 {
    passing.get(path).and_then(|parts| parts.last()).copied().unwrap_or(1.0)
}

impl Use {
    /// Returns the part of the resource that a unit of rate takes in a state.
    fn own(&self, states: &States, media: &Media<'_>, state: usize, passing: &Passing) -> f64 {
        let comes = passing.get(self.path).map_or(1.0, |parts| parts[self.hop]);
        let received = if self.slows { states.received(state, self.at) } else { 1.0 };
        let factor = match self.part {
            Part::Class(class) => {
                media.ceilings.mean(self.at, (class, self.dscp), states.span(state)) / OF_CEILINGS
            }
            part => states.factor((state, part), media, self.at, self.len),
        };
        self.own * comes / (received * factor).max(1e-12)
    }

    /// Returns the part of the resource that a unit of rate takes in the file.
    fn in_file(&self, media: &Media<'_>) -> f64 {
        match self.part {
            Part::Class(class) => {
                self.own * OF_CEILINGS / media.ceilings.in_file(self.at, (class, self.dscp))
            }
            _ => self.own,
        }
    }
}

impl Asked {
    /// Returns the demand of its copies that send in a state.
    fn demand(&self, states: &States, media: &Media<'_>, state: usize, passing: &Passing) -> Demand {
        let part = states.part(state, self.flow);
        let all = |one: &Use| {
            let copies = (one.copies * part).max(1.0);
            (one.resource, one.own(states, media, state, passing) * copies)
        };
        let window = self.windows.get(state).copied().unwrap_or(f64::INFINITY);
        let most = if part > 0.0 { self.most.min(window) } else { 0.0 };
        Demand { most, uses: self.uses.iter().map(all).collect() }
    }
}

/// Returns overfilled resources, each with a flow that does not slow down.
///
/// They send what they offer, and others their shares. What does not fit a resource does not come to those behind it.
/// Nothing is short where nothing is received.
fn overfilled(
    (states, state): (&States, usize),
    resources: usize,
    asked: &[Asked],
    demands: &[Demand],
    shares: &[share::Share],
) -> Vec<(usize, usize)> {
    let all =
        || asked.iter().zip(demands).zip(shares).map(|((asked, demand), share)| (asked, demand, share.rate));
    let has_more =
        |(asked, demand, rate): (&Asked, &Demand, f64)| asked.is_fixed && rate < 0.999 * demand.most;
    if !all().any(has_more) {
        return Vec::new();
    }
    let (mut load, mut greatest) = (vec![0.0; resources], vec![(0.0, 0); resources]);
    for (asked, demand, rate) in all() {
        let mut comes = if asked.is_fixed { demand.most } else { rate };
        let uses = asked.uses.iter().zip(&demand.uses);
        // What carries nothing has no shares.
        let carries =
            |(one, (_, part)): &(&Use, &(usize, f64))| *part < 1.0 && states.received(state, one.at) > 0.0;
        for (_, (resource, part)) in uses.filter(carries) {
            load[*resource] += comes * part;
            let more = (comes - rate) * part;
            if more > greatest[*resource].0 {
                greatest[*resource] = (more, asked.flow);
            }
            comes = comes.min(1.0 / part.max(f64::MIN_POSITIVE));
        }
    }
    let is_full = |(n, load): (usize, f64)| (load > 1.001 && greatest[n].0 > 0.0).then(|| (n, greatest[n].1));
    load.into_iter().enumerate().filter_map(is_full).collect()
}

/// Uses of a path.
#[derive(Clone, Copy)]
struct Ways<'a> {
    states: &'a States,
    media: &'a Media<'a>,
    uses: &'a [Use],
    /// Number of links there.
    links: usize,
    passing: &'a [Rc<Passing>],
}

impl Ways<'_> {
    /// Returns the greatest rate of payload in a state, and the direction that limits it. Of equal ones the first on the way.
    fn alone(&self, state: usize) -> (f64, (usize, Way)) {
        let mut taken: HashMap<usize, (f64, f64, (usize, Way))> = HashMap::new();
        for one in self.uses {
            let time = one.own(self.states, self.media, state, &self.passing[state]);
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

    /// Returns the mean of the greatest rates, and the direction that limits it.
    ///
    /// `None` without links.
    fn mean_alone(&self, of_flow: &[(usize, f64)]) -> Option<(Rate, (usize, Way))> {
        if self.uses.is_empty() {
            return None;
        }
        let (mut sum, mut narrow) = (0.0, HashMap::new());
        for (state, part) in of_flow {
            let (rate, at) = self.alone(*state);
            sum += rate.min(1e15) * part;
            *narrow.entry(at).or_insert(0.0) += part;
        }
        Some((Rate::from_bps(sum.round() as u64), longest(narrow)?))
    }

    /// Returns the greatest rate of payload in a state without answers.
    ///
    /// Where data passes too, they count.
    fn of_data(&self, state: usize) -> f64 {
        let own = |one: &Use| one.own(self.states, self.media, state, &self.passing[state]);
        alone::longest(self.uses, self.links, own)[0].recip()
    }

    /// Returns the part of packets that arrives in a state.
    fn arriving(&self, state: usize) -> f64 {
        arriving(&self.passing[state], self.uses.first().map_or(0, |one| one.path))
    }

    /// Returns the way in a state.
    ///
    /// Queues behind a link go on in its outages, which is as a link that is down to them.
    fn stage(&self, path: &Path, state: usize, has_outages: bool) -> Stage {
        let (states, media) = (self.states, self.media);
        let there = path.takes_there(media, states, state);
        if !has_outages {
            let own = |one: &Use| one.own(states, media, state, &self.passing[state]);
            let rates = alone::by_link(self.uses, self.links, own);
            return Stage { rates, there, arriving: self.arriving(state) };
        }
        let passing = vec![path.passing(media, states, state, true)];
        let own = |one: &Use| Use { path: 0, slows: true, ..*one }.own(states, media, state, &passing);
        Stage { rates: alone::by_link(self.uses, self.links, own), there, arriving: arriving(&passing, 0) }
    }

    /// Returns a forecast with what queues and lines of its way keep over changes.
    fn with_kept(
        &self,
        (scenario, of_flow): (&Scenario, &[(usize, f64)]),
        (n, path): (usize, &Path),
        asked: Option<&Asked>,
        (forecast, shares): (Forecast, &[share::Share]),
    ) -> Forecast {
        let (states, last) = (self.states, of_flow.last().map_or(0, |(state, _)| *state));
        // What asks for answers is limited by their way too.
        let is_both = path.window.is_none() && path.answers();
        if is_both || !(1..=last).any(|state| path.changes_there(states, state).is_some()) {
            return forecast;
        }
        let is_cut = |(state, _): &(usize, f64)| {
            path.hops_there().iter().any(|hop| states.received(*state, (hop.0, hop.1)) < 1.0)
        };
        let has_outages = !path.waits && of_flow.iter().any(is_cut);
        let stage = |state: usize| self.stage(path, state, has_outages);
        let always = of_flow.iter().all(|(state, _)| states.part(*state, n) > 0.999);
        let offered = asked.filter(|asked| asked.is_fixed && always).map(|asked| asked.most);
        let found = kept::kept((scenario, self.media, states), (n, path), (last, &stage, offered));
        let Some(mut kept) = found else { return forecast };
        if let Some(offered) = offered.filter(|_| has_outages) {
            // What is sent in an outage does not wait.
            let arriving: Vec<f64> = of_flow.iter().map(|(state, _)| self.arriving(*state)).collect();
            kept.offered = kept.offered.min(offered * mean_of(of_flow, &arriving));
        }
        let gets = |of: &dyn Fn(f64) -> f64| {
            let mut all = of_flow.iter().zip(shares);
            all.all(|((state, _), share)| share.rate >= 0.999 * of(self.alone(*state).0))
        };
        let is_alone = match offered {
            Some(offered) => gets(&|alone| alone.min(offered)),
            None => gets(&|alone| alone),
        };
        forecast.keeping(&kept, states.seconds(n, of_flow), is_alone)
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
    let elsewhere = 1.0 - narrow.values().copied().fold(0.0, f64::max);
    let narrowest = longest(narrow).unwrap_or((0, Way::Forward));
    for ((_, part), share) in of_flow.iter().zip(shares) {
        let at = share.limit.and_then(|limit| ways.of(limit));
        *limits.entry(at.unwrap_or(narrowest)).or_insert(0.0) += part;
    }
    let mean = |rate: &dyn Fn(usize) -> f64| {
        let sum: f64 = of_flow.iter().enumerate().map(|(n, (_, part))| rate(n).min(1e15) * part).sum();
        Rate::from_bps(sum.round() as u64)
    };
    // Where nothing comes to a line, any rate would pass it.
    let open: f64 =
        of_flow.iter().zip(arriving).filter(|(_, part)| **part > 0.0).map(|((_, time), _)| time).sum();
    let sent = |n: usize| match open > 0.0 {
        true if arriving[n] > 0.0 => alone[n].0 / open,
        true => 0.0,
        false => alone[n].0,
    };
    let [arrived, sent] = [mean(&|n| alone[n].0 * arriving[n]), mean(&sent)];
    Forecast {
        alone: arrived,
        of_data: mean(&|n| ways.of_data(of_flow[n].0) * arriving[n]).max(arrived),
        sent,
        arrives: arrived.as_bps() as f64 / (sent.as_bps() as f64 * open).max(1.0),
        narrowest,
        elsewhere,
        fair: mean(&|n| shares[n].rate * arriving[n]),
        limit: longest(limits).unwrap_or(narrowest),
        pressed: None,
        keeps_more: false,
        back: None,
    }
}

/// Returns the direction with the most time; of equal ones the first in the file.
fn longest(times: HashMap<(usize, Way), f64>) -> Option<(usize, Way)> {
    let order = |(link, way): (usize, Way)| (link, way.index());
    let most = times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(order(b.0).cmp(&order(a.0))));
    most.map(|(at, _)| at)
}
