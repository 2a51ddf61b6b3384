//! Evidence for the decompressor: packets with a CRC-7 where one of 3 bits would do.
//!
//! After losses that may hide a change a CRC-3 proves little, and a decompressor waits for a longer one. So one
//! comes at intervals, and wherever the flow itself looks like losses of the channel: after a gap in its own sequence
//! numbers, and after a pause in which losses could have wrapped the bits of the sequence number.
//! A decompressor that has seen this done takes such a gap without a CRC-7 for what it then is.

use core::time::Duration;

use super::formats::Format;
use super::{Compressor, Current};
use crate::framework::arrival::ArrivalTiming;
use crate::framework::checksum;
use crate::framework::config::CompressorConfig;
use crate::framework::confirm::{BEHIND_CHANGES, ConfirmSchedule};
use crate::framework::packet::Packet;
use crate::framework::profile::{Mode, PacketType};
use crate::profiles::rfc3095::Job;
use crate::profiles::rfc3095::header::Numbering;

/// Number of times a change is sent again after the repeats.
const RESENDS: u8 = 3;
/// Packets with CRC-7 after the one behind a gap, where feedback is late.
const BEHIND_GAPS: u8 = 2;
/// Maximum distance of the first CRC-7 from the packet that set the context up.
const REACH: i32 = 9;

/// Schedule of packets with CRC-7.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirm {
    schedule: ConfirmSchedule,
    /// Remaining packets with CRC-7 after a change.
    owed: u8,
    /// Remaining packets with CRC-7 after a gap in the flow's own numbers.
    owed_behind_gap: u8,
    /// Number of times that changes of IP headers are still to be resent.
    resends: u8,
    /// Set if the last feedback took longer than the next CRC-7 would.
    is_feedback_late: bool,
    /// The last packet was IR or IR-DYN.
    is_new: bool,
    /// Set if the packet was of type 0.
    is_calm: bool,
    /// The packet being written could be of type 0.
    is_idle: bool,
    /// Set if the last packet was of type 0, or could have been.
    is_steady: bool,
}

impl Confirm {
    /// Creates the schedule of a new flow.
    pub(super) fn starting(config: &CompressorConfig) -> Self {
        Self { schedule: ConfirmSchedule::starting(config), ..Self::default() }
    }

    /// Returns `true` if the next packet is to have a CRC-7.
    #[inline]
    pub(super) const fn is_due(&self) -> bool {
        self.schedule.is_due()
    }

    /// Returns `true` if a packet that confirms would say nothing but that.
    pub(super) const fn is_plain(&self) -> bool {
        self.schedule.is_begun() && self.owed == 0 && self.resends == 0
    }

    /// Counts a packet with CRC-7 sent on the fast path because it was due.
    pub(super) fn confirmed(&mut self, config: &CompressorConfig, mode: Mode) {
        self.schedule.plan(config, self.is_prompt(mode));
        self.schedule.sent(true);
        self.is_calm = false;
    }

    /// Returns `true` if a NACK would bring a CRC-7 sooner than the schedule.
    fn is_prompt(&self, mode: Mode) -> bool {
        mode == Mode::Optimistic && !self.is_feedback_late
    }

    /// Counts a packet with CRC-3 sent on the fast path.
    #[inline]
    pub(super) const fn stepped(&mut self) {
        self.schedule.stepped();
        self.is_calm = true;
    }

    /// Returns `true` if the fast path may go on from the last packet.
    #[inline]
    pub(super) const fn is_steady(&self) -> bool {
        self.is_steady
    }

    /// Counts a packet sent on the general path.
    #[inline]
    pub(super) fn sent(&mut self, kind: PacketType, is_strong: bool) {
        self.is_new = matches!(kind, PacketType::Ir | PacketType::IrDyn);
        self.is_calm = kind == PacketType::Uo0;
        let is_idle = core::mem::take(&mut self.is_idle);
        let is_steady = self.is_calm || is_idle && self.owed == 0 && !self.is_new;
        self.is_steady = is_steady && self.owed_behind_gap == 0;
        self.schedule.sent(is_strong);
        // The next packet confirms a context just set up.
        if self.is_new {
            self.schedule.expedite();
        }
    }

    /// Restarts in another mode.
    pub(super) fn restart(&mut self) {
        self.schedule.restart();
        self.resends = 0;
    }

    /// Records that feedback was to a packet `age` packets ago. Where a CRC-7 comes by itself before a NACK can bring one,
    /// O-mode confirms as often as U-mode.
    pub(super) fn note_feedback(&mut self, age: i32, config: &CompressorConfig) {
        let is_late = age > i32::from(config.confirm);
        if is_late && !self.is_feedback_late {
            self.schedule.expedite();
        }
        self.is_feedback_late = is_late;
    }
}

