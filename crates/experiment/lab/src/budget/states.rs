//! Rates and delays of links over the run.
//!
//! Events change them, files of values in time, signals and outages.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use bentpipe_assemble::DelayTables;
use bentpipe_net::link::DelayChange;
use bentpipe_scenario::{Access, Difference, Medium, Moment, Problem, Scenario, Way};
use bentpipe_site::{Cost, OwnRate};
use bentpipe_units::{Rate, Span};
use serde::Serialize;

use super::active::Activities;
use super::loss::Losses;
use super::medium::{Costs, Media};

/// The most states: more are joined in the order of time, at equal means.
const MOST: usize = 64;

/// The most rates and delays that are looked at, of all directions and times together.
const MOST_VALUES: usize = 200_000;

/// Rate of a link with the part of the run in which it has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateShare {
    /// Line rate.
    pub rate: Rate,
    /// Part of the run.
    pub share: f64,
}

/// Least, mean and greatest delay of a link over the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelayRange {
    /// The least.
    pub least: Span,
    /// Mean over the run.
    pub mean: Span,
    /// The greatest.
    pub most: Span,
}

/// Rate and delay of a direction at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    /// Rate as part of the one in the file.
    factor: f64,
    /// Part of what it sends that its receiver is there for: none in an outage.
    received: f64,
    /// Limit of its stages as part of the one in the file.
    stage: f64,
    delay_s: f64,
}

impl Held {
    /// Returns the rate of what is received, as part of the one in the file.
    fn whole(&self) -> f64 {
        self.factor * self.received
    }
}

/// Resource of a direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// Line or medium.
    Line,
    /// Stages in front of it.
    Stage,
    /// Line below it, by its number there.
    Passed(usize),
    /// Station that forwards a number of packets.
    Packets,
    /// Class of the queue, by its number; behind the last one all of them.
    Class(usize),
}

/// Time in which rates, delays and flows stay.
#[derive(Clone)]
struct State {
    from: Span,
    to: Span,
    /// Values by directions, forward and return of each link. Empty if nothing changes in the run.
    held: Rc<[Held]>,
    /// Costs after events. `None` if they are those of the file, or of several times.
    costs: Option<Rc<Costs>>,
}

impl State {
    /// Returns `true` if another one has the same rates, delays and costs.
    fn is_like(&self, held: &[Held], costs: Option<&Rc<Costs>>) -> bool {
        *self.held == *held && is_same(self.costs.as_ref(), costs)
    }
}

/// Returns `true` if both are the same costs.
fn is_same(one: Option<&Rc<Costs>>, other: Option<&Rc<Costs>>) -> bool {
    one.map(Rc::as_ptr) == other.map(Rc::as_ptr)
}

/// Losses of channels, costs, and directions without a receiver for all that is sent.
pub(super) type PassageKey = (usize, Option<*const Costs>, Vec<(usize, u64)>);

/// States of the links of a scenario in the order of time.
pub(super) struct States {
    all: Vec<State>,
    rates: HashMap<(usize, Way), Vec<RateShare>>,
    delays: HashMap<(usize, Way), DelayRange>,
    /// Set if only a sample of the changes was looked at.
    pub(super) is_sample: bool,
    /// Directions whose delays are in a file that could not be read here.
    pub(super) unknown: BTreeSet<(usize, Way)>,
    pub(super) losses: Rc<Losses>,
    pub(super) activities: Rc<Activities>,
    /// States that are not joined, where others are.
    fine: Option<Box<States>>,
}

