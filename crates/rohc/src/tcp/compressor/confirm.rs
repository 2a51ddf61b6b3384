//! Packets with a CRC of 7 bits, and of 8, where one of 3 bits would do ([`crate::confirm`]).
//!
//! The TCP checksum vouches for much, where it was right before the compressor. It does not cover the identification, the
//! hop limit and the type of service, and says nothing of what changed while packets were lost. So in U-mode
//!
//! - every so often a packet comes with a CRC of 7 bits, and in place of the first one of some thirty packets an IR-DYN:
//!   what was lost of all fields heals then, not at the next refresh;
//! - behind a change of what that checksum does not cover eight packets, those that say it among them, have one;
//!
//! and IR and IR-DYN show that the compressor does so, by an urgent pointer that is told although it is zero. With a way
//! back none of this gained anything: what is in doubt is asked for, and comes as IR-DYN.

use super::super::groups::{Group, Set};
use super::super::ip;
use super::{Compressor, View};
use crate::config::CompressorConfig;
use crate::confirm::{self, BEHIND_CHANGES, Pace};
use crate::job::Job;
use crate::profile::{Mode, PacketType};

/// In U-mode all is told again after so many packets, or four times as many as from one CRC of 7 bits to the next.
const TELL_ALL: u8 = 32;
/// It is not told again.
const NEVER: u8 = u8::MAX;

/// What neither the TCP checksum nor a format with a CRC of 3 bits shows.
const HIDDEN: Set = Set::NONE
    .with(Group::Dynamic)
    .with(Group::EcnUsed)
    .with(Group::IpIdBehavior)
    .with(Group::Df)
    .with(Group::Dscp)
    .with(Group::OuterTtl);

/// Steps of an IP-ID that counts which, in the packets before a format with seven bits of it, show in those.
const STEPS: core::ops::RangeInclusive<i16> = -14..=16;

/// When the next packet with a CRC of 7 bits is due.
#[derive(Debug)]
pub(super) struct Confirm {
    pace: Pace,
    /// Packets, from the next one on, that have one because of what changed.
    owed: u8,
    /// Packets until all is told again, in U-mode.
    all_left: u8,
}

impl Default for Confirm {
    /// Nothing is confirmed.
    fn default() -> Self {
        Self { pace: Pace::default(), owed: 0, all_left: NEVER }
    }
}

impl Confirm {
    /// A flow begins. Where there is a way back, what was lost is asked for.
    pub(super) fn starting(config: &CompressorConfig, is_bidirectional: bool) -> Self {
        if is_bidirectional || !confirm::is_on(config) {
            return Self::default();
        }
        Self { pace: Pace::starting(config), owed: 0, all_left: tell_all(config) }
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

    /// What this packet tells, and the next ones repeat, must not be hidden for a while.
    fn owe(&mut self, repeats: u8) {
        if self.is_on() {
            self.owed = repeats + BEHIND_CHANGES;
        }
    }

    /// Whether the next packet is to have a CRC of 7 bits.
    #[inline]
    pub(super) const fn is_due(&self) -> bool {
        self.pace.is_due() || self.owed > 0 || self.all_left == 0
    }

    /// A packet was sent the short way.
    #[inline]
    pub(super) const fn stepped(&mut self) {
        self.pace.stepped();
        self.all_left -= self.is_on() as u8;
    }

    /// A packet was sent the general way.
    pub(super) fn sent(&mut self, kind: PacketType, config: &CompressorConfig) {
        let is_whole = matches!(kind, PacketType::Ir | PacketType::IrDyn | PacketType::IrCr);
        self.pace
            .sent(is_whole || matches!(kind, PacketType::CoCommon | PacketType::Rnd8 | PacketType::Seq8));
        self.owed = self.owed.saturating_sub(1);
        if self.is_on() {
            self.all_left = if is_whole { tell_all(config) } else { self.all_left.saturating_sub(1) };
        }
    }
}

/// Packets from one that tells all to the next.
fn tell_all(config: &CompressorConfig) -> u8 {
    config.confirm.saturating_mul(4).clamp(TELL_ALL, NEVER - 1)
}

impl Compressor {
    /// Whether the packet is to have a CRC of 7 bits; an IR-DYN may become due instead.
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
        if self.confirm.pace.is_due() && !self.groups.due().meets(Set::IR_DYN) {
            self.confirm.pace.plan(job.config, Mode::Unidirectional);
        }
        is_due
    }

    /// Whether hop limit or identification are not what the packet before led to expect.
    fn has_hidden_change(&self, view: &View<'_>) -> bool {
        let range = self.chain.inner().range();
        let (old, new) = (&self.headers[range.clone()], &view.chain[range]);
        ip::ttl(old) != ip::ttl(new) || self.has_jumped(ip::ip_id(old), ip::ip_id(new))
    }

    /// Whether the IP-ID goes on by a step after which some packets must have a CRC of 7 bits.
    #[inline]
    pub(super) fn has_jumped(&self, old: u16, new: u16) -> bool {
        let behavior = self.chain.inner().ip_id;
        let step = || behavior.counter(new).wrapping_sub(behavior.counter(old)).cast_signed();
        self.confirm.is_on() && behavior.is_sequential() && !STEPS.contains(&step())
    }
}
