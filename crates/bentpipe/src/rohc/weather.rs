//! What the way between the ends does: losses, alone or in bursts (a Gilbert channel), and flipped bits.

use bentpipe_units::Stream;

use super::args::WeatherArgs;

/// Loses and damages, the same for the same seed.
#[derive(Debug)]
pub(super) struct Weather {
    stream: Stream,
    /// Probability that a packet is lost after one that was not.
    begin: f64,
    /// Probability that a packet is not lost after one that was.
    end: f64,
    damage: f64,
    is_losing: bool,
}

impl Weather {
    /// As the options say. Feedback has a weather of its own, told by `path`.
    pub(super) fn new(args: &WeatherArgs, path: &str) -> Weather {
        let loss = args.loss / 100.0;
        // Independent losses follow each other in the mean so often.
        let burst = args.burst.unwrap_or(1.0 / (1.0 - loss));
        let end = if loss < 1.0 { 1.0 / burst } else { 0.0 };
        let begin = if loss < 1.0 { (end * loss / (1.0 - loss)).min(1.0) } else { 1.0 };
        let stream = Stream::new(args.seed, path);
        Weather { stream, begin, end, damage: args.damage / 100.0, is_losing: false }
    }

    /// Whether the next packet is lost.
    pub(super) fn loses(&mut self) -> bool {
        let changes = self.stream.chance(if self.is_losing { self.end } else { self.begin });
        self.is_losing ^= changes;
        self.is_losing
    }

    /// Flips a bit among the first `header_len` bytes of the next packet, or leaves it as it is.
    pub(super) fn damages(&mut self, bytes: &mut [u8], header_len: usize) -> bool {
        let bits = header_len.min(bytes.len()) * 8;
        if bits == 0 || !self.stream.chance(self.damage) {
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

    fn weather(loss: f64, burst: Option<f64>, damage: f64) -> Weather {
        Weather::new(&WeatherArgs { loss, burst, damage, seed: 3 }, "test")
    }

    /// Share of packets lost, and mean length of a run of losses.
    fn measured(mut weather: Weather) -> (f64, f64) {
        let (mut lost, mut runs, mut before) = (0.0, 0.0, false);
        for _ in 0..200_000 {
            let loses = weather.loses();
            lost += f64::from(u8::from(loses));
            runs += f64::from(u8::from(loses && !before));
            before = loses;
        }
        (lost / 200_000.0, lost / runs)
    }

    #[test]
    fn losses_have_the_rate_and_length_asked_for() {
        let (share, length) = measured(weather(20.0, None, 0.0));
        assert!((share - 0.2).abs() < 0.01 && (length - 1.25).abs() < 0.02, "{share} {length}");
        let (share, length) = measured(weather(5.0, Some(8.0), 0.0));
        assert!((share - 0.05).abs() < 0.005 && (length - 8.0).abs() < 0.5, "{share} {length}");
    }

    #[test]
    fn nothing_and_everything() {
        assert_eq!(measured(weather(0.0, Some(3.0), 0.0)).0, 0.0);
        assert_eq!(measured(weather(100.0, None, 0.0)).0, 1.0);
    }

    #[test]
    fn damage_flips_one_bit_of_the_header() {
        let mut weather = weather(0.0, None, 100.0);
        for _ in 0..100 {
            let mut bytes = [0; 8];
            assert!(weather.damages(&mut bytes, 3));
            assert_eq!(u64::from_be_bytes(bytes).count_ones(), 1);
            assert_eq!(bytes[3..], [0; 5]);
        }
        assert!(!weather.damages(&mut [], 3));
    }
}