impl States {
    pub(super) fn new(
        scenario: &Scenario,
        media: &Media<'_>,
        access: Option<&Access>,
        activities: Activities,
    ) -> Result<States, Problem> {
        let losses = Rc::new(Losses::new(scenario, media, access));
        let activities = Rc::new(activities);
        let mut walk = Walk::new(scenario, media, access, &losses);
        let (mut cuts, is_sample) = walk.cuts();
        let is_still = walk.is_still(&cuts);
        let mut all: Vec<State> = Vec::new();
        while let Some(from) = cuts.pop_first() {
            let held: Rc<[Held]> = if is_still { Rc::default() } else { walk.held(from)?.into() };
            if !is_sample {
                cuts.extend(walk.found(from));
            }
            let to = cuts.first().copied().unwrap_or(scenario.duration);
            // States that are joined have no costs in common.
            let costs = walk.costs.clone().filter(|_| all.len() < 2 * MOST);
            match all.last_mut() {
                Some(last) if last.is_like(&held, costs.as_ref()) => last.to = to,
                _ => all.push(State { from, to, held, costs }),
            }
        }
        let (rates, delays) = (rates(media, &all), delays(&all));
        let (unknown, fine) = (walk.unknown, (all.len() > MOST).then(|| all.clone()));
        let all = split(joined(all), &activities, scenario.flow.len());
        let of = |all| States {
            all,
            rates: HashMap::new(),
            delays: HashMap::new(),
            is_sample,
            unknown: BTreeSet::new(),
            losses: Rc::clone(&losses),
            activities: Rc::clone(&activities),
            fine: None,
        };
        let fine = fine.map(|all| Box::new(of(all)));
        Ok(States { rates, delays, unknown, fine, ..of(all) })
    }

    /// Returns the states as they are before neighbours are joined.
    pub(super) fn fine(&self) -> &States {
        self.fine.as_deref().unwrap_or(self)
    }

    /// Returns the state at a time.
    pub(super) fn at(&self, time: Span) -> usize {
        self.all.partition_point(|state| state.from <= time).max(1) - 1
    }

    /// Returns `true` if a direction has equal values in two states.
    pub(super) fn are_alike(&self, [one, other]: [usize; 2], (link, way): (usize, Way)) -> bool {
        let n = 2 * link + way.index();
        let [one, other] = [one, other].map(|state| &self.all[state]);
        one.held.get(n) == other.held.get(n) && is_same(one.costs.as_ref(), other.costs.as_ref())
    }

    /// Returns the number of states.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the part of a state in which the receiver of a direction is there.
    pub(super) fn received(&self, state: usize, (link, way): (usize, Way)) -> f64 {
        self.all[state].held.get(2 * link + way.index()).map_or(1.0, |held| held.received)
    }

    /// Returns `true` if a direction has times without reception: outages, or below a threshold.
    pub(super) fn is_cut(&self, at: (usize, Way)) -> bool {
        (0..self.len()).any(|state| self.received(state, at) < 1.0)
    }

    /// Returns what packets that are lost in a state depend on.
    pub(super) fn passage(&self, state: usize) -> PassageKey {
        let State { from, held, costs, .. } = &self.all[state];
        let parts = held.iter().enumerate().filter(|(_, held)| held.received < 1.0);
        let parts = parts.map(|(n, held)| (n, held.received.to_bits())).collect();
        (self.losses.epoch(*from), costs.as_ref().map(Rc::as_ptr), parts)
    }

    /// Returns the rate of a resource in a state, as part of the file's.
    ///
    /// That of a medium may depend on the length of packets. What its receiver is there for is apart.
    pub(super) fn factor(
        &self,
        (state, part): (usize, Part),
        media: &Media<'_>,
        (link, way): (usize, Way),
        len: Option<usize>,
    ) -> f64 {
        let (n, of) = (2 * link + way.index(), &self.all[state]);
        let Some(held) = of.held.get(n) else { return 1.0 };
        let (file, now) = (media.cost(link, way), of.costs.as_ref().map(|costs| &*costs[n]));
        match part {
            Part::Stage => held.stage,
            // Ceilings depend on codepoints: they are apart.
            Part::Class(_) => 1.0,
            Part::Line => {
                let by_len = now.zip(len).map(|(now, len)| by_length(file, now, len));
                held.factor * by_len.unwrap_or(1.0)
            }
            Part::Passed(number) => {
                let rate = |cost: &dyn Cost| Some(cost.passed().get(number)?.rate.as_bps() as f64);
                now.and_then(|now| Some(rate(now)? / rate(file)?.max(1.0))).unwrap_or(1.0)
            }
            Part::Packets => {
                now.and_then(|now| Some(now.packet_rate()? / file.packet_rate()?)).unwrap_or(1.0)
            }
        }
    }

