//! Means and confidence intervals over seeds, and over batches of one run.
//!
//! Independent runs (seeds) give independent samples, so a mean over them has a Student-t interval. Samples along one
//! run are correlated; [`batch_means`] groups them into batches long enough to be nearly independent (A. M. Law,
//! *Simulation Modeling and Analysis*, section 9.5.3).

mod student;

pub use student::{student_t_cdf, student_t_quantile};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Standard error in relation to the mean that rounding of sums can cause.
const ROUNDING: f64 = 1e-12;

/// Mean with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Number of samples.
    pub n: u64,
    /// Mean of the samples.
    pub mean: f64,
    /// Half-width of the mean's 95 % confidence interval; `None` for a single sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
}

impl Estimate {
    /// Returns the mean of independent samples. NaN samples are ignored; without samples returns `None`.
    pub fn of(samples: &[f64]) -> Option<Estimate> {
        let kept: Vec<f64> = samples.iter().copied().filter(|x| !x.is_nan()).collect();
        let mean = mean(&kept)?;
        let n = kept.len() as u64;
        let ci95 = (n > 1).then(|| {
            let standard_error = (variance(&kept) / n as f64).sqrt();
            // Samples that differ by rounding alone are the same.
            let is_rounding = standard_error <= mean.abs() * ROUNDING;
            if is_rounding { 0.0 } else { student_t_quantile(0.975, n - 1) * standard_error }
        });
        Some(Estimate { n, mean, ci95 })
    }

    /// Returns the ends of the confidence interval; the mean where there is none.
    pub fn interval(&self) -> (f64, f64) {
        let half = self.ci95.unwrap_or(0.0);
        (self.mean - half, self.mean + half)
    }
}

/// Returns the mean of the first one, two, three and more samples, with its interval. NaN samples are ignored.
pub fn running_means(samples: &[f64]) -> Vec<Estimate> {
    let kept: Vec<f64> = samples.iter().copied().filter(|x| !x.is_nan()).collect();
    (1..=kept.len()).filter_map(|n| Estimate::of(&kept[..n])).collect()
}

