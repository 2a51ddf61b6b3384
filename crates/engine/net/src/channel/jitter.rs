//! Distributions of delay: closed laws, and tables as netem's.

use std::path::PathBuf;
use std::sync::Arc;

use bentpipe_units::{RandomStream, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::InvalidConfig;

/// A distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum JitterLaw {
    /// Uniform.
    Uniform {
        /// The shortest. Default: "0 s".
        #[serde(default)]
        min: Span,
        /// The longest. No default.
        max: Span,
    },
    /// Exponential.
    Exponential {
        /// The mean. No default.
        mean: Span,
    },
    /// Normal, cut off at zero.
    Normal {
        /// The mean before cutting. No default.
        mean: Span,
        /// The standard deviation before cutting. No default.
        deviation: Span,
    },
    /// Pareto: a shortest delay, and a tail that falls with a power of the delay.
    Pareto {
        /// The mean. At least deviation * sqrt((shape - 2) / shape), or the shortest would be below zero. No default.
        mean: Span,
        /// The standard deviation. No default.
        deviation: Span,
        /// The exponent of the tail. Default: 3, that of netem's table.
        #[schemars(range(min = 2.05, max = 100))]
        #[serde(default = "three")]
        shape: f64,
    },
}

fn three() -> f64 {
    3.0
}

impl JitterLaw {
    /// Checks the values together.
    ///
    /// # Errors
    /// Returns an error that names the key with an impossible value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        match *self {
            JitterLaw::Uniform { min, max } => InvalidConfig::ensure(max >= min, "max", "at least min"),
            JitterLaw::Pareto { mean, deviation, shape } => {
                InvalidConfig::ensure((2.05..=100.0).contains(&shape), "shape", "from 2.05 to 100")?;
                let spread = deviation.mul_f64(below_mean(shape));
                InvalidConfig::ensure(
                    mean >= spread,
                    "mean",
                    "at least deviation * sqrt((shape - 2) / shape)",
                )
            }
            JitterLaw::Exponential { .. } | JitterLaw::Normal { .. } => Ok(()),
        }
    }

    /// Draws a delay.
    #[inline]
    pub fn draw(self, stream: &mut RandomStream) -> Span {
        match self {
            JitterLaw::Uniform { min, max } => min + (max - min).mul_f64(stream.unit()),
            JitterLaw::Exponential { mean } => mean.mul_f64(-libm::log(1.0 - stream.unit())),
            JitterLaw::Normal { mean, deviation } => {
                let seconds = mean.as_secs_f64() + deviation.as_secs_f64() * normal(stream);
                Span::from_secs_f64(seconds)
            }
            JitterLaw::Pareto { deviation, shape, .. } => {
                // Of a least value of 1 the deviation is sqrt(shape / (shape - 2)) / (shape - 1), and the inverse of the
                // distribution function u^(-1 / shape).
                let scale = deviation.as_secs_f64() * (shape - 1.0) * below_mean(shape);
                let above = libm::pow(1.0 - stream.unit(), -1.0 / shape) - 1.0;
                self.shortest() + Span::from_secs_f64(scale * above)
            }
        }
    }

    /// Returns the mean delay; of a normal law behind the cut.
    pub fn mean(self) -> Span {
        match self {
            JitterLaw::Uniform { min, max } => (min + max).mul_f64(0.5),
            JitterLaw::Exponential { mean } | JitterLaw::Pareto { mean, .. } => mean,
            JitterLaw::Normal { mean, deviation } => {
                let [mean, deviation] = [mean, deviation].map(Span::as_secs_f64);
                Span::from_secs_f64(cut_at_zero(mean, deviation))
            }
        }
    }

    pub(super) fn shortest(self) -> Span {
        match self {
            JitterLaw::Uniform { min, .. } => min,
            JitterLaw::Exponential { .. } | JitterLaw::Normal { .. } => Span::ZERO,
            JitterLaw::Pareto { mean, deviation, shape } => mean - deviation.mul_f64(below_mean(shape)),
        }
    }
}

/// Returns the distance from a Pareto law's least value to its mean, in deviations.
fn below_mean(shape: f64) -> f64 {
    libm::sqrt((shape - 2.0) / shape)
}

/// Returns the mean of a normal distribution whose negative values are zero.
fn cut_at_zero(mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return mean.max(0.0);
    }
    let z = mean / deviation;
    let density = libm::exp(-z * z / 2.0) / libm::sqrt(std::f64::consts::TAU);
    let below = 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    (mean * below + deviation * density).max(0.0)
}

/// Returns a standard normal number (Box and Muller 1958).
pub(super) fn normal(stream: &mut RandomStream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.unit()));
    radius * libm::cos(std::f64::consts::TAU * stream.unit())
}