    /// Returns the cost of packets on a direction in a state.
    pub(super) fn cost<'c>(
        &'c self,
        state: usize,
        media: &'c Media<'_>,
        (link, way): (usize, Way),
    ) -> &'c dyn Cost {
        match &self.all[state].costs {
            Some(costs) => &*costs[2 * link + way.index()],
            None => media.cost(link, way),
        }
    }

    /// Returns the delay of a direction in a state.
    pub(super) fn delay(&self, state: usize, media: &Media<'_>, (link, way): (usize, Way)) -> Span {
        let held = self.all[state].held.get(2 * link + way.index());
        held.map_or_else(|| media.delay(link, way), |held| Span::from_secs_f64(held.delay_s))
    }

    /// Returns the start of a state.
    pub(super) fn start(&self, state: usize) -> Span {
        self.all[state].from
    }

    /// Returns the start and the end of a state.
    pub(super) fn span(&self, state: usize) -> [Span; 2] {
        [self.all[state].from, self.all[state].to]
    }

    /// Returns the end of a state.
    pub(super) fn end(&self, state: usize) -> Span {
        self.all[state].to
    }

    /// Returns the mean part of a flow's copies that send in a state.
    pub(super) fn part(&self, state: usize, flow: usize) -> f64 {
        self.activities.part(flow, self.all[state].from, self.all[state].to)
    }

    /// Returns the states behind the warm-up in which a flow sends, with their parts.
    ///
    /// Of a flow that does not send then, those before it.
    pub(super) fn of_flow(&self, flow: usize) -> Vec<(usize, f64)> {
        let from = self.activities.warm_up().unwrap_or_default();
        let measured = self.sends(flow, |state| state.from >= from);
        let of = if measured.is_empty() { self.sends(flow, |_| true) } else { measured };
        if of.is_empty() { vec![(0, 1.0)] } else { of }
    }

    /// Returns the mean seconds that a copy of a flow sends in some states.
    pub(super) fn seconds(&self, flow: usize, of: &[(usize, f64)]) -> f64 {
        let states = of.iter().map(|(state, _)| &self.all[*state]);
        states.map(|state| self.activities.mean(flow, state.from, state.to)).sum()
    }

    /// Returns the mean seconds that a copy of a flow sends in a state. Copies that never begin count.
    pub(super) fn seconds_of_copy(&self, state: usize, flow: usize) -> f64 {
        let State { from, to, .. } = self.all[state];
        self.activities.overlap(flow, from, to) / self.activities.copies(flow)
    }

    /// Returns the states in which a flow sends, with their parts of that time.
    fn sends(&self, flow: usize, is_meant: impl Fn(&State) -> bool) -> Vec<(usize, f64)> {
        let spans = self.all.iter().map(|state| is_meant(state).then_some((state.from, state.to)));
        let overlaps = self.activities.weights(flow, &spans.collect::<Vec<_>>());
        let all: f64 = overlaps.iter().sum();
        overlaps
            .into_iter()
            .enumerate()
            .filter(|(_, part)| *part > 0.0)
            .map(|(n, part)| (n, part / all))
            .collect()
    }

    /// Returns the rates of a direction that changes, the least first.
    pub(super) fn rates(&self, at: (usize, Way)) -> &[RateShare] {
        self.rates.get(&at).map_or(&[], Vec::as_slice)
    }

    /// Returns the delays of a direction that changes.
    pub(super) fn delays(&self, at: (usize, Way)) -> Option<DelayRange> {
        self.delays.get(&at).copied()
    }
}

/// Returns the change of a rate for a length, beyond that of the usable rate.
fn by_length(file: &dyn Cost, now: &dyn Cost, len: usize) -> f64 {
    let ratio = |of: &dyn Fn(&dyn Cost) -> Rate| of(now).as_bps() as f64 / of(file).as_bps().max(1) as f64;
    let usable = ratio(&|cost| cost.usable());
    if usable > 0.0 { ratio(&|cost| cost.capacity(len)) / usable } else { 1.0 }
}

