//! IAX2 (RFC 5456): calls, registrations, frames and information elements.
//!
//! *Models*: an [`Endpoint`] with calls from NEW to HANGUP, registration on both sides, MD5 challenges, PING and LAGRQ, retransmission
//! and VNAK; voice in full frames, mini frames and trunks. Frames of all types are read and written.
//!
//! *Does not model*: encryption, RSA, transfers, dialling by digits, video and text of calls, the date in REGACK.

mod call;
mod element;
mod endpoint;
mod field;
mod frame;
mod leg;
mod trunk;

pub use call::{CallId, Event, Failure};
pub use element::{Element, Elements, md5_result};
pub use endpoint::{Config, Counters, Endpoint, TRUNK_BYTES};
pub use field::FrameError;
pub use frame::{Frame, FullFrame, Kind, MiniFrame, VideoFrame, control, format, iax};
pub use leg::Timers;
pub use trunk::{Trunk, TrunkedCall};

#[cfg(test)]
mod tests;
