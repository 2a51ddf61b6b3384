//! The rate of MPEG-2 transport streams, piecewise constant, long-range dependent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::sync::Arc;

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Bytes, RandomStream, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fgn::{Fgn, Synthesis};
use super::pictures::Pictures;

/// The rate of one or several transport streams together (ATM Forum 97-0177).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateConfig {
    /// Mean rate of one programme, without bounds. No default.
    pub mean: Rate,
    /// Standard deviation of one programme's rate, without bounds; "0 bit/s" makes it constant. No default.
    pub deviation: Rate,
    /// Number of independent programmes in the sum, 1000 at most. Default: 1.
    #[serde(default = "one")]
    pub programmes: u16,
    /// Hurst parameter of the rates, without bounds. 0.5 is white noise, more is long-range dependence.
    /// Default: 0.8.
    #[schemars(range(min = 0.001, max = 0.999))]
    #[serde(default = "hurst")]
    pub hurst: f64,
    /// Lower bound of the rate. Default: "0 bit/s".
    #[serde(default)]
    pub lowest: Rate,
    /// Upper bound of the rate. Default: "15 Mbit/s".
    #[serde(default = "highest")]
    pub highest: Rate,
    /// Treatment of rates outside of the bounds. Default: "prune".
    #[serde(default, skip_serializing_if = "Bounding::is_prune")]
    pub bounding: Bounding,
    /// The shortest time between two programme clock references, where the rate changes. Default: "20 ms".
    #[serde(default = "shortest")]
    pub shortest: Span,
    /// The longest time between two programme clock references; all between the two are equally likely. Default:
    /// "100 ms".
    #[serde(default = "longest")]
    pub longest: Span,
    /// Pictures of three types, among which each rate's bits are shared. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Pictures>,
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

/// Treatment of rates outside of the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bounding {
    /// Rates outside are discarded, and the next one is taken.
    #[default]
    Prune,
    /// Rates outside become the nearest bound.
    Clip,
    /// Rates are the exponential of the noise, so log-normal with the given mean and deviation. Those outside become
    /// the nearest bound.
    Exponentiate,
}

impl Bounding {
    /// Returns `true` for the default.
    fn is_prune(&self) -> bool {
        *self == Bounding::Prune
    }
}

/// Distribution of rates within their bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounded {
    /// Share of the noise's values that are within the bounds.
    pub kept: f64,
    /// Mean in bits per second.
    pub mean: f64,
    /// Standard deviation in bits per second.
    pub deviation: f64,
}

