//! IAX2 (RFC 5456): frames and information elements.
//!
//! *Models*: full frames, mini frames, meta video frames and both forms of trunk frames; information elements; the MD5 answer to a
//! challenge.
//!
//! *Does not model*: the call and registration state machines, encryption, RSA.

mod element;
mod field;
mod frame;
mod trunk;

pub use element::{Element, Elements, md5_result};
pub use field::FrameError;
pub use frame::{Frame, FullFrame, Kind, MiniFrame, VideoFrame, control, format, iax};
pub use trunk::{Trunk, TrunkedCall};

#[cfg(test)]
mod tests;
