//! Intervals over runs, on the scale on which a quantity scatters evenly.
//!
//! Student's t belongs to values without bounds. A share is first put on the arcsine scale, a count with zeros on that of its square
//! root, and any other positive value on the logarithmic one (G. W. Snedecor, W. G. Cochran, *Statistical Methods*, chapter 15). So no
//! interval has an end that the quantity cannot have.

use bentpipe_record::stats::{mean, student_t_quantile, variance};

/// Least and greatest value.
pub type Interval = (f64, f64);

/// Scale on which runs scatter evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// Arcsine of the root of the share of the greatest value.
    Share(f64),
    /// Logarithm.
    Logarithm,
    /// Square root.
    Root,
    /// The values themselves.
    Plain,
}

impl Scale {
    /// Returns the scale of samples, of which `most` is the greatest possible value.
    fn of(samples: &[f64], most: Option<f64>) -> Scale {
        let all = |holds: fn(f64) -> bool| samples.iter().all(|sample| holds(*sample));
        match most {
            Some(most) => Scale::Share(most),
            None if all(|sample| sample > 0.0) => Scale::Logarithm,
            None if all(|sample| sample >= 0.0) => Scale::Root,
            None => Scale::Plain,
        }
    }

    fn on(self, value: f64) -> f64 {
        match self {
            Scale::Share(most) => (value / most).clamp(0.0, 1.0).sqrt().asin(),
            Scale::Logarithm => value.ln(),
            Scale::Root => value.sqrt(),
            Scale::Plain => value,
        }
    }

    fn back(self, place: f64) -> f64 {
        match self {
            Scale::Share(most) => most * place.clamp(0.0, std::f64::consts::FRAC_PI_2).sin().powi(2),
            Scale::Logarithm => place.exp(),
            Scale::Root => place.max(0.0).powi(2),
            Scale::Plain => place,
        }
    }
}

/// Returns the 95 % prediction interval of one further run.
///
/// `None` unless there are several different samples.
pub(crate) fn of_next(samples: &[f64], most: Option<f64>) -> Option<Interval> {
    around_mean(samples, Scale::of(samples, most), |n| (1.0 + 1.0 / n).sqrt())
}

/// Returns the 95 % confidence interval of the mean of samples up to `most`.
///
/// `None` unless there are several different samples.
pub(crate) fn of_mean(samples: &[f64], most: f64) -> Option<Interval> {
    around_mean(samples, Scale::Share(most), |n| (1.0 / n).sqrt())
}

/// Returns the interval on both sides of the mean by Student's t.
///
/// Its unit is `share(n)` standard deviations, for `n` samples.
fn around_mean(samples: &[f64], scale: Scale, share: impl Fn(f64) -> f64) -> Option<Interval> {
    let numbers = samples.iter().filter(|sample| !sample.is_nan());
    let places: Vec<f64> = numbers.map(|sample| scale.on(*sample)).collect();
    let deviation = variance(&places).sqrt();
    if places.len() < 2 || deviation <= 0.0 || !deviation.is_finite() {
        return None;
    }
    let n = places.len();
    let half = student_t_quantile(0.975, n as u64 - 1) * deviation * share(n as f64);
    let middle = mean(&places)?;
    Some((scale.back(middle - half), scale.back(middle + half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logarithms of 8 to 12 have the mean 2.2924 and s = 0.1602: 2.2924 +- 2.776 * 0.1602 * sqrt(1.2).
    #[test]
    fn a_further_run_is_predicted_on_the_scale_of_the_quantity() {
        let (low, high) = of_next(&[8.0, 9.0, 10.0, 11.0, 12.0], None).expect("a spread");
        assert!((low - 6.08).abs() < 0.01 && (high - 16.11).abs() < 0.02, "{low} {high}");
        let (low, high) = of_next(&[0.0, 1.0, 4.0], None).expect("a spread");
        assert!(low == 0.0 && high > 20.0, "{low} {high}");
        let (low, high) = of_next(&[-1.0, 0.0, 1.0], None).expect("a spread");
        assert!((low + high).abs() < 1e-9 && high > 4.9, "{low} {high}");
    }

    /// No interval of a fairness passes 1, also where samples are at it.
    #[test]
    fn intervals_of_bounded_quantities_stay_within_their_bounds() {
        for samples in [[0.99, 1.0, 0.998, 0.9], [1.0, 1.0, 1.0, 0.7], [0.0, 0.1, 0.0, 0.02]] {
            for (low, high) in
                [of_next(&samples, Some(1.0)), of_mean(&samples, 1.0)].map(|it| it.expect("several"))
            {
                assert!((0.0..=1.0).contains(&low) && low < high && high <= 1.0, "{samples:?}: {low} {high}");
            }
        }
        let percent = of_mean(&[99.0, 99.8, 100.0], 100.0).expect("several");
        assert!(percent.0 > 95.0 && percent.1 <= 100.0, "{percent:?}");
    }

    #[test]
    fn equal_samples_have_no_spread() {
        assert_eq!(of_next(&[2.0, 2.0], None), None);
        assert_eq!(of_next(&[2.0], None), None);
        assert_eq!(of_mean(&[], 1.0), None);
    }
}
