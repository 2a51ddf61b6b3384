//! Traces of lost frames: reading and making them, fitting models to them, and saying how well these fit.
//!
//! `bentpipe channel` and the scenario's `channel = { kind = "trace", ... }` are made of this. Models are chains of two states
//! ([`Model`]); what a trace says is counted once ([`Counts`]); fits are closed forms of the counts, but for the chain with
//! losses in both states, which is fitted by maximum likelihood (Baum and Welch 1970).

mod counts;
mod fit;
mod load;
mod model;
mod page;
mod sequence;

pub use counts::{Counts, Lengths};
pub use fit::{Fitted, fit, fit_all};
pub use load::{MAX_BYTES, load, read};
pub use model::Model;
pub use page::{Comparison, bursts_plot, comparison, page};
pub use sequence::{Numbers, Sequence};

#[cfg(test)]
mod tests;
