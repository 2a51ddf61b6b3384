//! Voice of calls that others signal and carry: mouths and ears.
//!
//! Their payload has no sound: it has the properties of the speech that the E-model needs, and that exchanges and
//! bridges on the way add to.

use bentpipe_net::Histogram;
use bentpipe_net::ledger::{SubAccount, Tallies};
use bentpipe_site::CallQuality;
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::rtp;
use rand::RngCore;

use super::config::Settings;
use super::exchange::{Frame, Sound, Source};
use super::mouths::{Mouths, Said};
use super::receiver::{Received, Receiver};
use super::reception::Reception;
use super::sender::{Emission, Origin, ROOM_LEVEL, Sender, Talk};
use crate::conversation::{Conversation, Party, Speech};
use crate::emodel::Impairment;
use crate::losses::Losses;
use crate::turns::Member;

/// Properties of the speech in a packet, which are its payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spoken {
    /// Rooms and loudest source, with the impairment by codecs on the way.
    pub sound: Sound,
    /// Instant of the first sample at the mouth.
    pub mouth: Time,
    /// Level in decibels below the overload point.
    pub level: u8,
}

impl Spoken {
    /// Length in bytes; a packet of speech has at least 20.
    pub const LEN: usize = Sound::LEN + 9;

    /// Writes the properties to the start of a payload.
    pub fn emit(&self, payload: &mut [u8]) {
        let mut bytes = [0; Spoken::LEN];
        self.sound.emit(&mut bytes);
        bytes[Sound::LEN..Spoken::LEN - 1].copy_from_slice(&self.mouth.as_nanos().to_be_bytes());
        bytes[Spoken::LEN - 1] = self.level;
        let len = payload.len().min(Spoken::LEN);
        payload[..len].copy_from_slice(&bytes[..len]);
    }

    /// Reads the properties of a payload. What is missing at its end is 0.
    pub fn parse(payload: &[u8]) -> Spoken {
        let mut bytes = [0; Spoken::LEN];
        let len = payload.len().min(Spoken::LEN);
        bytes[..len].copy_from_slice(&payload[..len]);
        let mut mouth = [0; 8];
        mouth.copy_from_slice(&bytes[Sound::LEN..Spoken::LEN - 1]);
        Spoken {
            sound: Sound::parse(&bytes),
            mouth: Time::from_nanos(u64::from_be_bytes(mouth)),
            level: bytes[Spoken::LEN - 1],
        }
    }

    /// Returns the impairment after a decoder, which conceals what is missing.
    ///
    /// Equipment impairments of codecs in tandem add up (G.113).
    pub fn decoded(&self, settings: &Settings) -> Option<Impairment> {
        let Some(source) = self.sound.speech else { return settings.impairment() };
        let (before, own) = (source.impairment?, settings.impairment()?);
        Some(Impairment { ie: before.ie + own.ie, bpl: own.bpl })
    }

    /// Returns the speech after the decoder of this codec, which conceals nothing.
    #[must_use]
    pub fn transcoded(self, settings: &Settings) -> Spoken {
        let own = settings.ie();
        let add = |before: Impairment| own.map(|own| Impairment { ie: before.ie + own, ..before });
        let decoded = |source: Source| Source { impairment: source.impairment.and_then(add), ..source };
        Spoken { sound: Sound { speech: self.sound.speech.map(decoded), ..self.sound }, ..self }
    }
}

/// Mouth of a phone in one call, which sends RTP.
#[derive(Clone, Debug)]
pub struct Mouth {
    pub(super) settings: Settings,
    payload_type: u8,
    pub(super) sender: Sender,
    level: u8,
    /// Next interval to decide on.
    next: Time,
    pending: Option<Pending>,
    /// Start of its speech.
    start: Time,
    /// Set while it sends nothing, as on hold.
    is_muted: bool,
    /// Set if the next packet is the first one after that.
    resumes: bool,
    /// Packets for the ear behind exchanges.
    said: Option<Said>,
}

