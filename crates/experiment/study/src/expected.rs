//! Published values, their tolerances, and verdicts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::spread::Interval;

/// Worth of a row's comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Published value. Nothing that was free to choose was chosen with the row in view.
    Predicted,
    /// Sentence of the publication without a number, written as an inequality.
    Claim,
    /// Published value on which something was chosen. It shows only that it can be.
    Calibrated,
    /// Published value that follows by arithmetic from inputs of the study or of the publication.
    Arithmetic,
    /// Published value that is an input of the study. It shows only that nothing contradicts it.
    Input,
    /// Check of this study, about which the publication says nothing.
    Own,
}

impl Kind {
    /// Kinds in the order of a summary.
    pub const ALL: [Kind; 6] =
        [Kind::Predicted, Kind::Claim, Kind::Calibrated, Kind::Arithmetic, Kind::Input, Kind::Own];

    /// Returns the name of the rows of this kind in a summary.
    pub fn heading(self) -> &'static str {
        match self {
            Kind::Predicted => "predicted",
            Kind::Claim => "claims",
            Kind::Calibrated => "calibrated",
            Kind::Arithmetic => "arithmetic",
            Kind::Input => "inputs",
            Kind::Own => "own checks, not published",
        }
    }

    /// Returns `true` if the row has a published value or sentence.
    pub fn is_published(self) -> bool {
        self != Kind::Own
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Predicted => "predicted",
            Kind::Claim => "claim",
            Kind::Calibrated => "calibrated",
            Kind::Arithmetic => "arithmetic",
            Kind::Input => "input",
            Kind::Own => "own",
        })
    }
}

/// Simulated value with the intervals that a verdict needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// Mean over the seeds.
    pub mean: f64,
    /// 95 % confidence interval of the mean; the mean itself where there is none.
    pub interval: Interval,
    /// 95 % prediction interval of one further run, if there are several.
    pub next: Option<Interval>,
}

impl Simulated {
    /// Returns an exact value.
    pub fn exact(value: f64) -> Simulated {
        Simulated { mean: value, interval: (value, value), next: None }
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
    /// Of a single published run it is the prediction interval of a simulated one, in which the published value has to be. There is none
    /// if that is wider than the value itself on both sides: it could hardly be missed.
    pub fn band(&self, simulated: &Simulated) -> Option<Interval> {
        match *self {
            Expected::Value { value, tolerance } => {
                let half = tolerance * value.abs() + f64::EPSILON;
                Some((value - half, value + half))
            }
            Expected::OneRun(value) => simulated.next.filter(|(low, high)| high - low <= 2.0 * value.abs()),
            Expected::Between { low, high, tolerance } => {
                Some((low - tolerance * low.abs(), high + tolerance * high.abs()))
            }
            Expected::AtLeast(least) => Some((least, f64::INFINITY)),
            Expected::AtMost(most) => Some((f64::NEG_INFINITY, most)),
        }
    }

    /// Returns `true` if an exact value agrees.
    pub fn holds(&self, value: f64) -> bool {
        self.verdict(&Simulated::exact(value)) == Verdict::Met
    }

    /// Compares a simulated value, with its confidence interval if it has one.
    ///
    /// It is met if the whole interval agrees and missed if none of it does. The value of a single published run is compared
    /// with the prediction interval of one simulated run.
    pub fn verdict(&self, simulated: &Simulated) -> Verdict {
        if !simulated.mean.is_finite() {
            return Verdict::Missed;
        }
        let Some((low, high)) = self.band(simulated) else { return Verdict::Undecided };
        let (from, to) = match *self {
            Expected::OneRun(value) => (value, value),
            _ => simulated.interval,
        };
        match () {
            () if from >= low && to <= high => Verdict::Met,
            () if to < low || from > high => Verdict::Missed,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
