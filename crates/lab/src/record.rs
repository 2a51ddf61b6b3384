//! What happened in a run, as series and files.
//!
//! A [`Recorder`] runs a [`Network`] in steps and lets its elements report between them. That changes nothing: the
//! fingerprint is the same with any interval, with captures and without. Memory is bounded: a run of more samples
//! than fit is sampled more coarsely, and the recording says so.

mod capture;
mod csv;
mod follow;
mod multiplex;
mod parquet;
mod plan;
mod recorder;
mod series;

pub use capture::{Capture, Form, PduOf};
pub(crate) use csv::quoted;
pub use csv::{CsvError, read_csv, write_csv};
pub use follow::Live;
pub use multiplex::Multiplex;
pub use parquet::write_parquet;
pub use plan::{Burst, PlanLog, read_plan};
pub use recorder::{Recorder, Stopped};
pub use series::{Column, Data, Kind, Recording, Sampling, Series, Totals, Value};

#[cfg(test)]
pub(crate) mod tests;
