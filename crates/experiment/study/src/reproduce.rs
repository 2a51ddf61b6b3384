//! Execution of a study, its comparison and its report.

use std::path::{Path, PathBuf};

use bentpipe_lab::plan::Plan;
use bentpipe_lab::run::{Failure, Folder, Monitor};
use bentpipe_record::{VERSION, write_json};
use bentpipe_report::results_page;
use indexmap::IndexMap;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::comparison::{Comparison, compare};
use crate::computed::compute;
use crate::controller::Order;
use crate::emulated::{self, EmulatedFlow};
use crate::expected::{Kind, Verdict};
use crate::kernel::{self, KernelComparison};
use crate::report::study_page;
use crate::request::{Planned, Request};
use crate::runs::{Finished, Length, StudyRuns};
use crate::spread::Interval;
use crate::study::Run;
use crate::transfer::Streams;

/// Results of a study.
pub struct Reproduced {
    /// Folder of results, with `report.html`.
    pub folder: PathBuf,
    /// Rows with their verdicts.
    pub comparisons: Vec<Comparison>,
    /// Comparisons with the kernel's TCP, if requested.
    pub kernel: Vec<KernelComparison>,
    /// Flows that the test controller simulated and emulated, if requested.
    pub emulated: Vec<EmulatedFlow>,
    /// Wall-clock time of all runs in seconds, one after the other. Those that were there count too.
    pub seconds: f64,
}

impl Reproduced {
    /// Returns `true` if no value is missed.
    pub fn is_met(&self) -> bool {
        self.comparisons.iter().all(|comparison| comparison.verdict != Verdict::Missed)
            && self.kernel.iter().all(|comparison| comparison.verdict != Verdict::Missed)
    }
}

/// Runs a study, compares its rows and writes the report.
///
/// # Errors
/// Returns an error if a scenario is invalid or a run fails.
pub fn reproduce(request: &Request<'_>, monitor: &dyn Monitor) -> Result<Reproduced, Failure> {
    let study = request.study;
    let plans = study.runs.iter().map(|(name, run)| Ok((name, planned(request, run)?)));
    let plans: IndexMap<&String, Planned> = plans.collect::<Result<_, Failure>>()?;
    let hash = hash(plans.values().map(|planned| &planned.plan));
    let folder = request.parent.join(format!("reproduce-{}-{hash}", study.name));
    let controlled = by_controller(request, &plans, &folder, monitor)?;
    let (mut finished, mut lost) = (IndexMap::new(), IndexMap::new());
    for (name, planned) in &plans {
        match execute(request, name, planned, &folder, monitor)? {
            Ok(run) => drop(finished.insert((*name).clone(), run)),
            Err(reason) => drop(lost.insert((*name).clone(), reason)),
        }
    }
    let length = if request.quick { Length::Quick } else { Length::Full };
    let mut runs = StudyRuns::new(finished, length).with_lost(lost);
    let computed = compute(study, &runs, request.jobs, monitor)?;
    runs.set_computed(computed);
    std::fs::create_dir_all(&folder)?;
    if let Some(live) = live_streams(request, &folder, monitor)? {
        runs.set_live(live);
    }
    let comparisons = compare(study, &runs, request.quick);
    write_json(&folder.join("comparison.json"), &comparisons.iter().map(Line::new).collect::<Vec<_>>())?;
    let mut facts = facts(request, &runs);
    facts.extend(controlled);
    let mut page = study_page(study, &comparisons, &runs, facts);
    let kernel = kernel_comparisons(request, &folder, monitor)?;
    page.blocks.extend(kernel::blocks(study, &kernel));
    let emulated = emulated::compare(request, &folder, monitor)?;
    page.blocks.extend(emulated::blocks(&emulated));
    page.write(&folder.join("report.html"))?;
    let seconds = runs.iter().flat_map(|(_, run)| &run.results).map(|result| result.timing.wall_s).sum();
    Ok(Reproduced { folder, comparisons, kernel, emulated, seconds })
}

/// Has a test controller make the runs, if the study is of one. Returns a remark for the report.
fn by_controller(
    request: &Request<'_>,
    plans: &IndexMap<&String, Planned>,
    parent: &Path,
    monitor: &dyn Monitor,
) -> Result<Option<(String, String)>, Failure> {
    let Some(controller) = request.controller.filter(|_| request.is_controlled()) else { return Ok(None) };
    let is_there = |name: &str, planned: &Planned| {
        let folder = Folder::new(parent, name, &planned.plan);
        planned.plan.runs().all(|(point, seed)| {
            let outcome = std::fs::read(folder.of_run(point, seed).join("outcome.json")).unwrap_or_default();
            let outcome: serde_json::Value = serde_json::from_slice(&outcome).unwrap_or_default();
            outcome["hash"].as_str() == Some(&point.run_hash(seed).to_hex())
        })
    };
    let order = |name: &String, planned: &Planned| {
        let run = &request.study.runs[name];
        let quick = run.quick.iter().filter(|_| request.quick);
        let over_time = request.study.figures.iter().filter(|figure| figure.x.is_none());
        let curves =
            over_time.flat_map(|figure| &figure.curve).filter(|curve| curve.run.as_ref() == Some(name));
        Order {
            name: name.clone(),
            label: name.clone(),
            scenario: request.study.folder.join(&run.scenario),
            sets: run.set.iter().chain(quick).cloned().collect(),
            seeds: run.seeds(request.quick),
            folder: Folder::new(parent, name, &planned.plan).path().to_owned(),
            curves: curves.map(|curve| curve.measure.clone()).collect(),
            is_emulated: false,
            alone: None,
        }
    };
    let missing = plans.iter().filter(|(name, planned)| request.force || !is_there(name, planned));
    let orders: Vec<Order> = missing.map(|(name, planned)| order(name, planned)).collect();
    if !orders.is_empty() {
        controller.run(&orders, monitor)?;
    }
    if let Some((name, _)) = plans.iter().find(|(name, planned)| !is_there(name, planned)) {
        let why = "the test controller made other runs than the study has";
        return Err(Failure::Build(format!("run {name}: {why}")));
    }
    let words = "bentpipe serve, through its interface: scenarios configured, jobs launched, results and curves fetched";
    Ok(Some(("made by".to_owned(), words.to_owned())))
}

