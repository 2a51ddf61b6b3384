//! Long-range dependence of a series: Hurst parameter, autocorrelation, distribution.
//!
//! *Models*: the aggregated variance (variance-time plot), the rescaled range (R/S) and the wavelet estimator of Abry and
//! Veitch. Intervals come from paths of fractional Gaussian noise with the found parameter (parametric bootstrap), so that
//! they contain the bias of the first two estimators at the length of the series.
//!
//! *Does not model*: trends and seasons, which raise all three estimates; non-normal increments in the intervals.
//!
//! *References*: Hurst, Trans. ASCE 116, 1951; Taqqu, Teverovsky and Willinger, Fractals 3(4), 1995; Abry and Veitch, IEEE
//! Trans. Information Theory 44(1), 1998.

use bentpipe_units::RandomStream;

use super::fgn::{Fgn, Synthesis};

mod points;

pub use points::{Points, log_scale, rescaled_range, variance_time};

/// Minimum number of values of a series.
pub const MIN_LEN: usize = 256;

/// Number of paths of noise that an interval is made of.
const PATHS: usize = 99;

/// Longest path of noise for an interval; intervals of longer series are scaled down.
const LONGEST_PATH: usize = 1 << 14;

/// Hurst parameter with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub hurst: f64,
    /// Ends of the 95 % confidence interval.
    pub interval: [f64; 2],
}

/// Estimates of the Hurst parameter by three methods.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimates {
    /// Estimate by the variance of block means.
    pub variance_time: Estimate,
    /// Estimate by the rescaled adjusted range.
    pub rescaled_range: Estimate,
    /// Estimate by the energy of wavelet details.
    pub wavelet: Estimate,
}

impl Estimates {
    /// Estimates the Hurst parameter of a series.
    ///
    /// Returns `None` if it is constant or shorter than [`MIN_LEN`].
    pub fn of(series: &[f64]) -> Option<Estimates> {
        let moments = Moments::of(series)?;
        if series.len() < MIN_LEN || moments.deviation <= 0.0 {
            return None;
        }
        Some(Estimates {
            variance_time: estimate(series, |series| variance_time(series).hurst())?,
            rescaled_range: estimate(series, |series| rescaled_range(series).hurst())?,
            wavelet: estimate(series, |series| log_scale(series).hurst())?,
        })
    }
}

/// Returns an estimate with the interval that noise of this parameter gives.
fn estimate(series: &[f64], method: impl Fn(&[f64]) -> f64) -> Option<Estimate> {
    let hurst = method(series);
    if !hurst.is_finite() {
        return None;
    }
    let len = series.len().min(LONGEST_PATH);
    // The bias depends on the parameter, so the noise has the parameter without the bias at the first one.
    let first = errors(hurst, len, &method);
    let found = errors(hurst - first[PATHS / 2], len, &method);
    // The spread falls with the square root of the length, as for short memory: an upper bound for a longer series.
    let scale = (len as f64 / series.len() as f64).sqrt();
    let [low, high] = [found[PATHS / 40], found[PATHS - 1 - PATHS / 40]].map(|error| error * scale);
    Some(Estimate { hurst, interval: [hurst - high, hurst - low] })
}

/// Returns the errors of a method for paths of noise with a parameter, in order.
fn errors(hurst: f64, len: usize, method: &impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let taken = hurst.clamp(0.05, 0.98);
    let noise = Fgn::new(Synthesis::DaviesHarte, taken, len);
    let mut stream = RandomStream::new(1, "lrd");
    let mut found: Vec<f64> = Vec::with_capacity(PATHS + 1);
    while found.len() < PATHS {
        found
            .extend(noise.paths(&mut stream).iter().map(|path| method(&path[..len.min(path.len())]) - taken));
    }
    found.truncate(PATHS);
    found.sort_by(f64::total_cmp);
    found
}

/// Mean and spread of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Third standardised moment; zero for a constant series.
    pub skewness: f64,
}

impl Moments {
    /// Computes the moments; `None` for an empty series.
    pub fn of(series: &[f64]) -> Option<Moments> {
        let n = series.len() as f64;
        if series.is_empty() {
            return None;
        }
        let mean = series.iter().sum::<f64>() / n;
        let moment = |power: i32| series.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / n;
        let deviation = moment(2).sqrt();
        let skewness = if deviation > 0.0 { moment(3) / deviation.powi(3) } else { 0.0 };
        Some(Moments { mean, deviation, skewness })
    }
}

/// Returns the quantiles of a series at `shares`, each from 0 to 1.
pub fn quantiles(series: &[f64], shares: &[f64]) -> Vec<f64> {
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: &f64| {
        let place = share.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
        let (below, above) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
        Some(below + (above - below) * place.fract())
    };
    shares.iter().filter_map(at).collect()
}

