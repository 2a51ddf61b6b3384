//! Growth of a window on an idle path without loss.

use std::collections::VecDeque;

use bentpipe_units::{Bytes, Rate, Span, Time};

use crate::{Ack, Controller, RttEstimator, Sent, rtt};

/// Path of a ramp, and the window that it leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// Round trip of a full segment without queueing.
    pub rtt: Span,
    /// Rate of payload at the bottleneck.
    pub rate: Rate,
    /// Payload of a full segment in bytes.
    pub smss: u32,
    /// Number of segments per ACK.
    pub ack_every: u32,
    /// Longest time that an ACK waits for more segments.
    pub ack_delay: Span,
    /// Number of segments at the start with an ACK each.
    pub alone: u64,
    /// Tick of the clock that measures round trips. Zero: they are exact.
    pub tick: Span,
    /// Time since a tick at the SYN.
    pub phase: Span,
    /// Window in bytes that fills the path. The ramp ends a round trip behind it.
    pub target: u64,
    /// The most bytes in flight, by the buffers of both ends.
    pub most: u64,
    /// Number of ACKs after which it is given up.
    pub most_acks: u64,
    /// Bytes that the sender has. All of them acknowledged end the ramp.
    pub data: u64,
    /// Time from the SYN after which the ramp ends.
    pub lasts: Span,
}

impl Ramp {
    /// Returns the round trip that the clock shows: at least a tick.
    fn measured(&self, sent: Time, at: Time) -> Span {
        let tick = self.tick.as_nanos();
        if tick == 0 {
            return at.since(sent);
        }
        let ticks = |time: Time| (time.as_nanos() + self.phase.as_nanos()) / tick;
        Span::from_nanos(tick * (ticks(at) - ticks(sent)).max(1))
    }
}

/// Result of a ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Climb {
    /// Time from the SYN until the window has the target. `None` if it does not get there.
    pub time: Option<Span>,
    /// Number of ACKs that it took.
    pub acks: u64,
    /// Time from the SYN to its end. `None` if it was given up.
    ///
    /// It ends with a full path, or with the data or the time. The ACK of the last data does not wait for more.
    pub end: Option<Span>,
    /// Bytes acknowledged by then.
    pub acked: u64,
}

/// The most segments that are sent for each ACK that may be taken.
const SEGMENTS_PER_ACK: u64 = 16;

/// Feeds a controller with the ACKs of a path, from the SYN on.
///
/// Segments queue at the bottleneck alone, and ACKs are never lost.
pub fn ramp(controller: &mut dyn Controller, path: &Ramp) -> Climb {
    let (mut walk, mut open) = (Walk::new(controller, path), None);
    loop {
        if open.is_none() && walk.controller.window() >= path.target {
            open = Some(walk.now.since(Time::ZERO));
        }
        let now = walk.now.since(Time::ZERO);
        // A window that has opened fills the path in the next round trip.
        let is_full = open.is_some_and(|open| now >= open + path.rtt);
        if is_full || walk.acked >= path.data || now >= path.lasts {
            return walk.end(open);
        }
        // Those on their way count, so that a flight of tiny segments is bounded too.
        let acks = walk.acks + walk.on_way.len() as u64;
        let sent_most = walk.segments >= SEGMENTS_PER_ACK * path.most_acks;
        if acks >= path.most_acks || sent_most || !walk.step() {
            let acks = acks.max(walk.segments / SEGMENTS_PER_ACK);
            return Climb { time: open, acks, end: None, acked: walk.acked };
        }
    }
}

struct Walk<'a> {
    controller: &'a mut dyn Controller,
    path: &'a Ramp,
    now: Time,
    estimator: RttEstimator,
    /// Time at which the bottleneck is idle.
    idle_from: Time,
    /// Time of the next segment of a sender that paces.
    paced_from: Time,
    flight: u64,
    /// The most bytes in flight.
    most: u64,
    /// Number of segments sent.
    segments: u64,
    /// Segments without an ACK.
    pending: Pending,
    /// Arrival of ACKs, with what they acknowledge.
    on_way: VecDeque<(Time, Pending)>,
    /// Arrival of the last segment's ACK, if that does not wait.
    last: Time,
    acks: u64,
    acked: u64,
}

