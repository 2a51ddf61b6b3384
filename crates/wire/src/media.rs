//! Formats of audio and video over packets.

pub mod rtp;
