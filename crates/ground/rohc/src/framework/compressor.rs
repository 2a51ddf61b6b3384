//! Compressor engine: profile and context of a packet, and feedback.

use alloc::vec::Vec;
use core::time::Duration;

use crate::framework::config::CompressorConfig;
use crate::framework::context::{
    ArrivedFeedback, Built, CompressorFamilies, Flows, Holder, Job, Step, Unfit,
};
use crate::framework::earlier::EarlierUses;
use crate::framework::error::CompressError;
use crate::framework::feedback::{self, Queue};
use crate::framework::flow::{Key, set_key};
use crate::framework::frame::{self, Cid, PacketStart};
use crate::framework::packet::Packet;
use crate::framework::profile::{CompressorState, Mode, PacketType, Profile, Profiles};
use crate::framework::stats::{Compressed, FlowStats};
use crate::framework::table::{Found, Table};

/// The longest IP packet there can be: an IPv6 header and 65535 octets.
const MAX_PACKET_BYTES: usize = 40 + 65_535;

/// Packets after a REJECT that bring no new context (RFC 3095 5.7.6.4: "for some time").
const REFRAIN_PACKETS: u16 = 256;

/// Compressor of one channel, for the profiles of `F`.
#[derive(Debug)]
pub(crate) struct CompressorEngine<F> {
    config: CompressorConfig,
    /// The profiles that the channel has. Those in `config` may be fewer.
    profiles: Profiles,
    families: F,
    flows: Flows,
    counters: Vec<FlowStats>,
    /// Counts of flows that no longer have a context.
    gone: FlowStats,
    clock_ms: Option<u8>,
    earlier: EarlierUses,
    /// Time of the last packet on the general path.
    now: Duration,
    /// Packets to come during which no new flow is compressed: the decompressor has no room.
    refrain: u16,
    /// Number of flows that the decompressor rejected.
    rejected: u64,
    piggyback: Queue,
    key: Key,
    /// Sends every packet along the general path, for comparison.
    #[cfg(test)]
    pub(crate) fast_path_disabled: bool,
}

/// Profiles to try for a packet, best first, each with the index of its family.
#[derive(Clone, Copy, Debug, Default)]
struct Candidates {
    entries: [Option<(u8, Profile)>; MAX_CANDIDATES],
    len: usize,
}

/// Maximum number of profiles that are tried for a packet.
const MAX_CANDIDATES: usize = 8;

impl Candidates {
    #[inline]
    fn push(&mut self, family: usize, profile: Option<Profile>) {
        if let (Some(profile), Some(place)) = (profile, self.entries.get_mut(self.len)) {
            *place = Some((family as u8, profile));
            self.len += 1;
        }
    }

    fn iter(self) -> impl Iterator<Item = (usize, Profile)> {
        let entries = self.entries.into_iter().take(self.len).flatten();
        entries.map(|(family, profile)| (usize::from(family), profile))
    }
}

impl<F: CompressorFamilies> CompressorEngine<F> {
    /// Creates a compressor of the profiles in `families`, without contexts.
    pub(crate) fn new(mut config: CompressorConfig, families: F) -> Self {
        if config.is_for_librohc() {
            let lacking = [
                Profile::RtpUdpLite,
                Profile::UdpLite,
                Profile::RtpV2,
                Profile::RtpUdpLiteV2,
                Profile::UdpLiteV2,
            ];
            config.channel.profiles = lacking.into_iter().fold(config.channel.profiles, Profiles::without);
        }
        config.channel.profiles = config.channel.profiles.highest_versions();
        let flows = Table::new(config.channel.cids.max_cid(), config.lookup);
        let profiles = config.channel.profiles;
        Self {
            config,
            profiles,
            families,
            flows,
            counters: Vec::new(),
            gone: FlowStats::default(),
            clock_ms: None,
            earlier: EarlierUses::default(),
            now: Duration::ZERO,
            refrain: 0,
            rejected: 0,
            piggyback: Queue::default(),
            key: Key::default(),
            #[cfg(test)]
            fast_path_disabled: false,
        }
    }

