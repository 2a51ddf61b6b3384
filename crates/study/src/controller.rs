//! Test controller that makes the runs of a study, in place of this process.

use std::path::PathBuf;

use bentpipe_lab::run::{Failure, Monitor};

/// Order of one run of a study.
#[derive(Clone, Debug)]
pub struct Order {
    /// Name of the run in the study.
    pub name: String,
    /// Scenario file.
    pub scenario: PathBuf,
    /// Keys to set, as KEY=VALUE.
    pub sets: Vec<String>,
    /// Number of seeds. Default: the scenario's.
    pub seeds: Option<u32>,
    /// Folder for the results.
    pub folder: PathBuf,
    /// Series that the study draws of it against time.
    pub curves: Vec<String>,
}

/// Test controller.
pub trait Controller {
    /// Executes all runs, with the results of each in its folder.
    ///
    /// # Errors
    /// Returns an error if the controller refuses a scenario, a job fails, or the monitor wants to stop.
    fn run(&self, orders: &[Order], monitor: &dyn Monitor) -> Result<(), Failure>;
}
