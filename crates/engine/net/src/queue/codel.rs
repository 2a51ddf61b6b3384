//! CoDel (RFC 8289): drops at the head while packets wait longer than a target.
//!
//! Not modelled: Linux's `ce_threshold`, its times in units of 1,024 ns and its Newton step for the square root.

use bentpipe_units::{Bytes, RandomStream, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tally::Tally;
use super::timed::Timed;
use super::{Discipline, OTHER_KIND, Queue, ecn};
use crate::queue::metrics;
use crate::{InvalidConfig, Observer, Packet, Why};

/// Intervals without a drop after which a cycle starts slowly again (RFC 8289, 5.5).
const FORGET: u64 = 16;

/// CoDel with the defaults of RFC 8289 and of Linux's `tc codel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Sojourn time that may persist. At least the time of a packet on the line. Default: "5 ms".
    pub target: Span,
    /// Time above `target` before the first drop, about the longest round trip.
    /// Default: "100 ms".
    pub interval: Span,
    /// Maximum number of waiting packets. Default: 1000.
    pub packets: u32,
    /// Maximum number of waiting bytes, counted as IP packets. Default: no limit.
    pub bytes: Option<Bytes>,
    /// Enables ECN marking instead of drops for ECN-capable transports. Default: false.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            packets: super::DEFAULT_PACKETS,
            bytes: None,
            ecn: false,
        }
    }
}

impl Config {
    fn law(&self) -> Result<Parameters, InvalidConfig> {
        Parameters::new(self.target, self.interval, self.ecn)
    }
}

/// Settings of the control law, which many queues may share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    target: Span,
    interval: Span,
    ecn: bool,
}

impl Parameters {
    pub(super) fn new(target: Span, interval: Span, ecn: bool) -> Result<Parameters, InvalidConfig> {
        InvalidConfig::ensure(!target.is_zero(), "target", "more than zero")?;
        InvalidConfig::ensure(target < interval, "interval", "more than target")?;
        Ok(Parameters { target, interval, ecn })
    }
}

/// Numbers that a queue with this law reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) limit: u64,
    pub(super) aqm: u64,
    pub(super) marked: u64,
}

impl Counts {
    /// Returns the sums of both.
    pub(super) fn plus(self, other: Counts) -> Counts {
        Counts {
            limit: self.limit + other.limit,
            aqm: self.aqm + other.aqm,
            marked: self.marked + other.marked,
        }
    }

    pub(super) fn observe(&self, observer: &mut dyn Observer) {
        observer.counter(&metrics::AQM_DROPPED_QUEUE, self.limit + self.aqm);
        observer.counter(&metrics::DROPPED_LIMIT, self.limit);
        observer.counter(&metrics::DROPPED_AQM, self.aqm);
        observer.counter(&metrics::MARKED, self.marked);
    }
}

/// State of the control law of one queue: the variables of RFC 8289, 5.2.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Law {
    /// Instant at which the sojourn time will have been above target for an interval.
    first_above: Option<Time>,
    /// Instant of the next drop, or of what would have been the next.
    next_drop: Time,
    /// Drops of this cycle, and those with which it started.
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

/// Queue that a law works on, and the counters of all that waits with it.
pub(super) struct Serving<'a> {
    pub(super) now: Time,
    pub(super) waiting: &'a mut Timed,
    pub(super) tally: &'a mut Tally,
    pub(super) counts: &'a mut Counts,
    /// Bytes that may always wait: the largest packet.
    pub(super) largest: u64,
}

impl Serving<'_> {
    fn pop(&mut self) -> Option<(Packet, Span)> {
        let (packet, sojourn) = self.waiting.pop(self.now)?;
        self.tally.leave(packet.len(), self.now);
        Some((packet, sojourn))
    }

    fn drop(&mut self, packet: Packet) {
        self.counts.aqm += 1;
        packet.lose(Why::Aqm);
    }

    /// Returns `true` if the packet is marked, in the place of a drop.
    fn mark(&mut self, packet: &mut Packet, of: &Parameters) -> bool {
        let is_marked = of.ecn && ecn::mark(packet);
        self.counts.marked += u64::from(is_marked);
        is_marked
    }
}

