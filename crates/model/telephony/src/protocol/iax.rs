//! IAX2 with voice of a constant rate in both directions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use bentpipe_net::metric::{Counter, Of};
use bentpipe_net::{InvalidConfig, Observer};
use bentpipe_signalling::iax::{
    CallId, Config as EndpointConfig, Endpoint, Event, Failure, TRUNK_BYTES, format,
};
use bentpipe_signalling::sdp::Codec;
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_voice::call::{Rtcp, Settings as VoiceSettings};
use bentpipe_voice::emodel::Impairment;
use bentpipe_voice::{Codec as VoiceCodec, Config as VoiceConfig, Playout, Speech};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cause, Happening, Protocol, Repeats};
use crate::metrics;

/// Headers of full frames, and of trunk frames (RFC 5456, sections 8.1.1 and 8.1.3.2).
const FULL_HEADER_LEN: usize = 12;
const TRUNK_HEADER_LEN: usize = 8;
/// Interval of voice frames.
const INTERVAL: Span = Span::from_millis(20);

const ALL: [Voice; 5] = [Voice::Gsm, Voice::G711a, Voice::G711u, Voice::G729, Voice::Ilbc];

/// Voice of a call: its format and the frame of 20 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Voice {
    /// GSM full rate: 33 bytes.
    #[default]
    Gsm,
    /// G.711 A-law: 160 bytes.
    G711a,
    /// G.711 mu-law: 160 bytes.
    G711u,
    /// G.729: 20 bytes.
    G729,
    /// iLBC at 15.2 kbit/s: 38 bytes.
    Ilbc,
}

impl Voice {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Voice::Gsm => "GSM full rate",
            Voice::G711a => "G.711 A-law",
            Voice::G711u => "G.711 mu-law",
            Voice::G729 => "G.729",
            Voice::Ilbc => "iLBC",
        }
    }

    /// Returns the encoding of session descriptions.
    pub(crate) fn encoding(self) -> Codec {
        let (payload_type, name) = match self {
            Voice::Gsm => (3, "GSM"),
            Voice::G711a => (8, "PCMA"),
            Voice::G711u => (0, "PCMU"),
            Voice::G729 => (18, "G729"),
            Voice::Ilbc => (97, "iLBC"),
        };
        Codec::new(payload_type, name, 8000)
    }

    /// Returns the voice of an encoding.
    pub(crate) fn of_encoding(name: &str) -> Option<Voice> {
        ALL.into_iter().find(|voice| voice.encoding().name.eq_ignore_ascii_case(name))
    }

    /// Returns the voice of a format of RFC 5456.
    fn of_format(format: u32) -> Option<Voice> {
        ALL.into_iter().find(|voice| voice.frame().0 == format)
    }

    /// Returns the codec of voice traffic.
    pub(crate) fn codec(self) -> VoiceCodec {
        match self {
            Voice::Gsm => VoiceCodec::Gsm,
            Voice::G711a => VoiceCodec::G711A,
            Voice::G711u => VoiceCodec::G711U,
            Voice::G729 => VoiceCodec::G729,
            Voice::Ilbc => VoiceCodec::Ilbc,
        }
    }

    /// Returns the encoding of comfort noise by RFC 3389.
    ///
    /// Codecs with noise in their own format have none.
    pub(crate) fn noise(self) -> Option<Codec> {
        let payload_type = self.codec().format(None).ok()?.noise.payload_type?;
        Some(Codec::new(payload_type, "CN", 8000))
    }

    /// Returns voice of one frame a packet, at a constant rate and without RTCP.
    pub(crate) fn config(
        self,
        playout: Playout,
        impairment: Option<Impairment>,
        speech: Speech,
    ) -> VoiceConfig {
        let config = VoiceConfig::new(self.codec());
        VoiceConfig { silence_suppression: false, rtcp: Rtcp::None, playout, impairment, speech, ..config }
    }

    /// Returns what follows for packets of one frame at a constant rate, without RTCP.
    pub(crate) fn settings(
        self,
        playout: Playout,
        impairment: Option<Impairment>,
        speech: Speech,
    ) -> Result<VoiceSettings, InvalidConfig> {
        self.config(playout, impairment, speech).settings()
    }

    /// Returns the bytes of a frame of 20 ms.
    pub(crate) fn frame_len(self) -> usize {
        self.frame().1
    }

    /// Returns the format of RFC 5456 and the bytes of a frame.
    fn frame(self) -> (u32, usize) {
        match self {
            Voice::Gsm => (format::GSM, 33),
            Voice::G711a => (format::PCMA, 160),
            Voice::G711u => (format::PCMU, 160),
            Voice::G729 => (format::G729, 20),
            Voice::Ilbc => (format::ILBC, 38),
        }
    }
}

