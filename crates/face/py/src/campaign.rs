//! Campaigns.

use std::path::PathBuf;

use bentpipe_campaign::{CampaignError, gather, plan, work};
use bentpipe_lab::plan::Seeds;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError};
use pyo3::prelude::*;

use crate::build;
use crate::errors;
use crate::scenario::Scenario;
use crate::watch::{Watch, watched};

/// Campaign in a folder.
#[pyclass(frozen, module = "bentpipe._native")]
pub(crate) struct Campaign(bentpipe_campaign::Campaign);

fn raised(py: Python<'_>, error: &CampaignError) -> PyErr {
    match error {
        CampaignError::File(text) => PyOSError::new_err(text.clone()),
        CampaignError::Changed(_) => errors::named(py, "RunError", error),
        CampaignError::Interrupted { .. } => PyKeyboardInterrupt::new_err(error.to_string()),
    }
}

/// Returns the name of this machine.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| String::new(), |name| name.trim().into())
}

#[pymethods]
impl Campaign {
    /// Writes the folder of a campaign, and opens it.
    #[staticmethod]
    fn plan(
        py: Python<'_>,
        scenario: &Scenario,
        folder: PathBuf,
        seed: Option<u64>,
        seeds: Option<u32>,
    ) -> PyResult<Campaign> {
        if let Some(id) = scenario.local_class() {
            return Err(errors::value(format!(
                "\"{id}\" is a class of this process, and other processes run a campaign: use Scenario.run"
            )));
        }
        let (seeds, build) = (Seeds { first: seed, count: seeds }, build::identity(py)?);
        let (document, settings) = scenario.parts();
        let planned = py.detach(|| plan(document, &settings, seeds, &folder, build));
        planned.map_err(|error| raised(py, &error))?;
        Campaign::open(py, folder)
    }

    /// Opens the folder of a campaign.
    #[staticmethod]
    fn open(py: Python<'_>, folder: PathBuf) -> PyResult<Campaign> {
        let opened = py.detach(|| bentpipe_campaign::Campaign::open(&folder));
        opened.map(Campaign).map_err(|error| raised(py, &error))
    }

    /// Folder.
    #[getter]
    fn path(&self) -> PathBuf {
        self.0.folder().to_owned()
    }

    /// Title of the scenario.
    #[getter]
    fn title(&self) -> &str {
        &self.0.manifest().title
    }

    /// Identifier of the build that planned it.
    #[getter]
    fn build(&self) -> &str {
        &self.0.manifest().build
    }

    /// Number of runs.
    #[getter]
    fn runs(&self) -> u64 {
        self.0.manifest().runs()
    }

    /// Returns the number of finished runs, missing ranges, failures, and damaged parts.
    #[expect(clippy::type_complexity, reason = "a tuple of Python")]
    fn status(
        &self,
        py: Python<'_>,
        retry: bool,
    ) -> PyResult<(u64, Vec<(u64, u64)>, Vec<(u64, String)>, Vec<(PathBuf, String)>)> {
        let status = py.detach(|| self.0.status(retry)).map_err(|error| raised(py, &error))?;
        let ranges = status.missing.ranges().map(|range| (range.start, range.end)).collect();
        Ok((status.missing.finished(), ranges, status.failed, status.damaged))
    }

    /// Runs the missing part of a range in this process. Returns the number of its runs.
    #[pyo3(signature = (first, end, retry, progress = None))]
    fn part(
        &self,
        py: Python<'_>,
        first: u64,
        end: u64,
        retry: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let (build, host, watch) = (build::identity(py)?, host(), Watch::new());
        let work = || work(&self.0, first..end, retry, (build, &host), &watch);
        watched(py, &watch, progress, work)?.map_err(|error| raised(py, &error))
    }

    /// Notes that a run has no result.
    fn note_failure(&self, py: Python<'_>, run: u64, reason: String) -> PyResult<()> {
        let (build, host) = (build::identity(py)?, host());
        let noted = py.detach(|| self.0.note_failure(run, reason, (build, &host)));
        noted.map_err(|error| raised(py, &error))
    }

    /// Writes the tables, and returns their paths and the number of rows.
    fn gather(&self, py: Python<'_>) -> PyResult<(PathBuf, PathBuf, u64)> {
        let gathered = py.detach(|| gather(&self.0, |_, _| {})).map_err(|error| raised(py, &error))?;
        Ok((gathered.runs, gathered.summary, gathered.rows))
    }
}
