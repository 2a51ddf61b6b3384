//! Random streams, one per element, independent of each other and of how many there are.

use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Random stream, the same for the same seed and path on every machine.
///
/// The path is the element's place in the scenario ("link/uplink/channel"), so adding an element does not disturb the
/// others' streams. The generator is PCG64 (MCG, XSL-RR).
#[derive(Clone, Debug)]
pub struct RandomStream(Pcg64Mcg);

impl RandomStream {
    /// Returns the stream of `path` in a run with `seed`.
    pub fn new(seed: u64, path: &str) -> RandomStream {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&mix(seed ^ fnv1a(path)).to_le_bytes());
        bytes[8..].copy_from_slice(&mix(seed.rotate_left(32) ^ fnv1a(path).wrapping_mul(3)).to_le_bytes());
        RandomStream(Pcg64Mcg::from_seed(bytes))
    }

    /// Returns a uniform number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Returns `true` with probability `p`; draws nothing when the answer is certain.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.unit() < p)
    }

    /// Returns an exponentially distributed number with the given mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Returns two independent normal numbers with mean 0 and variance 1. Box and Muller 1958.
    pub fn normal_pair(&mut self) -> (f64, f64) {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        let (sin, cos) = libm::sincos(std::f64::consts::TAU * self.unit());
        (radius * cos, radius * sin)
    }

    /// Returns the number of failures before the first success of independent trials (geometric). `p` is the
    /// success probability; `u64::MAX` when it is zero.
    pub fn failures_before_success(&mut self, p: f64) -> u64 {
        if p <= 0.0 {
            return u64::MAX;
        }
        if p >= 1.0 {
            return 0;
        }
        (libm::log(1.0 - self.unit()) / libm::log1p(-p)) as u64
    }
}

impl RngCore for RandomStream {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    fn fill_bytes(&mut self, dst: &mut [u8]) {
        self.0.fill_bytes(dst);
    }
}

/// Returns the FNV-1a hash, 64 bit: names to numbers, the same everywhere.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Applies SplitMix64's finaliser, which spreads similar seeds over the whole range.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
