//! The profiles of RFC 3095, RFC 3843 and RFC 4019 (under construction).

use alloc::vec::Vec;

use crate::compressor::{Built, Heard, Job, Unfit};
use crate::config::CompressorConfig;
use crate::decompressor::{Input, Output, Restored};
use crate::error::DecompressError;
use crate::profile::Profile;

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

/// The decompressor's context.
#[derive(Debug)]
pub(crate) struct Decompressor(Profile);

impl Decompressor {
    pub(crate) fn new(profile: Profile) -> Self {
        Self(profile)
    }

    pub(crate) fn profile(&self) -> Profile {
        self.0
    }

    pub(crate) fn refresh(
        &mut self,
        _profile: Profile,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        self.decompress(input, output)
    }

    pub(crate) fn decompress(
        &mut self,
        _input: &Input<'_>,
        _output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        Err(DecompressError::ProfileRefused(6))
    }
}
