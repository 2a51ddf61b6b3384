//! Packets, and the elements they pass through.
//!
//! An [`Element`] is a state machine: packets go in and out through numbered ports, and it says when it wants to be
//! woken next. It reads no clock, does no I/O and draws randomness only from the stream it is handed, so it cannot
//! tell a simulation from an emulation in real time. Elements never touch each other: all that passes is a
//! [`Packet`] through a port.

pub mod app;
pub mod atm;
pub mod channel;
mod config;
pub mod dama;
mod datagram;
pub mod dvb;
mod element;
mod framing;
mod gate;
mod hash;
pub mod link;
pub mod node;
mod packet;
pub mod queue;
pub mod quick_start;
#[cfg(test)]
mod rig;
pub mod shaper;
pub mod tcp;
pub mod tfrc;
mod transport;
pub mod video;
pub mod wifi;

pub use channel::Channel;
pub use config::Impossible;
pub use element::{Cx, Element, Observer, Outbox, Port, Unit, Wire};
pub use framing::Framing;
pub use gate::Gate;
pub use link::Link;
pub use node::Node;
pub use packet::{Body, Packet};
pub use shaper::Shaper;
pub use wifi::Wifi;
