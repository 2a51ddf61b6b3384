//! Voice of SIP trunks whose phones have none: RTP of a constant rate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bentpipe_signalling::agent::{CallId, Event};
use bentpipe_signalling::sdp::{Capabilities, Codec, Direction, Negotiated};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::rtp;

use crate::protocol::Voice;

/// UDP port of RTP. Streams of all calls share it, each with its own source (SSRC).
pub(super) const RTP_PORT: u16 = 4000;
/// Packet interval, and its ticks of RTP's clock of 8 kHz.
const INTERVAL: Span = Span::from_millis(20);
const TICKS: u32 = 160;

/// Stream that this exchange sends.
#[derive(Clone, Copy, Debug)]
struct Sending {
    to: SocketAddr,
    payload_type: u8,
    payload_len: usize,
    ssrc: u32,
    seq: u16,
    timestamp: u32,
    next: Time,
}

/// Streams of all calls over SIP trunks.
#[derive(Debug)]
pub(super) struct Media {
    /// Exchanges at the other ends of trunks. Phones send no media.
    exchanges: BTreeSet<IpAddr>,
    random: RandomStream,
    /// Calls whose voice another leg has.
    relayed: BTreeSet<CallId>,
    streams: BTreeMap<CallId, Sending>,
    /// Times of the next packets.
    due: BTreeSet<(Time, CallId)>,
    packets: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Packets sent.
    pub(super) sent: u64,
    /// RTP packets received of exchanges.
    pub(super) received: u64,
}

impl Media {
    /// Creates the media of an exchange with trunks to and from these addresses.
    pub(super) fn new(exchanges: BTreeSet<IpAddr>, random: RandomStream) -> Media {
        Media {
            exchanges,
            random,
            relayed: BTreeSet::new(),
            streams: BTreeMap::new(),
            due: BTreeSet::new(),
            packets: VecDeque::new(),
            sent: 0,
            received: 0,
        }
    }

    /// Leaves the voice of a call to another leg.
    pub(super) fn relay(&mut self, call: CallId) {
        self.relayed.insert(call);
    }

    /// Starts the voice of a call between exchanges that is up, and stops it afterwards.
    pub(super) fn note(&mut self, now: Time, event: &Event) {
        match event {
            Event::Answered { call, media: Some(media) } | Event::Confirmed { call, media: Some(media) } => {
                self.start(now, *call, media);
            }
            Event::Ended { call, .. } | Event::Failed { call, .. } => {
                self.stop(*call);
                self.relayed.remove(call);
            }
            _ => {}
        }
    }

    fn start(&mut self, now: Time, call: CallId, media: &Negotiated) {
        if self.relayed.contains(&call) {
            return;
        }
        let Some(address) = media.address.filter(|address| self.exchanges.contains(address)) else { return };
        let Some(voice) = Voice::of_encoding(&media.codec.name) else { return };
        let mut random = || (self.random.unit() * 4_294_967_296.0) as u32;
        let (ssrc, seq, timestamp) = (random(), random() as u16, random());
        self.stop(call);
        let sending = Sending {
            to: SocketAddr::new(address, media.port),
            payload_type: media.codec.payload_type,
            payload_len: voice.frame_len(),
            ssrc,
            seq,
            timestamp,
            next: now,
        };
        self.streams.insert(call, sending);
        self.due.insert((now, call));
    }

    /// Stops the voice of a call.
    pub(super) fn stop(&mut self, call: CallId) {
        if let Some(sending) = self.streams.remove(&call) {
            self.due.remove(&(sending.next, call));
        }
    }

    /// Queues the packets that are due.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        while let Some((at, call)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, call));
            let Some(sending) = self.streams.get_mut(&call) else { continue };
            let header = rtp::Repr::new(sending.payload_type, sending.seq, sending.timestamp, sending.ssrc);
            let mut bytes = vec![0; header.buffer_len() + sending.payload_len];
            header.emit(&mut bytes[..header.buffer_len()]);
            self.packets.push_back((sending.to, bytes));
            self.sent += 1;
            sending.seq = sending.seq.wrapping_add(1);
            sending.timestamp = sending.timestamp.wrapping_add(TICKS);
            sending.next = at + INTERVAL;
            self.due.insert((sending.next, call));
        }
    }

    /// Returns the time of the next packet.
    pub(super) fn deadline(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Returns the next packet to send.
    pub(super) fn transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.packets.pop_front()
    }

    /// Returns `true` if a datagram is RTP of an exchange, and counts it.
    pub(super) fn receive(&mut self, from: SocketAddr, bytes: &[u8]) -> bool {
        let is_voice = self.exchanges.contains(&from.ip()) && rtp::Packet::new_checked(bytes).is_ok();
        self.received += u64::from(is_voice);
        is_voice
    }
}

/// Returns the audio that an exchange offers over a SIP trunk: its codec alone.
pub(super) fn offered(local: SocketAddr, voice: Voice) -> Capabilities {
    described(local, vec![voice])
}

/// Returns the audio at a port of its own, relayed with its comfort noise.
pub(super) fn at_port(capabilities: Capabilities, port: Option<u16>) -> Capabilities {
    let Some(port) = port else { return capabilities };
    let mut codecs = capabilities.codecs;
    codecs.push(Codec::new(13, "CN", 8000));
    Capabilities { port, codecs, ..capabilities }
}

/// Returns the audio that an exchange accepts: that of phones and of trunks.
pub(super) fn accepted(local: SocketAddr) -> Capabilities {
    described(local, vec![Voice::G711a, Voice::G729, Voice::Gsm, Voice::G711u, Voice::Ilbc])
}

fn described(local: SocketAddr, voices: Vec<Voice>) -> Capabilities {
    let codecs = voices.into_iter().map(Voice::encoding).collect();
    Capabilities { address: local.ip(), port: RTP_PORT, codecs, ptime: 20, direction: Direction::SendRecv }
}
