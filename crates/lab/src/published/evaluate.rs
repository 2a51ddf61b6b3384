//! Finding our values.

use indexmap::IndexMap;

use super::computed::Computed;
use super::study::{At, Ours, Row, Study, Value};
use super::{Comparison, Verdict};
use crate::run::{Averaged, Folder, PointSummary, Summary};
use crate::units;

/// A run of a study that is finished.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Where it is.
    pub folder: Folder,
    /// The plan it followed.
    pub plan: crate::plan::Plan,
    /// What it gave.
    pub summary: Summary,
}

/// How long what functions of the crate simulate is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// As long as the values need.
    #[default]
    Full,
    /// For a first look.
    Quick,
}

/// All runs of a study, by name.
#[derive(Clone, Debug, Default)]
pub struct StudyRuns(pub IndexMap<String, Finished>, pub Length, pub(super) Computed);

impl StudyRuns {
    /// These runs, of which nothing is computed yet.
    pub fn new(runs: IndexMap<String, Finished>, length: Length) -> StudyRuns {
        StudyRuns(runs, length, Computed::default())
    }

    /// The points of a run whose settings are as `at` says.
    ///
    /// # Errors
    /// If there is none, in words.
    pub fn points(&self, run: &str, at: &At) -> Result<Vec<&PointSummary>, String> {
        let finished = self.0.get(run).ok_or_else(|| format!("no run \"{run}\""))?;
        let matches = |point: &&PointSummary| at.iter().all(|(key, value)| is_set(point, key, value));
        let points: Vec<&PointSummary> = finished.summary.points.iter().filter(matches).collect();
        if points.is_empty() { Err(format!("run \"{run}\" has no point with {at:?}")) } else { Ok(points) }
    }

    /// A measure of the only point that `value` names.
    ///
    /// # Errors
    /// If there is none or several, in words.
    pub fn value(&self, value: &Value) -> Result<&Averaged, String> {
        match self.points(&value.run, &value.at)?[..] {
            [point] => measure(point, &value.measure),
            ref several => {
                Err(format!("run \"{}\" has {} points with {:?}", value.run, several.len(), value.at))
            }
        }
    }
}

/// Whether a sweep set `key`, or one that ends so, to `value`, however the number is written.
fn is_set(point: &PointSummary, key: &str, value: &str) -> bool {
    let same_key = |own: &str| own == key || own.strip_suffix(key).is_some_and(|rest| rest.ends_with('.'));
    let same =
        |own: &str| own == value || units::number(own).is_some_and(|n| units::number(value) == Some(n));
    point.settings.iter().any(|(own, set)| same_key(own) && same(set))
}

fn measure<'a>(point: &'a PointSummary, name: &str) -> Result<&'a Averaged, String> {
    point.value(name).ok_or_else(|| format!("no measure \"{name}\""))
}

/// Holds every row of a study against its runs.
pub fn compare(study: &Study, runs: &StudyRuns, quick: bool) -> Vec<Comparison> {
    study.rows.iter().map(|row| compare_row(row, runs, quick)).collect()
}

fn compare_row(row: &Row, runs: &StudyRuns, quick: bool) -> Comparison {
    let ours = ours(row, runs);
    let verdict = match &ours {
        _ if quick && !row.quick => Verdict::NotJudged,
        Ok((ours, _)) if row.expected.holds(*ours) => Verdict::Met,
        _ => Verdict::Missed,
    };
    Comparison { row: row.clone(), ours, verdict }
}

fn ours(row: &Row, runs: &StudyRuns) -> Result<(f64, Option<f64>), String> {
    match &row.ours {
        Ours::Measure(value) => {
            let averaged = runs.value(value)?;
            let factor = units::factor(&averaged.unit, &row.unit)?;
            Ok((averaged.estimate.mean / factor, averaged.estimate.ci95.map(|half| half / factor)))
        }
        Ours::Ratio(value, over) => {
            let (value, over) = (runs.value(value)?, runs.value(over)?);
            let ratio = value.estimate.mean / over.estimate.mean / units::factor("ratio", &row.unit)?;
            Ok((ratio, ratio_error(value, over).map(|share| share * ratio)))
        }
        Ours::BestAt(value, key) => best_at(runs, value, key, &row.unit).map(|best| (best, None)),
        Ours::Code(name) => runs.computed(name),
    }
}

/// The relative error of a quotient of independent values.
fn ratio_error(value: &Averaged, over: &Averaged) -> Option<f64> {
    let share = |averaged: &Averaged| Some(averaged.estimate.ci95? / averaged.estimate.mean);
    Some(share(value)?.hypot(share(over)?))
}

/// The value of `key`, in `unit`, at the point where the measure is largest.
fn best_at(runs: &StudyRuns, value: &Value, key: &str, unit: &str) -> Result<f64, String> {
    let points = runs.points(&value.run, &value.at)?;
    let means = points.iter().map(|point| Ok((measure(point, &value.measure)?.estimate.mean, point)));
    let means = means.collect::<Result<Vec<_>, String>>()?;
    let best = means.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, point)| point);
    let set = best.and_then(|point| point.settings.get(key));
    let set = set.ok_or_else(|| format!("run \"{}\" does not sweep \"{key}\"", value.run))?;
    let (number, base) = units::number(set).ok_or_else(|| format!("\"{set}\" is no number"))?;
    Ok(number / units::factor(base, unit)?)
}
