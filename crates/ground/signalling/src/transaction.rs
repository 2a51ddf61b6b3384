//! Transactions of SIP (RFC 3261 17, RFC 6026), over UDP and TCP.
//!
//! [`Stack`] receives datagrams and messages of streams, matches them to transactions, retransmits, and reports [`Event`]s to the
//! transaction user: a user agent ([`crate::agent`]) or a proxy ([`crate::proxy`]). It does no I/O.

mod agenda;
mod client;
mod guard;
mod key;
mod server;
mod stack;
mod timers;

pub use guard::Limits;
pub(crate) use stack::host;
pub use stack::{ClientId, Counters, Event, Peer, ServerId, Stack, Transmit};
pub use timers::Timers;

pub(crate) use agenda::Agenda;

#[cfg(test)]
mod tests;
