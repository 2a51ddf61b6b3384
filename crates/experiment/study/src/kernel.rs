//! Comparison of the Linux kernel's TCP with a simulation of the same path.
//!
//! A study lists paths and controllers. A [`Kernel`] runs iperf3 over the emulated scenario in real time; the simulated
//! run is that scenario with the flow in it. The goodputs of the second half are compared with a tolerance, and the
//! congestion windows in a diagram.

use std::path::Path;

use bentpipe_lab::run::{Failure, Folder, Monitor};
use bentpipe_record::Series;
use bentpipe_report::{Axis, Block, Cell, Curve, Mark, Plot, Table, number};
use bentpipe_units::Span;
use serde::Serialize;
use serde_json::Value;

use crate::expected::Verdict;
use crate::request::{Planned, Request};
use crate::study::{KernelPath, KernelTests, Study};
use crate::transfer::{Kernel, Transfer};

/// Result of a transfer, as iperf3 reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Iperf3 {
    /// Congestion window of the sender (`TCP_INFO`) in bytes over the seconds since the start.
    pub cwnd: Vec<(f64, f64)>,
    /// Goodput of the receiver in bit/s, with start and end of each interval in seconds.
    pub goodput: Vec<(f64, f64, f64)>,
    /// Number of retransmitted segments.
    pub retransmits: u64,
}

impl Iperf3 {
    /// Parses the JSON output of iperf3.
    ///
    /// # Errors
    /// Returns iperf3's own error, or an error that names a missing value.
    pub fn parse(text: &str) -> Result<Iperf3, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("iperf3's output: {error}"))?;
        if let Some(error) = value["error"].as_str() {
            return Err(format!("iperf3: {error}"));
        }
        let mut report = Iperf3::default();
        for stream in streams(&value) {
            let (_, end) = interval(stream)?;
            report.cwnd.push((end, stream["snd_cwnd"].as_f64().ok_or("iperf3 gave no snd_cwnd")?));
            report.retransmits += stream["retransmits"].as_u64().unwrap_or(0);
        }
        for stream in streams(&value["server_output_json"]) {
            let (start, end) = interval(stream)?;
            let rate = stream["bits_per_second"].as_f64().ok_or("iperf3 gave no bits_per_second")?;
            report.goodput.push((start, end, rate));
        }
        match report.goodput.is_empty() {
            true => Err("iperf3's server gave no intervals".to_owned()),
            false => Ok(report),
        }
    }

    /// Returns the mean goodput, in bit/s, of the intervals from `start` to `end`.
    fn mean(&self, start: f64, end: f64) -> Option<f64> {
        let slack = 0.1;
        let within = self.goodput.iter().filter(|(from, to, _)| *from >= start - slack && *to <= end + slack);
        let (bits, time) = within
            .fold((0.0, 0.0), |(bits, time), (from, to, rate)| (bits + rate * (to - from), time + to - from));
        (time > 0.0).then(|| bits / time)
    }
}

/// Returns the first stream of each interval.
fn streams(value: &Value) -> impl Iterator<Item = &Value> {
    value["intervals"].as_array().into_iter().flatten().map(|interval| &interval["streams"][0])
}

fn interval(stream: &Value) -> Result<(f64, f64), String> {
    let second = |key: &str| stream[key].as_f64().ok_or_else(|| format!("iperf3 gave no \"{key}\""));
    Ok((second("start")?, second("end")?))
}

/// Goodput of the kernel's TCP and of the simulation, on one path with one controller.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelComparison {
    /// Name of the path in the study.
    pub id: String,
    /// Description.
    pub what: String,
    /// Controller.
    pub controller: String,
    /// Goodput of the kernel in the second half, in bit/s.
    pub kernel_bps: f64,
    /// Goodput of the simulation in the second half, in bit/s.
    pub simulated_bps: f64,
    /// Result of the comparison.
    pub verdict: Verdict,
    /// Cause of a known miss; empty if none is known.
    pub known: String,
    /// Retransmitted segments of the kernel and of the simulation.
    pub retransmits: [u64; 2],
    /// Congestion window of the kernel in bytes over seconds.
    pub kernel_cwnd: Vec<(f64, f64)>,
    /// Congestion window of the simulation in bytes over seconds.
    pub simulated_cwnd: Vec<(f64, f64)>,
}

