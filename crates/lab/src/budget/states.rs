//! Rates and delays of links over the run.
//!
//! Events change them, files of values in time, signals and outages.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use bentpipe_assemble as assemble;
use bentpipe_net::link::DelayChange;
use bentpipe_scenario::{Access, Medium, Moment, Problem, Scenario, Way};
use bentpipe_units::{Rate, Span};
use serde::Serialize;

use super::active::Activities;
use super::loss::Losses;
use super::medium::Media;

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
    delay_s: f64,
}

/// Time in which rates, delays and flows stay.
#[derive(Clone)]
struct State {
    from: Span,
    to: Span,
    /// Values by directions, forward and return of each link. Empty if nothing changes in the run.
    held: Rc<[Held]>,
}

/// States of the links of a scenario in the order of time.
pub(super) struct States {
    all: Vec<State>,
    rates: HashMap<(usize, Way), Vec<RateShare>>,
    delays: HashMap<(usize, Way), DelayRange>,
    /// Set if only a sample of the changes was looked at.
    pub(super) is_sample: bool,
    /// Directions whose delays are in a file that could not be read here.
    pub(super) unknown: BTreeSet<(usize, Way)>,
    pub(super) losses: Losses,
    pub(super) activities: Activities,
}

impl States {
    pub(super) fn new(
        scenario: &Scenario,
        media: &Media<'_>,
        access: Option<&Access>,
        activities: Activities,
    ) -> Result<States, Problem> {
        let losses = Losses::new(scenario, media, access);
        let mut walk = Walk::new(scenario, media, access, &losses);
        let (cuts, is_sample) = walk.cuts();
        let mut all: Vec<State> = Vec::new();
        for (n, from) in cuts.iter().enumerate() {
            let to = cuts.get(n + 1).copied().unwrap_or(scenario.duration);
            let held: Rc<[Held]> =
                if walk.is_still(&cuts) { Rc::default() } else { walk.held(*from)?.into() };
            match all.last_mut() {
                Some(last) if last.held == held => last.to = to,
                _ => all.push(State { from: *from, to, held }),
            }
        }
        let (rates, delays) = (rates(media, &all), delays(&all));
        let (unknown, all) = (walk.unknown, split(joined(all), &activities, scenario.flow.len()));
        Ok(States { all, rates, delays, is_sample, unknown, losses, activities })
    }

    /// Returns the number of states.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the rate of a direction in a state, as part of the file's.
    pub(super) fn factor(&self, state: usize, (link, way): (usize, Way)) -> f64 {
        self.all[state].held.get(2 * link + way.index()).map_or(1.0, |held| held.factor)
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

    /// Returns the mean part of a flow's copies that send in a state.
    pub(super) fn part(&self, state: usize, flow: usize) -> f64 {
        self.activities.part(flow, self.all[state].from, self.all[state].to)
    }

    /// Returns the states in which a flow sends, with their parts of that time.
    pub(super) fn of_flow(&self, flow: usize) -> Vec<(usize, f64)> {
        let overlap = |state: &State| self.activities.overlap(flow, state.from, state.to);
        let all: f64 = self.all.iter().map(overlap).sum();
        if all <= 0.0 {
            return vec![(0, 1.0)];
        }
        let parts = self.all.iter().map(|state| overlap(state) / all).enumerate();
        parts.filter(|(_, part)| *part > 0.0).collect()
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
    /// Usable rate, delay, and own rates by directions, as of the scenario that holds now.
    now: Vec<(f64, Span)>,
    own: Vec<Vec<(Span, Rate)>>,
    files: HashMap<usize, Vec<DelayChange>>,
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
            now: Vec::new(),
            own: Vec::new(),
            files: HashMap::new(),
            unknown: BTreeSet::new(),
        };
        (walk.now, walk.own) = values(media, scenario.link.len());
        directions(scenario.link.len()).for_each(|at| walk.load(at, access));
        walk
    }

    /// Loads the file with the delays of a direction, if it has one.
    fn load(&mut self, at: (usize, Way), access: Option<&Access>) {
        let side = self.media.side(at.0, at.1);
        let Medium::Line(line) = &side.medium else { return };
        let Some(changes) = &line.delay_changes else { return };
        let load = |access| assemble::load_delay_changes(changes, side.common.delay, access).ok();
        match access.and_then(load) {
            Some(changes) => drop(self.files.insert(2 * at.0 + at.1.index(), changes)),
            None => drop(self.unknown.insert(at)),
        }
    }

    /// Returns the times of changes, the start first, and `true` for a sample of them.
    fn cuts(&self) -> (Vec<Span>, bool) {
        let is_of_links =
            |moment: &&Moment| !moment.difference.link.is_empty() || moment.difference.shared.is_some();
        let moments = self.moments.iter().filter(is_of_links).map(|moment| moment.at);
        let own = self.own.iter().flatten().map(|(at, _)| *at);
        let files = self.files.values().flatten().map(|change| change.at);
        let losses = self.losses.cuts(self.duration);
        let all = moments.chain(own).chain(files).chain(losses).filter(|at| *at < self.duration);
        let all: BTreeSet<Span> = std::iter::once(Span::ZERO).chain(all).collect();
        let most = (MOST_VALUES / self.now.len().max(1)).max(8);
        let every = all.len().div_ceil(most).max(1);
        (all.into_iter().step_by(every).collect(), every > 1)
    }