/// Settings of IAX2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Voice of both directions.
    pub voice: Voice,
    /// Accepts calls with every other voice too, in which both directions are then.
    pub accepts_all: bool,
    /// Period of trunk frames. None: mini frames.
    pub trunk: Option<Span>,
}

/// Endpoint with its voice.
#[derive(Debug)]
pub struct Iax {
    endpoint: Endpoint,
    /// Preferred voice.
    voice: Voice,
    /// Times of the next voice of calls that are up.
    due: BTreeSet<(Time, CallId)>,
    next: BTreeMap<CallId, Time>,
    /// Calls whose voice another leg has.
    relayed: BTreeSet<CallId>,
    /// Voice of these calls: time stamp, and payload or comfort noise.
    arrived: VecDeque<(CallId, u32, Option<Vec<u8>>)>,
    events: VecDeque<Event>,
    sent: u64,
    received: u64,
}

impl Iax {
    fn start_voice(&mut self, now: Time, call: CallId) {
        if self.relayed.contains(&call) {
            return;
        }
        self.next.insert(call, now);
        self.due.insert((now, call));
    }

    fn stop_voice(&mut self, call: CallId) {
        if let Some(at) = self.next.remove(&call) {
            self.due.remove(&(at, call));
        }
    }

    fn send_voice(&mut self, now: Time) {
        while let Some((at, call)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.stop_voice(call);
            self.start_voice(at + INTERVAL, call);
            let Some(elapsed) = self.endpoint.elapsed(now, call) else { continue };
            let frame = vec![0; self.voice_of(call).frame_len()];
            self.endpoint.send_voice(now, call, elapsed / 20 * 20, frame);
            self.sent += 1;
        }
    }
}

impl Protocol for Iax {
    type Settings = Settings;
    type Call = CallId;
    const NAME: &'static str = "iax";
    const VOICE_KEY: &'static str = "codec";
    const MESSAGES: &'static Of<Counter> = &metrics::IAX_FRAMES;
    const BYTES: &'static Of<Counter> = &metrics::IAX_BYTES;

    fn new(settings: &Settings, user: &str, _local: SocketAddr, seed: u64) -> Iax {
        let others = ALL.into_iter().filter(|other| settings.accepts_all && *other != settings.voice);
        let formats = std::iter::once(settings.voice).chain(others).map(|voice| voice.frame().0).collect();
        let config = EndpointConfig { trunk: settings.trunk, ..EndpointConfig::new(user, formats) };
        let endpoint = Endpoint::new(config, RandomStream::new(seed, "iax"));
        Iax {
            endpoint,
            voice: settings.voice,
            due: BTreeSet::new(),
            next: BTreeMap::new(),
            relayed: BTreeSet::new(),
            arrived: VecDeque::new(),
            events: VecDeque::new(),
            sent: 0,
            received: 0,
        }
    }

    fn codec(settings: &Settings) -> Option<String> {
        Some(settings.voice.name().to_owned())
    }

    fn longest_voice(settings: &Settings) -> usize {
        let alone = FULL_HEADER_LEN + settings.voice.frame_len();
        settings.trunk.map_or(alone, |_| alone.max(TRUNK_HEADER_LEN + TRUNK_BYTES))
    }

    fn place(&mut self, now: Time, remote: SocketAddr) -> Option<CallId> {
        self.endpoint.call(now, remote, "callee")
    }

    fn ring(&mut self, now: Time, call: CallId) {
        self.endpoint.ring(now, call);
    }

    fn answer(&mut self, now: Time, call: CallId) {
        self.endpoint.answer(now, call);
        self.start_voice(now, call);
    }

    fn hang_up(&mut self, now: Time, call: CallId) {
        self.endpoint.hang_up(now, call);
        self.note_events(now);
    }

    fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        self.endpoint.receive(now, from, datagram);
        self.note_events(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(now);
        self.note_events(now);
        self.send_voice(now);
    }

    fn deadline(&mut self) -> Time {
        let voice = self.due.first().map_or(Time::NEVER, |(at, _)| *at);
        self.endpoint.deadline().min(voice)
    }

    fn event(&mut self) -> Option<(CallId, Happening)> {
        std::iter::from_fn(|| self.events.pop_front()).find_map(|event| happening(&event))
    }

