//! Sending endpoint: allowed rate and departure times (RFC 5348, section 4).

use bentpipe_units::{Bytes, Span, Time};

use super::quick_start::QuickStart;
use super::{Params, Revision, SMALL_PACKET_HEADER, equation};

/// RFC 5348, section 4.3: the least rate is a packet in this time.
const LONGEST_BACKOFF: f64 = 64.0;
/// RFC 5348, section 4.2: the nofeedback timer before there is a round trip time.
const FIRST_TIMEOUT: Span = Span::from_secs(2);
/// Weight of the old value in the mean RTT and its square root. RFC 5348, sections 4.3 and 4.5.
const SMOOTHING: f64 = 0.9;
/// Minimum gap between small packets (RFC 4828, section 3).
pub const SMALL_PACKET_GAP: Span = Span::from_millis(10);

/// Minimum accepted RTT: the precision of reports. A receiver that reports a holding time as long as the
/// round trip would otherwise have all data sent in one burst.
const LEAST_RTT: Span = Span::from_micros(1);
/// The least time between packets: they are never without number at one instant.
const LEAST_GAP: Span = Span::from_nanos(1);
/// Maximum sending credit in packets, for any RTT and rate of a receiver.
const MOST_CREDIT: u64 = 100_000;

/// A report as it reaches the sender.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// Time at which it came.
    pub now: Time,
    /// Time at which the packet that it answers was sent.
    pub sent: Time,
    /// Time for which the receiver held it (`t_delay`).
    pub delay: Span,
    /// The highest sequence number received.
    pub sequence: u64,
    /// Bytes a second received.
    pub receive_rate: f64,
    /// The loss event rate.
    pub loss_event_rate: f64,
}

/// Returns the state for recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// The allowed rate X in bytes a second.
    pub rate: f64,
    /// The same with the damping of oscillations.
    pub instantaneous: f64,
    /// Rate allowed by the equation; infinite before the first loss.
    pub equation: f64,
    /// The loss event rate last reported.
    pub loss_event_rate: f64,
    /// The smoothed RTT.
    pub rtt: Option<Span>,
}

/// Sending endpoint.
#[derive(Clone, Debug)]
pub struct Sender {
    params: Params,
    /// Bytes of data in a packet.
    segment: f64,
    equation_segment: f64,
    /// X.
    rate: f64,
    /// X_Bps; infinite before the first loss.
    equation: f64,
    rtt: Option<Span>,
    /// R_sqmean in square roots of seconds, and the last sample.
    root_mean: f64,
    sample: f64,
    p: f64,
    /// Time at which the rate was last doubled (`tld`).
    doubled: Time,
    received: Received,
    has_feedback: bool,
    /// The nofeedback timer.
    timer: Time,
    has_sent: bool,
    limited: Limited,
    /// Time at which the last packet should have gone.
    nominal: Option<Time>,
    next: u64,
    quick_start: QuickStart,
    /// Set if a loss was reported since the last Quick-Start request.
    lost_since_request: bool,
}

impl Sender {
    /// Creates a sender without knowledge of the path. Packets have `segment` bytes of data, at least one.
    pub fn new(params: Params, segment: Bytes) -> Sender {
        let segment_len = segment.get().max(1) as f64;
        Sender {
            params,
            segment: segment_len,
            equation_segment: params.equation_segment(segment_len),
            rate: segment_len,
            equation: f64::INFINITY,
            rtt: None,
            root_mean: 0.0,
            sample: 0.0,
            p: 0.0,
            doubled: Time::ZERO,
            received: Received::new(),
            has_feedback: false,
            timer: Time::NEVER,
            has_sent: false,
            limited: Limited::default(),
            nominal: None,
            next: 0,
            quick_start: QuickStart::OFF,
            lost_since_request: false,
        }
    }

    /// Changes the mean bytes of data in a packet, at least one.
    ///
    /// Packets that differ need it (RFC 5348, section 4.1).
    ///
    /// Before the first packet the initial rate follows it.
    pub fn set_segment(&mut self, segment: f64) {
        self.segment = segment.max(1.0);
        self.equation_segment = self.params.equation_segment(self.segment);
        let is_initial = self.nominal.is_none() && self.params.revision == Revision::Rfc5348;
        if is_initial && self.rtt.is_some() {
            self.rate = self.initial_rate();
        }
    }

