//! Results read back from their folder.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use indexmap::map::Entry;

use super::results_folder::{RunFolder, manifest, read_json, runs};
use super::{
    Distribution, Frame, FrameColumn, LedgerRow, Outcome, RunResult, Summary, Timing, UnitRow, accounts_file,
    counted_with, measures_frame,
};

/// Results of a plan, read from the folder that a run left.
#[derive(Clone, Debug)]
pub struct StoredResults {
    /// The folder.
    pub path: PathBuf,
    /// Title of the scenario.
    pub title: String,
    /// Command that made the results.
    pub command: String,
    /// Commit of the program that made them, if it knew it.
    pub commit: Option<String>,
    /// Means over the seeds, with the final values of all runs.
    pub summary: Summary,
    /// Runs, in the order of the plan. They count as reused.
    pub runs: Vec<RunResult>,
    /// Folders of the runs, in the same order.
    pub folders: Vec<PathBuf>,
}

impl StoredResults {
    /// Reads a folder of results.
    ///
    /// # Errors
    /// Returns what cannot be read, in words.
    pub fn read(folder: &Path) -> Result<StoredResults, String> {
        let about = manifest(folder)?;
        let found = runs(folder)?;
        let mut summary: Summary = read_json(&folder.join("summary.json"))?;
        let runs = found.iter().map(run).collect::<Result<Vec<RunResult>, String>>()?;
        if runs.iter().any(|run| run.point >= summary.points.len()) {
            return Err(format!("{}: summary.json lacks a point", folder.display()));
        }
        for (number, point) in summary.points.iter_mut().enumerate() {
            point.take(&runs.iter().filter(|run| run.point == number).collect::<Vec<_>>());
        }
        Ok(StoredResults {
            path: folder.to_owned(),
            title: about.title,
            command: about.command.join(" "),
            commit: about.commit,
            summary,
            runs,
            folders: found.into_iter().map(|run| run.path).collect(),
        })
    }

    /// Returns the values of a measure or of a final value, seed by seed.
    pub fn values(&self, name: &str, point: usize) -> Vec<f64> {
        let outcomes = self.runs.iter().filter(|run| run.point == point).map(|run| &run.outcome);
        let with = counted_with(name);
        let of_measures = |outcome: &Outcome| match &with {
            None => Some(outcome.measures.iter().find(|measure| measure.name == name)?.value),
            Some(with) => {
                let own = outcome.figures().find(|measure| measure.name == name).map(|measure| measure.value);
                own.or_else(|| outcome.figures().any(|measure| measure.name == *with).then_some(0.0))
            }
        };
        let value = |outcome| of_measures(outcome).or_else(|| Some(outcome.totals.get(name)?.0));
        outcomes.filter_map(value).collect()
    }

    /// Returns the cumulative distributions of each point, over all its seeds.
    ///
    /// A row has the share of values below a bound.
    pub fn distributions(&self) -> Frame {
        let mut merged: IndexMap<(usize, &str, &str), Distribution> = IndexMap::new();
        for run in &self.runs {
            for own in &run.outcome.distributions {
                match merged.entry((run.point, &own.subject, &own.metric)) {
                    Entry::Occupied(mut known) => known.get_mut().add(own),
                    Entry::Vacant(new) => drop(new.insert(own.clone())),
                }
            }
        }
        let rows: Vec<(usize, &Distribution, f64, f64)> = merged
            .iter()
            .flat_map(|((point, ..), of)| {
                of.cumulative().into_iter().map(move |(at, share)| (*point, of, at, share))
            })
            .collect();
        let mut columns = self.summary.front(rows.iter().map(|row| row.0));
        columns.extend([
            FrameColumn::texts("subject", rows.iter().map(|row| &row.1.subject)),
            FrameColumn::texts("metric", rows.iter().map(|row| &row.1.metric)),
            FrameColumn::texts("unit", rows.iter().map(|row| &row.1.unit)),
            FrameColumn::numbers("value", "", rows.iter().map(|row| row.2)),
            FrameColumn::numbers("share", "", rows.iter().map(|row| row.3)),
        ]);
        Frame { columns }
    }

    /// Returns a row for each run and row of its accounts of packets.
    pub fn ledger(&self) -> Frame {
        accounts_file::of_runs::<LedgerRow>(&self.summary, &self.runs)
    }

    /// Returns a row for each run and row of its accounts of units.
    pub fn units(&self) -> Frame {
        accounts_file::of_runs::<UnitRow>(&self.summary, &self.runs)
    }

    /// Returns a row for each run and measure.
    pub fn measures(&self) -> Frame {
        measures_frame(&self.summary, &self.runs)
    }
}

fn run(of: &RunFolder) -> Result<RunResult, String> {
    let outcome: Outcome = read_json(&of.path.join("outcome.json"))?;
    let timing: Timing = read_json(&of.path.join("timing.json"))?;
    Ok(RunResult { point: of.point, outcome, timing, reused: true })
}
