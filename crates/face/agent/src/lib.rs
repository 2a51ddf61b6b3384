//! Sites of the test controller: their protocol, and the agent that runs on other machines.
//!
//! A site dials out to the controller over TLS; nothing listens at it. It proves itself by a signature over the TLS session,
//! and the controller by its certificate. Then it asks for commands, which are typed: one enum, no shell, no path.
//!
//! - [`protocol`] has the messages, and [`manifest`] the description of results. Both are pure, and both sides read them.
//! - [`job`] reads job files: which site runs what, and when.
//! - [`program`] makes the arguments of what a site may start, as its own list ([`Allowed`]) permits.
//! - [`Agent`] is the site: it outlives connections, and its tasks outlive the agent.

mod agent;
mod allowed;
mod clock;
pub mod control;
pub mod digits;
mod doctor;
mod error;
pub mod files;
mod folder;
mod identity;
pub mod job;
mod link;
pub mod manifest;
mod memory;
mod names;
pub mod program;
pub mod protocol;
pub mod regular;
mod session;
mod supervisor;
mod task;

pub use agent::{Agent, Settings};
pub use allowed::{Allowed, Network};
pub use error::Error;
pub use identity::{Enrolment, Invitation, enrol, is_signature, to_be_signed};
pub use session::Session;
pub use supervisor::supervise;