/// Packet that is decided on.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Time,
    emission: Emission,
    level: u8,
}

impl Mouth {
    /// Creates a mouth that speaks from `start` on, in packets of a payload type.
    pub fn new(
        settings: &Settings,
        payload_type: u8,
        speech: Speech,
        start: Time,
        stream: &mut RandomStream,
    ) -> Mouth {
        let seed = stream.next_u64();
        let conversation = Conversation::new(speech, RandomStream::new(seed, "conversation"), start);
        let origin = Origin {
            ssrc: stream.next_u32(),
            seq: stream.next_u32() as u16 >> 1,
            timestamp: stream.next_u32(),
        };
        let mut mouth = Mouth {
            settings: *settings,
            payload_type,
            sender: Sender::new(Talk::Pair(conversation, Party::A), origin, start),
            level: Member::new(Speech::Continuous, (seed, "mouth"), (0, 1)).level(),
            next: start + settings.held,
            pending: None,
            start,
            is_muted: false,
            resumes: false,
            said: None,
        };
        mouth.decide();
        mouth
    }

    /// Creates a mouth whose packets others send, from the first one on.
    pub fn of_others(settings: &Settings, (ssrc, first_timestamp): (u32, u32), now: Time) -> Mouth {
        let origin = Origin { ssrc, seq: 0, timestamp: first_timestamp };
        Mouth {
            settings: *settings,
            payload_type: settings.format.payload_type,
            sender: Sender::new(Talk::Mix, origin, now),
            level: ROOM_LEVEL,
            next: Time::NEVER,
            pending: None,
            start: now,
            is_muted: false,
            resumes: false,
            said: None,
        }
    }

    /// Adds it to the mouths of its end, for the other end's ears.
    pub fn join(&mut self, mouths: &Mouths) {
        let said = Said::new(self.start, self.settings.interval);
        mouths.add(&said);
        self.said = Some(said);
    }

    /// Sets the payload type of speech.
    pub fn set_payload_type(&mut self, payload_type: u8) {
        self.payload_type = payload_type;
    }

    /// Stops or resumes sending. Numbers go on without a gap, and time stamps by the time.
    pub fn set_muted(&mut self, is_muted: bool, now: Time) {
        if std::mem::replace(&mut self.is_muted, is_muted) == is_muted {
            return;
        }
        self.pending = None;
        if is_muted || self.next.is_never() {
            return;
        }
        // Packets stay on the grid of intervals since the start.
        let missed = now.since(self.next).as_nanos().div_ceil(self.settings.interval.as_nanos());
        self.next += self.settings.interval * missed;
        self.resumes = true;
        self.decide();
    }

    /// Returns the number of its next packet.
    pub fn next_seq(&self) -> u16 {
        self.sender.next_seq()
    }

    /// Returns its source.
    pub fn ssrc(&self) -> u32 {
        self.sender.ssrc()
    }

    /// Counts a packet that others sent.
    pub fn note_sent(&mut self, payload_len: usize, now: Time) {
        self.sender.note_sent(payload_len as u32, now);
    }

    /// Returns the time of the next packet.
    pub fn deadline(&self) -> Time {
        self.pending.map_or(Time::NEVER, |pending| pending.at)
    }

    /// Decides on intervals up to one with a packet. Pauses cost no wake-up.
    fn decide(&mut self) {
        let Settings { held, interval, .. } = self.settings;
        while self.pending.is_none() && !self.next.is_never() {
            let begin = Time::from_nanos(self.next.as_nanos().saturating_sub(held.as_nanos()));
            let quiet = self.sender.quiet_until();
            if quiet.is_never() {
                self.next = Time::NEVER;
            } else if begin < quiet {
                let intervals = quiet.since(begin).as_nanos().div_ceil(interval.as_nanos());
                self.next += interval * intervals;
            } else {
                let emission = self.sender.decide(&self.settings, begin);
                let level = if self.sender.speaks(begin) { self.level } else { ROOM_LEVEL };
                self.pending = emission.map(|emission| Pending { at: self.next, emission, level });
                self.next += interval;
            }
        }
    }

