//! A token bucket shaper as Linux's `tbf`: what exceeds it waits, what does not fit the wait is dropped.
//!
//! Modelled: rate and burst, a second bucket for the peak rate, a limit in bytes. Exact: tokens are integers, so what
//! leaves in any time t is at most burst + rate * t. Not modelled: the overhead and cell compensation of `tc`, splitting
//! of packets longer than the bucket.

use std::any::Any;

use bentpipe_units::{Bytes, Rate, Span, Time};

use crate::config::Impossible;
use crate::queue::Backlog;
use crate::{Cx, Element, Observer, Packet, Port, Unit};

/// A token bucket shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Config {
    /// The rate of IP packets in the long run. No default.
    pub rate: Rate,
    /// The bucket: what may leave at once after a pause. Longer packets never fit and are dropped. No default.
    pub burst: Bytes,
    /// The most bytes that wait for tokens. No default.
    pub limit: Bytes,
    /// The rate that bursts leave at. Default: none, bursts leave at once.
    #[cfg_attr(feature = "serde", serde(default))]
    pub peak_rate: Option<Rate>,
    /// The bucket of the peak rate, at least the longest packet; longer ones are dropped. Default: "1500 B".
    #[cfg_attr(feature = "serde", serde(default = "default_mtu"))]
    pub mtu: Bytes,
    /// The tick of the timer that releases waiting packets: they leave at whole ticks, or when another packet arrives,
    /// as on a Linux without high-resolution timers, where it is 1/HZ ("10 ms" on the PCs of Linux 2.4). A bucket that
    /// holds less than the rate brings in a tick overflows between two. Default: none, packets leave at once when
    /// their tokens are there.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub timer: Option<Span>,
}

#[cfg(feature = "serde")]
fn default_mtu() -> Bytes {
    Bytes::new(1500)
}

impl Config {
    /// A shaper without a peak rate.
    pub fn new(rate: Rate, burst: Bytes, limit: Bytes) -> Config {
        Config { rate, burst, limit, peak_rate: None, mtu: Bytes::new(1500), timer: None }
    }

    fn check(&self) -> Result<(), Impossible> {
        Impossible::unless(self.rate.as_bps() > 0, "rate", "more than zero")?;
        Impossible::unless(
            self.burst.get() > 0,
            "burst",
            "more than zero, best at least the longest packet",
        )?;
        Impossible::unless(self.peak_rate.is_none_or(|peak| peak > self.rate), "peak_rate", "more than rate")
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
    /// When the first of those waiting is looked at again.
    release: Time,
    delivered: u64,
    delivered_bytes: u64,
    dropped: u64,
    too_big: u64,
}

impl Shaper {
    /// A shaper of this configuration.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn new(config: &Config) -> Result<Shaper, Impossible> {
        config.check()?;
        Ok(Shaper {
            sustained: Bucket::full(config.rate, config.burst),
            peak: config.peak_rate.map(|peak| Bucket::full(peak, config.mtu)),
            waiting: Backlog::default(),
            limit: config.limit.get(),
            timer: config.timer.filter(|tick| !tick.is_zero()),
            release: Time::NEVER,
            delivered: 0,
            delivered_bytes: 0,
            dropped: 0,
            too_big: 0,
        })
    }

    /// Takes new parameters at `now`: a bucket keeps the tokens that it has, or is full if it is smaller now; what waits
    /// goes on waiting, also beyond a lower limit. Poke the shaper afterwards.
    ///
    /// # Errors
    /// The key whose value is impossible; nothing is changed then.
    pub fn set(&mut self, now: Time, config: &Config) -> Result<(), Impossible> {
        config.check()?;
        self.sustained.set(now, config.rate, config.burst);
        match (&mut self.peak, config.peak_rate) {
            (Some(peak), Some(rate)) => peak.set(now, rate, config.mtu),
            (peak, rate) => *peak = rate.map(|rate| Bucket::full(rate, config.mtu)),
        }
        (self.limit, self.timer) = (config.limit.get(), config.timer.filter(|tick| !tick.is_zero()));
        Ok(())
    }

    /// When a packet of `len_bytes` can leave; never if it does not fit a bucket.
    #[inline]
    fn when(&mut self, len_bytes: usize, now: Time) -> Time {
        let sustained = self.sustained.when(len_bytes, now);
        self.peak.as_mut().map_or(sustained, |peak| sustained.max(peak.when(len_bytes, now)))
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
    /// Sends what waits and has its tokens, and sets the timer for the next.
    fn serve(&mut self, cx: &mut Cx<'_>) {
        while let Some(len_bytes) = self.waiting.first().map(Packet::len) {
            let when = self.when(len_bytes, cx.now());
            if when > cx.now() && !when.is_never() {
                self.release = self.ticked(when);
                return;
            }
            let Some(packet) = self.waiting.pop() else { break };
            // A bucket may have been made smaller than what waits.
            match when.is_never() {
                true => self.too_big += 1,
                false => self.send(packet, cx),
            }
        }
        self.release = Time::NEVER;
    }

    /// The first tick of the timer at or after `when`.
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
        } else if self.waiting.packets() == 0 && when <= cx.now() {
            self.send(packet, cx);
        } else if self.waiting.bytes() + packet.len() as u64 > self.limit {
            self.dropped += 1;
        } else {
            self.waiting.push(packet);
            self.serve(cx);
        }
        self.release
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.serve(cx);
        self.release
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter("delivered", Unit::Packets, self.delivered);
        observer.counter("delivered-bytes", Unit::Bytes, self.delivered_bytes);
        observer.counter("dropped-queue", Unit::Packets, self.dropped);
        observer.counter("dropped-too-big", Unit::Packets, self.too_big);
        self.waiting.observe(observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Tokens, counted so finely that a nanosecond adds a whole number: a byte is 8 * 10^9 of them, and `rate` come each ns.
#[derive(Debug)]
struct Bucket {
    rate_bps: u64,
    depth: u128,
    level: u128,
    /// When `level` was true.
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

    /// Another rate and depth from `now` on.
    fn set(&mut self, now: Time, rate: Rate, depth: Bytes) {
        self.fill(now);
        (self.rate_bps, self.depth) = (rate.as_bps(), tokens(depth.get()));
        self.level = self.level.min(self.depth);
    }

    /// Brings the level up to `now`.
    #[inline]
    fn fill(&mut self, now: Time) {
        let grown = u128::from(self.rate_bps) * u128::from(now.since(self.at).as_nanos());
        (self.level, self.at) = ((self.level + grown).min(self.depth), now);
    }

    /// When there are tokens for `len_bytes`; never if the bucket is too small. Brings the level up to `now`.
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
