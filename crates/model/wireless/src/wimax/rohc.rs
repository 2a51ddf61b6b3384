//! Robust header compression of a service flow, in its convergence sublayer.
//!
//! A packet is compressed as it comes, in front of the connection's queue, so that requests and grants count true bytes.

use std::collections::VecDeque;
use std::time::Duration;

use bentpipe_net::{Carried, Packet, Why};
use bentpipe_rohc::{
    Channel as RohcChannel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode,
    Profiles, Refresh,
};
use bentpipe_site::Sample;
use bentpipe_units::Time;

use super::config::{Rohc, RohcMode, RohcVersion};

/// Number of contexts that small CIDs have.
const SMALL_CONTEXTS: u16 = 16;

impl Rohc {
    fn channel(&self) -> RohcChannel {
        let max_cid = self.contexts.saturating_sub(1);
        let cids = if self.contexts <= SMALL_CONTEXTS {
            CidSpace::Small { max_cid: max_cid as u8 }
        } else {
            CidSpace::Large { max_cid }
        };
        let profiles = match self.version {
            RohcVersion::V1 => Profiles::V1,
            RohcVersion::V2 => Profiles::V2,
        };
        RohcChannel { cids, profiles, ..RohcChannel::default() }
    }

    /// Returns the configuration of the compressor.
    pub(super) fn compressor(&self) -> CompressorConfig {
        let ir_refresh = Refresh::every_packets(self.refresh);
        CompressorConfig {
            channel: self.channel(),
            repeats: self.repeats,
            ir_refresh,
            ..CompressorConfig::default()
        }
    }

    /// Returns the configuration of the decompressor.
    pub(super) fn decompressor(&self) -> DecompressorConfig {
        let mode = match self.mode {
            RohcMode::Unidirectional => Mode::Unidirectional,
            RohcMode::Optimistic => Mode::Optimistic,
            RohcMode::Reliable => Mode::Reliable,
        };
        let peer_confirms = self.compressor().confirms();
        let (channel, repeats) = (self.channel(), self.repeats);
        DecompressorConfig { channel, mode, repeats, peer_confirms, ..DecompressorConfig::default() }
    }
}

/// Compressed packet, with the packet that it was.
#[derive(Clone, Debug)]
struct Compressed {
    bytes: Vec<u8>,
    packet: Packet,
}

impl Carried for Compressed {
    fn len(&self) -> usize {
        self.bytes.len()
    }
    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }
    fn boxed_copy(&self) -> Box<dyn Carried> {
        Box::new(Compressed { bytes: self.bytes.clone(), packet: self.packet.copy() })
    }
    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self.bytes == other.bytes)
    }
}

/// Feedback of a decompressor, a packet of its own in the other direction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Feedback {
    bytes: Vec<u8>,
    /// Connection whose decompressor wrote it.
    of: usize,
}

impl Carried for Feedback {
    fn len(&self) -> usize {
        self.bytes.len()
    }
    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }
    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// Returns a packet of feedback of a connection's decompressor.
pub(super) fn feedback(of: usize, bytes: Vec<u8>) -> Packet {
    Packet::carrying(0, Box::new(Feedback { bytes, of }))
}

/// Result of a packet at the receiver.
#[derive(Debug)]
pub(super) enum Received {
    /// Packet for the node behind.
    Packet(Packet),
    /// Feedback for the compressor of a connection.
    Feedback(usize, Vec<u8>),
    /// Packet that is not restored.
    Nothing,
}

/// Both ends of a connection's header compression.
#[derive(Debug)]
pub(super) struct Channel {
    compressor: Compressor,
    decompressor: Decompressor,
    /// Feedback for the compressor, with the time at which it arrives.
    coming: VecDeque<(Time, Vec<u8>)>,
    /// Bytes of packets before compression, and after.
    pub(super) before: u64,
    /// Bytes of packets after compression.
    pub(super) after: u64,
    /// Packets that were not restored.
    pub(super) failed: u64,
    /// Packets of feedback that this connection's decompressor sent.
    pub(super) feedback: u64,
}

/// Maximum number of packets of a sample.
const MAX_SAMPLE: u64 = 1 << 17;

/// Packets of a cycle without refreshes.
const NO_REFRESH: u64 = 500;

