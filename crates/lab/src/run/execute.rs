//! Running what is not finished, several runs at a time.

use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use bentpipe_net::Port;
use bentpipe_net::dama::Frame;
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::Span;
use rayon::iter::{ParallelBridge, ParallelIterator};
use serde::Serialize;

use super::folder::{Folder, write_json};
use super::{CaptureFile, CapturePoint, Monitor, Outcome, Summary, Timing, write_whole};
use crate::build::{Built, CarrierHandle, LinkHandle};
use crate::measure::{self, Measure};
use crate::plan::{Plan, Point};
use crate::record::{Capture, PlanLog, Recorder, Recording, Stopped};
use crate::scenario::Document;

/// What to run and how.
pub struct Request<'a> {
    /// The file.
    pub document: &'a Document,
    /// Its points and seeds.
    pub plan: &'a Plan,
    /// Where results go.
    pub folder: Folder,
    /// How many runs at a time; zero for one on each processor.
    pub jobs: usize,
    /// Whether finished runs are run again.
    pub force: bool,
    /// How many bytes of a packet captures keep.
    pub snap_len: usize,
    /// What tells this program from others that may give other results.
    pub build: &'a str,
    /// The command line, for the manifest.
    pub command: &'a [String],
}

/// A network that is ready to run.
pub struct Prepared {
    /// The network.
    pub network: Network,
    /// Captures asked for: a file name without its ending, and the inputs that packets pass.
    pub captures: Vec<CapturePoint>,
    /// Carriers whose burst time plans are to be written.
    pub carriers: Vec<CarrierPoint>,
    /// What remains to be found out when the network has run.
    pub finish: Option<Finish>,
}

/// A carrier, and where its terminals take their part of the plan.
#[derive(Clone, Debug)]
pub struct CarrierPoint {
    /// Its name.
    pub name: String,
    /// Its structure.
    pub frame: Arc<Frame>,
    /// Names of the terminals' links, and their elements.
    pub terminals: Vec<(String, ElementId)>,
}

impl CarrierPoint {
    /// The carriers of a network.
    pub fn of(built: &Built) -> Vec<CarrierPoint> {
        let point = |carrier: &CarrierHandle| {
            let of_it = |link: &&LinkHandle| carrier.terminals.contains(&(link.name.clone(), link.way));
            let both = |link: &LinkHandle| {
                let twice = carrier.terminals.iter().filter(|(name, _)| *name == link.name).count() > 1;
                if twice { format!("{} {}", link.name, link.way.name()) } else { link.name.clone() }
            };
            let terminals = built.links.iter().filter(of_it).map(|link| (both(link), link.line)).collect();
            CarrierPoint { name: carrier.name.clone(), frame: Arc::clone(&carrier.frame), terminals }
        };
        built.carriers.iter().map(point).collect()
    }

    /// The file of its plan in a run's folder.
    pub(crate) fn file(name: &str) -> String {
        format!("plan-{name}.csv")
    }
}

/// Looks at what a run left in its network, may write files into the run's folder, and gives more measures.
pub type Finish = Box<dyn FnOnce(&std::path::Path) -> Result<Vec<Measure>, String> + Send>;

/// What came of a request.
#[derive(Clone, Debug)]
pub struct Results {
    /// Where everything is.
    pub folder: Folder,
    /// All runs, in the order of the plan.
    pub runs: Vec<RunResult>,
    /// Means over the seeds.
    pub summary: Summary,
}

impl Results {
    /// How long the first run was.
    pub fn duration(&self) -> Span {
        Span::from_secs_f64(self.runs.first().map_or(0.0, |run| run.timing.wall_s))
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The number of its point.
    pub point: usize,
    /// What it gave.
    pub outcome: Outcome,
    /// How it was made.
    pub timing: Timing,
    /// Whether it was finished before.
    pub reused: bool,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The monitor wanted to stop.
    #[error("interrupted with {finished} of {runs} runs finished and kept")]
    Interrupted {
        /// How many are finished.
        finished: usize,
        /// Of how many.
        runs: usize,
    },
    /// A scenario cannot be built.
    #[error("{0}")]
    Build(String),
    /// A recording could not be made.
    #[error(transparent)]
    Record(Stopped),
    /// Files could not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Failure {
        match stopped {
            Stopped::Interrupted(_) => Failure::Interrupted { finished: 0, runs: 0 },
            other => Failure::Record(other),
        }
    }
}

