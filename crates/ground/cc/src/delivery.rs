//! Delivery rate samples, one per ACK (draft-cheng-iccrg-delivery-rate-estimation). The data delivered since
//! the acknowledged segment left, over the longer of the time to send it and the time to acknowledge it.
//!
//! A transport that stamps each segment needs memory for each. Here the count of delivered bytes is kept at moments
//! 1/32 of the RTT apart, and the moment the segment left is now less its RTT, so memory does not depend on the window.

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};

use crate::Ack;

/// Marks kept: two round trips of them.
const MARKS: usize = 64;
/// Marks in a round trip.
const PER_RTT: u64 = 32;

/// Delivered data at a point in time, with the last delivered segment's sending time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Time,
    delivered: u64,
    rtt: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    delivered: u64,
    /// Amount of delivered data up to which samples are the application's rate, not the path's.
    app_limited_until: u64,
    marks: VecDeque<Mark>,
}

/// Delivery rate sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) bytes_per_sec: f64,
    /// The sender had nothing to send meanwhile: the path may be faster.
    pub(crate) app_limited: bool,
}

impl Delivery {
    pub(crate) fn new() -> Delivery {
        Delivery { delivered: 0, app_limited_until: 0, marks: VecDeque::with_capacity(MARKS) }
    }

    /// Bytes delivered until now.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Records that the sender has no more data, with `flight` bytes outstanding.
    pub(crate) fn limit(&mut self, flight: u64) {
        self.app_limited_until = self.delivered.saturating_add(flight.max(1));
    }

    /// Restarts the measurement: sending begins with nothing in flight.
    pub(crate) fn restart(&mut self, now: Time) {
        self.marks.clear();
        self.marks.push_back(Mark { at: now, delivered: self.delivered, rtt: Span::ZERO });
    }

    /// Records an ACK and returns its sample.
    ///
    /// SACKs in recovery have no RTT of their own: the smoothed RTT stands for it.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Option<Sample> {
        self.delivered = self.delivered.saturating_add(ack.delivered);
        let sacked = ack.srtt.filter(|_| ack.in_recovery && ack.delivered > 0);
        let rtt = ack.rtt.or(sacked)?;
        let sent = Time::from_nanos(ack.now.as_nanos().saturating_sub(rtt.as_nanos()));
        let sample = self.since(sent, ack.now);
        self.mark(ack.now, rtt, ack.srtt.unwrap_or(rtt));
        sample
    }

    /// Returns the sample since the last mark up to `sent`, or the oldest mark.
    fn since(&mut self, sent: Time, now: Time) -> Option<Sample> {
        while self.marks.get(1).is_some_and(|next| next.at <= sent) {
            self.marks.pop_front();
        }
        let mark = self.marks.front()?;
        let left = Time::from_nanos(mark.at.as_nanos().saturating_sub(mark.rtt.as_nanos()));
        let interval = now.since(mark.at).max(sent.since(left)).as_secs_f64();
        let bytes = self.delivered - mark.delivered;
        let app_limited = self.delivered <= self.app_limited_until;
        (interval > 0.0).then(|| Sample { bytes_per_sec: bytes as f64 / interval, app_limited })
    }

    fn mark(&mut self, now: Time, rtt: Span, srtt: Span) {
        if self.marks.back().is_some_and(|last| now.since(last.at) < srtt / PER_RTT) {
            return;
        }
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { at: now, delivered: self.delivered, rtt });
    }
}