    /// Returns `true` if nothing differs from the file at any of the times.
    fn is_still(&self, cuts: &[Span]) -> bool {
        let is_at_start = |moment: &Moment| moment.at.is_zero();
        cuts.len() == 1 && self.losses.is_empty() && !self.moments.iter().any(is_at_start)
    }

    /// Returns rates and delays from a time on. Times of calls are in order.
    fn held(&mut self, at: Span) -> Result<Vec<Held>, Problem> {
        let before = self.passed;
        while let Some(moment) = self.moments.get(self.passed).filter(|moment| moment.at <= at) {
            moment.difference.apply(self.state.to_mut());
            self.passed += 1;
        }
        let is_of_links =
            |moment: &Moment| !moment.difference.link.is_empty() || moment.difference.shared.is_some();
        if self.moments[before..self.passed].iter().any(is_of_links) {
            (self.now, self.own) = values(&Media::new(&self.state)?, self.links);
        }
        Ok(directions(self.links).map(|of| self.held_of(of, at)).collect())
    }

    fn held_of(&self, (link, way): (usize, Way), at: Span) -> Held {
        let n = 2 * link + way.index();
        let first = self.media.cost(link, way).usable().as_bps().max(1) as f64;
        let (usable, delay) = self.now[n];
        let passed = self.own[n].partition_point(|(from, _)| *from <= at);
        let own = self.own[n][..passed].last();
        let part =
            own.map_or(1.0, |(_, rate)| rate.as_bps() as f64 / self.own[n][0].1.as_bps().max(1) as f64);
        let changes = self.files.get(&n).map_or(&[][..], Vec::as_slice);
        let change = changes[..changes.partition_point(|change| change.at <= at)].last();
        let added = self.media.channel_delay(link, way);
        let delay = change.map_or(delay, |change| change.delay + added);
        let received = if self.losses.is_out((link, way), at) { 0.0 } else { 1.0 };
        Held { factor: received * usable * part / first, delay_s: delay.as_secs_f64() }
    }
}

fn directions(links: usize) -> impl Iterator<Item = (usize, Way)> {
    (0..links).flat_map(|link| Way::BOTH.map(|way| (link, way)))
}

/// Returns usable rate, delay and own rates of all directions.
#[expect(clippy::type_complexity, reason = "two columns of a table")]
fn values(media: &Media<'_>, links: usize) -> (Vec<(f64, Span)>, Vec<Vec<(Span, Rate)>>) {
    let of = |(link, way)| {
        let cost = media.cost(link, way);
        ((cost.usable().as_bps() as f64, media.delay(link, way)), cost.rates())
    };
    directions(links).map(of).unzip()
}

/// Returns the rates of the directions that change.
fn rates(media: &Media<'_>, all: &[State]) -> HashMap<(usize, Way), Vec<RateShare>> {
    let run = all.last().map_or(0.0, |last| last.to.as_secs_f64()).max(f64::MIN_POSITIVE);
    let links = all.first().map_or(0, |first| first.held.len() / 2);
    let of = |(link, way): (usize, Way)| {
        let parts = all.iter().map(|state| (state.held[2 * link + way.index()].factor, length(state) / run));
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
    let is_as_in_file = |n: usize| all.iter().all(|state| state.held[n].factor == 1.0);
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
        let held = |n| Held { factor: mean(n, |held| held.factor), delay_s: mean(n, |held| held.delay_s) };
        let held = (0..group[0].held.len()).map(held).collect();
        State { from: group[0].from, to: group[group.len() - 1].to, held }
    };
    all.chunks(each).map(join).collect()
}

/// The most looks at a flow in a state, all together.
const MOST_LOOKS: usize = 300_000;

/// Splits states where flows begin and end to send. If there are many, at some of those times.
fn split(all: Vec<State>, activities: &Activities, flows: usize) -> Vec<State> {
    let cuts: Vec<Span> = activities.cuts().into_iter().collect();
    let most = (MOST_LOOKS / flows.max(1)).clamp(8, MOST);
    let some: Vec<Span> = cuts.iter().step_by(cuts.len().div_ceil(most).max(1)).copied().collect();
    let parts = |state: State| {
        let within = some.iter().filter(|at| state.from < **at && **at < state.to);
        let ends: Vec<Span> = [state.from].iter().chain(within).chain([&state.to]).copied().collect();
        let part = |pair: &[Span]| State { from: pair[0], to: pair[1], held: Rc::clone(&state.held) };
        ends.windows(2).map(part).collect::<Vec<_>>()
    };
    all.into_iter().flat_map(parts).collect()
}
