//! The kernel's own TCP over an emulated path, beside our simulation of the same.
//!
//! A study says which paths and controllers; who can emulate is a [`Kernel`], which runs iperf3 over the scenario in real
//! time. The simulated run is that scenario with the flow in it. Both are held against each other in their second half:
//! goodput by a tolerance, congestion windows in a diagram.

use std::path::{Path, PathBuf};

use bentpipe_units::{Bytes, Span};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Request, Study, Verdict};
use crate::plan::{Plan, Seeds};
use crate::record::Series;
use crate::report::{Axis, Block, Cell, Curve, Mark, Plot, Table, number};
use crate::run::{self, Failure, Folder, Monitor};
use crate::scenario::Document;

/// What a study asks of the kernel's TCP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelTests {
    /// The flow that the kernel's TCP takes the place of.
    pub flow: String,
    /// The window that both receivers offer from the start: 65 535 times a power of two, which a kernel can offer exactly.
    pub window: Bytes,
    /// How long each transfer lasts.
    pub duration: Span,
    /// How long for `--quick`.
    pub quick: Span,
    /// By which share of the kernel's goodput ours may differ.
    pub tolerance: f64,
    /// Keys to set for the simulation, so that its TCP is the kernel's.
    #[serde(default)]
    pub set: Vec<String>,
    /// Controllers by their names in the kernel, as scenarios write them.
    pub controller: IndexMap<String, String>,
    /// The paths.
    pub path: Vec<KernelPath>,
}

/// A path that the kernel's TCP is sent over.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelPath {
    /// Its name in the study ("K2").
    pub id: String,
    /// What it is, in words.
    pub what: String,
    /// The scenario file, in the study's folder.
    pub scenario: PathBuf,
    /// Keys to set, for both.
    #[serde(default)]
    pub set: Vec<String>,
    /// Why ours differs, by controller, where that is known.
    #[serde(default)]
    pub missed: IndexMap<String, String>,
}

/// One transfer to be made by the kernel.
pub struct Transfer<'a> {
    /// The scenario.
    pub document: &'a Document,
    /// Its plan, of one point.
    pub plan: &'a Plan,
    /// What the run is called.
    pub name: &'a str,
    /// Where its folder is to be.
    pub folder: Folder,
    /// The flow whose ends send and receive.
    pub flow: &'a str,
    /// The controller, by its name in the kernel.
    pub controller: &'a str,
    /// The window that the receiver offers.
    pub window: Bytes,
    /// How long it sends.
    pub duration: Span,
}

/// Who has a kernel and can emulate.
pub trait Kernel {
    /// Makes the transfer in real time, and gives what iperf3 printed (`--json --get-server-output`).
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn transfer(&self, transfer: &Transfer<'_>) -> Result<String, String>;
}

/// What iperf3 saw of a transfer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The sender's cwnd in bytes (`TCP_INFO`), over the seconds since it began.
    pub cwnd: Vec<(f64, f64)>,
    /// What the receiving application got, in bit/s: start and end of an interval in seconds, and the rate.
    pub goodput: Vec<(f64, f64, f64)>,
    /// Segments sent again.
    pub retransmits: u64,
}

impl Seen {
    /// Reads iperf3's JSON.
    ///
    /// # Errors
    /// iperf3's own error, or what is not there, in words.
    pub fn from_iperf3(text: &str) -> Result<Seen, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("iperf3's output: {error}"))?;
        if let Some(error) = value["error"].as_str() {
            return Err(format!("iperf3: {error}"));
        }
        let mut seen = Seen::default();
        for stream in streams(&value) {
            let (_, end) = interval(stream)?;
            seen.cwnd.push((end, stream["snd_cwnd"].as_f64().ok_or("iperf3 gave no snd_cwnd")?));
            seen.retransmits += stream["retransmits"].as_u64().unwrap_or(0);
        }
        for stream in streams(&value["server_output_json"]) {
            let (start, end) = interval(stream)?;
            let rate = stream["bits_per_second"].as_f64().ok_or("iperf3 gave no bits_per_second")?;
            seen.goodput.push((start, end, rate));
        }
        match seen.goodput.is_empty() {
            true => Err("iperf3's server gave no intervals".to_owned()),
            false => Ok(seen),
        }
    }

    /// The mean goodput from `start` to `end`, in bit/s, of the intervals that lie within.
    fn mean(&self, start: f64, end: f64) -> Option<f64> {
        let slack = 0.1;
        let within = self.goodput.iter().filter(|(from, to, _)| *from >= start - slack && *to <= end + slack);
        let (bits, time) = within
            .fold((0.0, 0.0), |(bits, time), (from, to, rate)| (bits + rate * (to - from), time + to - from));
        (time > 0.0).then(|| bits / time)
    }
}

