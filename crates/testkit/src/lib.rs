//! Scaffolding of tests: folders, programs under test, other people's decoders, network namespaces.
//!
//! Only tests depend on this crate, and it depends on no crate of the workspace, so that every one of them may use it.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for programs in real time")]

mod folder;
mod live;
mod ports;
mod program;
mod tools;
mod tshark;

pub use folder::Folder;
pub use live::{Apart, Turn, able_live, ip, namespaces};
pub use ports::{await_socket, free_address, free_port};
pub use program::{Process, run, said, succeed, text};
pub use tools::{has, skip};
pub use tshark::Tshark;
