//! Calls: traffic of both directions with RTP and RTCP, playout and quality.
//!
//! *Models*: RTP streams of a conversation (RFC 3550, 3551) with silence suppression and comfort noise (RFC 3389, or the
//! codec's own), sender, receiver and extended reports (RFC 3611), playout buffers, and the E-model over the call and
//! over windows of it.
//! *Does not model*: signalling, redundancy and forward error correction, encryption, DTMF events.

mod agent;
mod config;
mod control;
pub mod exchange;
mod kind;
mod leg;
pub mod metrics;
mod mouths;
mod packets;
mod phone;
mod rate;
mod rating;
mod receiver;
mod reception;
mod recording;
mod records;
mod reports;
mod sender;
mod waiting;
mod waits;

pub use agent::{Agent, Ends, Plan, Side};
pub use config::{Config, Good, Rtcp, Settings};
pub use control::{Control, ControlCounts, Malformed};
pub(crate) use kind::{HEADERS_LEN, MAX_CALLS, count_apart, even};
pub use mouths::Mouths;
pub use phone::{Ear, Incoming, Mouth, Spoken};
pub use rate::Adapt;
pub use recording::{Arrived, Log, Score};
pub use waits::Waits;