/// The first stream of each interval.
fn streams(value: &Value) -> impl Iterator<Item = &Value> {
    value["intervals"].as_array().into_iter().flatten().map(|interval| &interval["streams"][0])
}

fn interval(stream: &Value) -> Result<(f64, f64), String> {
    let second = |key: &str| stream[key].as_f64().ok_or_else(|| format!("iperf3 gave no \"{key}\""));
    Ok((second("start")?, second("end")?))
}

/// The kernel's TCP and ours on one path with one controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The path's name in the study.
    pub id: String,
    /// What it is.
    pub what: String,
    /// The controller.
    pub controller: String,
    /// The kernel's goodput in the second half, in bit/s.
    pub kernel_bps: f64,
    /// Ours.
    pub ours_bps: f64,
    /// Whether they agree.
    pub verdict: Verdict,
    /// Why not, if that is known; empty otherwise.
    pub known: String,
    /// Segments that the kernel and that ours sent again.
    pub retransmits: [u64; 2],
    /// The kernel's cwnd in bytes over seconds.
    pub kernel_cwnd: Vec<(f64, f64)>,
    /// Ours.
    pub ours_cwnd: Vec<(f64, f64)>,
}

impl Beside {
    /// Ours against the kernel's: 0.01 is one per cent more.
    pub fn deviation(&self) -> f64 {
        self.ours_bps / self.kernel_bps - 1.0
    }
}

/// Makes all transfers of a study, one after the other.
pub(super) fn beside(
    request: &Request<'_>,
    tests: &KernelTests,
    kernel: &dyn Kernel,
    parent: &Path,
    monitor: &dyn Monitor,
) -> Result<Vec<Beside>, Failure> {
    let mut results = Vec::new();
    for path in &tests.path {
        for (controller, written) in &tests.controller {
            let pair = Pair { request, tests, path, controller, written, parent };
            results.push(pair.beside(kernel, monitor)?);
        }
    }
    Ok(results)
}

struct Pair<'a> {
    request: &'a Request<'a>,
    tests: &'a KernelTests,
    path: &'a KernelPath,
    controller: &'a str,
    written: &'a str,
    parent: &'a Path,
}

