//! Running the points of a plan.
//!
//! [`execute`] runs every point with every seed, several at a time, and leaves a folder:
//!
//! ```text
//! runs/<name>-<hash>/
//!     scenario.toml             the scenario as run, defaults written out (a sweep: one for each point)
//!     scenario.original.toml    the file as it was given
//!     series.csv, .parquet      samples over time (several runs: one folder for each, points/p003-s1/)
//!     outcome.json              what one run gave: fingerprint, measures, totals
//!     timing.json               how long it took, and the build that ran it
//!     <node>-<link>.pcap        captures asked for; of a terminal also <node>-<link>-bursts.pcap, its MPEG cells,
//!                               of DVB <node>-<link>-ts.pcap or -frames.pcap
//!     plan-<carrier>.csv        the burst time plan, from the beginning on
//!     summary.json, .csv        means and confidence intervals over the seeds, for each point
//!     manifest.json             version, build, command, seeds, fingerprints, times
//!     report.html               all of it to read
//! ```
//!
//! A run that is finished is not run again: `outcome.json` is written last, and holds the hash of what the result
//! depends on. Everything but `manifest.json`, `timing.json` and `report.html` is the same to the byte for any number
//! of jobs and on any machine; those three hold times.

mod execute;
mod files;
mod folder;
mod follow;
mod monitor;
mod outcome;
mod prepare;
mod summary;

pub use execute::{CarrierPoint, Failure, Finish, Prepared, Request, Results, RunResult, execute};
pub use files::{WholeFile, remove_unfinished, write_whole};
pub use folder::Folder;
pub(crate) use folder::write_json;
pub use follow::{CapturePoint, RealTime, follow};
pub use monitor::{Monitor, Silent};
pub use outcome::{CaptureFile, Outcome, Timing};
pub use prepare::prepare;
pub use summary::{Averaged, PointSummary, Summary};

#[cfg(test)]
mod tests;
