//! Messages between a bridge and its legs, at the same node and without delay.

use std::any::Any;

use bentpipe_net::{Carried, Packet};
use bentpipe_units::{Span, Time};

use crate::emodel::Impairment;

/// Message of a leg to its bridge. Members are counted from 0 in each leg.
#[derive(Clone, Debug, PartialEq)]
pub enum ToBridge {
    /// Legs that begin; all get a mix from `start` on.
    Join {
        /// Number of members.
        members: u32,
        /// Time of a packet.
        interval: Span,
        /// First mix.
        start: Time,
        /// End of all mixes.
        stop: Time,
    },
    /// Frames of a packet, decoded.
    Frame {
        /// Member that sent it.
        member: u32,
        /// Sound.
        frame: Frame,
    },
    /// End of a spurt: comfort noise arrived.
    Pause {
        /// Member that pauses.
        member: u32,
        /// Time at which the playout buffer would give the noise out.
        due: Time,
    },
}

/// Sound of a packet, as its leg decodes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Source of the packet.
    pub ssrc: u32,
    /// Time at which its playout buffer gives it out.
    pub due: Time,
    /// Time that it lasts.
    pub interval: Span,
    /// Instant of its first sample at the mouth.
    pub mouth: Time,
    /// Level in decibels below the overload point.
    pub level: u8,
    /// Impairment by its codec, if that is known.
    pub impairment: Option<Impairment>,
}

/// Mix for one member of a leg.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Member that it is for.
    pub member: u32,
    /// Set if it has speech; a codec with silence suppression does not send the others.
    pub is_speech: bool,
    /// Instant of the first sample of the loudest source at the mouth, if one speaks.
    pub mouth: Option<Time>,
    /// Sources, the loudest first.
    pub sources: Vec<u32>,
    /// Properties that the E-model needs.
    pub sound: Sound,
}

/// Properties of a mix for the E-model, which are its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sound {
    /// Number of rooms that are in it.
    pub rooms: u8,
    /// Loudest source, if one speaks.
    pub speech: Option<Source>,
}

/// Loudest source of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// Set if its frame was lost or late, and another is in its place.
    pub is_concealed: bool,
    /// Impairment by its codec, if that is known.
    pub impairment: Option<Impairment>,
}

const SPEAKS: u8 = 0x80;
const CONCEALED: u8 = 0x40;
const RATED: u8 = 0x20;

impl Sound {
    /// Length of the properties in bytes; speech has at least 6.
    pub(super) const LEN: usize = 5;

    /// Writes the properties to the start of a payload.
    pub(super) fn emit(&self, payload: &mut [u8]) {
        let mut bytes = [0, self.rooms, 0, 0, 0];
        if let Some(source) = self.speech {
            bytes[0] = SPEAKS | if source.is_concealed { CONCEALED } else { 0 };
            if let Some(Impairment { ie, bpl }) = source.impairment {
                bytes[0] |= RATED;
                // Published values are multiples of 0.5 and of 0.1.
                bytes[2] = (2.0 * ie).round().clamp(0.0, 255.0) as u8;
                bytes[3..].copy_from_slice(&((10.0 * bpl).round().clamp(0.0, 65_535.0) as u16).to_be_bytes());
            }
        }
        let len = payload.len().min(Sound::LEN);
        payload[..len].copy_from_slice(&bytes[..len]);
    }

    /// Reads the properties of a payload.
    pub(super) fn parse(payload: &[u8]) -> Sound {
        let at = |index: usize| payload.get(index).copied().unwrap_or(0);
        let bpl = f64::from(u16::from_be_bytes([at(3), at(4)])) / 10.0;
        let impairment =
            (at(0) & RATED != 0).then(|| Impairment { ie: f64::from(at(2)) / 2.0, bpl: bpl.max(1.0) });
        let speech =
            (at(0) & SPEAKS != 0).then(|| Source { is_concealed: at(0) & CONCEALED != 0, impairment });
        Sound { rooms: at(1), speech }
    }
}

/// Content of a message, which never leaves the node.
#[derive(Clone, Debug, PartialEq)]
struct Message<T>(T);

impl<T: Clone + std::fmt::Debug + PartialEq + Send + Any> Carried for Message<T> {
    fn len(&self) -> usize {
        1
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        out.push(0);
    }

    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }

    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref() == Some(self)
    }
}

fn packet<T: Clone + std::fmt::Debug + PartialEq + Send + Any>(content: T) -> Packet {
    Packet::carrying(0, Box::new(Message(content)))
}

fn content<T: Clone + std::fmt::Debug + PartialEq + Send + Any>(packet: Packet) -> Option<T> {
    packet.into_carried::<Message<T>>().map(|message| message.0)
}

impl ToBridge {
    /// Returns the message as a packet.
    pub fn into_packet(self) -> Packet {
        packet(self)
    }

    /// Returns the message in a packet.
    pub fn of(packet: Packet) -> Option<ToBridge> {
        content(packet)
    }
}

impl Mix {
    /// Returns the mix as a packet.
    pub fn into_packet(self) -> Packet {
        packet(self)
    }

    /// Returns the mix in a packet.
    pub fn of(packet: Packet) -> Option<Mix> {
        content(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_is_read_as_written() {
        let rated = Some(Impairment { ie: 19.5, bpl: 25.1 });
        for impairment in [rated, None] {
            for is_concealed in [false, true] {
                let sound = Sound { rooms: 3, speech: Some(Source { is_concealed, impairment }) };
                let mut payload = [0xff; 20];
                sound.emit(&mut payload);
                assert_eq!(Sound::parse(&payload), sound);
            }
        }
        let mut short = [0; 2];
        Sound { rooms: 2, speech: None }.emit(&mut short);
        assert_eq!(Sound::parse(&short), Sound { rooms: 2, speech: None });
        assert_eq!(Sound::parse(&[]), Sound::default());
    }
}
