//! The rate of MPEG-2 transport streams, piecewise constant, long-range dependent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Bytes, RandomStream, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fgn::{Fgn, Synthesis};

/// The rate of one or several transport streams together (ATM Forum 97-0177).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateConfig {
    /// Mean rate of one programme, before pruning. No default.
    pub mean: Rate,
    /// Standard deviation of one programme's rate, before pruning; "0 bit/s" makes it constant. No default.
    pub deviation: Rate,
    /// Number of independent programmes in the sum. Default: 1.
    #[serde(default = "one")]
    pub programmes: u16,
    /// Hurst parameter of the rates, before pruning. 0.5 is white noise, more is long-range dependence.
    /// Default: 0.8.
    #[schemars(range(min = 0.001, max = 0.999))]
    #[serde(default = "hurst")]
    pub hurst: f64,
    /// Rates below are thrown away, and the next one is taken. Default: "0 bit/s".
    #[serde(default)]
    pub lowest: Rate,
    /// Rates above are thrown away, and the next one is taken. Default: "15 Mbit/s".
    #[serde(default = "highest")]
    pub highest: Rate,
    /// The shortest time between two programme clock references, where the rate changes. Default: "20 ms".
    #[serde(default = "shortest")]
    pub shortest: Span,
    /// The longest time between two programme clock references; all between the two are equally likely. Default:
    /// "100 ms".
    #[serde(default = "longest")]
    pub longest: Span,
    /// Synthesis of the noise. Default: "davies-harte".
    #[serde(default)]
    pub synthesis: Synthesis,
    /// Number of dependent rates of a programme, after which a new path begins.
    ///
    /// A power of two, or the next one is used. The default is about a quarter of an hour of video. Default:
    /// 16384.
    #[serde(default = "samples")]
    pub samples: u32,
}

fn one() -> u16 {
    1
}

fn hurst() -> f64 {
    0.8
}

fn highest() -> Rate {
    Rate::from_bps(15_000_000)
}

fn shortest() -> Span {
    Span::from_millis(20)
}

fn longest() -> Span {
    Span::from_millis(100)
}

fn samples() -> u32 {
    1 << 14
}

/// Normal distribution after pruning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pruned {
    /// The share of values that is kept.
    pub kept: f64,
    /// Mean of the values kept, in bits per second.
    pub mean: f64,
    /// Standard deviation of the values kept, in bits per second.
    pub deviation: f64,
}

impl RateConfig {
    /// Creates the configuration of one programme with this mean and deviation, with defaults elsewhere.
    pub fn new(mean: Rate, deviation: Rate) -> RateConfig {
        RateConfig {
            mean,
            deviation,
            programmes: 1,
            hurst: hurst(),
            lowest: Rate::default(),
            highest: highest(),
            shortest: shortest(),
            longest: longest(),
            synthesis: Synthesis::default(),
            samples: samples(),
        }
    }

    /// Returns mean and deviation of one programme after pruning.
    ///
    /// They are those of a normal distribution truncated at both ends.
    pub fn pruned(&self) -> Pruned {
        let [mean, deviation] = [self.mean, self.deviation].map(|rate| rate.as_bps() as f64);
        if deviation == 0.0 {
            let kept = (self.lowest..=self.highest).contains(&self.mean);
            return Pruned { kept: f64::from(u8::from(kept)), mean, deviation };
        }
        let [a, b] = [self.lowest, self.highest].map(|rate| (rate.as_bps() as f64 - mean) / deviation);
        let below = |x: f64| 0.5 * libm::erfc(-x * FRAC_1_SQRT_2);
        let density = |x: f64| libm::exp(-x * x / 2.0) / libm::sqrt(2.0 * PI);
        let kept = below(b) - below(a);
        let shift = (density(a) - density(b)) / kept;
        let variance = 1.0 + (a * density(a) - b * density(b)) / kept - shift * shift;
        Pruned { kept, mean: mean + deviation * shift, deviation: deviation * libm::sqrt(variance) }
    }

    /// Rejects invalid values, and those with unbounded run time.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(self.programmes > 0, "programmes", "at least 1")?;
        InvalidConfig::ensure(self.hurst > 0.0 && self.hurst < 1.0, "hurst", "more than 0 and less than 1")?;
        InvalidConfig::ensure(self.shortest >= Span::from_micros(10), "shortest", "at least \"10 us\"")?;
        let is_longer = self.longest >= self.shortest && self.longest <= Span::from_secs(3600);
        InvalidConfig::ensure(is_longer, "longest", "from `shortest` to \"1 h\"")?;
        let is_possible = self.highest > self.lowest && self.highest <= Rate::from_bps(1_000_000_000_000);
        InvalidConfig::ensure(is_possible, "highest", "more than `lowest`, at most \"1000 Gbit/s\"")?;
        let has_room = (4..=Fgn::MAX_LEN as u64).contains(&self.samples.into());
        InvalidConfig::ensure(has_room, "samples", "from 4 to 1048576")?;
        let pruned = self.pruned();
        let keeps = pruned.kept >= 0.01;
        InvalidConfig::ensure(
            keeps,
            "mean",
            "one that leaves a hundredth of the rates within `lowest` and `highest`",
        )?;
        InvalidConfig::ensure(pruned.mean >= 1.0, "mean", "more than zero")
    }
}