    /// See [`Compressor::compress`](crate::Compressor::compress).
    pub(crate) fn compress(
        &mut self,
        now: Duration,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Compressed, CompressError> {
        let compressed = self.compress_header(now, packet, packet.len(), out)?;
        out.extend_from_slice(&packet[compressed.header_in..]);
        Ok(compressed)
    }

    /// See [`Compressor::compress_header`](crate::Compressor::compress_header).
    pub(crate) fn compress_header(
        &mut self,
        now: Duration,
        bytes: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Compressed, CompressError> {
        if len_bytes < bytes.len() || len_bytes > MAX_PACKET_BYTES {
            return Err(CompressError::BadLength);
        }
        if bytes.is_empty() {
            return Err(CompressError::Empty);
        }
        self.piggyback.drain_into(out);
        if let Some(compressed) = self.step(now, bytes, len_bytes, out) {
            self.counters[usize::from(compressed.cid)].count(&compressed, len_bytes);
            return Ok(compressed);
        }
        self.refrain = self.refrain.saturating_sub(1);
        self.now = now;
        let packet = Self::parse(&self.config, bytes, len_bytes);
        let start = out.len();
        let (cid, profile, built) = self.first_that_fits(&packet, now, out);
        let compressed = Compressed {
            cid,
            profile,
            packet_type: built.kind,
            header_in: built.header_in,
            header_out: out.len() - start,
        };
        self.counters[usize::from(cid)].count(&compressed, len_bytes);
        Ok(compressed)
    }

    /// Parses a packet as far as the decompressor understands its headers.
    #[inline]
    fn parse<'a>(config: &CompressorConfig, bytes: &'a [u8], len_bytes: usize) -> Packet<'a> {
        let packet = Packet::parse(bytes, len_bytes, &config.rtp);
        if config.is_for_librohc() { packet.without_lists() } else { packet }
    }

