//! Call signalling, sans-I/O.
//!
//! Bytes and the time go in; bytes, events and the next deadline come out. The same state machines therefore serve sockets and
//! the simulator.
//!
//! - [`sip`]: messages of RFC 3261, read with bounds and checked as RFC 4475 asks.
//! - [`sdp`]: session descriptions (RFC 8866), with offer and answer (RFC 3264).
//! - [`digest`]: authentication by MD5 and SHA-256 (RFC 2617, RFC 7616).
//! - [`transaction`]: transactions with all timers, over UDP and TCP.
//! - [`dialog`], [`agent`]: user agents, which place and answer calls and register.
//! - [`iax`]: calls and registrations of IAX2 (RFC 5456).
//! - [`registrar`], [`proxy`]: a stateful proxy with forks and Record-Route, and its location service.

pub mod agent;
pub mod dialog;
pub mod digest;
pub mod iax;
#[cfg(test)]
mod net;
pub mod proxy;
pub mod registrar;
mod response;
pub mod sdp;
pub mod sip;
pub mod transaction;
