//! Voice of phones: from leg to leg, or to a conference and back.
//!
//! Packets keep the gaps in their numbers. What arrives over IAX2, which has no numbers, is numbered by its time; in pauses, which
//! comfort noise begins, it is not. Each leg with RTP has reports of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use bentpipe_net::Histogram;
use bentpipe_signalling::iax::CallId as IaxId;
use bentpipe_signalling::sdp::Negotiated;
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_voice::call::{Control, ControlCounts, Ear, Incoming, Mouth, Rtcp, Settings, Spoken};
use bentpipe_voice::conference::{Room, RoomCounts};
use bentpipe_voice::{Config as VoiceConfig, Playout, Speech};
use bentpipe_wire::{ipv4, rtp};
use rand::RngCore;

use super::leg::Leg;
use super::plan::Conference;
use crate::protocol::Voice;

/// Interval of packets, and its ticks of RTP's clock of 8 kHz.
const INTERVAL: Span = Span::from_millis(20);
const TICKS: u32 = 160;
/// Ticks of a millisecond.
const TICKS_PER_MS: u32 = 8;
/// Maximum distance of a packet's time from that of the first, in packets: a day.
const MAX_STEPS: i64 = 50 * 86_400;

/// UDP ports of the legs. The one that is longest free is the next.
#[derive(Debug, Default)]
pub(super) struct Ports {
    first: u16,
    legs: u16,
    free: VecDeque<u16>,
}

/// Packet that a leg sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// RTP from a port.
    Rtp(u16, SocketAddr, Vec<u8>),
    /// Voice of an IAX2 call, or the level of its comfort noise.
    ///
    /// It has the number of packet intervals since the first.
    Iax(IaxId, u32, Result<Vec<u8>, u8>),
}

/// Packet of a stream: its time in packet intervals since the first, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    steps: i64,
    number: i64,
    /// Set if it begins a spurt.
    marker: bool,
}

/// Speech or comfort noise.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content<'a> {
    /// Payload of the leg's codec.
    Payload(&'a [u8]),
    /// Speech, to be encoded.
    Spoken(Spoken),
    /// Comfort noise at a level in decibels below the overload point.
    Noise(u8),
}

/// Level of comfort noise without one of its own.
const NOISE_LEVEL: u8 = 65;

/// Place of a stream that comes to a leg.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// Time of the first packet.
    first: Option<u32>,
    /// Last number, and as it came if it did.
    last: i64,
    seq: Option<u16>,
    /// Numbers that are less than the steps, without numbers in the packets.
    skipped: i64,
    /// Time of the comfort noise in whose pause the stream is.
    paused: Option<i64>,
}

impl Position {
    /// Returns time and number of a packet.
    fn place(&mut self, ticks: u32, seq: Option<u16>, (marker, is_noise): (bool, bool)) -> At {
        let first = *self.first.get_or_insert(ticks);
        let steps = i64::from(ticks.wrapping_sub(first) as i32).div_euclid(TICKS.into());
        let Some(seq) = seq else { return self.place_by_time(steps, is_noise) };
        let ahead = self.seq.map_or(0, |last| i64::from(seq.wrapping_sub(last) as i16));
        let number = self.last + ahead;
        if ahead > 0 || self.seq.is_none() {
            (self.last, self.seq) = (number, Some(seq));
        }
        At { steps, number, marker }
    }

    /// Returns time and number of a packet without one.
    ///
    /// A gap is a loss, unless comfort noise came in front of it.
    fn place_by_time(&mut self, steps: i64, is_noise: bool) -> At {
        let is_after_pause = self.paused.is_some_and(|paused| steps > paused);
        if is_after_pause {
            self.skipped = steps - self.last - 1;
            self.paused = None;
        }
        let number = steps - self.skipped;
        self.last = self.last.max(number);
        if is_noise {
            self.paused = Some(steps);
        }
        At { steps, number, marker: is_after_pause && !is_noise }
    }
}

