//! Scenarios in real time, with real programs at their ends.
//!
//! An [`Emulation`] makes a network namespace for each real host, runs the scenario's network against the wall clock, starts
//! programs at the hosts, accepts changes at a socket ([`control::set`]), and leaves a run's folder and report. [`ThisMachine`]
//! sends with the kernel's own TCP over the paths of a study, and carries its voice streams.
#![allow(clippy::disallowed_methods, reason = "real time is the purpose of this crate")]

mod attachment;
mod connections;
pub mod control;
mod export;
mod flow_programs;
mod hosts;
mod join;
mod kernel;
mod live;
pub mod metrics;
mod programs;
mod session;
mod streams;
mod view;

pub use attachment::{Attachment, Target, prepare_attachments};
pub use bentpipe_emu::Pace;
use bentpipe_emu::SetupError;
use bentpipe_lab::run::Failure;
use bentpipe_scenario::ScenarioError;

pub use bentpipe_emu::joint::Skew;
pub use hosts::namespace_of;
pub use join::Join;
pub use kernel::ThisMachine;
pub use programs::ProgramSettings;
pub use session::{Emulation, Report, Samples, clean_up};
pub use view::Display;

/// Caller of an emulation: receives its messages.
pub trait Console: Sync {
    /// Receives a remark.
    fn note(&self, text: &str);

    /// Receives a result, or instructions for use.
    fn print(&self, text: &str);
}

/// Error returned by an emulation, or by a request to one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is wrong, or cannot be emulated.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A real host cannot be made.
    #[error(transparent)]
    Hosts(#[from] SetupError),
    /// The other machine cannot be joined.
    #[error(transparent)]
    Join(#[from] bentpipe_emu::joint::JoinError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] Failure),
    /// A setting, a request or a program is wrong.
    #[error("{0}")]
    Other(String),
}

impl Error {
    fn other(problem: impl std::fmt::Display) -> Error {
        Error::Other(problem.to_string())
    }
}
