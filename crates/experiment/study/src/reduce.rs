//! Reductions of measures and series, by the names of a study file.

use bentpipe_record::stats;
use bentpipe_report::amount;
use serde::Deserialize;

/// A sample: time in seconds, and value.
type Sample = (f64, f64);

/// Reduction of a series to one number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reduce {
    /// Last value.
    Last,
    /// Arithmetic mean of the samples.
    Mean,
    /// Value at a time: that of the last sample until then.
    At {
        /// The time, such as "5 s".
        time: String,
    },
    /// Time of the first sample at or above a value.
    Reaches {
        /// The value, such as "100 kB".
        value: String,
    },
    /// Time of the first sample above a value.
    Exceeds {
        /// The value.
        value: String,
    },
    /// Settling time: that of the last sample farther than this from the last value.
    Settles {
        /// The distance, such as "100 ms".
        within: String,
    },
    /// Slope of the least-squares line through the samples, per second.
    Slope,
    /// Time in which a growing value doubles: of the least-squares line through its logarithms.
    DoublingTime {
        /// The least value looked at.
        from: String,
        /// The greatest value looked at.
        to: String,
    },
    /// Mean over instants of the median over the points of the sweep.
    MeanOfMedians {
        /// The first instant, and the time from one to the next.
        every: String,
        /// The last instant.
        until: String,
    },
}

/// Reduction of the values of several points, or of several measures, to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// Arithmetic mean.
    Mean,
    /// Median.
    Median,
    /// Least value.
    Least,
    /// Greatest value.
    Greatest,
}

impl Across {
    /// Returns the reduction of several values, if there are any.
    pub(super) fn of(self, values: &[f64]) -> Option<f64> {
        match self {
            Across::Mean => stats::mean(values),
            Across::Median => stats::median(values.to_vec()),
            Across::Least => values.iter().copied().min_by(f64::total_cmp),
            Across::Greatest => values.iter().copied().max_by(f64::total_cmp),
        }
    }
}

impl Reduce {
    /// Returns the number that a series is reduced to.
    ///
    /// # Errors
    /// If there is none, in words.
    pub(super) fn of(&self, samples: &[Sample]) -> Result<f64, String> {
        let last = samples.last().ok_or("no samples")?;
        match self {
            Reduce::Last => Ok(last.1),
            Reduce::Mean => Ok(samples.iter().map(|sample| sample.1).sum::<f64>() / samples.len() as f64),
            Reduce::At { time } => {
                value_at(samples, number(time)?).ok_or_else(|| format!("nothing at {time}"))
            }
            Reduce::Reaches { value } => {
                let least = number(value)?;
                first(samples, |sample| sample >= least).ok_or_else(|| format!("never reaches {value}"))
            }
            Reduce::Exceeds { value } => {
                let limit = number(value)?;
                first(samples, |sample| sample > limit).ok_or_else(|| format!("never exceeds {value}"))
            }
            Reduce::Settles { within } => {
                let within = number(within)?;
                let unsettled = samples.iter().rfind(|(_, value)| (value - last.1).abs() > within);
                Ok(unsettled.map_or(0.0, |(at, _)| *at))
            }
            Reduce::Slope => slope(samples).ok_or_else(|| "fewer than two samples".to_owned()),
            Reduce::DoublingTime { from, to } => doubling_time(samples, number(from)?, number(to)?),
            Reduce::MeanOfMedians { .. } => Err("a mean of medians is of several points".to_owned()),
        }
    }

    /// Returns `true` if a series that stays at 0 has no such number.
    pub(super) fn fails_of_nothing(&self) -> bool {
        matches!(self, Reduce::Reaches { .. } | Reduce::Exceeds { .. } | Reduce::DoublingTime { .. })
    }

    /// Returns `true` if the number is a time.
    pub(super) fn is_time(&self) -> bool {
        use Reduce::{DoublingTime, Exceeds, Reaches, Settles};
        matches!(self, Reaches { .. } | Exceeds { .. } | Settles { .. } | DoublingTime { .. })
    }
}

