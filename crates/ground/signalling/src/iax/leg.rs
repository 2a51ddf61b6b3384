//! Reliable exchange of full frames on one call leg (RFC 5456 7).

use std::collections::VecDeque;
use std::net::SocketAddr;

use bentpipe_units::{Span, Time};

use super::frame::{FullFrame, Kind, iax};

/// Maximum number of frames without acknowledgement; sequence numbers have eight bits.
const MAX_UNACKNOWLEDGED: usize = 100;
/// Frames that do not change sequence numbers.
const UNCOUNTED: [u32; 3] = [iax::ACK, iax::INVAL, iax::VNAK];

/// Timer values of call legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// First retransmission before the round trip is measured; then it is twice the round trip. Default: 1 s.
    ///
    /// RFC 5456 has no value.
    pub first_retry: Span,
    /// Longest interval of retransmissions. Default: 10 s (RFC 5456 7.2.1).
    pub longest_retry: Span,
    /// Retransmissions after which a leg is given up. Default: 4 (RFC 5456 7).
    pub retries: u32,
    /// Interval of PING on calls. Default: 20 s.
    pub ping: Span,
}

impl Default for Timers {
    fn default() -> Timers {
        let (first_retry, longest_retry) = (Span::from_secs(1), Span::from_secs(10));
        Timers { first_retry, longest_retry, retries: 4, ping: Span::from_secs(20) }
    }
}

/// Consequence of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// The next frame, or one outside the sequence.
    New,
    /// A frame that came before; it is acknowledged again.
    Repeated,
    /// A frame after a missing one; the peer is to send from there.
    Gap,
}

/// Call leg without its call.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) peer: SocketAddr,
    pub(super) source: u16,
    /// Call number of the peer, 0 until known.
    pub(super) destination: u16,
    start: Time,
    outbound: u8,
    inbound: u8,
    last: u32,
    unacknowledged: VecDeque<FullFrame>,
    round_trip: Option<Span>,
    interval: Span,
    retry: Time,
    tries: u32,
    /// Full frames sent again.
    pub(super) repeated: u64,
}

impl Leg {
    pub(super) fn new(now: Time, peer: SocketAddr, (source, destination): (u16, u16)) -> Leg {
        Leg {
            peer,
            source,
            destination,
            start: now,
            outbound: 0,
            inbound: 0,
            last: 0,
            unacknowledged: VecDeque::new(),
            round_trip: None,
            interval: Span::ZERO,
            retry: Time::NEVER,
            tries: 0,
            repeated: 0,
        }
    }

    /// Returns the time of the next retransmission.
    pub(super) fn deadline(&self) -> Time {
        self.retry
    }

    /// Returns the milliseconds since the start.
    pub(super) fn elapsed(&self, now: Time) -> u32 {
        (now.since(self.start).as_nanos() / 1_000_000) as u32
    }

    /// Returns `true` if all frames are acknowledged.
    pub(super) fn is_settled(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Sets the measured round trip.
    pub(super) fn note_round_trip(&mut self, span: Span) {
        self.round_trip = Some(span);
    }

    /// Returns the next frame of the sequence, kept until its acknowledgement.
    ///
    /// Its timestamp is after all earlier ones.
    pub(super) fn send(
        &mut self,
        now: Time,
        (kind, subclass): (Kind, u32),
        payload: Vec<u8>,
        timers: &Timers,
    ) -> FullFrame {
        let timestamp = self.elapsed(now).max(self.last.wrapping_add(1));
        self.send_at(now, timestamp, (kind, subclass), payload, timers)
    }

    /// Returns the next frame of the sequence, with a given timestamp.
    pub(super) fn send_at(
        &mut self,
        now: Time,
        timestamp: u32,
        (kind, subclass): (Kind, u32),
        payload: Vec<u8>,
        timers: &Timers,
    ) -> FullFrame {
        let frame = self.frame(timestamp, (kind, subclass), payload);
        self.last = self.last.max(timestamp);
        self.outbound = self.outbound.wrapping_add(1);
        self.unacknowledged.push_back(frame.clone());
        if self.retry.is_never() {
            self.start_timer(now, timers);
        }
        frame
    }

    /// Returns a frame outside the sequence: ACK, INVAL or VNAK.
    pub(super) fn uncounted(&self, subclass: u32, timestamp: u32) -> FullFrame {
        self.frame(timestamp, (Kind::Iax, subclass), vec![])
    }

    fn frame(&self, timestamp: u32, (kind, subclass): (Kind, u32), payload: Vec<u8>) -> FullFrame {
        FullFrame {
            source: self.source,
            destination: self.destination,
            is_repeated: false,
            timestamp,
            outbound: self.outbound,
            inbound: self.inbound,
            kind,
            subclass,
            payload,
        }
    }

    fn start_timer(&mut self, now: Time, timers: &Timers) {
        let first = self.round_trip.map_or(timers.first_retry, |span| span * 2);
        // A round trip of microseconds would send in a loop.
        self.interval = first.max(Span::from_millis(100)).min(timers.longest_retry);
        (self.retry, self.tries) = (now + self.interval, 0);
    }

    /// Notes the acknowledgement in a frame, and orders the frame.
    pub(super) fn receive(&mut self, now: Time, frame: &FullFrame, timers: &Timers) -> Receipt {
        self.acknowledge(now, frame.inbound, timers);
        if frame.kind == Kind::Iax && UNCOUNTED.contains(&frame.subclass) {
            return Receipt::New;
        }
        match frame.outbound.wrapping_sub(self.inbound) {
            0 => {
                self.inbound = self.inbound.wrapping_add(1);
                Receipt::New
            }
            128.. => Receipt::Repeated,
            _ => Receipt::Gap,
        }
    }

    fn acknowledge(&mut self, now: Time, next: u8, timers: &Timers) {
        let is_before = |number: u8, other: u8| number.wrapping_sub(other) >= 128;
        if is_before(self.outbound, next) {
            return;
        }
        let waiting = self.unacknowledged.len();
        while self.unacknowledged.front().is_some_and(|frame| is_before(frame.outbound, next)) {
            self.unacknowledged.pop_front();
        }
        if self.unacknowledged.is_empty() {
            self.retry = Time::NEVER;
        } else if self.unacknowledged.len() < waiting {
            self.start_timer(now, timers);
        }
    }

    /// Returns all unacknowledged frames, marked as repeated.
    pub(super) fn again(&mut self) -> Vec<FullFrame> {
        self.repeated += self.unacknowledged.len() as u64;
        let again = |frame: &FullFrame| FullFrame {
            is_repeated: true,
            destination: self.destination,
            inbound: self.inbound,
            ..frame.clone()
        };
        self.unacknowledged.iter().map(again).collect()
    }

    /// Returns the frames that are due again. `None` once the leg is given up.
    pub(super) fn on_time(&mut self, now: Time, timers: &Timers) -> Option<Vec<FullFrame>> {
        if self.retry > now {
            return Some(vec![]);
        }
        if self.tries >= timers.retries || self.unacknowledged.len() > MAX_UNACKNOWLEDGED {
            self.retry = Time::NEVER;
            return None;
        }
        self.tries += 1;
        self.interval = (self.interval * 2).min(timers.longest_retry);
        self.retry = now + self.interval;
        Some(self.again())
    }
}
