//! Comparison of a test controller's emulations with its simulations of the same network.
//!
//! In an emulation real programs are in the place of a flow: the kernel's TCP between real hosts.

use std::path::Path;

use bentpipe_lab::run::{Failure, Monitor};
use bentpipe_record::{Summary, write_json};
use bentpipe_report::{Block, Cell, Table, number};
use serde::Serialize;

use crate::controller::Order;
use crate::request::Request;
use crate::study::EmulatedNetwork;

/// Goodput of a flow in a variant of its network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulatedFlow {
    /// Flow.
    pub flow: String,
    /// Variant.
    pub way: String,
    /// Name of the kernel's controller; `None` if the scenario's sender was not changed.
    pub controller: Option<String>,
    /// Goodput in the simulation in bit/s.
    pub simulated_bps: f64,
    /// Goodput of real programs in bit/s; `None` if the kernel does not have the controller.
    pub real_bps: Option<f64>,
}

/// Flow with its two runs.
struct Pair {
    flow: EmulatedFlow,
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
    for Pair { mut flow, simulated, real } in pairs {
        let measured = |order: &Order| {
            let name = format!("flow.{}.goodput", flow.flow);
            goodput(&order.folder, &name).map_err(|why| Failure::Build(format!("run {}: {why}", order.name)))
        };
        let (simulated_bps, real_bps) = (measured(&simulated)?, real.as_ref().map(measured).transpose()?);
        (flow.simulated_bps, flow.real_bps) = (simulated_bps, real_bps);
        compared.push(flow);
    }
    write_json(&folder.join("emulated.json"), &compared)?;
    Ok(compared)
}

/// Returns the flows of a network with their runs.
fn pairs_of(
    request: &Request<'_>,
    (number, network): (usize, &EmulatedNetwork),
    folder: &Path,
    known: &[String],
) -> Vec<Pair> {
    let duration = if request.quick { network.quick } else { network.duration };
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
                Order {
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
                flow: EmulatedFlow {
                    flow: network.flow.clone(),
                    way: way.clone(),
                    controller: controller.map(|(kernel, _)| kernel.clone()),
                    simulated_bps: f64::NAN,
                    real_bps: None,
                },
                simulated: order(false),
                real: is_known.then(|| order(true)),
            });
        }
    }
    pairs
}

/// Returns a measure of the only point of a run.
fn goodput(folder: &Path, name: &str) -> Result<f64, String> {
    let path = folder.join("summary.json");
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read(&path).map_err(|error| wrong(&error))?;
    let summary: Summary = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    let measure = summary.points.first().and_then(|point| point.measures.get(name));
    measure.map(|measure| measure.estimate.mean).ok_or_else(|| wrong(&format!("no {name}")))
}

/// Returns the comparison as a table.
pub fn emulated_table(flows: &[EmulatedFlow]) -> Table {
    let rate = |bps: f64| Cell::Number(format!("{} Mbit/s", number(bps / 1e6)));
    let row = |flow: &EmulatedFlow| {
        let sender = match &flow.controller {
            Some(kernel) => format!("{}, {kernel}", flow.flow),
            None => flow.flow.clone(),
        };
        vec![
            Cell::Text(sender),
            Cell::Text(flow.way.clone()),
            rate(flow.simulated_bps),
            flow.real_bps.map_or_else(|| Cell::Text("not in this kernel".to_owned()), rate),
        ]
    };
    Table {
        caption: "Goodput: simulated, and of real programs over the emulated network".to_owned(),
        head: ["Flow", "Network", "Simulated", "Real"].map(String::from).to_vec(),
        rows: flows.iter().map(row).collect(),
    }
}

/// Returns the section of the report, which is empty without emulations.
pub(crate) fn blocks(flows: &[EmulatedFlow]) -> Vec<Block> {
    if flows.is_empty() {
        return Vec::new();
    }
    let how = "Jobs of the test controller in real time, with real programs in network namespaces in the place of the flow: \
        iperf3 with the kernel's TCP, or nodes of bundles with `bentpipe dtn perf`. The rest is simulated. One run each, as long \
        as the simulated one.";
    vec![
        Block::Heading("Emulated, with real programs".into()),
        Block::Paragraph(how.into()),
        Block::Table(emulated_table(flows)),
    ]
}
