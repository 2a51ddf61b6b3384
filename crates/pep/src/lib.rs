//! TCP-splitting proxy on real sockets (RFC 3135).
//!
//! A [`Proxy`] accepts the TCP connections that cross a router between the ground and a satellite, and opens another one to the
//! server with the client's address. Neither end needs any setting. The kernel diverts the connections (`TPROXY`), and its TCP
//! runs both sides. [`rules`] has the packet filter and the routes that this takes.
//!
//! Data passes from socket to socket through a pipe (splice(2)). No more is read while the receiver's socket is full, and the kernel
//! closes the window of the sender. The end of each direction and resets pass on. A process that crashes leaves resets, not ends: sockets are closed with
//! a linger time of zero (socket(7)).
//!
//! Linux only.

mod config;
mod figures;
mod flow;
mod metrics;
mod pair;
pub mod rules;
mod run;
mod sockets;
mod table;

pub use config::{Config, Side};
pub use figures::Figures;
pub use run::Proxy;
