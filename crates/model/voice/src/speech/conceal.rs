//! Concealment of lost packets by repetition of the pitch period, as in G.711's appendix I.
//!
//! *Models*: the last pitch period of what was played is repeated, the last two after 10 ms and the last three after 20 ms.
//! Cross-fades join the repetitions, and the repetition to the packet that ends the loss. From 10 ms on the level falls by
//! 20 % per 10 ms, so that after 60 ms there is silence.
//! *Does not model*: the delay of 3.75 ms by which appendix I joins the start of a loss; here the repetition continues at the
//! last sample played.
//!
//! *References*: ITU-T G.711, appendix I (1999).

use bentpipe_units::Span;

/// Shortest and longest pitch period.
const SHORTEST: Span = Span::from_millis(5);
const LONGEST: Span = Span::from_millis(15);
/// Stretch that is compared with earlier ones.
const COMPARED: Span = Span::from_millis(20);
/// Samples kept: four of the longest periods, or the stretch and the longest period.
const KEPT: Span = Span::from_millis(65);
/// Time of full level, and of each step after it.
const STEP: Span = Span::from_millis(10);
/// Fall of the level in a step.
const FALL: f64 = 0.2;
/// Shortest cross-fade at the end of a loss, and its growth with each step.
const FADE: Span = Span::from_millis(4);

/// Player that conceals losses.
#[derive(Clone, Debug)]
pub struct Player {
    rate_hz: u32,
    /// The last samples played, oldest first.
    history: Vec<f64>,
    loss: Option<Loss>,
}

/// Loss in progress.
#[derive(Clone, Debug)]
struct Loss {
    /// Samples before the loss, oldest first.
    before: Vec<f64>,
    period: usize,
    /// Samples concealed.
    position: usize,
    /// Period or periods that are repeated, and the place in them.
    cycle: Vec<f64>,
    at: usize,
}

impl Player {
    /// Creates a player of samples at a rate.
    pub fn new(rate_hz: u32) -> Player {
        Player { rate_hz, history: Vec::new(), loss: None }
    }

    /// Returns the samples to play for a packet that was received.
    pub fn play(&mut self, samples: &[i16]) -> Vec<i16> {
        let mut played: Vec<f64> = samples.iter().map(|sample| f64::from(*sample)).collect();
        if let Some(mut loss) = self.loss.take() {
            let steps = loss.position / self.samples(STEP).max(1);
            let fade = self.samples(FADE) * (1 + steps.min(2)) + loss.period / 4;
            let fade = fade.min(played.len());
            for (n, sample) in played.iter_mut().take(fade).enumerate() {
                let weight = (n as f64 + 0.5) / fade as f64;
                *sample = *sample * weight + self.next(&mut loss) * (1.0 - weight);
            }
        }
        self.remember(&played);
        rounded(&played)
    }

    /// Returns the samples to play for `count` samples that were lost.
    pub fn conceal(&mut self, count: usize) -> Vec<i16> {
        let mut loss = match self.loss.take() {
            Some(loss) => loss,
            None => self.begin(),
        };
        let played: Vec<f64> = (0..count).map(|_| self.next(&mut loss)).collect();
        self.remember(&played);
        self.loss = Some(loss);
        rounded(&played)
    }

    fn samples(&self, span: Span) -> usize {
        (u128::from(span.as_nanos()) * u128::from(self.rate_hz) / 1_000_000_000) as usize
    }

    fn remember(&mut self, played: &[f64]) {
        self.history.extend_from_slice(played);
        let excess = self.history.len().saturating_sub(self.samples(KEPT));
        self.history.drain(..excess);
    }

    fn begin(&self) -> Loss {
        let period = self.period();
        let before = self.history.clone();
        let cycle = cycle(&before, period, 1);
        Loss { before, period, position: 0, cycle, at: 0 }
    }

    /// Returns the lag at which the last samples resemble earlier ones most.
    fn period(&self) -> usize {
        let (shortest, longest) = (self.samples(SHORTEST).max(1), self.samples(LONGEST));
        let compared = self.samples(COMPARED);
        let len = self.history.len();
        if len < compared + longest {
            return longest.min(len);
        }
        let recent = &self.history[len - compared..];
        let likeness = |lag: usize| {
            let earlier = &self.history[len - compared - lag..len - lag];
            let product: f64 = recent.iter().zip(earlier).map(|(a, b)| a * b).sum();
            let energy: f64 = earlier.iter().map(|b| b * b).sum();
            product / energy.max(1.0).sqrt()
        };
        (shortest..=longest).max_by(|a, b| likeness(*a).total_cmp(&likeness(*b))).unwrap_or(longest)
    }

