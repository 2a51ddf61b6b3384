//! Discrete Fourier transform of 2^m complex numbers.
//!
//! Written for repeatability: a result may depend on scenario and seed only, but libraries take their sines
//! from the platform and their order of additions from the processor.

use std::f64::consts::TAU;
use std::ops::{Add, Mul, Sub};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Complex;
    fn sub(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, other: Complex) -> Complex {
        Complex { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// The roots of unity that transforms of one length use.
#[derive(Clone, Debug)]
pub(super) struct Fft {
    roots: Vec<Complex>,
    len: usize,
}

impl Fft {
    /// Creates a transform of `len` numbers, a power of two from 2 up.
    pub(super) fn new(len: usize) -> Fft {
        debug_assert!(len.is_power_of_two() && len >= 2);
        let root = |k: usize| {
            let (sin, cos) = libm::sincos(-TAU * k as f64 / len as f64);
            Complex { re: cos, im: sin }
        };
        Fft { roots: (0..len / 2).map(root).collect(), len }
    }

    /// Replaces x by X, X_j = sum over k of x_k e^(-2 pi i jk/len).
    pub(super) fn forward(&self, x: &mut [Complex]) {
        debug_assert_eq!(x.len(), self.len);
        reorder(x);
        let mut half = 1;
        while half < self.len {
            let stride = self.len / 2 / half;
            for block in x.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                let roots = self.roots.iter().step_by(stride);
                for ((a, b), root) in low.iter_mut().zip(high).zip(roots) {
                    let turned = *b * *root;
                    (*a, *b) = (*a + turned, *a - turned);
                }
            }
            half *= 2;
        }
    }
}

/// Reorders the numbers by the bit-reversed index.
fn reorder(x: &mut [Complex]) {
    let shift = usize::BITS - x.len().trailing_zeros();
    for i in 0..x.len() {
        let j = i.reverse_bits() >> shift;
        if i < j {
            x.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_it_stands_for() {
        for len in [2, 4, 64] {
            let x: Vec<Complex> =
                (0..len).map(|k| Complex { re: (k * k % 7) as f64, im: (k * 5 % 11) as f64 - 3.0 }).collect();
            let mut fast = x.clone();
            Fft::new(len).forward(&mut fast);
            for (j, value) in fast.iter().enumerate() {
                let term = |(k, x): (usize, &Complex)| {
                    let (sin, cos) = (-TAU * (j * k) as f64 / len as f64).sin_cos();
                    *x * Complex { re: cos, im: sin }
                };
                let slow = x.iter().enumerate().map(term).fold(Complex::default(), Complex::add);
                let wrong = *value - slow;
                assert!(wrong.re.abs() < 1e-9 && wrong.im.abs() < 1e-9, "{len} {j}: {value:?}, not {slow:?}");
            }
        }
    }
}
