//! Figures, tables and images of a study file.

use std::path::PathBuf;

use bentpipe_report::Mark;
use serde::Deserialize;

use super::row::At;

/// Diagram of a study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Title.
    pub title: String,
    /// Remark under the title.
    #[serde(default)]
    pub note: String,
    /// Swept key of the horizontal axis. Default: time.
    pub x: Option<String>,
    /// Label of the horizontal axis.
    #[serde(default)]
    pub x_label: String,
    /// Label of the vertical axis.
    #[serde(default)]
    pub y_label: String,
    /// Curves.
    pub curve: Vec<Curves>,
    /// Enables a logarithmic vertical axis, unless a value is zero.
    #[serde(default)]
    pub logarithmic: bool,
    /// Start of the time shown in seconds, or of the horizontal axis of computed curves.
    pub from: Option<f64>,
    /// End of the time shown in seconds, or of the horizontal axis of computed curves.
    pub until: Option<f64>,
    /// Enables a vertical axis from zero. Default: true. Without it the axis spans the values, for small changes.
    #[serde(default = "yes")]
    pub from_zero: bool,
    /// Published instants, drawn as upright lines over time.
    #[serde(default)]
    pub instant: Vec<Instant>,
    /// Labels in place of 0, 1, 2 on the horizontal axis, for computed curves.
    #[serde(default)]
    pub x_words: Vec<String>,
    /// Flow from whose start time counts. Default: from the start of the run.
    pub since: Option<String>,
}

fn yes() -> bool {
    true
}

impl Figure {
    /// Returns `true` if the horizontal axis reaches to `x`.
    pub(crate) fn shows(&self, x: f64) -> bool {
        self.from.is_none_or(|from| x >= from) && self.until.is_none_or(|until| x <= until)
    }
}

/// Published instant of a figure over time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instant {
    /// Name in the legend.
    pub name: String,
    /// Instant in seconds, on the time axis of the figure.
    pub at: f64,
}

/// Curve of a figure, or several of one colour.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    /// Name in the legend.
    pub name: String,
    /// Run. Default: none, for published points and computed curves.
    pub run: Option<String>,
    /// Measure, or over time the series: "flow.bulk.sender.cwnd".
    #[serde(default)]
    pub measure: String,
    /// Points of the sweep, without the key of the horizontal axis.
    #[serde(default)]
    pub at: At,
    /// Selection over time from the points that `at` leaves.
    #[serde(default)]
    pub draw: Draw,
    /// Published points: value on the horizontal axis with its unit, and value in `unit`.
    #[serde(default)]
    pub points: Vec<(String, f64)>,
    /// Unit of `points` and of computed values.
    #[serde(default)]
    pub unit: String,
    /// Function of the crate that computes the points from the runs.
    pub code: Option<String>,
    /// Mark of computed points. Default: "points"; "line" or "dashed" for a model.
    pub mark: Option<Mark>,
}

/// Selection of a curve over time from several points of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// First point.
    #[default]
    First,
    /// Each point, in one colour.
    Each,
    /// Median at each time and, dashed, minimum and maximum.
    Median,
}

/// Image that a run left in its folder.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddedImage {
    /// Title.
    pub title: String,
    /// Remark under the title.
    #[serde(default)]
    pub note: String,
    /// Run, of one point and seed.
    pub run: String,
    /// PNG file in the run's folder.
    pub file: PathBuf,
}

/// Published table with the simulated values, without verdicts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tabulated {
    /// Caption.
    pub title: String,
    /// Columns.
    pub column: Vec<Column>,
    /// Rows.
    pub row: Vec<TableRow>,
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Last part of the measure ("rtt" of "flow.bulk.rtt"), or all of a one-part name.
    #[serde(default)]
    pub measure: String,
    /// Computed curve in place of a measure. A row has its value at `x`.
    #[serde(default)]
    pub code: Option<String>,
    /// Size of the published unit: "1500 B" for segments, "1.3 Mbit/s" for shares.
    #[serde(default = "one")]
    pub per: String,
}

fn one() -> String {
    "1".to_owned()
}

/// Row of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRow {
    /// Name.
    pub name: String,
    /// Run, of columns with a measure.
    #[serde(default)]
    pub run: String,
    /// Point of the sweep.
    #[serde(default)]
    pub at: At,
    /// Place on the axis of computed curves, of columns with `code`.
    #[serde(default)]
    pub x: Option<f64>,
    /// First part of the measures: "flow.bulk".
    #[serde(default)]
    pub of: String,
    /// Published value of each column, NaN for none. Empty if none was published.
    #[serde(default)]
    pub published: Vec<f64>,
}

impl Tabulated {
    /// Checks that each row has the values that its columns need.
    pub(super) fn check(&self) -> Result<(), String> {
        let wrong = |name: &str, problem: String| Err(format!("table \"{}\": {name}: {problem}", self.title));
        for column in &self.column {
            if column.measure.is_empty() != column.code.is_some() {
                return wrong(&column.name, "expected either `measure` or `code`".to_owned());
            }
        }
        let (has_code, has_measure) =
            (self.column.iter().any(|it| it.code.is_some()), self.column.iter().any(|it| it.code.is_none()));
        for row in &self.row {
            if ![0, self.column.len()].contains(&row.published.len()) {
                let (expected, got) = (self.column.len(), row.published.len());
                return wrong(&row.name, format!("expected {expected} values in `published`, got {got}"));
            }
            if has_measure == row.run.is_empty() || has_code != row.x.is_some() {
                return wrong(
                    &row.name,
                    "expected `run` for columns with `measure`, and `x` for columns with `code`".to_owned(),
                );
            }
        }
        Ok(())
    }
}
