//! Delay-tolerant networking on real sockets.
//!
//! [`send`] and [`receive`] carry bundles between two programs over UDP, MTCP or TCPCLv4. [`node`] is a bundle node with a store on
//! disk; a [`client`] is an application at a node, such as [`ping`], [`trace`], [`perf`], [`proxy`] and files of [`cfdp`]. [`forecast`] makes tables
//! of contact plans.
//! Sessions over TCPCLv4 may be in [`tls`].
//! The protocols are the state machines of [`bentpipe_dtn`], which the simulator runs too.
//!
//! Linux only.
#![allow(clippy::disallowed_methods, reason = "programs on sockets run in real time")]

pub mod cfdp;
pub mod client;
mod clock;
pub mod forecast;
mod host;
mod link;
pub mod node;
pub mod perf;
pub mod ping;
pub mod proxy;
mod receive;
mod send;
mod stream;
pub mod tls;
pub mod trace;

use std::net::{SocketAddr, ToSocketAddrs};

pub use clock::dtn_time;
pub use receive::{Arrival, Receiving, receive, receive_via};
pub use send::{Sending, send};

/// Convergence layer of a program without a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Datagrams of one bundle each (RFC 7122).
    Udp,
    /// Byte strings of one bundle each, without acknowledgements.
    Mtcp,
    /// TCP convergence layer version 4 (RFC 9174).
    Tcpcl,
}

/// Returns the first address of "HOST:PORT".
///
/// # Errors
/// Returns an error if the name has no address.
pub fn resolve(place: &str) -> Result<SocketAddr, String> {
    let found = place.to_socket_addrs().map_err(|error| format!("{place}: {error}"))?.next();
    found.ok_or_else(|| format!("{place}: no address"))
}

/// Returns the host name of "HOST:PORT", if it is one and not an address.
pub(crate) fn host(place: &str) -> Option<&str> {
    let name = place.rsplit_once(':')?.0;
    (place.parse::<SocketAddr>().is_err() && !name.is_empty()).then_some(name)
}
