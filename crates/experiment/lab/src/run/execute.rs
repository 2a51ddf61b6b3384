//! Execution of unfinished runs, several at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bentpipe_assemble::Built;
use bentpipe_record::{
    Capture, CaptureFile, CaptureLimits, DEFINITIONS, Distribution, EventRow, FinalValues, FlowFact, Outcome,
    Recorder, Recording, ResultSet, RunResult, Stopped, Summary, Timing, VERSION, listed_files,
    update_checksums, write_json, write_measures, write_whole,
};
use bentpipe_scenario::{Document, Moment, Problem, Scenario};
use bentpipe_sim::Network;
use bentpipe_site::{Artefact, Input, WriteArtefact};
use bentpipe_units::Span;
use rayon::iter::{ParallelBridge, ParallelIterator};
use schemars::JsonSchema;
use serde::Serialize;

use super::Monitor;
use super::accounts::Accounts;
use super::folder::{Folder, SUMMARIES};
use super::growing::Growing;
use super::network::network_map;
use crate::budget::Budget;
use crate::calls;
use crate::measure;
use crate::plan::{Plan, Point};
use crate::prepared::{CapturePoint, Prepared};

/// Request to execute a plan.
pub struct Request<'a> {
    /// The file.
    pub document: &'a Document,
    /// Points and seeds.
    pub plan: &'a Plan,
    /// Folder of results.
    pub folder: Folder,
    /// Number of runs at a time; zero for one per processor.
    pub jobs: usize,
    /// Set to run finished runs again.
    pub force: bool,
    /// Limits of captures.
    pub captures: CaptureLimits,
    /// Identifier of the program's build, as another one may give other results.
    pub build: &'a str,
    /// Commit that the program was built from, if it is known.
    pub commit: Option<&'a str>,
    /// The command line, for the manifest.
    pub command: &'a [String],
}

impl Request<'_> {
    /// Returns the number of runs of a point that are to be done.
    ///
    /// Files of the others are not compared with their checksums.
    pub(super) fn unfinished(&self, point: &Point) -> usize {
        let is_to_do = |seed: &&u64| {
            self.force || self.folder.complete(point, **seed, (self.build, self.captures)).is_none()
        };
        point.seeds.iter().filter(is_to_do).count()
    }
}

/// Results of a request.
#[derive(Clone, Debug)]
pub struct Results {
    /// Folder of results.
    pub folder: Folder,
    /// Results of all runs, in the order of the plan.
    pub runs: Vec<RunResult>,
    /// Means over the seeds.
    pub summary: Summary,
    /// Set if a capture of an emulation is incomplete, as on a full disk.
    pub has_lost_packets: bool,
}

impl Results {
    /// Returns the duration of the first run.
    pub fn duration(&self) -> Span {
        Span::from_secs_f64(self.runs.first().map_or(0.0, |run| run.timing.wall_s))
    }

    /// Returns the results with the texts that a report quotes.
    pub fn with_texts<'a>(&'a self, request: &'a Request<'_>) -> ResultSet<'a> {
        let scenario = &request.plan.points[0].scenario;
        let command = request.command.join(" ");
        let name = request.document.name();
        let budget = Budget::with_files(scenario, Some(request.document.access())).ok();
        ResultSet {
            title: &scenario.title,
            description: &scenario.description,
            duration: scenario.duration,
            command: if command.is_empty() { format!("bentpipe run {name}") } else { command },
            scenario: request.document.text(),
            network: network_map(scenario, budget.as_ref()),
            contact_plans: budget.as_ref().map_or_else(Vec::new, |budget| budget.plans.clone()),
            budget: budget.map(|budget| budget.to_string()),
            axes: &request.plan.axes,
            points: request.plan.points.iter().map(|point| self.point(point)).collect(),
            runs: &self.runs,
            summary: &self.summary,
        }
    }

    fn point<'a>(&self, point: &'a Point) -> bentpipe_record::Point<'a> {
        bentpipe_record::Point {
            label: point.label(),
            settings: &point.settings,
            seeds: &point.seeds,
            folders: point.seeds.iter().map(|seed| self.folder.of_run(point, *seed)).collect(),
            carriers: point.scenario.shared.carrier.keys().map(String::as_str).collect(),
            events: point.scenario.timeline.iter().map(event_row).collect(),
            event_times_s: event_times(&point.scenario),
        }
    }
}

fn event_row(moment: &Moment) -> EventRow {
    let shown = |(key, value): &(String, Option<String>)| {
        (key.clone(), value.clone().unwrap_or_else(|| "default".to_owned()))
    };
    EventRow { at_s: moment.at.as_secs_f64(), changes: moment.changes.iter().map(shown).collect() }
}

