//! Running a study.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::kernel::{self, Beside, Kernel};
use super::{Comparison, Finished, Kind, Length, Study, StudyRuns, Verdict, compare, study_page};
use crate::plan::{Plan, Seeds, VERSION};
use crate::run::{self, Failure, Folder, Monitor, write_json};
use crate::scenario::{Document, Error};

/// How to run a study.
pub struct Request<'a> {
    /// The study.
    pub study: &'a Study,
    /// Whether to shorten it as it says.
    pub quick: bool,
    /// Where its folder is to be.
    pub parent: &'a Path,
    /// How many runs at a time; zero for one on each processor.
    pub jobs: usize,
    /// Whether finished runs are run again.
    pub force: bool,
    /// What tells this program from others that may give other results.
    pub build: &'a str,
    /// The command line, for the manifests.
    pub command: &'a [String],
    /// Who sends with the kernel's TCP, if that is asked for.
    pub kernel: Option<&'a dyn Kernel>,
}

/// A study that was run.
pub struct Reproduced {
    /// Its folder, with `report.html`.
    pub folder: PathBuf,
    /// Every row.
    pub comparisons: Vec<Comparison>,
    /// The kernel's TCP beside ours, where that was asked for.
    pub beside: Vec<Beside>,
}

impl Reproduced {
    /// Whether no value is missed.
    pub fn is_met(&self) -> bool {
        self.comparisons.iter().all(|comparison| comparison.verdict != Verdict::Missed)
            && self.beside.iter().all(|beside| beside.verdict != Verdict::Missed)
    }
}

/// Runs a study and compares.
///
/// # Errors
/// If a scenario of it is wrong, or cannot be run.
pub fn reproduce(request: &Request<'_>, monitor: &dyn Monitor) -> Result<Reproduced, Failure> {
    let study = request.study;
    let plans = study.runs.iter().map(|(name, run)| Ok((name, planned(study, run, request.quick)?)));
    let plans = plans.collect::<Result<Vec<_>, Failure>>()?;
    let folder =
        request.parent.join(format!("reproduce-{}-{}", study.name, hash(plans.iter().map(|(_, p)| &p.1))));
    let length = if request.quick { Length::Quick } else { Length::Full };
    let mut runs = StudyRuns::new(IndexMap::new(), length);
    for (name, (document, plan)) in plans {
        let request = run::Request {
            document: &document,
            plan: &plan,
            folder: Folder::new(&folder, name, &plan),
            jobs: request.jobs,
            force: request.force,
            snap_len: usize::MAX,
            build: request.build,
            command: request.command,
        };
        let prepare = |point: &_, seed| run::prepare(&document, &plan.folder, point, seed);
        let results = run::execute(&request, &prepare, monitor)?;
        crate::report::results_page(&results, &request).write(&results.folder.path().join("report.html"))?;
        let finished = Finished { folder: results.folder, summary: results.summary, plan: plan.clone() };
        runs.0.insert(name.clone(), finished);
    }
    runs.compute(study, request.jobs, monitor)?;
    let comparisons = compare(study, &runs, request.quick);
    std::fs::create_dir_all(&folder)?;
    write_json(&folder.join("comparison.json"), &comparisons.iter().map(Line::new).collect::<Vec<_>>())?;
    let mut page = study_page(study, &comparisons, &runs, facts(request));
    let beside = match (request.kernel, &study.kernel) {
        (Some(kernel), Some(tests)) => kernel::beside(request, tests, kernel, &folder, monitor)?,
        _ => Vec::new(),
    };
    if !beside.is_empty() {
        write_json(&folder.join("kernel.json"), &beside.iter().map(kernel::Line::new).collect::<Vec<_>>())?;
        page.blocks.extend(kernel::blocks(study, &beside));
    }
    page.write(&folder.join("report.html"))?;
    Ok(Reproduced { folder, comparisons, beside })
}

fn facts(request: &Request<'_>) -> Vec<(String, String)> {
    let mut facts = vec![("version".to_owned(), VERSION.to_owned())];
    if request.quick {
        facts.push(("length".to_owned(), "quick: shorter than the study asks for".to_owned()));
    }
    facts
}

fn planned(study: &Study, run: &super::Run, quick: bool) -> Result<(Document, Plan), Failure> {
    let wrong = |error: String| Failure::Build(error);
    let path = study.folder.join(&run.scenario);
    let mut document = Document::read(&path).map_err(|error: Error| wrong(error.to_string()))?;
    let quick_sets = run.quick.iter().filter(|_| quick);
    for set in run.set.iter().chain(quick_sets) {
        document.set(set).map_err(|error| wrong(error.to_string()))?;
    }
    let count = if quick { Some(1) } else { run.seeds };
    let plan =
        Plan::new(&document, Seeds { first: None, count }).map_err(|error| wrong(error.to_string()))?;
    Ok((document, plan))
}

/// Twelve digits that tell what was run.
fn hash<'a>(plans: impl Iterator<Item = &'a Plan>) -> String {
    let mut hasher = Sha256::new();
    plans.for_each(|plan| hasher.update(plan.hash().to_hex()));
    let digest = hasher.finalize();
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// A row of `comparison.json`.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    what: &'a str,
    kind: Kind,
    published: String,
    unit: &'a str,
    ours: Option<f64>,
    ci95: Option<f64>,
    problem: Option<&'a str>,
    deviation: Option<f64>,
    verdict: Verdict,
    /// Why it is missed, if it is known to be.
    known: &'a str,
    source: &'a str,
}

impl<'a> Line<'a> {
    fn new(comparison: &'a Comparison) -> Line<'a> {
        let (row, ours) = (&comparison.row, comparison.ours.as_ref().ok());
        Line {
            id: &row.id,
            what: &row.what,
            kind: row.kind,
            published: row.expected.to_string(),
            unit: &row.unit,
            ours: ours.map(|(ours, _)| *ours),
            ci95: ours.and_then(|(_, ci95)| *ci95),
            problem: comparison.ours.as_ref().err().map(String::as_str),
            deviation: ours.and_then(|(ours, _)| row.expected.deviation(*ours)),
            verdict: comparison.verdict,
            known: &row.missed,
            source: &row.source,
        }
    }
}