/// Voice at one leg.
#[derive(Debug)]
struct End {
    voice: Voice,
    settings: Option<Settings>,
    port: Option<u16>,
    /// Address and payload type of RTP, once known.
    to: Option<(SocketAddr, u8)>,
    session: Option<Session>,
    is_up: bool,
    /// Leg that gets what comes here.
    other: Leg,
    position: Position,
    ssrc: u32,
    seq: u16,
    timestamp: u32,
    /// Source of what comes: that of RTP, or a random one.
    source: u32,
}

/// RTCP of a leg, with the figures that it reports.
#[derive(Debug)]
struct Session {
    control: Control,
    mouth: Mouth,
    ear: Ear,
}

/// Conference with its members.
#[derive(Debug)]
struct Bridge {
    room: Room,
    playout: Playout,
    most: u32,
    next: Time,
    members: BTreeMap<u32, Member>,
}

/// Member of a conference.
#[derive(Debug)]
struct Member {
    leg: Leg,
    ear: Ear,
    /// Packets sent.
    steps: i64,
}

/// Voice of all calls of an exchange that have media.
#[derive(Debug)]
pub(super) struct Relay {
    ports: Ports,
    random: RandomStream,
    ends: BTreeMap<Leg, End>,
    by_port: BTreeMap<u16, Leg>,
    bridges: Vec<Bridge>,
    /// Packets that wait for the look-ahead of their encoder.
    later: BTreeMap<(Time, u64), (Leg, Outgoing)>,
    number: u64,
    /// Enables reports.
    has_rtcp: bool,
    /// Times of the next reports.
    reports: BTreeSet<(Time, Leg)>,
    control: ControlCounts,
    out: VecDeque<Outgoing>,
    delays: Histogram,
    sent: u64,
    received: u64,
}

impl Ports {
    /// Creates as many ports as legs, each even, in a range of twice as many.
    pub(super) fn new(first: u16, count: u16) -> Ports {
        let (first, legs) = (first.next_multiple_of(2), count / 2 - 1);
        Ports { first, legs, free: (0..legs).map(|leg| first + 2 * leg).collect() }
    }

    fn has(&self, port: u16) -> bool {
        (self.first..self.first + 2 * self.legs).contains(&port)
    }
}

/// Returns what follows for the decoder of a codec.
fn settings(voice: Voice, playout: Playout) -> Option<Settings> {
    voice.settings(playout, None, Speech::Continuous).ok()
}

/// Returns what follows for the reports of a leg. Metrics of voice are those of phones.
fn reporting(voice: Voice) -> Option<Settings> {
    let config = voice.config(Playout::default(), None, Speech::Continuous);
    VoiceConfig { rtcp: Rtcp::Reports, ..config }.settings().ok()
}

impl Relay {
    /// Creates the relay of an exchange with conferences.
    pub(super) fn new(
        ports: Ports,
        (conferences, has_rtcp): (&[Conference], bool),
        random: RandomStream,
    ) -> Relay {
        let bridge = |of: &Conference| Bridge {
            room: Room::new(of.role()),
            playout: of.playout,
            most: of.members,
            next: Time::NEVER,
            members: BTreeMap::new(),
        };
        Relay {
            ports,
            random,
            ends: BTreeMap::new(),
            by_port: BTreeMap::new(),
            bridges: conferences.iter().map(bridge).collect(),
            later: BTreeMap::new(),
            number: 0,
            has_rtcp,
            reports: BTreeSet::new(),
            control: ControlCounts::default(),
            out: VecDeque::new(),
            delays: Histogram::default(),
            sent: 0,
            received: 0,
        }
    }

    /// Reserves a port for the RTP of a leg.
    pub(super) fn reserve(&mut self) -> Option<u16> {
        self.ports.free.pop_front()
    }

    /// Returns a port that no leg takes.
    pub(super) fn give_back(&mut self, port: Option<u16>) {
        self.ports.free.extend(port);
    }

