//! Voice of phones: from leg to leg, or to a conference and back.
//!
//! Packets are numbered by their time. What arrives over IAX2, which has no numbers, so keeps its gaps.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use bentpipe_net::Histogram;
use bentpipe_signalling::iax::CallId as IaxId;
use bentpipe_signalling::sdp::Negotiated;
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_voice::call::{Ear, Incoming, Settings, Spoken};
use bentpipe_voice::conference::{Room, RoomCounts};
use bentpipe_voice::{Playout, Speech};
use bentpipe_wire::rtp;
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
    /// Voice of an IAX2 call, with the number of packets since the first.
    Iax(IaxId, u32, Vec<u8>),
}

/// Voice at one leg.
#[derive(Debug)]
struct End {
    voice: Voice,
    settings: Option<Settings>,
    port: Option<u16>,
    /// Address and payload type of RTP, once known.
    to: Option<(SocketAddr, u8)>,
    is_up: bool,
    /// Leg that gets what comes here.
    other: Leg,
    /// Time of the first packet that came.
    first: Option<u32>,
    ssrc: u32,
    seq: u16,
    timestamp: u32,
    /// Source of what comes: that of RTP, or a random one.
    source: u32,
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
    later: BTreeMap<(Time, u64), Outgoing>,
    number: u64,
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

impl Relay {
    /// Creates the relay of an exchange with conferences.
    pub(super) fn new(ports: Ports, conferences: &[Conference], random: RandomStream) -> Relay {
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
            first: None,
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

    /// Notes that a leg is up, with its audio if it has SIP.
    pub(super) fn up(&mut self, leg: Leg, media: Option<&Negotiated>) {
        let Some(end) = self.ends.get_mut(&leg) else { return };
        end.is_up = true;
        let Some(media) = media else { return };
        if let Some(voice) = Voice::of_encoding(&media.codec.name) {
            (end.voice, end.settings) = (voice, settings(voice, Playout::default()));
        }
        end.to = media.address.map(|to| (SocketAddr::new(to, media.port), media.codec.payload_type));
    }

    /// Forgets a leg that is over.
    pub(super) fn close(&mut self, leg: Leg) {
        if let Some(port) = self.ends.remove(&leg).and_then(|end| end.port) {
            self.by_port.remove(&port);
            self.ports.free.push_back(port);
        }
        if let Leg::Room { conference, member } = leg
            && let Some(bridge) = self.bridges.get_mut(conference)
        {
            bridge.room.leave(member);
            bridge.members.remove(&member);
            bridge.next = if bridge.members.is_empty() { Time::NEVER } else { bridge.next };
        }
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
        let Some(leg) = self.by_port.get(&port).copied() else { return self.ports.has(port) };
        let Some(end) = self.ends.get_mut(&leg) else { return false };
        let is_peer = end.to.is_none_or(|(to, _)| to == from);
        let Some(rtp) = rtp::Packet::new_checked(bytes).ok().filter(|_| is_peer) else { return false };
        end.source = rtp.ssrc();
        self.accept(now, leg, rtp.timestamp(), rtp.payload());
        true
    }

    /// Receives the voice of an IAX2 call.
    pub(super) fn receive_iax(&mut self, now: Time, leg: Leg, timestamp_ms: u32, payload: &[u8]) {
        self.accept(now, leg, timestamp_ms.wrapping_mul(TICKS_PER_MS), payload);
    }

    fn accept(&mut self, now: Time, leg: Leg, ticks: u32, payload: &[u8]) {
        let Some(end) = self.ends.get_mut(&leg).filter(|end| end.is_up) else { return };
        if payload.len() != end.voice.frame_len() {
            return;
        }
        self.received += u64::from(matches!(leg, Leg::Sip(_)));
        let first = *end.first.get_or_insert(ticks);
        let steps = i64::from(ticks.wrapping_sub(first) as i32).div_euclid(TICKS.into());
        let (other, source) = (end.other, end.source);
        match other {
            Leg::Room { conference, member } => {
                let packet = Incoming {
                    seq: steps as u16,
                    timestamp: (steps as u32).wrapping_mul(TICKS),
                    ssrc: source,
                    payload,
                };
                let Some(bridge) = self.bridges.get_mut(conference) else { return };
                let listener = bridge.members.get_mut(&member);
                let frame = listener.and_then(|listener| listener.ear.receive(packet, now, &mut self.delays));
                frame.into_iter().for_each(|frame| bridge.room.push(member, frame));
            }
            _ => self.pass_on(now, (leg, other), (steps, payload)),
        }
    }

    /// Passes a frame on to the other leg, in its codec.
    fn pass_on(&mut self, now: Time, (from, to): (Leg, Leg), (steps, payload): (i64, &[u8])) {
        let (Some(here), Some(there)) = (self.ends.get(&from), self.ends.get(&to)) else { return };
        if !there.is_up {
            return;
        }
        if here.voice == there.voice {
            return self.send(now, to, (steps, payload.to_vec(), &[]));
        }
        let Some(decoder) = &here.settings else { return };
        let spoken = Spoken::parse(payload).transcoded(decoder);
        self.encode(now, to, (steps, spoken, &[]));
    }

    /// Encodes speech for a leg. It leaves after the look-ahead.
    fn encode(&mut self, now: Time, to: Leg, (steps, spoken, sources): (i64, Spoken, &[u32])) {
        let Some(end) = self.ends.get(&to).filter(|end| end.is_up) else { return };
        let Some(encoder) = &end.settings else { return };
        let mut payload = vec![0; end.voice.frame_len()];
        spoken.emit(&mut payload);
        self.send(now + encoder.format().look_ahead, to, (steps, payload, sources));
    }

    fn send(&mut self, at: Time, to: Leg, (steps, payload, sources): (i64, Vec<u8>, &[u32])) {
        let Some(end) = self.ends.get(&to).filter(|_| steps.abs() <= MAX_STEPS) else { return };
        let outgoing = match (to, end.to, end.port) {
            (Leg::Iax(call), ..) => {
                let Ok(steps) = u32::try_from(steps) else { return };
                Outgoing::Iax(call, steps, payload)
            }
            (Leg::Sip(_), Some((address, payload_type)), Some(port)) => {
                let seq = end.seq.wrapping_add(steps as u16);
                let timestamp = end.timestamp.wrapping_add((steps as u32).wrapping_mul(TICKS));
                let mut header = rtp::Repr::new(payload_type, seq, timestamp, end.ssrc);
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
        self.later.insert((at, self.number), outgoing);
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
                    self.encode(at, leg, (steps, spoken, &sources));
                }
            }
        }
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let outgoing = first.remove();
            self.sent += u64::from(matches!(outgoing, Outgoing::Rtp(..)));
            self.out.push_back(outgoing);
        }
    }

    /// Returns the next packet to send.
    pub(super) fn transmit(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// Returns the time of the next packet.
    pub(super) fn deadline(&self) -> Time {
        let mix = self.bridges.iter().map(|bridge| bridge.next).min().unwrap_or(Time::NEVER);
        self.later.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at).min(mix)
    }

    /// Returns the numbers of RTP packets sent and received. Those over IAX2 are counted there.
    pub(super) fn sent_and_received(&self) -> [u64; 2] {
        [self.sent, self.received]
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

/// Returns the time stamp of a packet over IAX2: whole packets after the first.
pub(super) fn iax_timestamp(base: u32, steps: u32) -> u32 {
    base.wrapping_add(steps.wrapping_mul(INTERVAL.as_nanos() as u32 / 1_000_000))
}
