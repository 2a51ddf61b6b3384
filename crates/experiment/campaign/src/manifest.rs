//! Contents of `manifest.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Name of the file in the folder of a campaign.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";

/// Name of the scenario in the folder of a campaign.
pub(crate) const SCENARIO_FILE: &str = "scenario.toml";

/// Number of the format of the folder.
pub(crate) const FORMAT: u32 = 1;

/// Description of a campaign: its runs, and the build that may run them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Number of the format of the folder.
    pub format: u32,
    /// Title of the scenario.
    pub title: String,
    /// Version of bentpipe.
    pub version: String,
    /// Identifier of the program's build. Another one may give other results, and runs nothing of this campaign.
    pub build: String,
    /// Path of the scenario file as it was given.
    pub scenario: String,
    /// Settings of the command line, KEY=VALUE.
    pub settings: Vec<String>,
    /// Swept keys or names of axes, each with its number of values.
    ///
    /// The last one varies fastest.
    pub axes: Vec<(String, u64)>,
    /// Dotted keys that the sweep sets, in the order of the columns.
    pub keys: Vec<String>,
    /// Number of points.
    pub points: u64,
    /// The first seed of each point.
    pub first_seed: u64,
    /// Number of seeds of each point.
    pub seeds: u32,
    /// SHA-256 of the scenario and of every file that it names, by path.
    pub inputs: BTreeMap<String, String>,
    /// Identifier of the campaign.
    ///
    /// It is a hash of all of the above that a result depends on, without the build.
    pub hash: String,
}

impl Manifest {
    /// Returns the number of runs.
    pub fn runs(&self) -> u64 {
        self.points * u64::from(self.seeds)
    }

    /// Returns the point and the seed of a run.
    pub fn place(&self, run: u64) -> (u64, u64) {
        let seeds = u64::from(self.seeds.max(1));
        (run / seeds, self.first_seed.wrapping_add(run % seeds))
    }
}
