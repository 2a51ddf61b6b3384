//! Scenarios of tests: read, run and measured.

use std::collections::BTreeMap;

use bentpipe_assemble::{Built, checked};
use bentpipe_lab::measure;
use bentpipe_record::{FinalValues, LedgerRow, Measure, Recorder, Recording};
use bentpipe_scenario::{Document, Scenario};
use bentpipe_units::Span;

/// Reads a scenario.
///
/// # Errors
/// Returns the refusal as text.
pub(crate) fn scenario(text: &str) -> Result<Scenario, String> {
    let document = Document::parse("file.toml", text.as_bytes()).map_err(|refusal| refusal.to_string())?;
    checked(&document).map_err(|refusal| refusal.to_string())
}

/// Builds a scenario.
pub(crate) fn built(scenario: &Scenario) -> Built {
    Built::new(scenario, 1, &bentpipe_scenario::Access::default()).expect("possible")
}

/// Runs a scenario as it asks for, with samples at an interval, and returns its recording.
pub(crate) fn recorded(scenario: &Scenario, built: &mut Built, interval: Span) -> Recording {
    let recorder = Recorder {
        elements: built.network.ids().collect(),
        interval,
        warm_up: scenario.probe.warm_up,
        duration: scenario.duration,
    };
    recorder.run(&mut built.network, |_| std::ops::ControlFlow::Continue(())).expect("no stop")
}

/// Returns measures by name.
pub(crate) fn by_name(measures: Vec<Measure>) -> BTreeMap<String, f64> {
    measures.into_iter().map(|Measure { name, value, .. }| (name, value)).collect()
}

/// Runs a scenario with a sample a second, and returns its measures and totals by name.
pub(crate) fn measured(scenario: &Scenario, built: &mut Built) -> impl Fn(&str) -> f64 + use<> {
    let found = found(scenario, built);
    move |name| found(name).unwrap_or_else(|| panic!("{name}"))
}

/// Does the same; `None` is a measure that the run does not have.
pub(crate) fn found(scenario: &Scenario, built: &mut Built) -> impl Fn(&str) -> Option<f64> + use<> {
    let recorder = Recorder {
        elements: built.network.ids().collect(),
        interval: Span::from_secs(1),
        warm_up: Span::ZERO,
        duration: scenario.duration,
    };
    let recording =
        recorder.run(&mut built.network, |_| std::ops::ControlFlow::Continue(())).expect("no stop");
    let ledger = LedgerRow::of_running(&built.network.statements());
    let mut measures = measure::measures(scenario, 1, &recording, &ledger);
    measures.extend(FinalValues::of(&recording.end).measures());
    move |name| measures.iter().find(|measure| measure.name == name).map(|measure| measure.value)
}
