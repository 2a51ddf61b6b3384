//! Voice of SIP phones: a line with a UDP port for each call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use bentpipe_net::ledger::{SubAccount, Tallies};
use bentpipe_net::{Histogram, InvalidConfig, Observer};
use bentpipe_signalling::agent::CallId;
use bentpipe_signalling::sdp::{Capabilities, Direction, Negotiated};
use bentpipe_site::CallQuality;
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_voice::call::{
    Control, ControlCounts, Ear, Incoming, Mouth, Mouths, Rtcp, Settings as VoiceSettings, metrics as quality,
};
use bentpipe_voice::emodel::Impairment;
use bentpipe_voice::{Config as VoiceConfig, Playout, Speech};
use bentpipe_wire::{ipv4, ipv6, rtp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Voice;
use crate::metrics;

/// DSCP of voice: expedited forwarding.
pub(crate) const RTP_DSCP: u8 = 46;

/// Voice of both phones of SIP calls: RTP in packets of 20 ms, with RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "PhoneVoice")]
pub struct PhoneVoice {
    /// Codec. Default: "g711a".
    pub codec: Voice,
    /// Speech of a phone, on its own; it decides who is loudest in a conference. Default: ITU-T P.59.
    pub speech: Speech,
    /// Enables silence suppression: no speech packets in pauses, and comfort noise as they begin. Default: false.
    pub silence_suppression: bool,
    /// Time after a spurt for which speech packets continue. Default: 0 s.
    pub hangover: Span,
    /// Interval of comfort noise in a pause. Default: that of the codec; one packet per pause for most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comfort_noise: Option<Span>,
    /// Playout buffer. Default: fixed, 60 ms.
    pub playout: Playout,
    /// RTCP reports. Default: "extended".
    pub rtcp: Rtcp,
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
            silence_suppression: false,
            hangover: Span::ZERO,
            comfort_noise: None,
            playout: Playout::default(),
            rtcp: Rtcp::default(),
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
    ///
    /// # Errors
    /// Returns an error with the key of the first impossible value.
    pub fn settings(&self) -> Result<VoiceSettings, InvalidConfig> {
        let config = self.codec.config(self.playout, self.impairment, self.speech);
        let PhoneVoice { silence_suppression, hangover, comfort_noise, rtcp, .. } = *self;
        VoiceConfig { silence_suppression, hangover, comfort_noise, rtcp, ..config }.settings()
    }

    /// Returns the mean share of intervals with a packet.
    pub(crate) fn activity(&self) -> f64 {
        if self.silence_suppression { self.speech.activity() } else { 1.0 }
    }

    /// Returns the number of UDP ports: those of SIP and of each line.
    pub(crate) fn ports(&self) -> u16 {
        2 + 2 * self.lines
    }
}

/// Lines of a phone.
#[derive(Debug)]
pub struct Lines {
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
    control: ControlCounts,
    /// Last reports of calls that are over.
    farewells: VecDeque<(u16, SocketAddr, Vec<u8>)>,
    /// Mouths of this end of a flow and of the other, behind exchanges.
    mouths: Option<[Mouths; 2]>,
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
    /// Payload type of speech in packets of the peer.
    payload_type: u8,
    /// Set while the peer has no address, as on hold before RFC 3264.
    is_held: bool,
    /// Silent after this side hung up.
    mouth: Mouth,
    /// Account of what the mouth sends.
    account: SubAccount,
    ear: Ear,
    /// RTCP, until this side hangs up.
    control: Option<Control>,
    is_over: bool,
}

impl Talk {
    fn deadline(&self) -> Time {
        if self.is_over {
            return Time::NEVER;
        }
        self.mouth.deadline().min(self.control.as_ref().map_or(Time::NEVER, Control::deadline))
    }

    /// Returns the address of the peer's RTCP (RFC 3550, section 11).
    fn control_to(&self) -> SocketAddr {
        SocketAddr::new(self.to.ip(), self.to.port().wrapping_add(1))
    }
}

/// Packets of speech and noise of the others, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Played.
    pub played: u64,
    /// Arrived too late to be played.
    pub late: u64,
    /// Missing between the first and the last number.
    pub lost: u64,
    /// Arrived again.
    pub duplicates: u64,
}

/// Sums over calls.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    played: u32,
    mouth_to_ear_s: f64,
    rated: u32,
    r: f64,
    r_min: Option<f64>,
    mos: f64,
    losses: [u64; 2],
    outcomes: Outcomes,
    /// Sum of the burst ratios of calls from which anything arrived, and their number.
    bursts: (f64, u32),
}