    /// Records the RTT of a handshake, measured before any data (RFC 5348, section 4.2).
    pub fn on_handshake(&mut self, now: Time, sample: Span) {
        self.take_sample(sample);
        if self.params.revision == Revision::Rfc5348 {
            (self.rate, self.doubled) = (self.initial_rate(), now);
        }
    }

    /// Returns the departure time of the next packet. Immediately if that is past.
    pub fn send_at(&self) -> Time {
        self.nominal.map_or(Time::ZERO, |nominal| nominal + self.gap())
    }

    /// Records the departure of packet `sequence`. `is_backlogged` is set if another packet is held back by
    /// the rate.
    pub fn on_sent(&mut self, now: Time, sequence: u64, is_backlogged: bool) {
        let unused = if self.params.credit { self.rtt.unwrap_or(Span::ZERO) } else { Span::ZERO };
        let unused = unused.min(self.gap() * MOST_CREDIT);
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(unused.as_nanos()));
        self.nominal = Some(if self.nominal.is_none() { now } else { self.send_at().max(earliest).min(now) });
        self.next = sequence + 1;
        if self.timer.is_never() {
            self.timer = now + FIRST_TIMEOUT;
        }
        self.has_sent = true;
        if is_backlogged && self.send_at() > now {
            self.limited.note(now);
        }
    }

    /// Handles a report (RFC 5348, section 4.3).
    pub fn on_feedback(&mut self, feedback: &Feedback) {
        let now = feedback.now;
        self.take_sample(now.since(feedback.sent).saturating_sub(feedback.delay));
        let rtt = self.rtt.unwrap_or(Span::ZERO);
        let is_limited = feedback.receive_rate > 0.0 && self.limited.covers(now, feedback.sent, rtt);
        let is_worse = feedback.loss_event_rate > self.p;
        self.p = feedback.loss_event_rate;
        self.equation = self.equation_rate(rtt);
        let limit = match self.params.revision {
            Revision::Rfc5348 => self.received.limit(now, rtt, feedback.receive_rate, is_limited, is_worse),
            Revision::Rfc3448 => self.received.last(feedback.receive_rate),
        };
        if is_worse {
            self.quick_start = QuickStart::OFF;
            self.lost_since_request = true;
        } else {
            self.quick_start.acknowledge(now, rtt, feedback.sequence, self.next);
        }
        if !self.quick_start.is_on() {
            self.update(now, rtt, limit);
        }
        self.has_feedback = true;
        self.restart_timer(now);
    }

    /// Records that routers are asked for a rate in mid-connection. Request at most [`State::equation`] (RFC
    /// 5634, section 3.2.1). Not needed at the start.
    pub fn on_request(&mut self) {
        self.lost_since_request = false;
    }

    /// Returns `true` if the router-approved rate of `rate` bytes per second is applied. The rate is for
    /// whole packets with `header` bytes of IP and transport header (RFC 5634, section 3.2.3). Unused if it
    /// does not exceed the present rate or a loss was reported since the request.
    pub fn on_quick_start(&mut self, now: Time, rate: f64, header: Bytes) -> bool {
        let Some(rtt) = self.rtt else { return false };
        let header = if self.params.small_packets { 0.0 } else { header.get() as f64 };
        let rate = rate * self.segment / (self.segment + header);
        if rate <= self.rate || self.lost_since_request {
            return false;
        }
        self.quick_start = QuickStart::begin(now, rtt, self.next, self.rate);
        (self.rate, self.doubled) = (rate, now);
        true
    }

    /// Returns the time at which to call [`Sender::on_timer`].
    pub fn deadline(&self) -> Time {
        self.timer.min(self.quick_start.deadline())
    }

    /// Handles the nofeedback timer (RFC 5348, section 4.4) or a Quick-Start phase's end.
    pub fn on_timer(&mut self, now: Time) {
        let rtt = self.rtt.unwrap_or(Span::ZERO);
        if let Some(rate) = self.quick_start.expire(now, rtt, self.next, self.rate) {
            self.rate = rate;
            self.restart_timer(now);
        }
        if self.timer <= now {
            match self.params.revision {
                Revision::Rfc5348 => self.back_off(),
                Revision::Rfc3448 => self.back_off_rfc3448(),
            }
            self.quick_start = QuickStart::OFF;
            self.restart_timer(now);
        }
    }

    /// Returns the smoothed RTT.
    pub fn rtt(&self) -> Option<Span> {
        self.rtt
    }

    /// Returns the state for recording.
    pub fn state(&self) -> State {
        State {
            rate: self.rate,
            instantaneous: self.instantaneous(),
            equation: self.equation,
            loss_event_rate: self.p,
            rtt: self.rtt,
        }
    }

    fn take_sample(&mut self, sample: Span) {
        let sample = sample.max(LEAST_RTT);
        let root = sample.as_secs_f64().sqrt();
        match self.rtt {
            None => (self.rtt, self.root_mean) = (Some(sample), root),
            Some(rtt) => {
                self.rtt = Some(rtt.mul_f64(SMOOTHING) + sample.mul_f64(1.0 - SMOOTHING));
                self.root_mean = SMOOTHING * self.root_mean + (1.0 - SMOOTHING) * root;
            }
        }
        self.sample = root;
    }

    /// Performs step 4 of section 4.3, limited by the received rate.
    fn update(&mut self, now: Time, rtt: Span, limit: f64) {
        if self.p > 0.0 {
            self.rate = self.equation.min(limit).max(self.least());
        } else if !self.has_feedback
            && self.params.revision == Revision::Rfc5348
            && self.doubled == Time::ZERO
        {
            (self.rate, self.doubled) = (self.rate.max(self.initial_rate()), now);
        } else if now.since(self.doubled) >= rtt {
            (self.rate, self.doubled) = ((2.0 * self.rate).min(limit).max(self.initial_rate()), now);
        }
    }

    /// Applies section 4.4, with the sender's idle time taken into account.
    fn back_off(&mut self) {
        let received = self.received.max();
        let recover = self.rtt.map_or(f64::INFINITY, |_| self.initial_rate());
        let is_low = if self.p > 0.0 { received < recover } else { self.rate < 2.0 * recover };
        if !self.has_sent && is_low {
            return;
        }
        if self.p == 0.0 {
            self.rate = (self.rate / 2.0).max(self.least());
        } else if self.equation > 2.0 * received {
            self.hold_to(received);
        } else {
            self.hold_to(self.equation / 2.0);
        }
    }

    /// Applies `Update_Limits` of section 4.4.
    fn hold_to(&mut self, limit: f64) {
        let limit = limit.max(self.least());
        self.received.replace(limit / 2.0);
        self.rate = self.equation.min(limit).max(self.least());
    }

    /// Applies RFC 3448, section 4.4.
    fn back_off_rfc3448(&mut self) {
        if !self.has_feedback {
            self.rate = (self.rate / 2.0).max(self.least());
            return;
        }
        let four_packets = 4.0 * self.segment / self.rtt.map_or(f64::INFINITY, Span::as_secs_f64);
        let received = self.received.max();
        if !self.has_sent && received < four_packets {
            return;
        }
        let halved = if self.equation > 2.0 * received {
            (received / 2.0).max(self.least() / 2.0)
        } else {
            self.equation / 4.0
        };
        self.received.replace(halved);
        self.rate = self.equation.min(2.0 * halved).max(self.least());
    }

    fn restart_timer(&mut self, now: Time) {
        let rtt = self.rtt.unwrap_or(FIRST_TIMEOUT);
        self.timer = now + (rtt * 4).max(Span::from_secs_f64(2.0 * self.segment / self.rate));
        self.has_sent = false;
    }

    fn equation_rate(&self, rtt: Span) -> f64 {
        if self.p <= 0.0 {
            return f64::INFINITY;
        }
        let rate = equation::rate(self.equation_segment, rtt, self.p.min(1.0));
        if self.params.small_packets {
            rate * self.segment / (self.segment + SMALL_PACKET_HEADER)
        } else {
            rate
        }
    }

    /// Returns the initial rate (section 4.2). The window of RFC 3390 in a round trip; RFC 3448: one packet.
    fn initial_rate(&self) -> f64 {
        let window = match self.params.revision {
            Revision::Rfc5348 => (4.0 * self.segment).min((2.0 * self.segment).max(4380.0)),
            Revision::Rfc3448 => self.segment,
        };
        window / self.rtt.map_or(1.0, Span::as_secs_f64).max(1e-9)
    }

    fn least(&self) -> f64 {
        self.segment / LONGEST_BACKOFF
    }

    /// Returns the instantaneous rate of section 4.5.
    fn instantaneous(&self) -> f64 {
        if !self.params.damping || self.sample == 0.0 {
            return self.rate;
        }
        (self.rate * self.root_mean / self.sample).max(self.least())
    }

    /// Returns the nominal time from packet to packet (section 4.6).
    fn gap(&self) -> Span {
        let gap = Span::from_secs_f64(self.segment / self.instantaneous());
        gap.max(if self.params.small_packets { SMALL_PACKET_GAP } else { LEAST_GAP })
    }
}