/// Returns the mean over instants of the median over several series.
///
/// # Errors
/// If no series has a sample by any instant.
pub(super) fn mean_of_medians(all: &[Vec<Sample>], every_s: f64, until_s: f64) -> Result<f64, String> {
    let count = (until_s / every_s).floor() as u32;
    let medians = (1..=count).filter_map(|n| {
        let at = f64::from(n) * every_s;
        stats::median(all.iter().filter_map(|samples| value_at(samples, at)).collect())
    });
    stats::mean(&medians.collect::<Vec<_>>()).ok_or_else(|| "no samples".to_owned())
}

/// Returns the number in a text with a unit, in its base unit.
///
/// # Errors
/// If there is none.
pub(super) fn number(text: &str) -> Result<f64, String> {
    amount::number(text).map(|(number, _)| number).ok_or_else(|| format!("\"{text}\" is not a number"))
}

fn value_at(samples: &[Sample], at: f64) -> Option<f64> {
    let n = samples.partition_point(|(time, _)| *time <= at);
    n.checked_sub(1).map(|n| samples[n].1)
}

fn first(samples: &[Sample], is_there: impl Fn(f64) -> bool) -> Option<f64> {
    samples.iter().find(|(_, value)| is_there(*value)).map(|(at, _)| *at)
}

/// Returns the slope of the least-squares line through at least two points.
pub(crate) fn slope(points: &[Sample]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&Sample) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let above: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let below: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (below > 0.0).then_some(above / below)
}

/// Returns the time in which a value between two bounds doubles, in seconds.
///
/// # Errors
/// If it does not grow.
pub(crate) fn doubling_time(samples: &[Sample], from: f64, to: f64) -> Result<f64, String> {
    let growing = samples.iter().filter(|(_, value)| (from..=to).contains(value));
    let logarithms: Vec<Sample> = growing.map(|(at, value)| (*at, value.log2())).collect();
    let slope = slope(&logarithms).filter(|slope| *slope > 0.0);
    slope.map(|slope| 1.0 / slope).ok_or_else(|| "does not grow".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [Sample; 6] = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 4.0), (4.0, 8.0), (5.0, 8.0)];

    fn reduced(text: &str) -> Result<f64, String> {
        let reduce: Reduce = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        reduce.of(&SAMPLES)
    }

    #[test]
    fn a_series_becomes_one_number() {
        assert_eq!(reduced("kind = \"last\""), Ok(8.0));
        assert_eq!(reduced("kind = \"mean\""), Ok(23.0 / 6.0));
        assert_eq!(reduced("kind = \"at\"\ntime = \"3500 ms\""), Ok(4.0));
        assert_eq!(reduced("kind = \"reaches\"\nvalue = \"4 B\""), Ok(3.0));
        assert_eq!(reduced("kind = \"exceeds\"\nvalue = \"4\""), Ok(4.0));
        assert_eq!(reduced("kind = \"settles\"\nwithin = \"4\""), Ok(2.0));
        assert_eq!(reduced("kind = \"doubling-time\"\nfrom = \"1\"\nto = \"7\""), Ok(1.0));
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some(2.0));
        assert_eq!(slope(&[(1.0, 1.0)]), None);
    }

    #[test]
    fn what_is_not_there_is_reported() {
        assert_eq!(reduced("kind = \"reaches\"\nvalue = \"9\""), Err("never reaches 9".to_owned()));
        assert_eq!(reduced("kind = \"at\"\ntime = \"soon\""), Err("\"soon\" is not a number".to_owned()));
        assert_eq!(Reduce::Last.of(&[]), Err("no samples".to_owned()));
    }

    #[test]
    fn medians_are_taken_at_each_instant() {
        let all = [vec![(0.5, 1.0), (1.5, 10.0)], vec![(0.5, 3.0)], vec![(1.5, 5.0)]];
        // At 1 s the median of 1 and 3, at 2 s that of 10, 3 and 5.
        assert_eq!(mean_of_medians(&all, 1.0, 2.0), Ok(3.5));
        assert_eq!(mean_of_medians(&[], 1.0, 2.0), Err("no samples".to_owned()));
    }

    #[test]
    fn several_values_become_one() {
        let values = [1.0, 2.0, 6.0];
        let all = [Across::Mean, Across::Median, Across::Least, Across::Greatest];
        assert_eq!(all.map(|across| across.of(&values)), [Some(3.0), Some(2.0), Some(1.0), Some(6.0)]);
    }
}
