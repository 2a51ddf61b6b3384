//! Random early detection (Floyd and Jacobson 1993) with the parameters of Linux's `tc red`. Models ECN marking (RFC
//! 3168) and the gentle region (Floyd, 2000).
//!
//! Not modelled: adaptive RED, the byte mode that weighs a packet's chance by its length, Linux's fixed-point average.

use bentpipe_units::{Bytes, RandomStream, Rate, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drop_tail::Backlog;
use super::{Discipline, OTHER_KIND, Queue, ecn};
use crate::config::{InvalidConfig, probability};
use crate::queue::metrics;
use crate::{Observer, Packet, Why};

/// Random early detection. All lengths count waiting packets, without the packet in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The average queue from which on packets are marked or dropped. No default.
    pub min: Bytes,
    /// Average queue of the maximum probability, above which every packet is marked or dropped. No default.
    pub max: Bytes,
    /// The most bytes that wait at any moment. No default.
    pub limit: Bytes,
    /// The probability of marking or dropping at `max`, 0 to 1. Default: 0.02.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(default = "default_probability")]
    pub probability: f64,
    /// The usual packet's length. Default: "1000 B".
    #[serde(default = "default_average_packet")]
    pub average_packet: Bytes,
    /// Burst of average packets accepted before the average queue follows, which sets the average's weight. Default: (2
    /// min + max) / (3 average_packet).
    #[serde(default)]
    pub burst: Option<u32>,
    /// The link's rate, for the decay of the average while nothing comes. Default: "10 Mbit/s".
    #[serde(default = "default_bandwidth")]
    pub bandwidth: Rate,
    /// Enables the gentle region instead of a jump to 1. The probability rises from `probability` at `max` to
    /// 1 at twice `max`. Default: false.
    #[serde(default)]
    pub gentle: bool,
    /// Enables ECN marking instead of drops for ECN-capable transports. Default: false.
    #[serde(default)]
    pub ecn: bool,
    /// Enables drops instead of marks once the average is above `max`. Default: false.
    #[serde(default)]
    pub harddrop: bool,
    /// Rounding of weight and probability: exact, or to powers of two. Default: exact.
    #[serde(default)]
    pub rounding: Rounding,
}

/// Rounding of RED's weight and of the slope of its probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// Values as given.
    #[default]
    Exact,
    /// Rounding down to powers of two, as `tc` did until 2012. The probability at `max` may be as little as
    /// half.
    Tc,
}

fn default_probability() -> f64 {
    0.02
}

fn default_average_packet() -> Bytes {
    Bytes::new(1000)
}

fn default_bandwidth() -> Rate {
    Rate::from_bps(10_000_000)
}

impl Config {
    /// Creates a configuration with these thresholds and defaults for the rest.
    pub fn new(min: Bytes, max: Bytes, limit: Bytes) -> Config {
        Config {
            min,
            max,
            limit,
            probability: 0.02,
            average_packet: Bytes::new(1000),
            burst: None,
            bandwidth: Rate::from_bps(10_000_000),
            gentle: false,
            ecn: false,
            harddrop: false,
            rounding: Rounding::Exact,
        }
    }

    fn burst_packets(&self) -> f64 {
        let by_default = || (2 * self.min.get() + self.max.get()) / (3 * self.average_packet.get());
        self.burst.map_or_else(|| by_default() as f64, f64::from)
    }

    /// Returns the weight of a new value in the average.
    ///
    /// It is the largest whose response to a burst from an empty queue stays under `min`, burst + 1 -
    /// min/avpkt <= (1 - (1-w)^burst) / w.
    fn weight(&self) -> Result<f64, InvalidConfig> {
        let burst = self.burst_packets();
        let needed = burst + 1.0 - self.min.get() as f64 / self.average_packet.get() as f64;
        let is_possible = needed >= 1.0 && needed <= burst;
        InvalidConfig::ensure(
            is_possible,
            "burst",
            "at least min/average_packet, and min at least an average packet",
        )?;
        let is_slow_enough = |w: f64| needed <= (1.0 - libm::pow(1.0 - w, burst)) / w;
        let halves = (1..32).map(|power| libm::ldexp(1.0, -power));
        match self.rounding {
            Rounding::Tc => Ok(halves.into_iter().find(|&w| is_slow_enough(w)).unwrap_or(f64::MIN_POSITIVE)),
            Rounding::Exact => Ok(bisect(is_slow_enough)),
        }
    }

    /// Returns the rise of the probability for each byte of the average above `min`.
    fn slope(&self) -> f64 {
        let exact = self.probability / (self.max.get() - self.min.get()) as f64;
        match self.rounding {
            Rounding::Exact => exact,
            Rounding::Tc => {
                (0..32).map(|power| libm::ldexp(1.0, -power)).find(|&slope| slope < exact).unwrap_or(0.0)
            }
        }
    }
}

/// Returns the largest w in (0, 1] that satisfies a condition satisfied by small values.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    if holds(high) {
        return high;
    }
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// A RED queue.
#[derive(Debug)]
pub struct Red {
    waiting: Backlog,
    law: Law,
    limit: u64,
    marks: bool,
    harddrop: bool,
    average: f64,
    /// Packets accepted since the last mark or drop, or since the average rose above `min`.
    since: u64,
    marked: u64,
    dropped_early: u64,
    dropped_forced: u64,
    dropped_limit: u64,
}

