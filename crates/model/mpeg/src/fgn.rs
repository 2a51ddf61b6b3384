//! Fractional Gaussian noise: stationary, normal, with the autocovariance of an ideal long-range dependent series.

use std::f64::consts::{PI, TAU};

use bentpipe_units::RandomStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fft::{Complex, Fft};

/// Synthesis of fractional Gaussian noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Synthesis {
    /// Exact: circulant embedding of the covariance (Davies and Harte 1987).
    #[default]
    DaviesHarte,
    /// Paxson's approximation of the spectrum (LBL-36750, 1995), which the study of ATM Forum 97-0177 used. The mean of
    /// a path is exactly zero, where that of the noise itself varies.
    Paxson,
}

/// Generator of paths of fractional Gaussian noise of mean 0 and variance 1.
///
/// A path is the Fourier transform of independent complex normal numbers, the k-th with standard deviation
/// a_k. That is Davies and Harte's method, the a_k from the covariance, on twice the length of a path. It is
/// Paxson's too, the a_k from the power spectrum: the square root of an exponential number, turned by a
/// uniform angle, is complex normal. He makes the spectrum symmetric for one real path; without that the real
/// and the imaginary parts are two independent ones.
#[derive(Clone, Debug)]
pub struct Fgn {
    amplitudes: Vec<f64>,
    fft: Fft,
    len: usize,
}

impl Fgn {
    /// The longest path.
    pub const MAX_LEN: usize = 1 << 20;

    /// Paths of `len` values with Hurst parameter `hurst`. `len` is raised to a power of two, from 4 to
    /// [`Fgn::MAX_LEN`].
    ///
    /// # Panics
    /// If `hurst` is not above 0 and below 1.
    pub fn new(synthesis: Synthesis, hurst: f64, len: usize) -> Fgn {
        assert!(hurst > 0.0 && hurst < 1.0, "a Hurst parameter between 0 and 1");
        let len = len.clamp(4, Fgn::MAX_LEN).next_power_of_two();
        match synthesis {
            Synthesis::DaviesHarte => {
                let fft = Fft::new(2 * len);
                Fgn { amplitudes: davies_harte(hurst, len, &fft), fft, len }
            }
            Synthesis::Paxson => Fgn { amplitudes: paxson(hurst, len), fft: Fft::new(len), len },
        }
    }

    /// Returns the number of values of a path.
    pub fn path_len(&self) -> usize {
        self.len
    }

    /// Returns two independent paths.
    pub fn paths(&self, stream: &mut RandomStream) -> [Vec<f64>; 2] {
        let draw = |amplitude: &f64| {
            let (re, im) = stream.normal_pair();
            Complex { re: amplitude * re, im: amplitude * im }
        };
        let mut x: Vec<Complex> = self.amplitudes.iter().map(draw).collect();
        self.fft.forward(&mut x);
        x.truncate(self.len);
        [x.iter().map(|x| x.re).collect(), x.iter().map(|x| x.im).collect()]
    }
}

/// Returns the autocovariance at `lag` for variance 1.
fn covariance(hurst: f64, lag: usize) -> f64 {
    let power = |lag: f64| libm::pow(lag, 2.0 * hurst);
    let lag = lag as f64;
    (power(lag + 1.0) - 2.0 * power(lag) + power((lag - 1.0).abs())) / 2.0
}

/// Returns the amplitudes of Davies and Harte's method.
///
/// They are the square roots of the eigenvalues, over 2n, of the circulant matrix of size 2n that embeds the
/// covariance matrix. These are not negative for fractional Gaussian noise (Craigmile 2003), except by
/// rounding.
fn davies_harte(hurst: f64, n: usize, fft: &Fft) -> Vec<f64> {
    let row = (0..2 * n).map(|k| Complex { re: covariance(hurst, k.min(2 * n - k)), im: 0.0 });
    let mut eigenvalues: Vec<Complex> = row.collect();
    fft.forward(&mut eigenvalues);
    eigenvalues.iter().map(|value| libm::sqrt(value.re.max(0.0) / (2 * n) as f64)).collect()
}

