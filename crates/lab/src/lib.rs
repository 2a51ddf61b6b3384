//! From a scenario file to a report.
//!
//! ```text
//! scenario.toml -> Scenario -> Plan (sweep x seeds) -> Network -> run -> Recording -> Summary -> report
//! ```
//!
//! - [`scenario`] reads and validates the file; [`plan`] makes the points of its sweep and their seeds;
//!   [`build`] turns a scenario into a wired network; [`budget`] computes what to expect before running;
//!   [`catalogue`] lists and describes everything that a file may contain.
//! - [`video`] carries, decodes and compares real transport streams.
//! - [`run`] runs points in parallel, [`record`] takes down what happened, [`measure`] and [`stats`] condense it,
//!   [`report`] shows it, and [`published`] compares it with what others measured.

pub mod budget;
pub mod build;
pub mod catalogue;
mod input;
pub mod loss;
pub mod measure;
pub mod plan;
pub mod published;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod stats;
pub mod studies;
mod units;
pub mod video;
