//! Echo requests over ICMP and ICMPv6 (ping).
//!
//! *Models*: echo requests at a fixed interval; the receiving node answers by itself (RFC 792, RFC 4443 section 4). Round-trip times
//! of the replies, with their mean, deviation and quantiles; lost, duplicate and late replies.
//!
//! *Does not model*: errors about requests, record route, time stamps in the payload.
//!
//! A request is unanswered if a later one was answered, or if it was sent so long before the end of the run that it cannot be in
//! flight: more than twice the longest round trip.

mod kind;
pub mod metrics;

use std::any::Any;
use std::collections::VecDeque;
use std::net::SocketAddr;

use bentpipe_net::{Cx, Element, Histogram, InvalidConfig, Observer, Packet, Port, Why};
use bentpipe_units::{Span, Time};
use bentpipe_wire::icmp::{HEADER_LEN, Message, v4, v6};
use bentpipe_wire::ip::{self, Protocol};

use crate::datagram::Path;
pub use kind::Ping;

/// Number of requests whose replies are recognised.
const MAX_OUTSTANDING: usize = 65_535;

/// Source of echo requests at port 0, which measures the replies.
pub struct Pinger {
    config: Ping,
    path: Path,
    /// Identifier of the requests.
    ident: u16,
    next: Time,
    stop: Time,
    sent: u64,
    /// Numbers and times of requests without a reply, in order. The low 16 bits of a number are its sequence number.
    outstanding: VecDeque<(u64, Time)>,
    replies: u64,
    /// Number of requests up to the latest that was answered.
    settled: u64,
    duplicates: u64,
    unexpected: u64,
    bad_checksum: u64,
    rtts: Histogram,
    /// Round trips since the start of the window of measures.
    window: RoundTrips,
    last: Option<(Time, Span)>,
}

impl Pinger {
    /// Creates a source of requests from `local` to `remote`, from `start` on. The port of `local` is the identifier.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(
        config: &Ping,
        [local, remote]: [SocketAddr; 2],
        start: Span,
        stop: Option<Span>,
    ) -> Result<Pinger, InvalidConfig> {
        InvalidConfig::ensure(!config.interval.is_zero(), "interval", "more than no time")?;
        InvalidConfig::ensure(config.packets != Some(0), "packets", "at least 1")?;
        Ok(Pinger {
            config: *config,
            path: Path::new(local, remote, config.dscp)?,
            ident: local.port(),
            next: Time::ZERO + start,
            stop: stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
            sent: 0,
            outstanding: VecDeque::new(),
            replies: 0,
            settled: 0,
            duplicates: 0,
            unexpected: 0,
            bad_checksum: 0,
            rtts: Histogram::default(),
            window: RoundTrips::default(),
            last: None,
        })
    }

    /// Returns the round-trip times of all replies.
    pub fn rtts(&self) -> &Histogram {
        &self.rtts
    }

    fn deadline(&self) -> Time {
        let is_over = self.next >= self.stop || self.config.packets == Some(self.sent);
        if is_over { Time::NEVER } else { self.next }
    }

    fn request(&self) -> Packet {
        let (seq, zeros) = (self.sent as u16, self.config.payload.get() as usize);
        let mut header = [0; HEADER_LEN];
        let is_v4 = self.path.local.is_ipv4();
        let protocol = if is_v4 { Protocol::ICMP } else { Protocol::ICMPV6 };
        let pseudo = (!is_v4).then(|| self.path.pseudo(protocol));
        if is_v4 {
            v4::Repr::EchoRequest { ident: self.ident, seq }.emit(&mut header);
        } else {
            v6::Repr::EchoRequest { ident: self.ident, seq }.emit(&mut header);
        }
        if let Ok(mut message) = Message::new_elided(&mut header[..], zeros) {
            message.fill_checksum(pseudo.as_ref());
        }
        self.path.packet(protocol, None, &header, zeros as u32)
    }

    /// Returns the sequence number of a reply to this source.
    fn reply(&self, packet: &Packet) -> Result<u16, Refusal> {
        let bytes = packet.to_vec();
        let ip = ip::Packet::new_checked(&bytes[..]).map_err(|_| Refusal::Unexpected)?;
        let upper = ip.upper().map_err(|_| Refusal::Unexpected)?;
        let message = Message::new_checked(upper.bytes).map_err(|_| Refusal::Unexpected)?;
        let pseudo = (upper.protocol == Protocol::ICMPV6).then_some(upper.pseudo);
        message.verify_checksum(pseudo.as_ref()).map_err(|_| Refusal::BadChecksum)?;
        let found = match upper.protocol {
            Protocol::ICMP => match v4::Repr::parse(&message) {
                v4::Repr::EchoReply { ident, seq } => Some((ident, seq)),
                _ => None,
            },
            Protocol::ICMPV6 => match v6::Repr::parse(&message) {
                v6::Repr::EchoReply { ident, seq } => Some((ident, seq)),
                _ => None,
            },
            _ => None,
        };
        found.filter(|(ident, _)| *ident == self.ident).map(|(_, seq)| seq).ok_or(Refusal::Unexpected)
    }

    /// Counts a reply that arrives at `now`, or a duplicate of one.
    fn count(&mut self, seq: u16, now: Time) -> Result<(), Refusal> {
        let place = self.outstanding.iter().position(|(of, _)| *of as u16 == seq);
        let Some((number, sent_at)) = place.and_then(|place| self.outstanding.remove(place)) else {
            let was_sent = u64::from(seq) < self.sent;
            self.duplicates += u64::from(was_sent);
            return Err(if was_sent { Refusal::Duplicate } else { Refusal::Unexpected });
        };
        let rtt = now.since(sent_at);
        self.replies += 1;
        self.settled = self.settled.max(number + 1);
        self.rtts.record(rtt);
        self.window.add(rtt);
        self.last = Some((now, rtt));
        Ok(())
    }
}

