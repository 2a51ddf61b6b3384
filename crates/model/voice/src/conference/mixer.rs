//! Bridge: mixes for all members of a conference.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::VecDeque;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_units::{Span, Time};

use super::config::Role;
use super::metrics;
use crate::call::exchange::{Frame, Mix, Sound, Source, ToBridge};

/// Time for which the decoder of a leg conceals missing frames of a spurt.
const CONCEALMENT: Span = Span::from_millis(200);
/// Minimum level of speech in decibels below the overload point.
const SPEECH_LEVEL: u8 = 50;
/// Maximum number of frames that wait at a leg: 20 s of 20 ms.
const MAX_FRAMES: usize = 1000;

/// Bridge of a conference: an element with a port for each leg.
#[derive(Debug)]
pub struct Mixer {
    role: Role,
    legs: Vec<Leg>,
    counts: Counts,
}

/// Members that a port leads to.
#[derive(Debug)]
struct Leg {
    port: Port,
    interval: Span,
    next: Time,
    stop: Time,
    members: Vec<Decoder>,
}

/// Decoder of a member with the frames that wait for their playout.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoder {
    waiting: VecDeque<Frame>,
    present: Option<Frame>,
    /// Times at which noise ends a spurt, in order. What is missing from then on is not concealed.
    pauses: VecDeque<Time>,
}

/// Sound of a member at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sounding {
    pub(super) leg: usize,
    pub(super) member: u32,
    pub(super) frame: Frame,
    pub(super) is_concealed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) mixes: u64,
    encoded: u64,
    mixed: u64,
    pub(super) concealed: u64,
    pub(super) left_out: u64,
    ticks: u64,
    talkers: u64,
    started: u64,
    waited_ns: u128,
}

impl Mixer {
    /// Creates a bridge without members.
    pub fn new(role: Role) -> Mixer {
        Mixer { role, legs: Vec::new(), counts: Counts::default() }
    }

    fn take(&mut self, port: Port, message: ToBridge) {
        match message {
            ToBridge::Join { members, interval, start, stop } => {
                let members = vec![Decoder::default(); members as usize];
                self.legs.push(Leg { port, interval, next: start, stop, members });
            }
            ToBridge::Frame { member, frame } => {
                if let Some(decoder) = self.decoder(port, member) {
                    decoder.push(frame);
                }
            }
            ToBridge::Pause { member, due } => {
                if let Some(decoder) = self.decoder(port, member) {
                    decoder.pause(due);
                }
            }
        }
    }

    fn decoder(&mut self, port: Port, member: u32) -> Option<&mut Decoder> {
        self.legs.iter_mut().find(|leg| leg.port == port)?.members.get_mut(member as usize)
    }

    fn deadline(&self) -> Time {
        let next = |leg: &Leg| if leg.next < leg.stop { leg.next } else { Time::NEVER };
        self.legs.iter().map(next).min().unwrap_or(Time::NEVER)
    }

    /// Sends the mixes of one leg to all its members.
    fn mix(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let now = cx.now();
        let sounding = self.sounding(now);
        let Leg { port, members, .. } = &self.legs[leg];
        let (most, mut own) = (self.role.mixing.most(), 0);
        for member in 0..members.len() as u32 {
            let is_other = |of: &&Sounding| (of.leg, of.member) != (leg, member);
            let others: Vec<&Sounding> = sounding.iter().filter(is_other).collect();
            let (sources, left_out) = others.split_at(others.len().min(most));
            // A mix without the member's voice differs from that of the others only if it would be in theirs.
            own += u64::from(sounding.iter().take(most).any(|of| !is_other(&of)));
            self.counts.mixed += sources.len() as u64;
            self.counts.left_out += left_out.iter().filter(|of| of.speaks()).count() as u64;
            cx.emit(*port, self.role.mix_of(member, sources).into_packet());
        }
        let members = members.len() as u64;
        self.counts.mixes += members;
        self.counts.encoded += own + u64::from(own < members);
        self.counts.ticks += 1;
        self.counts.talkers += sounding.iter().filter(|of| of.speaks()).count() as u64;
    }

    /// Returns the sound of all members at an instant, the loudest first.
    fn sounding(&mut self, now: Time) -> Vec<Sounding> {
        let counts = &mut self.counts;
        let mut sounding = Vec::new();
        for (leg, Leg { members, .. }) in self.legs.iter_mut().enumerate() {
            for (member, decoder) in members.iter_mut().enumerate() {
                let Some((frame, is_concealed)) = decoder.at(now, counts) else { continue };
                sounding.push(Sounding { leg, member: member as u32, frame, is_concealed });
            }
        }
        sorted(sounding)
    }
}

