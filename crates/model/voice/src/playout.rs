//! Playout buffers of a receiver: fixed and adaptive.
//!
//! *Models*: a fixed delay after the first packet; the four algorithms of Ramjee et al. (1994); the histogram of Moon et
//! al. (1998). Adaptive buffers choose the delay at the start of a talk spurt and keep it through the spurt.
//! *Does not model*: time stretching within a spurt, so a stream without pauses keeps its first delay; limits of the
//! buffer in packets.
//!
//! All transit times are the arrival less the time stamp, with any constant offset between the two clocks. As Moon's
//! spikes are ratios of delays, which have no meaning with an offset, they are measured above the least delay in the window.
//!
//! *References*: Ramjee, Kurose, Towsley, Schulzrinne, INFOCOM 1994; Moon, Kurose, Towsley, Multimedia Systems 6, 1998.

use std::collections::{BTreeMap, VecDeque};

use bentpipe_net::InvalidConfig;
use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Margin of the first spurt of an adaptive buffer, which has no measurement yet.
const FIRST_MARGIN: Span = Span::from_millis(60);
/// Weight of the old estimate, algorithms 1 to 3.
const SLOW: f64 = 0.998_002;
/// Weight of the old estimate while delays rise, algorithm 2.
const RISING: f64 = 0.75;
/// Weight of the old estimate, algorithm 4.
const QUICK: f64 = 0.875;
/// Margin in mean deviations.
const DEVIATIONS: f64 = 4.0;
/// Step of the delay that begins a spike: 800 samples at 8 kHz.
const SPIKE_NS: f64 = 100e6;
/// Slope that ends a spike: 63 samples at 8 kHz.
const FLAT_NS: f64 = 7.875e6;
/// Width of a histogram's bin.
const BIN_NS: i64 = 1_000_000;
/// Factors of the playout delay that begin and end a spike (Moon et al.).
const SPIKE_BEGINS: i64 = 4;
const SPIKE_ENDS: i64 = 2;

/// Playout buffer of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Playout {
    /// Fixed delay after the first packet.
    Fixed {
        /// Time from the arrival of the first packet to its playout. Default: 60 ms.
        #[serde(default = "first_margin")]
        delay: Span,
    },
    /// Mean and mean deviation of the delay, weighted exponentially (Ramjee et al., algorithm 1).
    Exponential,
    /// The same with a fast rise and a slow fall (algorithm 2).
    FastRise,
    /// Minimum delay of the last spurt, and mean deviation (algorithm 3).
    Minimum,
    /// Detection of delay spikes (algorithm 4).
    Spikes,
    /// Quantile of the last delays, with detection of spikes (Moon et al.).
    Histogram {
        /// Number of delays. Default: 10,000.
        #[serde(default = "ten_thousand")]
        window: u32,
        /// Share of packets to be in time. Default: 0.99.
        #[schemars(range(min = 0.0, max = 1.0))]
        #[serde(default = "most")]
        quantile: f64,
    },
}

const fn first_margin() -> Span {
    FIRST_MARGIN
}

const fn ten_thousand() -> u32 {
    10_000
}

const fn most() -> f64 {
    0.99
}

impl Default for Playout {
    fn default() -> Playout {
        Playout::Fixed { delay: FIRST_MARGIN }
    }
}

impl Playout {
    /// Checks the configuration.
    ///
    /// # Errors
    /// Returns an error if a value is impossible.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        match *self {
            Playout::Fixed { delay } => {
                let is_short = delay <= Span::from_secs(60);
                InvalidConfig::ensure(is_short, "playout.delay", "at most \"60 s\"")
            }
            Playout::Histogram { window, quantile } => {
                let window = (1..=1_000_000).contains(&window);
                InvalidConfig::ensure(window, "playout.window", "1 to 1,000,000 delays")?;
                let quantile = quantile > 0.0 && quantile <= 1.0;
                InvalidConfig::ensure(quantile, "playout.quantile", "more than 0 and at most 1")
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the delay changes between spurts.
    pub fn is_adaptive(&self) -> bool {
        !matches!(self, Playout::Fixed { .. })
    }
}

/// Packet as a playout buffer sees it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time stamp of the packet, in the sender's clock.
    pub stamp: i64,
    /// Arrival in the receiver's clock.
    pub at: i64,
    /// Set if the packet begins a talk spurt.
    pub begins_spurt: bool,
}

