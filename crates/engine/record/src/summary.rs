//! Means over the seeds, for each point of a sweep.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use bentpipe_units::Span;
use indexmap::{IndexMap, IndexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::definitions::first;
use super::outcome::lowest;
use super::stats::Estimate;
use super::{
    FinalValues, FlowNote, Frame, FrameColumn, LedgerRow, Measure, Outcome, RunResult, UnitRow, VERSION,
    account, account_total, counted_with,
};

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
    /// Lowest version of the definitions of its runs; 1 if it is absent.
    #[serde(default = "first")]
    pub definitions: u32,
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
    /// Sums of the accounts of packets over the seeds. The runs' outcomes have those of each.
    #[serde(skip)]
    pub ledger: Vec<LedgerRow>,
    /// Sums of the accounts of units over the seeds.
    #[serde(skip)]
    pub units: Vec<UnitRow>,
    /// Facts about flows, with the number of runs that have each.
    #[serde(skip)]
    pub flow_notes: IndexMap<FlowNote, usize>,
    /// Initial time that measures leave out.
    #[serde(skip)]
    pub warm_up: Span,
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
            definitions: lowest(runs.iter().map(|run| &run.outcome)),
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

/// Returns the measures of a point's runs, with those of their accounts.
///
/// A count that another run has and this one lacks is zero.
pub(super) fn figures<'a>(runs: impl Iterator<Item = &'a Outcome>) -> Vec<Vec<Cow<'a, Measure>>> {
    let mut figures: Vec<Vec<Cow<'_, Measure>>> = runs.map(|run| run.figures().collect()).collect();
    account::add_zeros(&mut figures);
    figures
}

/// Returns a row for each run and measure.
pub fn measures_frame(summary: &Summary, runs: &[RunResult]) -> Frame {
    let mut rows: Vec<(&RunResult, Cow<'_, Measure>)> = Vec::new();
    for of_point in runs.chunk_by(|one, other| one.point == other.point) {
        let figures = figures(of_point.iter().map(|run| &run.outcome));
        let of_runs = of_point.iter().zip(figures);
        rows.extend(of_runs.flat_map(|(run, figures)| figures.into_iter().map(move |it| (run, it))));
    }
    let mut columns = summary.front(rows.iter().map(|(run, _)| run.point));
    columns.extend([
        FrameColumn::integers("seed", rows.iter().map(|(run, _)| run.outcome.seed)),
        FrameColumn::texts("measure", rows.iter().map(|(_, measure)| &measure.name)),
        FrameColumn::texts("unit", rows.iter().map(|(_, measure)| &measure.unit)),
        FrameColumn::numbers("value", "", rows.iter().map(|(_, measure)| measure.value)),
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
        let mut point = PointSummary {
            settings: settings.iter().map(|set| (set.key.clone(), set.value.clone())).collect(),
            seeds: runs.iter().map(|run| run.outcome.seed).collect(),
            fingerprints: runs.iter().map(|run| run.outcome.fingerprint.clone()).collect(),
            measures: averaged(figures(runs.iter().map(|run| &run.outcome)).into_iter().flatten()),
            totals: Vec::new(),
            ledger: Vec::new(),
            units: Vec::new(),
            flow_notes: IndexMap::new(),
            warm_up: Span::ZERO,
        };
        point.take(runs);
        point
    }

    /// Sets what only the outcomes of runs have.
    pub(super) fn take(&mut self, runs: &[&RunResult]) {
        let outcomes = || runs.iter().map(|run| &run.outcome);
        self.totals = outcomes().map(|outcome| outcome.totals.clone()).collect();
        self.ledger = LedgerRow::summed(outcomes().flat_map(|outcome| &outcome.ledger));
        self.units = UnitRow::summed(outcomes().flat_map(|outcome| &outcome.units));
        self.flow_notes.clear();
        for note in outcomes().flat_map(|outcome| &outcome.flow_notes) {
            *self.flow_notes.entry(note.clone()).or_default() += 1;
        }
        self.warm_up = outcomes().map(|outcome| outcome.warm_up).max().unwrap_or_default();
    }

    /// Returns a measure, or a counter or gauge at the end, by its name.
    ///
    /// A reason for which no packet of an account was dropped is zero.
    pub fn value(&self, name: &str) -> Option<Averaged> {
        self.measures.get(name).cloned().or_else(|| self.zero(name)).or_else(|| self.total(name))
    }

    /// Returns the zero of a part of an account that no run has.
    fn zero(&self, name: &str) -> Option<Averaged> {
        let sent = self.measures.get(&counted_with(name)?)?;
        let estimate = Estimate::of(&vec![0.0; sent.estimate.n as usize])?;
        let unit = if account_total(name).is_some() { &sent.unit[..] } else { "count" };
        Some(Averaged { unit: unit.to_owned(), estimate })
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
        let mut measures: Vec<Averaged> = measures.map(|(_, averaged)| averaged.clone()).collect();
        let absent = self.measures.keys().flat_map(|name| account::parts(name));
        let absent = absent.filter(|name| is_it(name) && !self.measures.contains_key(name));
        measures.extend(absent.filter_map(|name| self.zero(&name)));
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
fn averaged<'a>(measures: impl Iterator<Item = Cow<'a, Measure>>) -> IndexMap<String, Averaged> {
    let mut samples: IndexMap<String, (String, Vec<f64>)> = IndexMap::new();
    for measure in measures {
        match samples.get_mut(&measure.name) {
            Some((_, values)) => values.push(measure.value),
            None => {
                let Measure { name, unit, value, .. } = measure.into_owned();
                samples.insert(name, (unit, vec![value]));
            }
        }
    }
    let average = |(name, (unit, values)): (String, (String, Vec<f64>))| {
        Some((name, Averaged { unit, estimate: Estimate::of(&values)? }))
    };
    samples.into_iter().filter_map(average).collect()
}