    /// Returns the next packet, if it is due.
    pub fn poll(&mut self, now: Time) -> Option<Vec<u8>> {
        let Pending { at, emission, level } = self.pending.take_if(|pending| pending.at <= now)?;
        let held = self.settings.held.as_nanos();
        let mouth = Time::from_nanos(at.as_nanos().saturating_sub(held));
        let (header, payload_len) = self.sender.header(&self.settings, emission, (mouth, at));
        let is_of_codec = header.payload_type == self.settings.format.payload_type;
        let payload_type = if is_of_codec { self.payload_type } else { header.payload_type };
        let marker = header.marker || std::mem::take(&mut self.resumes);
        let header = rtp::Repr { payload_type, marker, ..header };
        let mut bytes = vec![0; header.buffer_len() + payload_len as usize];
        header.emit(&mut bytes[..header.buffer_len()]);
        let payload = &mut bytes[header.buffer_len()..];
        match emission {
            Emission::Speech { .. } => {
                // The codec impairs at its decoder.
                let impairment = Some(Impairment { ie: 0.0, bpl: 1.0 });
                let sound = Sound { rooms: 1, speech: Some(Source { is_concealed: false, impairment }) };
                Spoken { sound, mouth, level }.emit(payload);
                self.said.iter().for_each(|said| said.push(mouth));
            }
            // The level of the noise (RFC 3389, section 3).
            Emission::Noise if !is_of_codec => payload[0] = ROOM_LEVEL,
            Emission::Noise => {}
        }
        self.decide();
        Some(bytes)
    }
}

/// Packet of voice as an ear gets it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Number.
    pub seq: u16,
    /// Time stamp.
    pub timestamp: u32,
    /// Source.
    pub ssrc: u32,
    /// Marker: the packet begins a spurt.
    pub marker: bool,
    /// Set if it is speech, and not comfort noise.
    pub is_speech: bool,
    /// Payload.
    pub payload: &'a [u8],
}

/// Ear of a phone, or decoder of a bridge: playout, losses, quality.
#[derive(Clone, Debug)]
pub struct Ear {
    settings: Settings,
    pub(super) receiver: Receiver,
    reception: Reception,
    /// Mouths of the other end behind exchanges, and the one that speaks.
    mouths: Option<Mouths>,
    speaker: Option<Said>,
    /// Longest delay since the mouth.
    longest: Span,
    /// Start of the window of measures.
    window: Time,
}

impl Ear {
    /// Creates an ear for packets of these settings.
    pub fn new(settings: &Settings, now: Time) -> Ear {
        Ear {
            settings: *settings,
            receiver: Receiver::new(settings, now),
            reception: Reception::default(),
            mouths: None,
            speaker: None,
            longest: Span::ZERO,
            window: Time::ZERO,
        }
    }

    /// Has it listen to one of the other end's mouths, behind exchanges.
    ///
    /// Its packets that do not arrive are lost, although no account has them.
    pub fn listen(&mut self, mouths: &Mouths) {
        self.mouths = Some(mouths.clone());
    }

    fn find_speaker(&mut self, mouth: Time, now: Time) {
        let Some(mouths) = &self.mouths else { return };
        if !self.speaker.as_ref().is_some_and(|said| said.record(mouth)) {
            self.speaker = mouths.find(mouth).filter(|said| said.record(mouth));
        }
        if self.speaker.is_some() {
            self.longest = self.longest.max(now.since(mouth));
        }
    }

    /// Notes the end of the warm-up.
    ///
    /// The quality is of what is sent from now on.
    pub fn start_window(&mut self, now: Time) {
        // The first sample of the first packet that is sent from now on, as what is sent at the very instant is in the warm-up.
        let first = now.as_nanos().saturating_sub(self.settings.held.as_nanos()) + 1;
        self.window = Time::from_nanos(first);
        let sent_behind = self.speaker.as_ref().map_or(0, |said| said.behind(Time::ZERO, self.window));
        self.receiver.end_warm_up(sent_behind);
        self.reception = Reception::default();
    }

