//! Two small paths to run a controller on: one without a bottleneck, where a window is acknowledged evenly over a round
//! trip, and one with a FIFO bottleneck. Losses are repaired at once: these tests are of laws, not of recovery.

use std::collections::VecDeque;

use bentpipe_cc::{Ack, Connection, Controller, ControllerConfig, Loss, Sent};
use bentpipe_units::{RandomStream, Span, Time};

pub(crate) const SMSS: u32 = 1000;

pub(crate) fn connection(initial_window_segments: u32, initial_ssthresh_segments: Option<u64>) -> Connection {
    let initial_ssthresh = initial_ssthresh_segments.map_or(u64::MAX, |segments| segments * u64::from(SMSS));
    Connection { smss: SMSS, initial_window_segments, initial_ssthresh, max_window: 1 << 40 }
}

pub(crate) fn at(secs: f64) -> Time {
    Time::from_nanos((secs * 1e9).round() as u64)
}

pub(crate) fn span(secs: f64) -> Span {
    Span::from_secs_f64(secs)
}

/// A path of constant RTT whose only losses are those asked for.
pub(crate) struct Clock {
    pub(crate) cc: Box<dyn Controller>,
    pub(crate) rtt: f64,
    pub(crate) now: f64,
    /// Segments that an ACK covers.
    pub(crate) per_ack: u64,
    pub(crate) acked_segments: f64,
}

impl Clock {
    pub(crate) fn new(choice: ControllerConfig, connection: &Connection, rtt: f64) -> Clock {
        let mut cc = choice.build(connection);
        cc.on_established(at(rtt), Some(span(rtt)));
        Clock { cc, rtt, now: rtt, per_ack: 1, acked_segments: 0.0 }
    }

    pub(crate) fn segments(&self) -> f64 {
        self.cc.window() as f64 / f64::from(SMSS)
    }

    pub(crate) fn ack_of(&self) -> Ack {
        let rtt = Some(span(self.rtt));
        let acked = self.per_ack * u64::from(SMSS);
        Ack {
            now: at(self.now),
            acked,
            delivered: acked,
            flight: self.cc.window(),
            pipe: self.cc.window(),
            rtt,
            srtt: rtt,
            min_rtt: rtt,
            cwnd_limited: true,
            in_recovery: false,
        }
    }

    /// The next ACK of an evenly spread window.
    pub(crate) fn ack(&mut self) {
        self.now += self.rtt * self.per_ack as f64 / self.segments();
        self.acked_segments += self.per_ack as f64;
        self.cc.on_ack(&self.ack_of());
    }

    pub(crate) fn run_until(&mut self, end: f64) {
        while self.now < end {
            self.ack();
        }
    }

    /// One window's worth of ACKs.
    pub(crate) fn round(&mut self) {
        let acks = (self.segments() / self.per_ack as f64).round() as u64;
        (0..acks).for_each(|_| self.ack());
    }

    pub(crate) fn loss_of(&self) -> Loss {
        Loss {
            now: at(self.now),
            flight: self.cc.window(),
            pipe: self.cc.window(),
            min_rtt: Some(span(self.rtt)),
        }
    }

    pub(crate) fn lose(&mut self) {
        self.cc.on_loss(&self.loss_of());
        self.cc.on_recovered(&self.ack_of());
    }

    /// The mean window in segments over the last half of `periods` losses, one each `1/p` segments.
    pub(crate) fn mean_window(&mut self, p: f64, periods: u32) -> f64 {
        let per_period = (1.0 / p).round() as u64;
        let mut start = (0.0, 0.0);
        for period in 0..periods {
            if period == periods / 2 {
                start = (self.now, self.acked_segments);
            }
            (0..per_period).for_each(|_| self.ack());
            self.lose();
        }
        (self.acked_segments - start.1) * self.rtt / (self.now - start.0)
    }
}

/// On its way, or its ACK is.
struct Segment {
    sent: f64,
    arrives: f64,
    lost: bool,
}

/// A path with a FIFO bottleneck of unlimited length, unless one is given, and no errors, unless a probability is.
pub(crate) struct Bottleneck {
    pub(crate) cc: Box<dyn Controller>,
    pub(crate) now: f64,
    /// Segments in a second.
    pub(crate) rate: f64,
    pub(crate) base_rtt: f64,
    free_at: f64,
    flying: VecDeque<Segment>,
    /// Segments that the queue holds; one more is lost.
    pub(crate) queue: f64,
    /// Probability that a segment is lost.
    pub(crate) loss: f64,
    stream: RandomStream,
    /// Recovery lasts until the segment of this number is acknowledged.
    recovery_point: u64,
    pub(crate) acked_segments: u64,
    /// When pacing lets the next segment go.
    next_send: f64,
    pub(crate) sent_segments: u64,
    srtt: f64,
    pub(crate) min_rtt: f64,
    pub(crate) last_rtt: f64,
}

