//! Traces of lost frames: parsing, synthesis, models fitted to them, and goodness of fit.
//!
//! `bentpipe channel` and the scenario's `channel = { kind = "trace", ... }` use this. Models are chains of
//! two states ([`Model`]); a trace is counted once ([`Counts`]). Fits are closed forms of the counts, except
//! for the chain with losses in both states, which is fitted by maximum likelihood (Baum and Welch 1970).

mod comparison;
mod counts;
mod fit;
mod model;
mod sequence;

pub use comparison::{Comparison, Goodness, MAX_LENGTH, Row, comparison};
pub use counts::{Counts, Lengths};
pub use fit::{Fitted, fit, fit_all, name, parameters};
pub use model::Model;
pub use sequence::{Sequence, SequenceField};

#[cfg(test)]
mod tests;
