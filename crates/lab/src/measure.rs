//! What the totals of a run say about its flows and links: goodput, loss, delay, utilisation, queues.
//!
//! A measure's name is the scenario's path with dots, and what is measured: `flow.cubic.goodput`,
//! `link.satellite.forward.utilisation`. Rates and means leave out the warm-up, and what a flow did is divided by the
//! time it was on. Every counter and gauge of every element is there too, as it was at the end, under its own name
//! (`flow.cubic.sender.timeouts`).

mod flows;
mod links;
mod parts;

use serde::{Deserialize, Serialize};

use crate::record::Recording;
use crate::scenario::Scenario;

/// One number that a run gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// What it is of: "flow.cubic.goodput".
    pub name: String,
    /// What it is measured in: "bit/s".
    pub unit: String,
    /// Its value; always finite.
    pub value: f64,
}

impl Measure {
    pub(crate) fn new(name: impl Into<String>, unit: &str, value: f64) -> Option<Measure> {
        value.is_finite().then(|| Measure { name: name.into(), unit: unit.to_owned(), value })
    }
}

/// What a recording says about the flows and links of its scenario. Values that do not exist (the loss of a flow that
/// sent nothing) are left out.
pub fn measures(scenario: &Scenario, recording: &Recording) -> Vec<Measure> {
    let parts = parts::Parts::of(recording);
    let mut measures = flows::measures(scenario, &parts);
    measures.extend(links::measures(&parts));
    measures
}

/// Every counter and gauge of every element at the end of the run.
pub fn totals(recording: &Recording) -> Vec<Measure> {
    let entries = recording.end.entries.iter();
    let measure =
        |(element, name, unit, value): &(String, String, bentpipe_net::Unit, crate::record::Value)| {
            Measure::new(format!("{}.{name}", element.replace('/', ".")), unit.symbol(), value.as_f64())
        };
    entries.filter_map(measure).collect()
}

#[cfg(test)]
mod tests;
