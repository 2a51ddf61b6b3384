//! Causes of no goodput that a scenario has.

use std::collections::HashSet;

use bentpipe_net::metric::End;
use bentpipe_record::{
    FlowFact, FlowNote, LedgerColumn, LedgerRow, Measure, Recording, Subject as Named, subject_and_metric,
};
use bentpipe_scenario::copies::{self, Never};
use bentpipe_scenario::{Application, Flow, Scenario, Traffic};
use bentpipe_site::application::{Bulk, OnOff, Paced};
use bentpipe_units::{Span, Time};

use super::flows::active;
use super::run::Run;
use super::subjects::{self, Kind, Subject, find};

/// Returns the flows without goodput whose settings are the cause.
///
/// So are those that sent nothing in the window. Copies that never begin are left out: their group has their numbers.
pub(crate) fn idle(
    scenario: &Scenario,
    seed: u64,
    recording: &Recording,
    (measures, ledger): (&[Measure], &[LedgerRow]),
) -> Vec<FlowNote> {
    let run = Run::of(scenario, seed, recording, &[]);
    let with_goodput: HashSet<&str> = measures
        .iter()
        .filter(|measure| measure.value > 0.0)
        .filter_map(|measure| subject_and_metric(&measure.name))
        .filter(|(_, metric)| *metric == "goodput")
        .map(|(flow, _)| flow)
        .collect();
    let flows = subjects::of(&recording.end.parts).into_iter().filter(|subject| subject.kind == Kind::Flow);
    let note = |subject: Subject<'_>| {
        let flow = subject.path.replace('/', ".");
        let has_sent = || ledger.iter().any(|row| is_sent_by(row, &flow));
        let fact = match cause(&run, &subject) {
            _ if with_goodput.contains(&flow[..]) => None,
            // Calls and transfers may go on behind a stop.
            Some(FlowFact::EndsInWarmUp) if has_sent() => None,
            None if begins(&run, &subject) && !has_sent() => Some(FlowFact::NothingSent),
            fact => fact,
        };
        fact.map(|fact| FlowNote { flow, fact })
    };
    flows.filter_map(note).collect()
}

/// Returns `true` for packets that an end of a flow sent in the window.
fn is_sent_by(row: &LedgerRow, flow: &str) -> bool {
    let is_of_flow =
        Named::part_of_flow(&row.sender).is_some_and(|(of, ..)| Named::Flow(of).to_string() == flow);
    is_of_flow && row.column == LedgerColumn::Sent && row.packets > row.in_warm_up
}

/// Returns `true` if a flow of this network has its start in the run.
fn begins(run: &Run<'_>, subject: &Subject<'_>) -> bool {
    let is_here = subject.parts.iter().any(|(_, end)| *end == Some(End::Sender));
    let begin = find(run.scenario, subject.path)
        .and_then(|(name, flow, copy)| copies::begin(run.scenario, (name, flow), copy, run.seed).ok());
    is_here && begin.is_some_and(|begin| begin < run.end.at.since(Time::ZERO))
}

fn cause(run: &Run<'_>, subject: &Subject<'_>) -> Option<FlowFact> {
    let (name, flow, copy) = find(run.scenario, subject.path)?;
    let is_copy = !subject.path.ends_with(&format!("/{name}"));
    let end = run.end.at.since(Time::ZERO);
    let start = match copies::begin(run.scenario, (name, flow), copy, run.seed) {
        // Of an emulation that was stopped, the end is earlier than the scenario's.
        Ok(start) if start < end => start,
        _ if is_copy => return None,
        Err(Never::BehindItsStop) => return Some(FlowFact::StartsAfterStop),
        _ => return Some(FlowFact::StartsAfterEnd),
    };
    let stop = flow.stop.unwrap_or(end).min(end);
    Some(match () {
        () if !is_on(run.scenario, (name, flow), [start, stop]) => FlowFact::Inactive,
        () if asks_nothing(flow) => FlowFact::NothingAsked,
        () if active(run.scenario, subject, run)[1].is_empty() => FlowFact::EndsInWarmUp,
        () => return None,
    })
}

/// Returns `true` if a flow is turned on at some time in an interval.
fn is_on(scenario: &Scenario, (name, flow): (&str, &Flow), [from, to]: [Span; 2]) -> bool {
    let (mut is_on, mut since) = (flow.active, Span::ZERO);
    for moment in scenario.timeline.iter() {
        let Some((_, changed)) = moment.difference.flow.iter().find(|(changed, _)| changed == name) else {
            continue;
        };
        if is_on && since < to && moment.at > from {
            return true;
        }
        (is_on, since) = (changed.active, moment.at);
    }
    is_on && since < to
}

/// Returns `true` if nothing is asked of a flow.
fn asks_nothing(flow: &Flow) -> bool {
    if let Traffic::Udp(udp) = &flow.traffic {
        return udp.packets == Some(0);
    }
    let is_no_time = |duration: Option<Span>| duration.is_some_and(|duration| duration.is_zero());
    match flow.application {
        _ if !flow.traffic.kind().takes().application => false,
        Application::Nothing => true,
        Application::Bulk(Bulk { size, duration }) => {
            size.is_some_and(|size| size.get() == 0) || is_no_time(duration)
        }
        Application::Paced(Paced { rate, duration, .. }) => rate.as_bps() == 0 || is_no_time(duration),
        Application::OnOff(OnOff { on, duration, .. }) => on.is_zero() || is_no_time(duration),
    }
}