/// `X_recv_set`: the rates reported in the last two round trips.
#[derive(Clone, Debug)]
struct Received(Vec<(Time, f64)>);

impl Received {
    /// Creates a record without reports, which sets no limit.
    fn new() -> Received {
        Received(vec![(Time::ZERO, f64::INFINITY)])
    }

    fn max(&self) -> f64 {
        self.0.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// Records a reported rate and returns `recv_limit` (section 4.3, step 4).
    fn limit(&mut self, now: Time, rtt: Span, rate: f64, is_data_limited: bool, is_worse: bool) -> f64 {
        // No limit holds for two round trips from the first report on.
        self.0.iter_mut().filter(|(at, _)| *at == Time::ZERO).for_each(|(at, _)| *at = now);
        match (is_data_limited, is_worse) {
            (true, true) => {
                self.0.iter_mut().for_each(|(_, rate)| *rate /= 2.0);
                self.maximize(now, 0.85 * rate);
                self.max()
            }
            (true, false) => {
                self.maximize(now, rate);
                2.0 * self.max()
            }
            (false, _) => {
                self.0.push((now, rate));
                self.0.retain(|(at, _)| now.since(*at) <= rtt * 2);
                2.0 * self.max()
            }
        }
    }

    fn maximize(&mut self, now: Time, rate: f64) {
        let known = self.0.iter().map(|(_, rate)| *rate).filter(|rate| rate.is_finite());
        let most = known.fold(rate, f64::max);
        self.0 = vec![(now, most)];
    }

    /// Returns twice the last reported rate, the only one that RFC 3448 knows. The first report, of zero,
    /// does not limit.
    fn last(&mut self, rate: f64) -> f64 {
        if rate > 0.0 {
            self.replace(rate);
        }
        2.0 * self.max()
    }

    fn replace(&mut self, rate: f64) {
        self.0 = vec![(Time::ZERO, rate)];
    }
}

/// Times at which the sender was limited by its rate and not by its data. RFC 5348, section 8.2.1.
#[derive(Clone, Debug, Default)]
struct Limited {
    first: Time,
    second: Time,
    covered: Time,
    next: Time,
}

impl Limited {
    /// Records that the rate limits the sender at `now`.
    fn note(&mut self, now: Time) {
        if self.first <= self.covered {
            self.first = now;
        } else if self.second <= self.next {
            self.second = now;
        }
    }

    /// Returns `true` if data limited the sender throughout the round trip before `sent`.
    fn covers(&mut self, now: Time, sent: Time, rtt: Span) -> bool {
        let old = Time::from_nanos(sent.as_nanos().saturating_sub(rtt.as_nanos()));
        (self.covered, self.next) = (sent, now);
        let within = |at: Time| at > old && at <= sent;
        let is_data_limited = !(within(self.first) || within(self.second));
        if self.first <= sent && self.second > sent {
            self.first = self.second;
        }
        is_data_limited
    }
}
