//! Mixes that members of conferences get.

use std::collections::{BTreeSet, HashMap};

use bentpipe_scenario::{Flow, Role, Scenario, Traffic, copies};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_voice::conference::{MeanMix, Voices};

use super::active::Activities;

/// Mixes and voice of a member, as means over its time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix {
    /// Mean number of contributing sources in a mix.
    pub(super) sources: f64,
    /// Packets per second to the member and back.
    pub(super) packets_per_s: [f64; 2],
    /// Mean rate of payload to the member.
    pub(super) offered: Rate,
}

/// The most parts of a conference's time that have a mean each.
const MOST_PARTS: usize = 64;

/// Returns the mixes of flows of members, by the numbers of the flows.
pub(super) fn mixes(scenario: &Scenario) -> HashMap<usize, Mix> {
    let mut bridges: HashMap<&str, Vec<usize>> = HashMap::new();
    for (n, flow) in scenario.flow.values().enumerate() {
        if matches!(flow.traffic, Traffic::Conference(_)) {
            bridges.entry(&flow.from).or_default().push(n);
        }
    }
    if bridges.is_empty() {
        return HashMap::new();
    }
    let activities = Activities::new(scenario, &HashMap::new());
    bridges.iter().flat_map(|(bridge, flows)| of_bridge(scenario, &activities, bridge, flows)).collect()
}

/// Returns the mixes of all members of a bridge.
fn of_bridge(
    scenario: &Scenario,
    activities: &Activities,
    bridge: &str,
    flows: &[usize],
) -> Vec<(usize, Mix)> {
    let node = copies::original(scenario, bridge).unwrap_or(bridge);
    let role = scenario.roles_of(node).iter().find_map(|role| match role {
        Role::Conference(role) => Some(role.clone()),
        _ => None,
    });
    let Some(role) = role else { return Vec::new() };
    // Copies of the bridge have conferences of their own.
    let bridges = f64::from(copies::count(scenario, bridge));
    let members = |n: usize| activities.copies(n) / bridges;
    let all: f64 = flows.iter().map(|n| members(*n)).sum();
    let parts = parts(scenario, activities, flows);
    // Members of each flow that are there in each part.
    let present: Vec<Vec<f64>> = parts
        .iter()
        .map(|(from, to)| flows.iter().map(|n| activities.part(*n, *from, *to) * members(*n)).collect())
        .collect();
    let of_flow = |(place, n): (usize, &usize)| {
        let Traffic::Conference(legs) = &scenario.flow[*n].traffic else { return None };
        let settings = legs.0.settings().ok()?;
        let (mut seconds, mut mean) = (0.0, MeanMix::default());
        for ((from, to), present) in parts.iter().zip(&present) {
            let own = activities.overlap(*n, *from, *to);
            if own <= 0.0 {
                continue;
            }
            let voices = |(other, count): (usize, &f64)| {
                let Traffic::Conference(legs) = &scenario.flow[flows[other]].traffic else { return None };
                let count = if other == place { count - 1.0 } else { *count };
                let (speech, pauses) = (legs.0.speech, legs.0.silence_suppression);
                Some(Voices { speech, pauses, count: count.max(0.0) })
            };
            let others: Vec<Voices> = present.iter().enumerate().filter_map(voices).collect();
            let mix = role.mean_mix(legs.0.silence_suppression, all, &others);
            seconds += own;
            mean.share += own * mix.share;
            mean.sources += own * mix.share * mix.sources;
        }
        let sources = if mean.share > 0.0 { mean.sources / mean.share } else { 0.0 };
        let share = if seconds > 0.0 { mean.share / seconds } else { 0.0 };
        let full = Rate::of(Bytes::new(settings.payload_len().into()), settings.interval());
        let there = share / settings.interval().as_secs_f64();
        let (speech, pauses) = (legs.0.speech, legs.0.silence_suppression);
        let back = Voices { speech, pauses, count: 1.0 }.share(all) / settings.interval().as_secs_f64();
        let packets_per_s = [there, back];
        Some((*n, Mix { sources, packets_per_s, offered: full.mul_f64(share) }))
    };
    flows.iter().enumerate().filter_map(of_flow).collect()
}

/// Returns the parts of the time between which members come and go. Behind a warm-up they are of the time measured.
fn parts(scenario: &Scenario, activities: &Activities, flows: &[usize]) -> Vec<(Span, Span)> {
    let begin = activities.warm_up().unwrap_or_default();
    let is_later = |flow: &Flow| flow.stop.is_none_or(|stop| stop > begin);
    let begin = if flows.iter().any(|n| is_later(&scenario.flow[*n])) { begin } else { Span::ZERO };
    let cuts = flows.iter().flat_map(|n| activities.cuts_of(*n));
    let cuts = cuts.chain([begin, scenario.duration]).filter(|at| (begin..=scenario.duration).contains(at));
    let cuts: Vec<Span> = cuts.collect::<BTreeSet<Span>>().into_iter().collect();
    let every = cuts.len().div_ceil(MOST_PARTS).max(1);
    let last = cuts.last().copied();
    let mut few: Vec<Span> = cuts.into_iter().step_by(every).collect();
    few.extend(last.filter(|last| few.last() != Some(last)));
    few.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