impl KernelComparison {
    /// Returns the deviation of the simulation as a share of the kernel's goodput.
    pub fn deviation(&self) -> f64 {
        self.simulated_bps / self.kernel_bps - 1.0
    }
}

/// Compares all transfers of a study, one after the other.
///
/// # Errors
/// Returns an error if a scenario is invalid, or a run or a transfer fails.
pub(crate) fn compare(
    request: &Request<'_>,
    tests: &KernelTests,
    kernel: &dyn Kernel,
    parent: &Path,
    monitor: &dyn Monitor,
) -> Result<Vec<KernelComparison>, Failure> {
    let mut results = Vec::new();
    for path in &tests.path {
        for (controller, written) in &tests.controller {
            let pair = Pair { request, tests, path, controller, written, parent };
            results.push(pair.compared(kernel, monitor)?);
        }
    }
    Ok(results)
}

/// Path and controller of a comparison.
struct Pair<'a> {
    request: &'a Request<'a>,
    tests: &'a KernelTests,
    path: &'a KernelPath,
    controller: &'a str,
    written: &'a str,
    parent: &'a Path,
}

impl Pair<'_> {
    fn compared(&self, kernel: &dyn Kernel, monitor: &dyn Monitor) -> Result<KernelComparison, Failure> {
        let duration = if self.request.quick { self.tests.quick } else { self.tests.duration };
        let planned = self.planned(duration)?;
        let name = format!("{}-{}", self.path.id.to_lowercase(), self.controller);
        let series = self.simulated(&planned, &format!("{name}-simulated"), monitor)?;
        let transfer = Transfer {
            document: &planned.document,
            plan: &planned.plan,
            name: &name,
            folder: Folder::new(self.parent, &format!("{name}-kernel"), &planned.plan),
            flow: &self.tests.flow,
            controller: self.controller,
            window: self.tests.window,
            duration,
        };
        let text = kernel.transfer(&transfer).map_err(Failure::Build)?;
        let report = Iperf3::parse(&text).map_err(Failure::Build)?;
        self.comparison(&series, report, duration.as_secs_f64())
    }

    /// Simulates the transfer and returns its series.
    fn simulated(&self, planned: &Planned, name: &str, monitor: &dyn Monitor) -> Result<Series, Failure> {
        let series = self.request.execute(planned, name, self.parent, monitor, |_, results| {
            let point = &planned.plan.points[0];
            let series = results.folder.series(point, point.seeds[0]);
            series.map_err(|error| Failure::Build(error.to_string()))
        })?;
        series.map_err(Failure::Build)
    }

    fn planned(&self, duration: Span) -> Result<Planned, Failure> {
        let flow = &self.tests.flow;
        let own = [
            format!("flow.{flow}.traffic.controller={}", self.written),
            format!("flow.{flow}.traffic.receive_buffer={}", self.tests.window),
            format!("duration={duration}"),
        ];
        let sets = self.path.set.iter().chain(&self.tests.set).chain(&own);
        let planned = self.request.planned(&self.path.scenario, sets, Some(1))?;
        match planned.plan.points.len() {
            1 => Ok(planned),
            n => Err(Failure::Build(format!(
                "{}: expected one point of the sweep, got {n}; help: set the swept keys in `kernel.path.set`",
                self.path.scenario.display()
            ))),
        }
    }

    fn comparison(&self, series: &Series, report: Iperf3, end: f64) -> Result<KernelComparison, Failure> {
        let flow = &self.tests.flow;
        let column = |end: &str, name: &str| {
            let element = format!("flow.{flow}.{end}");
            let missing = || Failure::Build(format!("no series {element}.{name}"));
            let data = series.column(&element, name).ok_or_else(missing)?.data.to_f64();
            Ok::<Vec<(f64, f64)>, Failure>(series.seconds().into_iter().zip(data).collect())
        };
        let delivered = column("receiver", "delivered-bytes")?;
        let too_short = || Failure::Build(format!("{end} s are too short to have two halves"));
        let simulated_bps = rate_of_second_half(&delivered).ok_or_else(too_short)?;
        let kernel_bps = report.mean(end / 2.0, end).ok_or_else(too_short)?;
        let retransmits = column("sender", "retransmits")?.last().map_or(0.0, |(_, total)| *total);
        let mut comparison = KernelComparison {
            id: self.path.id.clone(),
            what: self.path.what.clone(),
            controller: self.controller.to_owned(),
            kernel_bps,
            simulated_bps,
            verdict: Verdict::Met,
            known: self.path.missed.get(self.controller).cloned().unwrap_or_default(),
            retransmits: [report.retransmits, retransmits as u64],
            kernel_cwnd: report.cwnd,
            simulated_cwnd: column("sender", "cwnd")?,
        };
        if comparison.deviation().abs() > self.tests.tolerance {
            comparison.verdict = Verdict::Missed;
        }
        Ok(comparison)
    }
}

