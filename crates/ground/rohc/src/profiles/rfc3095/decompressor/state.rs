//! Decompressor states and feedback (RFC 3095 5.3.2.1, 5.4.2.2, 5.5.2.2 and 5.6, RFC 4815 3).

use core::time::Duration;

use super::super::header::Numbering;
use super::Decompressor;
use crate::framework::config::DecompressorConfig;
use crate::framework::context::Output;
use crate::framework::error::DecompressError;
use crate::framework::feedback::option;
use crate::framework::frame::{Cid, Kind};
use crate::framework::profile::{Mode, PacketType, Profile};
use crate::profiles::rfc3095::Input;

/// Decompressor state: the part of the context that can be trusted (RFC 3095 4.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trust {
    #[default]
    NoContext,
    /// Static part whose context failed packets with a CRC-7. Only IR or IR-DYN will do.
    Refresh,
    Static,
    Full,
}

/// State and the recent record of CRC failures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    trust: Trust,
    /// CRC failures of the last packets, one bit each, newest lowest.
    failures: u32,
    /// Set if the dynamic part came last, and no packet was right since.
    is_renewed: bool,
}

/// Assessment of a run of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Occasional,
    Damaged,
}

impl State {
    /// Returns `true` if a packet may be decompressed (RFC 3095 5.3.2.2.1). `strong` is set if it has a CRC-7 or CRC-8.
    pub(crate) fn allows(&self, strong: bool) -> bool {
        match self.trust {
            Trust::NoContext | Trust::Refresh => false,
            Trust::Static => strong,
            Trust::Full => true,
        }
    }

    /// Returns `true` if an IR-DYN packet completes the context.
    pub(crate) fn has_static(&self) -> bool {
        self.trust != Trust::NoContext
    }

    /// An IR or IR-DYN packet was right.
    pub(crate) fn established(&mut self, with_dynamic: bool) {
        self.failures = 0;
        self.is_renewed = with_dynamic;
        self.trust = match (with_dynamic, self.trust) {
            (true, _) | (false, Trust::Full) => Trust::Full,
            (false, _) => Trust::Static,
        };
    }

    pub(super) fn is_full(&self) -> bool {
        self.trust == Trust::Full
    }

    /// Returns `true` if the last packet failed. The next one then passes CRC-3 by chance one time in eight.
    #[inline]
    pub(super) fn failed_last(&self) -> bool {
        self.failures & 1 == 1
    }

    #[inline]
    pub(super) fn succeeded(&mut self, strong: bool) {
        self.failures <<= 1;
        self.is_renewed = false;
        if strong && self.trust == Trust::Static {
            self.trust = Trust::Full;
        }
    }

    /// Counts a failure. With `.0` among the last `.1` the context counts as damaged.
    ///
    /// RFC 3095 5.3.2.2.3 c suspects the static part once updates fail too. But behind a long loss each UOR-2 fails as its numbers
    /// have too few bits (case 3), and without feedback nothing sends an IR for that. So there IR-DYN, to which case 3 does not apply, has to
    /// have come first. Until then no other packet is tried, as one in 128 passes its CRC-7 by chance.
    fn failed(&mut self, threshold: (u8, u8), has_feedback: bool) -> Verdict {
        self.failures = self.failures << 1 | 1;
        let window = u32::MAX >> (32 - u32::from(threshold.1.clamp(1, 32)));
        if (self.failures & window).count_ones() < u32::from(threshold.0.max(1)) {
            return Verdict::Occasional;
        }
        self.failures = 0;
        self.trust = match self.trust {
            Trust::Full => Trust::Static,
            Trust::Static | Trust::Refresh if !has_feedback && !self.is_renewed => Trust::Refresh,
            Trust::Static | Trust::Refresh | Trust::NoContext => Trust::NoContext,
        };
        Verdict::Damaged
    }
}

/// D_TRANS (RFC 3095 5.6.1, RFC 4815 3.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transition {
    #[default]
    Done,
    Initiated,
    Pending,
}

/// Mode, transition, and how often feedback was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feedbacker {
    mode: Mode,
    transition: Transition,
    /// The compressor declined this mode (RFC 3843 3.4).
    declined: Option<Mode>,
    /// Failing packets for which no NACK is sent.
    quiet: u8,
    clock_announced: bool,
    /// Strong packets that went without an acknowledgement since the last one (O-mode).
    unacknowledged: u8,
    /// Set if the last packet, in no doubt, carried nothing but a CRC-7.
    is_confirmation: bool,
    /// Low bits of the sequence number that was acknowledged last.
    acknowledged_sn: u16,
    /// Mere confirmations that were acknowledged, up to [`EARLY`].
    confirmed: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Ack,
    Nack,
    StaticNack,
    /// Observations of the path, without an acknowledgement.
    News,
}

