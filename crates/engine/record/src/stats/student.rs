//! Student's t distribution for whole degrees of freedom, by its finite series. Abramowitz and Stegun,
//! 26.7.3-26.7.4.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Maximum degrees of freedom: quantiles beyond differ by less than 1e-6.
const MANY: u64 = 1_000_000;

/// Degrees of freedom from which quantiles use a series about the normal distribution.
const NEARLY_NORMAL: u64 = 200;

/// Returns the probability that a t-distributed variable is below `t`.
///
/// It has `dof` degrees of freedom.
///
/// # Panics
/// Panics if `dof` is zero.
pub fn student_t_cdf(t: f64, dof: u64) -> f64 {
    assert!(dof > 0, "no degrees of freedom");
    0.5 + central(t.abs(), dof.min(MANY)).copysign(t) / 2.0
}

/// Returns the quantile at probability `p` for `dof` degrees of freedom.
///
/// The error is at most 1e-9 up to 200 degrees of freedom and 1e-5 beyond.
///
/// # Panics
/// Panics if `dof` is zero, or `p` is not between 0 and 1.
pub fn student_t_quantile(p: f64, dof: u64) -> f64 {
    assert!(dof > 0, "no degrees of freedom");
    assert!(p > 0.0 && p < 1.0, "a probability of {p}");
    if p < 0.5 {
        return -student_t_quantile(1.0 - p, dof);
    }
    let below = |t: f64, d: u64| student_t_cdf(t, d) < p;
    if dof <= NEARLY_NORMAL {
        return bisect(|t| below(t, dof));
    }
    // Between 200 degrees of freedom and infinitely many, the quantile is linear in 1/dof to 1e-5.
    let (near, far) = (bisect(|t| below(t, NEARLY_NORMAL)), bisect(|t| below(t, 20_000)));
    let share = (1.0 / dof as f64 - 1.0 / 20_000.0) / (1.0 / NEARLY_NORMAL as f64 - 1.0 / 20_000.0);
    far + (near - far) * share
}

/// Finds the point, from zero on, where `below` changes from true to false.
fn bisect(below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while below(high) && high < 1e12 {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if below(middle) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Returns P(|T| < t), the A(t|nu) of 26.7.3 (odd) and 26.7.4 (even).
fn central(t: f64, dof: u64) -> f64 {
    let theta = (t / (dof as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    if dof == 1 {
        return FRAC_2_PI * theta;
    }
    let odd = dof % 2 == 1;
    let mut term = if odd { cos } else { 1.0 };
    let mut sum = term;
    let mut k = if odd { 3 } else { 2 };
    while k < dof {
        term *= cos * cos * (k - 1) as f64 / k as f64;
        sum += term;
        k += 2;
    }
    let value = if odd { (theta + sin * sum) / FRAC_PI_2 } else { sin * sum };
    value.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_printed_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, and R's qt().
        let table = [
            (0.975, 1, 12.706_204_736),
            (0.975, 2, 4.302_652_730),
            (0.975, 3, 3.182_446_305),
            (0.975, 4, 2.776_445_105),
            (0.975, 9, 2.262_157_163),
            (0.975, 10, 2.228_138_852),
            (0.975, 30, 2.042_272_456),
            (0.975, 100, 1.983_971_519),
            (0.975, 1000, 1.962_339_081),
            (0.95, 5, 2.015_048_373),
            (0.995, 7, 3.499_483_297),
            (0.999, 20, 3.551_808_342),
            (0.975, 10_000_000, 1.959_963_985),
        ];
        for (p, dof, expected) in table {
            let ours = student_t_quantile(p, dof);
            assert!((ours - expected).abs() < 1e-4, "t({p}, {dof}) = {ours}, not {expected}");
            assert_eq!(student_t_quantile(1.0 - p, dof), -student_t_quantile(1.0 - (1.0 - p), dof));
        }
    }

    #[test]
    fn the_quantile_undoes_the_distribution() {
        for dof in 1..40 {
            for p in [0.5, 0.6, 0.9, 0.999] {
                assert!((student_t_cdf(student_t_quantile(p, dof), dof) - p).abs() < 1e-9, "{p} {dof}");
            }
        }
    }
}