/// Returns the square roots of the power spectrum at 2 pi k/n, for variance 1. The one at frequency zero is
/// 0.
fn paxson(hurst: f64, n: usize) -> Vec<f64> {
    let at = |k: usize| if k == 0 { 0.0 } else { spectrum(hurst, TAU * k.min(n - k) as f64 / n as f64) };
    let spectrum: Vec<f64> = (0..n).map(at).collect();
    let variance: f64 = spectrum.iter().sum();
    spectrum.iter().map(|power| libm::sqrt(power / variance)).collect()
}

/// Returns the power spectrum at `lambda`, in (0, pi], up to a factor.
///
/// The infinite sum is Paxson's approximation (LBL-36750, section 3: B3 with its correction).
fn spectrum(hurst: f64, lambda: f64) -> f64 {
    let terms =
        |k: f64, exponent: f64| libm::pow(TAU * k + lambda, exponent) + libm::pow(TAU * k - lambda, exponent);
    let near = -2.0 * hurst - 1.0;
    let far = -2.0 * hurst;
    let head: f64 = [1.0, 2.0, 3.0].map(|k| terms(k, near)).iter().sum();
    let tail = (terms(3.0, far) + terms(4.0, far)) / (8.0 * PI * hurst);
    let correction = libm::exp2(-7.65 * hurst - 7.4);
    let sum = (1.0002 - 0.000_134 * lambda) * (head + tail - correction);
    (1.0 - libm::cos(lambda)) * (libm::pow(lambda, near) + sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the covariance that amplitudes give: the inverse transform of their squares.
    fn made(fgn: &Fgn, lag: usize) -> f64 {
        let n = fgn.amplitudes.len() as f64;
        let term = |(k, a): (usize, &f64)| a * a * (TAU * (k * lag) as f64 / n).cos();
        fgn.amplitudes.iter().enumerate().map(term).sum()
    }

    #[test]
    fn davies_and_harte_is_exact() {
        for hurst in [0.2, 0.5, 0.8, 0.95] {
            let fgn = Fgn::new(Synthesis::DaviesHarte, hurst, 256);
            for lag in [0, 1, 2, 17, 255] {
                let error = made(&fgn, lag) - covariance(hurst, lag);
                assert!(error.abs() < 1e-12, "H {hurst}, lag {lag}: {error}");
            }
        }
        assert!((covariance(0.8, 1) - (2_f64.powf(0.6) - 1.0)).abs() < 1e-15);
    }

    #[test]
    fn paxson_is_close_but_for_the_mean_of_a_path() {
        for hurst in [0.5, 0.7, 0.8, 0.9] {
            let fgn = Fgn::new(Synthesis::Paxson, hurst, 4096);
            assert!((made(&fgn, 0) - 1.0).abs() < 1e-12);
            // Differences between values hide variations slower than a path, which this method omits.
            let ours = |lag| 1.0 - made(&fgn, lag);
            let exact = |lag| 1.0 - covariance(hurst, lag);
            for lag in [2, 3, 5, 20] {
                let error = ours(lag) / ours(1) / (exact(lag) / exact(1)) - 1.0;
                assert!(error.abs() < 2e-3, "H {hurst}, lag {lag}: {error}");
            }
        }
    }

    #[test]
    fn paxson_corrects_his_sum() {
        // The infinite sum, to a million terms and an integral for the rest.
        for (hurst, lambda) in [(0.5, 0.1), (0.8, 1.0), (0.8, 3.0), (0.9, PI)] {
            let d = -2.0 * hurst - 1.0;
            let direct: f64 = (1..1_000_000)
                .map(|j| (TAU * j as f64 + lambda).powf(d) + (TAU * j as f64 - lambda).powf(d))
                .sum();
            let exact = (1.0 - lambda.cos()) * (lambda.powf(d) + direct);
            assert!((spectrum(hurst, lambda) / exact - 1.0).abs() < 3e-4, "H {hurst}, lambda {lambda}");
        }
    }

    #[test]
    fn a_path_of_paxson_has_no_mean_and_both_paths_differ() {
        let mut stream = RandomStream::new(1, "fgn");
        let [a, b] = Fgn::new(Synthesis::Paxson, 0.8, 1000).paths(&mut stream);
        assert_eq!((a.len(), b.len()), (1024, 1024));
        assert!(a.iter().sum::<f64>().abs() < 1e-9 && b.iter().sum::<f64>().abs() < 1e-9);
        let correlation: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum::<f64>() / 1024.0;
        assert!(correlation.abs() < 0.3, "{correlation}");
    }
}