impl Pair<'_> {
    fn beside(&self, kernel: &dyn Kernel, monitor: &dyn Monitor) -> Result<Beside, Failure> {
        let duration = if self.request.quick { self.tests.quick } else { self.tests.duration };
        let (document, plan) = self.planned(duration)?;
        let name = format!("{}-{}", self.path.id.to_lowercase(), self.controller);
        let simulated = run::Request {
            document: &document,
            plan: &plan,
            folder: Folder::new(self.parent, &format!("{name}-simulated"), &plan),
            jobs: self.request.jobs,
            force: self.request.force,
            snap_len: usize::MAX,
            build: self.request.build,
            command: self.request.command,
        };
        let prepare = |point: &_, seed| run::prepare(&document, &plan.folder, point, seed);
        let results = run::execute(&simulated, &prepare, monitor)?;
        let (point, seed) = (&plan.points[0], plan.points[0].seeds[0]);
        let series = results.folder.series(point, seed).map_err(|error| Failure::Build(error.to_string()))?;
        let transfer = Transfer {
            document: &document,
            plan: &plan,
            name: &name,
            folder: Folder::new(self.parent, &format!("{name}-kernel"), &plan),
            flow: &self.tests.flow,
            controller: self.controller,
            window: self.tests.window,
            duration,
        };
        let text = kernel.transfer(&transfer).map_err(Failure::Build)?;
        let seen = Seen::from_iperf3(&text).map_err(Failure::Build)?;
        self.held_against(&series, seen, duration.as_secs_f64())
    }

    fn planned(&self, duration: Span) -> Result<(Document, Plan), Failure> {
        let (study, flow) = (self.request.study, &self.tests.flow);
        let wrong = |error: String| Failure::Build(error);
        let path = study.folder.join(&self.path.scenario);
        let mut document = Document::read(&path).map_err(|error| wrong(error.to_string()))?;
        let own = [
            format!("flow.{flow}.tcp.controller={}", self.written),
            format!("flow.{flow}.tcp.receive_buffer={}", self.tests.window),
            format!("duration={duration}"),
        ];
        for set in self.path.set.iter().chain(&self.tests.set).chain(&own) {
            document.set(set).map_err(|error| wrong(error.to_string()))?;
        }
        let seeds = Seeds { first: None, count: Some(1) };
        let plan = Plan::new(&document, seeds).map_err(|error| wrong(error.to_string()))?;
        match plan.points.len() {
            1 => Ok((document, plan)),
            _ => Err(wrong(format!("{}: its sweep has to be set to one point", path.display()))),
        }
    }

    fn held_against(&self, series: &Series, seen: Seen, end: f64) -> Result<Beside, Failure> {
        let flow = &self.tests.flow;
        let column = |end: &str, name: &str| {
            let element = format!("flow.{flow}.{end}");
            let column =
                series.columns.iter().find(|column| column.element == element && column.name == name);
            let missing = || Failure::Build(format!("no series {element}.{name}"));
            let data = column.ok_or_else(missing)?.data.to_f64();
            Ok::<Vec<(f64, f64)>, Failure>(series.seconds().into_iter().zip(data).collect())
        };
        let delivered = column("receiver", "bytes_delivered")?;
        let no_half = || Failure::Build(format!("{} s are too short to have two halves", end));
        let ours_bps = slope_of_second_half(&delivered).ok_or_else(no_half)?;
        let kernel_bps = seen.mean(end / 2.0, end).ok_or_else(no_half)?;
        let retransmits = column("sender", "retransmits")?.last().map_or(0.0, |(_, total)| *total);
        let mut beside = Beside {
            id: self.path.id.clone(),
            what: self.path.what.clone(),
            controller: self.controller.to_owned(),
            kernel_bps,
            ours_bps,
            verdict: Verdict::Met,
            known: self.path.missed.get(self.controller).cloned().unwrap_or_default(),
            retransmits: [seen.retransmits, retransmits as u64],
            kernel_cwnd: seen.cwnd,
            ours_cwnd: column("sender", "cwnd")?,
        };
        if beside.deviation().abs() > self.tests.tolerance {
            beside.verdict = Verdict::Missed;
        }
        Ok(beside)
    }
}

/// Eight times what a counter of bytes gains in a second, over the second half of its time.
fn slope_of_second_half(points: &[(f64, f64)]) -> Option<f64> {
    let (end, last) = *points.last()?;
    let (start, first) = *points.iter().find(|(at, _)| *at >= end / 2.0)?;
    (end > start).then(|| (last - first) * 8.0 / (end - start))
}

/// The comparisons as a table.
pub fn kernel_table(results: &[Beside]) -> Table {
    let head = ["", "Path", "Controller", "Kernel", "Ours", "Deviation", "Verdict", "Sent again"];
    let row = |beside: &Beside| {
        let rate = |bps: f64| Cell::Number(format!("{} Mbit/s", number(bps / 1e6)));
        let verdict = beside.verdict.to_string();
        vec![
            Cell::Text(beside.id.clone()),
            Cell::Text(beside.what.clone()),
            Cell::Text(beside.controller.clone()),
            rate(beside.kernel_bps),
            rate(beside.ours_bps),
            Cell::Number(format!("{:+.1} %", beside.deviation() * 100.0)),
            if beside.verdict == Verdict::Met { Cell::Good(verdict) } else { Cell::Bad(verdict) },
            Cell::Number(format!("{} / {}", beside.retransmits[0], beside.retransmits[1])),
        ]
    };
    Table {
        caption:
            "Goodput in the second half: the kernel's TCP over the emulated path, ours over the simulated one"
                .into(),
        head: head.map(String::from).to_vec(),
        rows: results.iter().map(row).collect(),
    }
}

