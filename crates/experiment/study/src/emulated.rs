//! Comparison of a test controller's emulations with its simulations of the same network.
//!
//! In an emulation real programs are in the place of a flow: the kernel's TCP between real hosts.

use std::path::Path;

use bentpipe_lab::run::{Failure, Monitor};
use bentpipe_record::{MeasureName, Summary, write_json};
use bentpipe_report::{Block, Cell, Table, quantity};
use indexmap::IndexMap;
use serde::Serialize;

use crate::controller::Order;
use crate::expected::Verdict;
use crate::request::Request;
use crate::study::{EmulatedNetwork, Word};

/// Measure of a flow in a variant of its network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulatedFlow {
    /// Flow.
    pub flow: String,
    /// Variant.
    pub way: String,
    /// Name of the kernel's controller; `None` if the scenario's sender was not changed.
    pub controller: Option<String>,
    /// Name of the measure.
    pub measure: String,
    /// Value in the simulation; `None` if the run has none.
    pub simulated: Option<Found>,
    /// Value of real programs; `None` if they have none.
    pub real: Option<Found>,
    /// Set if the kernel has the controller, so that there was a run.
    pub is_in_kernel: bool,
    /// Deviation allowed, as a share of the simulated value; `None` if not judged.
    pub tolerance: Option<f64>,
    /// Cause of a known miss.
    pub known: Option<String>,
}

/// Value of a measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Found {
    /// Number with its base unit.
    Number {
        /// Number.
        value: f64,
        /// Unit.
        unit: String,
    },
    /// Word of the publication.
    Word(String),
}

impl EmulatedFlow {
    /// Returns the deviation of the real programs as a share of the simulated value.
    pub fn deviation(&self) -> Option<f64> {
        match (&self.simulated, &self.real) {
            (Some(Found::Number { value: simulated, .. }), Some(Found::Number { value: real, .. })) => {
                (*simulated != 0.0).then(|| real / simulated - 1.0)
            }
            _ => None,
        }
    }
}

impl EmulatedFlow {
    /// Returns the result of the comparison; `None` without a tolerance or without real programs.
    pub fn verdict(&self) -> Option<Verdict> {
        let tolerance = self.tolerance.filter(|_| self.is_in_kernel)?;
        // Without a value there is nothing that could be within it.
        Some(match self.deviation() {
            Some(deviation) if deviation.abs() <= tolerance => Verdict::Met,
            _ => Verdict::Missed,
        })
    }
}

/// Flow with its two runs.
struct Pair<'a> {
    network: &'a EmulatedNetwork,
    way: String,
    controller: Option<String>,
    simulated: Order,
    real: Option<Order>,
}

/// Runs all variants by the controller of the request, if emulations are requested.
///
/// Simulations come first: next to an emulation they would disturb its clock.
///
/// # Errors
/// Returns an error if the controller refuses a scenario, a job fails, or the monitor wants to stop.
pub(crate) fn compare(
    request: &Request<'_>,
    folder: &Path,
    monitor: &dyn Monitor,
) -> Result<Vec<EmulatedFlow>, Failure> {
    let (Some(controller), Some(_)) = (request.controller, request.kernel) else { return Ok(Vec::new()) };
    let known = controller.kernel_controllers();
    let mut pairs = Vec::new();
    for (n, network) in request.study.emulated.iter().enumerate() {
        pairs.extend(pairs_of(request, (n, network), folder, &known));
    }
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let simulated: Vec<Order> = pairs.iter().map(|pair| pair.simulated.clone()).collect();
    let real: Vec<Order> = pairs.iter().filter_map(|pair| pair.real.clone()).collect();
    controller.run(&simulated, monitor)?;
    controller.run(&real, monitor)?;
    let mut compared = Vec::new();
    for pair in &pairs {
        compared.extend(pair.compared()?);
    }
    write_json(&folder.join("emulated.json"), &compared)?;
    Ok(compared)
}

