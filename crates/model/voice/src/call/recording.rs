//! Recording that is sent in one call, packet by packet, and what arrives of it.

use bentpipe_units::{Span, Time};

use super::config::Settings;
use crate::losses::Losses;

/// Packet of a recording that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Number of the packet in the recording.
    pub number: usize,
    /// RTP payload.
    pub payload: Vec<u8>,
    /// Arrival.
    pub at: Time,
    /// Playout time of its first sample. The packet is late if it arrived after that.
    pub played: Time,
}

impl Arrived {
    /// Returns `true` if the packet arrived after its playout time.
    pub fn is_late(&self) -> bool {
        self.at > self.played
    }
}

/// Scores of a call by the E-model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Mean mouth-to-ear delay.
    pub mouth_to_ear: Span,
    /// Rating of the conversation.
    pub r: f64,
    /// Mean opinion score of the conversation.
    pub mos: f64,
    /// Mean opinion score of listening, without the impairment by delay.
    pub listening: f64,
}

/// Recording as its sender has it: an RTP payload for each packet, none in pauses.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    pub(super) packets: Vec<Option<Vec<u8>>>,
}

/// Speech packets that arrived in a call, in their order.
#[derive(Clone, Debug, Default)]
pub struct Log(Vec<Logged>);

#[derive(Clone, Debug)]
struct Logged {
    timestamp: u32,
    payload: Vec<u8>,
    at: Time,
    played: Time,
}

impl Log {
    /// Adds a packet with its arrival and playout time.
    pub(super) fn push(&mut self, timestamp: u32, payload: &[u8], (at, played): (Time, Time)) {
        self.0.push(Logged { timestamp, payload: payload.to_vec(), at, played });
    }

    /// Returns the packets in the order of arrival, numbered in steps of time stamps.
    pub(super) fn arrived(self, (first, step): (u32, u32)) -> Vec<Arrived> {
        let number = |timestamp: u32| (timestamp.wrapping_sub(first) / step.max(1)) as usize;
        let arrived = |Logged { timestamp, payload, at, played }| Arrived {
            number: number(timestamp),
            payload,
            at,
            played,
        };
        self.0.into_iter().map(arrived).collect()
    }
}

impl Settings {
    /// Returns the scores of a call with losses and a mean mouth-to-ear delay.
    ///
    /// `None`: the codec has no published impairment and the scenario gives none, or no packet was played.
    pub fn score(&self, losses: &Losses, mouth_to_ear: Option<Span>) -> Option<Score> {
        let (rating, delay) = (self.rating?, mouth_to_ear?);
        let r = rating.r(Some(delay), losses);
        let listening = rating.mos(rating.r(Some(Span::ZERO), losses));
        (!r.is_nan()).then(|| Score { mouth_to_ear: delay, r, mos: rating.mos(r), listening })
    }
}
