//! Token bucket shaper (Linux tbf): excess packets wait, or are dropped beyond the limit.
//!
//! Modelled: rate and burst, a second bucket for the peak rate, a limit in bytes. Exact: tokens are integers,
//! so at most burst + rate * t leaves in any time t. Not modelled: the overhead and cell compensation of
//! `tc`, splitting of packets longer than the bucket.

pub mod metrics;

use std::any::Any;

use bentpipe_units::{Bytes, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::InvalidConfig;
use crate::queue::Backlog;
use crate::{Cx, Element, Observer, Packet, Port, Why};

/// A token bucket shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The rate of IP packets in the long run. No default.
    pub rate: Rate,
    /// Bucket: maximum burst after a pause. Longer packets never fit and are dropped. No default.
    pub burst: Bytes,
    /// The most bytes that wait for tokens. No default.
    pub limit: Bytes,
    /// Peak rate of bursts. Default: none, bursts are not paced.
    #[serde(default)]
    pub peak_rate: Option<Rate>,
    /// The bucket of the peak rate, at least the longest packet; longer ones are dropped. Default: "1500 B".
    #[serde(default = "default_mtu")]
    pub mtu: Bytes,
    /// Tick of the timer that releases waiting packets, as on Linux without high-resolution timers.
    ///
    /// Packets leave at whole ticks, or when another packet arrives. The tick is 1/HZ ("10 ms" on the PCs of
    /// Linux 2.4). A bucket smaller than the rate's bytes per tick overflows between two. Default: none,
    /// packets leave as soon as they have their tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Span>,
    /// Clock by which tokens come. Default: "fine".
    #[serde(default, skip_serializing_if = "Clock::is_fine")]
    pub clock: Clock,
}

/// Clock of a shaper's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Clock of a processor: tokens come at every instant.
    #[default]
    Fine,
    /// The tick of `timer`: tokens come at its start alone.
    ///
    /// Linux 2.4 has such a clock by default, `PSCHED_JIFFIES`.
    Jiffies,
}

impl Clock {
    fn is_fine(&self) -> bool {
        *self == Clock::Fine
    }
}

fn default_mtu() -> Bytes {
    Bytes::new(1500)
}

impl Config {
    /// Creates the configuration of a shaper without a peak rate.
    pub fn new(rate: Rate, burst: Bytes, limit: Bytes) -> Config {
        Config { rate, burst, limit, peak_rate: None, mtu: Bytes::new(1500), timer: None, clock: Clock::Fine }
    }

    /// Returns the rate that passes in the long run.
    ///
    /// With a clock of jiffies it is at most a bucket a tick.
    pub fn long_run(&self) -> Rate {
        let of_bucket =
            |tick: Span| u128::from(self.burst.get()) * 8_000_000_000 / u128::from(tick.as_nanos());
        match (self.clock, self.timer.filter(|tick| !tick.is_zero())) {
            (Clock::Jiffies, Some(tick)) => {
                self.rate.min(Rate::from_bps(u64::try_from(of_bucket(tick)).unwrap_or(u64::MAX)))
            }
            _ => self.rate,
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error with the key whose value is impossible.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(self.rate.as_bps() > 0, "rate", "more than zero")?;
        InvalidConfig::ensure(
            self.burst.get() > 0,
            "burst",
            "more than zero, best at least the longest packet",
        )?;
        InvalidConfig::ensure(
            self.peak_rate.is_none_or(|peak| peak > self.rate),
            "peak_rate",
            "more than rate",
        )?;
        let has_tick = self.timer.is_some_and(|tick| !tick.is_zero());
        InvalidConfig::ensure(
            self.clock.is_fine() || has_tick,
            "timer",
            "given with clock = \"jiffies\": the tick, \"10 ms\" at HZ = 100",
        )
    }
}

/// A shaper: input 0 to output 0. Its buckets are full at the start.
#[derive(Debug)]
pub struct Shaper {
    sustained: Bucket,
    peak: Option<Bucket>,
    waiting: Backlog,
    limit: u64,
    timer: Option<Span>,
    clock: Clock,
    /// Time at which the first waiting packet is tried again.
    release: Time,
    delivered: u64,
    delivered_bytes: u64,
    dropped: u64,
    too_big: u64,
}

impl Shaper {
    /// Creates a shaper of this configuration.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<Shaper, InvalidConfig> {
        config.check()?;
        Ok(Shaper {
            sustained: Bucket::full(config.rate, config.burst),
            peak: config.peak_rate.map(|peak| Bucket::full(peak, config.mtu)),
            waiting: Backlog::default(),
            limit: config.limit.get(),
            timer: config.timer.filter(|tick| !tick.is_zero()),
            clock: config.clock,
            release: Time::NEVER,
            delivered: 0,
            delivered_bytes: 0,
            dropped: 0,
            too_big: 0,
        })
    }

    /// Changes the parameters at `now`. A bucket keeps its tokens, up to its new size. Waiting packets stay, even
    /// beyond a lower limit. Poke the shaper afterwards.
    ///
    /// # Errors
    /// The key whose value is impossible; nothing is changed then.
    pub fn set(&mut self, now: Time, config: &Config) -> Result<(), InvalidConfig> {
        config.check()?;
        let read = self.reading(now);
        self.sustained.set(read, config.rate, config.burst);
        match (&mut self.peak, config.peak_rate) {
            (Some(peak), Some(rate)) => peak.set(read, rate, config.mtu),
            (peak, rate) => *peak = rate.map(|rate| Bucket::full(rate, config.mtu)),
        }
        (self.limit, self.timer) = (config.limit.get(), config.timer.filter(|tick| !tick.is_zero()));
        self.clock = config.clock;
        Ok(())
    }