    /// Connects a leg to the leg that gets its voice.
    ///
    /// It has a port if it has RTP.
    pub(super) fn connect(&mut self, leg: Leg, other: Leg, (port, voice): (Option<u16>, Voice)) {
        let random = &mut self.random;
        let end = End {
            voice,
            settings: settings(voice, Playout::default()),
            port,
            to: None,
            is_up: false,
            other,
            position: Position::default(),
            session: None,
            ssrc: random.next_u32(),
            seq: random.next_u32() as u16 >> 1,
            timestamp: random.next_u32(),
            source: random.next_u32(),
        };
        self.by_port.extend(port.map(|port| (port, leg)));
        self.ends.insert(leg, end);
    }

    /// Returns the port of a leg's RTP.
    pub(super) fn port(&self, leg: Leg) -> Option<u16> {
        self.ends.get(&leg)?.port
    }

    /// Notes that a leg of IAX2 is up, with its voice.
    pub(super) fn up_iax(&mut self, leg: Leg, voice: Voice) {
        let Some(end) = self.ends.get_mut(&leg) else { return };
        end.is_up = true;
        (end.voice, end.settings) = (voice, settings(voice, Playout::default()));
    }

    /// Notes that a leg of SIP is up, with its audio.
    pub(super) fn up(&mut self, now: Time, leg: Leg, media: &Negotiated) {
        let Some(end) = self.ends.get_mut(&leg) else { return };
        end.is_up = true;
        if let Some(voice) = Voice::of_encoding(&media.codec.name) {
            (end.voice, end.settings) = (voice, settings(voice, Playout::default()));
        }
        end.to = media.address.map(|to| (SocketAddr::new(to, media.port), media.codec.payload_type));
        let reporting = if self.has_rtcp { reporting(end.voice) } else { None };
        let Some(settings) = reporting else { return };
        let control = Control::new(&settings, ipv4::HEADER_LEN, now, &mut self.random);
        end.session = control.map(|control| {
            self.reports.insert((control.deadline(), leg));
            let mouth = Mouth::of_others(&settings, (end.ssrc, end.timestamp), now);
            Session { control, mouth, ear: Ear::new(&settings, now) }
        });
    }

    /// Queues the reports that are due.
    fn report(&mut self, now: Time) {
        while let Some((at, leg)) = self.reports.first().copied().filter(|(at, _)| *at <= now) {
            self.reports.remove(&(at, leg));
            let Some(end) = self.ends.get_mut(&leg) else { continue };
            let (Some((to, _)), Some(port), Some(session)) = (end.to, end.port, end.session.as_mut()) else {
                continue;
            };
            let report = session.control.poll((&session.mouth, &session.ear), now, &mut self.random);
            self.reports.insert((session.control.deadline(), leg));
            self.control.sent += u64::from(report.is_some());
            self.out.extend(report.map(|bytes| Outgoing::Rtp(port + 1, control_of(to), bytes)));
        }
    }

    /// Says goodbye at a leg that is over.
    fn leave(&mut self, now: Time, end: &mut End) {
        let (Some((to, _)), Some(port), Some(mut session)) = (end.to, end.port, end.session.take()) else {
            return;
        };
        let report = session.control.leave((&session.mouth, &session.ear), now);
        self.control.sent += 1;
        self.out.push_back(Outgoing::Rtp(port + 1, control_of(to), report));
    }

    /// Forgets a leg that is over.
    pub(super) fn close(&mut self, now: Time, leg: Leg) {
        if let Some(mut end) = self.ends.remove(&leg) {
            if let Some(session) = &end.session {
                self.reports.remove(&(session.control.deadline(), leg));
            }
            self.leave(now, &mut end);
            if let Some(port) = end.port {
                self.by_port.remove(&port);
                self.ports.free.push_back(port);
            }
        }
        if let Leg::Room { conference, member } = leg
            && let Some(bridge) = self.bridges.get_mut(conference)
        {
            bridge.room.leave(member);
            bridge.members.remove(&member);
            bridge.next = if bridge.members.is_empty() { Time::NEVER } else { bridge.next };
        }
    }