/// Runs all that is not finished, and writes the folder but for its report. `prepare` builds the network of a point
/// and seed.
///
/// # Errors
/// The first failure; runs that were finished by then are kept.
pub fn execute(
    request: &Request<'_>,
    prepare: &(dyn Fn(&Point, u64) -> Result<Prepared, String> + Sync),
    monitor: &dyn Monitor,
) -> Result<Results, Failure> {
    let started_s = monitor.clock_s();
    fs::create_dir_all(request.folder.path()).map_err(|error| naming(&error, request.folder.path()))?;
    let known = |point: &Point, seed| request.folder.finished(point, seed, request.build);
    let tasks: Vec<(&Point, u64)> = request.plan.runs().collect();
    let old: Vec<Option<(Outcome, Timing)>> =
        tasks.iter().map(|(point, seed)| known(point, *seed).filter(|_| !request.force)).collect();
    let todo: Vec<(&Point, u64)> =
        tasks.iter().zip(&old).filter(|(_, old)| old.is_none()).map(|(task, _)| *task).collect();
    monitor.begin(todo.len(), tasks.len() - todo.len());
    run_all(request, &todo, prepare, monitor).map_err(|failure| match failure {
        Failure::Interrupted { .. } => interrupted(request, &tasks),
        other => other,
    })?;
    let runs = tasks.iter().zip(old).map(|((point, seed), old)| {
        let reused = old.is_some();
        let (outcome, timing) = old.or_else(|| known(point, *seed)).ok_or_else(vanished)?;
        Ok(RunResult { point: point.index, outcome, timing, reused })
    });
    let runs = runs.collect::<Result<Vec<_>, Failure>>()?;
    let summary = Summary::new(request.plan, &runs);
    let results = Results { folder: request.folder.clone(), runs, summary };
    write_results(request, &results, monitor.clock_s() - started_s)?;
    Ok(results)
}

fn vanished() -> Failure {
    Failure::Io(io::Error::new(
        io::ErrorKind::NotFound,
        "a finished run's files are gone: is another one running?",
    ))
}

pub(super) fn naming(error: &io::Error, path: &std::path::Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn interrupted(request: &Request<'_>, tasks: &[(&Point, u64)]) -> Failure {
    let done =
        |(point, seed): &&(&Point, u64)| request.folder.finished(point, *seed, request.build).is_some();
    Failure::Interrupted { finished: tasks.iter().filter(done).count(), runs: tasks.len() }
}

fn run_all(
    request: &Request<'_>,
    todo: &[(&Point, u64)],
    prepare: &(dyn Fn(&Point, u64) -> Result<Prepared, String> + Sync),
    monitor: &dyn Monitor,
) -> Result<(), Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(request.jobs).build().map_err(io::Error::other)?;
    // A bridge hands runs out in their order, so that what is finished after an interruption is the beginning.
    pool.install(|| {
        todo.iter().par_bridge().try_for_each(|(point, seed)| {
            if monitor.wants_stop() {
                return Err(Failure::Interrupted { finished: 0, runs: 0 });
            }
            run_one(request, point, *seed, prepare, monitor)
        })
    })
}

fn run_one(
    request: &Request<'_>,
    point: &Point,
    seed: u64,
    prepare: &(dyn Fn(&Point, u64) -> Result<Prepared, String> + Sync),
    monitor: &dyn Monitor,
) -> Result<(), Failure> {
    let started_s = monitor.clock_s();
    let folder = request.folder.of_run(point, seed);
    fs::create_dir_all(&folder).map_err(|error| naming(&error, &folder))?;
    let mut prepared = prepare(point, seed).map_err(Failure::Build)?;
    let captures = start_captures(&mut prepared.network, &prepared.captures, &folder, request.snap_len)?;
    let plans = log_plans(&mut prepared);
    let recording = record(point, &mut prepared.network, &captures, monitor)?;
    for (name, plan) in plans {
        write_whole(&folder.join(CarrierPoint::file(&name)), |file| plan.write(file))?;
    }
    let captures =
        captures.into_iter().map(|(file, capture)| Ok(CaptureFile { file, packets: capture.finish()? }));
    let captures = captures.collect::<io::Result<Vec<_>>>()?;
    let mut outcome = outcome(point, seed, &recording, captures);
    if let Some(finish) = prepared.finish {
        outcome.measures.extend(finish(&folder).map_err(Failure::Build)?);
    }
    let timing =
        Timing { build: request.build.to_owned(), wall_s: monitor.clock_s() - started_s, real_time: None };
    request.folder.write_run((point, seed), &recording.series, &outcome, &timing)?;
    monitor.done(&label(point, seed));
    Ok(())
}

/// Which run it is, for a person.
fn label(point: &Point, seed: u64) -> String {
    let settings = point.label();
    if settings.is_empty() { format!("seed {seed}") } else { format!("{settings}, seed {seed}") }
}

