//! Formats of audio and video over packets.

pub mod ogg;
pub mod rtcp;
pub mod rtp;
pub mod wav;