impl Arrival {
    /// Returns the transit time, with the offset of the clocks.
    fn transit(&self) -> i64 {
        self.at.saturating_sub(self.stamp)
    }
}

/// Playout buffer in use.
#[derive(Clone, Debug)]
pub struct Buffer {
    playout: Playout,
    /// Playout time less time stamp of the present spurt; `None` before the first packet.
    offset: Option<i64>,
    /// Playout time of the last packet.
    last_played: i64,
    estimate: Estimate,
}

#[derive(Clone, Debug)]
enum Estimate {
    None,
    Moments(Moments),
    Delays(Box<Delays>),
}

/// Estimates of delay and variation in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    delay: f64,
    variation: f64,
    /// The last transit time, and the one before.
    last: [f64; 2],
    /// Slope of a spike, in a spike.
    slope: Option<f64>,
    /// Least transit time of the last spurt and of the present one.
    least: [f64; 2],
    has_delay: bool,
}

/// Histogram of the last delays.
#[derive(Clone, Debug, Default)]
struct Delays {
    recent: VecDeque<i64>,
    counts: BTreeMap<i64, u32>,
    is_spike: bool,
}

impl Buffer {
    /// Creates an empty buffer.
    pub fn new(playout: Playout) -> Buffer {
        let estimate = match playout {
            Playout::Fixed { .. } => Estimate::None,
            Playout::Histogram { .. } => Estimate::Delays(Box::default()),
            _ => Estimate::Moments(Moments::default()),
        };
        Buffer { playout, offset: None, last_played: i64::MIN, estimate }
    }

    /// Returns the playout time of a packet in the receiver's clock. The packet is late if it arrived after that.
    pub fn arrive(&mut self, arrival: Arrival) -> i64 {
        let wanted = self.wanted(arrival);
        let (is_first, begins) = (self.offset.is_none(), arrival.begins_spurt && self.playout.is_adaptive());
        let first = || arrival.transit().saturating_add(self.first_margin());
        let offset = match self.offset {
            Some(offset) if !begins => offset,
            // A spurt never begins before the end of the one before.
            _ if is_first => first(),
            _ => wanted.unwrap_or_else(first).max(self.last_played.saturating_sub(arrival.stamp)),
        };
        self.offset = Some(offset);
        let at = arrival.stamp.saturating_add(offset);
        self.last_played = self.last_played.max(at);
        at
    }

    /// Returns the playout time of a time stamp as the present spurt has it. `None` before the first packet.
    pub fn plays_at(&self, stamp: i64) -> Option<i64> {
        self.offset.map(|offset| stamp.saturating_add(offset))
    }

    /// Returns the present playout delay above a transit time, in nanoseconds.
    pub fn margin(&self, transit: i64) -> Option<i64> {
        self.offset.map(|offset| offset.saturating_sub(transit))
    }

    fn first_margin(&self) -> i64 {
        match self.playout {
            Playout::Fixed { delay } => delay.as_nanos() as i64,
            _ => FIRST_MARGIN.as_nanos() as i64,
        }
    }

    /// Updates the estimates, and returns the offset for a spurt that begins here.
    fn wanted(&mut self, arrival: Arrival) -> Option<i64> {
        let transit = arrival.transit();
        match &mut self.estimate {
            Estimate::None => None,
            Estimate::Moments(moments) => {
                moments.take(self.playout, transit as f64, arrival.begins_spurt);
                Some((moments.delay + DEVIATIONS * moments.variation) as i64)
            }
            Estimate::Delays(delays) => {
                let Playout::Histogram { window, quantile } = self.playout else { return None };
                delays.take(transit, window as usize, quantile, arrival.begins_spurt)
            }
        }
    }
}

