//! What losses may have hidden, and what shows that they did not.
//!
//! A compressor of this crate sends packets with a CRC of 7 bits where nothing in them calls for one: every so often,
//! behind what changed, and where the flow itself looks like losses
//! ([`CompressorConfig::confirm`](crate::CompressorConfig::confirm)). Who has seen one may wait for the next. Of other
//! compressors no such thing is known, and waiting might take long.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Arrived, Candidate, Decompressor};
use crate::config::DecompressorConfig;
use crate::confirm::{BEHIND_CHANGES, Peer};
use crate::error::DecompressError;
use crate::job::Restored;
use crate::profile::{Mode, PacketType};
use crate::rfc3095::compressed::CrcKind;
use crate::rfc3095::header::Numbering;

/// As far behind an IR or IR-DYN packet a compressor may begin to confirm.
const REACH: i32 = 9;

/// What is known of the compressor, and where in a flow it stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirming {
    /// What the channel's [`Peer`] said last.
    is_known: bool,
    /// The last packet was of type 0.
    pub(super) is_calm: bool,
    /// It set the context up anew.
    is_new: bool,
    /// Packets that waited for a CRC of 7 bits since the last one.
    waited: u8,
}

impl Confirming {
    /// Whether the channel's `peer` still says what it said last: any packet of any context may change that.
    #[inline]
    pub(super) fn is_up_to_date(&self, peer: &Peer) -> bool {
        self.is_known == peer.confirms()
    }
}

/// How far a packet is doubted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    None,
    /// Its transport checksum must be right.
    Checked,
    /// It comes so late that sequence numbers may have wrapped: its transport checksum must be right; without one, it
    /// must not be right with the sequence number that the time suggests, too.
    Late,
    /// It, and those that follow, must confirm each other.
    Held,
}

impl Decompressor {
    /// Whether the numbers are the compressor's, so that each gap is a loss.
    fn is_generated(&self) -> bool {
        self.numbering() == Numbering::Generated
    }

    /// Whether a gap in the sequence numbers, or a pause, before a packet with a CRC of 3 bits is of losses of this channel.
    #[inline]
    fn are_losses(&self, config: &DecompressorConfig) -> bool {
        self.is_generated() || self.confirming.is_known || config.gaps_are_losses
    }

    /// Whether a packet of type 0 shows that nothing changed in the gap before it: the compressor would still have sent CRCs
    /// of 7 bits; and by the time there are no more packets missing than it seems.
    fn is_covered(&self, sn: u32, now: Duration, config: &DecompressorConfig) -> bool {
        let most = i32::from(config.repeats.saturating_add(BEHIND_CHANGES));
        self.confirming.is_known
            && !self.confirming.is_new
            && self.feedbacker.mode() == Mode::Unidirectional
            && (1..=most).contains(&self.numbering().distance(self.values.sn, sn))
            && self.is_explained(sn, now)
    }

    /// Whether the time since the last packet is that of the gap between the numbers, and not of a wrap more.
    fn is_explained(&self, sn: u32, now: Duration) -> bool {
        let distance = self.numbering().distance(self.values.sn, sn);
        self.rhythm.explains(distance.unsigned_abs(), now)
    }

    /// Whether a right transport checksum ends all doubts. It covers no identification, hop limit or type of service; but of
    /// a compressor that does not confirm there may be nothing better for long.
    pub(super) fn is_vouched_for(&self) -> bool {
        !self.confirming.is_known && self.compressed_id(&self.values).is_none()
    }

    /// How many packets losses hold back.
    pub(super) const fn caution(&self, config: &DecompressorConfig) -> u8 {
        if self.confirming.is_known && config.caution > 0 { u8::MAX } else { config.caution }
    }

    /// Looks for the mark of a compressor that confirms: a packet of type 2 that says nothing, where one of type 0 would have
    /// done. One that repeats a change has no packet of type 0 just before.
    #[inline]
    pub(super) fn observe_compressor(&mut self, packet: &Arrived<'_>, candidate: &Candidate) {
        let was_calm =
            core::mem::replace(&mut self.confirming.is_calm, packet.compact.kind == PacketType::Uo0);
        let is_short = packet.compact.crc_kind == CrcKind::Seven
            && packet.compact.extension3.is_none()
            && candidate.changes.is_none();
        let was_new = core::mem::take(&mut self.confirming.is_new);
        let is_seen =
            if was_new { self.is_near(candidate.values.sn) } else { was_calm && self.is_next(candidate) };
        // UDP-Lite has types of its own, and compressors of it habits.
        if is_short && is_seen && !self.profile.has_udp_lite() {
            packet.input.peer.was_seen();
        }
    }

    /// Whether so few packets seem to be missing that four bits of sequence number would have done.
    fn is_near(&self, sn: u32) -> bool {
        (1..=REACH).contains(&self.numbering().distance(self.values.sn, sn))
    }

    /// Whether the values are those that a packet of type 0 would have brought as the next one.
    fn is_next(&self, candidate: &Candidate) -> bool {
        let (old, new) = (&self.values, &candidate.values);
        let offsets = |values: &super::Values| [0, 1].map(|index: usize| values.ip[index].offset(values.sn));
        let is_linear = !self.has_rtp() || new.rtp.ts == old.rtp.ts.wrapping_add(old.rtp.stride);
        self.numbering().distance(old.sn, new.sn) == 1
            && is_linear
            && !candidate.marker
            && self.used().all(|index| {
                !self.ip[index].is_ipv4()
                    || new.ip[index].rnd
                    || new.ip[index].sid
                    || offsets(old)[index] == offsets(new)[index]
            })
    }