/// Delays of a table of quantiles, as netem's `distribution`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JitterTable {
    /// File of numbers as iproute2's `*.dist`. Text after "#" is a comment. A relative path starts at the scenario file's
    /// folder. Exactly one of `file` and `values` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The same numbers, 4096 at most. They are quantiles at even steps, in parts of 8192 of a deviation from the mean.
    #[schemars(length(max = 4096))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<i16>,
    /// Delay of the number 0. No default.
    pub mean: Span,
    /// Delay that 8192 adds. No default.
    pub deviation: Span,
    /// Keeps packets in order: each waits for those in front of it. Default: true.
    #[serde(default = "super::yes")]
    pub keep_order: bool,
}

/// The most numbers of a file (`NETEM_DIST_MAX`).
const MAX_VALUES: usize = 16_384;

/// The most numbers in a scenario: iproute2's tables have them. Each copy of a link has its own.
const MAX_GIVEN: usize = 4096;

/// The number that is a deviation (`NETEM_DIST_SCALE`).
const SCALE: f64 = 8192.0;

/// Reads the numbers of a table.
///
/// # Errors
/// Returns an error that names the line if a word is not a number of 16 bits, or if their number is zero or over 16,384.
pub fn table_values(text: &str) -> Result<Vec<i16>, String> {
    let mut values = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let numbers = line.split('#').next().unwrap_or(line);
        for word in numbers.split_ascii_whitespace() {
            let wrong = || {
                let word: String = word.chars().take(40).collect();
                format!("line {}: expected a number from -32768 to 32767, got {word:?}", n + 1)
            };
            values.push(word.parse().map_err(|_| wrong())?);
            if values.len() > MAX_VALUES {
                return Err(format!("line {}: expected at most {MAX_VALUES} numbers", n + 1));
            }
        }
    }
    if values.is_empty() { Err("expected numbers, as in iproute2's *.dist".to_owned()) } else { Ok(values) }
}

impl JitterTable {
    /// Returns the delay of a number.
    fn delay(&self, value: i16) -> Span {
        let seconds = self.mean.as_secs_f64() + self.deviation.as_secs_f64() * f64::from(value) / SCALE;
        Span::from_secs_f64(seconds.max(0.0))
    }

    /// Returns the least delay of some numbers. Without numbers, as where the file has not been read, it is zero.
    pub(super) fn least_delay(&self, values: &[i16]) -> Span {
        values.iter().min().map_or(Span::ZERO, |least| self.delay(*least))
    }

    /// Returns the mean delay behind the cut at zero, with these numbers.
    ///
    /// Without numbers, as where the file has not been read, it is the key `mean`.
    pub fn mean_delay(&self, values: &[i16]) -> Span {
        if values.is_empty() {
            return self.mean;
        }
        let sum: f64 = values.iter().map(|value| self.delay(*value).as_secs_f64()).sum();
        Span::from_secs_f64(sum / values.len() as f64)
    }
}

/// Table that delays are drawn from.
#[derive(Debug)]
pub(super) struct Table {
    law: JitterTable,
    values: Arc<[i16]>,
}

impl Table {
    /// Creates a table. `read` has the numbers of the file.
    ///
    /// # Errors
    /// Returns an error if not exactly one of the file and the values is given.
    pub(super) fn new(config: &JitterTable, read: Option<&Arc<[i16]>>) -> Result<Table, InvalidConfig> {
        let values = match (read, &config.file, &config.values[..]) {
            (Some(read), Some(_), []) => Arc::clone(read),
            (None, None, given) if (1..=MAX_GIVEN).contains(&given.len()) => given.into(),
            _ => {
                let expected = "one of `file` and `values`, which has 1 to 4096 numbers";
                return Err(InvalidConfig::new("values", expected));
            }
        };
        let law = JitterTable { file: None, values: Vec::new(), ..*config };
        Ok(Table { law, values })
    }

    pub(super) fn draw(&self, stream: &mut RandomStream) -> Span {
        // Below the length, as the number drawn is below 1.
        let at = (stream.unit() * self.values.len() as f64) as usize;
        self.values.get(at).map_or(self.law.mean, |value| self.law.delay(*value))
    }

    pub(super) fn keeps_order(&self) -> bool {
        self.law.keep_order
    }

