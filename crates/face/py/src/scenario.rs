//! Scenarios.

use std::path::{Path, PathBuf};

use bentpipe_cc as cc;
use bentpipe_lab::budget::Budget;
use bentpipe_lab::check;
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_lab::run::{self, Assembled, Failure, Folder, Request};
use bentpipe_net as net;
use bentpipe_report::results_page;
use bentpipe_scenario::{Document, ScenarioError};
use bentpipe_transport::app;
use bentpipe_units::Registered as _;
use pyo3::prelude::*;

use crate::build;
use crate::errors;
use crate::results::Results;
use crate::values::{assigned, with};
use crate::watch::{Watch, watched};

/// Bytes of each captured packet that are kept: all.
const SNAP_LEN: usize = 262_144;

/// Scenario with its overrides. Immutable.
#[pyclass(frozen, module = "bentpipe._native")]
pub(crate) struct Scenario {
    document: Document,
    /// Overrides in their order: option as errors name it, and assignment.
    set: Vec<(String, String)>,
}

/// Error returned when a scenario cannot be run.
enum Refused {
    Scenario(ScenarioError),
    Run(Failure),
}

impl From<ScenarioError> for Refused {
    fn from(error: ScenarioError) -> Refused {
        Refused::Scenario(error)
    }
}

impl From<Failure> for Refused {
    fn from(error: Failure) -> Refused {
        Refused::Run(error)
    }
}

impl Scenario {
    pub(crate) fn read(py: Python<'_>, path: &Path) -> PyResult<Scenario> {
        let document =
            py.detach(|| bentpipe_paths::document(path)).map_err(|error| errors::read(py, &error))?;
        Ok(Scenario { document, set: Vec::new() })
    }

    pub(crate) fn parse(
        py: Python<'_>,
        text: &str,
        name: &str,
        folder: Option<PathBuf>,
    ) -> PyResult<Scenario> {
        let document =
            Document::parse(name, text.as_bytes()).map_err(|error| errors::scenario(py, &error))?;
        let document = document.with_access(bentpipe_paths::any_file(&folder.unwrap_or_default()));
        Ok(Scenario { document, set: Vec::new() })
    }

    fn with(&self, py: Python<'_>, option: String, assignment: String) -> PyResult<Scenario> {
        let document = with(py, &self.document, (&option, &assignment))?;
        let set = self.set.iter().cloned().chain([(option, assignment)]).collect();
        Ok(Scenario { document, set })
    }

    /// Returns the file and its overrides.
    pub(crate) fn parts(&self) -> (&Document, Vec<String>) {
        (&self.document, self.set.iter().map(|(_, set)| set.clone()).collect())
    }

    /// Returns the identifier of a class that only this process knows.
    ///
    /// It is a controller, an element or a source.
    pub(crate) fn local_class(&self) -> Option<&'static str> {
        let mut texts = self.set.iter().map(|(_, set)| set.as_str()).chain([self.document.text()]);
        texts.find_map(|text| {
            let controller = cc::custom::Maker::registry().named_in(text);
            let element = || net::custom::Maker::registry().named_in(text);
            let source = || app::custom::Maker::registry().named_in(text);
            controller.or_else(element).or_else(source)
        })
    }

    /// Returns the command line that gives the same results.
    fn command(&self, seeds: Seeds) -> Vec<String> {
        let mut words = vec!["bentpipe".to_owned(), "run".to_owned(), self.document.name().to_owned()];
        self.set.iter().for_each(|(_, set)| words.extend(["--set".to_owned(), set.clone()]));
        words.extend(seeds.first.into_iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
        words.extend(seeds.count.into_iter().flat_map(|count| ["--seeds".to_owned(), count.to_string()]));
        words
    }

    fn plan(&self, py: Python<'_>, seeds: Seeds) -> PyResult<Plan> {
        let plan = py.detach(|| Plan::new(&self.document, seeds));
        plan.map_err(|error| errors::scenario(py, &error))
    }
}