/// Segments that one ACK acknowledges.
#[derive(Clone, Copy)]
struct Pending {
    segments: u32,
    bytes: u64,
    /// Sending of the first.
    sent: Time,
    /// Arrival of the last one's ACK, if that does not wait.
    arrival: Time,
}

impl<'a> Walk<'a> {
    fn new(controller: &'a mut dyn Controller, path: &'a Ramp) -> Walk<'a> {
        let now = Time::ZERO + path.rtt;
        let mut estimator = RttEstimator::new(rtt::Params::RFC6298);
        estimator.sample(path.measured(Time::ZERO, now));
        controller.on_established(now, Some(path.rtt));
        Walk {
            controller,
            path,
            now,
            estimator,
            idle_from: now,
            paced_from: now,
            flight: 0,
            most: path.most.min(2 * path.target + u64::from(path.smss) * u64::from(path.ack_every.max(1))),
            segments: 0,
            pending: Pending { segments: 0, bytes: 0, sent: now, arrival: now },
            on_way: VecDeque::new(),
            last: now,
            acks: 0,
            acked: 0,
        }
    }

    /// Ends the ramp, which may have got to its target at a time.
    fn end(&self, time: Option<Span>) -> Climb {
        let [now, last] = [self.now, self.last].map(|at| at.since(Time::ZERO));
        let is_all_sent = self.flight + self.acked >= self.path.data;
        // Data has arrived at its own time, whenever the receiver acknowledges it.
        let (end, acked) =
            if is_all_sent && last <= self.path.lasts { (last, self.path.data) } else { (now, self.acked) };
        Climb { time, acks: self.acks, end: Some(end), acked }
    }

    /// Returns `true` if it sent a segment or took an ACK.
    fn step(&mut self) -> bool {
        let bytes = self.path.data.saturating_sub(self.flight + self.acked).min(self.path.smss.into());
        // More than twice of what fills the path waits at the bottleneck, and changes nothing.
        let window = self.controller.window().min(self.most);
        let may_send = bytes > 0 && self.flight + bytes <= window;
        let send_at = self.now.max(self.paced_from);
        match self.on_way.front() {
            Some((at, _)) if !may_send || *at < send_at => self.take_ack(),
            _ if may_send => self.send(send_at, bytes),
            _ => return self.end_wait(),
        }
        true
    }

    fn send(&mut self, at: Time, bytes: u64) {
        self.now = at;
        self.controller.on_sent(&Sent { now: at, bytes, flight: self.flight });
        if let Some(rate) = self.controller.pacing_rate() {
            self.paced_from = at + rate.span_of(Bytes::new(bytes));
        }
        // The round trip has the transmission of one segment in it already.
        let begin = at.max(self.idle_from);
        let takes = self.path.rate.span_of(Bytes::new(bytes));
        let shorter = self.path.rate.span_of(Bytes::new(u64::from(self.path.smss) - bytes));
        self.idle_from = begin + takes;
        (self.flight, self.segments) = (self.flight + bytes, self.segments + 1);
        self.last = begin + self.path.rtt.saturating_sub(shorter);
        if self.pending.segments > 0 && self.pending.arrival + self.path.ack_delay < self.last {
            self.acknowledge(self.path.ack_delay);
        }
        let Pending { segments, bytes: before, sent, .. } = self.pending;
        let sent = if segments == 0 { at } else { sent };
        self.pending = Pending { segments: segments + 1, bytes: before + bytes, sent, arrival: self.last };
        if self.pending.segments >= self.path.ack_every.max(1) || self.segments <= self.path.alone {
            self.acknowledge(Span::ZERO);
        }
    }

    fn acknowledge(&mut self, delay: Span) {
        self.on_way.push_back((self.pending.arrival + delay, self.pending));
        (self.pending.segments, self.pending.bytes) = (0, 0);
    }

    /// Returns `true` if the receiver waited for more segments, and ends that.
    fn end_wait(&mut self) -> bool {
        let waits = self.pending.segments > 0;
        if waits {
            self.acknowledge(self.path.ack_delay);
        }
        waits
    }

    fn take_ack(&mut self) {
        let Some((at, Pending { bytes, sent, .. })) = self.on_way.pop_front() else { return };
        let rtt = self.path.measured(sent, at);
        (self.now, self.flight, self.acks) = (at, self.flight.saturating_sub(bytes), self.acks + 1);
        self.acked += bytes;
        self.estimator.sample(rtt);
        self.controller.on_ack(&Ack {
            now: at,
            acked: bytes,
            delivered: bytes,
            flight: self.flight,
            pipe: self.flight,
            rtt: Some(rtt),
            srtt: self.estimator.srtt(),
            min_rtt: self.estimator.min_rtt(),
            cwnd_limited: true,
            in_recovery: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, ControllerConfig};

    fn time(controller: &str, ack_every: u32) -> f64 {
        let config: ControllerConfig = controller.parse().expect("a controller");
        let connection = Connection {
            smss: 1448,
            initial_window_segments: 10,
            initial_ssthresh: u64::MAX,
            max_window: 16_000_000,
        };
        let path = Ramp {
            rtt: Span::from_millis(541),
            rate: Rate::from_bps(9_653_000),
            smss: 1448,
            ack_every,
            ack_delay: Span::from_millis(200),
            alone: 0,
            tick: Span::ZERO,
            phase: Span::ZERO,
            target: 653_000,
            most: 16_000_000,
            most_acks: 1_000_000,
            data: u64::MAX,
            lasts: Span::MAX,
        };
        let climb = ramp(&mut *config.build(&connection), &path);
        climb.time.expect("it grows").as_secs_f64()
    }

    /// A window far beyond its data opens with the first ACK, behind which the rest is sent: a round trip more.
    #[test]
    fn a_window_that_opens_at_once_still_has_to_fill_the_path() {
        let config: ControllerConfig = "hybla".parse().expect("a controller");
        let connection = Connection {
            smss: 1000,
            initial_window_segments: 10,
            initial_ssthresh: u64::MAX,
            max_window: 16_000_000,
        };
        let path = Ramp {
            rtt: Span::from_millis(500),
            rate: Rate::from_bps(8_000_000),
            smss: 1000,
            ack_every: 2,
            ack_delay: Span::ZERO,
            alone: 0,
            tick: Span::ZERO,
            phase: Span::ZERO,
            target: 500_000,
            most: 16_000_000,
            most_acks: 100_000,
            data: 20_000,
            lasts: Span::MAX,
        };
        let climb = ramp(&mut *config.build(&connection), &path);
        let (open, end) =
            (climb.time.expect("it opens").as_secs_f64(), climb.end.expect("an end").as_secs_f64());
        // Handshake and a round trip; eighteen segments more from then on, and what an ACK of two takes.
        assert!((open - 1.0).abs() < 0.01, "{open}");
        assert!((1.5..1.53).contains(&end), "{end}");
        assert_eq!(climb.acked, 20_000);
    }

    /// RFC 5681 3.1: a segment more for each ACK, so that one for two segments makes it 1.5 windows a round trip.
    #[test]
    fn delayed_acks_slow_the_growth() {
        let rounds = |factor: f64| 1.0 + (653.0_f64 / 14.48).ln() / factor.ln();
        for (ack_every, factor) in [(1, 2.0), (2, 1.5)] {
            let measured = time("newreno", ack_every) / 0.541;
            assert!((measured - rounds(factor)).abs() < 1.0, "{ack_every}: {measured}, {}", rounds(factor));
        }
    }

    /// The ACK of a first segment leaves an odd one behind, whose delayed ACK opens the window too.
    #[test]
    fn a_first_segment_with_an_ack_of_its_own_opens_the_window_earlier() {
        let climb = |alone| {
            let config: ControllerConfig = "newreno".parse().expect("a controller");
            let connection = Connection {
                smss: 1000,
                initial_window_segments: 10,
                initial_ssthresh: u64::MAX,
                max_window: 16_000_000,
            };
            let path = Ramp {
                rtt: Span::from_millis(500),
                rate: Rate::from_bps(8_000_000),
                smss: 1000,
                ack_every: 2,
                ack_delay: Span::from_millis(200),
                alone,
                tick: Span::ZERO,
                phase: Span::ZERO,
                target: 500_000,
                most: 16_000_000,
                most_acks: 100_000,
                data: 26_000,
                lasts: Span::MAX,
            };
            ramp(&mut *config.build(&connection), &path).end.expect("an end").as_secs_f64()
        };
        // Ten segments, and then fifteen. The last one leaves with the ACK that waited, or a round trip later.
        let [pairs, odd] = [0, 1].map(climb);
        assert!((2.0..2.05).contains(&pairs) && (1.7..1.75).contains(&odd), "{pairs} {odd}");
    }

    /// A tick in two hundred is a segment of two hundred: Vegas takes it for a queue.
    #[test]
    fn ticks_end_a_slow_start_that_goes_by_delays() {
        let end = |tick| {
            let config: ControllerConfig = "vegas".parse().expect("a controller");
            let connection = Connection {
                smss: 1448,
                initial_window_segments: 10,
                initial_ssthresh: u64::MAX,
                max_window: 16_000_000,
            };
            let path = Ramp {
                rtt: Span::from_micros(200_480),
                rate: Rate::from_bps(48_000_000),
                smss: 1448,
                ack_every: 2,
                ack_delay: Span::from_millis(200),
                alone: 1,
                tick,
                phase: Span::ZERO,
                target: 1_200_000,
                most: 16_000_000,
                most_acks: 100_000,
                data: u64::MAX,
                lasts: Span::from_secs(5),
            };
            ramp(&mut *config.build(&connection), &path).acked
        };
        let [exact, ticks] = [Span::ZERO, Span::from_millis(1)].map(end);
        assert!(ticks < exact * 2 / 3, "{ticks} {exact}");
    }

    #[test]
    fn a_law_that_does_not_reach_the_target_is_given_up() {
        let config: ControllerConfig = "newreno".parse().expect("a controller");
        let connection = Connection {
            smss: 1000,
            initial_window_segments: 2,
            initial_ssthresh: u64::MAX,
            max_window: 10_000,
        };
        let path = Ramp {
            rtt: Span::from_millis(10),
            rate: Rate::from_bps(1_000_000),
            smss: 1000,
            ack_every: 2,
            ack_delay: Span::ZERO,
            alone: 0,
            tick: Span::ZERO,
            phase: Span::ZERO,
            target: 100_000,
            most: 16_000_000,
            most_acks: 1000,
            data: u64::MAX,
            lasts: Span::MAX,
        };
        let climb = ramp(&mut *config.build(&connection), &path);
        assert_eq!((climb.time, climb.acks, climb.end), (None, 1000, None));
        // Ten segments take the handshake and rounds of 2, 3 and 5, by an ACK for two segments.
        let few = ramp(&mut *config.build(&connection), &Ramp { data: 10_000, ..path });
        assert_eq!(few.acked, 10_000);
        // A segment and a half: the handshake, a round trip, and the half behind the whole. Its ACK waits, the data does not.
        let waits = Ramp { data: 1500, ack_every: 3, ack_delay: Span::from_millis(200), ..path };
        let odd = ramp(&mut *config.build(&connection), &waits);
        assert_eq!((odd.end, odd.acked), (Some(Span::from_millis(24)), 1500));
        let rounds = few.end.expect("it has no more").as_secs_f64() / 0.010;
        assert!((4.0..10.0).contains(&rounds), "{rounds}");
        let early = ramp(&mut *config.build(&connection), &Ramp { lasts: Span::from_millis(25), ..path });
        assert!(early.time.is_none() && early.acked < 10_000, "{early:?}");
    }
}
