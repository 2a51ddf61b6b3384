//! The receiver: when it reports, and what (RFC 5348, section 6).

use std::collections::VecDeque;

use bentpipe_units::{Bytes, Span, Time};

use super::{Arrival, LossEventRule, LossHistory, Params, Revision, equation};

/// History of received bytes, in reports. More reports occur only if loss events trigger them early.
const CHECKPOINTS: usize = 32;

/// Receiver's report (RFC 5348, section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// The rate at which data came, in bytes a second; zero in the first report.
    pub receive_rate: f64,
    /// The loss event rate; zero before the first loss.
    pub loss_event_rate: f64,
    /// The highest sequence number received.
    pub sequence: u64,
    /// Time since the arrival of that packet.
    pub delay: Span,
}

/// Received bytes at a point in time.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    at: Time,
    bytes: u64,
}

/// Receiving endpoint.
#[derive(Clone, Debug)]
pub struct Receiver {
    params: Params,
    /// Bytes of data in a packet.
    segment: f64,
    history: LossHistory,
    /// The sender's estimate, or by its window counter.
    rtt: Option<Span>,
    /// RTT of the connection's handshake, for a loss before the window counter has shown one.
    first_rtt: Option<Span>,
    counter: Option<Counter>,
    last: Option<(u64, Time)>,
    bytes: u64,
    checkpoints: VecDeque<Checkpoint>,
    /// Set if data arrived since the last report.
    fresh: bool,
    /// The timer ran out and there was nothing to report.
    is_overdue: bool,
    timer: Time,
    p: f64,
    /// The highest rate received, or the last with RFC 3448.
    target: f64,
}

/// The window counter's state (RFC 4342, sections 8.1 and 10.3).
#[derive(Clone, Debug, Default)]
struct Counter {
    highest: u64,
    reported: u64,
    /// Time at which the first packet of each of the last counter values came.
    firsts: VecDeque<(u64, Time)>,
}

impl Receiver {
    /// Creates a receiver of packets with `segment` bytes of data that carry the sender's RTT.
    pub fn new(params: Params, segment: Bytes) -> Receiver {
        Receiver {
            params,
            segment: segment.get() as f64,
            history: LossHistory::new(params),
            rtt: None,
            first_rtt: None,
            counter: None,
            last: None,
            bytes: 0,
            checkpoints: VecDeque::new(),
            fresh: false,
            is_overdue: false,
            timer: Time::NEVER,
            p: 0.0,
            target: 0.0,
        }
    }

    /// Creates a receiver of packets that carry a window counter instead (CCID 3). It has no timer.
    pub fn with_counter(params: Params, segment: Bytes) -> Receiver {
        Receiver { counter: Some(Counter::default()), ..Receiver::new(params, segment) }
    }

    /// Changes the mean bytes of data in a packet, at least one.
    ///
    /// Packets that differ need it (RFC 5348, section 4.1).
    pub fn set_segment(&mut self, segment: f64) {
        self.segment = segment.max(1.0);
    }

    /// Notes the RTT of the handshake.
    ///
    /// Window counters of a sender that sends less than two packets a round trip show none: they go on by five.
    pub fn on_handshake(&mut self, rtt: Span) {
        self.first_rtt = Some(rtt);
    }

    /// Returns `true` if a report is due immediately after a data packet of `bytes`. The sender's estimate is
    /// `rtt`.
    pub fn on_data(&mut self, arrival: &Arrival, bytes: u64, rtt: Option<Span>) -> bool {
        // Until the sender's packets say the RTT each is answered, and the first that does (RFC 5348, section 6.3).
        let is_first = self.counter.is_none() && self.rtt.is_none() || self.last.is_none();
        self.rtt = rtt.or(self.rtt);
        if self.last.is_none_or(|(sequence, _)| arrival.sequence > sequence) {
            self.last = Some((arrival.sequence, arrival.now));
        }
        (self.bytes, self.fresh) = (self.bytes + bytes, true);
        let is_due = self.count_quarters(arrival);
        let separation = self.separation();
        let initial = self.first_interval();
        self.history.arrive(arrival, separation, || initial);
        let before = std::mem::replace(&mut self.p, self.history.loss_event_rate(arrival.now, separation));
        is_first || is_due || self.p > before || self.is_overdue
    }

    /// Returns the time at which to call [`Receiver::on_timer`].
    pub fn deadline(&self) -> Time {
        self.timer
    }

