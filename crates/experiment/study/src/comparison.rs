//! Verdicts: rows of a study compared with its runs.

use bentpipe_record::PointSummary;
use bentpipe_record::stats::Estimate;
use bentpipe_report::{amount, number, with_interval};
use bentpipe_scenario::current_key;

use crate::expected::{Kind, Simulated, Verdict};
use crate::numbers::number_of;
use crate::runs::{StudyRuns, estimate, measure};
use crate::spread::{self, Interval};
use crate::studies;
use crate::study::{Row, Statistic, Study, Value, Witness};

/// Row with its simulated value.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Row of the study.
    pub row: Row,
    /// Simulated value in the row's unit, or the reason why there is none.
    pub simulated: Result<Estimate, String>,
    /// 95 % confidence interval of its mean, of quantities with a greatest value.
    pub interval: Option<Interval>,
    /// Values that agree with the published one. Of a single published run it is the prediction interval of a simulated one.
    pub band: Option<Interval>,
    /// Result of the comparison.
    pub verdict: Verdict,
}

/// Compares every row of a study with its runs.
pub fn compare(study: &Study, runs: &StudyRuns, quick: bool) -> Vec<Comparison> {
    study.rows.iter().map(|row| compare_row(row, runs, quick)).collect()
}

fn compare_row(row: &Row, runs: &StudyRuns, quick: bool) -> Comparison {
    let samples = samples(row, runs);
    let simulated = samples.as_ref().map_err(String::clone).and_then(|samples| estimate(samples));
    let interval = samples.as_ref().ok().and_then(|samples| spread::of_mean(samples, row.most?));
    let judged = simulated.as_ref().ok().map(|estimate| Simulated {
        mean: estimate.mean,
        interval: interval.unwrap_or_else(|| estimate.interval()),
        next: samples.as_ref().ok().and_then(|samples| spread::of_next(samples, row.most)),
    });
    let verdict = match &judged {
        _ if quick && !row.quick => Verdict::NotJudged,
        _ if row.runs().iter().any(|run| runs.is_lost(run)) => Verdict::NotJudged,
        _ if matches!(row.statistic, Statistic::Live(..)) && !runs.is_live() => Verdict::NotJudged,
        Some(judged) => row.expected.verdict(judged),
        None => Verdict::Missed,
    };
    let band = judged.and_then(|judged| row.expected.band(&judged));
    Comparison { row: row.clone(), simulated, interval, band, verdict }
}

/// Returns the counts of verdicts, one line per kind of row.
pub fn summary<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Vec<String> {
    let comparisons: Vec<&Comparison> = comparisons.into_iter().collect();
    let line = |kind: Kind| {
        let of_kind = || comparisons.iter().filter(|comparison| comparison.row.kind == kind);
        let count = |verdict| of_kind().filter(|comparison| comparison.verdict == verdict).count();
        let counts = Verdict::ALL.map(|verdict| (verdict, count(verdict)));
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts.map(|(verdict, count)| format!("{count} {verdict}")).collect();
        (!counts.is_empty()).then(|| format!("{}: {}", kind.heading(), counts.join(", ")))
    };
    Kind::ALL.into_iter().filter_map(line).collect()
}

/// Returns the rows with a published value, and the checks of the study itself.
pub fn by_origin(comparisons: &[Comparison]) -> (Vec<&Comparison>, Vec<&Comparison>) {
    comparisons.iter().partition(|comparison| comparison.row.kind.is_published())
}

/// Returns `true` if a row of code needs a witness and has none.
///
/// It needs one if a run in which nothing was sent would meet it. Arithmetic reads no run.
pub fn lacks_witness(row: &Row) -> bool {
    let Statistic::Code(name) = &row.statistic else { return false };
    studies::constant(name).is_none() && row.witness.is_none() && row.expected.holds(0.0)
}

/// Returns the value of each seed of the runs that a row names.
fn samples(row: &Row, runs: &StudyRuns) -> Result<Vec<f64>, String> {
    if lacks_witness(row) {
        return Err(
            "expected `witness`, a number that is above 0 if anything was sent: 0 meets the row".into()
        );
    }
    if let Statistic::Code(name) = &row.statistic {
        witnessed(row, runs)?;
        return runs.computed(name);
    }
    if let Statistic::Live(name, place) = &row.statistic {
        witnessed(row, runs)?;
        let base = if place.ends_with("_s") { "s" } else { "count" };
        return Ok(vec![runs.live(name, place)? / amount::factor(base, &row.unit)?]);
    }
    runs.views(&row.statistic.runs()).iter().map(|view| in_unit(row, view)).collect()
}