/// Returns the sound of all members, the loudest first.
pub(super) fn sorted(mut sounding: Vec<Sounding>) -> Vec<Sounding> {
    sounding.sort_by_key(|of| (of.frame.level, Reverse(of.is_concealed), of.leg, of.member));
    sounding
}

impl Sounding {
    pub(super) fn speaks(&self) -> bool {
        self.frame.level < SPEECH_LEVEL
    }
}

impl Role {
    /// Returns the mix of sources, the loudest first.
    pub(super) fn mix_of(&self, member: u32, sources: &[&Sounding]) -> Mix {
        let loudest = sources.first().filter(|of| of.speaks());
        let speech =
            loudest.map(|of| Source { is_concealed: of.is_concealed, impairment: of.frame.impairment });
        let listed = if self.contributors { sources } else { &[] };
        Mix {
            member,
            is_speech: speech.is_some(),
            mouth: loudest.map(|of| of.frame.mouth),
            sources: listed.iter().map(|of| of.frame.ssrc).collect(),
            sound: Sound { rooms: sources.len().min(255) as u8, speech },
        }
    }
}

impl Decoder {
    /// Ends the spurt that is played before `due`. Frames of the next one may have come already.
    pub(super) fn pause(&mut self, due: Time) {
        let place = self.pauses.partition_point(|other| *other < due);
        if self.pauses.get(place) != Some(&due) && self.pauses.len() < MAX_FRAMES {
            self.pauses.insert(place, due);
        }
    }

    pub(super) fn push(&mut self, frame: Frame) {
        let place = self.waiting.iter().rposition(|other| other.due <= frame.due).map_or(0, |at| at + 1);
        let is_again = place > 0 && self.waiting[place - 1].due == frame.due;
        if !is_again && self.waiting.len() < MAX_FRAMES {
            self.waiting.insert(place, frame);
        }
    }

    /// Returns the frame that sounds at an instant, and `true` if it is concealment.
    pub(super) fn at(&mut self, now: Time, counts: &mut Counts) -> Option<(Frame, bool)> {
        while let Some(frame) = self.waiting.front().copied().filter(|frame| frame.due <= now) {
            self.waiting.pop_front();
            self.present = Some(frame);
            counts.started += 1;
            counts.waited_ns += u128::from(now.since(frame.due).as_nanos());
        }
        let Some(frame) = self.present else {
            self.pauses.retain(|due| *due > now);
            return None;
        };
        self.pauses.retain(|due| *due > frame.due);
        let end = frame.due + frame.interval;
        if now < end {
            return Some((frame, false));
        }
        let is_paused = self.pauses.front().is_some_and(|due| *due <= now);
        if is_paused || now >= end + CONCEALMENT {
            self.present = None;
            return None;
        }
        counts.concealed += 1;
        // The speech that is missing would have been younger by the time since.
        let mouth = frame.mouth + now.since(frame.due);
        Some((Frame { mouth, ..frame }, true))
    }
}

impl Element for Mixer {
    fn receive(&mut self, port: Port, packet: Packet, _: &mut Cx<'_>) -> Time {
        if let Some(message) = ToBridge::of(packet) {
            self.take(port, message);
        }
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        for leg in 0..self.legs.len() {
            while self.legs[leg].next <= cx.now() && self.legs[leg].next < self.legs[leg].stop {
                self.mix(leg, cx);
                let interval = self.legs[leg].interval;
                self.legs[leg].next += interval;
            }
        }
        self.deadline()
    }

    // Mixes leave at their own times.
    fn forwards(&self, _: Port, _: Port) -> bool {
        false
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        let Counts { mixes, encoded, mixed, concealed, left_out, ticks, talkers, started, waited_ns } =
            self.counts;
        let members: usize = self.legs.iter().map(|leg| leg.members.len()).sum();
        observer.gauge(&metrics::MEMBERS, members as f64);
        observer.counter(&metrics::MIXES, mixes);
        observer.counter(&metrics::ENCODED, encoded);
        observer.counter(&metrics::MIXED, mixed);
        observer.counter(&metrics::CONCEALED, concealed);
        observer.counter(&metrics::LEFT_OUT, left_out);
        observer.gauge(&metrics::TALKERS, talkers as f64 / ticks as f64);
        observer.gauge(&metrics::WAITING, waited_ns as f64 / 1e9 / started as f64);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
