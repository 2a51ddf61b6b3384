//! Tables of measurements: what was published and what we got, side by side, without a verdict.

use serde::Deserialize;

use super::StudyRuns;
use super::study::{At, Value};
use crate::report::{Cell, Table, number};
use crate::units;

/// A published table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tabulated {
    /// What it shows.
    pub title: String,
    /// What is in its columns.
    pub column: Vec<Column>,
    /// Its rows.
    pub row: Vec<TableRow>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// What it is called.
    pub name: String,
    /// The last part of the measure: "rtt" of "flow.bulk.rtt"; all of it where rows have no first part.
    pub measure: String,
    /// What one of the published unit is in ours: "1500 B" of a window in segments, "1.3 Mbit/s" of a share of that.
    #[serde(default = "one")]
    pub per: String,
}

fn one() -> String {
    "1".to_owned()
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRow {
    /// What it is called.
    pub name: String,
    /// The run.
    pub run: String,
    /// Which point of its sweep.
    #[serde(default)]
    pub at: At,
    /// The first part of the measures: "flow.bulk".
    #[serde(default)]
    pub of: String,
    /// What was published, for each column; NaN for nothing, empty where the row is ours alone.
    #[serde(default)]
    pub published: Vec<f64>,
}

impl Tabulated {
    /// What makes no sense in it.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_whole = |row: &TableRow| [0, self.column.len()].contains(&row.published.len());
        match self.row.iter().find(|row| !is_whole(row)) {
            Some(row) => Err(format!(
                "table \"{}\": {}: expected {} values in `published`",
                self.title,
                row.name,
                self.column.len()
            )),
            None => Ok(()),
        }
    }

    /// The table with ours beside what was published: means over the seeds with 95 % confidence intervals.
    pub(super) fn table(&self, runs: &StudyRuns) -> Table {
        let columns = self.column.iter().map(|column| column.name.clone());
        Table {
            caption: self.title.clone(),
            head: ["", ""].map(String::from).into_iter().chain(columns).collect(),
            rows: self.row.iter().flat_map(|row| self.lines(row, runs)).collect(),
        }
    }

    /// What was published, if it was, and under it ours.
    fn lines(&self, row: &TableRow, runs: &StudyRuns) -> Vec<Vec<Cell>> {
        let line = |name: &str, whose: &str, values: Vec<String>| {
            let words = [name, whose].map(|word| Cell::Text(word.to_owned()));
            words.into_iter().chain(values.into_iter().map(Cell::Number)).collect()
        };
        let published =
            row.published.iter().map(|value| if value.is_finite() { number(*value) } else { String::new() });
        let ours = self.column.iter().map(|column| column.ours(row, runs).unwrap_or_else(|why| why));
        if row.published.is_empty() {
            return vec![line(&row.name, "ours", ours.collect())];
        }
        vec![line(&row.name, "published", published.collect()), line("", "ours", ours.collect())]
    }
}

impl Column {
    fn ours(&self, row: &TableRow, runs: &StudyRuns) -> Result<String, String> {
        let measure =
            if row.of.is_empty() { self.measure.clone() } else { format!("{}.{}", row.of, self.measure) };
        let averaged = runs.value(&Value { run: row.run.clone(), measure, at: row.at.clone() })?;
        let (per, _) = units::number(&self.per).ok_or_else(|| format!("\"{}\" is no amount", self.per))?;
        let half = averaged.estimate.ci95.filter(|half| *half > 0.0);
        let half = half.map(|half| format!(" \u{b1} {}", number(half / per)));
        Ok(format!("{}{}", number(averaged.estimate.mean / per), half.unwrap_or_default()))
    }
}