    fn transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.endpoint.poll_transmit()
    }

    fn repeats(&self) -> Repeats {
        let counters = self.endpoint.counters();
        Repeats { sent: counters.repeated, absorbed: counters.absorbed }
    }

    fn observe(_: &Settings, protocol: Option<&Iax>, observer: &mut dyn Observer) {
        let (sent, received) = protocol.map_or((0, 0), Iax::voice);
        observer.counter(&metrics::VOICE_SENT, sent);
        observer.counter(&metrics::VOICE_RECEIVED, received);
        observer.counter(&metrics::IAX_RECEIVED, received);
    }
}

impl Iax {
    /// Returns the numbers of voice frames sent and received.
    pub(crate) fn voice(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// Returns the voice of a call.
    pub(crate) fn voice_of(&self, call: CallId) -> Voice {
        self.endpoint.format(call).and_then(Voice::of_format).unwrap_or(self.voice)
    }

    /// Calls a number at a peer for the caller with another number.
    pub(crate) fn dial(
        &mut self,
        now: Time,
        peer: SocketAddr,
        (caller, number): (&str, &str),
    ) -> Option<CallId> {
        self.endpoint.call_as(now, peer, (caller, number))
    }

    /// Leaves the voice of a call to another leg.
    pub(crate) fn relay(&mut self, call: CallId) {
        self.relayed.insert(call);
    }

    /// Forgets a call whose voice another leg had.
    pub(crate) fn forget(&mut self, call: CallId) {
        self.relayed.remove(&call);
    }

    /// Returns the next voice of a relayed call.
    ///
    /// It has a time stamp in milliseconds, and a payload unless it is comfort noise.
    pub(crate) fn poll_voice(&mut self) -> Option<(CallId, u32, Option<Vec<u8>>)> {
        self.arrived.pop_front()
    }

    /// Returns the milliseconds since the start of a call.
    pub(crate) fn elapsed(&self, now: Time, call: CallId) -> Option<u32> {
        self.endpoint.elapsed(now, call)
    }

    /// Sends the voice of a relayed call.
    pub(crate) fn say(&mut self, now: Time, call: CallId, timestamp: u32, payload: Vec<u8>) {
        self.endpoint.send_voice(now, call, timestamp, payload);
        self.sent += 1;
    }

    /// Sends comfort noise of a relayed call.
    pub(crate) fn pause(&mut self, now: Time, call: CallId, timestamp: u32, level: u8) {
        self.endpoint.send_noise(now, call, timestamp, level);
    }

    /// Refuses an incoming call with a cause code.
    pub(crate) fn reject(&mut self, now: Time, call: CallId, cause: u8) {
        self.endpoint.reject(now, call, cause);
        self.note_events(now);
    }

    /// Returns the next event of the endpoint, without voice.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Counts voice, and starts and stops that of calls.
    fn note_events(&mut self, now: Time) {
        while let Some(event) = self.endpoint.poll_event() {
            let event = match event {
                Event::Voice { call, timestamp, payload } => {
                    self.received += 1;
                    if self.relayed.contains(&call) {
                        self.arrived.push_back((call, timestamp, Some(payload)));
                    }
                    continue;
                }
                Event::Noise { call, timestamp, .. } => {
                    if self.relayed.contains(&call) {
                        self.arrived.push_back((call, timestamp, None));
                    }
                    continue;
                }
                event => event,
            };
            match happening(&event) {
                Some((call, Happening::Answered)) => self.start_voice(now, call),
                Some((call, Happening::Ended | Happening::TimedOut | Happening::Failed(_))) => {
                    self.stop_voice(call)
                }
                _ => {}
            }
            self.events.push_back(event);
        }
    }
}

fn happening(event: &Event) -> Option<(CallId, Happening)> {
    let (call, happening) = match event {
        Event::Incoming { call, .. } => (call, Happening::Incoming),
        Event::Ringing { call } => (call, Happening::Ringing),
        Event::Answered { call } => (call, Happening::Answered),
        Event::Confirmed { call } => (call, Happening::Confirmed),
        Event::Ended { call, .. } => (call, Happening::Ended),
        Event::Failed { call, failure: Failure::TimedOut } => (call, Happening::TimedOut),
        Event::Failed { call, failure: Failure::Rejected(code) } => {
            (call, Happening::Failed(Cause::of_code(*code)))
        }
        Event::Failed { call, .. } => (call, Happening::Failed(Cause::Other)),
        _ => return None,
    };
    Some((*call, happening))
}