/// Returns the flows of a network with their runs.
fn pairs_of<'a>(
    request: &Request<'a>,
    (number, network): (usize, &'a EmulatedNetwork),
    folder: &Path,
    known: &[String],
) -> Vec<Pair<'a>> {
    let duration = if request.quick { network.quick } else { Some(network.duration) };
    let Some(duration) = duration else { return Vec::new() };
    let controllers = network.controller.iter().map(|(kernel, own)| Some((kernel, own)));
    let controllers: Vec<Option<(&String, &String)>> = match network.controller.is_empty() {
        true => vec![None],
        false => controllers.collect(),
    };
    let mut pairs = Vec::new();
    for controller in controllers {
        for (n, (way, sets)) in network.way.iter().enumerate() {
            let order = |is_real: bool| {
                let sender = controller.map_or("sender", |(kernel, _)| kernel);
                let name = format!(
                    "{}-{}-{sender}-{}",
                    if is_real { "real" } else { "simulated" },
                    number + 1,
                    n + 1
                );
                let own =
                    controller.map(|(_, own)| format!("flow.{}.traffic.controller={own}", network.flow));
                let real = network.real.iter().filter(|_| is_real);
                let how = if is_real { "emulated" } else { "simulated" };
                let by = controller.map(|(kernel, _)| format!("{kernel}, ")).unwrap_or_default();
                Order {
                    label: format!("{}, {way}, {by}{how}", network.flow),
                    scenario: request.study.folder.join(&network.scenario),
                    sets: network.set.iter().chain(sets).chain(real).cloned().chain(own).collect(),
                    seeds: (!is_real).then_some(1),
                    folder: folder.join("emulated").join(&name),
                    curves: Vec::new(),
                    is_emulated: is_real,
                    alone: Some(duration),
                    name,
                }
            };
            let is_known = controller.is_none_or(|(kernel, _)| known.contains(kernel));
            pairs.push(Pair {
                network,
                way: way.clone(),
                controller: controller.map(|(kernel, _)| kernel.clone()),
                simulated: order(false),
                real: is_known.then(|| order(true)),
            });
        }
    }
    pairs
}

impl Pair<'_> {
    /// Returns the measures of both runs, and their words.
    fn compared(&self) -> Result<Vec<EmulatedFlow>, Failure> {
        let of = |order: &Order| {
            measures(&order.folder).map_err(|why| Failure::Build(format!("run {}: {why}", order.name)))
        };
        let (simulated, real) = (of(&self.simulated)?, self.real.as_ref().map(of).transpose()?);
        let flow = &self.network.flow;
        let found = |measures: &Measures, name: &str| {
            let whole = measures.get(name).filter(|_| MeasureName::of(name).is_some());
            whole.or_else(|| measures.get(&format!("flow.{flow}.{name}"))).cloned()
        };
        let line = |measure: &str, of: &dyn Fn(&Measures) -> Option<Found>| EmulatedFlow {
            flow: flow.clone(),
            way: self.way.clone(),
            controller: self.controller.clone(),
            measure: measure.to_owned(),
            simulated: of(&simulated),
            real: real.as_ref().and_then(of),
            is_in_kernel: self.real.is_some(),
            tolerance: self.network.tolerance,
            known: self.network.missed.get(&self.way).cloned(),
        };
        let number = |(value, unit)| Found::Number { value, unit };
        let each = |name: &String| line(name, &|measures| found(measures, name).map(number));
        let mut lines: Vec<EmulatedFlow> = self.network.measures.iter().map(each).collect();
        if !self.network.words.is_empty() {
            let word = line("word", &|measures| self.word(&|name| Some(found(measures, name)?.0)));
            lines.push(EmulatedFlow { tolerance: None, ..word });
        }
        Ok(lines)
    }

    /// Returns the first word whose rule holds.
    fn word(&self, value: &dyn Fn(&str) -> Option<f64>) -> Option<Found> {
        let holds = |word: &&Word| value(&word.measure).is_some_and(|value| word.is_for(value));
        self.network.words.iter().find(holds).map(|word| Found::Word(word.word.clone()))
    }
}

/// Means and units of measures, by name.
type Measures = IndexMap<String, (f64, String)>;