/// Returns the standard normal distribution function.
fn below(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// Returns the standard normal density.
fn density(x: f64) -> f64 {
    libm::exp(-x * x / 2.0) / libm::sqrt(2.0 * PI)
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
            pictures: None,
            synthesis: Synthesis::default(),
            bounding: Bounding::default(),
            samples: samples(),
        }
    }

    /// Returns mean and deviation of one programme within its bounds.
    ///
    /// Pruned rates are normal, truncated at both ends. Clipped ones have the probability outside at the bounds.
    pub fn bounded(&self) -> Bounded {
        let [mean, deviation] = [self.mean, self.deviation].map(|rate| rate.as_bps() as f64);
        if deviation == 0.0 {
            let kept = (self.lowest..=self.highest).contains(&self.mean);
            return Bounded { kept: f64::from(u8::from(kept)), mean, deviation };
        }
        let bounds = [self.lowest, self.highest].map(|rate| rate.as_bps() as f64);
        match self.bounding {
            Bounding::Prune => pruned(mean, deviation, bounds),
            Bounding::Clip => clipped(mean, deviation, bounds),
            Bounding::Exponentiate => exponentiated(mean, deviation, bounds),
        }
    }

    /// Returns the noise that its rates follow.
    pub fn noise(&self) -> Arc<Fgn> {
        // A constant rate needs no noise.
        let samples = if self.deviation.as_bps() == 0 { 4 } else { self.samples as usize };
        Arc::new(Fgn::new(self.synthesis, self.hurst, samples))
    }

    /// Rejects invalid values, and those with unbounded run time.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        // Each has 90 kB of noise.
        InvalidConfig::ensure((1..=1000).contains(&self.programmes), "programmes", "1 to 1000")?;
        InvalidConfig::ensure(self.hurst > 0.0 && self.hurst < 1.0, "hurst", "more than 0 and less than 1")?;
        InvalidConfig::ensure(self.shortest >= Span::from_micros(10), "shortest", "at least \"10 us\"")?;
        if let Some(pictures) = &self.pictures {
            pictures.check()?;
            let is_unset = self.shortest == shortest() && self.longest == longest();
            InvalidConfig::ensure(
                is_unset,
                "shortest",
                "none, nor `longest`, as `pictures` have an interval",
            )?;
        }
        let is_longer = self.longest >= self.shortest && self.longest <= Span::from_secs(3600);
        InvalidConfig::ensure(is_longer, "longest", "from `shortest` to \"1 h\"")?;
        let is_possible = self.highest > self.lowest && self.highest <= Rate::from_bps(1_000_000_000_000);
        InvalidConfig::ensure(is_possible, "highest", "more than `lowest`, at most \"1000 Gbit/s\"")?;
        let has_room = (4..=Fgn::MAX_LEN as u64).contains(&self.samples.into());
        InvalidConfig::ensure(has_room, "samples", "from 4 to 1048576")?;
        let grows = self.bounding != Bounding::Exponentiate || self.mean.as_bps() > 0;
        InvalidConfig::ensure(grows, "mean", "more than zero")?;
        let bounded = self.bounded();
        let keeps = bounded.kept >= 0.01;
        InvalidConfig::ensure(
            keeps,
            "mean",
            "one that leaves a hundredth of the rates within `lowest` and `highest`",
        )?;
        InvalidConfig::ensure(bounded.mean >= 1.0, "mean", "more than zero")
    }
}

/// Returns the moments of a normal distribution truncated at both bounds.
fn pruned(mean: f64, deviation: f64, bounds: [f64; 2]) -> Bounded {
    let [a, b] = bounds.map(|bound| (bound - mean) / deviation);
    let kept = below(b) - below(a);
    let shift = (density(a) - density(b)) / kept;
    let variance = 1.0 + (a * density(a) - b * density(b)) / kept - shift * shift;
    Bounded { kept, mean: mean + deviation * shift, deviation: deviation * libm::sqrt(variance) }
}

/// Returns the moments of a normal distribution with the probability outside at the bounds.
fn clipped(mean: f64, deviation: f64, bounds: [f64; 2]) -> Bounded {
    let [a, b] = bounds.map(|bound| (bound - mean) / deviation);
    let kept = below(b) - below(a);
    let first = density(a) - density(b);
    let second = kept + a * density(a) - b * density(b);
    // Moments of the standardised value; all of it lies between `a` and `b`.
    let shift = first + a * below(a) + b * below(-b);
    let square = second + a * a * below(a) + b * b * below(-b);
    let variance = (square - shift * shift).max(0.0);
    Bounded { kept, mean: mean + deviation * shift, deviation: deviation * libm::sqrt(variance) }
}

/// Returns mean and deviation of the logarithm of a log-normal value with the given ones.
fn logarithm(mean: f64, deviation: f64) -> [f64; 2] {
    let variance = libm::log1p((deviation / mean) * (deviation / mean));
    [libm::log(mean) - variance / 2.0, libm::sqrt(variance)]
}

