//! Header compression of captures, and its gain.
//!
//! IP packets are read from any capture. A ROHC packet is one record of linktype USER0 (147), with nothing before or after it,
//! a frame of PPP, or a PDU of PDCP;
//! decompressed packets are written as raw IP (101). A packet of which a snapshot kept only the start is compressed all the
//! same; the record of its ROHC packet is cut by as much. The schemes before ROHC have jobs of their own, with frames of PPP.

mod comparison;
mod cost;
mod ends;
mod flows;
mod impairments;
mod jobs;
pub mod link;
mod packet_log;
mod path;
mod schemes;
mod sending;
mod series;
pub mod text;
mod totals;
mod uncompressed;

pub use bentpipe_hc::{Config as SchemeConfig, Scheme};
pub use impairments::ImpairmentConfig;
pub use jobs::{Compress, Decompress, RoundTrip, Stats};
pub use link::RohcLink;
pub use packet_log::Outputs;
pub use schemes::{SchemeCompress, SchemeDecompress, SchemeRoundTrip};
pub use sending::Sending;

/// CID that is kept for the flow of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The CID.
    pub cid: u16,
    /// Number of the flow's first packet in the capture, from 1.
    pub number: u64,
}