/// Values of a direction in a scenario.
#[derive(Clone, Copy)]
struct Now {
    usable: f64,
    rate: f64,
    delay: Span,
    limit: Option<f64>,
}

/// Walk along the changes of a run.
struct Walk<'a> {
    media: &'a Media<'a>,
    moments: &'a [Moment],
    duration: Span,
    /// Number of links. Copies that get settings of their own later are not among them.
    links: usize,
    /// The scenario as it holds now.
    state: Cow<'a, Scenario>,
    /// Number of moments that it has in it.
    passed: usize,
    /// Values and own rates by directions, as of the scenario that holds now.
    now: Vec<Now>,
    own: Vec<Vec<OwnRate>>,
    /// Costs after events.
    costs: Option<Rc<Costs>>,
    /// Set if an event gave others since they were last looked at.
    is_new: bool,
    files: HashMap<usize, Arc<[DelayChange]>>,
    unknown: BTreeSet<(usize, Way)>,
    losses: &'a Losses,
}

impl<'a> Walk<'a> {
    fn new(
        scenario: &'a Scenario,
        media: &'a Media<'a>,
        access: Option<&Access>,
        losses: &'a Losses,
    ) -> Walk<'a> {
        let mut walk = Walk {
            media,
            losses,
            moments: &scenario.timeline,
            duration: scenario.duration,
            links: scenario.link.len(),
            state: Cow::Borrowed(scenario),
            passed: 0,
            now: now(media, scenario.link.len()),
            own: directions(scenario.link.len()).map(|(link, way)| media.cost(link, way).rates()).collect(),
            costs: None,
            is_new: false,
            files: HashMap::new(),
            unknown: BTreeSet::new(),
        };
        let tables = DelayTables::default();
        directions(scenario.link.len()).for_each(|at| walk.load(at, access, &tables));
        walk
    }

    /// Loads the file with the delays of a direction, if it has one.
    fn load(&mut self, at: (usize, Way), access: Option<&Access>, tables: &DelayTables) {
        let side = self.media.side(at.0, at.1);
        let Medium::Line(line) = &side.medium else { return };
        let Some(changes) = &line.delay_changes else { return };
        let load = |access| tables.of(changes, side.common.delay, access).ok();
        match access.and_then(load) {
            Some(changes) => drop(self.files.insert(2 * at.0 + at.1.index(), changes)),
            None => drop(self.unknown.insert(at)),
        }
    }

    /// Returns the times of changes, the start first, and `true` for a sample of them.
    fn cuts(&self) -> (BTreeSet<Span>, bool) {
        let moments = self.moments.iter().filter(|moment| is_of_links(&moment.difference));
        let moments = moments.map(|moment| moment.at);
        let own = self.own.iter().flatten().map(|own| own.from);
        // Lines that have a file in common have its times once.
        let mut seen = HashSet::new();
        let files = self.files.values().filter(|all| seen.insert(all.as_ptr()));
        let files = files.flat_map(|all| all.iter()).map(|change| change.at);
        let losses = self.losses.cuts(self.duration);
        let all = moments.chain(own).chain(files).chain(losses).filter(|at| *at < self.duration);
        let mut all: Vec<Span> = std::iter::once(Span::ZERO).chain(all).collect();
        all.sort_unstable();
        all.dedup();
        let most = (MOST_VALUES / self.now.len().max(1)).max(8);
        let every = all.len().div_ceil(most).max(1);
        (all.into_iter().step_by(every).collect(), every > 1)
    }

    /// Returns the times of changes that an event has brought since the last call.
    fn found(&mut self, from: Span) -> Vec<Span> {
        if !std::mem::take(&mut self.is_new) {
            return Vec::new();
        }
        let later = self.own.iter().flatten().map(|own| own.from);
        later.filter(|at| *at > from && *at < self.duration).collect()
    }

    /// Returns `true` if nothing differs from the file at any of the times.
    fn is_still(&self, cuts: &BTreeSet<Span>) -> bool {
        let is_at_start = |moment: &Moment| moment.at.is_zero();
        cuts.len() == 1 && self.losses.is_empty() && !self.moments.iter().any(is_at_start)
    }

    /// Returns rates and delays from a time on. Times of calls are in order.
    fn held(&mut self, at: Span) -> Result<Vec<Held>, Problem> {
        // Of a sample, those between two of its times are looked at together.
        let mut last = None;
        while let Some(moment) = self.moments.get(self.passed).filter(|moment| moment.at <= at) {
            moment.difference.apply(self.state.to_mut());
            self.passed += 1;
            last = last.max(is_of_links(&moment.difference).then_some(moment.at));
        }
        last.map_or(Ok(()), |last| self.follow(last))?;
        Ok(directions(self.links).map(|of| self.held_of(of, at)).collect())
    }

    /// Sets the costs to those after an event.
    fn follow(&mut self, at: Span) -> Result<(), Problem> {
        let media = self.media.in_state(&self.state)?;
        self.now = now(&media, self.links);
        let (costs, file) = (self.costs.clone(), self.media);
        let costs = costs.as_deref();
        let before = |n: usize| -> Option<&dyn Cost> {
            let (link, way) = (n / 2, Way::BOTH[n % 2]);
            (link < self.links).then(|| match costs {
                Some(costs) => &*costs[n],
                None => file.cost(link, way),
            })
        };
        let after = media.into_costs(&before, at);
        self.own = after.iter().take(2 * self.links).map(|cost| cost.rates()).collect();
        for (now, cost) in self.now.iter_mut().zip(&after) {
            (now.usable, now.rate) = (cost.usable().as_bps() as f64, cost.rate().as_bps() as f64);
        }
        (self.costs, self.is_new) = (Some(Rc::new(after)), true);
        Ok(())
    }

    fn held_of(&self, (link, way): (usize, Way), at: Span) -> Held {
        let n = 2 * link + way.index();
        let first = self.media.cost(link, way).usable().as_bps().max(1) as f64;
        let Now { usable, rate, delay, limit } = self.now[n];
        let passed = self.own[n].partition_point(|own| own.from <= at);
        let own = self.own[n][..passed].last();
        let part = own.map_or(1.0, |own| own.rate.as_bps() as f64 / rate.max(1.0));
        let changes = self.files.get(&n).map_or(&[][..], |all| &**all);
        let change = changes[..changes.partition_point(|change| change.at <= at)].last();
        let added = self.media.channel_delay(link, way);
        let delay = change.map_or(delay, |change| change.delay + added);
        let is_faded = own.is_some_and(|own| !own.is_received);
        let received = if is_faded || self.losses.is_out((link, way), at) { 0.0 } else { 1.0 };
        let of_file = self.media.limit(link, way).map(|limit| limit.rate.as_bps() as f64);
        let stage = limit.zip(of_file).map_or(1.0, |(now, file)| now / file.max(1.0));
        Held { factor: usable * part / first, received, stage, delay_s: delay.as_secs_f64() }
    }
}

