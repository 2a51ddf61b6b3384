//! Profile 0x0006, TCP (RFC 6846): not built yet, its packets go to the IP profile.

use alloc::vec::Vec;

use crate::compressor::{Built, Heard, Job, Unfit};
use crate::decompressor::{Input, Output, Restored};
use crate::error::DecompressError;

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

/// The decompressor's context.
#[derive(Debug)]
pub(crate) struct Decompressor;

impl Decompressor {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn decompress(
        &mut self,
        _input: &Input<'_>,
        _output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        Err(DecompressError::ProfileRefused(6))
    }
}
