//! The public compressor: the framework with all profiles.

use alloc::vec::Vec;
use core::time::Duration;

use crate::framework::compressor::CompressorEngine;
use crate::framework::config::CompressorConfig;
use crate::framework::error::CompressError;
use crate::framework::profile::{CompressorState, Mode, Profiles};
use crate::framework::stats::{Compressed, FlowStats};
use crate::profiles::Compressors;

/// A ROHC compressor for one channel.
///
/// It has no clock: the caller says what time it is, from any fixed origin. Where no policy depends on time
/// ([`Refresh::interval`](crate::Refresh::interval), [`CompressorConfig::timer_jitter`]) `Duration::ZERO` always will do.
///
/// ```
/// use bentpipe_rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig};
/// use std::time::Duration;
///
/// // An IPv4 packet with an unknown protocol and 4 octets of payload.
/// let ip = [0x45, 0, 0, 24, 0, 1, 0, 0, 64, 253, 0xf9, 0xeb, 10, 0, 0, 1, 10, 0, 0, 2, b'd', b'a', b't', b'a'];
/// let mut compressor = Compressor::new(CompressorConfig::default());
/// let mut rohc = Vec::new();
/// compressor.compress(Duration::ZERO, &ip, &mut rohc)?;
///
/// let mut decompressor = Decompressor::new(DecompressorConfig::default());
/// let mut restored = Vec::new();
/// decompressor.decompress(Duration::ZERO, &rohc, &mut restored)?;
/// assert_eq!(restored, ip);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Compressor(pub(crate) CompressorEngine<Compressors>, Vec<u8>);

impl Compressor {
    /// Creates a compressor without contexts.
    pub fn new(config: CompressorConfig) -> Self {
        Self(CompressorEngine::new(config, Compressors::default()), Vec::new())
    }

    /// Compresses `packet` and appends the ROHC packet to `out`. Packets that are not IP go Uncompressed.
    ///
    /// # Errors
    /// [`CompressError`], with nothing appended.
    pub fn compress(
        &mut self,
        now: Duration,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Compressed, CompressError> {
        self.0.compress(now, packet, out)
    }

    /// Compresses `packet` into `buffer`, and returns the length of the ROHC packet there.
    ///
    /// A buffer with room for the packet, what is piggybacked and 64 octets is large enough but for packets with lists.
    ///
    /// ```
    /// # use bentpipe_rohc::{Compressor, CompressorConfig};
    /// # let mut ip = [0u8; 24];
    /// # ip[..4].copy_from_slice(&[0x45, 0, 0, 24]);
    /// let mut buffer = [0; 1564];
    /// let mut compressor = Compressor::new(CompressorConfig::default());
    /// let (len, _) = compressor.compress_into(std::time::Duration::ZERO, &ip, &mut buffer)?;
    /// let rohc = &buffer[..len];
    /// # assert!(rohc.ends_with(&ip[20..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CompressError`]. With [`CompressError::BufferTooSmall`] the packet counts as sent: to the contexts it is one that the
    /// channel lost.
    pub fn compress_into(
        &mut self,
        now: Duration,
        packet: &[u8],
        buffer: &mut [u8],
    ) -> Result<(usize, Compressed), CompressError> {
        let Self(engine, header) = self;
        header.clear();
        let compressed = engine.compress_header(now, packet, packet.len(), header)?;
        let payload = &packet[compressed.header_in..];
        let len = header.len() + payload.len();
        let out = buffer.get_mut(..len).ok_or(CompressError::BufferTooSmall(len))?;
        let (front, rest) = out.split_at_mut(header.len());
        front.copy_from_slice(header);
        rest.copy_from_slice(payload);
        Ok((len, compressed))
    }

    /// Compresses the header of a packet and appends the ROHC header to `out`. `bytes` is the start of the packet of
    /// `len_bytes` octets, with all headers in it. What follows it on the channel is the packet from octet
    /// [`Compressed::header_in`] on; the caller adds or elides it.
    ///
    /// # Errors
    /// [`CompressError`], with nothing appended.
    pub fn compress_header(
        &mut self,
        now: Duration,
        bytes: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Compressed, CompressError> {
        self.0.compress_header(now, bytes, len_bytes, out)
    }

    /// Reserves `cid` for the flow of `packet`: it is never reassigned.
    ///
    /// # Errors
    /// [`CompressError::CidOutOfRange`], [`CompressError::Empty`].
    pub fn reserve_cid(&mut self, cid: u16, packet: &[u8]) -> Result<(), CompressError> {
        self.0.reserve_cid(cid, packet)
    }

    /// Restricts further packets to those of the channel's profiles that are in `profiles`. Contexts of
    /// others stay.
    pub fn restrict(&mut self, profiles: Profiles) {
        self.0.restrict(profiles)
    }

    /// Processes feedback of this channel's decompressor. It is one or more feedback elements (type octet, size,
    /// data), as [`Decompressor::take_feedback`](crate::Decompressor::take_feedback) makes them or a feedback channel
    /// brings them, padding allowed. What is malformed or fails its CRC is ignored.
    pub fn feedback(&mut self, elements: &[u8]) {
        self.0.feedback(elements)
    }

    /// Processes the data of one feedback element: CID and feedback (RFC 3095 5.2.2).
    pub fn feedback_data(&mut self, data: &[u8]) {
        self.0.feedback_data(data)
    }

    /// Queues complete feedback elements in front of the next ROHC packet. They are of the decompressor at this end,
    /// for the other direction. At most 4 kB wait.
    pub fn piggyback(&mut self, elements: &[u8]) {
        self.0.piggyback(elements)
    }

    /// Returns the counts of all flows.
    pub fn stats(&self) -> FlowStats {
        self.0.stats()
    }

    /// Returns the counts of the flow that has `cid`.
    pub fn flow_stats(&self, cid: u16) -> Option<FlowStats> {
        self.0.flow_stats(cid)
    }

    /// Returns mode and state of the context of `cid`, after its last packet and feedback.
    pub fn flow_state(&self, cid: u16) -> Option<(Mode, CompressorState)> {
        self.0.flow_state(cid)
    }

    /// Returns the number of contexts.
    pub fn contexts(&self) -> usize {
        self.0.contexts()
    }

    /// Returns the mean number of contexts compared to find that of a flow. It depends on
    /// [`CompressorConfig::lookup`].
    pub fn mean_comparisons(&self) -> f64 {
        self.0.mean_comparisons()
    }

    /// Returns the number of contexts given up as another flow needed the CID.
    pub fn reassigned_cids(&self) -> u64 {
        self.0.reassigned_cids()
    }

    /// Returns the number of flows that the decompressor rejected for lack of room. They go Uncompressed.
    pub fn rejected_flows(&self) -> u64 {
        self.0.rejected_flows()
    }

    /// Restarts every context with IR packets: the decompressor was replaced (CONTEXT_REINITIALIZATION,
    /// RFC 3095 6.3.1).
    pub fn reinitialize(&mut self) {
        self.0.reinitialize()
    }
}
