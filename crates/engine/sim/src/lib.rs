//! Wiring elements into a [`Network`], and running it.
//!
//! The engine keeps one deadline per element, not one event per packet: the [`Agenda`] is as small as the
//! network, independent of the number of packets in flight. Packets of one instant are delivered in the order
//! they were sent, before the next wake-up; among wake-ups at one instant the lowest element is first.
//! Clusters that cannot be reached from elsewhere for a while are executed ahead, which changes nothing
//! ([`Element::min_reaction_delay`](bentpipe_net::Element::min_reaction_delay)). Parts without a wire between them are
//! executed one after the other. So a run is the same on every machine, as its [`Fingerprint`] shows.

mod agenda;
mod clusters;
mod components;
mod fingerprint;
mod loops;
mod network;
mod statement;

pub use agenda::Agenda;
pub use fingerprint::Fingerprint;
pub use network::{BuildError, Builder, ElementId, EngineCounters, Network, PacketEnd};
pub use statement::Statement;
