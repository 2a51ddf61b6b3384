//! Measures of flows.

use std::collections::BTreeMap;

use bentpipe_record::Measure;
use bentpipe_scenario::{Application, Flow, Scenario, copies};
use bentpipe_transport::tcp;
use bentpipe_units::Span;

use super::groups::{is_goodput, jain};
use super::run::{Active, Run, Summed};
use super::subjects::{Kind, Subject};

/// Returns the measures of each flow.
pub(super) fn sums<'a>(scenario: &Scenario, run: &Run<'a>, subjects: &[Subject<'a>]) -> Vec<Summed<'a>> {
    let flows = subjects.iter().filter(|subject| subject.kind == Kind::Flow);
    flows.flat_map(|flow| run.sums(flow, active(scenario, flow, run))).collect()
}

/// Returns the measures of all flows together.
pub(super) fn of_all(scenario: &Scenario, sums: &[Summed<'_>], whole_s: f64) -> Vec<Measure> {
    let goodputs: Vec<&Summed<'_>> = sums.iter().filter(|summed| is_goodput(summed)).collect();
    if goodputs.iter().filter(|flow| flow.value().is_finite()).count() < 2 {
        return Vec::new();
    }
    // Of all together over the whole time: flows that were on at different times never had their sum at once.
    let delivered: f64 = goodputs.iter().map(|flow| flow.mean()).sum();
    let all = Measure::new("flows.goodput", "bit/s", delivered * 8.0 / whole_s);
    all.into_iter().chain(fairness(scenario, &goodputs)).collect()
}

/// Returns Jain's index of all flows, or of each kind if there are several.
fn fairness(scenario: &Scenario, goodputs: &[&Summed<'_>]) -> Vec<Measure> {
    let mut kinds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for flow in goodputs.iter().filter(|flow| flow.value().is_finite()) {
        kinds.entry(kind(scenario, flow)).or_default().push(flow.value());
    }
    let is_one = kinds.len() == 1;
    let name =
        |kind: &str| if is_one { "flows.fairness".to_owned() } else { format!("flows.{kind}.fairness") };
    let several = kinds.iter().filter(|(_, values)| values.len() > 1);
    several.filter_map(|(kind, values)| Measure::new(name(kind), "ratio", jain(values))).collect()
}

/// Returns the kind of a flow. Flows of one kind can be compared with each other.
fn kind(scenario: &Scenario, flow: &Summed<'_>) -> String {
    if !flow.metric.is(&tcp::metrics::DELIVERED_BYTES) {
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

/// Returns a flow of the scenario, with its name and its copy's number from zero. Copy number n is called NAME.n.
fn find<'a>(scenario: &'a Scenario, path: &str) -> Option<(&'a str, &'a Flow, u64)> {
    let name = path.strip_prefix("flow/").unwrap_or(path);
    let of = |name: &str| scenario.flow.get_key_value(name).map(|(name, flow)| (name.as_str(), flow));
    let copy = || {
        let (base, number) = name.rsplit_once('.')?;
        let (base, flow) = of(base)?;
        Some((base, flow, number.parse::<u64>().ok()?.saturating_sub(1)))
    };
    of(name).map(|(name, flow)| (name, flow, 0)).or_else(copy)
}

/// Returns the time that a flow was active.
///
/// It ends when the flow stopped, or all its data had been delivered.
fn active(scenario: &Scenario, flow: &Subject<'_>, run: &Run<'_>) -> Active {
    let (start, stop) = match find(scenario, flow.path) {
        Some((name, flow, copy)) => (copies::start(scenario, (name, flow), copy, run.seed), flow.stop),
        None => (Span::ZERO, None),
    };
    let completed = run.completed(flow).map(Span::from_secs_f64);
    run.active(start, stop.into_iter().chain(completed).min())
}
