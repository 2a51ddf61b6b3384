//! Measures of flows.

use std::collections::BTreeMap;

use bentpipe_net::metric::End;
use bentpipe_record::Measure;
use bentpipe_scenario::copies::{self, Never};
use bentpipe_scenario::{Application, Flow, Scenario, Traffic};
use bentpipe_transport::tcp;
use bentpipe_units::Span;

use super::groups::{is_goodput, jain};
use super::run::{Active, Run, Summed};
use super::subjects::{Kind, Subject, find};

/// Returns the measures of each flow that begins before its stop and the end.
///
/// Calls have them in both directions.
pub(super) fn sums<'a>(scenario: &Scenario, run: &Run<'a>, subjects: &[Subject<'a>]) -> Vec<Summed<'a>> {
    let flows = subjects.iter().filter(|subject| subject.kind == Kind::Flow);
    let begun = flows.filter(|flow| never(run, flow.path).is_none());
    let sums = |flow: &Subject<'a>| {
        let mut sums = run.sums(flow, active(scenario, flow, run));
        if is_both_ways(flow, run) {
            let flow = flow.back();
            let back = run.sums(&flow, active(scenario, &flow, run));
            sums.extend(back.into_iter().filter(|summed| !summed.sum.is_of_whole));
        }
        sums
    };
    begun.flat_map(sums).collect()
}

/// Returns the cause for which a flow or a copy never begins.
///
/// An emulation may end before the scenario does.
pub(super) fn never(run: &Run<'_>, path: &str) -> Option<Never> {
    let (name, flow, copy) = find(run.scenario, path)?;
    match copies::begin(run.scenario, (name, flow), copy, run.seed) {
        Ok(start) if start.as_secs_f64() < run.duration_s => None,
        Err(Never::BehindItsStop) => Some(Never::BehindItsStop),
        _ => Some(Never::BehindTheEnd),
    }
}

/// Returns the starts of flows that do not begin with the run, in seconds. `None` of those that never begin.
pub(crate) fn starts(scenario: &Scenario, seed: u64) -> BTreeMap<String, Option<f64>> {
    let mut starts = BTreeMap::new();
    for (name, flow) in &scenario.flow {
        for copy in copies::of(scenario, (name, flow)) {
            let begin = copies::begin(scenario, (name, flow), copy, seed).map(Span::as_secs_f64).ok();
            if begin != Some(0.0) {
                // Copies that start together may be one element, which has no number.
                starts.entry(name.clone()).or_insert(begin);
                starts.insert(copies::name_of(scenario, (name, flow), copy), begin);
            }
        }
    }
    starts
}

/// Returns `true` if a flow carries the same in both directions.
fn is_both_ways(flow: &Subject<'_>, run: &Run<'_>) -> bool {
    let reports = |wanted: End| {
        let ends = flow.parts.iter().filter(|(_, end)| *end == Some(wanted));
        ends.flat_map(|(part, _)| run.end.of(*part)).any(|total| total.metric.is_both_ways)
    };
    reports(End::Sender) && reports(End::Receiver)
}