    /// Compresses a packet on the fast path, if it follows from the last one.
    #[inline]
    pub(crate) fn step(
        &mut self,
        now: Duration,
        bytes: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<Compressed> {
        #[cfg(test)]
        if self.fast_path_disabled {
            return None;
        }
        let step = Step { bytes, len: len_bytes, now, config: &self.config };
        let start = out.len();
        let stepped = self.families.step(&self.flows, &step, out)?;
        self.flows.used(stepped.cid);
        Some(Compressed {
            cid: stepped.cid,
            profile: stepped.profile,
            packet_type: stepped.kind,
            header_in: usize::from(stepped.header_in),
            header_out: out.len() - start,
        })
    }

    /// Tries the profiles from the one that compresses most to Uncompressed.
    #[inline]
    fn first_that_fits(
        &mut self,
        packet: &Packet<'_>,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> (u16, Profile, Built) {
        let start = out.len();
        for (family, profile) in self.candidates(packet).iter() {
            if let Some((cid, built)) = self.try_profile(packet, family, profile, now, out) {
                return (cid, profile, built);
            }
            out.truncate(start);
        }
        self.last_resort(out)
    }

    /// Sends IR of Uncompressed at the highest CID, as all CIDs are reserved. The context there is removed, so that
    /// its flow begins again.
    fn last_resort(&mut self, out: &mut Vec<u8>) -> (u16, Profile, Built) {
        let cid = self.config.channel.cids.max_cid();
        self.remove(cid);
        let cid_writer = Cid { cids: self.config.channel.cids, cid };
        frame::write_uncompressed_ir(cid_writer, out);
        self.counters.resize(self.counters.len().max(usize::from(cid) + 1), FlowStats::default());
        (cid, Profile::Uncompressed, Built { kind: PacketType::Ir, header_in: 0 })
    }

    /// Removes the context at `cid`; the CID stays with its flow.
    fn remove(&mut self, cid: u16) {
        self.hold(cid, Holder::default());
    }

    /// Enters `next` as holder of the context at `cid`. Records the use that ends, and removes another family's
    /// context.
    fn hold(&mut self, cid: u16, next: Holder) {
        let Some(holder) = self.flows.value_mut(cid) else { return };
        let Some(family) = core::mem::replace(holder, next).family() else { return };
        self.earlier.record(cid, self.families.get(family).sent_numbers(cid), self.now);
        if next.family() != Some(family) {
            self.families.get_mut(family).remove(cid);
        }
    }

    #[inline]
    fn try_profile(
        &mut self,
        packet: &Packet<'_>,
        family: usize,
        profile: Profile,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Option<(u16, Built)> {
        set_key(packet, profile, &mut self.key);
        // A packet that a profile cannot carry must not take a CID for it.
        let admitted = || {
            profile == Profile::Uncompressed
                || self.refrain == 0 && self.families.get(family).accepts(packet, profile)
        };
        let found = self.flows.find_or_assign(&self.key, admitted)?;
        let (Found::Known(cid) | Found::Assigned(cid)) = found;
        let at = usize::from(cid);
        if self.counters.len() <= at {
            self.counters.resize(at + 1, FlowStats::default());
        }
        let begins = matches!(found, Found::Assigned(_)) || self.flows.value(cid)?.family().is_none();
        if begins {
            self.hold(cid, Holder::new(family));
        }
        let job = Job {
            packet,
            profile,
            cid: Cid { cids: self.config.channel.cids, cid },
            now,
            config: &self.config,
            cids_in_use: self.flows.len() as u16,
            is_reused: begins && self.earlier.has(cid),
            clock_ms: self.clock_ms,
            shared: &(),
        };
        if begins {
            self.families.get_mut(family).begin(&job);
            self.gone.add(&core::mem::take(&mut self.counters[at]));
        }
        let refused = self.flows.value(cid)?.is_rejected() && profile != Profile::Uncompressed;
        let built = if refused { Err(Unfit) } else { self.families.get_mut(family).compress(&job, out) };
        Some((cid, built.ok()?))
    }

    /// Returns the profiles that could carry `packet`, best first.
    #[inline]
    fn candidates(&self, packet: &Packet<'_>) -> Candidates {
        let allowed = self.config.channel.profiles;
        let limit = self.config.max_packet_bytes as usize;
        let is_small = limit == 0 || packet.len <= limit;
        let usable =
            |&profile: &Profile| profile == Profile::Uncompressed || is_small && allowed.contains(profile);
        let mut candidates = Candidates::default();
        let mut general = [None; MAX_CANDIDATES];
        for (index, place) in general.iter_mut().enumerate().take(F::COUNT) {
            let suitable = self.families.get(index).suitable(packet);
            suitable.specific.into_iter().for_each(|profile| candidates.push(index, profile.filter(usable)));
            *place = suitable.general.filter(usable);
        }
        general.into_iter().enumerate().for_each(|(index, profile)| candidates.push(index, profile));
        candidates
    }

    /// See [`Compressor::reserve_cid`](crate::Compressor::reserve_cid).
    pub(crate) fn reserve_cid(&mut self, cid: u16, packet: &[u8]) -> Result<(), CompressError> {
        let parsed = Self::parse(&self.config, packet, packet.len());
        if cid > self.config.channel.cids.max_cid() {
            return Err(CompressError::CidOutOfRange(cid));
        }
        let best = self.candidates(&parsed).iter().next().filter(|_| !packet.is_empty());
        let (_, best) = best.ok_or(CompressError::Empty)?;
        set_key(&parsed, best, &mut self.key);
        self.flows.assign(cid, &self.key);
        self.flows.reserve(cid);
        self.remove(cid);
        Ok(())
    }

    /// See [`Compressor::restrict`](crate::Compressor::restrict).
    pub(crate) fn restrict(&mut self, profiles: Profiles) {
        self.config.channel.profiles = self.profiles.and(profiles);
    }

    /// See [`Compressor::feedback`](crate::Compressor::feedback).
    pub(crate) fn feedback(&mut self, mut elements: &[u8]) {
        while let Ok(PacketStart::Feedback { data, rest }) = frame::front(elements) {
            self.feedback_data(data);
            elements = rest;
        }
    }

    /// See [`Compressor::feedback_data`](crate::Compressor::feedback_data).
    pub(crate) fn feedback_data(&mut self, data: &[u8]) {
        let Some((cid, field)) = feedback::split(data, self.config.channel.cids) else { return };
        let Some(holder) = self.flows.value_mut(cid) else { return };
        let Some(index) = holder.family() else { return };
        let earlier = self.earlier.of(cid, self.now);
        let feedback = ArrivedFeedback { cid, data, field, config: &self.config, earlier };
        let outcome = self.families.get_mut(index).feedback(&feedback);
        self.clock_ms = outcome.clock_ms.or(self.clock_ms).filter(|&clock| clock != 0);
        if outcome.rejected {
            self.rejected += u64::from(!holder.is_rejected());
            holder.reject();
            self.refrain = REFRAIN_PACKETS;
        }
    }

    /// See [`Compressor::piggyback`](crate::Compressor::piggyback).
    pub(crate) fn piggyback(&mut self, elements: &[u8]) {
        self.piggyback.extend(elements);
    }

    /// See [`Compressor::stats`](crate::Compressor::stats).
    pub(crate) fn stats(&self) -> FlowStats {
        let mut total = self.gone;
        self.counters.iter().for_each(|stats| total.add(stats));
        total
    }

    /// See [`Compressor::flow_stats`](crate::Compressor::flow_stats).
    pub(crate) fn flow_stats(&self, cid: u16) -> Option<FlowStats> {
        self.counters.get(usize::from(cid)).copied()
    }

    /// See [`Compressor::flow_state`](crate::Compressor::flow_state).
    pub(crate) fn flow_state(&self, cid: u16) -> Option<(Mode, CompressorState)> {
        self.families.get(self.flows.value(cid)?.family()?).status(cid)
    }

    /// See [`Compressor::contexts`](crate::Compressor::contexts).
    pub(crate) fn contexts(&self) -> usize {
        self.flows.len()
    }

    /// See [`Compressor::mean_comparisons`](crate::Compressor::mean_comparisons).
    pub(crate) fn mean_comparisons(&self) -> f64 {
        self.flows.mean_comparisons()
    }

    /// See [`Compressor::reassigned_cids`](crate::Compressor::reassigned_cids).
    pub(crate) const fn reassigned_cids(&self) -> u64 {
        self.flows.reassigned()
    }

    /// See [`Compressor::rejected_flows`](crate::Compressor::rejected_flows).
    pub(crate) const fn rejected_flows(&self) -> u64 {
        self.rejected
    }

    /// See [`Compressor::reinitialize`](crate::Compressor::reinitialize).
    pub(crate) fn reinitialize(&mut self) {
        (0..self.flows.len() as u16).for_each(|cid| self.remove(cid));
    }
}