/// Returns the starts and ends of events within the run, in seconds.
fn event_times(scenario: &Scenario) -> Vec<f64> {
    let times = scenario
        .event
        .iter()
        .flat_map(|event| event.instants(scenario.duration))
        .filter(|at| *at <= scenario.duration);
    let times: BTreeSet<Span> = times.collect();
    times.into_iter().map(Span::as_secs_f64).collect()
}

/// Error returned when a request has no results.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The monitor wanted to stop.
    #[error("interrupted with {finished} of {runs} runs finished and kept")]
    Interrupted {
        /// Number of finished runs.
        finished: usize,
        /// Number of runs.
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
    let known = |point: &Point, seed| {
        let with = (request.build, request.captures);
        request.folder.finished(point, seed, with, &mut |problem| monitor.damaged(problem))
    };
    let tasks: Vec<(&Point, u64)> = request.plan.runs().collect();
    let old: Vec<Option<(Outcome, Timing)>> =
        tasks.iter().map(|(point, seed)| if request.force { None } else { known(point, *seed) }).collect();
    let todo: Vec<(&Point, u64)> =
        tasks.iter().zip(&old).filter(|(_, old)| old.is_none()).map(|(task, _)| *task).collect();
    monitor.begin(todo.len(), tasks.len() - todo.len());
    let mut new = run_all(request, &todo, prepare, monitor).map_err(|failure| match failure {
        Failure::Interrupted { .. } => interrupted(request, &tasks),
        other => other,
    })?;
    // A point's number in the results is its place in the plan, which need not have all points of a sweep.
    let places = request.plan.points.iter().enumerate();
    let places = places.flat_map(|(place, point)| std::iter::repeat_n(place, point.seeds.len()));
    let runs = tasks.iter().zip(places).zip(old).map(|(((point, seed), place), old)| {
        let reused = old.is_some();
        let (outcome, timing) = old.or_else(|| new.remove(&(point.index, *seed)))?;
        Some(RunResult { point: place, outcome, timing, reused })
    });
    let runs: Vec<RunResult> = runs.flatten().collect();
    let summary = summary(request.plan, &runs);
    let results = Results { folder: request.folder.clone(), runs, summary, has_lost_packets: false };
    write_results(request, &results, monitor.clock_s() - started_s)?;
    Ok(results)
}

/// Averages the runs of each point.
pub(super) fn summary(plan: &Plan, runs: &[RunResult]) -> Summary {
    let title = plan.points.first().map_or("", |point| &point.scenario.title);
    Summary::new(title, &plan.axes, plan.points.iter().map(|point| &point.settings[..]), runs)
}