#[pymethods]
impl Scenario {
    /// Returns a scenario with a key set, as `--set KEY=VALUE` does.
    fn set(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<Scenario> {
        let text = assigned(value)?;
        self.with(py, format!("set({key:?}, {:?})", text), format!("{key}={text}"))
    }

    /// Returns a scenario that sweeps a key over a list of values.
    fn sweep(&self, py: Python<'_>, key: &str, values: &Bound<'_, PyAny>) -> PyResult<Scenario> {
        let text = assigned(values)?;
        self.with(py, format!("sweep({key:?})"), format!("sweep.{key}={text}"))
    }

    /// Name of the file, as errors give it.
    #[getter]
    fn name(&self) -> &str {
        self.document.name()
    }

    /// Title; empty if it has none.
    #[getter]
    fn title(&self) -> String {
        self.document.title().unwrap_or_default()
    }

    /// Text of the file, without overrides.
    #[getter]
    fn text(&self) -> &str {
        self.document.text()
    }

    /// Notes on the file, such as older spellings.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.document.notes().to_vec()
    }

    /// Axes of the sweep with their numbers of values.
    #[getter]
    fn axes(&self) -> Vec<(String, usize)> {
        self.document.axes().map(|(name, values)| (name.to_owned(), values)).collect()
    }

    /// Returns the first point's scenario as TOML, with all defaults written out.
    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        let scenario = self.document.scenario().map_err(|error| errors::scenario(py, &error))?;
        toml::to_string_pretty(&scenario).map_err(errors::value)
    }

    /// Returns the content hash of the plan.
    ///
    /// It covers the scenario, the files that it names, seeds and version.
    #[getter]
    fn hash(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.plan(py, Seeds::default())?.hash().to_hex())
    }

    /// Checks all points and returns the budget of the first one as text.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        let checked =
            py.detach(|| check::check(&self.document)).map_err(|error| errors::point(py, &error))?;
        let budget = Budget::with_files(&checked.first, Some(self.document.access()));
        let refused = budget.map_err(|problem| self.document.refusal(&problem.key, problem.problem));
        refused.map(|budget| budget.to_string()).map_err(|error| errors::scenario(py, &error))
    }

    /// Runs all points with all seeds, as `bentpipe run` does.
    #[pyo3(signature = (*, seed = None, seeds = None, jobs = 0, out = PathBuf::from("runs"), force = false, progress = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn run(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        seeds: Option<u32>,
        jobs: usize,
        out: PathBuf,
        force: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Results> {
        if seeds.is_some_and(|seeds| !(1..=10_000).contains(&seeds)) {
            return Err(errors::value("seeds: expected 1 to 10,000"));
        }
        let seeds = Seeds { first: seed, count: seeds };
        let (build, command, watch) = (build::identity(py)?, self.command(seeds), Watch::new());
        let work = || -> Result<PathBuf, Refused> {
            let plan = Plan::new(&self.document, seeds)?;
            let name = Path::new(self.document.name()).file_stem().unwrap_or_default().to_string_lossy();
            let request = Request {
                document: &self.document,
                plan: &plan,
                folder: Folder::new(&out, &name, &plan),
                jobs,
                force,
                captures: SNAP_LEN.into(),
                build,
                commit: build::COMMIT,
                command: &command,
            };
            let assembled = Assembled::unfinished(&request)?;
            let prepare = |point: &_, seed| assembled.prepare(point, seed);
            let results = run::execute(&request, &prepare, &watch)?;
            let page = results.folder.path().join("report.html");
            results_page(&results.with_texts(&request)).write(&page).map_err(Failure::Io)?;
            Ok(results.folder.path().to_owned())
        };
        match watched(py, &watch, progress, work)? {
            Ok(folder) => Results::read(py, &folder),
            Err(Refused::Scenario(error)) => Err(errors::scenario(py, &error)),
            Err(Refused::Run(failure)) => Err(errors::run(py, &failure)),
        }
    }

    /// Identifier of a class that only this process knows, if the scenario names one.
    #[getter]
    fn _local_class(&self) -> Option<&'static str> {
        self.local_class()
    }

    /// Text, name, folder and overrides, from which `_rebuilt` makes the scenario again.
    fn _parts(&self) -> (&str, &str, PathBuf, Vec<(String, String)>) {
        let folder = std::path::absolute(self.document.access().folder());
        let folder = folder.unwrap_or_else(|_| self.document.access().folder().to_owned());
        (self.document.text(), self.document.name(), folder, self.set.clone())
    }

    /// Creates a scenario from its parts.
    #[staticmethod]
    fn _rebuilt(
        py: Python<'_>,
        text: &str,
        name: &str,
        folder: PathBuf,
        set: Vec<(String, String)>,
    ) -> PyResult<Scenario> {
        let scenario = Scenario::parse(py, text, name, Some(folder))?;
        set.into_iter().try_fold(scenario, |scenario, (option, set)| scenario.with(py, option, set))
    }
}
