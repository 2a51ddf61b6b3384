//! Means over the seeds, for each point of a sweep.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stats::Estimate;
use super::{FinalValues, Frame, FrameColumn, Measure, RunResult, VERSION};

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

    /// Returns a row for each point and measure.
    pub fn frame(&self) -> Frame {
        let all = self.points.iter().enumerate();
        let rows: Vec<(usize, &String, &Averaged)> = all
            .flat_map(|(number, point)| point.measures.iter().map(move |(name, of)| (number, name, of)))
            .collect();
        let mut columns = self.front(rows.iter().map(|row| row.0));
        columns.extend([
            FrameColumn::texts("measure", rows.iter().map(|row| row.1)),
            FrameColumn::texts("unit", rows.iter().map(|row| &row.2.unit)),
            FrameColumn::integers("n", rows.iter().map(|row| row.2.estimate.n)),
            FrameColumn::numbers("mean", "", rows.iter().map(|row| row.2.estimate.mean)),
            FrameColumn::numbers("ci95", "", rows.iter().map(|row| row.2.estimate.ci95.unwrap_or(f64::NAN))),
        ]);
        Frame { columns }
    }

    /// Returns the first columns of rows that belong to these points: number and settings.
    pub(super) fn front(&self, points: impl Iterator<Item = usize> + Clone) -> Vec<FrameColumn> {
        let setting = |point: usize, key| self.points.get(point)?.settings.get_index(key);
        let keys = self.points.first().into_iter().flat_map(|point| point.settings.keys().enumerate());
        let columns = keys.map(|(number, key)| {
            let values = points.clone().map(|point| setting(point, number).map_or("", |(_, value)| value));
            FrameColumn::texts(key, values)
        });
        let number = FrameColumn::integers("point", points.clone().map(|point| point as u64));
        [number].into_iter().chain(columns).collect()
    }

    /// Writes a row for each point and measure.
    ///
    /// # Errors
    /// As `out` gives.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        self.frame().write_csv(out)
    }
}

/// Returns a row for each run and measure.
pub fn measures_frame(summary: &Summary, runs: &[RunResult]) -> Frame {
    let of = |run: &'_ RunResult| run.outcome.measures.len();
    let rows = runs.iter().flat_map(|run| run.outcome.measures.iter().map(move |measure| (run, measure)));
    let mut columns = summary.front(runs.iter().flat_map(|run| std::iter::repeat_n(run.point, of(run))));
    columns.extend([
        FrameColumn::integers("seed", rows.clone().map(|(run, _)| run.outcome.seed)),
        FrameColumn::texts("measure", rows.clone().map(|(_, measure)| &measure.name)),
        FrameColumn::texts("unit", rows.clone().map(|(_, measure)| &measure.unit)),
        FrameColumn::numbers("value", "", rows.map(|(_, measure)| measure.value)),
    ]);
    Frame { columns }
}

/// Writes a row for each run and measure.
///
/// # Errors
/// As `out` gives.
pub fn write_measures(summary: &Summary, runs: &[RunResult], out: &mut impl Write) -> io::Result<()> {
    measures_frame(summary, runs).write_csv(out)
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
