//! Voice of calls on real sockets, by the phones of scenarios.
//!
//! They have mouths, playout buffers and the E-model. A payload of speech begins with the mark of `bentpipe rtp`: the time of
//! sending and the machine whose clock it is of. In place of it the phones get the properties of speech that they have in scenarios.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::AddAssign;
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_emu::datagrams::{BATCH, Inbox, refusals, report_refusals, stamp_arrivals};
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{InvalidConfig, Observer};
use bentpipe_rtp::machine;
use bentpipe_signalling::agent::CallId;
use bentpipe_signalling::sdp::{Capabilities, Codec, Direction, Events, Negotiated};
use bentpipe_telephony::{Lines, PhoneVoice};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::rtp;
use serde_json::{Value, json};
use socket2::SockRef;

use crate::consent::{Asked, Consents};
use crate::dtmf::{self, Digits};
use crate::echo::{Echo, Returned};
use crate::marks::Marks;
use crate::readable::Readable;
use crate::source::{Numbers, Refusal, Source, Stream};

/// Longest datagram taken. A packet of speech is shorter.
const LONGEST: usize = 2048;
/// Batches taken from a socket in one turn.
const MAX_BATCHES: usize = 4;
/// Codepoint of voice: expedited forwarding (RFC 4594).
const DSCP: u8 = 46;

/// Payload type of telephone events that this side offers. A peer's offer may have another.
const EVENTS: u8 = 101;

/// Voice of calls to open.
#[derive(Clone, Debug)]
pub struct MediaSettings {
    /// Voice, as SIP phones of scenarios have it.
    pub voice: PhoneVoice,
    /// Port of the first line. Each line has two, of RTP and RTCP.
    pub first_port: u16,
    /// Bound of the error between this machine's clock and those of others. Default: other clocks are not believed.
    pub clock_error: Option<Span>,
    /// Digits that each call sends after its beginning (RFC 4733).
    pub digits: String,
}

/// Lines of a phone with their sockets.
pub(crate) struct Media {
    address: IpAddr,
    lines: Lines,
    consents: Consents,
    /// Calls that this side has ended, in this order. They keep their lines until others need them.
    leaving: VecDeque<CallId>,
    sockets: BTreeMap<u16, UdpSocket>,
    readable: Readable,
    inbox: Inbox,
    marks: Marks,
    /// Packets of speech by this machine's clock, by stated clocks, and by unknown ones.
    clocks: [u64; 3],
    /// Packets that the kernel did not send.
    unsent: u64,
    /// Streams of the lines with voice.
    streams: BTreeMap<u16, Leg>,
    /// Datagrams that were not taken, by reason.
    refused: BTreeMap<Refusal, u64>,
    /// Times that a line followed another stream.
    changes: u64,
    /// Own packets that came back, of calls that are over and of all.
    echo: Echo,
    /// Calls that are over, and those of them without voice.
    expected: Expected,
    digits: String,
    sent_digits: Digits,
    received_digits: Digits,
}

/// Streams of a call at its line.
#[derive(Clone, Debug)]
struct Leg {
    source: Source,
    /// Host that signals, which may be sent to.
    signals: Option<IpAddr>,
    described: SocketAddr,
    /// Set once the port that voice comes from is closed to what is sent back.
    is_one_way: bool,
    events: Option<Events>,
    /// Payload types of the codec, of the peer and of this side.
    types: [u8; 2],
    /// Time of sending in the first own packet.
    first_sent_ns: Option<u64>,
    /// Own packets that came back under their own source.
    looped: Returned,
    /// Own packets in a stream of the other side.
    returned: Returned,
    /// Set once the other side's own voice came.
    has_voice: bool,
    /// Set once voice of the other side is expected.
    is_expected: bool,
    sender: dtmf::Sender,
    receiver: dtmf::Receiver,
}

/// Calls in which the other side may speak.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    calls: u64,
    /// Calls in which nothing came.
    silent: u64,
}

impl AddAssign for Expected {
    fn add_assign(&mut self, other: Expected) {
        self.calls += other.calls;
        self.silent += other.silent;
    }
}

impl Leg {
    /// Notes a packet that the other side made.
    fn note_own(&mut self, seq: u16) {
        self.has_voice = true;
        self.returned.note_other(seq);
    }

    /// Returns the call, and that nothing came in it.
    fn silence(&self) -> Expected {
        let came = self.has_voice || self.looped.is_some() || self.returned.is_some();
        let calls = u64::from(self.is_expected);
        Expected { calls, silent: if came { 0 } else { calls } }
    }
}

/// Datagram at a line.
struct Arrival {
    port: u16,
    from: SocketAddr,
    at: Time,
    bytes: Vec<u8>,
}

