//! Call signalling, sans-I/O.
//!
//! Bytes and the time go in; bytes, events and the next deadline come out. The same state machines therefore serve sockets and
//! the simulator.
//!
//! - [`sip`]: messages of RFC 3261, read with bounds and checked as RFC 4475 asks.
//! - [`sdp`]: session descriptions (RFC 8866), with offer and answer (RFC 3264).
//! - [`digest`]: authentication by MD5 and SHA-256 (RFC 2617, RFC 7616).

pub mod digest;
pub mod sdp;
pub mod sip;
