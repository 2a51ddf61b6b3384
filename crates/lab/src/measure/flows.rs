//! Measures of flows.

use std::collections::BTreeMap;

use bentpipe_net::metric::End;
use bentpipe_record::Measure;
use bentpipe_scenario::{Application, Flow, Scenario, Traffic, copies};
use bentpipe_transport::tcp;
use bentpipe_units::Span;

use super::groups::{is_goodput, jain};
use super::run::{Active, Run, Summed};
use super::subjects::{Kind, Subject, find};

/// Returns the measures of each flow that starts before the end of the run.
///
/// Calls have them in both directions.
pub(super) fn sums<'a>(scenario: &Scenario, run: &Run<'a>, subjects: &[Subject<'a>]) -> Vec<Summed<'a>> {
    let flows = subjects.iter().filter(|subject| subject.kind == Kind::Flow);
    let active = flows.map(|flow| (flow, active(scenario, flow, run)));
    let started = active.filter(|(_, [sending, _])| sending.start_s < run.duration_s);
    let sums = |(flow, active): (&Subject<'a>, [Active; 2])| {
        let mut sums = run.sums(flow, active);
        if is_both_ways(flow, run) {
            let back = run.sums(&flow.back(), active);
            sums.extend(back.into_iter().filter(|summed| !summed.sum.is_of_whole));
        }
        sums
    };
    started.flat_map(sums).collect()
}

/// Returns `true` if a flow carries the same in both directions.
fn is_both_ways(flow: &Subject<'_>, run: &Run<'_>) -> bool {
    let reports = |wanted: End| {
        let ends = flow.parts.iter().filter(|(_, end)| *end == Some(wanted));
        ends.flat_map(|(part, _)| run.end.of(*part)).any(|total| total.metric.is_both_ways)
    };
    reports(End::Sender) && reports(End::Receiver)
}

/// Returns the measures of all flows together.
pub(super) fn of_all(scenario: &Scenario, sums: &[Summed<'_>], whole_s: f64) -> Vec<Measure> {
    let goodputs: Vec<&Summed<'_>> =
        sums.iter().filter(|summed| is_goodput(summed) && summed.way.is_empty()).collect();
    if goodputs.iter().filter(|flow| flow.value().is_finite()).count() < 2 {
        return Vec::new();
    }
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
    [run.active(start, stopped), run.receiving(start, arrived)]
}