/// Reason why the lines of a phone were not opened.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// Value of the voice that is impossible.
    #[error("{0}")]
    Voice(#[from] InvalidConfig),
    /// Ports that do not exist.
    #[error("expected an even first port with room for {0} lines of two ports each")]
    Ports(u16),
    /// Port that cannot be had.
    #[error("port {0}: {1}")]
    Socket(u16, io::Error),
    /// Lack of a means to wait for the ports.
    #[error("the sockets of voice cannot be watched: {0}")]
    Watch(io::Error),
}

impl Media {
    /// Opens a socket of RTP and one of RTCP for each line. `now` is the time of the phone.
    pub(crate) fn open(
        plan: &MediaSettings,
        address: IpAddr,
        now: Time,
        random: RandomStream,
    ) -> Result<Media, MediaError> {
        plan.voice.ensure()?;
        let settings = plan.voice.settings()?;
        let lines = plan.voice.lines;
        let wrong = || MediaError::Ports(lines);
        let first = plan.first_port;
        let end = u32::from(first) + 2 * u32::from(lines);
        let before =
            first.checked_sub(1).filter(|_| first.is_multiple_of(2) && end <= 65_536).ok_or_else(wrong)?;
        // Lines have the ports after that of SIP.
        let made = Lines::new(plan.voice, SocketAddr::new(address, before), random).ok_or_else(wrong)?;
        let open = |port: u16| {
            let opened = open(SocketAddr::new(address, port));
            opened.map(|socket| (port, socket)).map_err(|error| MediaError::Socket(port, error))
        };
        let sockets: BTreeMap<u16, UdpSocket> =
            (u32::from(first)..end).map(|port| open(port as u16)).collect::<Result<_, _>>()?;
        let readable = Readable::of(&sockets).map_err(MediaError::Watch)?;
        #[expect(clippy::disallowed_methods, reason = "marks have the time of the day")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Ok(Media {
            address,
            lines: made,
            consents: Consents::default(),
            leaving: VecDeque::new(),
            sockets,
            readable,
            inbox: Inbox::new(LONGEST),
            marks: Marks {
                settings,
                origin_ns: since.saturating_sub(now.as_nanos()),
                machine: machine(),
                clock_error: plan.clock_error,
            },
            clocks: [0; 3],
            unsent: 0,
            streams: BTreeMap::new(),
            refused: BTreeMap::new(),
            changes: 0,
            echo: Echo::default(),
            expected: Expected::default(),
            digits: plan.digits.clone(),
            sent_digits: Digits::default(),
            received_digits: Digits::default(),
        })
    }

    /// Returns what a call offers or accepts, if a line is free.
    pub(crate) fn reserve(&mut self, now: Time) -> Option<(u16, Capabilities)> {
        let port = self.free(now)?;
        Some((port, self.capabilities(port)))
    }

    /// Returns what a call at a port offers or accepts: speech, and telephone events.
    fn capabilities(&self, port: u16) -> Capabilities {
        let mut capabilities = self.lines.capabilities(port);
        capabilities.codecs.push(Codec::telephone_events(EVENTS));
        capabilities
    }

    /// Returns the port of a free line.
    ///
    /// Lines whose call this side has ended are free too: the peer need not answer the BYE.
    fn free(&mut self, now: Time) -> Option<u16> {
        if let Some(port) = self.lines.reserve() {
            return Some(port);
        }
        while let Some(call) = self.leaving.pop_front() {
            self.finish(now, call);
            if let Some(port) = self.lines.reserve() {
                return Some(port);
            }
        }
        None
    }

    /// Assigns a reserved line to a call, or frees it.
    pub(crate) fn assign(&mut self, call: Option<CallId>, port: u16) {
        match call {
            Some(call) => self.lines.take(call, port),
            None => self.lines.give_back(port),
        }
    }

    /// Returns `true` if a line was free for an incoming call. It is then reserved.
    pub(crate) fn take(&mut self, now: Time, call: CallId) -> bool {
        let Some(port) = self.free(now) else { return false };
        self.lines.take(call, port);
        true
    }

    /// Returns what a call that comes in accepts.
    pub(crate) fn accepted(&self, call: CallId) -> Option<Capabilities> {
        Some(self.capabilities(self.lines.port(call)?))
    }

    /// Returns the number of lines.
    pub(crate) fn lines(&self) -> usize {
        self.sockets.len() / 2
    }

    /// Starts the voice of a call, or changes it: moved, on hold, or resumed.
    ///
    /// Until the call is confirmed it only listens.
    ///
    /// To a line of this phone it sends nothing: that would be its own caller. A caller's host has voice at once, and another
    /// one that the caller names once it sends voice itself.
    pub(crate) fn follow(
        &mut self,
        now: Time,
        call: CallId,
        media: &Negotiated,
        (signals, is_caller, waits): (Option<IpAddr>, bool, bool),
    ) {
        let Some(port) = self.lines.port(call) else { return };
        let nowhere: IpAddr = if self.address.is_ipv6() { [0_u16; 8].into() } else { [0, 0, 0, 0].into() };
        let to = SocketAddr::new(media.address.unwrap_or(nowhere), media.port);
        let to = if self.is_own(to) { SocketAddr::new(nowhere, 0) } else { to };
        let is_held = to.ip().is_unspecified() || to.port() == 0;
        let sends = media.direction.sends() && !is_held;
        let direction = if waits { Direction::RecvOnly } else { media.direction };
        let followed = Negotiated { address: Some(to.ip()), port: to.port(), direction, ..media.clone() };
        self.lines.start(now, call, &followed);
        let caller = signals.filter(|_| is_caller);
        self.consents.follow(now, (call, port), Asked { to, caller, sends: sends && !waits, waits });
        let types = [media.receive_type, media.codec.payload_type];
        let leg = self.streams.entry(port).or_insert_with(|| Leg {
            source: Source::new(to, signals),
            signals,
            described: to,
            is_one_way: false,
            events: media.events,
            types,
            first_sent_ns: None,
            looped: Returned::default(),
            returned: Returned::default(),
            has_voice: false,
            is_expected: false,
            sender: dtmf::Sender::new(&self.digits),
            receiver: dtmf::Receiver::default(),
        });
        leg.is_expected |= media.direction.receives() && !waits;
        leg.source.describe(to);
        let is_moved = std::mem::replace(&mut leg.described, to) != to;
        (leg.events, leg.types) = (media.events, types);
        // A peer behind NAT names an address that it does not send from. Without a new one it stays where it was.
        if let Some(from) = leg.source.address().filter(|_| !is_moved) {
            self.send_back(port, from);
        }
    }

    /// Sends voice to the address that voice comes from, on the peer's host.
    fn send_back(&mut self, port: u16, from: SocketAddr) {
        let Some(leg) = self.streams.get(&port) else { return };
        let host = from.ip().to_canonical();
        let is_held = leg.described.ip().is_unspecified() || leg.described.port() == 0;
        let is_signalling = leg.signals.is_some_and(|signals| signals.to_canonical() == host);
        // Another port of the described host is the peer's too.
        let is_named = leg.described.ip().to_canonical() == host;
        let is_wanted = !is_held && !leg.is_one_way && (is_signalling || is_named);
        if is_wanted && self.lines.destination_at(port) != Some(from) {
            self.lines.send_to(port, from);
            self.consents.move_to(port, from);
        }
    }

    /// Notes a closed port. Voice goes to the described address then, if it did not.
    fn note_closed(&mut self, port: u16, to: SocketAddr) {
        self.consents.refuse(port, to);
        let is_used = self.lines.destination_at(port) == Some(to);
        if let Some(leg) = self.streams.get_mut(&port).filter(|leg| is_used && leg.described != to) {
            leg.is_one_way = true;
            self.lines.send_to(port, leg.described);
            self.consents.move_to(port, leg.described);
        }
    }

    /// Returns the calls whose peers sent nothing for too long.
    pub(crate) fn lost(&mut self, now: Time) -> Vec<CallId> {
        self.consents.lost(now)
    }

    /// Returns `true` for the address of a line of this phone.
    fn is_own(&self, at: SocketAddr) -> bool {
        is_own(self.address, &self.sockets, at)
    }

    /// Ends what this side says.
    pub(crate) fn hush(&mut self, now: Time, call: CallId) {
        self.lines.hush(now, call);
        if self.lines.port(call).is_some() && !self.leaving.contains(&call) {
            self.leaving.push_back(call);
        }
    }

    /// Frees the line of a call that is over.
    pub(crate) fn finish(&mut self, now: Time, call: CallId) {
        let port = self.lines.port(call);
        self.lines.finish(now, call);
        self.leaving.retain(|other| *other != call);
        // The goodbye goes while the consent is known.
        self.send(now);
        let Some(port) = port else { return };
        self.consents.finish(port);
        if let Some(leg) = self.streams.remove(&port) {
            self.changes += leg.source.changes;
            self.echo.add(&leg.looped);
            self.echo.add(&leg.returned);
            self.expected += leg.silence();
        }
    }

    /// Returns the time of the next packet.
    pub(crate) fn deadline(&self) -> Time {
        self.lines.deadline()
    }

    /// Returns the descriptor to wait for.
    ///
    /// It can be read if one of the sockets can.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.readable.descriptor()
    }

    /// Sends what is due.
    pub(crate) fn send(&mut self, now: Time) {
        while let Some((port, to, mut bytes)) = self.lines.poll(now) {
            if !self.consents.allows(now, port) {
                continue;
            }
            if port.is_multiple_of(2) && !self.replace_by_digit(port, &mut bytes) {
                let sent_ns = self.marks.write(&mut bytes);
                if let Some(leg) = self.streams.get_mut(&port) {
                    leg.first_sent_ns = leg.first_sent_ns.or(sent_ns);
                }
            }
            let Some(socket) = self.sockets.get(&port) else { continue };
            // The refusal of an earlier packet is the error of this one, which is then sent again.
            let sent = socket.send_to(&bytes, to).or_else(|error| match error.kind() {
                io::ErrorKind::ConnectionRefused => socket.send_to(&bytes, to),
                _ => Err(error),
            });
            self.unsent += u64::from(sent.is_err() && port.is_multiple_of(2));
        }
    }

    /// Returns `true` if a packet of speech has a digit in its place.
    fn replace_by_digit(&mut self, port: u16, bytes: &mut Vec<u8>) -> bool {
        let Some(leg) = self.streams.get_mut(&port) else { return false };
        let (Some(events), true) = (leg.events, bytes.len() > rtp::HEADER_LEN + dtmf::PAYLOAD_LEN) else {
            return false;
        };
        let ticks = self.marks.settings.format().ticks(self.marks.settings.interval()) as u32;
        let len = bytes.len();
        let digit = leg.sender.replace(bytes, events.send, ticks);
        digit.into_iter().for_each(|digit| self.sent_digits.add(digit));
        bytes.len() != len
    }

    /// Receives what waits at the sockets. Silent lines cost nothing.
    pub(crate) fn receive(&mut self, now: Time) {
        for port in self.readable.ports() {
            for _ in 0..MAX_BATCHES {
                let Some(socket) = self.sockets.get(&port) else { break };
                let received = self.inbox.receive(socket);
                if !received.as_ref().is_ok_and(|count| *count > 0) {
                    let closed = refusals(socket);
                    closed.into_iter().for_each(|to| self.note_closed(port, to));
                    break;
                }
                let arrivals = self.arrivals(port, now);
                arrivals.into_iter().for_each(|arrival| self.take_in(arrival, now));
                if received.is_ok_and(|count| count < BATCH) {
                    break;
                }
            }
        }
    }

    fn arrivals(&self, port: u16, now: Time) -> Vec<Arrival> {
        let datagrams = self.inbox.iter().filter(|datagram| !datagram.is_truncated);
        let arrivals = datagrams.filter_map(|datagram| {
            // The kernel's time of arrival: reading is later.
            let arrived = datagram.arrived_ns.map(|at| self.marks.time(at));
            let at = arrived.map_or(now, |at| at.min(now));
            Some(Arrival { port, from: datagram.from?, at, bytes: datagram.bytes.to_vec() })
        });
        arrivals.collect()
    }

    /// Receives a datagram, or counts the reason against it.
    fn take_in(&mut self, arrival: Arrival, now: Time) {
        let (port, from) = (arrival.port, arrival.from);
        let taken = match () {
            () if self.is_own(from) => Err(Refusal::OwnLine),
            () if port.is_multiple_of(2) => self.take_voice(arrival),
            () => self.take_report(&arrival),
        };
        match taken {
            Ok(()) => self.consents.note(now, port, from.ip()),
            Err(reason) => *self.refused.entry(reason).or_default() += 1,
        }
    }

    /// Receives a packet of RTCP from the host of the peer.
    fn take_report(&mut self, arrival: &Arrival) -> Result<(), Refusal> {
        let line = arrival.port & !1;
        let leg = self.streams.get(&line).ok_or(Refusal::NoCall)?;
        let own = self.lines.ssrc_at(line).ok_or(Refusal::NoCall)?;
        let sender = arrival.bytes.get(4..8).ok_or(Refusal::Malformed)?;
        if !leg.source.knows(arrival.from.ip()) {
            return Err(Refusal::OtherSource);
        }
        if sender == own.to_be_bytes() {
            // An own report that comes back says nothing about the other side but that it is there.
            return Ok(());
        }
        let to = self.lines.destination_at(line).ok_or(Refusal::NoCall)?;
        let to = SocketAddr::new(to.ip(), to.port().wrapping_add(1));
        self.lines.receive(arrival.at, to, arrival.port, &arrival.bytes);
        Ok(())
    }

    /// Receives a packet of RTP.
    ///
    /// It is speech, noise, a telephone event, or a packet of this side that comes back.
    fn take_voice(&mut self, arrival: Arrival) -> Result<(), Refusal> {
        let Arrival { port, from, at, mut bytes } = arrival;
        let Media { streams, lines, marks, .. } = self;
        let leg = streams.get_mut(&port).ok_or(Refusal::NoCall)?;
        let own = lines.ssrc_at(port).ok_or(Refusal::NoCall)?;
        let packet = rtp::Packet::new_checked(&bytes[..]).map_err(|_| Refusal::Malformed)?;
        let (payload_type, len) = (packet.payload_type(), packet.payload().len());
        let numbers = Numbers { seq: packet.seq(), timestamp: packet.timestamp() };
        let stream = Stream { from, ssrc: packet.ssrc() };
        let is_event = leg.events.is_some_and(|events| events.receive == payload_type);
        let is_known = leg.types.contains(&payload_type) || is_event;
        if !is_known && !marks.settings.is_noise(payload_type, len) {
            return Err(Refusal::PayloadType);
        }
        let returned = marks.returned(packet.payload(), leg.first_sent_ns);
        if stream.ssrc == own {
            // A loop (RFC 3550 8.2): its numbers are of this side.
            if !leg.source.knows(from.ip()) {
                return Err(Refusal::OtherSource);
            }
            leg.looped.note(numbers.seq);
            self.note_returned(returned, at);
            return Ok(());
        }
        let (format, before) = (*marks.settings.format(), leg.source.address());
        let numbers = leg.source.take(at, stream, numbers, |span| format.ticks(span) as u32)?;
        let (ssrc, address) = (leg.source.ssrc(), leg.source.address());
        if returned.is_some() {
            // Another source, with the payload of this side.
            // It has a number of the other side's stream, whose account is whole with it.
            leg.returned.note(numbers.seq);
            if leg.has_voice {
                lines.receive_event(at, port, (numbers.seq, numbers.timestamp, ssrc));
            }
            self.note_returned(returned, at);
        } else if is_event {
            let event = leg.receiver.receive(packet.payload(), packet.timestamp());
            let (digit, duration) = event.ok_or(Refusal::Malformed)?;
            digit.into_iter().for_each(|digit| self.received_digits.add(digit));
            // Its time stamp is that of the event's beginning.
            let step = format.ticks(marks.settings.interval()) as u32;
            let since = u32::from(duration).saturating_sub(step);
            leg.note_own(numbers.seq);
            lines.receive_event(at, port, (numbers.seq, numbers.timestamp.wrapping_add(since), ssrc));
        } else {
            renumber(&mut bytes, numbers, ssrc);
            let of = marks.read(&mut bytes, at);
            let to = lines.destination_at(port).ok_or(Refusal::NoCall)?;
            if !lines.receive(at, to, port, &bytes) {
                return Err(Refusal::PayloadType);
            }
            leg.note_own(numbers.seq);
            of.into_iter().for_each(|of| self.clocks[of as usize] += 1);
        }
        address.filter(|_| address != before).into_iter().for_each(|from| self.send_back(port, from));
        Ok(())
    }

    /// Notes the time of sending of a packet of this side that came back.
    fn note_returned(&mut self, sent_ns: Option<u64>, at: Time) {
        if let Some(sent) = sent_ns.map(|sent_ns| self.marks.time(sent_ns)) {
            self.echo.note(at.since(sent));
        }
    }

    /// Returns the figures of all calls, as a simulation has them.
    ///
    /// Without a clock in common, delays and ratings are not known.
    pub(crate) fn figures(&self) -> Value {
        let mut found = Found::default();
        Lines::observe(Some(&self.lines), &mut found);
        let [own, stated, unknown] = self.clocks;
        let error = match (own, stated, unknown) {
            (_, _, 1..) | (0, 0, 0) => None,
            (_, 1.., 0) => self.marks.clock_error,
            (_, 0, 0) => Some(Span::ZERO),
        };
        let of = |name: &str| found.0.get(name).copied().filter(|value| value.is_finite());
        let known = |name: &str| of(name).filter(|_| error.is_some());
        let (mut echo, mut changes, mut expected) = (self.echo.clone(), self.changes, self.expected);
        for leg in self.streams.values() {
            echo.add(&leg.looped);
            echo.add(&leg.returned);
            expected += leg.silence();
            changes += leg.source.changes;
        }
        let outcomes = self.lines.outcomes();
        let refused: BTreeMap<&str, u64> =
            self.refused.iter().map(|(reason, count)| (reason.name(), *count)).collect();
        let not_sent = self.consents.withheld + self.unsent;
        json!({
            "sent": of("voice-sent").map(|sent| sent - not_sent as f64), "received": of("voice-received"), "loss": of("voice-loss"),
            "played": outcomes.played, "late": outcomes.late, "lost": outcomes.lost, "duplicates": outcomes.duplicates,
            "refused": refused, "source-changes": changes,
            "sent-back": { "packets": echo.packets, "lost": echo.lost, "round-trip-ms": echo.round_trip_ms() },
            "digits": { "sent": self.sent_digits.text, "received": self.received_digits.text,
                "sent-count": self.sent_digits.count, "received-count": self.received_digits.count },
            "mouth-to-ear-ms": known("mouth-to-ear").map(|seconds| seconds * 1e3),
            "r": known("r"), "mos": known("mos"),
            "clock-error-ms": error.map(|error| error.as_secs_f64() * 1e3),
            "packets-of-unknown-clocks": unknown, "unsent": self.unsent,
            "withheld": self.consents.withheld, "calls-ended-without-consent": self.consents.ended,
            "calls-with-voice-expected": expected.calls, "calls-without-voice": expected.silent,
            "calls-ended-with-port-closed": self.consents.ended_closed,
        })
    }
}

