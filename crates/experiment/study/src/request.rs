//! Requests to run a study, and the planning and execution of its scenarios.

use std::path::Path;

use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_lab::run::{self, Assembled, Failure, Folder, Monitor, Results};
use bentpipe_scenario::Document;

use crate::controller::Controller;
use crate::study::Study;
use crate::transfer::Kernel;

/// Request to run a study.
pub struct Request<'a> {
    /// Study.
    pub study: &'a Study,
    /// Shortens the runs as the study specifies.
    pub quick: bool,
    /// Folder in which the study's folder of results is made.
    pub parent: &'a Path,
    /// Number of parallel runs; zero for one per CPU.
    pub jobs: usize,
    /// Repeats finished runs.
    pub force: bool,
    /// Identity of the program, which differs from others that may give other results.
    pub build: &'a str,
    /// Commit that the program was built from, if it is known.
    pub commit: Option<&'a str>,
    /// Command line for the manifests.
    pub command: &'a [String],
    /// Sender with the kernel's TCP, if its transfers are requested.
    pub kernel: Option<&'a dyn Kernel>,
    /// Test controller for studies that are of one. Without it, this process makes their runs.
    pub controller: Option<&'a dyn Controller>,
}

/// Scenario with its plan.
pub(crate) struct Planned {
    /// Scenario.
    pub(crate) document: Document,
    /// Plan.
    pub(crate) plan: Plan,
}

impl Request<'_> {
    /// Returns `true` if a test controller makes the runs.
    pub(crate) fn is_controlled(&self) -> bool {
        self.study.controller && self.controller.is_some()
    }

    /// Returns a scenario of the study with the given keys set, and its plan.
    ///
    /// # Errors
    /// Returns an error if the scenario is invalid.
    pub(crate) fn planned<'s>(
        &self,
        scenario: &Path,
        sets: impl Iterator<Item = &'s String>,
        seeds: Option<u32>,
    ) -> Result<Planned, Failure> {
        let wrong = |error: &dyn std::fmt::Display| Failure::Build(error.to_string());
        let path = self.study.folder.join(scenario);
        let mut document = bentpipe_paths::document(&path).map_err(|error| wrong(&error))?;
        for set in sets {
            document.set(set).map_err(|error| wrong(&error))?;
        }
        let seeds = Seeds { first: None, count: seeds };
        let plan = Plan::new(&document, seeds).map_err(|error| wrong(&error))?;
        Ok(Planned { document, plan })
    }

    /// Executes all runs of a plan, with results in the folder `name` below `parent`.
    ///
    /// The inner error is the reason why this machine cannot make the runs, such as a missing program.
    ///
    /// # Errors
    /// Returns an error if a network cannot be assembled, the monitor wants to stop, or files cannot be written.
    pub(crate) fn execute<T>(
        &self,
        planned: &Planned,
        name: &str,
        parent: &Path,
        monitor: &dyn Monitor,
        then: impl FnOnce(&run::Request<'_>, Results) -> Result<T, Failure>,
    ) -> Result<Result<T, String>, Failure> {
        let Planned { document, plan } = planned;
        let request = run::Request {
            document,
            plan,
            folder: Folder::new(parent, name, plan),
            jobs: self.jobs,
            // What the controller made is not made again.
            force: self.force && !self.is_controlled(),
            captures: usize::MAX.into(),
            build: self.build,
            commit: self.commit,
            command: self.command,
        };
        let assembled =
            Assembled::new(document, plan).map_err(|refusal| Failure::Build(refusal.to_string()))?;
        let prepare = |point: &_, seed| assembled.prepare(point, seed);
        match run::execute(&request, &prepare, monitor) {
            Err(Failure::Build(reason)) => Ok(Err(reason)),
            results => then(&request, results?).map(Ok),
        }
    }
}
