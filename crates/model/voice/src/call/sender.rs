//! Sending side of one call.

use bentpipe_units::{Span, Time};
use bentpipe_wire::rtp;

use super::config::Settings;
use crate::conversation::{Conversation, Party};
use crate::turns::Member;

/// Speech that a sender follows.
#[derive(Clone, Debug)]
pub(super) enum Talk {
    /// Party of two.
    Pair(Conversation, Party),
    /// Party of several.
    Several(Member),
    /// Mixes of a bridge, which has no speech of its own.
    Mix,
}

impl Talk {
    fn speaks(&mut self, at: Time) -> bool {
        match self {
            Talk::Pair(conversation, party) => conversation.speaks(*party, at),
            Talk::Several(member) => member.speaks(at),
            Talk::Mix => false,
        }
    }

    fn state_end(&self) -> Time {
        match self {
            Talk::Pair(conversation, party) => conversation.state_end(*party),
            Talk::Several(member) => member.state_end(),
            Talk::Mix => Time::NEVER,
        }
    }
}

/// Level of a room without speech in decibels below the overload point.
pub(super) const ROOM_LEVEL: u8 = 65;

/// Packet of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emission {
    /// Speech; the first packet of a spurt has the marker.
    Speech {
        /// Set if it begins a spurt.
        marker: bool,
    },
    /// Comfort noise.
    Noise,
}

/// Speech or pause of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Start,
    Speech,
    /// Pause, with the time of the next noise packet and the number sent.
    Pause {
        next: Time,
        sent: u32,
    },
}

/// Sending side of one call: RTP state and voice activity.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    talk: Talk,
    mode: Mode,
    last_spoke: Option<Time>,
    ssrc: u32,
    /// Payload of a speech packet in bytes, where the rate has changed.
    adapted_len: Option<u32>,
    seq: u16,
    first_timestamp: u32,
    /// Instant of the sample with the first time stamp.
    epoch: Time,
    packets: u32,
    octets: u32,
    last_sent: Option<Time>,
}

/// Random values of a stream (RFC 3550, section 5.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) ssrc: u32,
    pub(super) seq: u16,
    pub(super) timestamp: u32,
}

impl Sender {
    /// Creates a sender whose first packet holds speech from `epoch` on.
    pub(super) fn new(talk: Talk, origin: Origin, epoch: Time) -> Sender {
        Sender {
            talk,
            mode: Mode::Start,
            last_spoke: None,
            ssrc: origin.ssrc,
            adapted_len: None,
            seq: origin.seq,
            first_timestamp: origin.timestamp,
            epoch,
            packets: 0,
            octets: 0,
            last_sent: None,
        }
    }

    /// Returns the number of the next packet.
    pub(super) fn next_seq(&self) -> u16 {
        self.seq
    }

    /// Decides on the packet with speech from `begin` on. Calls go forward in time.
    pub(super) fn decide(&mut self, settings: &Settings, begin: Time) -> Option<Emission> {
        let is_active = self.is_active(settings, begin);
        self.emit(settings, is_active, begin)
    }

    /// Decides on the packet with speech from `begin` on by a recording. Returns `None` after its end.
    pub(super) fn replay(
        &mut self,
        settings: &Settings,
        recording: &[Option<Vec<u8>>],
        begin: Time,
    ) -> Option<Option<Emission>> {
        let packet = recording.get(self.number(settings, begin))?;
        Some(self.emit(settings, packet.is_some(), begin))
    }