impl Bottleneck {
    pub(crate) fn new(
        choice: ControllerConfig,
        connection: &Connection,
        rate: f64,
        base_rtt: f64,
    ) -> Bottleneck {
        let mut cc = choice.build(connection);
        cc.on_established(at(base_rtt), Some(span(base_rtt)));
        let mut path = Bottleneck {
            cc,
            now: base_rtt,
            rate,
            base_rtt,
            free_at: 0.0,
            flying: VecDeque::new(),
            queue: f64::MAX,
            loss: 0.0,
            stream: RandomStream::new(1, "path"),
            recovery_point: 0,
            acked_segments: 0,
            next_send: 0.0,
            sent_segments: 0,
            srtt: base_rtt,
            min_rtt: base_rtt,
            last_rtt: base_rtt,
        };
        path.send_until(path.now);
        path
    }

    pub(crate) fn segments(&self) -> f64 {
        self.cc.window() as f64 / f64::from(SMSS)
    }

    /// Segments waiting at the bottleneck.
    pub(crate) fn queued(&self) -> f64 {
        (self.free_at - self.now).max(0.0) * self.rate
    }

    pub(crate) fn flight(&self) -> u64 {
        self.flying.len() as u64 * u64::from(SMSS)
    }

    /// Sends what window and pacing let go until `end`; at least one if nothing is in flight.
    fn send_until(&mut self, end: f64) {
        while self.flight() + u64::from(SMSS) <= self.cc.window() {
            let next = self.now.max(self.next_send);
            if next > end && !self.flying.is_empty() {
                break;
            }
            self.now = next;
            self.transmit();
            let gap = self.cc.pacing_rate().map_or(0.0, |rate| f64::from(8 * SMSS) / rate.as_bps() as f64);
            self.next_send = self.now + gap;
        }
    }

    fn transmit(&mut self) {
        let sent = Sent { now: at(self.now), bytes: u64::from(SMSS), flight: self.flight() };
        self.cc.on_sent(&sent);
        self.sent_segments += 1;
        // What the queue has no room for costs its time all the same: that of its repetition.
        let lost = self.queued() > self.queue || self.stream.chance(self.loss);
        self.free_at = self.free_at.max(self.now) + 1.0 / self.rate;
        self.flying.push_back(Segment { sent: self.now, arrives: self.free_at + self.base_rtt, lost });
    }

    /// The next segment's ACK, or what tells of its loss.
    pub(crate) fn ack(&mut self) {
        self.send_until(self.flying.front().map_or(self.now, |next| next.arrives));
        let full = self.flight() + u64::from(SMSS) > self.cc.window();
        let segment = self.flying.pop_front().expect("a window of one segment at least");
        self.now = segment.arrives;
        self.acked_segments += 1;
        if segment.lost && self.acked_segments >= self.recovery_point {
            self.recovery_point = self.sent_segments;
            self.cc.on_loss(&Loss {
                now: at(self.now),
                flight: self.flight(),
                pipe: self.flight(),
                min_rtt: Some(span(self.min_rtt)),
            });
        }
        self.tell(&segment, full);
        self.send_until(self.now);
    }

    fn tell(&mut self, segment: &Segment, full: bool) {
        self.last_rtt = segment.arrives - segment.sent;
        self.srtt += (self.last_rtt - self.srtt) / 8.0;
        self.min_rtt = self.min_rtt.min(self.last_rtt);
        let in_recovery = self.acked_segments <= self.recovery_point;
        let ack = Ack {
            now: at(self.now),
            acked: u64::from(SMSS),
            delivered: u64::from(SMSS),
            flight: self.flight(),
            pipe: self.flight(),
            rtt: Some(span(self.last_rtt)),
            srtt: Some(span(self.srtt)),
            min_rtt: Some(span(self.min_rtt)),
            cwnd_limited: full,
            in_recovery,
        };
        self.cc.on_ack(&ack);
        if self.acked_segments == self.recovery_point && self.recovery_point > 0 {
            self.cc.on_recovered(&ack);
        }
    }

    pub(crate) fn run_until(&mut self, end: f64) {
        while self.now < end {
            self.ack();
        }
    }
}