/// Returns the mean rate of a byte counter in bit/s over its second half.
fn rate_of_second_half(points: &[(f64, f64)]) -> Option<f64> {
    let (end, last) = *points.last()?;
    let (start, first) = *points.iter().find(|(at, _)| *at >= end / 2.0)?;
    (end > start).then(|| (last - first) * 8.0 / (end - start))
}

/// Returns the comparisons as a table.
pub fn kernel_table(results: &[KernelComparison]) -> Table {
    let head = ["", "Path", "Controller", "Kernel", "Simulated", "Deviation", "Verdict", "Retransmissions"];
    let row = |comparison: &KernelComparison| {
        let rate = |bps: f64| Cell::Number(format!("{} Mbit/s", number(bps / 1e6)));
        let verdict = comparison.verdict.to_string();
        vec![
            Cell::Text(comparison.id.clone()),
            Cell::Text(comparison.what.clone()),
            Cell::Text(comparison.controller.clone()),
            rate(comparison.kernel_bps),
            rate(comparison.simulated_bps),
            Cell::Number(format!("{:+.1} %", comparison.deviation() * 100.0)),
            if comparison.verdict == Verdict::Met { Cell::Good(verdict) } else { Cell::Bad(verdict) },
            Cell::Number(format!("{} / {}", comparison.retransmits[0], comparison.retransmits[1])),
        ]
    };
    Table {
        caption: "Goodput in the second half: kernel TCP over the emulated path, simulated TCP over the same"
            .into(),
        head: head.map(String::from).to_vec(),
        rows: results.iter().map(row).collect(),
    }
}

/// Returns the known causes of misses, one sentence each.
pub fn kernel_notes(results: &[KernelComparison]) -> Vec<String> {
    let is_known = |one: &&KernelComparison| one.verdict == Verdict::Missed && !one.known.is_empty();
    let note =
        |one: &KernelComparison| format!("{} {}, known deviation: {}", one.id, one.controller, one.known);
    results.iter().filter(is_known).map(note).collect()
}

/// Returns the section of the report, which is empty without results.
pub(crate) fn blocks(study: &Study, results: &[KernelComparison]) -> Vec<Block> {
    if results.is_empty() {
        return Vec::new();
    }
    let window = study.kernel.as_ref().map(|tests| tests.window.to_string()).unwrap_or_default();
    let how = format!(
        "Real time, real packets: network namespaces at the ends, the scenario's elements between them. Each receiver \
         offers {window} from the start; the kernel's queues do not pace. The kernel's cwnd is that of TCP_INFO, each \
         half second."
    );
    let mut blocks = vec![
        Block::Heading("Comparison with the kernel's TCP".into()),
        Block::Paragraph(how),
        Block::Table(kernel_table(results)),
    ];
    blocks.extend(kernel_notes(results).into_iter().map(Block::Paragraph));
    blocks.push(Block::Plots(results.iter().map(windows).collect()));
    blocks
}

