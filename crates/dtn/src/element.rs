//! Elements of the simulator: bundle nodes with their convergence layers, senders and sinks.

mod agent;
mod neighbour;
mod sender;
mod sink;

pub use agent::Agent;
pub use neighbour::Neighbour;
pub use sender::{Sender, Timing};
pub use sink::Sink;

/// Length of the number and time of creation at the start of a payload.
const STAMP: usize = 12;

#[cfg(test)]
mod tests;
