//! Published values and how ours compare.
//!
//! A study is a folder with a `study.toml`: scenarios to run, and rows, each a value that somebody published, where, and
//! which measure of which run is to be held against it. docs/studies.md says how to write one.

mod computed;
mod evaluate;
mod kernel;
mod report;
mod reproduce;
mod study;
mod table;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use evaluate::{Finished, Length, StudyRuns, compare};
pub use kernel::{Beside, Kernel, KernelPath, KernelTests, Seen, Transfer, kernel_notes, kernel_table};
pub use report::study_page;
pub use reproduce::{Reproduced, Request, reproduce};
pub use study::{At, Curves, Draw, Figure, Mistake, Ours, Row, Run, Shown, Study, Value};
pub use table::{Column, TableRow, Tabulated};

/// What a row's comparison is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Free parameters were chosen so that it holds: it shows nothing but that they can be.
    Calibrated,
    /// Nothing was tuned on it.
    Predicted,
    /// The text gives no number; an inequality stands for what it says.
    Claim,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Calibrated => "calibrated",
            Kind::Predicted => "predicted",
            Kind::Claim => "claim",
        })
    }
}

/// What was published, in the row's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// A value, and by what share of it ours may differ.
    Value {
        /// The value.
        value: f64,
        /// The share.
        tolerance: f64,
    },
    /// A range, and by what share of its ends ours may be outside.
    Between {
        /// Its ends.
        low: f64,
        /// Its ends.
        high: f64,
        /// The share.
        tolerance: f64,
    },
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
}

impl Expected {
    /// Whether `ours` is as was published.
    pub fn holds(&self, ours: f64) -> bool {
        match *self {
            Expected::Value { value, tolerance } => {
                (ours - value).abs() <= tolerance * value.abs() + f64::EPSILON
            }
            Expected::Between { low, high, tolerance } => {
                ours >= low - tolerance * low.abs() && ours <= high + tolerance * high.abs()
            }
            Expected::AtLeast(least) => ours >= least,
            Expected::AtMost(most) => ours <= most,
        }
    }

    /// By what share of the published value (the nearer end of a range) ours is off; none for an inequality that holds
    /// and inside a range.
    pub fn deviation(&self, ours: f64) -> Option<f64> {
        let from = |value: f64| (value != 0.0).then(|| (ours - value) / value.abs());
        match *self {
            Expected::Value { value, .. } => from(value),
            Expected::Between { low, .. } if ours < low => from(low),
            Expected::Between { high, .. } if ours > high => from(high),
            Expected::AtLeast(least) if ours < least => from(least),
            Expected::AtMost(most) if ours > most => from(most),
            _ => None,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Value { value, .. } => write!(f, "{value}"),
            Expected::Between { low, high, .. } => write!(f, "{low} to {high}"),
            Expected::AtLeast(least) => write!(f, "\u{2265} {least}"),
            Expected::AtMost(most) => write!(f, "\u{2264} {most}"),
        }
    }
}

/// A row with what we got.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The row.
    pub row: Row,
    /// Ours, in the row's unit, and half its 95 % confidence interval; or why there is none.
    pub ours: Result<(f64, Option<f64>), String>,
    /// How they compare.
    pub verdict: Verdict,
}

/// How ours compares with what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Met,
    /// Outside.
    Missed,
    /// Not judged: a quick run does not last long enough for it.
    NotJudged,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotJudged => "not judged",
        })
    }
}

#[cfg(test)]
mod tests;