    pub(super) fn shortest(&self) -> Span {
        self.law.least_delay(&self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    /// Returns the mean and the deviation of draws, in seconds, and the least.
    fn moments(mut draw: impl FnMut(&mut RandomStream) -> Span, count: u32) -> (f64, f64, f64) {
        let mut stream = RandomStream::new(5, "jitter");
        let draws: Vec<f64> = (0..count).map(|_| draw(&mut stream).as_secs_f64()).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(count);
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / f64::from(count);
        (mean, variance.sqrt(), draws.iter().copied().fold(f64::INFINITY, f64::min))
    }

    #[test]
    fn a_pareto_law_has_its_mean_deviation_and_least_value() {
        // A tail with a fourth moment, so that the deviation of the draws settles.
        let law = JitterLaw::Pareto { mean: ms(50), deviation: ms(10), shape: 8.0 };
        let (mean, deviation, least) = moments(|stream| law.draw(stream), 200_000);
        assert!(
            (mean / 50e-3 - 1.0).abs() < 0.005 && (deviation / 10e-3 - 1.0).abs() < 0.03,
            "{mean} {deviation}"
        );
        let shortest = 50e-3 - 10e-3 * 0.75_f64.sqrt();
        assert!(least >= shortest - 1e-9 && least < shortest + 1e-5, "{least}");
        assert!((law.shortest().as_secs_f64() - shortest).abs() < 1e-9);
        // Of shape 3 one in a thousand is above ten times the least value.
        let heavy =
            JitterLaw::Pareto { mean: ms(15), deviation: Span::from_secs_f64(75e-6_f64.sqrt()), shape: 3.0 };
        let mut stream = RandomStream::new(6, "tail");
        let above = (0..200_000).filter(|_| heavy.draw(&mut stream) > ms(100)).count();
        assert!((140..260).contains(&above), "{above}");
    }

    #[test]
    fn a_normal_delay_is_longer_behind_its_cut() {
        assert!((cut_at_zero(300.0, 15.0) - 300.0).abs() < 1e-6);
        assert!((cut_at_zero(0.0, 50.0) - 50.0 / libm::sqrt(std::f64::consts::TAU)).abs() < 1e-9);
        let law = JitterLaw::Normal { mean: Span::from_millis(5), deviation: Span::from_millis(50) };
        let mut stream = RandomStream::new(1, "mean");
        let drawn: f64 = (0..100_000).map(|_| law.draw(&mut stream).as_secs_f64()).sum();
        assert!((drawn / 100_000.0 / law.mean().as_secs_f64() - 1.0).abs() < 0.02);
    }

    #[test]
    fn impossible_laws_are_refused_with_the_key() {
        let key = |law: JitterLaw| law.check().err().map(|error| error.key);
        assert_eq!(key(JitterLaw::Pareto { mean: ms(5), deviation: ms(10), shape: 3.0 }), Some("mean"));
        assert_eq!(key(JitterLaw::Pareto { mean: ms(6), deviation: ms(10), shape: 3.0 }), None);
        for shape in [2.0, f64::NAN, 101.0] {
            assert_eq!(key(JitterLaw::Pareto { mean: ms(6), deviation: ms(1), shape }), Some("shape"));
        }
    }

    #[test]
    fn a_table_is_read_and_drawn_from_with_even_chances() {
        let values = table_values("# quantiles\n -8192 0 # the middle\n\n8192 16384\n").expect("a table");
        assert_eq!(values, [-8192, 0, 8192, 16384]);
        let law = JitterTable { file: None, values, mean: ms(20), deviation: ms(30), keep_order: true };
        let table = Table::new(&law, None).expect("possible");
        // -10, 20, 50 and 80 ms; the first is cut at zero.
        assert_eq!((table.shortest(), law.mean_delay(&law.values)), (Span::ZERO, Span::from_micros(37_500)));
        let mut stream = RandomStream::new(1, "table");
        let mut counts = std::collections::BTreeMap::new();
        (0..40_000).for_each(|_| *counts.entry(table.draw(&mut stream)).or_insert(0) += 1);
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [ms(0), ms(20), ms(50), ms(80)]);
        assert!(counts.values().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn what_is_not_a_table_is_refused_with_the_line() {
        assert_eq!(table_values("# nothing\n").unwrap_err(), "expected numbers, as in iproute2's *.dist");
        let wrong = table_values("1 2\n3 40000").unwrap_err();
        assert_eq!(wrong, "line 2: expected a number from -32768 to 32767, got \"40000\"");
        let many = "1\n".repeat(MAX_VALUES + 1);
        assert!(table_values(&many).unwrap_err().ends_with("at most 16384 numbers"));
        let both = JitterTable {
            file: Some("a".into()),
            values: vec![1],
            mean: ms(1),
            deviation: ms(1),
            keep_order: true,
        };
        let one = Arc::from([1]);
        let key = |table: &JitterTable, read| Table::new(table, read).err().map(|error| error.key);
        assert_eq!((key(&both, Some(&one)), key(&both, None)), (Some("values"), Some("values")));
        let neither = JitterTable { file: None, values: Vec::new(), ..both };
        assert_eq!(key(&neither, None), Some("values"));
    }
}
