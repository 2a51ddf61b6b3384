//! Test controller that makes the runs of a study, in place of this process.

use std::path::PathBuf;

use bentpipe_lab::run::{Failure, Monitor};
use bentpipe_units::Span;

/// Order of one run of a study.
#[derive(Clone, Debug)]
pub struct Order {
    /// Name of the run in the study.
    pub name: String,
    /// Description for a monitor.
    pub label: String,
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
    /// Set to emulate it, with the kernel's TCP between real hosts.
    pub is_emulated: bool,
    /// Duration of one run without the scenario's sweep. Default: the scenario as it is.
    pub alone: Option<Span>,
}

/// Test controller.
pub trait Controller {
    /// Executes all runs, with the results of each in its folder.
    ///
    /// # Errors
    /// Returns an error if the controller refuses a scenario, a job fails, or the monitor wants to stop.
    fn run(&self, orders: &[Order], monitor: &dyn Monitor) -> Result<(), Failure>;

    /// Returns the names of the congestion controllers that the kernel has.
    fn kernel_controllers(&self) -> Vec<String>;
}