    /// IR or IR-DYN set the context up.
    pub(in crate::rfc3095) fn set_up(&mut self, peer: &Peer) {
        let is_known = peer.confirms();
        self.confirming = Confirming { is_known, is_calm: false, is_new: true, waited: 0 };
    }

    /// How far a packet with the sequence number `sn`, with a CRC of 3 bits only, is to be doubted: so many packets seem
    /// lost before it that a change may be among them, or the sequence number may have wrapped. To a CRC of 3 bits
    /// some changes look like none (a hop limit of 63 instead of 64).
    #[inline]
    pub(super) fn doubts(
        &self,
        sn: u32,
        without_ts: bool,
        is_type_0: bool,
        now: Duration,
        config: &DecompressorConfig,
    ) -> Doubt {
        if config.caution == 0 {
            return Doubt::None;
        }
        let numbering = self.numbering();
        // One that does not come after the last one may be a whole wrap ahead. In R-mode most packets are no references,
        // and no change is believed to have arrived that was not acknowledged.
        let has_gap = self.feedbacker.mode() != Mode::Reliable
            && !(1..=i32::from(config.repeats)).contains(&numbering.distance(self.values.sn, sn));
        if has_gap && self.are_losses(config) && !(is_type_0 && self.is_covered(sn, now, config)) {
            return Doubt::Held;
        }
        if has_gap && self.witness.is_trusted() {
            return Doubt::Checked;
        }
        let is_timed = self.has_rtp() && without_ts && self.are_losses(config) && !self.is_explained(sn, now);
        let may_have_wrapped = is_timed || self.witness.is_trusted();
        if may_have_wrapped && self.rhythm.is_late(now) && !self.rhythm.was_silent(now) {
            Doubt::Late
        } else {
            Doubt::None
        }
    }

    /// Takes note of doubts. A CRC of 7 bits proves enough, but where there is a witness that is heard too.
    #[inline]
    pub(super) fn doubt(&mut self, packet: &Arrived<'_>, sn: u32) -> Doubt {
        let config = packet.input.config;
        if packet.compact.crc_kind == CrcKind::None {
            return Doubt::None;
        }
        self.confirming.is_known = packet.input.peer.confirms();
        let is_type_0 = packet.compact.kind == PacketType::Uo0;
        let doubt = self.doubts(sn, packet.compact.ts.count == 0, is_type_0, packet.input.now, config);
        if packet.compact.crc_kind == CrcKind::Seven {
            // A compressor that confirms does so where the gap is from before it, too.
            let is_lost = doubt == Doubt::Held && (self.is_generated() || config.gaps_are_losses);
            let is_shaken = config.caution > 0 && (is_lost || !self.state.is_full());
            return if is_shaken { Doubt::Checked } else { Doubt::None };
        }
        if doubt == Doubt::Held {
            self.unconfirmed = self.caution(config);
            self.forget_template();
        }
        doubt
    }

    /// Whether the packet's transport checksum must be right.
    #[inline]
    pub(super) fn is_checked(&self, doubt: Doubt, config: &DecompressorConfig) -> bool {
        let in_doubt = || doubt != Doubt::None || self.unconfirmed > 0 || self.state.failed_last();
        config.verify || config.caution > 0 && self.witness.is_trusted() && in_doubt()
    }

    /// Whether the packet would be right with the sequence number that the time suggests, as it is with `sn`.
    pub(super) fn has_rival(&self, packet: &Arrived<'_>, sn: u32, out: &mut Vec<u8>) -> bool {
        let numbering = self.numbering();
        let Some(period) = 1u32.checked_shl(packet.compact.sn.count) else { return false };
        let distance = numbering.distance(self.values.sn, sn);
        let wraps = self.rhythm.wraps(distance, period, packet.input.now);
        let rival = sn.wrapping_add(wraps * period) & numbering.mask();
        let start = out.len();
        let passes = wraps > 0 && self.attempt(packet, rival, false, out).is_ok();
        out.truncate(start);
        passes
    }

    /// Whether the packet, about to be committed, is to be delivered. What a right transport checksum has not `witnessed`
    /// is refused where there is a way back, and the NACK brings a packet with a strong CRC; in U-mode those that
    /// follow must confirm it.
    #[inline]
    pub(super) fn weigh(&mut self, packet: &Arrived<'_>, witnessed: bool) -> Result<(), DecompressError> {
        let caution = packet.input.config.caution;
        if packet.compact.crc_kind == CrcKind::Seven {
            self.confirming.waited = 0;
        }
        if self.unconfirmed == 0 || packet.compact.crc_kind == CrcKind::None {
            return Ok(());
        }
        let is_proven = packet.compact.crc_kind == CrcKind::Seven && caution > 0;
        if is_proven || witnessed && (caution == 0 || self.is_vouched_for()) {
            self.unconfirmed = 0;
            return Ok(());
        }
        let has_way_back = self.feedbacker.mode() != Mode::Unidirectional;
        if caution > 0 && has_way_back { Err(DecompressError::NotAllowedInState) } else { Ok(()) }
    }

    /// Holds a packet back while it is not confirmed.
    #[inline]
    pub(super) fn confirmed(&mut self, restored: Restored, peer: &Peer) -> Result<Restored, DecompressError> {
        if self.unconfirmed == 0 {
            return Ok(restored);
        }
        self.unconfirmed -= u8::from(self.unconfirmed < u8::MAX);
        if self.confirming.is_known && !peer.is_worth_waiting_for(&mut self.confirming.waited) {
            self.confirming.is_known = false;
            self.unconfirmed = 0;
        }
        Err(DecompressError::RepairPending)
    }
}
