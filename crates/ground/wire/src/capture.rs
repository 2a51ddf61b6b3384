//! Capture files, and the link layers of captured frames.

pub mod erf;
pub mod link;
pub mod outline;
pub mod pcap;
