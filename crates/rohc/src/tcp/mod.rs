//! Profile 0x0006, TCP/IP (RFC 6846).

mod base;
mod chain;
mod checksum;
mod decompressor;
mod extension;
mod feedback;
mod formats;
mod header;
mod ip;
mod options;

pub(crate) use decompressor::Decompressor;

use alloc::vec::Vec;

use crate::compressor::{Built, Heard, Job, Unfit};

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

    pub(crate) fn feedback(&mut self, _data: &[u8], _field: &[u8]) -> Heard {
        Heard::default()
    }
}