/// Extremes and deviation of round trips.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrips {
    count: u64,
    /// Sums of the times and of their squares, in seconds.
    sums: [f64; 2],
    range: Option<(Span, Span)>,
}

impl RoundTrips {
    fn add(&mut self, rtt: Span) {
        let seconds = rtt.as_secs_f64();
        self.count += 1;
        self.sums = [self.sums[0] + seconds, self.sums[1] + seconds * seconds];
        let (least, most) = self.range.unwrap_or((rtt, rtt));
        self.range = Some((least.min(rtt), most.max(rtt)));
    }

    /// Returns the standard deviation in seconds; NaN without any.
    fn deviation(&self) -> f64 {
        let [mean, square] = self.sums.map(|sum| sum / self.count as f64);
        (square - mean * mean).max(0.0).sqrt()
    }
}

/// Reason for which a packet is not counted.
enum Refusal {
    BadChecksum,
    /// Reply to a request that was answered.
    Duplicate,
    Unexpected,
}

impl Element for Pinger {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        match self.reply(&packet).and_then(|seq| self.count(seq, cx.now())) {
            Ok(()) => packet.recycle(),
            Err(Refusal::Duplicate) => {
                self.unexpected += 1;
                cx.note_duplicate(&packet);
                packet.recycle();
            }
            Err(Refusal::BadChecksum) => {
                self.bad_checksum += 1;
                cx.refuse(packet, Why::Checksum);
            }
            Err(Refusal::Unexpected) => {
                self.unexpected += 1;
                cx.refuse(packet, Why::NoListener);
            }
        }
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while self.deadline() <= cx.now() {
            let mut packet = self.request();
            packet.set_created_at(cx.now());
            if self.outstanding.len() == MAX_OUTSTANDING {
                self.outstanding.pop_front();
            }
            self.outstanding.push_back((self.sent, cx.now()));
            self.sent += 1;
            self.next += self.config.interval;
            cx.emit(Port(0), packet);
        }
        self.deadline()
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let seconds = |span: Option<Span>| span.map_or(f64::NAN, Span::as_secs_f64);
        observer.counter(&metrics::REQUESTS, self.sent);
        observer.counter(&metrics::REPLIES, self.replies);
        observer.counter(&metrics::SETTLED, self.settled);
        observer.gauge(&metrics::UNANSWERED, (self.settled - self.replies) as f64);
        observer.gauge(&metrics::OUTSTANDING, (self.sent - self.settled) as f64);
        observer.counter(&metrics::DUPLICATES, self.duplicates);
        observer.counter(&metrics::DROPPED_BAD_CHECKSUM, self.bad_checksum);
        observer.counter(&metrics::DROPPED_UNEXPECTED, self.unexpected);
        observer.gauge(&metrics::RTT, seconds(self.last.map(|(_, rtt)| rtt)));
        observer.gauge(&metrics::RTT_MIN, seconds(self.window.range.map(|range| range.0)));
        observer.gauge(&metrics::RTT_MAX, seconds(self.window.range.map(|range| range.1)));
        observer.gauge(&metrics::RTT_DEVIATION, self.window.deviation());
        observer.histogram(&metrics::RTTS, &self.rtts);
        if observer.starts_window() {
            self.window = RoundTrips::default();
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
