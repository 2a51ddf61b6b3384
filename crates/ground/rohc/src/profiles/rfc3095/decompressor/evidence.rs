//! Verification of packets after losses that may have hidden a change.
//!
//! A compressor that confirms ([`CompressorConfig::confirm`](crate::CompressorConfig::confirm)) sends packets with a CRC-7
//! where nothing in them calls for one: every few packets, after changes, and where the flow itself looks like losses.
//! With [`DecompressorConfig::peer_confirms`] packets in doubt wait for the next one. Of other compressors no such thing
//! is known, and waiting might take long.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Arrived, Decompressor, Values};
use crate::framework::config::DecompressorConfig;
use crate::framework::confirm::BEHIND_CHANGES;
use crate::framework::context::Restored;
use crate::framework::error::DecompressError;
use crate::framework::profile::{Mode, PacketType};
use crate::profiles::rfc3095::compressed::CrcKind;
use crate::profiles::rfc3095::header::Numbering;

/// Verification that a packet needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verification {
    None,
    /// Correct transport checksum required.
    Checked,
    /// Late: sequence numbers may have wrapped. Its transport checksum must be right. Without one, it must not be
    /// right with the sequence number that the time suggests, too.
    Late,
    /// Mutual confirmation with the packets that follow required.
    Held,
}

impl Decompressor {
    /// Returns `true` if the numbers are the compressor's, so that each gap is a loss.
    fn is_generated(&self) -> bool {
        self.numbering() == Numbering::Generated
    }

    /// Returns `true` if gaps and pauses before CRC-3 packets are losses of this channel.
    #[inline]
    pub(super) fn are_losses(&self, config: &DecompressorConfig) -> bool {
        self.is_generated() || config.peer_confirms || config.gaps_are_losses
    }

    /// Returns `true` if the gap before `sn` may hide a change.
    ///
    /// One that does not come after the last one may be a whole wrap ahead. In R-mode most packets are not references, and
    /// no change counts as arrived that was not acknowledged.
    pub(super) fn has_gap(&self, sn: u32, config: &DecompressorConfig) -> bool {
        self.feedbacker.mode() != Mode::Reliable
            && !(1..=i32::from(config.repeats)).contains(&self.numbering().distance(self.values.sn, sn))
    }

    /// Returns `true` if a packet of type 0 rules out a change in the gap. The compressor would
    /// still have sent CRC-7, and the time fits the gap.
    fn is_covered(&self, sn: u32, now: Duration, config: &DecompressorConfig) -> bool {
        let most = i32::from(config.repeats.saturating_add(BEHIND_CHANGES));
        config.peer_confirms
            && !self.is_new
            && self.feedbacker.mode() == Mode::Unidirectional
            && (1..=most).contains(&self.numbering().distance(self.values.sn, sn))
            && self.is_explained(sn, now)
    }

    /// Returns `true` if the time since the last packet fits the gap without a wrap.
    fn is_explained(&self, sn: u32, now: Duration) -> bool {
        let distance = self.numbering().distance(self.values.sn, sn);
        self.timing.explains(distance.unsigned_abs(), now)
    }

    /// Returns `true` if a right transport checksum ends all doubts. It covers no identification, hop limit or type of service; but of
    /// a compressor that does not confirm there may be nothing better for long.
    pub(super) fn is_proven_by_checksum(&self, config: &DecompressorConfig) -> bool {
        !config.peer_confirms && self.compressed_id(&self.values).is_none()
    }

    /// Returns `true` if only IR or IR-DYN may restore a damaged context.
    ///
    /// A compressor that confirms sends more packets with a CRC-7 before one of them, and each is wrong one time in 128. Their
    /// failures would also let the context count as lost, which an IR-DYN does not restore.
    pub(super) fn awaits_refresh(&self, config: &DecompressorConfig) -> bool {
        !self.state.is_full() && self.can_await_refresh(config)
    }

    /// Returns `true` if a packet may have passed its CRC by chance.
    ///
    /// Those since a gap have failed theirs, and it moves an IP-ID. In a flow whose IP-ID leads away from the sequence number losses leave the context behind what a CRC-7 brings.
    pub(super) fn may_be_chance(&self, values: &Values, config: &DecompressorConfig) -> bool {
        let is_moved = |index: usize| {
            let (old, new) = (&self.values.ip[index], &values.ip[index]);
            let is_compressed = self.ip[index].is_ipv4() && !new.rnd && !new.sid;
            is_compressed && old.offset(self.values.sn) != new.offset(values.sn)
        };
        self.unconfirmed > 0
            && self.state.failed_last()
            && self.can_await_refresh(config)
            && self.used().any(is_moved)
    }

    /// Returns `true` if a NACK brings an IR-DYN, and nothing else vouches for packets.
    fn can_await_refresh(&self, config: &DecompressorConfig) -> bool {
        config.peer_confirms
            && config.caution > 0
            && self.feedbacker.mode() == Mode::Optimistic
            && !self.evidence.is_trusted()
    }

