//! State, doubts and feedback of a context (RFC 5225 5.2.1 to 5.2.3).
//!
//! After losses that may have hidden a change, after a failure, and where a packet seems to have come before, a CRC-3
//! proves little: such packets are held back until enough of them are right in a row, or one with CRC-7.

use core::time::Duration;

use super::Draft;
use crate::framework::arrival::ArrivalTiming;
use crate::framework::config::{DecompressorConfig, ReorderRatio};
use crate::framework::context::Output;
use crate::framework::error::DecompressError;
use crate::framework::feedback::Acknowledgement;
use crate::framework::profile::{Mode, PacketType};
use crate::profiles::v2::common::CO_REPAIR;
use crate::profiles::v2::control::Control;
use crate::profiles::v2::{Input, feedback};

/// State of the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No Context: only IR packets are read.
    #[default]
    None,
    /// Repair Context in which packets with CRC-7 failed. Only IR and `co_repair` are read.
    Awaiting,
    /// Repair Context: only IR packets, and those with CRC-7, are read.
    Repair,
    /// Full Context.
    Full,
}

/// Validity of a context.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trust {
    phase: Phase,
    /// Bit n: the packet n before the last one failed its CRC.
    failures: u32,
    /// Failing packets until the next NACK.
    nack_pause: u8,
    /// Right packets to come before one is delivered.
    doubt: u8,
    timing: ArrivalTiming,
    /// The clock resolution was announced.
    has_announced_clock: bool,
}

