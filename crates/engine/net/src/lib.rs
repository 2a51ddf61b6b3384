//! Packets, and the elements they pass through.
//!
//! An [`Element`] is a state machine: packets go in and out through numbered ports, and it requests its next
//! wake-up. It reads no clock, does no I/O and draws randomness only from the stream it is given, so it
//! behaves the same in a simulation and in a real-time emulation. Elements never touch each other: only a
//! [`Packet`] through a port passes between them.

mod busy;
pub mod channel;
mod config;
pub mod custom;
pub mod cut;
mod element;
pub mod external_port;
mod framing;
mod hash;
pub mod histogram;
pub mod ledger;
pub mod link;
pub mod marker;
pub mod metric;
pub mod nat;
pub mod node;
mod packet;
mod peak;
pub mod queue;
pub mod quick_start;
pub mod shaper;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;

pub use busy::Busy;
pub use channel::Channel;
pub use config::{InvalidConfig, probability};
pub use cut::Cut;
pub use element::{Cx, Element, Observer, Outbox, Port, Wire};
pub use external_port::ExternalPort;
pub use framing::Framing;
pub use histogram::Histogram;
pub use ledger::Why;
pub use link::Link;
pub use marker::Marker;
pub use metric::Unit;
pub use nat::Nat;
pub use node::Node;
pub use packet::{Body, Carried, LONGEST_HEADERS, Origin, Packet};
pub use peak::Peak;
pub use shaper::Shaper;
