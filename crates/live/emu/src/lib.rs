//! Real-time drivers and devices for real packets.
//!
//! A [`Driver`] runs a `Network` against the wall clock: it reads packets from [`Port`]s (a TUN device in a network
//! namespace, for example), injects them at the network's external ports, executes everything due *at its scheduled time*,
//! and writes out what left. Its lateness is recorded. The elements are those of a simulation; none can detect the difference.
//!
//! [`datagrams`], [`poll`], [`signals`] and [`Pacer`] serve programs with a loop of their own: batches of UDP, descriptors,
//! and instants to meet.
//!
//! Linux only.
#![allow(clippy::disallowed_methods, reason = "real time is the purpose of this crate")]

mod attached;
mod children;
mod clock;
mod congestion;
pub mod datagrams;
mod dhcp;
mod driver;
pub mod exporter;
pub mod exposition;
pub mod file_size;
mod group;
mod helper;
pub mod interface;
pub mod joint;
mod lateness;
mod merge;
pub mod names;
mod namespace;
mod neighbours;
mod occupants;
mod offload;
pub mod open_files;
mod pacer;
pub mod plain;
pub mod poll;
mod port;
pub mod privileges;
mod random;
mod realtime;
mod setup;
pub mod shares;
pub mod signals;
pub mod streams;
mod tap;
mod tcp_diag;
mod terminal;
mod tun;

pub use attached::Attached;
pub use children::{end, end_group, interrupt};
pub use clock::{Clock, FakeClock, Monotonic};
pub use congestion::{congestion_controls, has_congestion_control};
pub use driver::{Control, Driver, Ended, Errors, Lost, Pace, Pass};
pub use group::enter_group;
pub use helper::Helper;
pub use joint::Joint;
pub use lateness::Lateness;
pub use namespace::{Namespace, clean_up_after_crash, clean_up_after_kill, clean_up_of};
pub use pacer::Pacer;
pub use port::{Port, Queue};
pub use random::random_bits;
pub use realtime::{
    cpu_time, end_realtime_priority, lend_realtime_priority, request_realtime_priority, set_min_timer_slack,
};
pub use rustix::thread::CapabilitySet;
pub use setup::{Setup, SetupError, tun_help};
pub use tap::Tap;
pub use tcp_diag::{TcpConnection, TcpDiag};
pub use terminal::terminal_size;
pub use tun::{Tun, open_tap};
