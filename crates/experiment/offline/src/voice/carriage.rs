//! Run of a network whose first call has the speech.

use bentpipe_assemble::Built;
use bentpipe_scenario::{Access, Scenario};
use bentpipe_units::{Span, Time};
use bentpipe_voice::call::{Agent, Arrived, Settings};
use bentpipe_voice::{Losses, Outcome};

use super::{NO_VOICE, Sent, voice_of};
use crate::Session;

/// Time for which queues and channels may still hold packets after the last was due.
const AFTER: Span = Span::from_secs(5);
/// Number of steps in which a run can be stopped.
const STEPS: u64 = 50;
/// Level of a packet below which it is a pause, in decibels above overload.
const PAUSE_DBOV: f64 = -50.0;

/// Network to be run.
pub(super) struct Network<'a> {
    pub(super) scenario: &'a Scenario,
    /// Folder of the scenario's files.
    pub(super) access: &'a Access,
    /// Flow of voice.
    pub(super) flow: &'a str,
    pub(super) seed: u64,
}

/// Result of a run.
pub(super) struct Reception {
    /// Outcome of each packet.
    pub(super) packets: Vec<Packet>,
    pub(super) losses: Losses,
    pub(super) mouth_to_ear: Option<Span>,
}

/// Packet at the listener's playout buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// Packet in time, with its payload and its playout time.
    Played(Vec<u8>, Time),
    Lost,
    Late,
    /// Pause, in which no packet was sent.
    Pause,
}

impl Reception {
    /// Returns the numbers of packets sent, lost, and late.
    pub(super) fn counts(&self) -> [u64; 3] {
        [self.losses.expected(), self.losses.lost, self.losses.late]
    }
}

impl Network<'_> {
    /// Carries the speech.
    pub(super) fn carry(
        &self,
        settings: &Settings,
        sent: &Sent,
        session: &dyn Session,
    ) -> Result<Reception, String> {
        let mut built =
            Built::new(self.scenario, self.seed, self.access).map_err(|problem| problem.to_string())?;
        let flow = built.flows.iter().find(|flow| flow.flow == self.flow).ok_or(NO_VOICE)?;
        let (start, from, to) = (flow.start, flow.sender, *flow.receivers.first().ok_or(NO_VOICE)?);
        let packets = self.packets(settings, sent);
        let len = settings.interval() * packets.len() as u64;
        self.warn(start + len, session);
        built.network.element::<Agent>(from).ok_or(NO_VOICE)?.speak(packets.clone());
        built.network.element::<Agent>(to).ok_or(NO_VOICE)?.listen();
        let end = start + len + built.longest_delay() + AFTER;
        for n in (1..=STEPS).take_while(|_| !session.is_interrupted()) {
            built.network.run_until(Time::ZERO + if n == STEPS { end } else { end / STEPS * n });
        }
        let listener = built.network.element::<Agent>(to).ok_or(NO_VOICE)?;
        let (log, mouth_to_ear) = (listener.take_log(), listener.mouth_to_ear());
        let arrived = built.network.element::<Agent>(from).ok_or(NO_VOICE)?.arrived(log);
        let packets = outcomes(&packets, arrived);
        Ok(Reception { losses: losses(&packets), packets, mouth_to_ear })
    }

    /// Returns the payloads to send.
    ///
    /// With silence suppression, packets whose speech is below a level have none.
    fn packets(&self, settings: &Settings, sent: &Sent) -> Vec<Option<Vec<u8>>> {
        let config = voice_of(self.scenario).map(|(_, config)| config);
        let Some(config) = config.filter(|config| config.silence_suppression) else {
            return sent.payloads.iter().cloned().map(Some).collect();
        };
        let (interval, len) = (settings.interval(), sent.coder.samples_of(settings.interval()));
        let hangover = (config.hangover.as_nanos() / interval.as_nanos().max(1)) as usize;
        let mut since_speech = usize::MAX;
        let parts = sent.samples.chunks(len.max(1)).chain(std::iter::repeat(&[][..]));
        let packet = |(payload, part): (&Vec<u8>, &[i16])| {
            since_speech = if is_speech(part) { 0 } else { since_speech.saturating_add(1) };
            (since_speech <= hangover).then(|| payload.clone())
        };
        sent.payloads.iter().zip(parts).map(packet).collect()
    }

    fn warn(&self, end: Span, session: &dyn Session) {
        let stop = self.scenario.flow.get(self.flow).and_then(|flow| flow.stop);
        if stop.is_some_and(|stop| stop < end) {
            session.note(&format!(
                "flow \"{}\" stops before the end of the speech: what is left counts as lost",
                self.flow
            ));
        }
    }
}

/// Returns `true` if the level of samples is that of speech.
fn is_speech(samples: &[i16]) -> bool {
    let power = samples.iter().map(|sample| (f64::from(*sample) / 32_768.0).powi(2)).sum::<f64>();
    power / samples.len().max(1) as f64 > 10_f64.powf(PAUSE_DBOV / 10.0)
}

/// Returns the outcome of each packet sent. The first that arrives in time counts.
fn outcomes(sent: &[Option<Vec<u8>>], arrived: Vec<Arrived>) -> Vec<Packet> {
    let outcome = |packet: &Option<Vec<u8>>| if packet.is_some() { Packet::Lost } else { Packet::Pause };
    let mut outcomes: Vec<Packet> = sent.iter().map(outcome).collect();
    for Arrived { number, payload, at, played } in arrived {
        if let Some(outcome @ (Packet::Lost | Packet::Late)) = outcomes.get_mut(number) {
            *outcome = if at > played { Packet::Late } else { Packet::Played(payload, played) };
        }
    }
    outcomes
}

fn losses(packets: &[Packet]) -> Losses {
    let mut losses = Losses::default();
    for packet in packets {
        match packet {
            Packet::Played(..) => losses.push(Outcome::Played),
            Packet::Lost => losses.push(Outcome::Lost),
            Packet::Late => losses.push(Outcome::Late),
            Packet::Pause => {}
        }
    }
    losses
}