    /// Returns the number of members of a conference.
    pub(super) fn members(&self, conference: usize) -> usize {
        self.bridges.get(conference).map_or(0, |bridge| bridge.members.len())
    }

    /// Returns `true` if a leg is a member of its conference.
    pub(super) fn is_member(&self, leg: Leg) -> bool {
        let Leg::Room { conference, member } = leg else { return false };
        self.bridges.get(conference).is_some_and(|bridge| bridge.members.contains_key(&member))
    }

    /// Returns `true` if a conference has room for one more.
    pub(super) fn has_room(&self, conference: usize) -> bool {
        self.bridges.get(conference).is_some_and(|bridge| (bridge.members.len() as u32) < bridge.most)
    }

    /// Joins the leg of a member to its conference. Mixes begin at once.
    pub(super) fn join(&mut self, now: Time, leg: Leg, (conference, member): (usize, u32)) {
        let Some(bridge) = self.bridges.get_mut(conference) else { return };
        let voice = self.ends.get(&leg).map_or(Voice::default(), |end| end.voice);
        let Some(settings) = settings(voice, bridge.playout) else { return };
        bridge.next = bridge.next.min(now + INTERVAL);
        bridge.room.join(member);
        bridge.members.insert(member, Member { leg, ear: Ear::new(&settings, now), steps: 0 });
    }

    /// Returns `true` if a datagram is voice of a leg. It is ignored if the leg is over: the peer does not know yet.
    pub(super) fn receive(&mut self, now: Time, from: SocketAddr, port: u16, bytes: &[u8]) -> bool {
        // RTCP has the next port.
        let Some(leg) = self.by_port.get(&(port & !1)).copied() else { return self.ports.has(port) };
        let Some(end) = self.ends.get_mut(&leg) else { return false };
        if port & 1 == 1 {
            let is_peer = end.to.is_none_or(|(to, _)| control_of(to) == from);
            if let Some(session) = end.session.as_mut().filter(|_| is_peer) {
                self.control.note(session.control.receive(bytes, &session.mouth, now));
            }
            return is_peer;
        }
        let is_peer = end.to.is_none_or(|(to, _)| to == from);
        let Some(rtp) = rtp::Packet::new_checked(bytes).ok().filter(|_| is_peer) else { return false };
        end.source = rtp.ssrc();
        let (seq, timestamp, marker, payload) = (rtp.seq(), rtp.timestamp(), rtp.marker(), rtp.payload());
        let is_noise =
            end.settings.as_ref().is_some_and(|own| own.is_noise(rtp.payload_type(), payload.len()));
        if !end.is_up {
            return true;
        }
        if let Some(Session { ear, .. }) = &mut end.session {
            let is_speech = !is_noise;
            let packet = Incoming { seq, timestamp, ssrc: rtp.ssrc(), marker, is_speech, payload };
            ear.receive(packet, now, &mut self.delays);
        }
        let at = end.position.place(timestamp, Some(seq), (marker, is_noise));
        let level = payload.first().copied().filter(|_| payload.len() == 1).unwrap_or(NOISE_LEVEL);
        self.accept(now, leg, at, if is_noise { Content::Noise(level) } else { Content::Payload(payload) });
        true
    }

    /// Receives the voice of an IAX2 call, or comfort noise without a payload.
    pub(super) fn receive_iax(&mut self, now: Time, leg: Leg, timestamp_ms: u32, payload: Option<&[u8]>) {
        let Some(end) = self.ends.get_mut(&leg).filter(|end| end.is_up) else { return };
        let ticks = timestamp_ms.wrapping_mul(TICKS_PER_MS);
        let at = end.position.place(ticks, None, (false, payload.is_none()));
        self.accept(now, leg, at, payload.map_or(Content::Noise(NOISE_LEVEL), Content::Payload));
    }

