//! Means over the seeds, for each point of a sweep.

use std::io::{self, Write};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::RunResult;
use crate::measure::Measure;
use crate::plan::{Plan, Point};
use crate::record::quoted;
use crate::stats::Estimate;

/// What a plan's runs gave, averaged over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// What one point gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// What the sweep set: keys and values.
    pub settings: IndexMap<String, String>,
    /// The seeds averaged over.
    pub seeds: Vec<u64>,
    /// The runs' fingerprints, in the order of the seeds.
    pub fingerprints: Vec<String>,
    /// What the flows and links achieved, by name.
    pub measures: IndexMap<String, Averaged>,
    /// All counters and gauges at the end, by name.
    pub totals: IndexMap<String, Averaged>,
}

/// A measure averaged over the seeds that gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Averaged {
    /// What it is measured in.
    pub unit: String,
    /// The mean, and its confidence interval.
    #[serde(flatten)]
    pub estimate: Estimate,
}

impl Summary {
    /// Averages the runs of each point.
    pub fn new(plan: &Plan, runs: &[RunResult]) -> Summary {
        let points = plan.points.iter().map(|point| {
            let of_point: Vec<&RunResult> = runs.iter().filter(|run| run.point == point.index).collect();
            PointSummary::new(point, &of_point)
        });
        Summary {
            title: plan.points.first().map(|point| point.scenario.title.clone()).unwrap_or_default(),
            version: crate::plan::VERSION.to_owned(),
            axes: plan.axes.clone(),
            points: points.collect(),
        }
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

impl PointSummary {
    fn new(point: &Point, runs: &[&RunResult]) -> PointSummary {
        let setting = |s: &crate::plan::Setting| (s.key.clone(), s.value.clone());
        PointSummary {
            settings: point.settings.iter().map(setting).collect(),
            seeds: runs.iter().map(|run| run.outcome.seed).collect(),
            fingerprints: runs.iter().map(|run| run.outcome.fingerprint.clone()).collect(),
            measures: averaged(runs.iter().map(|run| &run.outcome.measures)),
            totals: averaged(runs.iter().map(|run| &run.outcome.totals)),
        }
    }

    /// A measure, or a counter or gauge at the end, by its name.
    pub fn value(&self, name: &str) -> Option<&Averaged> {
        self.measures.get(name).or_else(|| self.totals.get(name))
    }
}

/// The mean of each measure over the runs that gave it, in the order they first appear.
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