/// Packets per acknowledgement in a run of type 2 packets, in O-mode.
const SPARSE: u8 = 4;
/// Minimum number of packets between acknowledgements of mere confirmations, in O-mode.
///
/// One comes every 128 packets, or every eight if feedback is late.
const CONFIRMED: u16 = 120;
/// Number of confirmations that are all acknowledged at the start of a context.
///
/// The first acknowledgements bring the compressor to O-mode and may be lost.
const EARLY: u8 = 4;

impl Feedbacker {
    /// D_MODE.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns `true` if no mode transition is in progress or wanted.
    #[inline]
    pub(super) fn is_settled(&self, config: &DecompressorConfig) -> bool {
        self.transition == Transition::Done && self.mode == self.wanted(config)
    }

    /// Records a packet of type 0 or 1 while it [`Self::is_settled`].
    #[inline]
    pub(super) fn weak_packet(&mut self) {
        (self.quiet, self.unacknowledged) = (0, 0);
    }

    /// Counts a packet about to be acknowledged among the confirmations if it is one.
    pub(super) fn note_confirmation(&mut self, is_confirmation: bool) {
        self.is_confirmation = is_confirmation;
    }

    /// Returns `true` if the strong packet `sn` is acknowledged in O-mode.
    ///
    /// These are some of a run, and few of single confirmations, as the compressor learns little from them.
    fn is_due(&mut self, sn: u32) -> bool {
        let is_single = self.is_confirmation && self.unacknowledged == 0;
        let due = self.unacknowledged.is_multiple_of(SPARSE);
        self.unacknowledged = self.unacknowledged.wrapping_add(1);
        if !(due && is_single) {
            return due;
        }
        let is_early = self.confirmed < EARLY;
        self.confirmed += u8::from(is_early);
        is_early || (sn as u16).wrapping_sub(self.acknowledged_sn) >= CONFIRMED
    }

    /// Returns `true` if feedback is sent: not in U-mode, once it is reached.
    fn sends_feedback(&self, config: &DecompressorConfig) -> bool {
        let idle = self.mode == Mode::Unidirectional && self.transition == Transition::Done;
        config.mode != Mode::Unidirectional || !idle
    }

    /// A verified header had the Mode field `field`. R-mode, whose packets are others, is that of the compressor even if
    /// this context has not asked for it: it was asked for before the context was there.
    pub(crate) fn note_mode(&mut self, field: Option<u8>, strong: bool, profile: Profile) {
        let Some(field) = field.filter(|_| strong) else { return };
        let requested = Mode::from_bits(field);
        let is_news = requested == Some(Mode::Reliable) && self.mode != Mode::Reliable;
        if self.transition == Transition::Done && !is_news {
            return;
        }
        match requested {
            Some(mode) => {
                self.mode = mode;
                self.transition = Transition::Pending;
            }
            // RTP, UDP and ESP have no Cancel; there 0 is reserved, and nothing.
            None if !matches!(profile, Profile::Rtp | Profile::Udp | Profile::Esp) => {
                self.transition = Transition::Pending;
                self.declined = Some(self.mode);
            }
            None => {}
        }
    }

    fn wanted(&self, config: &DecompressorConfig) -> Mode {
        self.declined.unwrap_or(config.mode)
    }

    /// Moves towards the mode of the configuration.
    fn steer(&mut self, config: &DecompressorConfig) {
        let wanted = self.wanted(config);
        if self.transition != Transition::Done || self.mode == wanted {
            return;
        }
        match (self.mode, wanted) {
            (Mode::Unidirectional, Mode::Optimistic) => self.mode = Mode::Optimistic,
            _ => self.transition = Transition::Initiated,
        }
    }
}

impl Decompressor {
    /// Draws the consequences of a packet: state, transition, feedback.
    #[inline]
    pub(in crate::profiles::rfc3095) fn settle(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
        result: &Result<(), DecompressError>,
        kind: PacketType,
    ) {
        let strong = matches!(
            kind,
            PacketType::Ir
                | PacketType::IrDyn
                | PacketType::Uor2
                | PacketType::Uor2Id
                | PacketType::Uor2Ts
                | PacketType::R0Crc
        );
        let updating = strong || self.feedbacker.mode != Mode::Reliable;
        match result {
            Ok(()) | Err(DecompressError::RepairPending) => {
                if updating && !matches!(kind, PacketType::Ir | PacketType::IrDyn) {
                    self.state.succeeded(strong);
                }
                if self.feedbacker.sends_feedback(input.config) {
                    self.acknowledge(input, output, kind, strong);
                }
            }
            Err(error) => {
                self.forget_template();
                self.complain(input, output, *error);
            }
        }
    }