impl Trust {
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.phase == Phase::Full
    }

    pub(super) fn has_context(&self) -> bool {
        self.phase != Phase::None
    }

    /// Returns `true` if only IR packets and `co_repair` are read.
    pub(super) fn awaits_repair(&self) -> bool {
        self.phase == Phase::Awaiting
    }

    /// Returns `true` if nothing is in doubt.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.phase == Phase::Full && self.doubt == 0
    }

    /// Notes an IR packet, and acknowledges it.
    pub(super) fn refreshed(&mut self, control: Control, input: &Input<'_>, output: &mut Output<'_>) {
        if self.phase == Phase::None {
            self.timing = ArrivalTiming::starting(input.now);
        } else {
            self.timing.note(input.now);
        }
        (self.phase, self.failures, self.nack_pause, self.doubt) = (Phase::Full, 0, 0, 0);
        self.acknowledge(control, input, output);
    }

    fn acknowledge(&mut self, control: Control, input: &Input<'_>, output: &mut Output<'_>) {
        if input.config.mode == Mode::Unidirectional {
            return;
        }
        let clock = self.clock(control, input.config);
        feedback::send(output.feedback, input.cid(), Acknowledgement::Ack, Some(control.msn()), clock);
    }

    /// Returns the clock resolution to announce: once, or zero if there is none.
    fn clock(&mut self, control: Control, config: &DecompressorConfig) -> Option<u8> {
        let resolution = config.clock_resolution.as_micros().div_ceil(1000).min(255) as u8;
        if resolution == 0 {
            return (control.time_stride != 0).then_some(0);
        }
        (!core::mem::replace(&mut self.has_announced_clock, true)).then_some(resolution)
    }

    /// Returns `true` if the packet comes so late that numbers may have wrapped.
    #[inline]
    pub(super) fn is_late(&self, now: Duration) -> bool {
        self.timing.is_late(now)
    }

    /// Decides if a packet that passed its CRC is adopted.
    ///
    /// # Errors
    /// It may have passed by chance, and there is a way back: the NACK brings a better proof.
    pub(super) fn weigh(
        &mut self,
        draft: &Draft,
        is_known: bool,
        numbers_are_own: bool,
        input: &Input<'_>,
    ) -> Result<(), DecompressError> {
        let config = input.config;
        if draft.has_crc7 || config.caution == 0 {
            return Ok(());
        }
        let are_losses = numbers_are_own || config.peer_confirms || config.gaps_are_losses;
        let has_gap = are_losses && draft.distance > i32::from(config.repeats);
        // Where packets come late, one that is a wrap ahead seems to be one that has arrived.
        let may_have_wrapped = config.peer_confirms
            && draft.control.reorder == ReorderRatio::None
            && draft.distance > 0
            && self.timing.is_late(input.now)
            && !self.timing.was_silent(input.now)
            && !self.timing.explains(draft.distance.unsigned_abs(), input.now);
        if has_gap || are_losses && is_known || may_have_wrapped {
            self.doubt = config.held_back_packets();
        }
        let has_way_back = config.mode != Mode::Unidirectional;
        if self.doubt > 0 && (has_way_back || draft.distance <= 0) {
            return Err(DecompressError::NotAllowedInState);
        }
        Ok(())
    }

    /// Notes a packet that was right; says whether it is delivered, and acknowledges changes.
    ///
    /// # Errors
    /// [`DecompressError::RepairPending`]: it is held back.
    pub(super) fn succeeded(
        &mut self,
        kind: PacketType,
        msn: u16,
        is_late: bool,
        control: Control,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), DecompressError> {
        self.failures <<= 1;
        self.nack_pause = 0;
        let has_crc7 = !matches!(
            kind,
            PacketType::Pt0Crc3 | PacketType::Pt1Rnd | PacketType::Pt1SeqId | PacketType::Pt1SeqTs
        );
        if !is_late {
            self.timing.note(input.now);
        }
        if has_crc7 {
            (self.phase, self.doubt) = (Phase::Full, 0);
        } else if self.doubt > 0 {
            self.doubt -= u8::from(self.doubt < u8::MAX);
            return Err(DecompressError::RepairPending);
        }
        if matches!(kind, PacketType::CoCommon | PacketType::CoRepair) && !is_late {
            self.acknowledge(Control { number: u32::from(msn), ..control }, input, output);
        }
        Ok(())
    }

    /// Notes a packet that is refused, and asks for a repair. `is_strong`: it failed a CRC-7.
    pub(super) fn failed(
        &mut self,
        is_strong: bool,
        msn: Option<u16>,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) {
        let config = input.config;
        self.failures = self.failures << 1 | 1;
        if config.caution > 0 && self.phase == Phase::Full {
            self.doubt = config.held_back_packets();
        }
        let (limit, among) = config.damage_threshold;
        let recent = self.failures & u32::MAX >> (32 - u32::from(among.clamp(1, 32)));
        if recent.count_ones() >= u32::from(limit) {
            self.damaged(is_strong, input);
        }
        if config.mode == Mode::Unidirectional {
            return;
        }
        if self.nack_pause > 0 {
            self.nack_pause -= 1;
            return;
        }
        self.nack_pause = config.nack_spacing_packets;
        let kind =
            if self.phase == Phase::None { Acknowledgement::StaticNack } else { Acknowledgement::Nack };
        let msn = msn.filter(|_| self.phase != Phase::None);
        feedback::send(output.feedback, input.cid(), kind, msn, None);
    }

    /// Notes damage. Of a context that fails packets with CRC-7 too, the static part is damaged.
    ///
    /// Behind a long loss they fail as their numbers have too few bits. Without feedback nothing sends an IR for that, so there a
    /// `co_repair`, which has all of them, has to fail.
    fn damaged(&mut self, is_strong: bool, input: &Input<'_>) {
        let shows_static = input.config.mode != Mode::Unidirectional || input.frame.first == CO_REPAIR;
        let phase = match self.phase {
            Phase::Full => Phase::Repair,
            Phase::Repair | Phase::Awaiting if is_strong && shows_static => Phase::None,
            Phase::Repair if is_strong => Phase::Awaiting,
            _ => return,
        };
        (self.phase, self.failures, self.nack_pause) = (phase, 0, 0);
    }

    /// Notes a packet of the fast path.
    #[inline]
    pub(super) fn stepped(&mut self, now: Duration) {
        self.failures <<= 1;
        self.nack_pause = 0;
        self.timing.note(now);
    }
}