pub(super) fn naming(error: &io::Error, path: &std::path::Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn interrupted(request: &Request<'_>, tasks: &[(&Point, u64)]) -> Failure {
    let done = |(point, seed): &&(&Point, u64)| {
        request.folder.finished(point, *seed, (request.build, request.captures), &mut |_| ()).is_some()
    };
    Failure::Interrupted { finished: tasks.iter().filter(done).count(), runs: tasks.len() }
}

fn run_all(
    request: &Request<'_>,
    todo: &[(&Point, u64)],
    prepare: &(dyn Fn(&Point, u64) -> Result<Prepared, String> + Sync),
    monitor: &dyn Monitor,
) -> Result<Finished, Failure> {
    // A bridge assigns runs in order, so that the finished part after an interruption is the beginning.
    let finished = Mutex::new(Finished::new());
    let run_in_turn = || {
        todo.iter().par_bridge().try_for_each(|(point, seed)| {
            if monitor.wants_stop() {
                return Err(Failure::Interrupted { finished: 0, runs: 0 });
            }
            let run = run_one(request, point, *seed, prepare, monitor)?;
            finished.lock().unwrap_or_else(PoisonError::into_inner).insert((point.index, *seed), run);
            Ok(())
        })
    };
    let on_thread = |thread: rayon::ThreadBuilder| {
        let mut thread = Some(thread);
        monitor.thread(&mut || {
            thread.take().into_iter().for_each(rayon::ThreadBuilder::run);
        });
    };
    let threads = rayon::ThreadPoolBuilder::new().num_threads(request.jobs);
    threads.build_scoped(on_thread, |pool| pool.install(run_in_turn)).map_err(io::Error::other)??;
    Ok(finished.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Outcomes of runs, by point and seed.
type Finished = HashMap<(usize, u64), (Outcome, Timing)>;

fn run_one(
    request: &Request<'_>,
    point: &Point,
    seed: u64,
    prepare: &(dyn Fn(&Point, u64) -> Result<Prepared, String> + Sync),
    monitor: &dyn Monitor,
) -> Result<(Outcome, Timing), Failure> {
    let started_s = monitor.clock_s();
    let folder = request.folder.of_run(point, seed);
    fs::create_dir_all(&folder).map_err(|error| naming(&error, &folder))?;
    let mut prepared = prepare(point, seed).map_err(Failure::Build)?;
    let captures = start_captures(&mut prepared.network, prepared.captures, &folder, request.captures)?;
    let artefacts = tap_artefacts(&mut prepared.network, prepared.artefacts);
    let growing = Growing::new(&folder, prepared.growing);
    let recording = match record((point, seed), &mut prepared.network, (&captures[..], growing), monitor) {
        Err(Failure::Io(error)) => {
            drop(prepared.network);
            // The capture says what failed, and keeps its packets.
            captures.into_iter().try_for_each(|(_, capture)| capture.finish_files().map(drop))?;
            return Err(Failure::Io(error));
        }
        recording => recording?,
    };
    calls::write(&prepared.calls, &mut prepared.network, &folder)?;
    // Its memory serves for the files.
    let accounts = Accounts::of_ended(prepared.network);
    for (name, write) in artefacts {
        write_whole(&folder.join(name), |file| write(file))?;
    }
    let captures = captures.into_iter().map(|(_, capture)| capture.finish_files());
    let captures = captures.collect::<io::Result<Vec<_>>>()?.concat();
    let mut outcome = outcome(point, seed, &recording, (captures, accounts));
    if let Some(finish) = prepared.finish {
        outcome.measures.extend(finish(&folder).map_err(Failure::Build)?);
    }
    let captures = (!outcome.captures.is_empty()).then_some(request.captures);
    let (build, wall_s) = (request.build.to_owned(), monitor.clock_s() - started_s);
    let timing = Timing { build, wall_s, real_time: None, captures };
    request.folder.write_run((point, seed), &recording.series, &outcome, &timing)?;
    monitor.done(&label(point, seed));
    Ok((outcome, timing))
}

/// Runs a point with a seed and returns its outcome, without files.
///
/// It is for campaigns, which have too many runs for a folder each.
/// Captures and records of packets that the scenario asks for are not made. `scratch` is a folder for what is judged after the run.
///
/// # Errors
/// What cannot be assembled, recorded or judged; [`Failure::Interrupted`] if the monitor wanted to stop.
pub fn outcome_alone(
    (point, seed): (&Point, u64),
    document: &Document,
    scratch: &std::path::Path,
    monitor: &dyn Monitor,
) -> Result<Outcome, Failure> {
    let refused = |Problem { key, problem }| Failure::Build(document.refusal(&key, problem).to_string());
    let built = Built::new(&point.scenario, seed, document.access()).map_err(refused)?;
    // Records of packets would only fill memory.
    let mut scenario = point.scenario.clone();
    scenario.probe.packets.clear();
    let mut prepared = Prepared::new(built, false, &scenario);
    let recording =
        record((point, seed), &mut prepared.network, (&[], Growing::new(scratch, Vec::new())), monitor)?;
    let accounts = Accounts::of_ended(prepared.network);
    let mut outcome = outcome(point, seed, &recording, (Vec::new(), accounts));
    if let Some(finish) = prepared.finish {
        outcome.measures.extend(finish(scratch).map_err(Failure::Build)?);
    }
    Ok(outcome)
}

/// Returns the name of a run for the user.
fn label(point: &Point, seed: u64) -> String {
    let settings = point.label();
    if settings.is_empty() { format!("seed {seed}") } else { format!("{settings}, seed {seed}") }
}

/// Removes files that captures of other limits have left, as a ring of more files.
///
/// # Errors
/// Returns an error if two captures have a file of the same name, or if the file system gives one.
fn clear_earlier(folder: &std::path::Path, names: &[String], limits: CaptureLimits) -> io::Result<()> {
    let mut files = BTreeSet::new();
    for file in names.iter().flat_map(|name| limits.file_names(name)) {
        if !files.insert(file.clone()) {
            let problem = format!("two captures have the file {file}: expected points with other names");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
    }
    let is_of = |file: &str, name: &str| {
        let number = file.strip_prefix(name).and_then(|rest| rest.strip_suffix(".pcap"));
        number.is_some_and(|number| {
            number.is_empty() || number.strip_prefix('-').is_some_and(|number| number.parse::<u8>().is_ok())
        })
    };
    let earlier = listed_files(folder)?.into_iter().filter(|file| !files.contains(file));
    let mut earlier = earlier.filter(|file| names.iter().any(|name| is_of(file, name)));
    earlier.try_for_each(|file| fs::remove_file(folder.join(file)))
}

pub(super) fn start_captures(
    network: &mut Network,
    points: Vec<CapturePoint>,
    folder: &std::path::Path,
    limits: CaptureLimits,
) -> io::Result<Vec<(String, Capture)>> {
    let names: Vec<String> = points.iter().map(|point| point.name.clone()).collect();
    clear_earlier(folder, &names, limits)?;
    let mut started = Vec::new();
    for CapturePoint { name, inputs, format } in points {
        let file = format!("{name}.pcap");
        let path: PathBuf = folder.join(&file);
        let capture = Capture::start(&path, format, limits).map_err(|error| naming(&error, &path))?;
        for (element, port) in inputs {
            network.tap(element, port, capture.tap());
        }
        started.push((file, capture));
    }
    Ok(started)
}

/// Taps what artefacts are made of, and returns their files with their writers.
fn tap_artefacts(network: &mut Network, artefacts: Vec<Artefact<Input>>) -> Vec<(String, WriteArtefact)> {
    let tapped = artefacts.into_iter().map(|Artefact { file, taps, write }| {
        taps.into_iter().for_each(|((element, port), tap)| network.tap(element, port, tap));
        (file, write)
    });
    tapped.collect()
}

fn record(
    (point, seed): (&Point, u64),
    network: &mut Network,
    (captures, mut growing): (&[(String, Capture)], Growing),
    monitor: &dyn Monitor,
) -> Result<Recording, Failure> {
    let scenario = &point.scenario;
    let recorder = Recorder {
        elements: network.ids().collect(),
        interval: scenario.probe.interval,
        warm_up: scenario.probe.warm_up,
        duration: scenario.duration,
    };
    let (mut shown, label) = (0.0, label(point, seed));
    let recording = recorder.run_watched(network, |now, series| {
        monitor.sampled(&label, series);
        if monitor.is_watched() {
            captures.iter().for_each(|(_, capture)| capture.flush());
            growing.grow();
        }
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
    (captures, accounts): (Vec<CaptureFile>, Accounts),
) -> Outcome {
    let measures = measure::measures(&point.scenario, seed, recording, &accounts.ledger);
    let mut flow_notes = measure::idle(&point.scenario, seed, recording, (&measures, &accounts.ledger));
    // What others carry is in their accounts.
    let is_carried = |flow: &str| accounts.carriage.iter().any(|carried| carried.flow == flow);
    flow_notes.retain(|note| note.fact != FlowFact::NothingSent || !is_carried(&note.flow));
    flow_notes.extend(accounts.carriage);
    Outcome {
        hash: point.run_hash(seed).to_hex(),
        seed,
        fingerprint: recording.fingerprint.to_string(),
        definitions: DEFINITIONS,
        deliveries: recording.work.deliveries,
        wakeups: recording.work.wakeups,
        stray: recording.stray,
        interval_asked: recording.sampling.asked,
        interval: recording.sampling.used,
        warm_up: point.scenario.probe.warm_up,
        captures,
        measures,
        ledger: accounts.ledger,
        units: accounts.units,
        flow_notes,
        distributions: Distribution::of(recording),
        totals: FinalValues::of(&recording.end),
    }
}

/// Contents of `manifest.json`.
#[derive(Serialize, JsonSchema)]
pub struct Manifest<'a> {
    title: &'a str,
    version: &'a str,
    build: &'a str,
    /// Commit that the program was built from, with "-modified" if its sources differed.
    commit: Option<&'a str>,
    command: &'a [String],
    scenario: &'a str,
    hash: String,
    /// SHA-256 of the input files, by path.
    inputs: BTreeMap<String, String>,
    /// Limits of captures. Absent without captures.
    #[serde(skip_serializing_if = "Option::is_none")]
    captures: Option<CaptureLimits>,
    system: String,
    wall_s: f64,
    runs: Vec<ManifestRun<'a>>,
}

/// Run of a manifest.
#[derive(Serialize, JsonSchema)]
pub struct ManifestRun<'a> {
    folder: String,
    #[schemars(with = "BTreeMap<String, String>")]
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
    write_whole(&folder.join("measures.csv"), |file| write_measures(&results.summary, &results.runs, file))?;
    let inputs = request.plan.inputs.iter();
    let manifest = Manifest {
        title: &request.plan.points[0].scenario.title,
        version: VERSION,
        build: request.build,
        commit: request.commit,
        command: request.command,
        scenario: request.document.name(),
        hash: request.plan.hash().to_hex(),
        inputs: inputs.map(|(path, hash)| (path.display().to_string(), hash.to_hex())).collect(),
        captures: results.runs.iter().find_map(|run| run.timing.captures),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        wall_s,
        runs: results.runs.iter().map(|run| manifest_run(request, run)).collect(),
    };
    write_json(&folder.join("manifest.json"), &manifest)?;
    update_checksums(folder, &SUMMARIES)
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
