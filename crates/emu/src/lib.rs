//! Real time and real packets.
//!
//! A [`Driver`] runs a `Network` against the wall clock: it takes packets from [`Port`]s (a TUN device in a network
//! namespace, say), injects them at the gates of the network, runs everything that is due *at its scheduled time*, and
//! writes out what left. How late it was is a recorded figure. The elements are those of a simulation; none can tell.
//!
//! [`datagrams`] and [`Pacer`] are for programs that send and receive by themselves: batches of UDP, at their times.
//! [`rtp`] is one.
//!
//! Linux only.
#![allow(clippy::disallowed_methods, reason = "real time is what this crate is for")]

mod children;
mod clock;
pub mod datagrams;
mod driver;
pub mod gateway;
mod lateness;
mod namespace;
mod neighbours;
mod offload;
mod pacer;
mod poll;
mod port;
pub mod rtp;
mod tap;
mod terminal;
mod tun;
mod urgency;

pub use children::end_group;
pub use clock::{Clock, FakeClock, Monotonic};
pub use driver::{Control, Driver, Ended, Errors, Lost, Pass};
pub use lateness::Lateness;
pub use namespace::{Namespace, Setup, SetupError, clean_up_after_crash};
pub use pacer::Pacer;
pub use port::{Port, Queue};
pub use tap::Tap;
pub use terminal::terminal_size;
pub use tun::Tun;
pub use urgency::{cpu_time, put_first};