    /// Returns the payload of a recording's packet with speech from `begin` on.
    pub(super) fn recorded<'a>(
        &self,
        settings: &Settings,
        recording: &'a [Option<Vec<u8>>],
        begin: Time,
    ) -> Option<&'a [u8]> {
        recording.get(self.number(settings, begin))?.as_deref()
    }

    /// Returns the number of the packet with speech from `begin` on.
    fn number(&self, settings: &Settings, begin: Time) -> usize {
        (begin.since(self.epoch).as_nanos() / settings.interval.as_nanos()) as usize
    }

    /// Decides on the packet of an interval with or without speech.
    pub(super) fn emit(&mut self, settings: &Settings, is_active: bool, begin: Time) -> Option<Emission> {
        if is_active {
            let marker = settings.config.silence_suppression && self.mode != Mode::Speech;
            self.mode = Mode::Speech;
            return Some(Emission::Speech { marker });
        }
        self.pause(settings, begin).then_some(Emission::Noise)
    }

    /// Returns the time before which a pause has no further packet.
    pub(super) fn quiet_until(&self) -> Time {
        match self.mode {
            Mode::Pause { next, .. } => next.min(self.talk.state_end()),
            Mode::Start | Mode::Speech => Time::ZERO,
        }
    }

    fn is_active(&mut self, settings: &Settings, begin: Time) -> bool {
        if !settings.config.silence_suppression {
            return true;
        }
        if self.talk.speaks(begin) {
            self.last_spoke = Some(begin);
            return true;
        }
        let hangover = settings.config.hangover;
        self.last_spoke.is_some_and(|last| begin.since(last) <= hangover && !hangover.is_zero())
    }

    /// Returns `true` if the pause has a noise packet at `begin`.
    fn pause(&mut self, settings: &Settings, begin: Time) -> bool {
        let noise = settings.format.noise;
        let (next, sent) = match self.mode {
            Mode::Pause { next, sent } => (next, sent),
            _ => (begin, 0),
        };
        let is_due = next <= begin;
        if !is_due {
            return false;
        }
        let own = if sent == 0 { noise.second_after.or(noise.interval) } else { noise.interval };
        let interval = settings.config.comfort_noise.or(own);
        let next = interval.map_or(Time::NEVER, |interval| begin + interval);
        self.mode = Mode::Pause { next, sent: sent.saturating_add(1) };
        true
    }

    /// Returns the RTP header of a packet with speech from `begin` on, and counts it.
    pub(super) fn header(
        &mut self,
        settings: &Settings,
        emission: Emission,
        (begin, now): (Time, Time),
    ) -> (rtp::Repr<'static>, u32) {
        let noise = settings.format.noise;
        let speech_type = settings.format.payload_type;
        let (payload_type, payload_len, marker) = match emission {
            Emission::Speech { marker } => {
                (speech_type, self.adapted_len.unwrap_or(settings.payload_len), marker)
            }
            Emission::Noise => (noise.payload_type.unwrap_or(speech_type), noise.len as u32, false),
        };
        let header = rtp::Repr::new(payload_type, self.seq, self.timestamp(settings, begin), self.ssrc);
        self.seq = self.seq.wrapping_add(1);
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(payload_len);
        self.last_sent = Some(now);
        (rtp::Repr { marker, ..header }, payload_len)
    }

    /// Changes the payload of speech packets to that of another rate.
    pub(super) fn adapt(&mut self, payload_len: u32) {
        self.adapted_len = Some(payload_len);
    }

    /// Returns the RTP time stamp of an instant.
    pub(super) fn timestamp(&self, settings: &Settings, at: Time) -> u32 {
        let ticks = settings.format.ticks(at.since(self.epoch)) as u32;
        self.first_timestamp.wrapping_add(ticks)
    }

    pub(super) fn first_timestamp(&self) -> u32 {
        self.first_timestamp
    }

    pub(super) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Returns `true` if the party speaks at `at`. Calls go forward in time.
    pub(super) fn speaks(&mut self, at: Time) -> bool {
        self.talk.speaks(at)
    }

    /// Counts a packet that others sent in place of this sender.
    pub(super) fn note_sent(&mut self, payload_len: u32, now: Time) {
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(payload_len);
        self.last_sent = Some(now);
    }

    /// Returns the level of a conference member's speech in decibels below overload.
    ///
    /// The time is the last one decided on.
    pub(super) fn level(&mut self, at: Time) -> Option<u8> {
        match &mut self.talk {
            Talk::Several(member) => Some(if member.speaks(at) { member.level() } else { ROOM_LEVEL }),
            Talk::Pair(..) | Talk::Mix => None,
        }
    }

    /// Returns packets and payload bytes sent, modulo 2^32.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.packets, self.octets)
    }

    /// Returns `true` if a packet was sent within `span` before `now`.
    pub(super) fn has_sent_within(&self, span: Span, now: Time) -> bool {
        self.last_sent.is_some_and(|last| now.since(last) <= span)
    }
}