impl Rohc {
    /// Returns the mean lengths of packets of `flows` flows, before and after compression.
    ///
    /// They are means of whole cycles of refreshes. Feedback comes at once. `None` without a sample.
    pub(super) fn mean_lengths(
        &self,
        flows: u64,
        sample: &dyn Fn(u16) -> Option<Sample>,
    ) -> Option<(f64, f64)> {
        /// Cycles that are averaged, behind one that is not.
        const CYCLES: u64 = 2;
        let is_refreshed = self.mode == RohcMode::Unidirectional;
        let cycle = if is_refreshed { u64::from(self.refresh) } else { NO_REFRESH };
        let cycle = cycle.min(MAX_SAMPLE / (CYCLES + 1));
        let flows = flows.clamp(1, MAX_SAMPLE / ((CYCLES + 1) * cycle));
        let mut channel = Channel::new(self);
        let mut sum = (0_u64, 0_u64, 0_u64);
        let all = (CYCLES + 1) * cycle * flows;
        for (n, (at, packet)) in (0..all).zip(sample(u16::try_from(flows).ok()?)?) {
            let before = packet.len();
            let packet = channel.compress(packet, at);
            if n >= cycle * flows {
                sum = (sum.0 + 1, sum.1 + before as u64, sum.2 + packet.len() as u64);
            }
            if !is_refreshed {
                channel.receive(packet, at);
                if let Some(feedback) = channel.take_feedback() {
                    channel.compressor.feedback(&feedback);
                }
            }
        }
        let mean = |bytes: u64| bytes as f64 / sum.0 as f64;
        (sum.0 > 0).then(|| (mean(sum.1), mean(sum.2)))
    }
}

fn since_start(now: Time) -> Duration {
    Duration::from_nanos(now.as_nanos())
}

impl Channel {
    /// Creates both ends.
    pub(super) fn new(config: &Rohc) -> Channel {
        Channel {
            compressor: Compressor::new(config.compressor()),
            decompressor: Decompressor::new(config.decompressor()),
            coming: VecDeque::new(),
            before: 0,
            after: 0,
            failed: 0,
            feedback: 0,
        }
    }

    /// Compresses a packet. What cannot be compressed stays as it is.
    pub(super) fn compress(&mut self, packet: Packet, now: Time) -> Packet {
        while self.coming.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, elements)) = self.coming.pop_front() else { break };
            self.compressor.feedback(&elements);
        }
        let mut bytes = Vec::new();
        if self.compressor.compress(since_start(now), &packet.to_vec(), &mut bytes).is_err() {
            return packet;
        }
        self.before += packet.len() as u64;
        self.after += bytes.len() as u64;
        let created_at = packet.created_at();
        let mut compressed = Packet::carrying(0, Box::new(Compressed { bytes, packet }));
        compressed.set_created_at(created_at);
        compressed
    }

    /// Receives a packet of the connection at `now`.
    pub(super) fn receive(&mut self, packet: Packet, now: Time) -> Received {
        if let Some(feedback) = packet.carried::<Feedback>() {
            // It passes the decompressor of this direction, as feedback is a packet like others.
            let (mut none, mut elements) = (Vec::new(), Vec::new());
            let of = feedback.of;
            let _ = self.decompressor.decompress(since_start(now), &feedback.bytes, &mut none);
            self.decompressor.take_received_feedback(&mut elements);
            return Received::Feedback(of, elements);
        }
        if packet.carried::<Compressed>().is_none() {
            return Received::Packet(packet);
        }
        let Some(compressed) = packet.into_carried::<Compressed>() else { return Received::Nothing };
        let Compressed { bytes, mut packet } = *compressed;
        let mut restored = Vec::new();
        match self.decompressor.decompress(since_start(now), &bytes, &mut restored) {
            Ok(Some(_)) if restored == packet.to_vec() => Received::Packet(packet),
            Ok(Some(_)) => {
                // A residual error of header compression: the node gets what the decompressor made of it.
                let mut wrong = Packet::from_bytes(&restored);
                wrong.set_origin(packet.take_origin());
                Received::Packet(wrong)
            }
            _ => {
                self.failed += 1;
                packet.lose(Why::Restoration);
                Received::Nothing
            }
        }
    }

    /// Returns feedback that the decompressor wants to send.
    pub(super) fn take_feedback(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.decompressor.take_feedback(&mut bytes).then(|| {
            self.feedback += 1;
            bytes
        })
    }

    /// Keeps feedback for the compressor until it arrives at `at`.
    pub(super) fn await_feedback(&mut self, at: Time, elements: Vec<u8>) {
        self.coming.push_back((at, elements));
    }
}
