//! Voice of SIP phones: a line with a UDP port for each call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use bentpipe_net::{Histogram, InvalidConfig, Observer};
use bentpipe_signalling::agent::CallId;
use bentpipe_signalling::sdp::{Capabilities, Direction, Negotiated};
use bentpipe_site::CallQuality;
use bentpipe_units::{RandomStream, Time};
use bentpipe_voice::call::{Ear, Incoming, Mouth, Settings as VoiceSettings, metrics as quality};
use bentpipe_voice::emodel::Impairment;
use bentpipe_voice::{Losses, Playout, Speech};
use bentpipe_wire::rtp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Voice;
use crate::metrics;

/// DSCP of voice: expedited forwarding.
pub(crate) const RTP_DSCP: u8 = 46;

/// Voice of both phones of SIP calls: RTP in packets of 20 ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "PhoneVoice")]
pub struct PhoneVoice {
    /// Codec. Default: "g711a".
    pub codec: Voice,
    /// Speech of a phone, on its own; it decides who is loudest in a conference. Default: ITU-T P.59.
    pub speech: Speech,
    /// Playout buffer. Default: fixed, 60 ms.
    pub playout: Playout,
    /// Equipment impairment. Default: that published for the codec; R is not computed without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impairment: Option<Impairment>,
    /// Maximum number of calls of a phone at a time. Further ones are busy (486). Default: 32.
    #[schemars(range(min = 1, max = 1000))]
    pub lines: u16,
}

impl Default for PhoneVoice {
    fn default() -> PhoneVoice {
        PhoneVoice {
            codec: Voice::G711a,
            speech: Speech::default(),
            playout: Playout::default(),
            impairment: None,
            lines: 32,
        }
    }
}

impl PhoneVoice {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error with the key of the first impossible value.
    pub fn ensure(&self) -> Result<(), InvalidConfig> {
        let lines = InvalidConfig::ensure((1..=1000).contains(&self.lines), "lines", "1 to 1000");
        lines.and_then(|()| self.settings().map(|_| ())).map_err(|error| error.inside("media"))
    }

    /// Returns what follows for the voice of a call.
    pub(crate) fn settings(&self) -> Result<VoiceSettings, InvalidConfig> {
        self.codec.settings(self.playout, self.impairment, self.speech)
    }

    /// Returns the number of UDP ports: those of SIP and of each line.
    pub(crate) fn ports(&self) -> u16 {
        2 + 2 * self.lines
    }
}

/// Lines of a phone.
#[derive(Debug)]
pub(crate) struct Lines {
    config: PhoneVoice,
    settings: VoiceSettings,
    local: SocketAddr,
    random: RandomStream,
    /// Ports without a call. The one that is longest free is the next.
    free: VecDeque<u16>,
    calls: BTreeMap<CallId, Line>,
    by_port: BTreeMap<u16, CallId>,
    /// Times of the next packets.
    due: BTreeSet<(Time, CallId)>,
    sent: u64,
    received: u64,
    delays: Histogram,
    over: Figures,
}

/// Line with a call.
#[derive(Debug)]
struct Line {
    port: u16,
    voice: Option<Talk>,
}

/// Voice of a call that is up.
#[derive(Debug)]
struct Talk {
    to: SocketAddr,
    /// Absent after this side hung up.
    mouth: Option<Mouth>,
    ear: Ear,
}

/// Sums over calls.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    played: u32,
    mouth_to_ear_s: f64,
    rated: u32,
    r: f64,
    mos: f64,
    losses: [u64; 2],
}

impl Figures {
    fn add(&mut self, quality: &CallQuality, losses: &Losses) {
        if let Some(ear) = quality.mouth_to_ear {
            self.played += 1;
            self.mouth_to_ear_s += ear.as_secs_f64();
        }
        if let (Some(r), Some(mos)) = (quality.r, quality.mos) {
            (self.rated, self.r, self.mos) = (self.rated + 1, self.r + r, self.mos + mos);
        }
        self.losses[0] += losses.lost + losses.late;
        self.losses[1] += losses.expected();
    }
}

impl Lines {
    /// Creates the lines of a phone. Their ports follow that of SIP.
    pub(crate) fn new(config: PhoneVoice, local: SocketAddr, random: RandomStream) -> Option<Lines> {
        let first = local.port().checked_add(1)?.checked_next_multiple_of(2)?;
        Some(Lines {
            config,
            settings: config.settings().ok()?,
            local,
            random,
            free: (0..config.lines).map(|line| first + 2 * line).collect(),
            calls: BTreeMap::new(),
            by_port: BTreeMap::new(),
            due: BTreeSet::new(),
            sent: 0,
            received: 0,
            delays: Histogram::default(),
            over: Figures::default(),
        })
    }

    /// Returns a free port, if a line is free.
    pub(crate) fn reserve(&mut self) -> Option<u16> {
        self.free.pop_front()
    }

    /// Returns a port that no call takes.
    pub(crate) fn give_back(&mut self, port: u16) {
        self.free.push_back(port);
    }

