//! Packets with a CRC-7, and of 8, where one of 3 bits would do ([`crate::framework::confirm`]).
//!
//! The TCP checksum vouches for much, where it was right before the compressor. It does not cover the identification, the
//! hop limit and the type of service, and says nothing of what changed while packets were lost. So in U-mode
//!
//! - at intervals a packet comes with a CRC-7, and in place of the first one of some thirty packets an IR-DYN:
//!   what was lost of all fields heals then, not at the next refresh;
//! - eight packets from a change of what that checksum does not cover have one.
//!
//! In bidirectional operation none of this is sent: a NACK asks for what is in doubt, and it comes as IR-DYN.

use super::super::groups::{Group, Set};
use super::super::ip;
use super::{Compressor, View};
use crate::framework::config::CompressorConfig;
use crate::framework::confirm::{BEHIND_CHANGES, ConfirmSchedule};
use crate::framework::profile::PacketType;
use crate::profiles::tcp::Job;

/// Minimum number of packets between IR-DYN packets that resend all values, in U-mode.
const TELL_ALL: u8 = 32;
/// Value for never.
const NEVER: u8 = u8::MAX;

/// Groups that neither the TCP checksum nor a format with CRC-3 covers.
const HIDDEN: Set = Set::NONE
    .with(Group::Dynamic)
    .with(Group::EcnUsed)
    .with(Group::IpIdBehavior)
    .with(Group::Df)
    .with(Group::Dscp)
    .with(Group::OuterTtl);

/// Steps of a counting IP-ID that a format with seven bits of it still shows.
const STEPS: core::ops::RangeInclusive<i16> = -14..=16;

/// Schedule of packets with CRC-7.
#[derive(Debug)]
pub(super) struct Confirm {
    schedule: ConfirmSchedule,
    /// Packets, from the next one on, that have one because of what changed.
    owed: u8,
    /// Packets until all values are resent, in U-mode.
    all_left: u8,
}

impl Default for Confirm {
    /// Creates a schedule without confirmations.
    fn default() -> Self {
        Self { schedule: ConfirmSchedule::default(), owed: 0, all_left: NEVER }
    }
}

impl Confirm {
    /// Creates the schedule of a new flow. Where there is a way back, what was lost is asked for.
    pub(super) fn starting(config: &CompressorConfig, is_bidirectional: bool) -> Self {
        if is_bidirectional || !config.confirms() {
            return Self::default();
        }
        Self { schedule: ConfirmSchedule::starting(config), owed: 0, all_left: send_all(config) }
    }

    const fn is_on(&self) -> bool {
        self.all_left != NEVER
    }

    /// `groups` changed with this packet.
    pub(super) fn changed(&mut self, groups: Set, repeats: u8) {
        if groups.meets(HIDDEN) {
            self.owe(repeats);
        }
    }

    /// Schedules CRC-7 for the packets that signal a change and the next ones.
    fn owe(&mut self, repeats: u8) {
        if self.is_on() {
            self.owed = repeats + BEHIND_CHANGES;
        }
    }

    /// Returns `true` if the next packet is to have a CRC-7.
    #[inline]
    pub(super) const fn is_due(&self) -> bool {
        self.schedule.is_due() || self.owed > 0 || self.all_left == 0
    }

    /// Returns `true` if the next packet is to resend all values.
    #[inline]
    pub(super) const fn must_resend_all(&self) -> bool {
        self.all_left == 0
    }

    /// Counts a packet with CRC-7 sent on the fast path.
    pub(super) fn confirmed(&mut self, config: &CompressorConfig) {
        if self.schedule.is_due() {
            self.schedule.plan(config, false);
        }
        self.schedule.sent(true);
        self.owed = self.owed.saturating_sub(1);
        self.all_left -= self.is_on() as u8;
    }

    /// Counts a packet with CRC-3 sent on the fast path.
    #[inline]
    pub(super) const fn stepped(&mut self) {
        self.schedule.stepped();
        self.all_left -= self.is_on() as u8;
    }

    /// Counts a packet sent on the general path.
    pub(super) fn sent(&mut self, kind: PacketType, config: &CompressorConfig) {
        let is_whole = matches!(kind, PacketType::Ir | PacketType::IrDyn | PacketType::IrCr);
        self.schedule
            .sent(is_whole || matches!(kind, PacketType::CoCommon | PacketType::Rnd8 | PacketType::Seq8));
        self.owed = self.owed.saturating_sub(1);
        if self.is_on() {
            self.all_left = if is_whole { send_all(config) } else { self.all_left.saturating_sub(1) };
        }
    }
}

/// Returns the packets between two that resend all values.
fn send_all(config: &CompressorConfig) -> u8 {
    config.confirm.saturating_mul(4).clamp(TELL_ALL, NEVER - 1)
}

impl Compressor {
    /// Returns `true` if the packet is to have CRC-7. May make an IR-DYN due instead.
    pub(super) fn must_confirm(&mut self, job: &Job<'_>, view: &View<'_>) -> bool {
        if !self.confirm.is_on() {
            return false;
        }
        if self.has_hidden_change(view) {
            self.confirm.owe(self.repeats);
        }
        if self.confirm.all_left == 0 {
            self.groups.changed(Set::NONE.with(Group::Dynamic), self.control.msn, 1);
        }
        let is_due = self.confirm.is_due();
        if self.confirm.schedule.is_due() && !self.groups.due().meets(Set::IR_DYN) {
            self.confirm.schedule.plan(job.config, false);
        }
        is_due
    }

    /// Returns `true` if hop limit or identification change unexpectedly.
    fn has_hidden_change(&self, view: &View<'_>) -> bool {
        let range = self.chain.inner().range();
        let (old, new) = (&self.headers[range.clone()], &view.chain[range]);
        ip::ttl(old) != ip::ttl(new) || self.has_jumped(ip::ip_id(old), ip::ip_id(new))
    }

    /// Returns `true` if the IP-ID jumps by a step that needs a CRC-7.
    #[inline]
    pub(super) fn has_jumped(&self, old: u16, new: u16) -> bool {
        let behavior = self.chain.inner().ip_id;
        let step = || behavior.counter(new).wrapping_sub(behavior.counter(old)).cast_signed();
        self.confirm.is_on() && behavior.is_sequential() && !STEPS.contains(&step())
    }
}