impl Figures {
    fn add(&mut self, ear: &Ear) {
        let (quality, losses) = (ear.quality(), ear.losses());
        if let Some(ear) = quality.mouth_to_ear {
            self.played += 1;
            self.mouth_to_ear_s += ear.as_secs_f64();
        }
        if let (Some(r), Some(mos)) = (quality.r, quality.mos) {
            (self.rated, self.r, self.mos) = (self.rated + 1, self.r + r, self.mos + mos);
            self.r_min = Some(self.r_min.map_or(r, |least| least.min(r)));
        }
        if losses.played + losses.late > 0 {
            self.bursts = (self.bursts.0 + losses.burst_ratio(), self.bursts.1 + 1);
        }
        self.outcomes.played += losses.played;
        self.outcomes.late += losses.late;
        self.outcomes.lost += losses.lost;
        self.outcomes.duplicates += ear.duplicates();
        self.losses[0] += losses.lost + losses.late;
        self.losses[1] += losses.expected();
    }
}

impl Lines {
    /// Creates the lines of a phone. Their ports follow that of SIP.
    pub fn new(config: PhoneVoice, local: SocketAddr, random: RandomStream) -> Option<Lines> {
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
            control: ControlCounts::default(),
            farewells: VecDeque::new(),
            mouths: None,
        })
    }

    /// Notes that exchanges are between these mouths and those of the other end.
    ///
    /// They send packets of their own.
    pub(crate) fn relay(&mut self, mouths: [Mouths; 2]) {
        self.mouths = Some(mouths);
    }

    /// Notes the end of the warm-up: figures are of what is sent from now on.
    pub(crate) fn start_window(&mut self, now: Time) {
        self.over = Figures::default();
        let voices = self.calls.values_mut().filter_map(|line| line.voice.as_mut());
        voices.for_each(|voice| voice.ear.start_window(now));
    }

    /// Returns a free port, if a line is free.
    pub fn reserve(&mut self) -> Option<u16> {
        self.free.pop_front()
    }

    /// Returns a port that no call takes.
    pub fn give_back(&mut self, port: u16) {
        self.free.push_back(port);
    }

    /// Assigns a port to a call.
    pub fn take(&mut self, call: CallId, port: u16) {
        self.by_port.insert(port, call);
        self.calls.insert(call, Line { port, voice: None });
    }

    /// Returns the audio that a call offers or accepts.
    pub fn capabilities(&self, call_port: u16) -> Capabilities {
        let noise = self.config.silence_suppression.then(|| self.config.codec.noise()).flatten();
        let codecs = std::iter::once(self.config.codec.encoding()).chain(noise).collect();
        let (address, port) = (self.local.ip(), call_port);
        Capabilities { address, port, codecs, ptime: 20, direction: Direction::SendRecv }
    }

    /// Returns the port of a call.
    pub fn port(&self, call: CallId) -> Option<u16> {
        self.calls.get(&call).map(|line| line.port)
    }

    /// Starts the voice of a call that is up.
    pub fn start(&mut self, now: Time, call: CallId, media: &Negotiated) {
        let (Some(line), Some(address)) = (self.calls.get_mut(&call), media.address) else { return };
        if line.voice.is_some() {
            return self.change(now, call, media);
        }
        let payload_type = media.codec.payload_type;
        let mut mouth = Mouth::new(&self.settings, payload_type, self.config.speech, now, &mut self.random);
        let ip_header_len = if address.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let control = Control::new(&self.settings, ip_header_len, now, &mut self.random);
        let mut ear = Ear::new(&self.settings, now);
        if let Some([own, other]) = &self.mouths {
            mouth.join(own);
            ear.listen(other);
        }
        let to = SocketAddr::new(address, media.port);
        mouth.set_muted(!sends(media), now);
        let account = SubAccount::default();
        account.set_first(mouth.next_seq());
        let (payload_type, is_held) = (media.receive_type, is_held(media));
        let talk = Talk { to, payload_type, is_held, mouth, account, ear, control, is_over: false };
        self.due.insert((talk.deadline(), call));
        line.voice = Some(talk);
    }

    /// Has the voice of a call follow a new description: moved, on hold, or resumed.
    fn change(&mut self, now: Time, call: CallId, media: &Negotiated) {
        let voice = self.calls.get_mut(&call).and_then(|line| line.voice.as_mut());
        let (Some(voice), Some(address)) = (voice.filter(|voice| !voice.is_over), media.address) else {
            return;
        };
        self.due.remove(&(voice.deadline(), call));
        (voice.payload_type, voice.is_held) = (media.receive_type, is_held(media));
        if !voice.is_held {
            voice.to = SocketAddr::new(address, media.port);
        }
        voice.mouth.set_payload_type(media.codec.payload_type);
        voice.mouth.set_muted(!sends(media), now);
        self.due.insert((voice.deadline(), call));
    }

    /// Returns the destination of the voice at a port.
    pub fn destination_at(&self, port: u16) -> Option<SocketAddr> {
        Some(self.voice_at(port)?.to)
    }

    /// Sets the destination of the voice at a port.
    pub fn send_to(&mut self, port: u16, to: SocketAddr) {
        let line = self.by_port.get(&port).and_then(|call| self.calls.get_mut(call));
        line.and_then(|line| line.voice.as_mut()).into_iter().for_each(|voice| voice.to = to);
    }

    /// Returns the source of what the mouth at a port says.
    pub fn ssrc_at(&self, port: u16) -> Option<u32> {
        Some(self.voice_at(port)?.mouth.ssrc())
    }

    /// Receives a packet in place of speech, such as a telephone event (RFC 4733). It counts as arrived.
    pub fn receive_event(&mut self, now: Time, port: u16, (seq, timestamp, ssrc): (u16, u32, u32)) {
        let line = self.by_port.get(&port).and_then(|call| self.calls.get_mut(call));
        let Some(voice) = line.and_then(|line| line.voice.as_mut()) else { return };
        self.received += 1;
        let packet = Incoming { seq, timestamp, ssrc, marker: false, is_speech: false, payload: &[] };
        voice.ear.receive(packet, now, &mut self.delays);
    }

    /// Returns what became of the packets of all calls.
    pub fn outcomes(&self) -> Outcomes {
        let mut all = self.over;
        let voices = self.calls.values().filter_map(|line| line.voice.as_ref());
        voices.for_each(|voice| all.add(&voice.ear));
        all.outcomes
    }

    /// Ends what this side says in a call, with goodbye.
    pub fn hush(&mut self, now: Time, call: CallId) {
        let Some(line) = self.calls.get_mut(&call) else { return };
        let (port, Some(talk)) = (line.port, line.voice.as_mut()) else { return };
        self.due.remove(&(talk.deadline(), call));
        if let Some(mut control) = talk.control.take() {
            let report = control.leave((&talk.mouth, &talk.ear), now);
            if !talk.is_held {
                self.control.sent += 1;
                self.farewells.push_back((port + 1, talk.control_to(), report));
            }
        }
        talk.is_over = true;
    }

    fn voice_at(&self, port: u16) -> Option<&Talk> {
        self.calls.get(self.by_port.get(&port)?)?.voice.as_ref()
    }

    /// Returns the account of what the mouth at a port says. RTCP is not in it.
    pub fn spoken_at(&self, port: u16) -> Option<&SubAccount> {
        Some(&self.voice_at(port)?.account)
    }

    /// Returns the ear at a port.
    pub fn ear_at(&self, port: u16) -> Option<&Ear> {
        Some(&self.voice_at(port)?.ear)
    }

    /// Updates all ears from the accounts of what the others say.
    ///
    /// `find` has the account of what is sent to a port.
    pub fn settle(
        &mut self,
        find: &mut dyn FnMut(u16) -> Option<SubAccount>,
        known: &mut dyn FnMut(&SubAccount) -> Tallies,
    ) {
        for Line { port, voice } in self.calls.values_mut() {
            let Some(ear) = voice.as_mut().map(|voice| &mut voice.ear) else { continue };
            if ear.account().is_none()
                && let Some(account) = find(*port)
            {
                ear.set_account(account);
            }
            if let Some(tallies) = ear.account().filter(|account| account.has_begun()).map(&mut *known) {
                ear.settle(tallies);
            }
        }
    }

    /// Has ears behind exchanges count what cannot be on its way any more.
    pub(crate) fn settle_losses(&mut self, now: Time) {
        let voices = self.calls.values_mut().filter_map(|line| line.voice.as_mut());
        voices.for_each(|voice| voice.ear.settle_losses(now));
    }

    /// Sets the account of what is sent to a port.
    pub fn set_account_at(&mut self, port: u16, account: SubAccount) {
        let line = self.by_port.get(&port).and_then(|call| self.calls.get_mut(call));
        let voice = line.and_then(|line| line.voice.as_mut());
        voice.into_iter().for_each(|voice| voice.ear.set_account(account.clone()));
    }

    /// Returns the quality of a call's voice as this side receives it.
    pub fn quality(&self, call: CallId) -> Option<CallQuality> {
        Some(self.calls.get(&call)?.voice.as_ref()?.ear.quality())
    }

    /// Frees the line of a call that is over, and returns its quality.
    pub fn finish(&mut self, now: Time, call: CallId) -> Option<CallQuality> {
        self.hush(now, call);
        let line = self.calls.remove(&call)?;
        self.by_port.remove(&line.port);
        self.free.push_back(line.port);
        let ear = line.voice?.ear;
        let quality = ear.quality();
        self.over.add(&ear);
        Some(quality)
    }

    /// Returns `true` if a datagram came to a line. One to a line without a call is ignored: the peer does not know yet.
    pub fn receive(&mut self, now: Time, from: SocketAddr, port: u16, bytes: &[u8]) -> bool {
        // RTCP has the next port.
        let (even, is_control) = (port & !1, port & 1 == 1);
        let Some(line) = self.by_port.get(&even).and_then(|call| self.calls.get_mut(call)) else {
            return self.free.contains(&even);
        };
        let Some(voice) = line.voice.as_mut() else { return true };
        if is_control {
            let is_peer = from == voice.control_to();
            if let Some(control) = voice.control.as_mut().filter(|_| is_peer) {
                self.control.note(control.receive(bytes, &voice.mouth, now));
            }
            return is_peer;
        }
        let Some(rtp) = rtp::Packet::new_checked(bytes).ok().filter(|_| from == voice.to) else {
            return false;
        };
        let (seq, timestamp, ssrc, payload) = (rtp.seq(), rtp.timestamp(), rtp.ssrc(), rtp.payload());
        let is_noise = self.settings.is_noise(rtp.payload_type(), payload.len());
        if !is_noise && rtp.payload_type() != voice.payload_type {
            return false;
        }
        self.received += 1;
        let packet = Incoming { seq, timestamp, ssrc, marker: rtp.marker(), is_speech: !is_noise, payload };
        voice.ear.receive(packet, now, &mut self.delays);
        true
    }

    /// Returns the next packet that is due, with its port and destination.
    pub fn poll(&mut self, now: Time) -> Option<(u16, SocketAddr, Vec<u8>)> {
        // A report to a peer without an address is left out, and the next packet is another's.
        while self.farewells.front().is_some() || self.deadline() <= now {
            if let Some(packet) = self.poll_one(now) {
                return Some(packet);
            }
        }
        None
    }

    fn poll_one(&mut self, now: Time) -> Option<(u16, SocketAddr, Vec<u8>)> {
        if let Some(farewell) = self.farewells.pop_front() {
            return Some(farewell);
        }
        let (at, call) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, call));
        let line = self.calls.get_mut(&call)?;
        let (port, voice) = (line.port, line.voice.as_mut()?);
        let packet = match voice.mouth.poll(now) {
            Some(bytes) => {
                self.sent += 1;
                Some((port, voice.to, bytes))
            }
            None => {
                let ends = (&voice.mouth, &voice.ear);
                let report =
                    voice.control.as_mut().and_then(|control| control.poll(ends, now, &mut self.random));
                let report = report.filter(|_| !voice.is_held);
                self.control.sent += u64::from(report.is_some());
                report.map(|bytes| (port + 1, voice.control_to(), bytes))
            }
        };
        self.due.insert((voice.deadline(), call));
        packet
    }

    /// Returns the time of the next packet.
    pub fn deadline(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Reports on the voice of a phone, which is zero before the start.
    pub fn observe(lines: Option<&Lines>, observer: &mut dyn Observer) {
        let mut all = lines.map(|lines| lines.over).unwrap_or_default();
        let voices =
            lines.iter().flat_map(|lines| lines.calls.values()).filter_map(|line| line.voice.as_ref());
        voices.for_each(|voice| all.add(&voice.ear));
        observer.counter(&metrics::VOICE_SENT, lines.map_or(0, |lines| lines.sent));
        observer.counter(&metrics::VOICE_RECEIVED, lines.map_or(0, |lines| lines.received));
        lines.map(|lines| lines.control).unwrap_or_default().observe(observer);
        let [lost, expected] = all.losses;
        observer.gauge(&metrics::VOICE_LOSS, lost as f64 / expected as f64);
        observer.gauge(&quality::BURST_RATIO, all.bursts.0 / f64::from(all.bursts.1));
        observer.gauge(&quality::MOUTH_TO_EAR, all.mouth_to_ear_s / f64::from(all.played));
        observer.gauge(&quality::R, all.r / f64::from(all.rated));
        observer.gauge(&quality::R_MIN, all.r_min.unwrap_or(f64::NAN));
        observer.gauge(&quality::MOS, all.mos / f64::from(all.rated));
    }
}

/// Returns `true` if this side sends voice to the peer.
fn sends(media: &Negotiated) -> bool {
    media.direction.sends() && !is_held(media)
}

/// Returns `true` if the peer has no address.
fn is_held(media: &Negotiated) -> bool {
    media.address.is_none_or(|address| address.is_unspecified()) || media.port == 0
}
