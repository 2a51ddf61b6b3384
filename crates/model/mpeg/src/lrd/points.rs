//! Points that a Hurst parameter is fitted to.

use std::f64::consts::LN_2;

/// Logarithms of scale and statistic, and the law between slope and Hurst parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Natural logarithms of scale and statistic, and the weight in the fit.
    pub all: Vec<[f64; 3]>,
    /// Factor and constant from the slope to the Hurst parameter.
    law: [f64; 2],
}

impl Points {
    /// Returns the Hurst parameter of the weighted least-squares line.
    ///
    /// It is not a number for fewer than two points.
    pub fn hurst(&self) -> f64 {
        let [factor, constant] = self.law;
        factor * slope(&self.all) + constant
    }
}

fn slope(points: &[[f64; 3]]) -> f64 {
    let weight: f64 = points.iter().map(|[.., w]| w).sum();
    let mean = |of: usize| points.iter().map(|point| point[2] * point[of]).sum::<f64>() / weight;
    let (x, y) = (mean(0), mean(1));
    let up: f64 = points.iter().map(|[a, b, w]| w * (a - x) * (b - y)).sum();
    up / points.iter().map(|[a, _, w]| w * (a - x).powi(2)).sum::<f64>()
}

/// Scales from `shortest` to `longest`, about evenly spaced in the logarithm.
fn scales(shortest: usize, longest: usize) -> Vec<usize> {
    const STEPS: u32 = 24;
    let ratio = longest.max(shortest) as f64 / shortest as f64;
    let at = |step: u32| (shortest as f64 * ratio.powf(f64::from(step) / f64::from(STEPS))).round() as usize;
    let mut all: Vec<usize> = (0..=STEPS).map(at).collect();
    all.dedup();
    all
}

/// Returns the variances of block means over block lengths (variance-time plot).
///
/// Their slope is 2H - 2.
pub fn variance_time(series: &[f64]) -> Points {
    let variance = |length: usize| {
        let means: Vec<f64> =
            series.chunks_exact(length).map(|block| block.iter().sum::<f64>() / length as f64).collect();
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        means.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / means.len() as f64
    };
    let points = scales(4, series.len() / 16).into_iter().map(|length| (length, variance(length)));
    Points { all: logarithms(points), law: [0.5, 1.0] }
}

/// Returns the mean rescaled adjusted range over block lengths; its slope is H.
pub fn rescaled_range(series: &[f64]) -> Points {
    let of_length = |length: usize| {
        let ranges: Vec<f64> = series.chunks_exact(length).filter_map(range).collect();
        ranges.iter().sum::<f64>() / ranges.len() as f64
    };
    let points = scales(16, series.len() / 8).into_iter().map(|length| (length, of_length(length)));
    Points { all: logarithms(points), law: [1.0, 0.0] }
}

/// Returns the range of a block's departures from its mean, over its deviation.
///
/// Returns `None` for a constant block.
fn range(block: &[f64]) -> Option<f64> {
    let n = block.len() as f64;
    let mean = block.iter().sum::<f64>() / n;
    let deviation = (block.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let (mut sum, mut low, mut high) = (0.0_f64, 0.0_f64, 0.0_f64);
    for x in block {
        sum += x - mean;
        (low, high) = (low.min(sum), high.max(sum));
    }
    (deviation > 0.0).then(|| (high - low) / deviation)
}

/// Returns positive statistics with equal weights.
fn logarithms(points: impl Iterator<Item = (usize, f64)>) -> Vec<[f64; 3]> {
    let positive = points.filter(|(_, statistic)| *statistic > 0.0);
    positive.map(|(scale, statistic)| [(scale as f64).ln(), statistic.ln(), 1.0]).collect()
}

/// Daubechies' filter with two vanishing moments, which a linear trend does not pass.
const DAUBECHIES_2: [f64; 4] =
    [0.482_962_913_144_534_1, 0.836_516_303_737_807_9, 0.224_143_868_042_013_4, -0.129_409_522_551_260_37];

/// First octave of the fit: below it the samples themselves distort the energies.
const FIRST_OCTAVE: u32 = 3;

/// Minimum number of details of an octave.
const MIN_DETAILS: usize = 8;

/// Returns the mean energies of wavelet details over octaves (logscale diagram).
///
/// Their slope is 2H - 1.
pub fn log_scale(series: &[f64]) -> Points {
    let (mut smooth, mut all) = (series.to_vec(), Vec::new());
    for octave in 1_u32.. {
        let Some((energy, count, next)) = details(&smooth) else { break };
        if octave >= FIRST_OCTAVE && energy > 0.0 {
            let n = count as f64;
            // Expectation of the logarithm of a mean of n squares: psi(n/2) - ln(n/2), by its asymptotic series.
            let bias = -1.0 / n - 1.0 / (3.0 * n * n);
            all.push([f64::from(octave) * LN_2, energy.ln() - bias, n]);
        }
        smooth = next;
    }
    Points { all, law: [0.5, 0.5] }
}

/// Returns the mean energy and number of an octave's details, and the smoothed series.
///
/// Returns `None` for too few details.
fn details(series: &[f64]) -> Option<(f64, usize, Vec<f64>)> {
    let count = series.len().checked_sub(2)? / 2;
    if count < MIN_DETAILS {
        return None;
    }
    let high = |k: usize| if k.is_multiple_of(2) { DAUBECHIES_2[3 - k] } else { -DAUBECHIES_2[3 - k] };
    let at = |i: usize, filter: &dyn Fn(usize) -> f64| -> f64 {
        (0..4).map(|k| filter(k) * series[2 * i + k]).sum()
    };
    let energy = (0..count).map(|i| at(i, &high).powi(2)).sum::<f64>() / count as f64;
    Some((energy, count, (0..count).map(|i| at(i, &|k| DAUBECHIES_2[k])).collect()))
}