/// Why what is missed is, where that is known; a sentence each.
pub fn kernel_notes(results: &[Beside]) -> Vec<String> {
    let missed =
        results.iter().filter(|beside| beside.verdict == Verdict::Missed && !beside.known.is_empty());
    missed
        .map(|beside| format!("{} {}, known deviation: {}", beside.id, beside.controller, beside.known))
        .collect()
}

/// The page's part: the table, and both windows of each pair in one diagram.
pub(super) fn blocks(study: &Study, results: &[Beside]) -> Vec<Block> {
    let plot = |beside: &Beside| {
        let title = format!("{} {}: {}", beside.id, beside.controller, beside.what);
        let mut plot = Plot::new(title, Axis::time(), Axis::new("cwnd", "B"));
        let curve = |name: &str, points: &[(f64, f64)], colour| Curve {
            name: name.to_owned(),
            points: points.to_vec(),
            mark: Mark::Line,
            colour,
            ..Curve::default()
        };
        plot.curves = vec![
            curve("kernel, iperf3 over the emulated path", &beside.kernel_cwnd, 0),
            curve("ours, simulated", &beside.ours_cwnd, 1),
        ];
        plot
    };
    let window = study.kernel.as_ref().map(|tests| tests.window.to_string()).unwrap_or_default();
    let how = format!(
        "Real time, real packets: network namespaces at the ends, the scenario's elements between them. Each receiver \
         offers {window} from the start; the kernel's queues do not pace. The kernel's cwnd is TCP_INFO's, each half \
         second."
    );
    let mut blocks = vec![
        Block::Heading("The kernel's TCP beside ours".into()),
        Block::Paragraph(how),
        Block::Table(kernel_table(results)),
    ];
    blocks.extend(kernel_notes(results).into_iter().map(Block::Paragraph));
    blocks.push(Block::Plots(results.iter().map(plot).collect()));
    blocks
}

/// A line of `kernel.json`.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    id: &'a str,
    controller: &'a str,
    kernel_bps: f64,
    ours_bps: f64,
    deviation: f64,
    verdict: Verdict,
    known: &'a str,
    retransmits: [u64; 2],
}

impl<'a> Line<'a> {
    pub(super) fn new(beside: &'a Beside) -> Line<'a> {
        Line {
            id: &beside.id,
            controller: &beside.controller,
            kernel_bps: beside.kernel_bps,
            ours_bps: beside.ours_bps,
            deviation: beside.deviation(),
            verdict: beside.verdict,
            known: &beside.known,
            retransmits: beside.retransmits,
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
        let seen = Seen::from_iperf3(IPERF3).expect("iperf3's");
        assert_eq!(seen.cwnd, [(1.0, 14_480.0), (2.0, 28_960.0)]);
        assert_eq!(seen.retransmits, 3);
        assert_eq!(seen.mean(1.0, 2.0), Some(3e6), "what comes after the end is not counted");
        assert_eq!(seen.mean(0.0, 2.0), Some(2e6));
        assert_eq!(seen.mean(5.0, 6.0), None);
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
            let error = Seen::from_iperf3(text).expect_err(text);
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn a_counter_s_second_half_has_a_slope() {
        let points: Vec<(f64, f64)> =
            (0..=10).map(|n| (f64::from(n), f64::from((n - 5).max(0)) * 1000.0)).collect();
        assert_eq!(slope_of_second_half(&points), Some(8000.0));
        assert_eq!(slope_of_second_half(&points[..1]), None);
    }
}