    /// Assigns a port to a call.
    pub(crate) fn take(&mut self, call: CallId, port: u16) {
        self.by_port.insert(port, call);
        self.calls.insert(call, Line { port, voice: None });
    }

    /// Returns the audio that a call offers or accepts.
    pub(crate) fn capabilities(&self, call_port: u16) -> Capabilities {
        let codecs = vec![self.config.codec.encoding()];
        let (address, port) = (self.local.ip(), call_port);
        Capabilities { address, port, codecs, ptime: 20, direction: Direction::SendRecv }
    }

    /// Returns the port of a call.
    pub(crate) fn port(&self, call: CallId) -> Option<u16> {
        self.calls.get(&call).map(|line| line.port)
    }

    /// Starts the voice of a call that is up.
    pub(crate) fn start(&mut self, now: Time, call: CallId, media: &Negotiated) {
        let (Some(line), Some(address)) = (self.calls.get_mut(&call), media.address) else { return };
        if line.voice.is_some() {
            return;
        }
        let payload_type = media.codec.payload_type;
        let mouth = Mouth::new(&self.settings, payload_type, self.config.speech, now, &mut self.random);
        self.due.insert((mouth.deadline(), call));
        let ear = Ear::new(&self.settings, now);
        line.voice = Some(Talk { to: SocketAddr::new(address, media.port), mouth: Some(mouth), ear });
    }

    /// Ends what this side says in a call.
    pub(crate) fn hush(&mut self, call: CallId) {
        let voice = self.calls.get_mut(&call).and_then(|line| line.voice.as_mut());
        if let Some(mouth) = voice.and_then(|voice| voice.mouth.take()) {
            self.due.remove(&(mouth.deadline(), call));
        }
    }

    /// Returns the quality of a call's voice as this side receives it.
    pub(crate) fn quality(&self, call: CallId) -> Option<CallQuality> {
        Some(self.calls.get(&call)?.voice.as_ref()?.ear.quality())
    }

    /// Frees the line of a call that is over, and returns its quality.
    pub(crate) fn finish(&mut self, call: CallId) -> Option<CallQuality> {
        self.hush(call);
        let line = self.calls.remove(&call)?;
        self.by_port.remove(&line.port);
        self.free.push_back(line.port);
        let ear = line.voice?.ear;
        let quality = ear.quality();
        self.over.add(&quality, &ear.losses());
        Some(quality)
    }

    /// Returns `true` if a datagram came to a line. One to a line without a call is ignored: the peer does not know yet.
    pub(crate) fn receive(&mut self, now: Time, from: SocketAddr, port: u16, bytes: &[u8]) -> bool {
        let Some(line) = self.by_port.get(&port).and_then(|call| self.calls.get_mut(call)) else {
            return self.free.contains(&port);
        };
        let Some(voice) = line.voice.as_mut() else { return true };
        let Some(rtp) = rtp::Packet::new_checked(bytes).ok().filter(|_| from == voice.to) else {
            return false;
        };
        let (seq, timestamp, ssrc, payload) = (rtp.seq(), rtp.timestamp(), rtp.ssrc(), rtp.payload());
        self.received += 1;
        voice.ear.receive(Incoming { seq, timestamp, ssrc, payload }, now, &mut self.delays);
        true
    }

    /// Returns the next packet that is due, with its port and destination.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(u16, SocketAddr, Vec<u8>)> {
        let (at, call) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, call));
        let line = self.calls.get_mut(&call)?;
        let (port, voice) = (line.port, line.voice.as_mut()?);
        let mouth = voice.mouth.as_mut()?;
        let bytes = mouth.poll(now)?;
        self.due.insert((mouth.deadline(), call));
        self.sent += 1;
        Some((port, voice.to, bytes))
    }

    /// Returns the time of the next packet.
    pub(crate) fn deadline(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Reports on the voice of a phone, which is zero before the start.
    pub(crate) fn observe(lines: Option<&Lines>, observer: &mut dyn Observer) {
        let mut all = lines.map(|lines| lines.over).unwrap_or_default();
        let voices =
            lines.iter().flat_map(|lines| lines.calls.values()).filter_map(|line| line.voice.as_ref());
        voices.for_each(|voice| all.add(&voice.ear.quality(), &voice.ear.losses()));
        observer.counter(&metrics::VOICE_SENT, lines.map_or(0, |lines| lines.sent));
        observer.counter(&metrics::VOICE_RECEIVED, lines.map_or(0, |lines| lines.received));
        let [lost, expected] = all.losses;
        observer.gauge(&quality::VOICE_LOSS, lost as f64 / expected as f64);
        observer.gauge(&quality::MOUTH_TO_EAR, all.mouth_to_ear_s / f64::from(all.played));
        observer.gauge(&quality::R, all.r / f64::from(all.rated));
        observer.gauge(&quality::MOS, all.mos / f64::from(all.rated));
    }
}
