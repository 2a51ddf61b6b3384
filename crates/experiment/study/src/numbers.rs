//! Numbers of a run: measures and series of a study file, reduced to one number.

use bentpipe_record::{Averaged, PointSummary, is_measure_of};
use bentpipe_scenario::metrics::current;
use bentpipe_units::Span;

use crate::reduce::{Across, Reduce, mean_of_medians, number};
use crate::runs::StudyRuns;
use crate::study::Value;

/// Number in its base unit.
pub(crate) struct Number {
    /// Value.
    pub(crate) value: f64,
    /// Unit.
    pub(crate) unit: String,
}

impl Number {
    fn new(value: f64, unit: &str) -> Number {
        Number { value, unit: unit.to_owned() }
    }
}

/// Samples of a series: time in seconds, and value.
type Samples = Vec<(f64, f64)>;

/// Returns the number that `value` describes.
///
/// # Errors
/// Returns an error if there is none.
pub(crate) fn number_of(runs: &StudyRuns, value: &Value) -> Result<Number, String> {
    match (&value.series, &value.reduce, value.across) {
        (Some(series), Some(reduce), across) => reduced(runs, value, series, reduce, across),
        (.., None) if value.less.is_none() => {
            let Averaged { unit, estimate } = runs.value(value)?;
            Ok(Number::new(estimate.mean, &unit))
        }
        (.., across) => measured(runs, value, across),
    }
}

/// Reduces the measures of all points whose names match; `less` is subtracted first.
fn measured(runs: &StudyRuns, value: &Value, across: Option<Across>) -> Result<Number, String> {
    let points = runs.points(&value.run, &value.at)?;
    let all = |pattern: &str| points.iter().flat_map(|point| matching(point, pattern)).collect::<Vec<_>>();
    let mut found = all(&value.measure);
    found.retain(|(number, _)| number.is_finite());
    let unit = found.first().map(|(_, unit)| unit.clone());
    let unit = unit.ok_or_else(|| format!("no measure \"{}\"", value.measure))?;
    if let Some(less) = &value.less {
        let all = all(less);
        if all.len() != found.len() {
            return Err(format!("{} of \"{}\", {} of \"{less}\"", found.len(), value.measure, all.len()));
        }
        found.iter_mut().zip(&all).for_each(|(one, other)| one.0 -= other.0);
    }
    let numbers: Vec<f64> = found.into_iter().map(|(number, _)| number).collect();
    Ok(Number::new(only_or_across(&numbers, across, &value.run)?, &unit))
}

/// Returns the means and units of a point's measures, or else totals, whose names match.
fn matching(point: &PointSummary, pattern: &str) -> Vec<(f64, String)> {
    let pattern = current(pattern);
    let found = point.matching(|name| is_measure_of(&pattern, name)).into_iter();
    found.map(|averaged| (averaged.estimate.mean, averaged.unit)).collect()
}

/// Reduces a series of each point to a number, and these to one.
fn reduced(
    runs: &StudyRuns,
    value: &Value,
    series: &str,
    reduce: &Reduce,
    across: Option<Across>,
) -> Result<Number, String> {
    let points = runs.points(&value.run, &value.at)?;
    let all = points.iter().map(|point| samples(runs, value, point, series));
    let all: Vec<(Samples, &str)> = all.collect::<Result<_, String>>()?;
    let unit = if reduce.is_time() { "s" } else { all.first().map_or("", |(_, unit)| unit) };
    let samples: Vec<Samples> = all.into_iter().map(|(samples, _)| samples).collect();
    if let Reduce::MeanOfMedians { every, until } = reduce {
        return Ok(Number::new(mean_of_medians(&samples, number(every)?, number(until)?)?, unit));
    }
    let numbers = samples.iter().map(|samples| reduce.of(samples)).collect::<Result<Vec<_>, _>>()?;
    Ok(Number::new(only_or_across(&numbers, across, &value.run)?, unit))
}

/// Returns the samples of a point's series, without NaN, and their unit.
fn samples(
    runs: &StudyRuns,
    value: &Value,
    summary: &PointSummary,
    series: &str,
) -> Result<(Samples, &'static str), String> {
    let finished = runs.run(&value.run)?;
    let point = finished.point(summary)?;
    let recorded = finished.series(point)?;
    let since = match &value.since {
        Some(flow) => point.scenario.flow.get(flow).ok_or_else(|| format!("unknown flow \"{flow}\""))?.start,
        None => Span::ZERO,
    };
    let column = recorded.column_of(&current(series)).ok_or_else(|| format!("no series \"{series}\""))?;
    let times = recorded.seconds().into_iter().map(|at| at - since.as_secs_f64());
    let samples = times.zip(column.data.to_f64()).filter(|(_, value)| value.is_finite());
    Ok((samples.collect(), column.unit().symbol()))
}

/// Returns the only number, or the reduction of several.
fn only_or_across(numbers: &[f64], across: Option<Across>, run: &str) -> Result<f64, String> {
    match (across, numbers) {
        (None, [only]) => Ok(*only),
        (None, _) => Err(format!("{} values in run \"{run}\": expected `across`", numbers.len())),
        (Some(across), _) => across.of(numbers).ok_or_else(|| format!("no values in run \"{run}\"")),
    }
}
