//! Directed links between devices: bit error ratios, and audibility.

use bentpipe_units::RandomStream;

use super::phy::bit_error_ratio;
use super::{Radio, phy};

/// Margin in dB below the sensitivity down to which a frame is sensed and collides.
const AUDIBLE: f64 = 3.0;
/// Bit error ratio of devices that do not sense each other.
const SILENT: f32 = 1.0;

/// Links between all pairs of devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    devices: usize,
    /// Bit error ratios by sender, then receiver.
    errors: Vec<f32>,
}

impl Links {
    /// Creates the links of devices that all receive each other without bit errors.
    pub fn complete(devices: usize) -> Links {
        let mut links = Links::none(devices);
        for (from, to) in (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to))) {
            links.set(from, to, 0.0);
        }
        links
    }

    /// Creates devices without links.
    pub fn none(devices: usize) -> Links {
        Links { devices, errors: vec![SILENT; devices * devices] }
    }

    /// Creates the links of devices by their positions in metres.
    ///
    /// Path loss is log-distance with log-normal shadowing.
    pub fn between(places: &[[f64; 2]], radio: &Radio, stream: &mut RandomStream) -> Links {
        let mut links = Links::none(places.len());
        let noise = radio.sensitivity - 10.0 * libm::log10(snr_at_sensitivity());
        for from in 0..places.len() {
            for to in 0..from {
                let [x, y] = [0, 1].map(|axis| places[from][axis] - places[to][axis]);
                let distance = libm::hypot(x, y).max(1.0);
                let mut loss = radio.reference_loss + 10.0 * radio.exponent * libm::log10(distance);
                if radio.shadowing > 0.0 {
                    loss += radio.shadowing * stream.normal_pair().0;
                }
                let received = radio.power - loss;
                if received >= radio.sensitivity - AUDIBLE {
                    let errors = bit_error_ratio(libm::pow(10.0, (received - noise) / 10.0));
                    links.set(from, to, errors);
                    links.set(to, from, errors);
                }
            }
        }
        links
    }

    /// Sets the bit error ratio of a link. A ratio of 0.5 leaves carrier sense and collisions alone.
    pub fn set(&mut self, from: usize, to: usize, errors: f64) {
        if from != to {
            self.errors[from * self.devices + to] = errors.min(0.5) as f32;
        }
    }

    /// Returns the number of devices.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Returns `true` if a device senses another's transmissions.
    #[inline]
    pub fn is_audible(&self, from: usize, to: usize) -> bool {
        self.errors[from * self.devices + to] < SILENT
    }

    /// Returns the probability that a MAC frame passes a link without bit errors.
    pub fn success(&self, from: usize, to: usize, frame: usize) -> f64 {
        let errors = f64::from(self.errors[from * self.devices + to]);
        match errors {
            0.0 => 1.0,
            errors if errors >= 0.5 => 0.0,
            errors => libm::exp(8.0 * (frame + phy::HEADER_LEN) as f64 * libm::log1p(-errors)),
        }
    }
}

/// Returns the ratio of signal to noise at the sensitivity.
fn snr_at_sensitivity() -> f64 {
    const BITS: f64 = 160.0;
    let loss = |snr: f64| 1.0 - libm::exp(BITS * libm::log1p(-bit_error_ratio(snr)));
    let (mut low, mut high) = (0.1, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if loss(middle) > 0.01 { low = middle } else { high = middle }
    }
    high
}