/// Values of an observation by their names.
#[derive(Default)]
struct Found(BTreeMap<&'static str, f64>);

impl Observer for Found {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(metric.metric.name, total as f64);
    }

    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.0.insert(metric.metric.name, value);
    }
}

/// Writes the numbers of the line's account over those of a packet.
fn renumber(bytes: &mut [u8], Numbers { seq, timestamp }: Numbers, ssrc: u32) {
    bytes[2..4].copy_from_slice(&seq.to_be_bytes());
    bytes[4..8].copy_from_slice(&timestamp.to_be_bytes());
    bytes[8..12].copy_from_slice(&ssrc.to_be_bytes());
}

/// Returns `true` for one of the sockets of lines. Those at all addresses of the machine have that of loopback too.
fn is_own(address: IpAddr, sockets: &BTreeMap<u16, UdpSocket>, at: SocketAddr) -> bool {
    let is_here = at.ip() == address || (address.is_unspecified() && at.ip().is_loopback());
    is_here && sockets.contains_key(&at.port())
}

fn open(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    stamp_arrivals(&socket)?;
    report_refusals(&socket, at.is_ipv6())?;
    let (shared, traffic_class) = (SockRef::from(&socket), u32::from(DSCP) << 2);
    match at {
        SocketAddr::V4(_) => shared.set_tos_v4(traffic_class)?,
        SocketAddr::V6(_) => shared.set_tclass_v6(traffic_class)?,
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bentpipe_signalling::agent::Config;
    use bentpipe_signalling::sdp::Direction;
    use bentpipe_signalling::sip::Transport;
    use bentpipe_signalling::transaction::Peer;

    use super::*;
    use crate::{Answering, Dialling, Phone, answer, place};

    #[test]
    fn impossible_ports_are_refused() {
        let open = |first_port| {
            let plan = MediaSettings {
                voice: PhoneVoice::default(),
                first_port,
                clock_error: None,
                digits: String::new(),
            };
            let random = RandomStream::new(1, "media");
            Media::open(&plan, Ipv4Addr::LOCALHOST.into(), Time::ZERO, random).map(|_| ())
        };
        for port in [0, 5001, 65_500] {
            let error = open(port).expect_err("refused").to_string();
            assert_eq!(error, "expected an even first port with room for 32 lines of two ports each");
        }
    }

    /// Caller without a phone: it sends requests as text, and has a socket for voice.
    struct Caller {
        signals: UdpSocket,
        voice: UdpSocket,
        to: SocketAddr,
    }

    impl Caller {
        fn new(host: IpAddr, to: SocketAddr) -> Caller {
            let socket = || UdpSocket::bind((host, 0)).expect("a socket");
            let caller = Caller { signals: socket(), voice: socket(), to };
            let patience = Some(std::time::Duration::from_secs(20));
            caller.signals.set_read_timeout(patience).expect("set");
            caller.voice.set_read_timeout(patience).expect("set");
            caller
        }

        /// Sends a request of a call, with a description of voice if it has one.
        fn send(&self, method: &str, call: &str, to_tag: &str, voice: Option<SocketAddr>) {
            let (from, to) = (self.signals.local_addr().expect("bound"), self.to);
            let body = voice.map_or(String::new(), |at| {
                format!(
                    "v=0\r\no=- 1 1 IN IP4 {0}\r\ns=-\r\nc=IN IP4 {0}\r\nt=0 0\r\nm=audio {1} RTP/AVP 8\r\n",
                    at.ip(),
                    at.port()
                )
            });
            let request = format!(
                "{method} sip:bob@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{call}{method}\r\nMax-Forwards: 70\r\n\
                 From: <sip:alice@{from}>;tag={call}\r\nTo: <sip:bob@{to}>{to_tag}\r\nCall-ID: {call}\r\nCSeq: 1 {method}\r\n\
                 Contact: <sip:alice@{from}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            self.signals.send_to(request.as_bytes(), to).expect("sent");
        }

        /// Waits for an answer of a call, and returns the tag in it.
        fn answered(&self, call: &str) -> String {
            let mut bytes = [0; 4000];
            loop {
                let count = self.signals.recv(&mut bytes).expect("an answer");
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                if text.starts_with("SIP/2.0 200") && text.contains(&format!("Call-ID: {call}\r\n")) {
                    let line = text.lines().find(|line| line.starts_with("To:")).expect("a header");
                    return line[line.find(";tag=").expect("a tag")..].to_owned();
                }
            }
        }
    }

    impl Caller {
        /// Waits for a message by its beginning.
        fn receive(&self, beginning: &str) -> String {
            let mut bytes = [0; 4000];
            loop {
                let count = self.signals.recv(&mut bytes).expect("a message");
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                if text.starts_with(beginning) {
                    return text;
                }
            }
        }
    }

    fn capabilities(address: IpAddr, codecs: Vec<bentpipe_signalling::sdp::Codec>) -> Capabilities {
        Capabilities { address, port: 4000, codecs, ptime: 20, direction: Direction::SendRecv }
    }

    /// Returns the way of a phone that takes each call at once.
    fn answering(capabilities: Capabilities) -> Answering {
        Answering {
            most: 100,
            refuse: None,
            ring: Span::ZERO,
            hold: None,
            calls: None,
            duration: None,
            early: false,
            capabilities,
        }
    }

    /// Phone of a user at an address, with lines for voice.
    fn phone(user: &str, at: SocketAddr, seed: u64, lines: u16) -> Phone {
        let mut phone = Phone::open(Config::new(user, at), seed).expect("sockets");
        let voice = PhoneVoice { lines, ..PhoneVoice::default() };
        let media = MediaSettings { voice, first_port: 26_000, clock_error: None, digits: String::new() };
        phone.open_media(&media).expect("lines");
        phone
    }

    /// A forged address gets no voice, and a phone does not talk to itself.
    #[test]
    fn voice_is_sent_once_the_caller_is_proven_and_not_to_own_lines() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = IpAddr::from(Ipv4Addr::new(127, high | 1, low, 3));
        let at = SocketAddr::new(host, 25_060);
        let mut phone = phone("bob", at, 3, 2);
        let answering = answering(capabilities(host, vec![]));
        let (caller, stop) = (Caller::new(host, at), AtomicBool::new(false));
        let mut packet = [0; 2000];
        let figures = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut phone, &answering, &stop, |_| {}));
            caller.send("INVITE", "forged", "", caller.voice.local_addr().ok());
            // The answer is repeated after half a second, in which 25 packets would have come.
            let tag = caller.answered("forged");
            assert_eq!(caller.answered("forged"), tag);
            caller.voice.set_nonblocking(true).expect("set");
            assert!(caller.voice.recv(&mut packet).is_err(), "voice before the ACK");
            caller.voice.set_nonblocking(false).expect("set");
            caller.send("ACK", "forged", &tag, None);
            assert!(caller.voice.recv(&mut packet).is_ok(), "voice after the ACK");
            // The other line is the caller's own address, as it says.
            caller.send("INVITE", "mirror", "", Some(SocketAddr::new(host, 26_002)));
            let tag = caller.answered("mirror");
            caller.send("ACK", "mirror", &tag, None);
            (0..20).for_each(|_| drop(caller.voice.recv(&mut packet)));
            stop.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no registration")
        });
        assert_eq!((figures.calls, figures.established), (2, 2));
        let voice = figures.voice.expect("figures");
        assert!(voice["received"] == 0.0 && voice["sent"].as_f64() > Some(0.0), "{voice}");
    }

    /// A caller that has proven its address names another host, which gets nothing. The call ends.
    #[test]
    fn a_third_party_gets_no_voice_and_the_call_ends() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = |last: u8| IpAddr::from(Ipv4Addr::new(127, high | 1, low, last));
        let at = SocketAddr::new(host(5), 25_060);
        let mut phone = phone("bob", at, 3, 2);
        let answering = answering(capabilities(host(5), vec![]));
        let (caller, stop) = (Caller::new(host(6), at), AtomicBool::new(false));
        let third = UdpSocket::bind((host(7), 0)).expect("a socket");
        third.set_nonblocking(true).expect("set");
        let figures = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut phone, &answering, &stop, |_| {}));
            caller.send("INVITE", "pointed", "", third.local_addr().ok());
            let tag = caller.answered("pointed");
            caller.send("ACK", "pointed", &tag, None);
            let mut bytes = [0; 4000];
            loop {
                let count = caller.signals.recv(&mut bytes).expect("the end of the call");
                if bytes[..count].starts_with(b"BYE") {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no registration")
        });
        assert!(third.recv(&mut [0; 2000]).is_err(), "nothing, and no goodbye");
        let voice = figures.voice.expect("figures");
        assert!(voice["sent"] == 0.0 && voice["withheld"].as_u64() > Some(100), "{voice}");
        assert_eq!((figures.established, &voice["calls-ended-without-consent"]), (1, &json!(1)));
    }

    /// One host acknowledges its calls, says nothing and answers no BYE. Another has a line at once.
    #[test]
    fn a_host_never_takes_all_lines() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = |last: u8| IpAddr::from(Ipv4Addr::new(127, high | 1, low, last));
        let at = SocketAddr::new(host(8), 25_060);
        let mut phone = phone("bob", at, 3, 4);
        let answering = answering(capabilities(host(8), vec![]));
        let (greedy, modest) = (Caller::new(host(9), at), Caller::new(host(10), at));
        let stop = AtomicBool::new(false);
        let call = |caller: &Caller, name: &str| {
            caller.send("INVITE", name, "", caller.voice.local_addr().ok());
            let tag = caller.answered(name);
            caller.send("ACK", name, &tag, None);
        };
        let figures = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut phone, &answering, &stop, |_| {}));
            ["a", "b", "c", "d"].iter().for_each(|name| call(&greedy, name));
            ["e", "f"].iter().for_each(|name| call(&modest, name));
            // It has its share: more calls of it are busy, and end no other.
            modest.send("INVITE", "g", "", modest.voice.local_addr().ok());
            assert!(modest.receive("SIP/2.0 486").contains("Call-ID: g\r\n"));
            assert!(greedy.receive("BYE").contains("Call-ID: a\r\n"), "the oldest ends");
            stop.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no registration")
        });
        assert_eq!((figures.established, figures.displaced, figures.peak), (6, 2, 4));
    }

    /// The peer answers no BYE of a call that this side ends.
    #[test]
    fn a_line_is_free_with_the_bye() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = |last: u8| IpAddr::from(Ipv4Addr::new(127, high | 1, low, last));
        let at = SocketAddr::new(host(11), 25_060);
        let mut phone = phone("bob", at, 3, 1);
        let answering =
            Answering { hold: Some(Span::from_millis(10)), ..answering(capabilities(host(11), vec![])) };
        let (caller, stop) = (Caller::new(host(12), at), AtomicBool::new(false));
        let figures = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut phone, &answering, &stop, |_| {}));
            for name in ["first", "second", "third"] {
                caller.send("INVITE", name, "", caller.voice.local_addr().ok());
                let tag = caller.answered(name);
                caller.send("ACK", name, &tag, None);
                while !caller.receive("BYE").contains(&format!("Call-ID: {name}\r\n")) {}
            }
            stop.store(true, Ordering::Relaxed);
            answering.join().expect("no panic").expect("no registration")
        });
        assert_eq!((figures.established, figures.failures()), (3, 0));
    }

    /// Both phones hear each other, on addresses of loopback that are of this process alone.
    #[test]
    fn a_call_has_voice_both_ways() {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let phone = |host: u8, user: &str| {
            let at = SocketAddr::from((Ipv4Addr::new(127, high | 1, low, host), 25_060));
            let phone = phone(user, at, u64::from(host), 1);
            (phone, at)
        };
        let ((mut caller, _), (mut callee, address)) = (phone(1, "alice"), phone(2, "bob"));
        let codecs = vec![bentpipe_signalling::sdp::Codec::new(8, "PCMA", 8000)];
        let capabilities = capabilities(address.ip(), codecs);
        let answering = answering(capabilities.clone());
        let dialling = Dialling {
            target: format!("sip:bob@{address}").parse().expect("a URI"),
            peer: Peer { transport: Transport::Udp, address },
            // The second finds the only line taken.
            calls: 2,
            interval: Span::from_millis(50),
            hold: Span::from_millis(300),
            ring_limit: Span::from_secs(60),
            capabilities,
            duration: None,
            random: None,
        };
        let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
        let (placed, answered) = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut callee, &answering, &stop, |_| {}));
            let placed = place(&mut caller, &dialling, &never, |_| {});
            stop.store(true, Ordering::Relaxed);
            (placed, answering.join().expect("no panic").expect("no registration"))
        });
        assert_eq!((placed.established, placed.failed["no line is free"]), (1, 1));
        for voice in [placed.voice, answered.voice] {
            let voice = voice.expect("figures");
            let of = |key: &str| voice[key].as_f64().unwrap_or_else(|| panic!("{key} in {voice}"));
            assert!(of("received") >= 5.0 && of("clock-error-ms") == 0.0, "{voice}");
            // 20 ms of packing and 60 ms in the playout buffer from the arrival of the first packet on.
            assert!(of("mouth-to-ear-ms") >= 60.0 && of("r") > 0.0, "{voice}");
        }
    }
}