    /// Counts as lost what cannot be on its way any more.
    pub fn settle_losses(&mut self, now: Time) {
        if let Some(said) = &self.speaker {
            let until = Time::from_nanos(now.as_nanos().saturating_sub(2 * self.longest.as_nanos()));
            self.receiver.set_lost_behind(said.behind(self.window, until));
        }
    }

    /// Receives a packet, and notes its delay since the mouth.
    ///
    /// Returns its frame, unless it is late, repeated, or of another source than the first packet.
    pub fn receive(&mut self, packet: Incoming<'_>, now: Time, delays: &mut Histogram) -> Option<Frame> {
        let spoken = Spoken::parse(packet.payload);
        // Noise has no room for the time of its mouth: it takes as long as the speech before.
        let created_at = match packet.is_speech {
            true => spoken.mouth + self.settings.held,
            false => {
                let delay = self.receiver.last_delay.unwrap_or_default();
                Time::from_nanos(now.as_nanos().saturating_sub(delay.as_nanos()))
            }
        };
        let received = Received {
            seq: packet.seq,
            timestamp: packet.timestamp,
            ssrc: packet.ssrc,
            marker: packet.marker,
            is_speech: packet.is_speech,
            ie: 0.0,
            created_at: created_at.min(now),
            wait: Span::ZERO,
            now,
        };
        if packet.is_speech {
            self.find_speaker(spoken.mouth, now);
        }
        let due = self.receiver.receive(&self.settings, &received, packet.payload.len(), delays).ok()??;
        if due < now {
            return None;
        }
        self.reception.push(&spoken.sound);
        Some(Frame {
            ssrc: packet.ssrc,
            due,
            interval: self.settings.interval,
            mouth: spoken.mouth,
            level: spoken.level,
            impairment: spoken.decoded(&self.settings),
        })
    }

    /// Returns when noise that arrived now would be given out.
    pub fn noise_due(&self, timestamp: u32, now: Time) -> Time {
        self.receiver.plays_at(&self.settings, timestamp).unwrap_or(now)
    }

    /// Sets the account of what the other side sends.
    ///
    /// What was dropped of that counts as lost, also behind the last packet that came.
    pub fn set_account(&mut self, account: SubAccount) {
        self.receiver.set_account(account);
    }

    /// Returns the account of what the other side sends, if it is known.
    pub fn account(&self) -> Option<&SubAccount> {
        self.receiver.account()
    }

    /// Notes what is known of that account.
    pub fn settle(&mut self, tallies: Tallies) {
        self.receiver.settle(tallies);
    }

    /// Returns the number of packets that came again.
    pub fn duplicates(&self) -> u64 {
        self.receiver.counts.duplicates
    }

    /// Returns the number of packets taken, duplicates with them.
    pub fn packets(&self) -> u64 {
        self.receiver.counts.packets
    }

    /// Returns the known outcomes of the packets sent in the window of measures.
    pub fn losses(&self) -> Losses {
        self.receiver.measured().losses
    }

