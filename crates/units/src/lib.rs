//! Quantities with their units in the type: [`Time`], [`Span`], [`Rate`], [`Bytes`]; their text form
//! ("155.52 Mbit/s", "270 ms", "6 MB"); and [`Stream`], a random stream seeded from a scenario's seed and a path.
//!
//! Everything is an integer: nanoseconds, bits per second, bytes. Arithmetic that would leave the range panics in
//! debug builds and saturates where a method says so; a value parsed from text is refused if it does not fit.

mod amount;
mod parse;
mod rate;
#[cfg(feature = "serde")]
mod serde_impl;
mod stream;
mod time;

pub use amount::Bytes;
pub use parse::ParseError;
pub use rate::{Rate, Serialiser};
pub use stream::Stream;
pub use time::{Span, Time};

#[cfg(test)]
mod tests;