/// Returns the measures of the only point of a run.
fn measures(folder: &Path) -> Result<Measures, String> {
    let path = folder.join("summary.json");
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read(&path).map_err(|error| wrong(&error))?;
    let mut summary: Summary = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    let point = summary.points.drain(..).next().ok_or_else(|| wrong(&"no point"))?;
    let of = |(name, one): (String, bentpipe_record::Averaged)| (name, (one.estimate.mean, one.unit));
    Ok(point.measures.into_iter().map(of).collect())
}

/// Returns the comparison as a table.
pub fn emulated_table(flows: &[EmulatedFlow]) -> Table {
    let shown = |found: Option<&Found>| match found {
        Some(Found::Number { value, unit }) => Cell::Number(quantity(*value, None, unit)),
        Some(Found::Word(word)) => Cell::Text(word.clone()),
        None => Cell::Text("-".to_owned()),
    };
    let row = |flow: &EmulatedFlow| {
        let sender = match &flow.controller {
            Some(kernel) => format!("{}, {kernel}", flow.flow),
            None => flow.flow.clone(),
        };
        let deviation = flow.deviation().map(|share| format!("{:+.1} %", 100.0 * share));
        vec![
            Cell::Text(sender),
            Cell::Text(flow.way.clone()),
            Cell::Text(flow.measure.clone()),
            shown(flow.simulated.as_ref()),
            match flow.is_in_kernel {
                true => shown(flow.real.as_ref()),
                false => Cell::Text("not in this kernel".to_owned()),
            },
            Cell::Number(deviation.unwrap_or_default()),
            Cell::Text(verdict(flow)),
        ]
    };
    Table {
        caption: "Simulated, and by real programs over the emulated network".to_owned(),
        head: ["Flow", "Network", "Measure", "Simulated", "Real", "Deviation", "Verdict"]
            .map(String::from)
            .to_vec(),
        rows: flows.iter().map(row).collect(),
    }
}

/// Returns the verdict with the tolerance, and the cause of a known miss.
fn verdict(flow: &EmulatedFlow) -> String {
    let (Some(verdict), Some(tolerance)) = (flow.verdict(), flow.tolerance) else { return String::new() };
    let known = flow.known.as_ref().filter(|_| verdict == Verdict::Missed);
    let known = known.map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{verdict} ({:.0} %){known}", 100.0 * tolerance)
}

/// Returns the section of the report, which is empty without emulations.
pub(crate) fn blocks(flows: &[EmulatedFlow]) -> Vec<Block> {
    if flows.is_empty() {
        return Vec::new();
    }
    let how = "Jobs of the test controller in real time, with real programs in network namespaces in the place of the flow: \
        iperf3 with the kernel's TCP, nodes of bundles with `bentpipe dtn perf`, voice of `bentpipe rtp`, or calls of `bentpipe call`. The rest is simulated. One run each, as long \
        as the simulated one.";
    vec![
        Block::Heading("Emulated, with real programs".into()),
        Block::Paragraph(how.into()),
        Block::Table(emulated_table(flows)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_beyond_the_tolerance_is_a_miss_and_so_is_no_value() {
        let number = |value| Some(Found::Number { value, unit: "bit/s".to_owned() });
        let flow = |simulated, real, tolerance| EmulatedFlow {
            flow: "bulk".to_owned(),
            way: "clean".to_owned(),
            controller: None,
            measure: "goodput".to_owned(),
            simulated,
            real,
            is_in_kernel: true,
            tolerance,
            known: Some("a pause of the machine".to_owned()),
        };
        assert_eq!(verdict(&flow(number(100.0), number(104.0), Some(0.05))), "met (5 %)");
        assert_eq!(
            verdict(&flow(number(100.0), number(94.0), Some(0.05))),
            "missed (5 %): a pause of the machine"
        );
        assert_eq!(flow(number(100.0), None, Some(0.05)).verdict(), Some(Verdict::Missed));
        assert_eq!(flow(number(0.0), number(0.0), Some(0.05)).verdict(), Some(Verdict::Missed));
        assert_eq!(flow(number(100.0), number(50.0), None).verdict(), None);
    }
}
