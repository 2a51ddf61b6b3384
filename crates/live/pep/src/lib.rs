//! TCP-splitting proxy on real sockets (RFC 3135).
//!
//! A [`Proxy`] ends the TCP connections that cross a router between the ground and a satellite, and opens another one to the server
//! with the client's address. Neither end needs any setting. [`rules`] has the routes and the packet filter that this takes.
//!
//! - [`Mode::Tun`]: packets come by a TUN device, and the project's own TCP (`transport::tcp::pep`, as in simulations) runs both sides.
//! - [`Mode::Tproxy`]: the kernel diverts the connections (`TPROXY`), and its TCP runs both sides. Data passes from socket to socket
//!   through a pipe (splice(2)). No more is read while the receiver's socket is full, and the kernel closes the window of the sender.
//!   A process that crashes leaves resets, not ends: sockets are closed with a linger time of zero (socket(7)).
//!
//! Linux only.

mod config;
mod figures;
mod flow;
mod metrics;
mod pair;
mod proxy;
mod roster;
pub mod rules;
mod run;
mod sockets;
mod table;
mod tun;

pub use config::{Config, Mode, OwnTcp, Side};
pub use figures::{Figures, Notice};
pub use proxy::Proxy;