/// Returns the autocorrelation at each lag.
///
/// Lags beyond the series are left out, and all of a constant one.
pub fn autocorrelation(series: &[f64], lags: &[usize]) -> Vec<(usize, f64)> {
    let Some(Moments { mean, deviation, .. }) = Moments::of(series) else { return Vec::new() };
    let scale = deviation * deviation * series.len() as f64;
    let at = |lag: &usize| {
        let later = series.get(*lag..).filter(|later| !later.is_empty() && scale > 0.0)?;
        let sum: f64 = series.iter().zip(later).map(|(x, y)| (x - mean) * (y - mean)).sum();
        Some((*lag, sum / scale))
    };
    lags.iter().filter_map(at).collect()
}

/// Returns the mean of a piecewise constant rate over consecutive intervals.
///
/// Pieces are durations and amounts, both of any unit. The last interval is left out if it is incomplete.
pub fn resample(pieces: &[(f64, f64)], interval: f64) -> Vec<f64> {
    let (mut all, mut filled, mut amount) = (Vec::new(), 0.0, 0.0);
    for &(mut span, mut rest) in pieces.iter().filter(|(span, _)| *span > 0.0 && interval > 0.0) {
        while filled + span >= interval {
            let part = interval - filled;
            let share = rest * part / span;
            all.push((amount + share) / interval);
            (rest, span, filled, amount) = (rest - share, span - part, 0.0, 0.0);
            if span <= 0.0 {
                break;
            }
        }
        if span > 0.0 {
            (filled, amount) = (filled + span, amount + rest);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(hurst: f64, len: usize, seed: u64) -> Vec<f64> {
        let [path, _] =
            Fgn::new(Synthesis::DaviesHarte, hurst, len).paths(&mut RandomStream::new(seed, "test"));
        path
    }

    #[test]
    fn intervals_contain_the_parameter_of_noise() {
        for (seed, hurst) in [(1, 0.5), (2, 0.65), (3, 0.8), (4, 0.9)] {
            let found = Estimates::of(&noise(hurst, 8192, seed)).unwrap();
            for (name, Estimate { hurst: estimate, interval: [low, high] }) in [
                ("variance-time", found.variance_time),
                ("rescaled range", found.rescaled_range),
                ("wavelet", found.wavelet),
            ] {
                let wide = high - low;
                assert!((low - wide..high + wide).contains(&hurst), "{name}: {hurst} in {low}..{high}");
                assert!(
                    high - low < 0.35 && (estimate - hurst).abs() < 0.15,
                    "{name}: {estimate} for {hurst}"
                );
            }
        }
    }

    #[test]
    fn a_constant_and_a_short_series_have_no_parameter() {
        assert_eq!(Estimates::of(&vec![3.0; 4096]), None);
        assert_eq!(Estimates::of(&noise(0.8, 128, 1)), None);
        assert_eq!(Estimates::of(&[]), None);
        assert_eq!((quantiles(&[], &[0.5]), autocorrelation(&[], &[1])), (vec![], vec![]));
    }

    #[test]
    fn autocorrelation_of_noise_is_that_of_theory() {
        let found = autocorrelation(&noise(0.8, 1 << 16, 5), &[0, 1, 10, 1 << 20]);
        assert!(found.len() == 3 && (found[0].1 - 1.0).abs() < 1e-9);
        // (|k+1|^1.6 - 2|k|^1.6 + |k-1|^1.6) / 2.
        for ((_, value), expected) in found[1..].iter().zip([0.5157, 0.1910]) {
            assert!((value - expected).abs() < 0.05, "{value} for {expected}");
        }
    }

    #[test]
    fn quantiles_and_moments_are_by_hand() {
        assert_eq!(quantiles(&[4.0, 1.0, 3.0, 2.0], &[0.0, 0.5, 1.0]), [1.0, 2.5, 4.0]);
        let moments = Moments::of(&[1.0, 1.0, 1.0, 5.0]).unwrap();
        assert_eq!((moments.mean, moments.deviation), (2.0, 3.0_f64.sqrt()));
        assert!((moments.skewness - 6.0 / 3.0_f64.powf(1.5)).abs() < 1e-12);
    }

    #[test]
    fn pieces_fall_into_intervals_with_nothing_lost() {
        let rates = resample(&[(0.5, 10.0), (2.0, 4.0), (0.25, 3.0), (0.25, 1.0)], 1.0);
        assert_eq!(rates, [11.0, 2.0, 5.0]);
        assert!(resample(&[(0.0, 1.0), (0.9, 1.0)], 1.0).is_empty());
    }
}