/// Figures of live streams by their names.
type LiveFigures = IndexMap<String, Result<serde_json::Value, String>>;

/// Runs the live streams of a study, if that is requested, one after the other.
fn live_streams(
    request: &Request<'_>,
    folder: &Path,
    monitor: &dyn Monitor,
) -> Result<Option<LiveFigures>, Failure> {
    let Some(kernel) = request.kernel else { return Ok(None) };
    let mut all = IndexMap::new();
    for (name, live) in &request.study.live {
        if monitor.wants_stop() {
            return Err(Failure::Interrupted { finished: all.len(), runs: request.study.live.len() });
        }
        let duration = if request.quick { live.quick } else { live.duration };
        let study = &request.study.folder;
        let figures = kernel.streams(&Streams { name, live, study, duration, folder });
        if let Ok(figures) = &figures {
            write_json(&folder.join(format!("live-{name}.json")), figures)?;
        }
        all.insert(name.clone(), figures);
    }
    Ok(Some(all))
}

/// Compares with the kernel's TCP, if that is requested and the study has such transfers.
fn kernel_comparisons(
    request: &Request<'_>,
    folder: &Path,
    monitor: &dyn Monitor,
) -> Result<Vec<KernelComparison>, Failure> {
    let (Some(kernel), Some(tests)) = (request.kernel, &request.study.kernel) else { return Ok(Vec::new()) };
    let comparisons = kernel::compare(request, tests, kernel, folder, monitor)?;
    let lines: Vec<kernel::Line<'_>> = comparisons.iter().map(kernel::Line::new).collect();
    write_json(&folder.join("kernel.json"), &lines)?;
    Ok(comparisons)
}

fn planned(request: &Request<'_>, run: &Run) -> Result<Planned, Failure> {
    let quick = run.quick.iter().filter(|_| request.quick);
    request.planned(&run.scenario, run.set.iter().chain(quick), run.seeds(request.quick))
}

/// Executes a run of the study and writes its own report.
fn execute(
    request: &Request<'_>,
    name: &str,
    planned: &Planned,
    folder: &Path,
    monitor: &dyn Monitor,
) -> Result<Result<Finished, String>, Failure> {
    request.execute(planned, name, folder, monitor, |request, results| {
        results_page(&results.with_texts(request)).write(&results.folder.path().join("report.html"))?;
        let plan = planned.plan.clone();
        Ok(Finished { folder: results.folder, plan, summary: results.summary, results: results.runs })
    })
}

fn facts(request: &Request<'_>, runs: &StudyRuns) -> Vec<(String, String)> {
    let mut facts = vec![("version".to_owned(), VERSION.to_owned())];
    if request.quick {
        facts.push(("length".to_owned(), "quick: shorter than the study specifies".to_owned()));
    }
    facts.extend(runs.lost().map(|(name, reason)| (format!("run {name} was not made"), reason.clone())));
    facts
}

/// Returns twelve digits that identify the plans.
fn hash<'a>(plans: impl Iterator<Item = &'a Plan>) -> String {
    let mut hasher = Sha256::new();
    plans.for_each(|plan| hasher.update(plan.hash().to_hex()));
    let digest = hasher.finalize();
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Row of `comparison.json`.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    what: &'a str,
    kind: Kind,
    /// Choice that was made, and on which row.
    fitted: &'a str,
    published: Option<String>,
    /// Value of a check of the study itself.
    expected: Option<String>,
    unit: &'a str,
    simulated: Option<f64>,
    ci95: Option<f64>,
    /// 95 % confidence interval of quantities with a greatest value.
    interval: Option<Interval>,
    /// Values that agree; of a single published run, those that one simulated run can have.
    agrees: String,
    problem: Option<&'a str>,
    deviation: Option<f64>,
    verdict: Verdict,
    /// Cause of a known miss.
    known: &'a str,
    source: &'a str,
}

impl<'a> Line<'a> {
    fn new(comparison: &'a Comparison) -> Line<'a> {
        let (row, simulated) = (&comparison.row, comparison.simulated.as_ref().ok());
        Line {
            id: &row.id,
            what: &row.what,
            kind: row.kind,
            fitted: &row.fitted,
            published: row.kind.is_published().then(|| row.expected.to_string()),
            expected: (!row.kind.is_published()).then(|| row.expected.to_string()),
            unit: &row.unit,
            simulated: simulated.map(|estimate| estimate.mean),
            ci95: simulated.and_then(|estimate| estimate.ci95),
            interval: comparison.interval,
            agrees: comparison.band_text(),
            problem: comparison.simulated.as_ref().err().map(String::as_str),
            deviation: simulated.and_then(|estimate| row.expected.deviation(estimate.mean)),
            verdict: comparison.verdict,
            known: &row.missed,
            source: &row.source,
        }
    }
}