    fn accept(&mut self, now: Time, leg: Leg, at: At, content: Content<'_>) {
        let Some(end) = self.ends.get_mut(&leg) else { return };
        let payload = match content {
            Content::Payload(payload) if payload.len() != end.voice.frame_len() => return,
            Content::Payload(payload) => payload,
            Content::Noise(_) | Content::Spoken(_) => &[],
        };
        self.received += u64::from(matches!(leg, Leg::Sip(_)));
        let (other, source) = (end.other, end.source);
        match other {
            Leg::Room { conference, member } => {
                let is_speech = !matches!(content, Content::Noise(_));
                let packet = Incoming {
                    seq: at.number as u16,
                    timestamp: (at.steps as u32).wrapping_mul(TICKS),
                    ssrc: source,
                    marker: at.marker,
                    is_speech,
                    payload,
                };
                let Some(bridge) = self.bridges.get_mut(conference) else { return };
                let listener = bridge.members.get_mut(&member);
                let Some(listener) = listener else { return };
                let timestamp = packet.timestamp;
                let frame = listener.ear.receive(packet, now, &mut self.delays);
                frame.into_iter().for_each(|frame| bridge.room.push(member, frame));
                if !is_speech {
                    bridge.room.pause(member, listener.ear.noise_due(timestamp, now));
                }
            }
            _ => self.pass_on(now, (leg, other), at, content),
        }
    }

    /// Passes a frame on to the other leg, in its codec.
    fn pass_on(&mut self, now: Time, (from, to): (Leg, Leg), at: At, content: Content<'_>) {
        let (Some(here), Some(there)) = (self.ends.get(&from), self.ends.get(&to)) else { return };
        if !there.is_up {
            return;
        }
        if here.voice == there.voice {
            return self.send(now, to, (at, content, &[]));
        }
        let Some(decoder) = &here.settings else { return };
        let content = match content {
            Content::Payload(payload) => Content::Spoken(Spoken::parse(payload).transcoded(decoder)),
            other => other,
        };
        self.encode(now, to, (at, content, &[]));
    }

