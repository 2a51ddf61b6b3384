//! Published tables with the simulated values, without verdicts.

use bentpipe_report::amount;
use bentpipe_report::{Cell, Table, number, with_interval};

use crate::runs::StudyRuns;
use crate::study::{Column, TableRow, Tabulated, Value};

/// Returns a table with means over the seeds and their 95 % confidence intervals.
pub(crate) fn rendered(tabulated: &Tabulated, runs: &StudyRuns) -> Table {
    let columns = tabulated.column.iter().map(|column| column.name.clone());
    Table {
        caption: tabulated.title.clone(),
        head: ["", ""].map(String::from).into_iter().chain(columns).collect(),
        rows: tabulated.row.iter().flat_map(|row| lines(tabulated, row, runs)).collect(),
    }
}

/// Returns the published line, if there is one, and the simulated line.
fn lines(tabulated: &Tabulated, row: &TableRow, runs: &StudyRuns) -> Vec<Vec<Cell>> {
    let line = |name: &str, origin: &str, values: Vec<String>| {
        let words = [name, origin].map(|word| Cell::Text(word.to_owned()));
        words.into_iter().chain(values.into_iter().map(Cell::Number)).collect()
    };
    let published =
        row.published.iter().map(|value| if value.is_finite() { number(*value) } else { String::new() });
    let simulated = tabulated.column.iter().map(|column| simulated(column, row, runs).unwrap_or_else(|e| e));
    if row.published.is_empty() {
        return vec![line(&row.name, "simulated", simulated.collect())];
    }
    vec![line(&row.name, "published", published.collect()), line("", "simulated", simulated.collect())]
}

fn simulated(column: &Column, row: &TableRow, runs: &StudyRuns) -> Result<String, String> {
    let (per, _) =
        amount::number(&column.per).ok_or_else(|| format!("\"{}\" is not a number", column.per))?;
    if let Some(code) = &column.code {
        let points = runs.curve(code)?;
        let point = points.iter().find(|point| Some(point.0) == row.x);
        return point.map(|point| number(point.1 / per)).ok_or_else(|| format!("\"{code}\": no such x"));
    }
    let measure =
        if row.of.is_empty() { column.measure.clone() } else { format!("{}.{}", row.of, column.measure) };
    let averaged =
        runs.value(&Value { run: row.run.clone(), measure, at: row.at.clone(), ..Value::default() })?;
    let estimate = averaged.estimate;
    Ok(with_interval(estimate.mean / per, estimate.ci95.map(|half| half / per)))
}
