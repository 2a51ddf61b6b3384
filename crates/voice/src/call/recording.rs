//! Recording that is sent in one call, packet by packet, and what arrives of it.

use bentpipe_units::{Span, Time};

use super::agent::Agent;
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

impl Agent {
    /// Sends a recording in the first call, from its start on.
    ///
    /// A recording is an RTP payload for each packet, none in pauses.
    ///
    /// Must be called before the run. Pauses need silence suppression; after the recording there is a pause.
    pub fn speak(&mut self, packets: Vec<Option<Vec<u8>>>) {
        self.recording = Some(Recording { packets });
    }

    /// Keeps the packets that arrive in the first call. Must be called before the run.
    pub fn listen(&mut self) {
        self.log = Some(Log::default());
    }

    /// Returns the log of what arrived in the first call, and begins another one.
    pub fn take_log(&mut self) -> Log {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the packets in the other end's log, in the order of arrival.
    pub fn arrived(&self, log: Log) -> Vec<Arrived> {
        let Some((first, step)) = self.origin() else { return Vec::new() };
        let number = |timestamp: u32| (timestamp.wrapping_sub(first) / step.max(1)) as usize;
        let arrived = |Logged { timestamp, payload, at, played }| Arrived {
            number: number(timestamp),
            payload,
            at,
            played,
        };
        log.0.into_iter().map(arrived).collect()
    }

    /// Returns the mean mouth-to-ear delay of the first call up to now.
    pub fn mouth_to_ear(&self) -> Option<Span> {
        self.receivers().next()?.figures().delays.mouth_to_ear()
    }
}