/// Returns `true` if a difference has links or what they share.
fn is_of_links(difference: &Difference) -> bool {
    !difference.link.is_empty() || difference.shared.is_some()
}

fn directions(links: usize) -> impl Iterator<Item = (usize, Way)> {
    (0..links).flat_map(|link| Way::BOTH.map(|way| (link, way)))
}

/// Returns the values of all directions.
fn now(media: &Media<'_>, links: usize) -> Vec<Now> {
    let of = |(link, way)| {
        let cost = media.cost(link, way);
        let [usable, rate] = [cost.usable(), cost.rate()].map(|rate| rate.as_bps() as f64);
        let limit = media.limit(link, way).map(|limit| limit.rate.as_bps() as f64);
        Now { usable, rate, delay: media.delay(link, way), limit }
    };
    directions(links).map(of).collect()
}

/// Returns the rates of the directions that change.
fn rates(media: &Media<'_>, all: &[State]) -> HashMap<(usize, Way), Vec<RateShare>> {
    let run = all.last().map_or(0.0, |last| last.to.as_secs_f64()).max(f64::MIN_POSITIVE);
    let links = all.first().map_or(0, |first| first.held.len() / 2);
    let of = |(link, way): (usize, Way)| {
        let factor = |state: &State| state.held[2 * link + way.index()].whole();
        let parts = all.iter().map(|state| (factor(state), length(state) / run));
        let mut shares: Vec<(f64, f64)> = parts.collect();
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        shares.dedup_by(|next, first| {
            let same = next.0 == first.0;
            first.1 += if same { next.1 } else { 0.0 };
            same
        });
        let rate = media.cost(link, way).rate();
        let shares =
            shares.into_iter().map(|(factor, share)| RateShare { rate: rate.mul_f64(factor), share });
        ((link, way), shares.collect::<Vec<_>>())
    };
    let is_as_in_file = |n: usize| all.iter().all(|state| state.held[n].whole() == 1.0);
    let changing = directions(links).filter(|(link, way)| !is_as_in_file(2 * link + way.index()));
    changing.map(of).collect()
}