/// A time of constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start.
    pub start: Time,
    /// Duration.
    pub span: Span,
    /// The rate of all programmes together.
    pub rate: Rate,
}

/// Rate of all programmes together, with the times of the packets or cells it yields.
#[derive(Debug)]
pub struct Rates {
    config: RateConfig,
    noise: Fgn,
    programmes: Vec<Programme>,
    /// Time of each programme's next change of rate.
    changes: BinaryHeap<Reverse<(Time, u16)>>,
    /// Sum of all programmes' rates, in bit/s.
    total: u64,
    /// Time up to which the rate has been followed.
    at: Time,
    /// Credit up to `at`, in 10^-9 bits.
    earned: u64,
}

#[derive(Clone, Debug, Default)]
struct Programme {
    rate: u64,
    /// The rest of the path in use, last value first, and the one after it.
    path: Vec<f64>,
    spare: Vec<f64>,
}

impl Rates {
    /// Programmes that all begin at `start`, each somewhere in its first piece.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn new(config: &RateConfig, start: Time, stream: &mut RandomStream) -> Result<Rates, InvalidConfig> {
        config.check()?;
        // A constant rate needs no noise.
        let samples = if config.deviation.as_bps() == 0 { 4 } else { config.samples as usize };
        let mut rates = Rates {
            config: *config,
            noise: Fgn::new(config.synthesis, config.hurst, samples),
            programmes: vec![Programme::default(); config.programmes.into()],
            changes: BinaryHeap::with_capacity(config.programmes.into()),
            total: 0,
            at: start,
            earned: 0,
        };
        for index in 0..config.programmes {
            rates.renew(index, stream);
            let first = rates.interval(stream).mul_f64(stream.unit()).max(Span::from_nanos(1));
            rates.changes.push(Reverse((start + first, index)));
        }
        Ok(rates)
    }

    /// Returns the rate at the instant of the last query.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.total)
    }

    /// Returns the next interval of constant rate, after the last returned one.
    pub fn next_piece(&mut self, stream: &mut RandomStream) -> Piece {
        let (start, end, rate) = (self.at, self.next_change(), self.rate());
        self.at = end;
        self.change(stream);
        Piece { start, span: end.since(start), rate }
    }

    /// Returns the time at which the next `unit` is earned.
    ///
    /// Packets or cells sent at these times keep the rate exactly across its changes. An error of up to a
    /// nanosecond is corrected by the next unit.
    ///
    /// # Panics
    /// Panics if `unit` is more than 2^30 bytes.
    #[inline]
    pub fn next_unit(&mut self, unit: Bytes, stream: &mut RandomStream) -> Time {
        assert!(unit.get() <= 1 << 30, "a unit of {unit}");
        let cost = unit.bits() * 1_000_000_000;
        loop {
            let missing = cost.saturating_sub(self.earned);
            let left = self.next_change().since(self.at).as_nanos();
            // The quotient is compared, not the product, which could overflow.
            match missing.checked_div(self.total).map(|_| missing.div_ceil(self.total)) {
                Some(span) if span <= left => {
                    self.at += Span::from_nanos(span);
                    self.earned = self.earned + self.total * span - cost;
                    return self.at;
                }
                _ => {
                    self.earned += self.total * left;
                    self.at = self.next_change();
                    self.change(stream);
                }
            }
        }
    }

    fn next_change(&self) -> Time {
        self.changes.peek().map_or(Time::NEVER, |first| first.0.0)
    }

    /// Draws the next rate of the programme that is due.
    fn change(&mut self, stream: &mut RandomStream) {
        let Some(Reverse((at, index))) = self.changes.peek().copied() else { return };
        self.renew(index, stream);
        let next = at + self.interval(stream);
        if let Some(mut first) = self.changes.peek_mut() {
            first.0.0 = next;
        }
    }

    fn renew(&mut self, index: u16, stream: &mut RandomStream) {
        let rate = self.draw(index, stream);
        let programme = &mut self.programmes[usize::from(index)];
        self.total = self.total - programme.rate + rate;
        programme.rate = rate;
    }

    /// Returns the next rate of a programme within the bounds, in bit/s.
    fn draw(&mut self, index: u16, stream: &mut RandomStream) -> u64 {
        let [mean, deviation, lowest, highest] =
            [self.config.mean, self.config.deviation, self.config.lowest, self.config.highest]
                .map(|rate| rate.as_bps() as f64);
        if deviation == 0.0 {
            return self.config.mean.as_bps();
        }
        let programme = &mut self.programmes[usize::from(index)];
        loop {
            let rate = mean + deviation * programme.value(&self.noise, stream);
            if (lowest..=highest).contains(&rate) {
                return libm::round(rate) as u64;
            }
        }
    }

    fn interval(&self, stream: &mut RandomStream) -> Span {
        let spread = self.config.longest - self.config.shortest;
        self.config.shortest + spread.mul_f64(stream.unit())
    }
}

impl Programme {
    fn value(&mut self, noise: &Fgn, stream: &mut RandomStream) -> f64 {
        if self.path.is_empty() {
            std::mem::swap(&mut self.path, &mut self.spare);
        }
        if self.path.is_empty() {
            [self.path, self.spare] = noise.paths(stream);
        }
        self.path.pop().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