/// Returns the measures of all flows together, of which there are several with goodput.
///
/// One that does not begin with this seed has got nothing.
pub(super) fn of_all(
    scenario: &Scenario,
    run: &Run<'_>,
    subjects: &[Subject<'_>],
    sums: &[Summed<'_>],
) -> Vec<Measure> {
    let whole_s = run.whole_s();
    let flows = subjects.iter().filter(|subject| subject.kind == Kind::Flow);
    if flows.filter(|flow| run.has_goodput(flow)).count() < 2 {
        return Vec::new();
    }
    let goodputs: Vec<&Summed<'_>> =
        sums.iter().filter(|summed| is_goodput(summed) && summed.way.is_empty()).collect();
    let sum = goodputs.iter().map(|flow| flow.over(whole_s)).sum();
    let all = Measure::new("flows.goodput", "bit/s", sum).map(|all| all.since(newest(&goodputs)));
    all.into_iter().chain(fairness(scenario, &goodputs)).collect()
}

/// Returns Jain's index of all flows, or of each kind if there are several.
///
/// Flows of a kind that ask for different rates get different ones however fair their shares are, so they have no index.
fn fairness(scenario: &Scenario, goodputs: &[&Summed<'_>]) -> Vec<Measure> {
    let since = newest(goodputs);
    let mut kinds: BTreeMap<String, (Option<&Flow>, Vec<f64>)> = BTreeMap::new();
    for flow in goodputs.iter().filter(|flow| flow.value().is_finite()) {
        let asking = find(scenario, flow.path).map(|(_, flow, _)| flow);
        let (first, values) = kinds.entry(kind(scenario, flow)).or_insert((asking, Vec::new()));
        if first.zip(asking).is_none_or(|(one, other)| asks_the_same(one, other)) {
            values.push(flow.value());
        } else {
            values.push(f64::NAN);
        }
    }
    let is_one = kinds.len() == 1;
    let name =
        |kind: &str| if is_one { "flows.fairness".to_owned() } else { format!("flows.{kind}.fairness") };
    let several = kinds.iter().filter(|(_, (_, values))| values.len() > 1);
    let measure = |(kind, (_, values)): (&String, &(Option<&Flow>, Vec<f64>))| {
        Measure::new(name(kind), "ratio", jain(values))
    };
    several.filter_map(measure).map(|measure| measure.since(since)).collect()
}

/// Returns `true` if two flows of one kind ask for the same rate. Bulk transfers ask for all that there is.
fn asks_the_same(one: &Flow, other: &Flow) -> bool {
    match (&one.application, &other.application) {
        (Application::Bulk(_), Application::Bulk(_)) if is_tcp(one) && is_tcp(other) => true,
        (one_application, other_application) if is_tcp(one) => one_application == other_application,
        _ => one.traffic == other.traffic,
    }
}

fn is_tcp(flow: &Flow) -> bool {
    matches!(flow.traffic, Traffic::Tcp(_))
}

/// Returns the version of the definitions with which the newest meaning of these values began.
fn newest(sums: &[&Summed<'_>]) -> u32 {
    sums.iter().map(|summed| summed.sum.since).max().unwrap_or(1)
}

/// Returns the kind of a flow. Flows of one kind can be compared with each other.
fn kind(scenario: &Scenario, flow: &Summed<'_>) -> String {
    if !flow.metric.is(&tcp::metrics::ARRIVED_BYTES) {
        return "udp".to_owned();
    }
    let application = find(scenario, flow.path).map_or("other", |(_, flow, _)| word(&flow.application));
    format!("tcp-{application}")
}

fn word(application: &Application) -> &'static str {
    match application {
        Application::Nothing => "nothing",
        Application::Bulk(_) => "bulk",
        Application::Paced(_) => "paced",
        Application::OnOff(_) => "on-off",
    }
}

/// Returns the times that a flow was active at its sender and at its receivers.
///
/// The first ends when the flow stopped, or all its data had been delivered. What it sent before arrives later, and TCP goes on
/// with its buffer: the second ends when all data had been delivered, or the last arrived.
pub(super) fn active(scenario: &Scenario, flow: &Subject<'_>, run: &Run<'_>) -> [Active; 2] {
    let (start, stop) = match find(scenario, flow.path) {
        Some((name, flow, copy)) => (copies::start(scenario, (name, flow), copy, run.seed), flow.stop),
        None => (Span::ZERO, None),
    };
    let completed = run.completed(flow);
    let stopped = stop.into_iter().chain(completed.map(Span::from_secs_f64)).min();
    let arrived = completed.or_else(|| stop.map(|stop| run.last_arrival(flow, stop)));
    [run.active(start, stopped), run.receiving(flow, start, arrived)]
}
