//! The folder that results go to.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bentpipe_record::{
    CaptureLimits, Catalogue, Checksums, LEDGER_CSV, LEDGER_FILE, LedgerRow, Outcome, Series, SeriesError,
    Timing, UNITS_CSV, UNITS_FILE, UnitRow, ledger_frame, listed_files, read_series, units_frame,
    verify_folder, write_compact, write_csv, write_json, write_ledger, write_parquet, write_units,
    write_whole,
};
use serde::de::DeserializeOwned;

use crate::measure;
use crate::plan::{Hash, Plan, Point};

/// Files that every run has.
const TABLES: [&str; 3] = ["series.parquet", "metrics.json", LEDGER_FILE];

/// Files that a run has if they are asked for.
const CSV: [&str; 2] = ["series.csv", LEDGER_CSV];

/// File that marks a run as complete.
const OUTCOME: &str = "outcome.json";
/// Files of the results of all runs.
pub(super) const SUMMARIES: [&str; 5] =
    ["scenario.original.toml", "summary.json", "summary.csv", "measures.csv", "manifest.json"];

/// A folder of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    /// Set if there is only one run, whose files are then in the folder itself.
    single: bool,
    /// Set if a wide `series.csv` is written too.
    csv: bool,
}

impl Folder {
    /// Creates the folder of a plan's results below `parent`.
    ///
    /// Its name is `name`, made harmless, with the plan's hash.
    pub fn new(parent: &Path, name: &str, plan: &Plan) -> Folder {
        let path = parent.join(named(name, plan.hash()));
        Folder { path, single: plan.runs().count() == 1, csv: false }
    }

    /// Creates the folder of a search, whose points are found one after another. Its name has the hash of the search.
    pub fn of_search(parent: &Path, name: &str, hash: Hash) -> Folder {
        Folder { path: parent.join(named(name, hash)), single: false, csv: false }
    }

    /// Returns the folder with a wide `series.csv` for each run, if `csv` is set.
    #[must_use]
    pub fn with_csv(self, csv: bool) -> Folder {
        Folder { csv, ..self }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the files of one run.
    pub fn of_run(&self, point: &Point, seed: u64) -> PathBuf {
        if self.single { self.path.clone() } else { self.path.join(run_path(point, seed)) }
    }

    /// Returns the path of a run's files in the folder; may be empty.
    pub fn relative(&self, point: &Point, seed: u64) -> PathBuf {
        if self.single { PathBuf::new() } else { run_path(point, seed) }
    }

    /// Returns the outcome of a finished run of this scenario, seed, build and limits.
    ///
    /// All its files are as they were written.
    ///
    /// `damaged` gets each file that is not.
    pub(super) fn finished(
        &self,
        point: &Point,
        seed: u64,
        (build, limits): (&str, CaptureLimits),
        damaged: &mut dyn FnMut(&str),
    ) -> Option<(Outcome, Timing)> {
        let found = self.complete(point, seed, (build, limits))?;
        let problems = verify_folder(&self.of_run(point, seed));
        problems.iter().for_each(|problem| damaged(problem));
        problems.is_empty().then_some(found)
    }

    /// Returns the outcome of a run that has all its files. They are not compared with their checksums.
    pub(super) fn complete(
        &self,
        point: &Point,
        seed: u64,
        (build, limits): (&str, CaptureLimits),
    ) -> Option<(Outcome, Timing)> {
        let folder = self.of_run(point, seed);
        let outcome: Outcome = read_json(&folder.join("outcome.json"))?;
        let timing: Timing = read_json(&folder.join("timing.json"))?;
        let csv = CSV.into_iter().filter(|_| self.csv);
        let complete = TABLES.into_iter().chain(csv).all(|name| folder.join(name).is_file())
            && outcome.captures.iter().all(|capture| folder.join(&capture.file).is_file());
        let same = outcome.hash == point.run_hash(seed).to_hex()
            && timing.build == build
            && timing.captures.is_none_or(|had| had == limits);
        (complete && same).then_some((outcome, timing))
    }

    /// Returns the series of a finished run.
    ///
    /// # Errors
    /// Returns an error if it is missing or unreadable.
    pub fn series(&self, point: &Point, seed: u64) -> Result<Series, SeriesError> {
        read_series(&self.of_run(point, seed), |_, _| true)
    }

    /// Writes the files of a run; `outcome.json` last, as it marks the rest as complete.
    pub(super) fn write_run(
        &self,
        (point, seed): (&Point, u64),
        series: &Series,
        outcome: &Outcome,
        timing: &Timing,
    ) -> io::Result<()> {
        let folder = self.of_run(point, seed);
        if self.csv {
            write_whole(&folder.join("series.csv"), |file| write_csv(series, file))?;
        }
        let starts = Some(measure::starts(&point.scenario, seed));
        write_json(&folder.join("metrics.json"), &Catalogue { starts, ..series.catalogue() })?;
        write_whole(&folder.join("series.parquet"), |file| {
            write_parquet(series, file).map_err(io::Error::other)
        })?;
        self.write_ledger(&folder, &outcome.ledger)?;
        self.write_units(&folder, &outcome.units)?;
        let scenario = point.scenario.to_toml().map_err(io::Error::other)?;
        write_whole(&folder.join("scenario.toml"), |file| file.write_all(scenario.as_bytes()))?;
        write_json(&folder.join("timing.json"), timing)?;
        self.write_checksums(&folder, outcome)?;
        write_compact(&folder.join("outcome.json"), outcome)
    }

    /// Writes the accounts of packets as a table, and as CSV with the series.
    fn write_ledger(&self, folder: &Path, ledger: &[LedgerRow]) -> io::Result<()> {
        if self.csv {
            write_whole(&folder.join(LEDGER_CSV), |file| ledger_frame(ledger.iter()).write_csv(file))?;
        }
        write_whole(&folder.join(LEDGER_FILE), |file| write_ledger(ledger, file).map_err(io::Error::other))
    }

    /// Writes the accounts of units as a table, and as CSV with the series.
    fn write_units(&self, folder: &Path, units: &[UnitRow]) -> io::Result<()> {
        if self.csv {
            write_whole(&folder.join(UNITS_CSV), |file| units_frame(units.iter()).write_csv(file))?;
        }
        write_whole(&folder.join(UNITS_FILE), |file| write_units(units, file).map_err(io::Error::other))
    }

    /// Writes the checksums of a run's files, and of the outcome that follows.
    fn write_checksums(&self, folder: &Path, outcome: &Outcome) -> io::Result<()> {
        let mut names = listed_files(folder)?;
        // What is left of an earlier outcome, and what is written once all runs are done.
        names.retain(|name| name != OUTCOME && !(self.single && SUMMARIES.contains(&&name[..])));
        let mut sums = Checksums::of(folder, names)?;
        let mut bytes = serde_json::to_vec(outcome)?;
        bytes.push(b'\n');
        sums.add_bytes(OUTCOME, &bytes);
        sums.write(folder)
    }
}

/// Returns a name, made harmless, with a hash.
fn named(name: &str, hash: Hash) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String = name.chars().take(60).map(harmless).collect();
    format!("{name}-{}", &hash.to_hex()[..12])
}

fn run_path(point: &Point, seed: u64) -> PathBuf {
    Path::new("points").join(format!("p{:03}-s{seed}", point.index))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