impl Law {
    /// Removes the packet that is served now, after those that are dropped (RFC 8289, 5.5).
    pub(super) fn serve(&mut self, of: &Parameters, on: &mut Serving<'_>) -> Option<Packet> {
        let now = on.now;
        let (mut packet, mut may_drop) = self.take(of, on)?;
        if self.is_dropping {
            self.is_dropping = may_drop;
            // A large backlog may ask for several drops at one instant.
            while self.is_dropping && now >= self.next_drop {
                self.count = self.count.wrapping_add(1);
                if on.mark(&mut packet, of) {
                    self.next_drop = self.after(self.next_drop, of);
                    return Some(packet);
                }
                on.drop(packet);
                (packet, may_drop) = self.take(of, on)?;
                self.is_dropping = may_drop;
                if may_drop {
                    self.next_drop = self.after(self.next_drop, of);
                }
            }
        } else if may_drop {
            let is_marked = on.mark(&mut packet, of);
            let served = if is_marked {
                Some(packet)
            } else {
                on.drop(packet);
                self.take(of, on).map(|(packet, _)| packet)
            };
            self.begin(of, now);
            return served;
        }
        Some(packet)
    }

    /// Begins a cycle of drops. It has the rate of the last one if that ended not long ago.
    fn begin(&mut self, of: &Parameters, now: Time) {
        let delta = self.count.wrapping_sub(self.last_count);
        let since = now.as_nanos().saturating_sub(self.next_drop.as_nanos());
        let is_recent = since < FORGET.saturating_mul(of.interval.as_nanos());
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.is_dropping = true;
        self.next_drop = self.after(now, of);
        self.last_count = self.count;
    }

    /// Returns the instant of the next drop.
    ///
    /// The rate of drops grows with the square root of their number: TCP's goodput falls with the root of the loss ratio, so that it falls linearly in time.
    fn after(&self, at: Time, of: &Parameters) -> Time {
        at + of.interval.mul_f64(1.0 / libm::sqrt(f64::from(self.count)))
    }

    /// Removes the first packet. The second value says whether the law may drop it.
    ///
    /// `None` of an empty queue, which ends a cycle of drops.
    fn take(&mut self, of: &Parameters, on: &mut Serving<'_>) -> Option<(Packet, bool)> {
        let Some((packet, sojourn)) = on.pop() else {
            (self.first_above, self.is_dropping) = (None, false);
            return None;
        };
        if sojourn < of.target || on.tally.bytes() <= on.largest {
            self.first_above = None;
            return Some((packet, false));
        }
        let first_above = *self.first_above.get_or_insert(on.now + of.interval);
        Some((packet, on.now >= first_above))
    }

    /// Returns `true` if it never dropped a packet.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.count == 0
    }

    /// Notes a packet that did not wait.
    pub(super) fn pass(&mut self) {
        (self.first_above, self.is_dropping) = (None, false);
    }
}

/// A CoDel queue.
#[derive(Debug)]
pub struct CoDel {
    parameters: Parameters,
    law: Law,
    limits: (usize, u64),
    waiting: Timed,
    tally: Tally,
    counts: Counts,
    largest: u64,
}

impl CoDel {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<CoDel, InvalidConfig> {
        Ok(CoDel {
            parameters: config.law()?,
            law: Law::default(),
            limits: limits(config.packets, config.bytes),
            waiting: Timed::default(),
            tally: Tally::default(),
            counts: Counts::default(),
            largest: 0,
        })
    }
}

/// Returns the most packets and bytes that may wait.
pub(super) fn limits(packets: u32, bytes: Option<Bytes>) -> (usize, u64) {
    ((packets as usize).min(super::MOST_PACKETS), bytes.map_or(u64::MAX, Bytes::get))
}

impl Queue for CoDel {
    fn enqueue(&mut self, packet: Packet, now: Time, _stream: &mut RandomStream) {
        let len = packet.len();
        if self.tally.packets() >= self.limits.0 || self.tally.bytes() + len as u64 > self.limits.1 {
            self.counts.limit += 1;
            return packet.lose(Why::Queue);
        }
        self.largest = self.largest.max(len as u64);
        self.tally.arrive(len, now);
        self.waiting.push(packet, now);
    }

    fn pass(&mut self, packet: Packet, _: Time, _: Time, _: &mut RandomStream) -> Option<Packet> {
        self.law.pass();
        Some(packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        let (waiting, tally, counts) = (&mut self.waiting, &mut self.tally, &mut self.counts);
        self.law.serve(&self.parameters, &mut Serving { now, waiting, tally, counts, largest: self.largest })
    }

    fn packets(&self) -> usize {
        self.tally.packets()
    }

    fn bytes(&self) -> u64 {
        self.tally.bytes()
    }

    /// Changes the parameters and keeps the state of the law.
    fn set(&mut self, discipline: &Discipline, _now: Time) -> Result<(), InvalidConfig> {
        let Discipline::CoDel(config) = discipline else { return Err(OTHER_KIND) };
        self.parameters = config.law()?;
        self.limits = limits(config.packets, config.bytes);
        Ok(())
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        self.counts.observe(observer);
        self.tally.observe(now, observer);
    }
}

#[cfg(test)]
mod tests;
