//! The public decompressor: the framework with all profiles.

use alloc::vec::Vec;
use core::time::Duration;

use crate::framework::config::DecompressorConfig;
use crate::framework::decompressor::DecompressorEngine;
use crate::framework::error::DecompressError;
use crate::framework::profile::Mode;
use crate::framework::stats::{Decompressed, DecompressorStats};
use crate::profiles::Decompressors;

/// A ROHC decompressor for one channel.
///
/// See [`Compressor`](crate::Compressor) for an example. Like it, it has no clock: times only matter for timer-based
/// RTP timestamps and for the repair of contexts after long losses.
#[derive(Debug)]
pub struct Decompressor(pub(crate) DecompressorEngine<Decompressors>, Vec<u8>);

impl Decompressor {
    /// Creates a decompressor without contexts.
    pub fn new(config: DecompressorConfig) -> Self {
        Self(DecompressorEngine::new(config, Decompressors::default()), Vec::new())
    }

    /// Decompresses the ROHC packet `packet` and appends the IP packet to `out`. `None` when there is no packet in it:
    /// padding, feedback, a segment that is not the last, an IR packet without payload.
    ///
    /// # Errors
    /// [`DecompressError`], with nothing appended.
    pub fn decompress(
        &mut self,
        now: Duration,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Decompressed>, DecompressError> {
        self.0.decompress(now, packet, out)
    }

    /// Decompresses `packet` into `buffer`, and returns the length of the IP packet there.
    ///
    /// `None` as for [`Self::decompress`].
    ///
    /// # Errors
    /// [`DecompressError`]. With [`DecompressError::BufferTooSmall`] the context is updated all the same: later packets
    /// are understood.
    pub fn decompress_into(
        &mut self,
        now: Duration,
        packet: &[u8],
        buffer: &mut [u8],
    ) -> Result<Option<(usize, Decompressed)>, DecompressError> {
        let Self(engine, restored) = self;
        restored.clear();
        let Some(decompressed) = engine.decompress(now, packet, restored)? else { return Ok(None) };
        let len = restored.len();
        buffer.get_mut(..len).ok_or(DecompressError::BufferTooSmall(len))?.copy_from_slice(restored);
        Ok(Some((len, decompressed)))
    }

    /// Decompresses the header of a ROHC packet and appends the IP header to `out`. `bytes` is the start of the
    /// packet of `len_bytes` octets, with all headers in it and all or none of the payload. The payload, from octet
    /// [`Decompressed::header_in`] on, is the caller's. Octets not given count as zeros in checksums. Segments must
    /// be given whole; what is reassembled from them is appended with its payload.
    ///
    /// # Errors
    /// [`DecompressError`], with nothing appended.
    pub fn decompress_header(
        &mut self,
        now: Duration,
        bytes: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Decompressed>, DecompressError> {
        self.0.decompress_header(now, bytes, len_bytes, out)
    }

    /// Returns `true` if there was feedback for this channel's compressor, after appending it.
    ///
    /// It is complete elements, to be sent as a packet of their own, or through
    /// [`Compressor::piggyback`](crate::Compressor::piggyback) in front of packets of the other direction.
    pub fn take_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.0.take_feedback(out)
    }

    /// Returns `true` if feedback came with packets, after appending it.
    ///
    /// It is for [`Compressor::feedback`](crate::Compressor::feedback) of the compressor at this end.
    pub fn take_received_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.0.take_received_feedback(out)
    }

    /// Sets the mode to which contexts are brought, by the handshakes of RFC 3095 5.6.
    pub fn set_mode(&mut self, mode: Mode) {
        self.0.set_mode(mode)
    }

    /// Counts of packets decompressed and refused.
    pub fn stats(&self) -> DecompressorStats {
        self.0.stats()
    }
}