    /// Returns the quality in the window up to now, from mouth to ear.
    pub fn quality(&self) -> CallQuality {
        let figures = self.receiver.measured();
        let mouth_to_ear = figures.delays.mouth_to_ear();
        let rating = self.settings.rating.filter(|_| mouth_to_ear.is_some());
        let r = rating.map(|rating| rating.r_of_mix(mouth_to_ear, &figures.losses, &self.reception));
        let r = r.filter(|r| !r.is_nan());
        CallQuality {
            packets: figures.losses.expected(),
            loss: (figures.losses.expected() > 0).then(|| figures.losses.ratio()),
            mouth_to_ear,
            r,
            mos: rating.zip(r).map(|(rating, r)| rating.mos(r)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Config};

    fn settings(codec: Codec) -> Settings {
        Config { silence_suppression: false, ..Config::new(codec) }.settings().expect("possible")
    }

    #[test]
    fn speech_is_read_as_written_and_adds_its_codecs() {
        let source = Source { is_concealed: false, impairment: Some(Impairment { ie: 0.0, bpl: 25.1 }) };
        let sound = Sound { rooms: 1, speech: Some(source) };
        let spoken = Spoken { sound, mouth: Time::from_nanos(123_456_789), level: 26 };
        let mut payload = [0xff; 20];
        spoken.emit(&mut payload);
        assert_eq!(Spoken::parse(&payload), spoken);
        let (gsm, g729) = (settings(Codec::Gsm), settings(Codec::G729));
        let tandem = spoken.transcoded(&gsm).transcoded(&g729);
        let source = tandem.sound.speech.expect("speech").impairment.expect("rated");
        assert_eq!(source.ie, 20.0 + 11.0);
        assert_eq!(Spoken::parse(&[]).mouth, Time::ZERO);
    }

    #[test]
    fn a_muted_mouth_leaves_no_gap_in_its_numbers() {
        let settings = settings(Codec::G711A);
        let mut mouth = Mouth::new(&settings, 8, Speech::P59, Time::ZERO, &mut RandomStream::new(1, "m"));
        let next = |mouth: &mut Mouth| {
            let at = mouth.deadline();
            let bytes = mouth.poll(at).expect("due");
            let packet = rtp::Packet::new_checked(&bytes[..]).expect("a packet");
            (at.as_nanos() / 1_000_000, packet.seq(), packet.timestamp(), packet.marker())
        };
        let first = next(&mut mouth);
        mouth.set_muted(true, Time::from_nanos(25_000_000));
        assert!(mouth.deadline().is_never());
        mouth.set_muted(false, Time::from_nanos(105_000_000));
        let second = next(&mut mouth);
        assert_eq!((first.0, second.0), (20, 120));
        assert_eq!(second.1, first.1.wrapping_add(1));
        assert_eq!(second.2, first.2.wrapping_add(5 * 160));
        assert!(second.3 && !first.3 && !next(&mut mouth).3, "the first packet has the marker");
    }

    /// Packets straight from the mouth, of which each tenth is lost, have the E-model's rating.
    #[test]
    fn an_ear_rates_what_it_hears() {
        let settings = settings(Codec::G711A);
        let mut mouth = Mouth::new(&settings, 8, Speech::P59, Time::ZERO, &mut RandomStream::new(1, "m"));
        let (mut ear, mut delays) = (Ear::new(&settings, Time::ZERO), Histogram::default());
        for number in 0..1001 {
            let at = mouth.deadline();
            let bytes = mouth.poll(at).expect("due");
            assert_eq!(bytes.len(), 172);
            let rtp = rtp::Packet::new_checked(&bytes).expect("RTP");
            let (seq, timestamp, ssrc, payload) = (rtp.seq(), rtp.timestamp(), rtp.ssrc(), rtp.payload());
            if number % 10 != 5 {
                let arrives = at + Span::from_millis(250);
                let frame = ear.receive(
                    Incoming { seq, timestamp, ssrc, marker: false, is_speech: true, payload },
                    arrives,
                    &mut delays,
                );
                assert!(frame.is_some_and(|frame| frame.mouth + settings.held == at));
            }
        }
        let quality = ear.quality();
        // 20 ms of packing, 250 on the way, 60 in the buffer; losses apart are less than random ones.
        assert_eq!(quality.mouth_to_ear.map(|ear| ear.as_nanos()), Some(330_000_000));
        assert!((quality.loss.expect("some") - 0.1).abs() < 1e-3);
        let params = crate::emodel::Params { delay: 330.0, ..Default::default() };
        let burst_ratio = ear.losses().burst_ratio();
        let expected = params.r()
            - Impairment { ie: 0.0, bpl: 25.1 }.effective(100.0 * ear.losses().ratio(), burst_ratio);
        assert!((quality.r.expect("rated") - expected).abs() < 0.01, "{quality:?} {expected}");
    }
}
