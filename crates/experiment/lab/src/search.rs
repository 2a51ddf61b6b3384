//! Search for the last value of a key with which conditions on measures hold.
//!
//! It answers how many calls fit, or how low a rate suffices.
//!
//! Conditions are expected to hold for the first values and to fail from some value on. The search halves the range, so the last
//! value that holds and the next one, which fails, are both run.

use std::fmt;
use std::str::FromStr;

use bentpipe_net::metric::Metric;
use bentpipe_record::stats::Estimate;
use bentpipe_record::{Averaged, FinalValues, PointSummary, is_measure_of, subject_and_metric};
use bentpipe_scenario::Document;
use bentpipe_telephony::metrics as calls;
use bentpipe_transport::{app, ping, tcp, tfrc};
use bentpipe_units::{Bytes, Rate, Span};

/// Metrics of measures that have no value where nothing arrives or ends.
const DECLARED: [&[&Metric]; 7] = [
    app::metrics::ALL,
    ping::metrics::ALL,
    tcp::metrics::ALL,
    tfrc::metrics::ALL,
    calls::ALL,
    bentpipe_voice::call::metrics::ALL,
    bentpipe_dtn::metrics::ALL,
];

/// Condition on a measure: `flow.call.delay-p95 <= 400 ms`. `*` in the name stands for any text.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    measure: String,
    is_upper: bool,
    bound: f64,
    /// Symbol of the bound's unit; empty for a plain number.
    unit: &'static str,
}

/// Error returned when a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a condition: expected MEASURE <= VALUE or MEASURE >= VALUE, such as \"flow.call.loss <= 1 %\""
)]
pub struct NotACondition(String);

impl FromStr for Condition {
    type Err = NotACondition;

    fn from_str(text: &str) -> Result<Condition, NotACondition> {
        let refused = || NotACondition(text.to_owned());
        let (is_upper, sides) = match text.split_once("<=") {
            Some(sides) => (true, sides),
            None => (false, text.split_once(">=").ok_or_else(refused)?),
        };
        let (measure, value) = (sides.0.trim(), sides.1.trim());
        let (bound, unit) = value_of(value).filter(|(bound, _)| bound.is_finite()).ok_or_else(refused)?;
        if measure.is_empty() || measure.contains(char::is_whitespace) {
            return Err(refused());
        }
        Ok(Condition { text: text.trim().to_owned(), measure: measure.to_owned(), is_upper, bound, unit })
    }
}

/// Returns a value in the unit of measures, with the symbol of that unit.
fn value_of(text: &str) -> Option<(f64, &'static str)> {
    let percent = || Some((text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0, "ratio"));
    let span = || Some((text.parse::<Span>().ok()?.as_secs_f64(), "s"));
    let rate = || Some((text.parse::<Rate>().ok()?.as_bps() as f64, "bit/s"));
    let bytes = || Some((text.parse::<Bytes>().ok()?.get() as f64, "B"));
    text.parse::<f64>()
        .ok()
        .map(|number| (number, ""))
        .or_else(percent)
        .or_else(span)
        .or_else(rate)
        .or_else(bytes)
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Result of a condition at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Measure that is nearest to the bound, or farthest beyond it.
    pub worst: Averaged,
    /// Set if the condition holds for all measures of the name.
    pub holds: bool,
}

impl Condition {
    /// Checks the condition at a point. With several seeds the end of the 95 % confidence interval is compared, so that the
    /// condition holds with confidence.
    ///
    /// # Errors
    /// Returns an error if no measure has the name, or the bound has another unit. Where a measure of this name has no value, as the
    /// completion time of a transfer that does not end, the condition fails.
    pub fn check(&self, point: &PointSummary) -> Result<Checked, String> {
        let measures = point.matching(|name| is_measure_of(&self.measure, name));
        if let Some(other) =
            measures.iter().find(|measure| !self.unit.is_empty() && measure.unit != self.unit)
        {
            return Err(format!("{self}: the measure is in {}, the bound in {}", other.unit, self.unit));
        }
        let excess = |measure: &Averaged| {
            let (low, high) = measure.estimate.interval();
            if self.is_upper { high - self.bound } else { self.bound - low }
        };
        let worst = measures.into_iter().max_by(|a, b| excess(a).total_cmp(&excess(b)));
        match worst {
            Some(worst) => Ok(Checked { holds: excess(&worst) <= 0.0, worst }),
            None if self.is_declared(point) => Ok(Checked::without_value()),
            None => Err(format!("{self}: no measure is called \"{}\"", self.measure)),
        }
    }

    /// Returns `true` if the name is of a measure that is missing here.
    ///
    /// Its last part is declared, and the rest is that of something which reports values: a transfer has a completion time, and
    /// none at a point where it does not end.
    fn is_declared(&self, point: &PointSummary) -> bool {
        let Some((subject, measure)) = subject_and_metric(&self.measure) else { return false };
        let of_subject = format!("{subject}.*");
        let mut totals = point.totals.iter().flat_map(FinalValues::iter).map(|(element, ..)| element);
        let has_subject = point.measures.keys().any(|name| is_measure_of(&of_subject, name))
            || totals.any(|element| is_measure_of(&of_subject, &format!("{element}.")));
        let mut declared = DECLARED.into_iter().flatten().flat_map(|metric| metric.sums);
        has_subject && declared.any(|sum| sum.name == measure)
    }
}

