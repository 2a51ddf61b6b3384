//! Folders of results.

use std::path::{Path, PathBuf};

use bentpipe_record::compare::{Comparison, Variant, difference_frame};
use bentpipe_record::stats::{running_means, samples_needed};
use bentpipe_record::{Cell, Form, RunResult, Selection, SelectionError, StoredResults, Table};
use bentpipe_report::{delay_plot, flow_table, link_table, notes, run_plots};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyOSError, PyValueError};
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

/// Titles and rows of a table.
type Texts = (Vec<String>, Vec<Vec<String>>);

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

    /// Accounts of packets: a row for each run, sender, column, place and reason.
    #[getter]
    fn _ledger(&self) -> Frame {
        self.0.ledger().into()
    }

    /// Accounts of units: a row for each run, flow, column, place and reason.
    #[getter]
    fn _units(&self) -> Frame {
        self.0.units().into()
    }

    /// Returns a measure or final value of a point, averaged over the seeds.
    fn _value(&self, name: &str, point: usize) -> PyResult<Estimate> {
        let found = self.0.summary.points.get(point).and_then(|point| point.value(name));
        let found = found.ok_or_else(|| PyKeyError::new_err(format!("{name} at point {point}")))?;
        Ok((found.estimate.mean, found.estimate.ci95, found.estimate.n, found.unit))
    }

    /// Returns the values of a measure or final value, seed by seed.
    fn _values(&self, name: &str, point: usize) -> Vec<f64> {
        self.0.values(name, point)
    }

    /// Returns the number of seeds for an interval of at most this half-width.
    fn _seeds_needed(&self, name: &str, half_width: f64, point: usize) -> Option<u64> {
        samples_needed(&self.0.values(name, point), half_width)
    }

    /// Returns means over the first seeds of a point: mean, half-width, number and unit.
    fn _running_means(&self, name: &str, point: usize) -> PyResult<Vec<Estimate>> {
        let (.., unit) = self._value(name, point)?;
        let means = running_means(&self.0.values(name, point));
        Ok(means.into_iter().map(|it| (it.mean, it.ci95, it.n, unit.clone())).collect())
    }

    /// Cumulative distributions, such as delays, over all seeds of each point.
    #[getter]
    fn _distributions(&self) -> Frame {
        self.0.distributions().into()
    }

    /// Returns differences to a point of other results, seed by seed.
    ///
    /// With them notes on measures that are left out, and on what only one of both has.
    fn _compare(
        &self,
        py: Python<'_>,
        point: usize,
        other: &Results,
        of_other: usize,
    ) -> PyResult<(Frame, Option<String>)> {
        let read = |results: &Results, point| Variant::read(&format!("{}#{point}", results.0.path.display()));
        let both = py.detach(|| Ok((read(self, point)?, read(other, of_other)?)));
        let (first, second) = both.map_err(|error: String| PyOSError::new_err(error))?;
        let comparison = Comparison::of(&first, &second).about("").map_err(PyValueError::new_err)?;
        let notes: Vec<String> = [comparison.note(), comparison.alone()].into_iter().flatten().collect();
        let notes = (!notes.is_empty()).then(|| notes.join("; "));
        Ok((difference_frame(&comparison.differences).into(), notes))
    }

    /// Returns the tables of flows and links of a point: titles and cells.
    fn _tables(&self, point: usize) -> PyResult<Vec<Texts>> {
        let found = self.0.summary.points.get(point);
        let point = found.ok_or_else(|| PyIndexError::new_err(format!("point {point}")))?;
        let cells = |row: &Vec<Cell>| row.iter().map(|cell| cell.text().to_owned()).collect();
        let texts = |table: Table| (table.head, table.rows.iter().map(cells).collect());
        Ok([flow_table(point), link_table(point)].into_iter().flatten().map(texts).collect())
    }

    /// Returns notes on what a point's tables do not show.
    fn _notes(&self, point: usize) -> PyResult<Vec<String>> {
        let found = self.0.summary.points.get(point);
        found.map(notes).ok_or_else(|| PyIndexError::new_err(format!("point {point}")))
    }

    /// Returns the diagrams of a point: title and SVG. They are of its first seed, distributions of all.
    fn _plots(&self, py: Python<'_>, point: usize) -> PyResult<Vec<(String, String)>> {
        let is_first = |(run, _): &(&RunResult, &PathBuf)| run.point == point;
        let (_, folder) = self
            .0
            .runs
            .iter()
            .zip(&self.0.folders)
            .find(is_first)
            .ok_or_else(|| PyIndexError::new_err(format!("point {point}")))?;
        let outcomes = self.0.runs.iter().filter(|run| run.point == point).map(|run| &run.outcome);
        py.detach(|| {
            let mut plots = run_plots(folder).map_err(|error| PyOSError::new_err(error.to_string()))?;
            plots.extend(delay_plot(outcomes));
            Ok(plots.iter().map(|plot| (plot.title.clone(), plot.to_svg())).collect())
        })
    }

    /// Returns quantiles over the seeds of the series whose names match a pattern.
    fn _quantiles(&self, py: Python<'_>, patterns: Vec<String>, shares: Vec<f64>) -> PyResult<Frame> {
        let selection = Selection { patterns, keeps_constant: false };
        let read = py.detach(|| selection.read(&self.0.path).map(|selected| selected.quantiles(&shares)));
        read.map(Frame::from).map_err(unselected)
    }

    /// Returns Jain's index over the series whose names match, at each instant of each run.
    fn _fairness(&self, py: Python<'_>, patterns: Vec<String>) -> PyResult<Frame> {
        let selection = Selection { patterns, keeps_constant: true };
        let read = py.detach(|| selection.read(&self.0.path).map(|selected| selected.fairness()));
        read.map(Frame::from).map_err(unselected)
    }

    /// Returns the series whose names match a pattern, of all runs.
    fn _series(&self, py: Python<'_>, patterns: Vec<String>, constant: bool, long: bool) -> PyResult<Frame> {
        let selection = Selection { patterns, keeps_constant: constant };
        let form = if long { Form::Long } else { Form::Wide };
        let read = py.detach(|| selection.read(&self.0.path).map(|selected| selected.frame(form)));
        read.map(Frame::from).map_err(unselected)
    }
}

fn unselected(error: SelectionError) -> PyErr {
    match error {
        SelectionError::Unreadable(text) => PyOSError::new_err(text),
        other => errors::value(other),
    }
}
