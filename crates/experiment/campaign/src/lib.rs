//! Campaigns: sweeps too long for one command or one machine.
//!
//! A campaign is a folder that any number of processes, on any machines that share it, run parts of:
//!
//! ```text
//! C/
//!     manifest.json       what is run, by which build: everything that a result depends on
//!     scenario.toml       the scenario as it was given, with the files that it names
//!     parts/A-B-HASH.parquet   finished runs, a row each, renamed into place
//!     runs.parquet        all runs in their order, and summary.csv, the means of each point (by `gather`)
//!     report.html         of small campaigns, with summary.json (by the command line's `gather`)
//! ```
//!
//! Runs are numbered: point by point, each with its seeds. A process reads the numbers in the parts and runs those that are
//! missing from its range. It needs neither locks nor a server: a process may end at any instant, and two that run the same part
//! waste time and do no harm. Their fingerprints must agree, which `gather` checks.
//!
//! [`Campaign`] is the folder, [`work`] runs a range, [`drive()`] keeps the processors of one machine busy with child processes and
//! finds runs that end their process, [`gather()`] makes the tables.

mod campaign;
mod drive;
mod gather;
mod manifest;
mod missing;
mod part;
mod plan;
mod results;
mod work;

pub use campaign::{Campaign, Status};
pub use drive::{Driver, drive};
pub use gather::{Gathered, gather};
pub use manifest::Manifest;
pub use missing::Missing;
pub use plan::{Planned, plan};
pub use results::{CampaignResults, results};
pub use work::work;

/// Error of a campaign.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A file cannot be read or written, or its contents are wrong. The text names it.
    #[error("{0}")]
    File(String),
    /// The scenario, its files or the program are not those that were planned.
    #[error("{0}")]
    Changed(String),
    /// The monitor wanted to stop. What is finished is kept.
    #[error(
        "interrupted with {finished} of {runs} runs finished and kept; the same command goes on from there"
    )]
    Interrupted {
        /// Number of finished runs of the campaign.
        finished: u64,
        /// Number of runs of the campaign.
        runs: u64,
    },
}

/// Result of an operation on a campaign.
pub type Result<T> = std::result::Result<T, CampaignError>;

/// Returns a function that makes an error which begins with the path.
fn at<E: std::fmt::Display>(path: &std::path::Path) -> impl Fn(E) -> CampaignError {
    move |error| CampaignError::File(format!("{}: {error}", path.display()))
}

/// Returns the error for one whose text names the file already.
fn named(error: std::io::Error) -> CampaignError {
    CampaignError::File(error.to_string())
}