/// Returns a row's number of one view of the runs, in the row's unit.
fn in_unit(row: &Row, runs: &StudyRuns) -> Result<f64, String> {
    match &row.statistic {
        Statistic::Measure(value) => {
            witnessed(row, runs)?;
            let number = number_of(runs, value)?;
            Ok(number.value / size_of_unit(row, &number.unit)?)
        }
        Statistic::Ratio(value, over) => {
            witnessed(row, runs)?;
            let ratio = number_of(runs, value)?.value / number_of(runs, over)?.value;
            Ok(ratio / amount::factor("ratio", &row.unit)?)
        }
        Statistic::BestAt(value, key, within) => best_at(runs, value, key, *within, &row.unit),
        Statistic::Code(name) => Ok(estimate(&runs.computed(name)?)?.mean),
        Statistic::Live(name, place) => runs.live(name, place),
    }
}

/// Returns the size of a row's unit in the base unit of its measure.
fn size_of_unit(row: &Row, base: &str) -> Result<f64, String> {
    if row.per.is_empty() {
        return amount::factor(base, &row.unit);
    }
    match amount::number(&row.per) {
        Some((size, unit)) if unit == base => Ok(size),
        _ => Err(format!("`per` is \"{}\", and the simulated value is in {base}", row.per)),
    }
}

/// Returns an error if the witness of a row says that nothing happened.
fn witnessed(row: &Row, runs: &StudyRuns) -> Result<(), String> {
    let (name, number) = match (&row.witness, &row.statistic) {
        (None, _) => return Ok(()),
        (Some(Witness::Number(value)), _) => (&value.measure, number_of(runs, value)?.value),
        (Some(Witness::Live(place)), Statistic::Live(name, _)) => (place, runs.live(name, place)?),
        (Some(Witness::Live(place)), _) => return Err(format!("{place} is not of live streams")),
    };
    match number > 0.0 {
        true => Ok(()),
        false => Err(format!("{name} is 0: nothing was sent")),
    }
}

/// Returns the value of `key` where a measure is largest, in `unit`.
///
/// It is that of the first point within a share of the largest.
fn best_at(runs: &StudyRuns, value: &Value, key: &str, within: f64, unit: &str) -> Result<f64, String> {
    let points = runs.points(&value.run, &value.at)?;
    let means = points.iter().map(|point| Ok((measure(point, &value.measure)?.estimate.mean, point)));
    let means = means.collect::<Result<Vec<(f64, &&PointSummary)>, String>>()?;
    let most = means.iter().map(|(mean, _)| *mean).fold(0.0, f64::max);
    if most <= 0.0 {
        return Err(format!("{} is 0 at each point", value.measure));
    }
    let best = means.into_iter().find(|(mean, _)| *mean >= most * (1.0 - within)).map(|(_, point)| point);
    let set = best.and_then(|point| point.settings.get(&current_key(key)));
    let set = set.ok_or_else(|| format!("run \"{}\" does not sweep \"{key}\"", value.run))?;
    let (number, base) = amount::number(set).ok_or_else(|| format!("\"{set}\" is not a number"))?;
    Ok(number / amount::factor(base, unit)?)
}

impl Comparison {
    /// Returns the value to compare with, published or of the study itself, with its unit.
    pub fn expected_text(&self) -> String {
        with_unit(&self.row.expected.to_string(), &self.row.unit)
    }

    /// Returns the simulated value with its interval and unit, or the error.
    pub fn simulated_text(&self) -> String {
        match &self.simulated {
            Err(reason) => reason.clone(),
            Ok(estimate) => {
                let text = match self.interval {
                    Some((low, high)) => {
                        format!("{} ({} to {})", number(estimate.mean), number(low), number(high))
                    }
                    None => with_interval(estimate.mean, estimate.ci95),
                };
                with_unit(&text, &self.row.unit)
            }
        }
    }

    /// Returns the values that agree with the published one. It is empty for an inequality, which states them.
    pub fn band_text(&self) -> String {
        let band = self.band.filter(|(low, high)| low.is_finite() && high.is_finite() && low < high);
        band.map(|(low, high)| format!("{} to {}", number(low), number(high))).unwrap_or_default()
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