/// Returns the moments of a log-normal distribution with the probability outside at the bounds.
fn exponentiated(mean: f64, deviation: f64, [lowest, highest]: [f64; 2]) -> Bounded {
    let [mu, sigma] = logarithm(mean, deviation);
    // A bound of zero is infinitely far below.
    let [a, b] = [lowest, highest].map(|bound| (libm::log(bound) - mu) / sigma);
    let within = |power: f64| {
        let moment = libm::exp(power * mu + power * power * sigma * sigma / 2.0);
        moment * (below(b - power * sigma) - below(a - power * sigma))
    };
    let bounded = within(1.0) + lowest * below(a) + highest * below(-b);
    let square = within(2.0) + lowest * lowest * below(a) + highest * highest * below(-b);
    let variance = (square - bounded * bounded).max(0.0);
    Bounded { kept: below(b) - below(a), mean: bounded, deviation: libm::sqrt(variance) }
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
    noise: Arc<Fgn>,
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
    /// Rate of the group of pictures, and the number of its pictures that have begun.
    group: u64,
    begun: usize,
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
        Rates::of_noise(config, config.noise(), start, stream)
    }

    /// Creates rates as [`Rates::new`] does, with the noise of the same configuration.
    ///
    /// The number of programmes may differ.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn of_noise(
        config: &RateConfig,
        noise: Arc<Fgn>,
        start: Time,
        stream: &mut RandomStream,
    ) -> Result<Rates, InvalidConfig> {
        config.check()?;
        let mut rates = Rates {
            config: *config,
            noise,
            programmes: vec![Programme::default(); config.programmes.into()],
            changes: BinaryHeap::with_capacity(config.programmes.into()),
            total: 0,
            at: start,
            earned: 0,
        };
        for index in 0..config.programmes {
            rates.join_group(index, stream);
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

    /// Returns the number of the picture that lasts until the next change, within its group.
    ///
    /// It is that of the first programme, and `None` without pictures.
    pub(crate) fn picture(&self) -> Option<usize> {
        let len = self.config.pictures?.len();
        self.programmes.first().map(|programme| (programme.begun + len - 1) % len)
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
        let rate = self.next_rate(index, stream);
        let programme = &mut self.programmes[usize::from(index)];
        self.total = self.total - programme.rate + rate;
        programme.rate = rate;
    }

    /// Begins a programme at any picture of a group.
    fn join_group(&mut self, index: u16, stream: &mut RandomStream) {
        let Some(pictures) = self.config.pictures else { return };
        let group = self.draw(index, stream);
        let begun = (stream.unit() * pictures.len() as f64) as usize;
        let programme = &mut self.programmes[usize::from(index)];
        (programme.group, programme.begun) = (group, begun);
    }

    /// Returns the next rate of a programme or picture in bit/s.
    fn next_rate(&mut self, index: u16, stream: &mut RandomStream) -> u64 {
        let Some(pictures) = self.config.pictures else { return self.draw(index, stream) };
        let number = self.programmes[usize::from(index)].begun % pictures.len();
        if number == 0 {
            let rate = self.draw(index, stream);
            self.programmes[usize::from(index)].group = rate;
        }
        let programme = &mut self.programmes[usize::from(index)];
        programme.begun = number + 1;
        pictures.rate(programme.group, number)
    }

    /// Returns the next rate of a programme within the bounds, in bit/s.
    fn draw(&mut self, index: u16, stream: &mut RandomStream) -> u64 {
        let [mean, deviation, lowest, highest] =
            [self.config.mean, self.config.deviation, self.config.lowest, self.config.highest]
                .map(|rate| rate.as_bps() as f64);
        if deviation == 0.0 {
            return self.config.mean.as_bps();
        }
        let bounding = self.config.bounding;
        let programme = &mut self.programmes[usize::from(index)];
        loop {
            let noise = programme.value(&self.noise, stream);
            let rate = match bounding {
                Bounding::Prune => mean + deviation * noise,
                Bounding::Clip => (mean + deviation * noise).clamp(lowest, highest),
                Bounding::Exponentiate => {
                    let [mu, sigma] = logarithm(mean, deviation);
                    libm::exp(mu + sigma * noise).clamp(lowest, highest)
                }
            };
            if (lowest..=highest).contains(&rate) {
                return libm::round(rate) as u64;
            }
        }
    }

    fn interval(&self, stream: &mut RandomStream) -> Span {
        if let Some(pictures) = &self.config.pictures {
            return pictures.interval;
        }
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
