//! Running the points of a plan.
//!
//! [`execute`] runs every point with every seed, several at a time, and leaves a folder:
//!
//! ```text
//! runs/<name>-<hash>/
//!     scenario.toml             the scenario as run, defaults written out (a sweep: one for each point)
//!     scenario.original.toml    the file as it was given
//!     series.parquet            samples over time (several runs: one folder for each, points/p003-s1/)
//!     metrics.json              declarations of the metrics: name, unit, kind, label, how they are drawn
//!     SHA256SUMS                checksums of all of it but the report, in each folder of a run
//!     ledger.parquet            accounts of packets, a row for each sender, column, place and reason
//!     units.parquet             accounts of units, a row for each flow, column, place and reason
//!     outcome.json              what one run gave: fingerprint, measures, totals
//!     timing.json               how long it took, and the build that ran it
//!     <node>-<link>.pcap        captures asked for; of a terminal also <node>-<link>-bursts.pcap, its MPEG cells,
//!                               of DVB <node>-<link>-ts.pcap or -frames.pcap. Rings: <node>-<link>-1.pcap and so on
//!     calls.parquet             calls of flows with voice or signalling, a row for each end with a record
//!     plan-<carrier>.csv        the burst time plan, from the beginning on
//!     summary.json, .csv        means and confidence intervals over the seeds, for each point
//!     measures.csv              a row for each run and measure: point, settings, seed, value
//!     manifest.json             version, build, command, seeds, fingerprints, times
//!     report.html               all of it to read
//! ```
//!
//! A run that is finished is not run again: `outcome.json` is written last, and holds the hash of what the result
//! depends on; a file that is not as `SHA256SUMS` has it counts as damaged, and its run is run again. Everything but
//! `manifest.json`, `timing.json`, `SHA256SUMS` and `report.html` is the same to the byte for any number of jobs and on any machine;
//! those hold times.

mod accounts;
mod assembled;
mod execute;
mod expected;
mod folder;
mod follow;
mod growing;
mod monitor;
mod network;

pub use crate::calls::CallSource;
pub use crate::prepared::{CapturePoint, Prepared, growing};
pub use crate::video::Finish;
pub use assembled::Assembled;
pub use execute::{Failure, Manifest, ManifestRun, Request, Results, execute, outcome_alone};
pub use expected::ExpectedCaptures;
pub use folder::Folder;
pub use follow::follow;
pub use monitor::{Monitor, Silent};
pub use network::network_map;

#[cfg(test)]
mod tests;
