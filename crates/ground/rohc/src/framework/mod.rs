//! ROHC framework (RFC 3095 5.2, RFC 5795): packets, CIDs, contexts, feedback and segments.
//!
//! It knows the profiles by the traits of [`context`] only.

pub(crate) mod arrival;
pub(crate) mod checksum;
pub(crate) mod compressor;
pub(crate) mod config;
pub(crate) mod confirm;
pub(crate) mod context;
pub(crate) mod crc;
pub(crate) mod decompressor;
pub(crate) mod earlier;
pub(crate) mod error;
pub(crate) mod feedback;
pub(crate) mod fingerprint;
pub(crate) mod flow;
pub(crate) mod frame;
pub(crate) mod lsb;
pub(crate) mod octets;
pub(crate) mod packet;
pub(crate) mod profile;
pub(crate) mod refresh;
pub(crate) mod sdvl;
pub(crate) mod segment;
pub(crate) mod stats;
pub(crate) mod table;
