//! The folder that results go to.

use std::fs;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::write_whole;
use super::{Outcome, Timing};
use crate::plan::{Plan, Point};
use crate::record::{CsvError, Series, read_csv, write_csv, write_parquet};

/// A folder of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    /// Whether there is only one run, whose files are then in the folder itself.
    single: bool,
}

impl Folder {
    /// The folder of a plan's results below `parent`: `name`, made harmless, and the plan's hash.
    pub fn new(parent: &Path, name: &str, plan: &Plan) -> Folder {
        let harmless = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
        let name: String = name.chars().take(60).map(harmless).collect();
        let path = parent.join(format!("{name}-{}", &plan.hash().to_hex()[..12]));
        Folder { path, single: plan.runs().count() == 1 }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the files of one run are.
    pub fn of_run(&self, point: &Point, seed: u64) -> PathBuf {
        if self.single { self.path.clone() } else { self.path.join(run_path(point, seed)) }
    }

    /// Where the files of one run are, from the folder on; empty for the folder itself.
    pub fn relative(&self, point: &Point, seed: u64) -> PathBuf {
        if self.single { PathBuf::new() } else { run_path(point, seed) }
    }

    /// The outcome of a run that is finished, if it is: of the same scenario and seed, by the same build.
    pub(super) fn finished(&self, point: &Point, seed: u64, build: &str) -> Option<(Outcome, Timing)> {
        let folder = self.of_run(point, seed);
        let outcome: Outcome = read_json(&folder.join("outcome.json"))?;
        let timing: Timing = read_json(&folder.join("timing.json"))?;
        let complete = ["series.csv", "series.parquet"].iter().all(|name| folder.join(name).is_file())
            && outcome.captures.iter().all(|capture| folder.join(&capture.file).is_file());
        let same = outcome.hash == point.run_hash(seed).to_hex() && timing.build == build;
        (complete && same).then_some((outcome, timing))
    }

    /// The series of a finished run.
    ///
    /// # Errors
    /// If there is none that can be read.
    pub fn series(&self, point: &Point, seed: u64) -> Result<Series, CsvError> {
        let file = fs::File::open(self.of_run(point, seed).join("series.csv"))?;
        read_csv(BufReader::new(file))
    }

    /// Writes what a run gave; `outcome.json` last, as it says that the rest is there.
    pub(super) fn write_run(
        &self,
        (point, seed): (&Point, u64),
        series: &Series,
        outcome: &Outcome,
        timing: &Timing,
    ) -> io::Result<()> {
        let folder = self.of_run(point, seed);
        write_whole(&folder.join("series.csv"), |file| write_csv(series, file))?;
        write_whole(&folder.join("series.parquet"), |file| {
            write_parquet(series, file).map_err(io::Error::other)
        })?;
        let scenario = toml::to_string_pretty(&point.scenario).map_err(io::Error::other)?;
        write_whole(&folder.join("scenario.toml"), |file| file.write_all(scenario.as_bytes()))?;
        write_json(&folder.join("timing.json"), timing)?;
        write_json(&folder.join("outcome.json"), outcome)
    }
}

fn run_path(point: &Point, seed: u64) -> PathBuf {
    Path::new("points").join(format!("p{:03}-s{seed}", point.index))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a value as JSON for people and programs.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_whole(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })
}
