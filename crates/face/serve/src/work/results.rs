//! Work on results: their points and measures, series, plots, and the comparison of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use bentpipe_record::{Form, Selection, Summary};
use serde::{Deserialize, Serialize};

use crate::drafts;
use crate::plots::{Source, Window, drawn_in};
use crate::problem::{Problem, Result};
use crate::store::jobs;

/// File of points and measures in the working folder of a child.
pub(crate) const ROWS: &str = "rows.jsonl";
/// File of selected series there.
pub(crate) const SELECTED: &str = "selected.csv";
/// Most keys of a comparison.
const MAX_KEYS: usize = 20;

/// Plots of the first runs of jobs.
#[derive(Serialize, Deserialize)]
pub(crate) struct Drawing {
    pub(crate) runs: Vec<Source>,
    pub(crate) window: Window,
}

/// Job of a comparison.
#[derive(Serialize, Deserialize)]
pub(crate) struct ComparedJob {
    /// Place of its scenario among the texts.
    pub(crate) text: usize,
    /// Settings of all its points.
    pub(crate) set: Vec<(String, String)>,
    /// Settings of each point.
    pub(crate) points: Vec<Vec<(String, String)>>,
}

/// Keys that differ between points, and their values.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    pub(crate) keys: Vec<String>,
    /// Values of the keys at each point, job after job.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Drawing {
    /// Returns the plots as a part of a page; an empty text without any.
    pub(super) fn html(&self) -> String {
        drawn_in(&self.runs, self.window)
    }
}

/// Writes the points and measures of results into a file. Returns `false` if they have no summary.
pub(super) fn write_rows(results: &Path) -> Result<bool> {
    let Ok(bytes) = std::fs::read(results.join("summary.json")) else { return Ok(false) };
    let Ok(summary) = serde_json::from_slice::<Summary>(&bytes) else { return Ok(false) };
    drop(bytes);
    write_summary(&summary).map(|()| true)
}

/// Writes the points and measures of a summary into a file of the working folder.
pub(crate) fn write_summary(summary: &Summary) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::new(File::create(ROWS)?);
        jobs::write_lines(summary, &mut out)?;
        out.flush()
    };
    write().map_err(|error| Problem::internal(&error))
}

/// Writes the selected series of results as CSV into a file.
pub(super) fn select(results: &Path, patterns: Vec<String>) -> Result<()> {
    let selection = Selection { patterns, keeps_constant: true };
    let selected = selection.read(results).map_err(|error| Problem::bad(format!("select: {error}")))?;
    let file = File::create(SELECTED).map_err(|error| Problem::internal(&error))?;
    let mut out = BufWriter::new(file);
    let written = selected.write_csv(Form::Wide, &mut out).map_err(|error| Problem::internal(&error));
    written.and_then(|()| out.flush().map_err(|error| Problem::internal(&error)))
}

/// Point of a comparison: the keys of its scenario, and those that are set.
struct Point<'a> {
    text: &'a BTreeMap<String, String>,
    set: BTreeMap<&'a str, &'a str>,
}

impl Point<'_> {
    /// Returns the value of a key; an empty one if the point has none.
    fn value(&self, key: &str) -> &str {
        let own = self.set.get(key).copied();
        own.or_else(|| self.text.get(key).map(|value| &value[..])).unwrap_or_default()
    }
}

/// Returns the first keys whose values differ between points.
pub(super) fn compare(texts: &[String], compared: &[ComparedJob]) -> Comparison {
    let texts: Vec<BTreeMap<String, String>> =
        texts.iter().map(|text| drafts::leaves(text).into_iter().collect()).collect();
    let none = BTreeMap::new();
    let mut rows: Vec<Point<'_>> = Vec::new();
    for job in compared {
        let text = texts.get(job.text).unwrap_or(&none);
        for point in &job.points {
            // What a job sets counts, then what its sweep sets, then the text.
            let set = point.iter().chain(&job.set).map(|(key, value)| (&key[..], &value[..])).collect();
            rows.push(Point { text, set });
        }
    }
    let of_texts = texts.iter().flat_map(|text| text.keys().map(|key| &key[..]));
    let keys: BTreeSet<&str> = of_texts.chain(rows.iter().flat_map(|row| row.set.keys().copied())).collect();
    let is_set: BTreeSet<&str> = rows.iter().flat_map(|row| row.set.keys().copied()).collect();
    // A key that no point sets has as many values as there are texts.
    let of_each_text: Vec<&Point<'_>> = {
        let mut seen = BTreeSet::new();
        rows.iter().filter(|row| seen.insert(std::ptr::from_ref(row.text))).collect()
    };
    let differs = |key: &&str| {
        let first = rows.first().map(|row| row.value(key));
        match is_set.contains(key) {
            true => rows.iter().any(|row| Some(row.value(key)) != first),
            false => of_each_text.iter().any(|row| Some(row.value(key)) != first),
        }
    };
    let keys: Vec<&str> =
        keys.into_iter().filter(|key| !key.starts_with("sweep.")).filter(differs).take(MAX_KEYS).collect();
    Comparison {
        rows: rows.iter().map(|row| keys.iter().map(|key| row.value(key).to_owned()).collect()).collect(),
        keys: keys.into_iter().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn keys_that_differ_are_those_of_texts_settings_and_sweeps() {
        let texts = ["a = 1\nb = 2\nc.d = \"x\"\n", "a = 1\nb = 3\ne = 1\n"].map(str::to_owned);
        let job = |text, set: &[_], points: &[&[_]]| ComparedJob {
            text,
            set: pairs(set),
            points: points.iter().map(|point| pairs(point)).collect(),
        };
        let jobs = [job(0, &[("seeds", "5")], &[&[("a", "7")], &[("a", "8")]]), job(1, &[], &[&[]])];
        let comparison = compare(&texts, &jobs);
        assert_eq!(comparison.keys, ["a", "b", "c.d", "e", "seeds"]);
        let rows = [["7", "2", "x", "", "5"], ["8", "2", "x", "", "5"], ["1", "3", "", "1", ""]];
        assert_eq!(comparison.rows, rows);
        let alike = compare(&texts[..1], &[job(0, &[], &[&[], &[("sweep.x", "1")]])]);
        assert_eq!(alike, Comparison { keys: Vec::new(), rows: vec![Vec::new(); 2] });
    }

    #[test]
    fn many_keys_and_points_are_compared_in_time_that_is_in_proportion() {
        let text: String = (0..20_000).map(|n| format!("k{n:x} = 1\n")).collect();
        let points = (0..10_000).map(|n| pairs(&[("a", &n.to_string())])).collect();
        let comparison = compare(&[text], &[ComparedJob { text: 0, set: Vec::new(), points }]);
        assert_eq!((comparison.keys.len(), comparison.rows.len()), (1, 10_000));
    }
}
