//! Published values, their tolerances, and verdicts.

use std::fmt;

use bentpipe_record::stats::Estimate;
use serde::{Deserialize, Serialize};

/// Worth of a row's comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Published value on which free parameters were chosen. It shows only that they can be.
    Calibrated,
    /// Published value on which nothing was tuned.
    Predicted,
    /// Published value that the study's inputs determine. It shows only that nothing contradicts them.
    Input,
    /// Published statement without a number, written as an inequality.
    Claim,
    /// Statement of this study, not of the publication.
    Own,
}

impl Kind {
    /// Kinds in the order of a summary.
    pub const ALL: [Kind; 5] = [Kind::Predicted, Kind::Claim, Kind::Calibrated, Kind::Input, Kind::Own];

    /// Returns the name of the rows of this kind in a summary.
    pub fn heading(self) -> &'static str {
        match self {
            Kind::Predicted => "published values",
            Kind::Claim => "published claims",
            Kind::Calibrated => "calibrated values",
            Kind::Input => "inputs",
            Kind::Own => "own statements",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Calibrated => "calibrated",
            Kind::Predicted => "predicted",
            Kind::Input => "input",
            Kind::Claim => "claim",
            Kind::Own => "own",
        })
    }
}

/// Published value in the row's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// Value with a tolerance.
    Value {
        /// Published value.
        value: f64,
        /// Share of it by which the simulated value may differ.
        tolerance: f64,
    },
    /// Value of a single published run, compared with the spread of single simulated runs.
    OneRun(f64),
    /// Range with a tolerance.
    Between {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Share of either end by which the simulated value may be outside.
        tolerance: f64,
    },
    /// Lower bound.
    AtLeast(f64),
    /// Upper bound.
    AtMost(f64),
}

impl Expected {
    /// Returns the least and the greatest simulated value that agrees with the published one.
    ///
    /// `estimate` gives the spread of single runs: their 95 % prediction interval for one further run.
    pub fn band(&self, estimate: &Estimate) -> Option<(f64, f64)> {
        match *self {
            Expected::Value { value, tolerance } => {
                let half = tolerance * value.abs() + f64::EPSILON;
                Some((value - half, value + half))
            }
            Expected::OneRun(value) => {
                let half = estimate.ci95? * ((estimate.n + 1) as f64).sqrt();
                Some((value - half, value + half))
            }
            Expected::Between { low, high, tolerance } => {
                Some((low - tolerance * low.abs(), high + tolerance * high.abs()))
            }
            Expected::AtLeast(least) => Some((least, f64::INFINITY)),
            Expected::AtMost(most) => Some((f64::NEG_INFINITY, most)),
        }
    }

    /// Compares a simulated value, with its confidence interval if it has one.
    ///
    /// It is met if the whole interval agrees and missed if none of it does. The value of a single published run is compared
    /// with the mean alone, as the spread of the runs makes the band.
    pub fn verdict(&self, estimate: &Estimate) -> Verdict {
        let Some((low, high)) = self.band(estimate) else { return Verdict::Undecided };
        let (from, to) = match self {
            Expected::OneRun(_) => (estimate.mean, estimate.mean),
            _ => estimate.interval(),
        };
        match () {
            () if from >= low && to <= high => Verdict::Met,
            () if to < low || from > high || !estimate.mean.is_finite() => Verdict::Missed,
            () => Verdict::Undecided,
        }
    }

    /// Returns the deviation as a share of the published value.
    ///
    /// Of a range the nearer end counts. It is `None` inside a range or where an inequality holds.
    pub fn deviation(&self, simulated: f64) -> Option<f64> {
        let from = |value: f64| (value != 0.0).then(|| (simulated - value) / value.abs());
        match *self {
            Expected::Value { value, .. } | Expected::OneRun(value) => from(value),
            Expected::Between { low, .. } if simulated < low => from(low),
            Expected::Between { high, .. } if simulated > high => from(high),
            Expected::AtLeast(least) if simulated < least => from(least),
            Expected::AtMost(most) if simulated > most => from(most),
            _ => None,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Value { value, .. } | Expected::OneRun(value) => write!(f, "{value}"),
            Expected::Between { low, high, .. } => write!(f, "{low} to {high}"),
            Expected::AtLeast(least) => write!(f, "\u{2265} {least}"),
            Expected::AtMost(most) => write!(f, "\u{2264} {most}"),
        }
    }
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance, with the whole confidence interval.
    Met,
    /// Confidence interval partly inside and partly outside the tolerance: more seeds would decide.
    Undecided,
    /// Outside the tolerance, with the whole confidence interval.
    Missed,
    /// Too short a run (`--quick`) to judge.
    NotJudged,
}

impl Verdict {
    /// Verdicts in the order of a summary.
    pub const ALL: [Verdict; 4] = [Verdict::Met, Verdict::Missed, Verdict::Undecided, Verdict::NotJudged];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Met => "met",
            Verdict::Undecided => "undecided",
            Verdict::Missed => "missed",
            Verdict::NotJudged => "not judged",
        })
    }
}