fn windows(comparison: &KernelComparison) -> Plot {
    let title = format!("{} {}: {}", comparison.id, comparison.controller, comparison.what);
    let mut plot = Plot::new(title, Axis::time(), Axis::new("cwnd", "B"));
    let curve = |name: &str, points: &[(f64, f64)], colour| Curve {
        name: name.to_owned(),
        points: points.to_vec(),
        mark: Mark::Line,
        colour,
        ..Curve::default()
    };
    plot.curves = vec![
        curve("kernel, iperf3 over the emulated path", &comparison.kernel_cwnd, 0),
        curve("simulated", &comparison.simulated_cwnd, 1),
    ];
    plot
}

/// Row of `kernel.json`.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    id: &'a str,
    controller: &'a str,
    kernel_bps: f64,
    simulated_bps: f64,
    deviation: f64,
    verdict: Verdict,
    known: &'a str,
    retransmits: [u64; 2],
}

impl<'a> Line<'a> {
    pub(crate) fn new(comparison: &'a KernelComparison) -> Line<'a> {
        Line {
            id: &comparison.id,
            controller: &comparison.controller,
            kernel_bps: comparison.kernel_bps,
            simulated_bps: comparison.simulated_bps,
            deviation: comparison.deviation(),
            verdict: comparison.verdict,
            known: &comparison.known,
            retransmits: comparison.retransmits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPERF3: &str = r#"{"start": {}, "intervals": [
        {"streams": [{"start": 0, "end": 1.0, "snd_cwnd": 14480, "retransmits": 0}]},
        {"streams": [{"start": 1.0, "end": 2.0, "snd_cwnd": 28960, "retransmits": 3}]}],
        "end": {}, "server_output_json": {"intervals": [
        {"streams": [{"start": 0, "end": 1.0, "bits_per_second": 1e6}]},
        {"streams": [{"start": 1.0, "end": 2.0, "bits_per_second": 3e6}]},
        {"streams": [{"start": 2.0, "end": 2.4, "bits_per_second": 9e6}]}]}}"#;

    #[test]
    fn what_iperf3_prints_is_read() {
        let report = Iperf3::parse(IPERF3).expect("iperf3's");
        assert_eq!(report.cwnd, [(1.0, 14_480.0), (2.0, 28_960.0)]);
        assert_eq!(report.retransmits, 3);
        assert_eq!(report.mean(1.0, 2.0), Some(3e6), "what comes after the end is not counted");
        assert_eq!(report.mean(0.0, 2.0), Some(2e6));
        assert_eq!(report.mean(5.0, 6.0), None);
    }

    #[test]
    fn what_iperf3_does_not_say_is_named() {
        for (text, problem) in [
            ("", "iperf3's output: "),
            (r#"{"error": "unable to connect"}"#, "iperf3: unable to connect"),
            (r#"{"intervals": []}"#, "iperf3's server gave no intervals"),
            (r#"{"intervals": [{"streams": []}]}"#, "iperf3 gave no \"start\""),
            (&IPERF3.replace("snd_cwnd", "other"), "iperf3 gave no snd_cwnd"),
        ] {
            let error = Iperf3::parse(text).expect_err(text);
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn a_counter_s_second_half_has_a_slope() {
        let points: Vec<(f64, f64)> =
            (0..=10).map(|n| (f64::from(n), f64::from((n - 5).max(0)) * 1000.0)).collect();
        assert_eq!(rate_of_second_half(&points), Some(8000.0));
        assert_eq!(rate_of_second_half(&points[..1]), None);
    }
}