    fn acknowledge(&mut self, input: &Input<'_>, output: &mut Output<'_>, kind: PacketType, strong: bool) {
        let feedbacker = &mut self.feedbacker;
        feedbacker.quiet = 0;
        if feedbacker.transition == Transition::Pending && !strong {
            feedbacker.transition = Transition::Done;
        }
        feedbacker.steer(input.config);
        let in_transition = feedbacker.transition != Transition::Done;
        let wanted = match (feedbacker.mode, kind) {
            _ if in_transition => true,
            (_, PacketType::Ir) | (Mode::Reliable, _) => strong,
            (Mode::Optimistic, _) if strong => feedbacker.is_due(self.values.sn),
            _ => {
                feedbacker.unacknowledged = 0;
                false
            }
        };
        let has_news = input.config.report_path && self.report.has_news();
        if wanted {
            let short = kind == PacketType::R0Crc && !in_transition && !has_news;
            self.send(Answer::Ack, short, input, output);
        } else if has_news {
            self.send(Answer::News, false, input, output);
        }
    }

    fn complain(&mut self, input: &Input<'_>, output: &mut Output<'_>, error: DecompressError) {
        let had_context = self.state.has_static();
        match error {
            DecompressError::CrcMismatch | DecompressError::ChecksumMismatch => {
                let has_feedback = self.feedbacker.mode != Mode::Unidirectional;
                let verdict = self.state.failed(input.config.damage_threshold, has_feedback);
                // In doubt a NACK brings what ends it, as for packets that are held back.
                if verdict == Verdict::Occasional && had_context && self.unconfirmed == 0 {
                    return;
                }
            }
            DecompressError::NotAllowedInState => {}
            _ => return,
        }
        if self.feedbacker.mode == Mode::Unidirectional {
            return;
        }
        if self.feedbacker.quiet > 0 {
            self.feedbacker.quiet -= 1;
            return;
        }
        // A damaged IR in R-mode is repeated anyway (RFC 3095 5.5.2.2).
        if self.feedbacker.mode == Mode::Reliable && input.frame.kind == Kind::Ir {
            return;
        }
        self.feedbacker.quiet = input.config.nack_spacing_packets;
        let answer = if self.state.trust == Trust::NoContext { Answer::StaticNack } else { Answer::Nack };
        self.send(answer, false, input, output);
    }

    fn send(&mut self, answer: Answer, short: bool, input: &Input<'_>, output: &mut Output<'_>) {
        let sn = self.values.sn;
        self.feedbacker.acknowledged_sn = sn as u16;
        if short {
            output.feedback.push(input.cid(), &[sn as u8], None);
            return;
        }
        let feedbacker = &mut self.feedbacker;
        let mode = match feedbacker.transition {
            Transition::Initiated => feedbacker.declined.unwrap_or(input.config.mode),
            _ => feedbacker.mode,
        };
        let announce = (!feedbacker.clock_announced && self.profile.has_rtp())
            .then(|| resolution_ms(input.config.clock_resolution))
            .flatten();
        feedbacker.clock_announced = true;
        let long = feedbacker.mode == Mode::Reliable || self.numbering() == Numbering::Esp;
        let (jitter, loss) = if input.config.report_path { self.report.take() } else { (None, None) };
        let options = [(option::CLOCK, announce), (option::JITTER, jitter), (option::LOSS, loss)];
        write_feedback2(answer, mode, sn, long, options, input.cid(), output);
    }
}

/// Writes FEEDBACK-2 with 12 bits of SN, or 20 when `long`, options and CRC.
fn write_feedback2(
    answer: Answer,
    mode: Mode,
    sn: u32,
    long: bool,
    options: [(u8, Option<u8>); 3],
    cid: Cid,
    output: &mut Output<'_>,
) {
    let high = if long { sn >> 8 } else { sn };
    let acktype = match answer {
        Answer::Ack | Answer::News => 0,
        Answer::Nack => 1,
        Answer::StaticNack => 2,
    };
    let first = acktype << 6 | (mode as u8) << 4 | (high >> 8 & 0x0f) as u8;
    let mut field = [0; 16];
    let mut len = 0;
    let mut put = |octets: &[u8]| {
        field[len..len + octets.len()].copy_from_slice(octets);
        len += octets.len();
    };
    put(&[first, high as u8]);
    if answer == Answer::News {
        put(&[option::SN_NOT_VALID << 4]);
    } else if long {
        put(&[option::SN << 4 | 1, sn as u8]);
    }
    for (kind, value) in options {
        if let Some(value) = value {
            put(&[kind << 4 | 1, value]);
        }
    }
    put(&[option::CRC << 4 | 1, 0]);
    let crc_at = len - 1;
    output.feedback.push(cid, &field[..len], Some(crc_at));
}

fn resolution_ms(resolution: Duration) -> Option<u8> {
    let ms = resolution.as_nanos().div_ceil(1_000_000);
    (ms > 0).then(|| ms.min(255) as u8)
}
