//! Formats of audio and video over packets.

pub mod rtcp;
pub mod rtp;