    /// Returns the next sample of a loss.
    fn next(&self, loss: &mut Loss) -> f64 {
        let step = self.samples(STEP).max(1);
        if loss.cycle.is_empty() {
            loss.position += 1;
            return 0.0;
        }
        if loss.position > 0 && loss.position.is_multiple_of(step) && loss.position / step <= 2 {
            // The phase in the period stays.
            let cycle = cycle(&loss.before, loss.period, loss.position / step + 1);
            (loss.at, loss.cycle) = (loss.at % loss.period % cycle.len(), cycle);
        }
        let sample = loss.cycle[loss.at];
        loss.at = (loss.at + 1) % loss.cycle.len();
        let over = loss.position.saturating_sub(step) as f64 / step as f64;
        loss.position += 1;
        sample * (1.0 - FALL * over).max(0.0)
    }
}

/// Returns the last periods of what was played. Their end fades into what came before their start.
fn cycle(before: &[f64], period: usize, periods: usize) -> Vec<f64> {
    let len = (period * periods).min(before.len());
    let start = before.len() - len;
    let mut cycle = before[start..].to_vec();
    let fade = (period / 4).min(start);
    for n in 0..fade {
        let weight = (n as f64 + 0.5) / fade as f64;
        let at = len - fade + n;
        cycle[at] = cycle[at] * (1.0 - weight) + before[start - fade + n] * weight;
    }
    cycle
}

fn rounded(samples: &[f64]) -> Vec<i16> {
    samples.iter().map(|sample| sample.round().clamp(-32_768.0, 32_767.0) as i16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 8000;

    /// A tone with two harmonics, whose period is `period` samples.
    fn tone(period: f64, from: usize, count: usize) -> Vec<i16> {
        let turn = std::f64::consts::TAU / period;
        let at = |n: usize| (turn * n as f64).sin() + 0.5 * (2.0 * turn * n as f64 + 1.0).sin();
        (from..from + count).map(|n| (6000.0 * at(n)) as i16).collect()
    }

    fn power(samples: &[i16]) -> f64 {
        samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / samples.len() as f64
    }

    /// Signal-to-noise ratio in decibels.
    fn snr(wanted: &[i16], got: &[i16]) -> f64 {
        let error: Vec<i16> = wanted.iter().zip(got).map(|(a, b)| a.saturating_sub(*b)).collect();
        10.0 * (power(wanted) / power(&error).max(1e-9)).log10()
    }

    #[test]
    fn received_packets_are_played_as_they_are() {
        let mut player = Player::new(RATE);
        for n in 0..10 {
            let packet = tone(67.0, 160 * n, 160);
            assert_eq!(player.play(&packet), packet);
        }
    }

    #[test]
    fn a_periodic_signal_goes_on_and_joins_again() {
        for period in [45.0, 67.0, 80.0, 110.0] {
            let mut player = Player::new(RATE);
            (0..10).for_each(|n| drop(player.play(&tone(period, 160 * n, 160))));
            let concealed = player.conceal(80);
            let lost = tone(period, 1600, 80);
            assert!(snr(&lost, &concealed) > 15.0, "{period}: {} dB", snr(&lost, &concealed));
            player.conceal(80);
            let next = tone(period, 1760, 160);
            let joined = player.play(&next);
            assert_eq!(joined[150..], next[150..], "the cross-fade has an end");
            assert!(snr(&next, &joined) > 10.0, "{period}: {} dB at the join", snr(&next, &joined));
        }
    }

    #[test]
    fn a_long_loss_fades_to_silence() {
        let mut player = Player::new(RATE);
        (0..10).for_each(|n| drop(player.play(&tone(67.0, 160 * n, 160))));
        let powers: Vec<f64> = (0..8).map(|_| power(&player.conceal(80))).collect();
        assert!(powers[0] > 0.8 * power(&tone(67.0, 0, 1600)), "full level first: {powers:?}");
        assert!(powers[1..].windows(2).all(|two| two[0] >= two[1]), "{powers:?}");
        assert_eq!((powers[6], powers[7]), (0.0, 0.0));
    }

    #[test]
    fn losses_at_the_start_are_silence() {
        let mut player = Player::new(16_000);
        assert_eq!(player.conceal(320), vec![0; 320]);
        let packet = tone(100.0, 0, 320);
        let played = player.play(&packet);
        assert_eq!(played[200..], packet[200..]);
        assert_eq!(player.conceal(10).len(), 10, "less than a period is known");
    }
}