/// Returns Jain's index of fairness; `None` if nothing is shared.
///
/// It is 1 if all shares are the same, and 1/n if one has all.
/// R. Jain, D. Chiu, W. Hawe, *A Quantitative Measure of Fairness and Discrimination*, 1984, equation 1. NaN is left out.
pub fn jain(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares.filter(|share| !share.is_nan()) {
        n += 1.0;
        sum += share;
        squares += share * share;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

/// Returns the arithmetic mean; `None` without samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// Returns the unbiased sample variance; zero for fewer than two samples.
pub fn variance(samples: &[f64]) -> f64 {
    let (Some(mean), true) = (mean(samples), samples.len() > 1) else { return 0.0 };
    samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (samples.len() - 1) as f64
}

/// Returns the mean of correlated, equidistant samples of one run, by batch means.
///
/// It uses `batches` batches of equal length. Samples at the start that do not fill a batch are left out.
/// `None` if there are fewer samples than batches.
pub fn batch_means(samples: &[f64], batches: usize) -> Option<Estimate> {
    let len = samples.len().checked_div(batches)?;
    if len == 0 {
        return None;
    }
    let used = &samples[samples.len() - len * batches..];
    let means: Vec<f64> = used.chunks_exact(len).filter_map(mean).collect();
    Estimate::of(&means)
}

/// Returns the number of samples for a 95 % interval of this half-width.
///
/// See Law, section 9.4.1. It takes the variance of the given samples. `None` if there are fewer than two samples, the half-width is not positive, or more
/// than a billion samples are needed.
pub fn samples_needed(samples: &[f64], half_width: f64) -> Option<u64> {
    let kept: Vec<f64> = samples.iter().copied().filter(|x| !x.is_nan()).collect();
    let deviation = variance(&kept).sqrt();
    let suffices = |n: u64| student_t_quantile(0.975, n - 1) * deviation / (n as f64).sqrt() <= half_width;
    let (mut few, mut enough) = (1, 1_000_000_000);
    if kept.len() < 2 || half_width.is_nan() || half_width <= 0.0 || !suffices(enough) {
        return None;
    }
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        if suffices(middle) { enough = middle } else { few = middle }
    }
    Some(enough)
}

/// Returns the median, without NaN samples; `None` without samples.
pub fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.retain(|sample| !sample.is_nan());
    samples.sort_by(f64::total_cmp);
    let upper = *samples.get(samples.len() / 2)?;
    let lower = samples[(samples.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// Returns the quantile `q` of sorted samples, linearly interpolated (Hyndman and Fan, type 7).
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let place = q * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// Returns the time average of samples, linearly interpolated.
///
/// A sample is a time in seconds and a value.
/// NaN samples are left out. `None` if fewer than two samples are left.
pub fn time_average(samples: &[(f64, f64)]) -> Option<f64> {
    let mut kept = samples.iter().copied().filter(|(_, value)| !value.is_nan());
    let (mut t0, mut v0) = kept.next()?;
    let (mut area, mut length) = (0.0, 0.0);
    for (t, v) in kept {
        area += (v0 + v) / 2.0 * (t - t0);
        length += t - t0;
        (t0, v0) = (t, v);
    }
    (length > 0.0).then(|| area / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_textbook_one() {
        // Law's example 4.27 (mean 1.34, variance 0.17); t(9, 0.975) = 2.262157.
        let samples = [1.20, 1.50, 1.68, 1.89, 0.95, 1.49, 1.58, 1.55, 0.50, 1.09];
        let estimate = Estimate::of(&samples).expect("samples");
        assert!((estimate.mean - 1.343).abs() < 1e-9);
        assert!((variance(&samples) - 0.167512222).abs() < 1e-5);
        assert!(
            (estimate.ci95.expect("ten samples") - 2.262_157 * (0.167512222_f64 / 10.0).sqrt()).abs() < 1e-5
        );
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[f64::NAN]), None);
        assert_eq!(Estimate::of(&[3.0, f64::NAN]), Some(Estimate { n: 1, mean: 3.0, ci95: None }));
        assert_eq!(Estimate::of(&[3.0, 3.0]).expect("two").ci95, Some(0.0));
        let rounded = [0.1 + 0.2, 0.3, 0.3];
        assert_eq!(Estimate::of(&rounded).expect("three").ci95, Some(0.0));
    }

    #[test]
    fn the_number_of_samples_is_the_least_that_suffices() {
        // Law's example 4.27: the half-width of ten samples is 0.293, so ten give it and nine do not.
        let samples = [1.20, 1.50, 1.68, 1.89, 0.95, 1.49, 1.58, 1.55, 0.50, 1.09];
        let half = Estimate::of(&samples).and_then(|estimate| estimate.ci95).expect("ten samples");
        assert_eq!(samples_needed(&samples, half * (1.0 + 1e-9)), Some(10));
        // For many samples (1.96 s / h)^2.
        let needed = samples_needed(&samples, 0.01).expect("enough") as f64;
        assert!((needed - 1.959_964_f64.powi(2) * variance(&samples) / 1e-4).abs() < 4.0, "{needed}");
        assert_eq!(samples_needed(&[2.0, 2.0], 0.1), Some(2));
        assert_eq!([samples_needed(&samples, 0.0), samples_needed(&samples, f64::NAN)], [None, None]);
        assert_eq!([samples_needed(&[1.0], 1.0), samples_needed(&samples, 1e-12)], [None, None]);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![f64::NAN]), None);
    }

    #[test]
    fn quantiles_lie_between_samples() {
        let samples = [1.0, 2.0, 3.0, 10.0];
        assert_eq!([0.0, 0.5, 1.0].map(|q| quantile(&samples, q)), [Some(1.0), Some(2.5), Some(10.0)]);
        assert!((quantile(&samples, 0.95).expect("samples") - 8.95).abs() < 1e-12);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn batches_hide_correlation() {
        let wave: Vec<f64> = (0..1003).map(|i| f64::from(i % 10)).collect();
        let estimate = batch_means(&wave, 10).expect("enough samples");
        assert_eq!((estimate.n, estimate.mean, estimate.ci95), (10, 4.5, Some(0.0)));
        assert_eq!(batch_means(&wave[..3], 10), None);
        assert_eq!(batch_means(&wave, 0), None);
    }

    #[test]
    fn averages_are_over_time() {
        let samples = [(0.5, f64::NAN), (1.0, 2.0), (2.0, 4.0), (4.0, 4.0)];
        assert_eq!(time_average(&samples), Some((3.0 + 8.0) / 3.0));
        assert_eq!(time_average(&samples[3..]), None);
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        // 2000 experiments of five uniform numbers each: 95 % of the intervals should hold the mean 0.5.
        let mut stream = bentpipe_units::RandomStream::new(1, "coverage");
        let covered = (0..2000)
            .filter(|_| {
                let samples: Vec<f64> = (0..5).map(|_| stream.unit()).collect();
                let (low, high) = Estimate::of(&samples).expect("five").interval();
                low <= 0.5 && 0.5 <= high
            })
            .count();
        assert!((0.925..0.965).contains(&(covered as f64 / 2000.0)), "{covered} of 2000");
    }
}
