//! Folders of results.

use std::path::{Path, PathBuf};

use bentpipe_record::{Form, Selection, SelectionError, StoredResults};
use pyo3::exceptions::{PyKeyError, PyOSError};
use pyo3::prelude::*;

use crate::errors;
use crate::frame::Frame;

/// Results of a plan in a folder.
#[pyclass(frozen, module = "bentpipe._native")]
pub(crate) struct Results(StoredResults);

/// Mean, half-width of its interval, number of samples, and unit.
type Estimate = (f64, Option<f64>, u64, String);

/// Point, settings, seed, fingerprint, folder, events and seconds taken.
type Run = (usize, Vec<(String, String)>, u64, String, PathBuf, u64, f64);

impl Results {
    pub(crate) fn read(py: Python<'_>, path: &Path) -> PyResult<Results> {
        py.detach(|| StoredResults::read(path)).map(Results).map_err(PyOSError::new_err)
    }
}

#[pymethods]
impl Results {
    /// Folder of the results.
    #[getter]
    fn path(&self) -> PathBuf {
        self.0.path.clone()
    }

    /// Title of the scenario.
    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    /// Command line that gives the same results.
    #[getter]
    fn command(&self) -> &str {
        &self.0.command
    }

    /// Settings of each point of the sweep.
    #[getter]
    fn _points(&self) -> Vec<Vec<(String, String)>> {
        let points = self.0.summary.points.iter();
        points.map(|point| point.settings.clone().into_iter().collect()).collect()
    }

    /// Runs, in the order of the plan.
    #[getter]
    fn _runs(&self) -> Vec<Run> {
        let runs = self.0.runs.iter().zip(&self.0.folders);
        let row = |(run, folder): (&bentpipe_record::RunResult, &PathBuf)| {
            let point = self.0.summary.points.get(run.point);
            let settings = point.map(|point| point.settings.clone().into_iter().collect());
            let outcome = &run.outcome;
            let (print, events) = (outcome.fingerprint.clone(), outcome.events());
            (
                run.point,
                settings.unwrap_or_default(),
                outcome.seed,
                print,
                folder.clone(),
                events,
                run.timing.wall_s,
            )
        };
        runs.map(row).collect()
    }

    /// Means over the seeds: a row for each point and measure.
    #[getter]
    fn _summary(&self) -> Frame {
        self.0.summary.frame().into()
    }

    /// Measures: a row for each run and measure.
    #[getter]
    fn _measures(&self) -> Frame {
        self.0.measures().into()
    }

    /// Returns a measure or final value of a point, averaged over the seeds.
    fn _value(&self, name: &str, point: usize) -> PyResult<Estimate> {
        let found = self.0.summary.points.get(point).and_then(|point| point.value(name));
        let found = found.ok_or_else(|| PyKeyError::new_err(format!("{name} at point {point}")))?;
        Ok((found.estimate.mean, found.estimate.ci95, found.estimate.n, found.unit))
    }

    /// Returns the series whose names match a pattern, of all runs.
    fn _series(&self, py: Python<'_>, patterns: Vec<String>, constant: bool, long: bool) -> PyResult<Frame> {
        let selection = Selection { patterns, keeps_constant: constant };
        let form = if long { Form::Long } else { Form::Wide };
        let read = py.detach(|| selection.read(&self.0.path).map(|selected| selected.frame(form)));
        read.map(Frame::from).map_err(|error| match error {
            SelectionError::Unreadable(text) => PyOSError::new_err(text),
            other => errors::value(other),
        })
    }
}
