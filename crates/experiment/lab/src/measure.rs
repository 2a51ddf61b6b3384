//! Measures of flows and links: goodput, loss, delay, utilisation, queues.
//!
//! A measure's name is the scenario's path with dots, and what is measured: `flow.cubic.goodput`,
//! `link.satellite.forward.utilisation`. Rates and means leave out the warm-up. What a flow delivered is divided by the time in
//! which it could arrive: from its start until all its data had been delivered, the last arrived after its stop, or the run ended. Copies of a flow, a link or
//! an ATM line also form a group (`group.download.goodput.mean`).

mod flows;
mod groups;
mod loss;
mod notes;
mod run;
mod sent;
mod subjects;
mod unloaded;

use bentpipe_record::{LedgerRow, Measure, Recording};
use bentpipe_scenario::Scenario;
pub(crate) use flows::starts;
pub(crate) use notes::idle;
use run::{Run, Summed};
use subjects::Kind;
pub(crate) use unloaded::empty_paths;

/// Returns the measures of a recording's flows and links. Values that do not exist (the loss ratio of a flow that
/// sent nothing) are left out.
///
/// `ledger` has the accounts of the run's packets.
pub fn measures(scenario: &Scenario, seed: u64, recording: &Recording, ledger: &[LedgerRow]) -> Vec<Measure> {
    let (run, subjects) = (Run::of(scenario, seed, recording, ledger), subjects::of(&recording.end.parts));
    let flows = flows::sums(scenario, &run, &subjects);
    let others = subjects.iter().filter(|subject| subject.kind != Kind::Flow);
    let others: Vec<Summed<'_>> = others.flat_map(|subject| run.sums(subject, run.whole())).collect();
    let mut measures: Vec<Measure> = flows.iter().filter_map(|summed| summed.measure()).collect();
    measures.extend(flows::of_all(scenario, &run, &subjects, &flows));
    measures.extend(others.iter().filter_map(|summed| summed.measure()));
    let all: Vec<&Summed<'_>> = flows.iter().chain(&others).collect();
    measures.extend(groups::counts(&subjects, &all, |path| flows::never(&run, path)));
    measures.extend(groups::measures(&all, run.whole_s()));
    measures
}

#[cfg(test)]
mod tests;
