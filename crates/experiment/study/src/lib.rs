//! Published studies and their comparison with simulations.
//!
//! A study is a folder with a `study.toml`: scenarios to run, and rows. A row is a published value, its place in the
//! publication, and the measure of a run to compare it with. docs/reference/studies.md describes the file.

mod comparison;
mod computed;
mod controller;
mod emulated;
mod expected;
mod kernel;
mod numbers;
mod recorded;
mod reduce;
mod report;
mod reproduce;
mod request;
mod runs;
mod spread;
mod studies;
mod study;
mod table;
mod transfer;

pub use comparison::{Comparison, by_origin, compare, lacks_witness, summary};
pub use controller::{Controller, Order};
pub use emulated::{EmulatedFlow, Found, emulated_table};
pub use expected::{Expected, Kind, Simulated, Verdict};
pub use kernel::{Iperf3, KernelComparison, kernel_notes, kernel_table};
pub use recorded::{Recorded, RecordedRow, results_page, state_table};
pub use reduce::{Across, Reduce};
pub use report::study_page;
pub use reproduce::{Reproduced, reproduce};
pub use request::Request;
pub use runs::{Finished, Length, StudyRuns};
pub use spread::Interval;
pub use study::{
    At, Column, Curves, Draw, EmbeddedImage, EmulatedNetwork, Figure, Instant, KernelPath, KernelTests,
    LiveStreams, Row, Run, Statistic, Study, StudyError, TableRow, Tabulated, Value, Witness, Word,
};
pub use transfer::{Kernel, Streams, Transfer};

#[cfg(test)]
mod tests;
