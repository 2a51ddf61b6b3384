//! Elements of the simulator: bundle nodes with their convergence layers, senders and sinks.

mod agent;
mod bearer;
mod flows;
mod neighbour;
mod sender;
mod sessions;
mod sink;
mod stream;

pub use agent::Agent;
pub(crate) use agent::session_limits;
pub use bearer::Bearer;
pub use neighbour::Neighbour;
pub use sender::{Sender, Timing};
pub(crate) use sessions::CALLER_PORTS;
pub use sink::Sink;
pub use stream::{Cutter, Measures};

/// Length of the number and time of creation at the start of a payload.
const STAMP: usize = 12;

#[cfg(test)]
mod tests;