pub(super) fn start_captures(
    network: &mut Network,
    points: &[CapturePoint],
    folder: &std::path::Path,
    snap_len: usize,
) -> io::Result<Vec<(String, Capture)>> {
    let mut started = Vec::new();
    for CapturePoint { name, inputs, form, multiplex } in points {
        let file = format!("{name}.pcap");
        let path: PathBuf = folder.join(&file);
        let capture = Capture::start(&path, *form, snap_len).map_err(|error| naming(&error, &path))?;
        let capture = capture.of_multiplex(multiplex.clone());
        for (element, port) in inputs {
            network.tap(*element, *port, capture.tap());
        }
        started.push((file, capture));
    }
    Ok(started)
}

/// Taps all terminals of all carriers.
fn log_plans(prepared: &mut Prepared) -> Vec<(String, PlanLog)> {
    let network = &mut prepared.network;
    let log = |carrier: &CarrierPoint| {
        let log = PlanLog::new(&carrier.frame);
        for (name, terminal) in &carrier.terminals {
            network.tap(*terminal, Port(1), log.tap(name));
        }
        (carrier.name.clone(), log)
    };
    prepared.carriers.iter().map(log).collect()
}

fn record(
    point: &Point,
    network: &mut Network,
    captures: &[(String, Capture)],
    monitor: &dyn Monitor,
) -> Result<Recording, Failure> {
    let scenario = &point.scenario;
    let recorder = Recorder {
        elements: network.ids().collect(),
        interval: scenario.probe.interval,
        warm_up: scenario.probe.warm_up,
        duration: scenario.duration,
    };
    let mut shown = 0.0;
    let recording = recorder.run(network, |now| {
        let share = now.as_secs_f64() / scenario.duration.max(Span::from_nanos(1)).as_secs_f64();
        // Often enough for the eye.
        if share - shown >= 0.01 {
            monitor.advance(share - shown);
            shown = share;
        }
        let stop = monitor.wants_stop() || captures.iter().any(|(_, capture)| capture.has_failed());
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    monitor.advance(1.0 - shown);
    match recording {
        // A capture that failed says why when it is finished.
        Err(Stopped::Interrupted(_)) if captures.iter().any(|(_, capture)| capture.has_failed()) => {
            Err(Failure::Io(io::Error::new(
                io::ErrorKind::StorageFull,
                "a capture could not be written: is the disk full?",
            )))
        }
        recording => Ok(recording?),
    }
}

pub(super) fn outcome(
    point: &Point,
    seed: u64,
    recording: &Recording,
    captures: Vec<CaptureFile>,
) -> Outcome {
    Outcome {
        hash: point.run_hash(seed).to_hex(),
        seed,
        fingerprint: recording.fingerprint.to_string(),
        deliveries: recording.work.deliveries,
        wakeups: recording.work.wakeups,
        stray: recording.stray,
        interval_asked: recording.sampling.asked,
        interval: recording.sampling.used,
        captures,
        measures: measure::measures(&point.scenario, recording),
        totals: measure::totals(recording),
    }
}

/// What `manifest.json` holds.
#[derive(Serialize)]
struct Manifest<'a> {
    title: &'a str,
    version: &'a str,
    build: &'a str,
    command: &'a [String],
    scenario: &'a str,
    hash: String,
    wall_s: f64,
    runs: Vec<ManifestRun<'a>>,
}

#[derive(Serialize)]
struct ManifestRun<'a> {
    folder: String,
    settings: indexmap::IndexMap<&'a str, &'a str>,
    seed: u64,
    fingerprint: &'a str,
    deliveries: u64,
    wakeups: u64,
    wall_s: f64,
    reused: bool,
}

pub(super) fn write_results(request: &Request<'_>, results: &Results, wall_s: f64) -> io::Result<()> {
    let folder = request.folder.path();
    write_whole(&folder.join("scenario.original.toml"), |file| {
        file.write_all(request.document.text().as_bytes())
    })?;
    write_json(&folder.join("summary.json"), &results.summary)?;
    write_whole(&folder.join("summary.csv"), |file| results.summary.write_csv(file))?;
    let manifest = Manifest {
        title: &request.plan.points[0].scenario.title,
        version: crate::plan::VERSION,
        build: request.build,
        command: request.command,
        scenario: request.document.name(),
        hash: request.plan.hash().to_hex(),
        wall_s,
        runs: results.runs.iter().map(|run| manifest_run(request, run)).collect(),
    };
    write_json(&folder.join("manifest.json"), &manifest)
}

fn manifest_run<'a>(request: &'a Request<'_>, run: &'a RunResult) -> ManifestRun<'a> {
    let point = &request.plan.points[run.point];
    ManifestRun {
        folder: request.folder.relative(point, run.outcome.seed).display().to_string(),
        settings: point.settings.iter().map(|s| (&s.key[..], &s.value[..])).collect(),
        seed: run.outcome.seed,
        fingerprint: &run.outcome.fingerprint,
        deliveries: run.outcome.deliveries,
        wakeups: run.outcome.wakeups,
        wall_s: run.timing.wall_s,
        reused: run.reused,
    }
}