/// The average and its answer.
#[derive(Debug)]
struct Law {
    weight: f64,
    /// ln(1 - weight).
    decay: f64,
    /// Average packets that the link sends in a nanosecond.
    packets_per_ns: f64,
    min: f64,
    max: f64,
    slope: f64,
    gentle: bool,
}

/// Decision on an arrival.
enum Answer {
    Take,
    Early,
    Forced,
}

impl Red {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<Red, InvalidConfig> {
        Ok(Red {
            waiting: Backlog::default(),
            law: Law::new(config)?,
            limit: config.limit.get(),
            marks: config.ecn,
            harddrop: config.harddrop,
            average: 0.0,
            since: 0,
            marked: 0,
            dropped_early: 0,
            dropped_forced: 0,
            dropped_limit: 0,
        })
    }

    /// Returns the average queue in bytes.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// Accepts, marks or drops a packet according to the average.
    fn judge(&mut self, packet: Packet, stream: &mut RandomStream) -> Option<Packet> {
        match self.answer(stream) {
            Answer::Take => Some(packet),
            Answer::Early => {
                let marked = self.mark(packet, self.marks);
                self.dropped_early += u64::from(marked.is_none());
                marked
            }
            Answer::Forced => {
                let marked = self.mark(packet, self.marks && !self.harddrop);
                self.dropped_forced += u64::from(marked.is_none());
                marked
            }
        }
    }

    fn answer(&mut self, stream: &mut RandomStream) -> Answer {
        let Some(base) = self.law.probability(self.average) else {
            self.since = 0;
            return Answer::Forced;
        };
        if base == 0.0 {
            self.since = 0;
            return Answer::Take;
        }
        // Distances between marks are uniform from 1 to 1/base, not geometric (section 7 of the paper).
        let rest = 1.0 - self.since as f64 * base;
        if rest <= base || stream.chance(base / rest) {
            self.since = 0;
            return Answer::Early;
        }
        self.since += 1;
        Answer::Take
    }

    /// Returns the packet with its mark if it may have one, or drops it.
    fn mark(&mut self, mut packet: Packet, may: bool) -> Option<Packet> {
        if !may || !ecn::mark(&mut packet) {
            packet.lose(Why::Aqm);
            return None;
        }
        self.marked += 1;
        Some(packet)
    }
}

impl Law {
    fn new(config: &Config) -> Result<Law, InvalidConfig> {
        probability(config.probability, "probability")?;
        InvalidConfig::ensure(config.min < config.max, "max", "more than min")?;
        InvalidConfig::ensure(config.max <= config.limit, "limit", "at least max")?;
        InvalidConfig::ensure(config.average_packet.get() > 0, "average_packet", "more than zero")?;
        let weight = config.weight()?;
        Ok(Law {
            weight,
            decay: libm::log1p(-weight),
            packets_per_ns: config.bandwidth.as_bytes_per_sec() / config.average_packet.get() as f64 / 1e9,
            min: config.min.get() as f64,
            max: config.max.get() as f64,
            slope: config.slope(),
            gentle: config.gentle,
        })
    }

    /// Returns the probability at an average, without regard to earlier packets. `None` outside the law's
    /// range.
    fn probability(&self, average: f64) -> Option<f64> {
        if average < self.min {
            return Some(0.0);
        }
        if average < self.max {
            return Some(self.slope * (average - self.min));
        }
        if !self.gentle || average >= 2.0 * self.max {
            return None;
        }
        let top = self.slope * (self.max - self.min);
        Some(top + (1.0 - top) * (average - self.max) / self.max)
    }
}

impl Queue for Red {
    fn enqueue(&mut self, packet: Packet, now: Time, stream: &mut RandomStream) {
        self.average += self.law.weight * (self.waiting.bytes() as f64 - self.average);
        let Some(packet) = self.judge(packet, stream) else { return };
        if self.waiting.bytes() + packet.len() as u64 > self.limit {
            self.dropped_limit += 1;
            return packet.lose(Why::Queue);
        }
        self.waiting.push(packet, now);
    }

    fn pass(
        &mut self,
        packet: Packet,
        now: Time,
        idle_since: Time,
        stream: &mut RandomStream,
    ) -> Option<Packet> {
        let slots = now.since(idle_since).as_nanos() as f64 * self.law.packets_per_ns;
        self.average *= libm::exp(self.law.decay * slots);
        self.judge(packet, stream)
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        self.waiting.pop(now)
    }

    fn packets(&self) -> usize {
        self.waiting.packets()
    }

    fn bytes(&self) -> u64 {
        self.waiting.bytes()
    }

    /// Changes the parameters and keeps the average, which describes the queue's history.
    fn set(&mut self, discipline: &Discipline, _now: Time) -> Result<(), InvalidConfig> {
        let Discipline::Red(config) = discipline else { return Err(OTHER_KIND) };
        self.law = Law::new(config)?;
        (self.limit, self.marks, self.harddrop) = (config.limit.get(), config.ecn, config.harddrop);
        Ok(())
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        let dropped = self.dropped_limit + self.dropped_early + self.dropped_forced;
        observer.counter(&metrics::AQM_DROPPED_QUEUE, dropped);
        self.waiting.tally().observe(now, observer);
        observer.counter(&metrics::DROPPED_LIMIT, self.dropped_limit);
        observer.counter(&metrics::DROPPED_EARLY, self.dropped_early);
        observer.counter(&metrics::DROPPED_FORCED, self.dropped_forced);
        observer.counter(&metrics::MARKED, self.marked);
        observer.gauge(&metrics::QUEUE_AVERAGE_BYTES, self.average);
    }
}

#[cfg(test)]
mod tests;