impl Checked {
    /// Returns that of a measure without a value, of which nothing is known.
    fn without_value() -> Checked {
        let estimate = Estimate { n: 0, mean: f64::NAN, ci95: None };
        Checked { worst: Averaged { unit: String::new(), estimate }, holds: false }
    }
}

/// Returns the scenario with a sweep over the values of a search.
///
/// `over` is `KEY=[VALUE, ...]` or `KEY="LOW to HIGH by STEP"`.
///
/// # Errors
/// Returns an error if the scenario has a sweep already, or the key and its values are wrong.
pub fn swept(document: &Document, over: &str) -> Result<Document, String> {
    let mut swept = document.clone();
    if swept.axes().next().is_some() {
        return Err("the scenario has a sweep: expected one without, or its keys set with --set".to_owned());
    }
    swept.set_by(&format!("--over {over}"), &format!("sweep.{over}")).map_err(|error| error.to_string())?;
    Ok(swept)
}

/// Returns the number of values, from the first on, for which `holds` returns `true`.
///
/// It calls `holds` as often as halving needs.
///
/// # Errors
/// Returns the first error of `holds`.
pub fn last<E>(count: usize, mut holds: impl FnMut(usize) -> Result<bool, E>) -> Result<usize, E> {
    let (mut good, mut bad) = (0, count);
    // Small values are cheap, and often the limit is among them: the first is tried, then the last.
    for end in [0, count.saturating_sub(1)] {
        if good < bad && end >= good && end < bad {
            if holds(end)? { good = end + 1 } else { bad = end }
        }
    }
    while good < bad {
        let middle = good + (bad - good) / 2;
        if holds(middle)? { good = middle + 1 } else { bad = middle }
    }
    Ok(good)
}

/// Returns the greatest number of values that [`last`] tries.
///
/// They are the first, the last, and one for each halving of the rest.
pub fn most_tries(count: usize) -> usize {
    let rest = count.saturating_sub(2);
    count.min(2) + (usize::BITS - rest.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_that_holds_is_found_in_few_runs() {
        for count in [1, 2, 7, 100] {
            for fits in 0..=count {
                let mut tried = Vec::new();
                let found = last(count, |n| {
                    tried.push(n);
                    Ok::<bool, ()>(n < fits)
                });
                assert_eq!(found, Ok(fits));
                assert!(tried.len() <= most_tries(count), "{tried:?} of {count}");
                assert!(fits == 0 || tried.contains(&(fits - 1)), "the last that holds is run");
                assert!(fits == count || tried.contains(&fits), "the first that fails is run");
            }
        }
    }

    #[test]
    fn conditions_have_the_units_of_measures() {
        let of = |text: &str| text.parse::<Condition>().map(|condition| (condition.bound, condition.unit));
        assert_eq!(of("flow.call.loss <= 1 %"), Ok((0.01, "ratio")));
        assert_eq!(of("flow.call.delay-p95<=400 ms"), Ok((0.4, "s")));
        assert_eq!(of("flow.web.goodput >= 1.5 Mbit/s"), Ok((1.5e6, "bit/s")));
        assert_eq!(of("flows.fairness >= 0.9"), Ok((0.9, "")));
        for wrong in ["", "flow.call.loss", "flow.call.loss < 1", "a b <= 1", "x <= many", "x <= NaN"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    fn point(values: &[(&str, &str, [f64; 2])]) -> PointSummary {
        let averaged = |(name, unit, values): &(&str, &str, [f64; 2])| {
            let estimate = Estimate::of(values).expect("two seeds");
            ((*name).to_owned(), Averaged { unit: (*unit).to_owned(), estimate })
        };
        PointSummary {
            settings: indexmap::IndexMap::new(),
            seeds: vec![1, 2],
            fingerprints: Vec::new(),
            measures: values.iter().map(averaged).collect(),
            totals: Vec::new(),
            ledger: Vec::new(),
            units: Vec::new(),
            flow_notes: Default::default(),
            warm_up: Span::ZERO,
        }
    }

    #[test]
    fn every_measure_of_the_name_must_hold_with_its_interval() {
        let point = point(&[
            ("flow.call.1.loss", "ratio", [0.001, 0.001]),
            ("flow.call.2.loss", "ratio", [0.004, 0.006]),
            ("flow.web.goodput", "bit/s", [1e6, 1e6]),
            ("flow.web.sent-packets", "packets", [50.0, 60.0]),
        ]);
        let check =
            |text: &str| text.parse::<Condition>().expect("one").check(&point).map(|checked| checked.holds);
        assert_eq!(check("flow.call.1.loss <= 0.1 %"), Ok(true));
        assert_eq!(check("flow.call.*.loss <= 1 %"), Ok(false), "0.5 % and an interval of 1.3 %");
        assert_eq!(check("flow.call.*.loss <= 2 %"), Ok(true));
        assert_eq!(check("flow.web.goodput >= 1 Mbit/s"), Ok(true));
        assert!(check("flow.web.goodput >= 1 s").is_err() && check("flow.none.goodput >= 1").is_err());
        assert_eq!(check("flow.web.dropped-queue <= 0"), Ok(true), "nothing was dropped for it");
        assert_eq!(check("flow.web.completion <= 9 s"), Ok(false), "it does not end");
        assert_eq!(check("flow.call.*.r >= 70"), Ok(false), "nothing was played");
        assert!(
            check("flow.none.completion <= 9 s").is_err() && check("flow.web.complition <= 9 s").is_err()
        );
        assert!(
            check("flow.web.dropped-quuee <= 0").is_err() && check("flow.call.1.dropped-queue <= 0").is_err()
        );
    }
}
