//! Speech packets of phones behind exchanges, of which the other phone has some.
//!
//! Exchanges send packets of their own, so that no account reaches from phone to phone. A packet behind the last that arrived is lost once it was
//! sent more than twice the longest delay ago, as RFC 7680, section 2.4, has a waiting time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_units::{Span, Time};

/// Number of packets that are kept although they arrived.
const KEPT: usize = 4096;

/// Speech packets of one mouth. It shares them with the ear at the other end.
#[derive(Clone, Debug)]
pub(super) struct Said(Arc<Mutex<Packets>>);

#[derive(Debug)]
struct Packets {
    /// Instant of the first sample of the first interval, and the time of each.
    start: Time,
    interval: Span,
    /// Intervals of the packets sent, counted from the first.
    sent: VecDeque<u32>,
    /// Interval behind that of the last packet that arrived.
    arrived: u32,
}

impl Packets {
    /// Returns the interval that begins at an instant, if one does.
    fn interval_of(&self, mouth: Time) -> Option<u32> {
        let since = mouth.as_nanos().checked_sub(self.start.as_nanos())?;
        let interval = self.interval.as_nanos().max(1);
        if since.is_multiple_of(interval) { u32::try_from(since / interval).ok() } else { None }
    }
}

impl Said {
    /// Creates the packets of a mouth that begins to speak.
    pub(super) fn new(start: Time, interval: Span) -> Said {
        Said(Arc::new(Mutex::new(Packets { start, interval, sent: VecDeque::new(), arrived: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Packets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a packet by the instant of its first sample.
    pub(super) fn push(&self, mouth: Time) {
        let mut packets = self.lock();
        let Some(interval) = packets.interval_of(mouth) else { return };
        while packets.sent.len() >= KEPT && packets.sent.front().is_some_and(|first| *first < packets.arrived)
        {
            packets.sent.pop_front();
        }
        packets.sent.push_back(interval);
    }

    /// Returns `true` if an arrival is of this mouth, and records it.
    pub(super) fn record(&self, mouth: Time) -> bool {
        let mut packets = self.lock();
        let Some(interval) = packets.interval_of(mouth) else { return false };
        packets.arrived = packets.arrived.max(interval.saturating_add(1));
        true
    }

    /// Returns the packets behind the last arrival whose first sample is in this time.
    pub(super) fn behind(&self, from: Time, until: Time) -> u64 {
        let packets = self.lock();
        let interval = packets.interval.as_nanos().max(1);
        let count = |at: Time| {
            let intervals = at.as_nanos().saturating_sub(packets.start.as_nanos()).div_ceil(interval);
            let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
            packets.sent.partition_point(|sent| *sent < intervals.max(packets.arrived)) as u64
        };
        count(until).saturating_sub(count(from))
    }
}

/// Mouths of one end of a flow, for the ears of the other.
#[derive(Clone, Debug, Default)]
pub struct Mouths(Arc<Mutex<Vec<Said>>>);

impl Mouths {
    fn lock(&self) -> MutexGuard<'_, Vec<Said>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a mouth. Those without a speaker and an ear are removed.
    pub(super) fn add(&self, said: &Said) {
        let mut mouths = self.lock();
        mouths.retain(|said| Arc::strong_count(&said.0) > 1);
        mouths.push(said.clone());
    }

    /// Returns the latest mouth that may have sent a packet with this first sample.
    pub(super) fn find(&self, mouth: Time) -> Option<Said> {
        let is_meant = |said: &&Said| {
            let packets = said.lock();
            packets.interval_of(mouth).is_some_and(|interval| packets.sent.binary_search(&interval).is_ok())
        };
        self.lock().iter().rev().find(is_meant).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn packets_behind_the_last_arrival_are_counted() {
        let (said, mouths) = (Said::new(at(7), Span::from_millis(20)), Mouths::default());
        mouths.add(&said);
        (0..100).for_each(|n| said.push(at(7 + 20 * n)));
        assert!(
            mouths.find(at(27)).is_some() && mouths.find(at(28)).is_none() && mouths.find(at(5)).is_none()
        );
        assert!(said.record(at(7 + 20 * 9)) && !said.record(at(8)));
        assert_eq!(said.behind(Time::ZERO, at(2000)), 90, "ten arrived");
        assert_eq!(said.behind(Time::ZERO, at(1007)), 40);
        assert_eq!(said.behind(at(1007), at(2000)), 50);
        assert_eq!(said.behind(Time::ZERO, at(100)), 0);
        drop(said);
        mouths.add(&Said::new(at(0), Span::from_millis(20)));
        assert!(mouths.find(at(27)).is_none());
    }
}
