//! The profiles of RFC 3095 (RTP, UDP, ESP), RFC 3843 (IP) and RFC 4019 (UDP-Lite): one mechanism, six header chains.

mod chain;
mod compressed;
mod decompressor;
mod header;
mod list;
mod state;

pub(crate) use decompressor::Decompressor;

use alloc::vec::Vec;

use crate::compressor::{Built, Heard, Job, Unfit};
use crate::config::CompressorConfig;

/// The compressor's context.
#[derive(Debug)]
pub(crate) struct Compressor;

impl Compressor {
    pub(crate) fn new(_job: &Job<'_>) -> Self {
        Self
    }

    pub(crate) fn renew(&mut self, _job: &Job<'_>) {}

    pub(crate) fn compress(&mut self, _job: &Job<'_>, _out: &mut Vec<u8>) -> Result<Built, Unfit> {
        Err(Unfit)
    }

    pub(crate) fn feedback(&mut self, _data: &[u8], _field: &[u8], _config: &CompressorConfig) -> Heard {
        Heard::default()
    }
}
