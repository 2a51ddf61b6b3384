//! Speech at the listener: decoded packets in their playout times, losses concealed.

use bentpipe_assemble::scratch::Scratch;
use bentpipe_units::Time;
use bentpipe_voice::call::Settings;
use bentpipe_voice::speech::conceal::Player;

use super::carriage::Packet;
use super::{Concealment, Sent};

/// Returns the samples that are played, from the playout time of the first packet on.
pub(super) fn play(
    settings: &Settings,
    sent: &Sent,
    packets: &[Packet],
    concealment: Concealment,
    scratch: &Scratch,
) -> Result<Vec<i16>, String> {
    let decoder_conceals = concealment == Concealment::Repeat && sent.coder.conceals();
    let decoded = decoded(sent, packets, decoder_conceals, scratch)?;
    let len = sent.coder.samples_of(settings.interval());
    let mut parts = decoded.chunks(len.max(1));
    let mut line = Line::new(settings, sent.coder.rate_hz, packets, concealment);
    for (number, packet) in packets.iter().enumerate() {
        match packet {
            Packet::Played(_, at) => line.play(number, *at, parts.next().unwrap_or_default()),
            Packet::Lost | Packet::Late if decoder_conceals => {
                line.play_on(number, parts.next().unwrap_or_default());
            }
            Packet::Lost | Packet::Late => line.lose(number, len),
            Packet::Pause => line.is_pause = true,
        }
    }
    line.end(sent.samples.len());
    Ok(line.samples)
}

/// Decodes what arrived, one packet after the other; with `decoder_conceals` also what did not.
fn decoded(
    sent: &Sent,
    packets: &[Packet],
    decoder_conceals: bool,
    scratch: &Scratch,
) -> Result<Vec<i16>, String> {
    let payload = |packet: &Packet| match packet {
        Packet::Played(payload, _) => Some(Some(payload.clone())),
        Packet::Lost | Packet::Late => decoder_conceals.then_some(None),
        Packet::Pause => None,
    };
    let payloads: Vec<Option<Vec<u8>>> = packets.iter().filter_map(payload).collect();
    sent.coder.decode(&sent.headers, &payloads, scratch)
}

/// Samples on the listener's time line.
struct Line {
    samples: Vec<i16>,
    player: Player,
    concealment: Concealment,
    rate_hz: u32,
    interval_ns: i128,
    /// Playout time of the recording's start, by the first packet played and by the last.
    first_start: i128,
    last_start: i128,
    is_pause: bool,
}

impl Line {
    fn new(settings: &Settings, rate_hz: u32, packets: &[Packet], concealment: Concealment) -> Line {
        let interval_ns = i128::from(settings.interval().as_nanos());
        let first = packets.iter().enumerate().find_map(|(number, packet)| match packet {
            Packet::Played(_, at) => Some(i128::from(at.as_nanos()) - number as i128 * interval_ns),
            _ => None,
        });
        let start = first.unwrap_or_default();
        Line {
            samples: Vec::new(),
            player: Player::new(rate_hz),
            concealment,
            rate_hz,
            interval_ns,
            first_start: start,
            last_start: start,
            is_pause: true,
        }
    }

    /// Inserts silence up to the start of a packet that follows a pause.
    fn reach(&mut self, number: usize) {
        if !std::mem::take(&mut self.is_pause) {
            return;
        }
        let ns = self.last_start - self.first_start + number as i128 * self.interval_ns;
        let at = (ns * i128::from(self.rate_hz) / 1_000_000_000).max(0) as usize;
        let silence = vec![0; at.saturating_sub(self.samples.len())];
        let played = self.player.play(&silence);
        self.samples.extend(played);
    }

    /// Plays a packet at its time.
    fn play(&mut self, number: usize, at: Time, samples: &[i16]) {
        self.last_start = i128::from(at.as_nanos()) - number as i128 * self.interval_ns;
        self.play_on(number, samples);
    }

    /// Plays samples after those before, or at the end of a pause.
    fn play_on(&mut self, number: usize, samples: &[i16]) {
        self.reach(number);
        let played = match self.concealment {
            Concealment::Repeat => self.player.play(samples),
            Concealment::Silence => samples.to_vec(),
        };
        self.samples.extend(played);
    }

    fn lose(&mut self, number: usize, len: usize) {
        self.reach(number);
        let played = match self.concealment {
            Concealment::Repeat => self.player.conceal(len),
            Concealment::Silence => vec![0; len],
        };
        self.samples.extend(played);
    }

    /// Cuts the padding of the last packet, or fills a pause at the end.
    fn end(&mut self, len: usize) {
        let moved = (self.last_start - self.first_start) * i128::from(self.rate_hz) / 1_000_000_000;
        self.samples.resize((len as i128 + moved).max(0) as usize, 0);
    }
}