    /// Returns the departure time of a packet of `len_bytes`. Never if it does not fit a bucket.
    #[inline]
    fn when(&mut self, len_bytes: usize, now: Time) -> Time {
        let read = self.reading(now);
        let sustained = self.sustained.when(len_bytes, read);
        let when = self.peak.as_mut().map_or(sustained, |peak| sustained.max(peak.when(len_bytes, read)));
        // Tokens that come at ticks alone are not there between two, also not for a packet that arrives then.
        if self.clock == Clock::Jiffies && !when.is_never() { self.ticked(when) } else { when }
    }

    /// Returns what the clock of the tokens reads.
    #[inline]
    fn reading(&self, now: Time) -> Time {
        match (self.clock, self.timer) {
            (Clock::Jiffies, Some(tick)) => {
                Time::ZERO + tick * (now.since(Time::ZERO).as_nanos() / tick.as_nanos())
            }
            _ => now,
        }
    }

    #[inline]
    fn send(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.sustained.take(packet.len());
        if let Some(peak) = &mut self.peak {
            peak.take(packet.len());
        }
        self.delivered += 1;
        self.delivered_bytes += packet.len() as u64;
        cx.emit(Port(0), packet);
    }
}

impl Shaper {
    /// Sends waiting packets that have their tokens, and sets the timer for the next.
    fn serve(&mut self, cx: &mut Cx<'_>) {
        while let Some(len_bytes) = self.waiting.first().map(Packet::len) {
            let when = self.when(len_bytes, cx.now());
            if when > cx.now() && !when.is_never() {
                self.release = self.ticked(when);
                return;
            }
            let Some(packet) = self.waiting.pop(cx.now()) else { break };
            // A bucket may have become smaller than a waiting packet.
            if when.is_never() {
                self.too_big += 1;
                packet.lose(Why::TooBig);
            } else {
                self.send(packet, cx);
            }
        }
        self.release = Time::NEVER;
    }

    /// Returns the first tick of the timer at or after `when`.
    fn ticked(&self, when: Time) -> Time {
        let Some(tick) = self.timer else { return when };
        Time::ZERO + tick * when.since(Time::ZERO).as_nanos().div_ceil(tick.as_nanos())
    }
}

impl Element for Shaper {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let when = self.when(packet.len(), cx.now());
        if when.is_never() {
            self.too_big += 1;
            packet.lose(Why::TooBig);
        } else if self.waiting.packets() == 0 && when <= cx.now() {
            self.send(packet, cx);
        } else if self.waiting.bytes() + packet.len() as u64 > self.limit {
            self.dropped += 1;
            packet.lose(Why::Queue);
        } else {
            self.waiting.push(packet, cx.now());
            self.serve(cx);
        }
        self.release
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.serve(cx);
        self.release
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::DELIVERED, self.delivered);
        observer.counter(&metrics::DELIVERED_BYTES, self.delivered_bytes);
        observer.counter(&metrics::DROPPED_QUEUE, self.dropped);
        observer.counter(&metrics::DROPPED_TOO_BIG, self.too_big);
        observer.gauge(&metrics::QUEUE, self.waiting.packets() as f64);
        observer.gauge(&metrics::QUEUE_BYTES, self.waiting.bytes() as f64);
        let [_, mean_bytes] = self.waiting.tally().means(now, observer);
        observer.gauge(&metrics::QUEUE_MEAN_BYTES, mean_bytes);
        self.waiting.tally().observe_peaks(&metrics::QUEUE_MAX, &metrics::QUEUE_MAX_BYTES, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Token bucket with tokens so small that a nanosecond adds a whole number.
///
/// A byte is 8 * 10^9 tokens, and `rate` tokens are added per ns.
#[derive(Debug)]
struct Bucket {
    rate_bps: u64,
    depth: u128,
    level: u128,
    /// Time at which `level` was measured.
    at: Time,
}

fn tokens(len_bytes: u64) -> u128 {
    u128::from(len_bytes) * 8_000_000_000
}

impl Bucket {
    fn full(rate: Rate, depth: Bytes) -> Bucket {
        let depth = tokens(depth.get());
        Bucket { rate_bps: rate.as_bps(), depth, level: depth, at: Time::ZERO }
    }

    /// Changes rate and depth from `now` on.
    fn set(&mut self, now: Time, rate: Rate, depth: Bytes) {
        self.fill(now);
        (self.rate_bps, self.depth) = (rate.as_bps(), tokens(depth.get()));
        self.level = self.level.min(self.depth);
    }

    /// Advances the level to `now`.
    #[inline]
    fn fill(&mut self, now: Time) {
        let grown = u128::from(self.rate_bps) * u128::from(now.since(self.at).as_nanos());
        (self.level, self.at) = ((self.level + grown).min(self.depth), now);
    }

    /// Advances the level to `now` and returns the time with tokens for `len_bytes`. Never if the bucket is
    /// too small.
    #[inline]
    fn when(&mut self, len_bytes: usize, now: Time) -> Time {
        self.fill(now);
        let needed = tokens(len_bytes as u64);
        if needed > self.depth {
            return Time::NEVER;
        }
        let missing = needed.saturating_sub(self.level);
        let nanos = missing.div_ceil(u128::from(self.rate_bps));
        now + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    #[inline]
    fn take(&mut self, len_bytes: usize) {
        self.level = self.level.saturating_sub(tokens(len_bytes as u64));
    }
}

#[cfg(test)]
mod tests;
