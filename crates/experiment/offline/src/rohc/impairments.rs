//! Impairments of the path: losses, alone or in bursts (a Gilbert channel), and flipped bits.

use std::time::Duration;

use bentpipe_net::channel::GilbertElliott;
use bentpipe_units::RandomStream;

/// Impairments of both directions of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpairmentConfig {
    /// Loss ratio of ROHC packets, 0 to 1.
    pub loss: f64,
    /// Loss ratio of feedback, 0 to 1.
    pub feedback_loss: f64,
    /// Time from a packet to the arrival of its feedback, in capture time.
    pub feedback_delay: Duration,
    /// Mean loss burst in packets, from 1; without it losses are independent.
    pub burst_packets: Option<f64>,
    /// Ratio of ROHC packets with a bit error in their header, 0 to 1.
    pub corruption: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl ImpairmentConfig {
    /// Returns `true` if every packet arrives as it was sent.
    pub fn is_ideal(&self) -> bool {
        self.loss == 0.0 && self.corruption == 0.0
    }
}

/// Losses and bit errors, the same for the same seed.
#[derive(Debug)]
pub(crate) struct Impairments {
    stream: RandomStream,
    losses: GilbertElliott,
    corruption: f64,
}

impl Impairments {
    /// Creates the impairments of ROHC packets.
    pub(crate) fn forward(config: &ImpairmentConfig) -> Impairments {
        Impairments::new(config, config.loss, "forward")
    }

    /// Creates the impairments of feedback.
    pub(crate) fn feedback(config: &ImpairmentConfig) -> Impairments {
        Impairments::new(config, config.feedback_loss, "feedback")
    }

    /// Creates the impairments of a direction, whose random numbers are its own.
    fn new(config: &ImpairmentConfig, loss: f64, direction: &str) -> Impairments {
        // Mean burst of independent losses.
        let burst = config.burst_packets.unwrap_or(1.0 / (1.0 - loss));
        let end = if loss < 1.0 { 1.0 / burst } else { 0.0 };
        let begin = if loss < 1.0 { (end * loss / (1.0 - loss)).min(1.0) } else { 1.0 };
        let losses = GilbertElliott::new([begin, end], [0.0, 1.0]).expect("probabilities from 0 to 1");
        let stream = RandomStream::new(config.seed, direction);
        Impairments { stream, losses, corruption: config.corruption }
    }

    /// Returns `true` if the next packet is lost.
    pub(crate) fn loses(&mut self) -> bool {
        self.losses.loses(&mut self.stream)
    }

    /// Returns `true` if it flipped a bit of the header, with the configured probability.
    pub(crate) fn corrupts(&mut self, bytes: &mut [u8], header_len: usize) -> bool {
        let bits = header_len.min(bytes.len()) * 8;
        if bits == 0 || !self.stream.chance(self.corruption) {
            return false;
        }
        let bit = ((self.stream.unit() * bits as f64) as usize).min(bits - 1);
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(loss: f64, burst_packets: Option<f64>, corruption: f64) -> ImpairmentConfig {
        let (feedback_loss, feedback_delay) = (loss, Duration::ZERO);
        ImpairmentConfig { loss, feedback_loss, feedback_delay, burst_packets, corruption, seed: 3 }
    }

    fn impairments(loss: f64, burst_packets: Option<f64>, corruption: f64) -> Impairments {
        Impairments::new(&config(loss, burst_packets, corruption), loss, "test")
    }

    /// Measures the loss ratio and the mean loss burst.
    fn measured(mut impairments: Impairments) -> (f64, f64) {
        let (mut lost, mut bursts, mut before) = (0.0, 0.0, false);
        for _ in 0..200_000 {
            let loses = impairments.loses();
            lost += f64::from(u8::from(loses));
            bursts += f64::from(u8::from(loses && !before));
            before = loses;
        }
        (lost / 200_000.0, lost / bursts)
    }

    #[test]
    fn losses_have_the_rate_and_length_asked_for() {
        let (ratio, length) = measured(impairments(0.2, None, 0.0));
        assert!((ratio - 0.2).abs() < 0.01 && (length - 1.25).abs() < 0.02, "{ratio} {length}");
        let (ratio, length) = measured(impairments(0.05, Some(8.0), 0.0));
        assert!((ratio - 0.05).abs() < 0.005 && (length - 8.0).abs() < 0.5, "{ratio} {length}");
    }

    #[test]
    fn nothing_and_everything() {
        assert_eq!(measured(impairments(0.0, Some(3.0), 0.0)).0, 0.0);
        assert_eq!(measured(impairments(1.0, None, 0.0)).0, 1.0);
    }

    #[test]
    fn corruption_flips_one_bit_of_the_header() {
        let mut impairments = impairments(0.0, None, 1.0);
        for _ in 0..100 {
            let mut bytes = [0; 8];
            assert!(impairments.corrupts(&mut bytes, 3));
            assert_eq!(u64::from_be_bytes(bytes).count_ones(), 1);
            assert_eq!(bytes[3..], [0; 5]);
        }
        assert!(!impairments.corrupts(&mut [], 3));
    }
}
