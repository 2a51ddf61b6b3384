//! Estimators of the Hurst parameter, written from their definitions and held against each other.

use rustfft::{FftPlanner, num_complex::Complex};

/// The slope of the least-squares line through points, each with a weight.
fn slope(points: &[(f64, f64, f64)]) -> f64 {
    let weight: f64 = points.iter().map(|p| p.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| p.2 * of(p)).sum::<f64>() / weight;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let up: f64 = points.iter().map(|p| p.2 * (p.0 - x) * (p.1 - y)).sum();
    up / points.iter().map(|p| p.2 * (p.0 - x).powi(2)).sum::<f64>()
}

/// Block lengths, about evenly spaced in the logarithm, from `shortest` to `longest`.
fn lengths(shortest: usize, longest: usize) -> Vec<usize> {
    let ratio = longest as f64 / shortest as f64;
    let mut all: Vec<usize> =
        (0..=20).map(|i| (shortest as f64 * ratio.powf(f64::from(i) / 20.0)) as usize).collect();
    all.dedup();
    all
}

/// Detrended fluctuation analysis with lines (Peng et al. 1994).
pub(crate) fn dfa(x: &[f64]) -> f64 {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let walk: Vec<f64> = x
        .iter()
        .scan(0.0, |sum, x| {
            *sum += x - mean;
            Some(*sum)
        })
        .collect();
    let fluctuation = |m: usize| {
        let boxes = walk.chunks_exact(m);
        let count = boxes.len();
        (boxes.map(residual).sum::<f64>() / count as f64).sqrt()
    };
    let points = lengths(16, x.len() / 10);
    let points: Vec<_> = points.into_iter().map(|m| ((m as f64).ln(), fluctuation(m).ln(), 1.0)).collect();
    slope(&points)
}

/// The mean square of what a line leaves.
fn residual(y: &[f64]) -> f64 {
    let n = y.len() as f64;
    let (x_mean, y_mean) = ((n - 1.0) / 2.0, y.iter().sum::<f64>() / n);
    let mut products = (0.0, 0.0, 0.0);
    for (i, y) in y.iter().enumerate() {
        let (dx, dy) = (i as f64 - x_mean, y - y_mean);
        products = (products.0 + dx * dx, products.1 + dx * dy, products.2 + dy * dy);
    }
    (products.2 - products.1 * products.1 / products.0) / n
}

/// The local Whittle estimator over the lowest n^0.65 frequencies (Robinson 1995); its standard deviation is
/// 1/(2 sqrt m).
pub(crate) fn local_whittle(x: &[f64]) -> f64 {
    let n = x.len();
    let mut spectrum: Vec<Complex<f64>> = x.iter().map(|x| Complex::new(*x, 0.0)).collect();
    FftPlanner::new().plan_fft_forward(n).process(&mut spectrum);
    let m = (n as f64).powf(0.65) as usize;
    let power: Vec<(f64, f64)> = (1..=m).map(|j| (j as f64, spectrum[j].norm_sqr())).collect();
    let log_mean = power.iter().map(|(j, _)| j.ln()).sum::<f64>() / m as f64;
    let objective = |h: f64| {
        let exponent = 2.0 * h - 1.0;
        let scale = power.iter().map(|(j, i)| j.powf(exponent) * i).sum::<f64>() / m as f64;
        scale.ln() - exponent * log_mean
    };
    let (mut low, mut high) = (0.01, 0.99);
    for _ in 0..60 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if objective(a) < objective(b) { high = b } else { low = a }
    }
    (low + high) / 2.0
}

/// Daubechies' filter with two vanishing moments.
const DAUBECHIES_2: [f64; 4] =
    [0.482_962_913_144_534_1, 0.836_516_303_737_807_9, 0.224_143_868_042_013_4, -0.129_409_522_551_260_37];

/// The wavelet estimator of Abry and Veitch (1998) from octave `first` up, to the last with 8 details.
pub(crate) fn abry_veitch(x: &[f64], first: u32) -> f64 {
    let (mut smooth, mut points, mut octave) = (x.to_vec(), Vec::new(), 0);
    while smooth.len() >= 20 {
        octave += 1;
        let at = |i: usize, filter: &dyn Fn(usize) -> f64| -> f64 {
            (0..4).map(|k| filter(k) * smooth[2 * i + k]).sum()
        };
        let count = (smooth.len() - 2) / 2;
        let high = |k: usize| if k.is_multiple_of(2) { DAUBECHIES_2[3 - k] } else { -DAUBECHIES_2[3 - k] };
        let energy = (0..count).map(|i| at(i, &high).powi(2)).sum::<f64>() / count as f64;
        let next: Vec<f64> = (0..count).map(|i| at(i, &|k| DAUBECHIES_2[k])).collect();
        if octave >= first && count >= 8 {
            let n = count as f64;
            // The expectation of log2 of a chi-squared mean: psi(n/2)/ln 2 - log2(n/2), psi by its asymptotic series.
            let bias = (-1.0 / n - 1.0 / (3.0 * n * n)) / std::f64::consts::LN_2;
            points.push((f64::from(octave), energy.log2() - bias, n));
        }
        smooth = next;
    }
    (slope(&points) + 1.0) / 2.0
}
