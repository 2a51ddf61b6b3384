//! The scenario file: its schema, reading it, and saying what is wrong with it.
//!
//! A file is read into a tree of values that know where they were written. Overrides and the values of a sweep's point are
//! put into the tree, which is then held against the JSON Schema of [`Scenario`], given types by serde, and its names
//! and amounts are checked. So every mistake, wherever it is found, is reported at its line, and all of them at once.

mod atm;
mod axes;
pub(crate) mod check;
mod delays;
mod document;
mod elements;
mod error;
mod named;
mod place;
mod schema;
mod settings;
pub(crate) mod suggest;
mod sweep;
pub(crate) mod tree;
mod validate;

pub use atm::*;
pub use axes::MAX_POINTS;
pub use delays::DelayChanges;
pub use document::{Document, Error, MAX_FILE_BYTES};
pub use elements::*;
pub use error::{Mistake, Origin, Refusal};
pub use named::Named;
pub(crate) use schema::SCHEMA;
pub use schema::*;
pub use settings::Settings;
pub use sweep::{Axis, Sweep};

#[cfg(test)]
mod tests;
