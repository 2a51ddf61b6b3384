//! Means over the seeds, for each point of a sweep.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stats::Estimate;
use super::{FinalValues, Measure, RunResult, VERSION, quoted};

/// A key that a sweep set, and the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Number of the axis.
    pub axis: usize,
    /// The dotted key.
    pub key: String,
    /// The value as the file writes it, texts without quotes.
    pub value: String,
}

impl Setting {
    /// Returns the last part of the key: "receive_buffer".
    pub fn short_key(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }
}

/// Averages over the seeds of a plan's runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The scenario's title.
    pub title: String,
    /// The version that ran it.
    pub version: String,
    /// The names of the sweep's axes.
    pub axes: Vec<String>,
    /// The points, in the order of the plan.
    pub points: Vec<PointSummary>,
}

/// Averages of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointSummary {
    /// Keys and values set by the sweep.
    #[schemars(with = "BTreeMap<String, String>")]
    pub settings: IndexMap<String, String>,
    /// The seeds averaged over.
    pub seeds: Vec<u64>,
    /// The runs' fingerprints, in the order of the seeds.
    pub fingerprints: Vec<String>,
    /// Measures of flows and links, by name.
    #[schemars(with = "BTreeMap<String, Averaged>")]
    pub measures: IndexMap<String, Averaged>,
    /// Final values of all counters and gauges, of each seed. The runs' outcomes have them.
    #[serde(skip)]
    pub totals: Vec<FinalValues>,
}

/// A measure averaged over the seeds that gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Averaged {
    /// Unit.
    pub unit: String,
    /// The mean, and its confidence interval.
    #[serde(flatten)]
    pub estimate: Estimate,
}

impl Summary {
    /// Averages the runs of each point. The settings are in the order of the plan.
    pub fn new<'a>(
        title: &str,
        axes: &[String],
        points: impl Iterator<Item = &'a [Setting]>,
        runs: &[RunResult],
    ) -> Summary {
        let points = points.enumerate().map(|(number, settings)| {
            let of_point: Vec<&RunResult> = runs.iter().filter(|run| run.point == number).collect();
            PointSummary::new(settings, &of_point)
        });
        Summary {
            title: title.to_owned(),
            version: VERSION.to_owned(),
            axes: axes.to_vec(),
            points: points.collect(),
        }
    }

    /// Returns `true` if several seeds give the same run at every point.
    pub fn is_seed_without_effect(&self) -> bool {
        let mut points = self.points.iter().map(|point| &point.fingerprints[..]);
        points.clone().any(|runs| runs.len() > 1)
            && points.all(|runs| runs.iter().all(|fingerprint| *fingerprint == runs[0]))
    }

    /// Writes a row for each point and measure.
    ///
    /// # Errors
    /// As `out` gives.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        let keys: Vec<&String> =
            self.points.first().map(|point| point.settings.keys().collect()).unwrap_or_default();
        let titles = keys.iter().map(|key| quoted(key) + ",").collect::<String>();
        writeln!(out, "point,{titles}measure,unit,n,mean,ci95")?;
        for (index, point) in self.points.iter().enumerate() {
            let settings = point.settings.values().map(|value| quoted(value) + ",").collect::<String>();
            for (name, Averaged { unit, estimate }) in &point.measures {
                let ci95 = estimate.ci95.map(|half| half.to_string()).unwrap_or_default();
                let (name, n, mean) = (quoted(name), estimate.n, estimate.mean);
                writeln!(out, "{index},{settings}{name},{unit},{n},{mean},{ci95}")?;
            }
        }
        Ok(())
    }
}

/// Writes a row for each run and measure.
///
/// # Errors
/// As `out` gives.
pub fn write_measures(summary: &Summary, runs: &[RunResult], out: &mut impl Write) -> io::Result<()> {
    let keys = summary.points.first().into_iter().flat_map(|point| point.settings.keys());
    let titles = keys.map(|key| quoted(key) + ",").collect::<String>();
    writeln!(out, "point,{titles}seed,measure,unit,value")?;
    for run in runs {
        let settings = summary.points.get(run.point).into_iter().flat_map(|point| point.settings.values());
        let settings = settings.map(|value| quoted(value) + ",").collect::<String>();
        for Measure { name, unit, value } in &run.outcome.measures {
            let (point, seed, name) = (run.point, run.outcome.seed, quoted(name));
            writeln!(out, "{point},{settings}{seed},{name},{unit},{value}")?;
        }
    }
    Ok(())
}

impl PointSummary {
    fn new(settings: &[Setting], runs: &[&RunResult]) -> PointSummary {
        PointSummary {
            settings: settings.iter().map(|set| (set.key.clone(), set.value.clone())).collect(),
            seeds: runs.iter().map(|run| run.outcome.seed).collect(),
            fingerprints: runs.iter().map(|run| run.outcome.fingerprint.clone()).collect(),
            measures: averaged(runs.iter().map(|run| &run.outcome.measures)),
            totals: runs.iter().map(|run| run.outcome.totals.clone()).collect(),
        }
    }

    /// Returns a measure, or a counter or gauge at the end, by its name.
    pub fn value(&self, name: &str) -> Option<Averaged> {
        self.measures.get(name).cloned().or_else(|| self.total(name))
    }

    /// Returns a counter or gauge at the end.
    fn total(&self, name: &str) -> Option<Averaged> {
        let found: Vec<(f64, &str)> = self.totals.iter().filter_map(|values| values.get(name)).collect();
        let samples: Vec<f64> = found.iter().map(|(value, _)| *value).collect();
        let (_, unit) = found.first()?;
        Some(Averaged { unit: (*unit).to_owned(), estimate: Estimate::of(&samples)? })
    }

    /// Returns the measures whose names satisfy `is_it`; without any, the final values.
    pub fn matching(&self, is_it: impl Fn(&str) -> bool) -> Vec<Averaged> {
        let measures = self.measures.iter().filter(|(name, _)| is_it(name));
        let measures: Vec<Averaged> = measures.map(|(_, averaged)| averaged.clone()).collect();
        if !measures.is_empty() {
            return measures;
        }
        let mut names: IndexSet<String> = IndexSet::new();
        for (subject, metric, ..) in self.totals.iter().flat_map(|values| values.iter()) {
            names.extend(Some(format!("{subject}.{metric}")).filter(|name| is_it(name)));
        }
        names.iter().filter_map(|name| self.total(name)).collect()
    }
}

/// Returns the mean of each measure over its runs, in order of first appearance.
fn averaged<'a>(runs: impl Iterator<Item = &'a Vec<Measure>>) -> IndexMap<String, Averaged> {
    let mut samples: IndexMap<&str, (&str, Vec<f64>)> = IndexMap::new();
    for measure in runs.flatten() {
        samples.entry(&measure.name).or_insert((&measure.unit, Vec::new())).1.push(measure.value);
    }
    let average = |(name, (unit, values)): (&str, (&str, Vec<f64>))| {
        Some((name.to_owned(), Averaged { unit: unit.to_owned(), estimate: Estimate::of(&values)? }))
    };
    samples.into_iter().filter_map(average).collect()
}