    /// Returns `true` if a packet comes in sequence and in time, so without [`doubts`](Self::doubts).
    #[inline]
    pub(super) fn follows_at_once(&self, sn: u32, now: Duration, config: &DecompressorConfig) -> bool {
        (1..=i32::from(config.repeats)).contains(&self.numbering().distance(self.values.sn, sn))
            && !self.timing.is_late(now)
    }

    /// Returns the verification that a packet with CRC-3 and sequence number `sn` needs. Losses before it may hide a
    /// change, or the sequence number may have wrapped. To a CRC-3 some changes look like none (a hop limit of 63
    /// instead of 64).
    #[inline]
    pub(super) fn doubts(
        &self,
        sn: u32,
        without_ts: bool,
        is_type_0: bool,
        now: Duration,
        config: &DecompressorConfig,
    ) -> Verification {
        if config.caution == 0 {
            return Verification::None;
        }
        let has_gap = self.has_gap(sn, config);
        if has_gap && self.are_losses(config) && !(is_type_0 && self.is_covered(sn, now, config)) {
            return Verification::Held;
        }
        if has_gap && self.evidence.is_trusted() {
            return Verification::Checked;
        }
        if self.timing.is_late(now) && self.may_have_wrapped(sn, without_ts, now, config) {
            Verification::Late
        } else {
            Verification::None
        }
    }

    /// Returns `true` if sequence numbers may have wrapped before a packet that comes late.
    #[inline(never)]
    fn may_have_wrapped(
        &self,
        sn: u32,
        without_ts: bool,
        now: Duration,
        config: &DecompressorConfig,
    ) -> bool {
        let is_timed = self.has_rtp() && without_ts && self.are_losses(config) && !self.is_explained(sn, now);
        (is_timed || self.evidence.is_trusted()) && !self.timing.was_silent(now)
    }

    /// Records doubts and returns the evidence required. A CRC-7 proves enough, but where there is a checksum it must
    /// be right too.
    #[inline]
    pub(super) fn doubt(&mut self, packet: &Arrived<'_>, sn: u32) -> Verification {
        let config = packet.input.config;
        if packet.compact.crc_kind == CrcKind::None {
            return Verification::None;
        }
        let is_type_0 = packet.compact.kind == PacketType::Uo0;
        let doubt = self.doubts(sn, packet.compact.ts.count == 0, is_type_0, packet.input.now, config);
        if packet.compact.crc_kind == CrcKind::Seven {
            // A compressor that confirms does so where the gap is from before it, too.
            let is_lost = doubt == Verification::Held && (self.is_generated() || config.gaps_are_losses);
            let is_shaken = config.caution > 0 && (is_lost || !self.state.is_full());
            return if is_shaken { Verification::Checked } else { Verification::None };
        }
        if doubt == Verification::Held {
            self.unconfirmed = config.held_back_packets();
            self.forget_template();
        }
        doubt
    }

    /// Returns `true` if the packet's transport checksum must be right.
    #[inline]
    pub(super) fn is_checked(&self, doubt: Verification, config: &DecompressorConfig) -> bool {
        let in_doubt = || doubt != Verification::None || self.unconfirmed > 0 || self.state.failed_last();
        config.verify || config.caution > 0 && self.evidence.is_trusted() && in_doubt()
    }

    /// Returns `true` if the sequence number that the time suggests fits, too.
    pub(super) fn has_rival(&self, packet: &Arrived<'_>, sn: u32, out: &mut Vec<u8>) -> bool {
        let numbering = self.numbering();
        let Some(period) = 1u32.checked_shl(packet.compact.sn.count) else { return false };
        let distance = numbering.distance(self.values.sn, sn);
        let wraps = self.timing.wraps(distance, period, packet.input.now);
        let rival = sn.wrapping_add(wraps * period) & numbering.mask();
        let start = out.len();
        let passes = wraps > 0 && self.attempt(packet, rival, false, out).is_ok();
        out.truncate(start);
        passes
    }

    /// Decides if the packet, about to be committed, is delivered. What a right transport checksum has not `is_proven_right`
    /// is refused where there is a way back, and the NACK brings a packet with a strong CRC; in U-mode those that
    /// follow must confirm it.
    #[inline]
    pub(super) fn weigh(
        &mut self,
        packet: &Arrived<'_>,
        is_proven_right: bool,
    ) -> Result<(), DecompressError> {
        let caution = packet.input.config.caution;
        if self.unconfirmed == 0 || packet.compact.crc_kind == CrcKind::None {
            return Ok(());
        }
        let is_proven = packet.compact.crc_kind == CrcKind::Seven && caution > 0;
        if is_proven || is_proven_right && (caution == 0 || self.is_proven_by_checksum(packet.input.config)) {
            self.unconfirmed = 0;
            return Ok(());
        }
        let has_way_back = self.feedbacker.mode() != Mode::Unidirectional;
        if caution > 0 && has_way_back { Err(DecompressError::NotAllowedInState) } else { Ok(()) }
    }

    /// Holds a packet back while it is not confirmed.
    #[inline]
    pub(super) fn confirmed(&mut self, restored: Restored) -> Result<Restored, DecompressError> {
        if self.unconfirmed == 0 {
            return Ok(restored);
        }
        self.unconfirmed -= u8::from(self.unconfirmed < u8::MAX);
        Err(DecompressError::RepairPending)
    }
}
