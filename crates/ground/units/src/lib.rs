//! Quantities with their units in the type, their text form, and seeded random streams. [`Time`], [`Span`],
//! [`Rate`] and [`Bytes`] read and print as "155.52 Mbit/s", "270 ms", "6 MB". A [`RandomStream`] is seeded
//! from a scenario's seed and a path. A [`Registry`] has what a program adds to the kinds that files name.
//!
//! Everything is an integer: nanoseconds, bits per second, bytes. Arithmetic that would leave the range panics in
//! debug builds and saturates where a method says so; a value parsed from text is refused if it does not fit.

mod amount;
mod parse;
mod random;
mod rate;
mod registry;
mod serde_impl;
mod time;

pub use amount::Bytes;
pub use parse::ParseError;
pub use random::RandomStream;
pub use rate::{Rate, Serialiser};
pub use registry::{Id, Registered, Registry};
pub use time::{Span, Time};

#[cfg(test)]
mod tests;