impl Moments {
    fn take(&mut self, playout: Playout, transit: f64, begins_spurt: bool) {
        if begins_spurt {
            self.least = [self.least[1], f64::INFINITY];
        }
        if !self.has_delay {
            let variation = FIRST_MARGIN.as_nanos() as f64 / DEVIATIONS;
            let (last, least) = ([transit; 2], [transit, f64::INFINITY]);
            *self = Moments { delay: transit, variation, last, slope: None, least, has_delay: true };
        }
        self.update(playout, transit);
        self.least[1] = self.least[1].min(transit);
        self.last = [transit, self.last[0]];
    }

    fn update(&mut self, playout: Playout, transit: f64) {
        let weight = match playout {
            Playout::FastRise if transit > self.delay => RISING,
            _ => SLOW,
        };
        match playout {
            Playout::Spikes => return self.update_spiky(transit),
            Playout::Minimum if self.least[0].is_finite() => self.delay = self.least[0],
            Playout::Minimum => {}
            _ => self.delay = weight * self.delay + (1.0 - weight) * transit,
        }
        self.variation = SLOW * self.variation + (1.0 - SLOW) * (transit - self.delay).abs();
    }

    fn update_spiky(&mut self, transit: f64) {
        let step = transit - self.last[0];
        match self.slope {
            None if step.abs() > 2.0 * self.variation.abs() + SPIKE_NS => self.slope = Some(0.0),
            None => {}
            Some(slope) => {
                let slope = slope / 2.0 + ((2.0 * transit - self.last[0] - self.last[1]) / 8.0).abs();
                self.slope = Some(slope);
                if slope <= FLAT_NS {
                    self.slope = None;
                    return;
                }
            }
        }
        self.delay = if self.slope.is_some() {
            self.delay + step
        } else {
            QUICK * self.delay + (1.0 - QUICK) * transit
        };
        self.variation = QUICK * self.variation + (1.0 - QUICK) * (transit - self.delay).abs();
    }
}

impl Delays {
    fn take(&mut self, transit: i64, window: usize, quantile: f64, begins_spurt: bool) -> Option<i64> {
        let bin = transit.div_euclid(BIN_NS);
        self.find_spike(bin, quantile, begins_spurt);
        if self.is_spike {
            return begins_spurt.then_some(transit);
        }
        let wanted = begins_spurt.then(|| self.quantile(quantile)).flatten();
        self.count(bin, window);
        // The upper edge of the bin, so that its delays are in time.
        wanted.map(|bin| (bin + 1).saturating_mul(BIN_NS))
    }

    /// Begins and ends a spike, once the histogram has delays.
    fn find_spike(&mut self, bin: i64, quantile: f64, begins_spurt: bool) {
        let (Some(least), true) = (self.counts.keys().next().copied(), begins_spurt || self.is_spike) else {
            return;
        };
        let spread = (self.quantile(quantile).unwrap_or(least) - least).max(1);
        let above = bin - least;
        self.is_spike =
            if self.is_spike { above >= SPIKE_ENDS * spread } else { above > SPIKE_BEGINS * spread };
    }

    fn count(&mut self, bin: i64, window: usize) {
        self.recent.push_back(bin);
        *self.counts.entry(bin).or_default() += 1;
        if self.recent.len() > window {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let Some(oldest) = self.recent.pop_front() else { return };
        let Some(count) = self.counts.get_mut(&oldest) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&oldest);
        }
    }

    /// Returns the bin below which the share `quantile` of delays is.
    fn quantile(&self, quantile: f64) -> Option<i64> {
        let wanted = (self.recent.len() as f64 * quantile).ceil() as u64;
        let mut seen = 0;
        self.counts.iter().find_map(|(bin, count)| {
            seen += u64::from(*count);
            (seen >= wanted).then_some(*bin)
        })
    }
}

#[cfg(test)]
mod tests;
