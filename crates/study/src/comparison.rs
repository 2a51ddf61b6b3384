//! Verdicts: rows of a study compared with its runs.

use bentpipe_record::PointSummary;
use bentpipe_record::stats::Estimate;
use bentpipe_report::{amount, with_interval};
use bentpipe_scenario::current_key;

use crate::expected::{Kind, Verdict};
use crate::numbers::number_of;
use crate::runs::{StudyRuns, estimate, measure};
use crate::study::{Row, Statistic, Study, Value};

/// Row with its simulated value.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Row of the study.
    pub row: Row,
    /// Simulated value in the row's unit, or the reason why there is none.
    pub simulated: Result<Estimate, String>,
    /// Result of the comparison.
    pub verdict: Verdict,
}

/// Compares every row of a study with its runs.
pub fn compare(study: &Study, runs: &StudyRuns, quick: bool) -> Vec<Comparison> {
    study.rows.iter().map(|row| compare_row(row, runs, quick)).collect()
}

fn compare_row(row: &Row, runs: &StudyRuns, quick: bool) -> Comparison {
    let simulated = simulated(row, runs);
    let verdict = match &simulated {
        _ if quick && !row.quick => Verdict::NotJudged,
        _ if row.statistic.runs().iter().any(|run| runs.is_lost(run)) => Verdict::NotJudged,
        _ if matches!(row.statistic, Statistic::Live(..)) && !runs.is_live() => Verdict::NotJudged,
        Ok(estimate) => row.expected.verdict(estimate),
        Err(_) => Verdict::Missed,
    };
    Comparison { row: row.clone(), simulated, verdict }
}

/// Returns the counts of verdicts, one line per kind of row.
pub fn summary(comparisons: &[Comparison]) -> Vec<String> {
    let line = |kind: Kind| {
        let of_kind = || comparisons.iter().filter(move |comparison| comparison.row.kind == kind);
        let count = |verdict| of_kind().filter(|comparison| comparison.verdict == verdict).count();
        let counts = Verdict::ALL.map(|verdict| (verdict, count(verdict)));
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts.map(|(verdict, count)| format!("{count} {verdict}")).collect();
        (!counts.is_empty()).then(|| format!("{}: {}", kind.heading(), counts.join(", ")))
    };
    Kind::ALL.into_iter().filter_map(line).collect()
}

/// Returns the mean over the seeds of the runs that a row names.
fn simulated(row: &Row, runs: &StudyRuns) -> Result<Estimate, String> {
    if let Statistic::Code(name) = &row.statistic {
        return runs.computed(name);
    }
    if let Statistic::Live(name, place) = &row.statistic {
        let base = if place.ends_with("_s") { "s" } else { "count" };
        return estimate(&[runs.live(name, place)? / amount::factor(base, &row.unit)?]);
    }
    let views = runs.views(&row.statistic.runs());
    let samples = views.iter().map(|view| in_unit(row, view)).collect::<Result<Vec<f64>, String>>()?;
    estimate(&samples)
}

/// Returns a row's number of one view of the runs, in the row's unit.
fn in_unit(row: &Row, runs: &StudyRuns) -> Result<f64, String> {
    match &row.statistic {
        Statistic::Measure(value) => {
            let number = number_of(runs, value)?;
            Ok(number.value / amount::factor(&number.unit, &row.unit)?)
        }
        Statistic::Ratio(value, over) => {
            let ratio = number_of(runs, value)?.value / number_of(runs, over)?.value;
            Ok(ratio / amount::factor("ratio", &row.unit)?)
        }
        Statistic::BestAt(value, key) => best_at(runs, value, key, &row.unit),
        Statistic::Code(name) => runs.computed(name).map(|estimate| estimate.mean),
        Statistic::Live(name, place) => runs.live(name, place),
    }
}

/// Returns the value of `key`, in `unit`, at the point where the measure is largest.
fn best_at(runs: &StudyRuns, value: &Value, key: &str, unit: &str) -> Result<f64, String> {
    let points = runs.points(&value.run, &value.at)?;
    let means = points.iter().map(|point| Ok((measure(point, &value.measure)?.estimate.mean, point)));
    let means = means.collect::<Result<Vec<(f64, &&PointSummary)>, String>>()?;
    let best = means.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, point)| point);
    let set = best.and_then(|point| point.settings.get(&current_key(key)));
    let set = set.ok_or_else(|| format!("run \"{}\" does not sweep \"{key}\"", value.run))?;
    let (number, base) = amount::number(set).ok_or_else(|| format!("\"{set}\" is not a number"))?;
    Ok(number / amount::factor(base, unit)?)
}

impl Comparison {
    /// Returns the published value with its unit.
    pub fn published_text(&self) -> String {
        with_unit(&self.row.expected.to_string(), &self.row.unit)
    }

    /// Returns the simulated value with its interval and unit, or the error.
    pub fn simulated_text(&self) -> String {
        match &self.simulated {
            Err(reason) => reason.clone(),
            Ok(estimate) => with_unit(&with_interval(estimate.mean, estimate.ci95), &self.row.unit),
        }
    }

    /// Returns the deviation in per cent; empty where there is none.
    pub fn deviation_text(&self) -> String {
        let mean = self.simulated.as_ref().ok().map(|estimate| estimate.mean);
        let deviation = mean.and_then(|mean| self.row.expected.deviation(mean));
        deviation.map(|share| format!("{:+.1} %", share * 100.0)).unwrap_or_default()
    }
}

/// Appends a unit, unless the number is a plain ratio.
fn with_unit(text: &str, unit: &str) -> String {
    if unit.is_empty() || unit == "ratio" { text.to_owned() } else { format!("{text} {unit}") }
}