impl Compressor {
    /// Schedules changes of IP headers to be resent, as no later CRC may show them. To both CRCs some differences
    /// look like none (two bits fourteen apart, as of a traffic class).
    pub(super) fn resend_changes_later(&mut self, config: &CompressorConfig) {
        let is_wanted = config.confirm > 0 && self.mode == Mode::Unidirectional;
        self.confirm.resends = if is_wanted { RESENDS } else { 0 };
    }

    /// Returns `true` if changes are yet to be resent.
    pub(super) const fn is_resending_changes(&self) -> bool {
        self.confirm.resends > 0
    }

    /// Returns `true` if changes are sent again, as a packet with a CRC-7 is due. That is so in U-mode only: elsewhere
    /// an acknowledgement, or its absence, shows if it arrived.
    #[inline]
    pub(super) fn resend_changes(&mut self, sn: u32) -> bool {
        let confirm = &mut self.confirm;
        if confirm.resends == 0
            || !confirm.schedule.is_due()
            || !confirm.schedule.is_begun()
            || self.mode != Mode::Unidirectional
        {
            return false;
        }
        confirm.resends -= 1;
        for (repeat, fields) in self.ip.iter_mut().zip(self.ip_fields) {
            if fields != 0 {
                repeat.ensure(1, sn);
            }
        }
        true
    }

    /// Records the arrival time of a packet, as the decompressor does.
    #[inline]
    pub(super) fn note_arrival(&mut self, kind: PacketType, now: Duration) {
        if matches!(kind, PacketType::Ir | PacketType::IrDyn) {
            self.timing = ArrivalTiming::starting(now);
        } else {
            self.timing.note(now);
        }
    }

    /// The packet has to say something.
    #[inline]
    pub(super) fn note_change(&mut self) {
        self.confirm.owed = BEHIND_CHANGES;
    }

    /// Returns `true` if a packet for which `shortest` would do is to have a CRC-7.
    #[inline]
    pub(super) fn must_confirm(
        &mut self,
        job: &Job<'_>,
        current: &Current,
        shortest: Option<&Format>,
    ) -> bool {
        let config = job.config;
        if config.only_ir_and_so || self.mode == Mode::Reliable {
            return false;
        }
        let (numbering, repeats) = (self.numbering(), i32::from(Self::repeats(config)));
        let distance = numbering.distance(self.last.sn, current.sn);
        let has_gap = numbering != Numbering::Generated && !(1..=repeats).contains(&distance);
        if config.confirm == 0 {
            // Where checksums were right, a decompressor may want that of a packet behind a gap to be.
            return has_gap && current.checksum != 0 && !self.checksum_is_right(job.packet, current);
        }
        let is_idle = shortest.is_some_and(|format| format.kind == PacketType::Uo0);
        let owed = self.confirm.owed;
        self.confirm.owed = if is_idle { owed.saturating_sub(1) } else { BEHIND_CHANGES };
        self.confirm.is_idle = is_idle;
        let carries_time = self.profile.has_rtp() && shortest.is_some_and(|format| format.ts > 0);
        let is_numbered = numbering != Numbering::Generated || self.compressed_id(current).is_some();
        let seems_late = is_numbered && !carries_time && self.timing.may_seem_late(job.now);
        let is_due = self.confirm.is_due()
            && (self.confirm.schedule.is_begun() || shortest.is_some() && self.is_seen(distance, is_idle));
        if is_due {
            self.confirm.schedule.plan(config, self.confirm.is_prompt(self.mode));
        }
        let is_behind_gap = self.is_behind_gap(has_gap);
        let is_behind_change = is_idle && owed > 0 && self.mode == Mode::Unidirectional;
        has_gap || seems_late || is_due || is_behind_change || is_behind_gap
    }

    /// Returns `true` if a packet proves that a gap is not of the channel.
    ///
    /// Where feedback is late, those behind the gap repeat the proof: a NACK would bring it too late.
    fn is_behind_gap(&mut self, has_gap: bool) -> bool {
        let confirm = &mut self.confirm;
        if has_gap && self.mode == Mode::Optimistic && confirm.is_feedback_late {
            confirm.owed_behind_gap = BEHIND_GAPS;
            return true;
        }
        let is_owed = confirm.owed_behind_gap > 0;
        confirm.owed_behind_gap = confirm.owed_behind_gap.saturating_sub(1);
        is_owed
    }

    fn checksum_is_right(&self, packet: &Packet<'_>, current: &Current) -> bool {
        let (header, payload) = packet.bytes.split_at((current.header_len as usize).min(packet.bytes.len()));
        let payload_len = packet.len - header.len();
        checksum::transport_is_right(header, payload, payload_len, packet.levels(), self.profile)
    }

    /// Returns `true` if a CRC-7 would show the decompressor that it was not needed.
    fn is_seen(&self, distance: i32, is_idle: bool) -> bool {
        if self.confirm.is_new {
            (1..=REACH).contains(&distance)
        } else {
            self.confirm.is_calm && is_idle && distance == 1
        }
    }
}