/// Returns the delays of the directions that change.
fn delays(all: &[State]) -> HashMap<(usize, Way), DelayRange> {
    let run = all.last().map_or(0.0, |last| last.to.as_secs_f64()).max(f64::MIN_POSITIVE);
    let links = all.first().map_or(0, |first| first.held.len() / 2);
    let of = |(link, way): (usize, Way)| {
        let delay = |state: &State| state.held[2 * link + way.index()].delay_s;
        let least = all.iter().map(delay).fold(f64::INFINITY, f64::min);
        let most = all.iter().map(delay).fold(0.0, f64::max);
        let mean = all.iter().map(|state| delay(state) * length(state) / run).sum();
        let [least, mean, most] = [least, mean, most].map(Span::from_secs_f64);
        ((link, way), DelayRange { least, mean, most })
    };
    directions(links).map(of).filter(|(_, range)| range.least < range.most).collect()
}

fn length(state: &State) -> f64 {
    state.to.saturating_sub(state.from).as_secs_f64()
}

/// Joins neighbours so that there are few states. Means stay.
fn joined(all: Vec<State>) -> Vec<State> {
    let each = all.len().div_ceil(MOST).max(1);
    if each == 1 {
        return all;
    }
    let join = |group: &[State]| {
        let time: f64 = group.iter().map(length).sum::<f64>().max(f64::MIN_POSITIVE);
        let mean = |n: usize, of: fn(&Held) -> f64| {
            group.iter().map(|state| of(&state.held[n]) * length(state) / time).sum()
        };
        let held = |n| Held {
            factor: mean(n, |held| held.factor),
            received: mean(n, |held| held.received),
            stage: mean(n, |held| held.stage),
            delay_s: mean(n, |held| held.delay_s),
        };
        let held = (0..group[0].held.len()).map(held).collect();
        let is_one = group.iter().all(|state| is_same(state.costs.as_ref(), group[0].costs.as_ref()));
        let costs = group[0].costs.clone().filter(|_| is_one);
        State { from: group[0].from, to: group[group.len() - 1].to, held, costs }
    };
    all.chunks(each).map(join).collect()
}

/// The most looks at a flow in a state, all together.
const MOST_LOOKS: usize = 300_000;

/// Splits states where flows begin and end to send. If there are many, at some of those times.
fn split(all: Vec<State>, activities: &Activities, flows: usize) -> Vec<State> {
    let cuts: Vec<Span> = activities.cuts().into_iter().collect();
    let most = (MOST_LOOKS / flows.max(1)).clamp(8, MOST);
    let some = cuts.iter().step_by(cuts.len().div_ceil(most).max(1)).copied();
    let some: BTreeSet<Span> = some.chain(activities.warm_up()).collect();
    let parts = |state: State| {
        let within = some.iter().filter(|at| state.from < **at && **at < state.to);
        let ends: Vec<Span> = [state.from].iter().chain(within).chain([&state.to]).copied().collect();
        let part = |pair: &[Span]| State { from: pair[0], to: pair[1], ..state.clone() };
        ends.windows(2).map(part).collect::<Vec<_>>()
    };
    all.into_iter().flat_map(parts).collect()
}
