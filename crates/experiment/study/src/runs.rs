//! Finished runs of a study, and the values computed from them.

use std::collections::BTreeMap;

use bentpipe_lab::plan::{Plan, Point};
use bentpipe_lab::run::Folder;
use bentpipe_record::stats::Estimate;
use bentpipe_record::{Averaged, PointSummary, RunResult, Series, Summary};
use bentpipe_report::amount;
use bentpipe_scenario::current_key;
use bentpipe_scenario::metrics::current;
use indexmap::IndexMap;

use crate::study::{At, Value};

/// Finished run of a study.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Folder of its results.
    pub folder: Folder,
    /// Plan that was executed.
    pub plan: Plan,
    /// Summary over the seeds of each point.
    pub summary: Summary,
    /// Results of each seed of each point.
    pub results: Vec<RunResult>,
}

impl Finished {
    /// Returns the largest number of seeds of a point.
    fn seeds(&self) -> usize {
        self.plan.points.iter().map(|point| point.seeds.len()).max().unwrap_or(0)
    }

    /// Returns the run with the `n`-th seed alone, or the first where there are fewer.
    fn of_seed(&self, n: usize) -> Finished {
        let mut plan = self.plan.clone();
        for point in &mut plan.points {
            let seed = point.seeds.get(n).or(point.seeds.first()).copied();
            point.seeds = seed.into_iter().collect();
        }
        let is_kept = |run: &&RunResult| plan.points[run.point].seeds.contains(&run.outcome.seed);
        let results: Vec<RunResult> = self.results.iter().filter(is_kept).cloned().collect();
        let settings = plan.points.iter().map(|point| &point.settings[..]);
        let summary = Summary::new(&self.summary.title, &self.summary.axes, settings, &results);
        Finished { folder: self.folder.clone(), plan, summary, results }
    }

    /// Returns the plan's point of one of the summary's points.
    ///
    /// # Errors
    /// Returns an error if the summary has no such point.
    pub(crate) fn point(&self, summary: &PointSummary) -> Result<&Point, String> {
        let index = self.summary.points.iter().position(|point| std::ptr::eq(point, summary));
        index.and_then(|index| self.plan.points.get(index)).ok_or_else(|| "no such point".to_owned())
    }

    /// Returns the series of a point's first seed.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub(crate) fn series(&self, point: &Point) -> Result<Series, String> {
        let seed = point.seeds.first().ok_or("no seed")?;
        self.folder.series(point, *seed).map_err(|error| error.to_string())
    }
}

/// Length of simulations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// Length that the values need.
    #[default]
    Full,
    /// Length for a first look.
    Quick,
}

/// Points of a curve, in base units.
pub(crate) type Points = Vec<(f64, f64)>;

/// Results of the crate's functions, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Computed {
    /// Values of rows, one for each seed.
    pub(crate) values: BTreeMap<String, Result<Vec<f64>, String>>,
    /// Points of curves.
    pub(crate) curves: BTreeMap<String, Result<Points, String>>,
}

/// Runs of a study by name, and the values computed from them.
#[derive(Clone, Debug, Default)]
pub struct StudyRuns {
    runs: IndexMap<String, Finished>,
    length: Length,
    computed: Computed,
    /// Figures of live streams by their names; `None` if none were asked for.
    live: Option<IndexMap<String, Result<serde_json::Value, String>>>,
    /// Reasons for which this machine could not make runs, by their names.
    lost: IndexMap<String, String>,
    /// The same runs by one seed each; empty in such a view.
    views: Vec<StudyRuns>,
}

impl StudyRuns {
    /// Creates a collection of finished runs without computed values.
    pub fn new(runs: IndexMap<String, Finished>, length: Length) -> StudyRuns {
        let seeds = runs.values().map(Finished::seeds).max().unwrap_or(0);
        let view = |n| {
            let runs = runs.iter().map(|(name, run)| (name.clone(), run.of_seed(n))).collect();
            StudyRuns { runs, length, ..StudyRuns::default() }
        };
        let views = (0..seeds).map(view).collect();
        StudyRuns { runs, length, views, ..StudyRuns::default() }
    }

    /// Sets the runs that this machine could not make, with the reasons.
    #[must_use]
    pub fn with_lost(mut self, lost: IndexMap<String, String>) -> StudyRuns {
        self.views.iter_mut().for_each(|view| view.lost.clone_from(&lost));
        StudyRuns { lost, ..self }
    }

    /// Returns the runs that this machine could not make, with the reasons.
    pub fn lost(&self) -> impl Iterator<Item = (&String, &String)> {
        self.lost.iter()
    }

    /// Returns `true` if a run could not be made.
    pub(crate) fn is_lost(&self, name: &str) -> bool {
        self.lost.contains_key(name)
    }

    /// Returns the views by one seed each that the named runs have.
    pub(crate) fn views(&self, names: &[&str]) -> &[StudyRuns] {
        let seeds = names.iter().filter_map(|name| self.runs.get(*name)).map(Finished::seeds).max();
        match self.views.get(..seeds.unwrap_or(0)) {
            Some(views) if !views.is_empty() => views,
            _ => std::slice::from_ref(self),
        }
    }

