//! Wiring elements into a [`Network`], and running it.
//!
//! The engine keeps one deadline per element, not one event per packet: the [`Agenda`] is as small as the network,
//! however many packets are in flight. Packets of one instant are delivered in the order they were sent, before the
//! next wake-up; of several wake-ups at one instant the lowest element comes first. What cannot be reached from elsewhere for a
//! while is run ahead, which changes nothing ([`Element::patience`](bentpipe_net::Element::patience)). So a run is the same on
//! every machine, and its [`Fingerprint`] says so.

mod agenda;
mod fingerprint;
mod islands;
mod loops;
mod network;

pub use agenda::Agenda;
pub use fingerprint::Fingerprint;
pub use network::{BuildError, Builder, ElementId, Network, Work};