    /// Returns `true` if the feedback timer, which it handles, makes a report due.
    pub fn on_timer(&mut self, now: Time) -> bool {
        if now < self.timer {
            return false;
        }
        self.is_overdue = !self.fresh;
        self.restart(now);
        self.fresh
    }

    /// Returns the loss event rate.
    pub fn loss_event_rate(&self) -> f64 {
        self.p
    }

    /// Returns the RTT as known.
    pub fn rtt(&self) -> Option<Span> {
        self.rtt
    }

    /// Creates a report, unless no packet has arrived, and starts the next period.
    pub fn report(&mut self, now: Time) -> Option<Report> {
        let (sequence, at) = self.last?;
        let receive_rate = self.receive_rate(now);
        self.checkpoint(now);
        self.target = match self.params.revision {
            Revision::Rfc5348 => self.target.max(receive_rate),
            Revision::Rfc3448 => receive_rate,
        };
        (self.fresh, self.is_overdue) = (false, false);
        self.counter.iter_mut().for_each(|counter| counter.reported = counter.highest);
        self.restart(now);
        Some(Report { receive_rate, loss_event_rate: self.p, sequence, delay: now.since(at) })
    }

    fn restart(&mut self, now: Time) {
        self.timer = match self.rtt {
            Some(rtt) if self.counter.is_none() => now + rtt.max(Span::from_micros(1)),
            _ => Time::NEVER,
        };
    }

    fn separation(&self) -> LossEventRule {
        match self.counter {
            Some(_) => LossEventRule::Counter,
            None => LossEventRule::Rtt(self.rtt.unwrap_or(Span::ZERO)),
        }
    }

    /// Returns the receive rate since the last report that is a round trip old.
    ///
    /// It is zero in the first report, and until the RTT is known, over which it is measured (RFC 5348, sections 6.2 and 6.3). The time between
    /// two packets alone, of which one may be a duplicate, does not measure a rate.
    fn receive_rate(&self, now: Time) -> f64 {
        let Some(rtt) = self.rtt.or(self.first_rtt) else { return 0.0 };
        let is_old = |checkpoint: &&Checkpoint| now.since(checkpoint.at) >= rtt;
        let from = self.checkpoints.iter().rev().find(is_old).or(self.checkpoints.front());
        let Some(from) = from else { return 0.0 };
        // An early report just after the first one: a round trip at least.
        let span = now.since(from.at).max(rtt);
        if span.is_zero() { 0.0 } else { (self.bytes - from.bytes) as f64 / span.as_secs_f64() }
    }

    fn checkpoint(&mut self, now: Time) {
        self.checkpoints.push_back(Checkpoint { at: now, bytes: self.bytes });
        let rtt = self.rtt.unwrap_or(Span::ZERO);
        while self.checkpoints.len() > CHECKPOINTS
            || self.checkpoints.get(1).is_some_and(|second| now.since(second.at) > rtt * 2)
        {
            self.checkpoints.pop_front();
        }
    }

    /// Returns the first interval, for which the equation gives the rate received until now. RFC 5348,
    /// section 6.3.1.
    fn first_interval(&self) -> f64 {
        let Some(rtt) = self.rtt.or(self.first_rtt).filter(|rtt| !rtt.is_zero()) else { return 1.0 };
        let segment = self.params.equation_segment(self.segment);
        let least = 0.5 * self.segment / rtt.as_secs_f64();
        1.0 / equation::loss_event_rate(segment, rtt, self.target.max(least))
    }

    /// Returns `true` if the window counter, which it follows, makes a report due.
    fn count_quarters(&mut self, arrival: &Arrival) -> bool {
        let Some(counter) = &mut self.counter else { return false };
        if counter.firsts.is_empty() || arrival.quarters > counter.highest {
            counter.highest = counter.highest.max(arrival.quarters);
            counter.firsts.push_back((arrival.quarters, arrival.now));
            self.rtt = counter.rtt().or(self.rtt);
        }
        counter.highest >= counter.reported + 4
    }
}

impl Counter {
    /// Estimates the RTT from the first packets of counter values four apart. Else three or two. RFC 4342,
    /// section 8.1.
    fn rtt(&mut self) -> Option<Span> {
        while self.firsts.len() > 8 {
            self.firsts.pop_front();
        }
        let (newest, at) = *self.firsts.back()?;
        let apart = |d: u64| {
            let (_, from) = self.firsts.iter().find(|(value, _)| value + d == newest)?;
            Some(at.since(*from).mul_f64(4.0 / d as f64))
        };
        apart(4).or_else(|| apart(3)).or_else(|| apart(2))
    }
}
