//! Laboratory: runs scenario files and writes folders of results.
//!
//! ```text
//! scenario.toml -> Scenario -> Plan (sweep x seeds) -> Network -> run -> Recording -> Summary -> report
//! ```
//!
//! - [`plan`] makes the points of a sweep and their seeds; [`budget`] computes what to expect before running.
//! - [`check`] finds errors of all points without running them; [`search`] finds the last value with which conditions hold.
//! - [`prepared`] is a network that is ready to run, with its captures; [`run`] assembles and runs points in parallel and writes the run folder; [`measure`] condenses a recording.
//! - [`savings`] plans runs that show the savings of header compression and aggregation.
//! - [`video`] carries, decodes and compares real transport streams.

pub mod budget;
mod calls;
pub mod check;
pub mod measure;
mod packets;
pub mod plan;
pub mod prepared;
pub mod run;
pub mod savings;
pub mod search;
pub mod video;
