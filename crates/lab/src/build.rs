//! From a scenario to a wired network.

pub(crate) mod routes;

pub use routes::{Hop, Unreachable, Way};
