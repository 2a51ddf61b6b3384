//! Scaffolding of tests: folders, programs under test, other people's decoders, network namespaces.
//!
//! Only tests depend on this crate, and it depends on no crate of the workspace, so that every one of them may use it.
//!
//! A red test means a fault:
//! - A test owns what it looks at. [`able_live`] gives it a network, mounts and `/run` of its own; [`free_port`] a port, [`Folder`] a folder.
//! - A test waits for an event ([`until`]), not for a time.
//! - Where computing is bounded, [`processor_time`] measures it, and no clock.
//! - Where real time is measured, [`Watch`] measures the machine's lateness meanwhile, and the bound is a function of that.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for programs in real time")]

mod folder;
mod lateness;
mod live;
mod ports;
mod program;
mod resources;
mod tools;
mod tshark;
mod wait;

pub use folder::Folder;
pub use lateness::{Lateness, Watch};
pub use live::{Apart, Turn, able_live, go_apart, ip, namespaces};
pub use ports::{await_read, await_socket, free_address, free_port, has_sockets};
pub use program::{Process, run, said, succeed, text};
pub use resources::{may_open, processor_time};
pub use tools::{has, has_ipv6, skip};
pub use tshark::Tshark;
pub use wait::{PATIENCE, until, until_some};
