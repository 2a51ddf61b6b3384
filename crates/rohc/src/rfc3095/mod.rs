//! The profiles of RFC 3095 (RTP, UDP, ESP), RFC 3843 (IP) and RFC 4019 (UDP-Lite): one mechanism, six header chains.

mod chain;
mod compressed;
mod compressor;
mod decompressor;
mod header;
mod list;
mod state;

pub(crate) use compressor::Compressor;
pub(crate) use decompressor::Decompressor;