    /// Encodes speech for a leg. It leaves after the look-ahead.
    fn encode(&mut self, now: Time, to: Leg, (at, content, sources): (At, Content<'_>, &[u32])) {
        let Some(end) = self.ends.get(&to).filter(|end| end.is_up) else { return };
        let Some(encoder) = &end.settings else { return };
        let leaves = now + encoder.format().look_ahead;
        let mut payload = vec![0; end.voice.frame_len()];
        let content = match content {
            Content::Spoken(spoken) => {
                spoken.emit(&mut payload);
                Content::Payload(&payload)
            }
            other => other,
        };
        self.send(leaves, to, (at, content, sources));
    }

    fn send(&mut self, leaves: Time, to: Leg, (at, content, sources): (At, Content<'_>, &[u32])) {
        let Some(end) = self.ends.get(&to).filter(|_| at.steps.abs() <= MAX_STEPS) else { return };
        let outgoing = match (to, end.to, end.port) {
            (Leg::Iax(call), ..) => {
                let Ok(steps) = u32::try_from(at.steps) else { return };
                let voice = match content {
                    Content::Payload(payload) => Ok(payload.to_vec()),
                    Content::Noise(level) => Err(level),
                    Content::Spoken(_) => return,
                };
                Outgoing::Iax(call, steps, voice)
            }
            (Leg::Sip(_), Some((address, payload_type)), Some(port)) => {
                let seq = end.seq.wrapping_add(at.number as u16);
                let timestamp = end.timestamp.wrapping_add((at.steps as u32).wrapping_mul(TICKS));
                let noise = end.settings.as_ref().map(|settings| settings.format().noise);
                let (payload_type, payload) = match (content, noise) {
                    (Content::Payload(payload), _) => (payload_type, payload.to_vec()),
                    (Content::Noise(level), Some(noise)) => {
                        let mut payload = vec![0; noise.len];
                        payload[..1].fill(if noise.payload_type.is_some() { level } else { 0 });
                        (noise.payload_type.unwrap_or(payload_type), payload)
                    }
                    (Content::Noise(_), None) | (Content::Spoken(_), _) => return,
                };
                let header = rtp::Repr::new(payload_type, seq, timestamp, end.ssrc);
                let mut header = rtp::Repr { marker: at.marker, ..header };
                sources.iter().for_each(|source| {
                    header.csrcs.push(*source);
                });
                let mut bytes = vec![0; header.buffer_len()];
                header.emit(&mut bytes);
                bytes.extend(payload);
                Outgoing::Rtp(port, address, bytes)
            }
            _ => return,
        };
        self.number += 1;
        self.later.insert((leaves, self.number), (to, outgoing));
    }

    /// Mixes what is due, and releases packets whose look-ahead is over.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        for conference in 0..self.bridges.len() {
            while self.bridges[conference].next <= now {
                let bridge = &mut self.bridges[conference];
                let at = bridge.next;
                bridge.next += INTERVAL;
                let mixes = bridge.room.mixes(at);
                let mut due = Vec::with_capacity(mixes.len());
                for (mix, spoken) in mixes {
                    let Some(member) = bridge.members.get_mut(&mix.member) else { continue };
                    due.push((member.leg, member.steps, spoken, mix.sources));
                    member.steps += 1;
                }
                for (leg, steps, spoken, sources) in due {
                    let place = At { steps, number: steps, marker: false };
                    self.encode(at, leg, (place, Content::Spoken(spoken), &sources));
                }
            }
        }
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let (leg, outgoing) = first.remove();
            if let Outgoing::Rtp(_, _, bytes) = &outgoing {
                self.sent += 1;
                let session = self.ends.get_mut(&leg).and_then(|end| end.session.as_mut());
                session
                    .into_iter()
                    .for_each(|session| session.mouth.note_sent(bytes.len() - rtp::HEADER_LEN, now));
            }
            self.out.push_back(outgoing);
        }
        self.report(now);
    }

    /// Returns the next packet to send.
    pub(super) fn transmit(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// Returns the time of the next packet.
    pub(super) fn deadline(&self) -> Time {
        let mix = self.bridges.iter().map(|bridge| bridge.next).min().unwrap_or(Time::NEVER);
        let report = self.reports.first().map_or(Time::NEVER, |(at, _)| *at);
        self.later.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at).min(mix).min(report)
    }

    /// Returns the numbers of RTP packets sent and received. Those over IAX2 are counted there.
    pub(super) fn sent_and_received(&self) -> [u64; 2] {
        [self.sent, self.received]
    }

    /// Returns the counts of RTCP.
    pub(super) fn control(&self) -> ControlCounts {
        self.control
    }

    /// Returns the number of members of all conferences, and their counts.
    pub(super) fn conferences(&self) -> (usize, RoomCounts) {
        let mut sum = RoomCounts::default();
        for counts in self.bridges.iter().map(|bridge| bridge.room.counts()) {
            sum.mixes += counts.mixes;
            sum.concealed += counts.concealed;
            sum.left_out += counts.left_out;
        }
        (self.bridges.iter().map(|bridge| bridge.room.len()).sum(), sum)
    }
}

/// Returns the address of RTCP next to that of RTP (RFC 3550, section 11).
fn control_of(to: SocketAddr) -> SocketAddr {
    SocketAddr::new(to.ip(), to.port().wrapping_add(1))
}

/// Returns the time stamp of a packet over IAX2: whole packets after the first.
pub(super) fn iax_timestamp(base: u32, steps: u32) -> u32 {
    base.wrapping_add(steps.wrapping_mul(INTERVAL.as_nanos() as u32 / 1_000_000))
}