    /// Returns the runs by one seed each.
    pub(crate) fn all_views(&self) -> &[StudyRuns] {
        if self.views.is_empty() { std::slice::from_ref(self) } else { &self.views }
    }

    /// Sets the values and curves of the crate's functions.
    pub(crate) fn set_computed(&mut self, computed: Computed) {
        self.computed = computed;
    }

    /// Sets the figures of live streams.
    pub(crate) fn set_live(&mut self, live: IndexMap<String, Result<serde_json::Value, String>>) {
        self.live = Some(live);
    }

    /// Returns `true` if live streams were asked for.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Returns a number of live streams by its place: "received.overall.interval_mean_s".
    ///
    /// # Errors
    /// Returns an error if they did not run, or lack this number.
    pub(crate) fn live(&self, name: &str, place: &str) -> Result<f64, String> {
        let live = self.live.as_ref().ok_or("only with --emulate")?;
        let figures = live.get(name).ok_or("not run")?.as_ref().map_err(String::clone)?;
        let pointer: String = place.split('.').map(|part| format!("/{part}")).collect();
        let number = figures.pointer(&pointer).and_then(serde_json::Value::as_f64);
        number.ok_or_else(|| format!("\"{place}\" is not a number of the programs"))
    }

    /// Returns the length of simulations.
    pub fn length(&self) -> Length {
        self.length
    }

    /// Returns all runs with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Finished)> {
        self.runs.iter()
    }

    /// Returns a run.
    ///
    /// # Errors
    /// Returns an error if no run has that name.
    pub fn run(&self, name: &str) -> Result<&Finished, String> {
        self.runs.get(name).ok_or_else(|| match self.lost.get(name) {
            Some(reason) => format!("run \"{name}\" was not made: {reason}"),
            None => format!("unknown run \"{name}\""),
        })
    }

    /// Returns the points of a run that have the settings of `at`.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn points(&self, run: &str, at: &At) -> Result<Vec<&PointSummary>, String> {
        let matches = |point: &&PointSummary| at.iter().all(|(key, value)| is_set(point, key, value));
        let points: Vec<&PointSummary> = self.run(run)?.summary.points.iter().filter(matches).collect();
        if points.is_empty() { Err(format!("run \"{run}\" has no point with {at:?}")) } else { Ok(points) }
    }

    /// Returns a measure of the only point that `value` selects.
    ///
    /// # Errors
    /// Returns an error if no point or several points match, or if the measure is missing.
    pub fn value(&self, value: &Value) -> Result<Averaged, String> {
        match self.points(&value.run, &value.at)?[..] {
            [point] => measure(point, &value.measure),
            ref several => {
                Err(format!("run \"{}\" has {} points with {:?}", value.run, several.len(), value.at))
            }
        }
    }

    /// Returns a column of a point of a run: time in seconds, and value.
    ///
    /// # Errors
    /// Returns an error if the point or column is missing.
    pub(crate) fn column(&self, run: &str, point: usize, series: &str) -> Result<Points, String> {
        let run = self.run(run)?;
        let recorded = run.series(run.plan.points.get(point).ok_or("no such point")?)?;
        let column = recorded.column_of(&current(series)).ok_or_else(|| format!("no series \"{series}\""))?;
        Ok(recorded.seconds().into_iter().zip(column.data.to_f64()).collect())
    }

    /// Returns the values computed by a function of the crate, in its row's unit. There is one for each seed.
    ///
    /// # Errors
    /// Returns the function's error, or an error if nothing of that name was computed.
    pub(crate) fn computed(&self, name: &str) -> Result<Vec<f64>, String> {
        self.computed.values.get(name).cloned().unwrap_or_else(|| Err(format!("unknown code \"{name}\"")))
    }

    /// Returns the points of a curve computed by a function of the crate.
    ///
    /// # Errors
    /// Returns the function's error, or an error if nothing of that name was computed.
    pub(crate) fn curve(&self, name: &str) -> Result<Points, String> {
        self.computed.curves.get(name).cloned().unwrap_or_else(|| Err(format!("unknown curve \"{name}\"")))
    }
}

/// Returns the mean of one value per seed.
///
/// It has no interval if all values are equal.
///
/// # Errors
/// Returns an error if `samples` is empty.
pub(crate) fn estimate(samples: &[f64]) -> Result<Estimate, String> {
    let estimate = Estimate::of(samples).ok_or("no value")?;
    let is_constant = samples.iter().all(|sample| *sample == samples[0]);
    Ok(if is_constant { Estimate { n: 1, mean: samples[0], ci95: None } } else { estimate })
}

/// Returns a measure of a point.
///
/// # Errors
/// Returns an error if the measure is missing.
pub(crate) fn measure(point: &PointSummary, name: &str) -> Result<Averaged, String> {
    point.value(&current(name)).ok_or_else(|| format!("no measure \"{name}\""))
}

/// Returns `true` if a sweep set `key`, or a key ending in it, to `value`.
fn is_set(point: &PointSummary, key: &str, value: &str) -> bool {
    let key = &*current_key(key);
    let same_key = |own: &str| own == key || own.strip_suffix(key).is_some_and(|rest| rest.ends_with('.'));
    let same =
        |own: &str| own == value || amount::number(own).is_some_and(|n| amount::number(value) == Some(n));
    point.settings.iter().any(|(own, set)| same_key(own) && same(set))
}
