//! Making a trace in the place of measured ones.

use bentpipe_units::RandomStream;

use super::jitter::normal;
use super::{SyntheticTrace, Trace};

/// Points of the integral over the normal distribution, which reaches six deviations to either side.
const POINTS: usize = 600;

impl SyntheticTrace {
    /// Returns the trace. It depends on the configuration alone: it is the same in every run.
    pub fn trace(&self) -> Option<Trace> {
        let frames = self.frames.min(super::MAX_FRAMES);
        let mut stream = RandomStream::new(self.seed, "stand-in");
        let mean_db = self.mean_db();
        let mut left = 0_u64;
        let mut loss = 0.0;
        let mut until_lost = 0_u64;
        Trace::from_losses((0..frames).map(|_| {
            if left == 0 {
                left = self.hold_frames(&mut stream);
                loss = frame_loss(mean_db + self.deviation_db * normal(&mut stream));
                until_lost = stream.failures_before_success(loss);
            }
            left -= 1;
            let is_lost = until_lost == 0;
            until_lost = if is_lost { stream.failures_before_success(loss) } else { until_lost - 1 };
            is_lost
        }))
    }

    /// Returns a Pareto-distributed number of frames, rounded up. P(L > x) = (x / least)^-shape, of mean
    /// `hold` before rounding.
    fn hold_frames(&self, stream: &mut RandomStream) -> u64 {
        let least = self.hold * (self.shape - 1.0) / self.shape;
        (least * libm::pow(1.0 - stream.unit(), -1.0 / self.shape)).ceil().max(1.0) as u64
    }

    /// Returns the mean quality in dB at which `loss` of all frames are lost.
    ///
    /// It is the root of a loss ratio that falls with the quality.
    pub fn mean_db(&self) -> f64 {
        let (mut low, mut high) = (-60.0, 60.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.mean_of(middle, frame_loss) > self.loss { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    }

    /// Returns the mean of `value` over qualities around `mean_db`.
    fn mean_of(&self, mean_db: f64, value: impl Fn(f64) -> f64) -> f64 {
        let at = |n: usize| (n as f64 + 0.5) / POINTS as f64 * 12.0 - 6.0;
        let weight = |z: f64| libm::exp(-z * z / 2.0);
        let sum = |f: &dyn Fn(f64) -> f64| (0..POINTS).map(|n| weight(at(n)) * f(at(n))).sum::<f64>();
        sum(&|z| value(mean_db + self.deviation_db * z)) / sum(&|_| 1.0)
    }

    /// Returns the residual loss ratio of a link layer with up to `attempts` transmissions. Each transmission
    /// takes the next frame of a long trace, and the quality holds meanwhile.
    pub fn residual(&self, attempts: i32) -> f64 {
        let mean_db = self.mean_db();
        let lost = |loss: f64| libm::pow(loss, f64::from(attempts));
        // Packets done with for each frame: the better the quality, the more.
        let packets = |loss: f64| (1.0 - loss) / (1.0 - lost(loss));
        let all = self.mean_of(mean_db, |quality| packets(frame_loss(quality)));
        self.mean_of(mean_db, |q| packets(frame_loss(q)) * lost(frame_loss(q))) / all
    }
}

/// Returns the loss ratio at a quality in dB.
fn frame_loss(quality_db: f64) -> f64 {
    1.0 / (1.0 + libm::exp(quality_db))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mean length of runs of `kind`.
    fn mean_run(trace: &Trace, kind: bool) -> f64 {
        let fates: Vec<bool> = trace.iter().collect();
        let runs = fates.chunk_by(|a, b| a == b).filter(|run| run[0] == kind);
        let (count, frames) = runs.fold((0.0, 0.0), |(n, sum), run| (n + 1.0, sum + run.len() as f64));
        frames / count
    }

    #[test]
    fn it_has_its_rate_and_longer_runs_than_independent_losses() {
        for loss in [0.02, 0.1, 0.4] {
            // A light tail, so that the sample's rate is near the law's.
            let config = SyntheticTrace { loss, frames: 10_000_000, shape: 3.0, ..SyntheticTrace::default() };
            let trace = config.trace().expect("frames");
            let rate = trace.losses() as f64 / trace.frames() as f64;
            assert!((rate / loss - 1.0).abs() < 0.06, "{loss}: {rate}");
            let (burst, gap) = (mean_run(&trace, true), mean_run(&trace, false));
            assert!(burst > 1.1 / (1.0 - rate) && gap > 1.1 / rate, "{loss}: {burst} {gap}");
            // Runs begin where a frame arrives and the next does not: E[f (1 - f)] while a quality holds.
            let begins = config.mean_of(config.mean_db(), |q| frame_loss(q) * (1.0 - frame_loss(q)));
            assert!((burst / (loss / begins) - 1.0).abs() < 0.06, "{loss}: {burst} {}", loss / begins);
        }
    }

    #[test]
    fn holds_are_pareto() {
        let config = SyntheticTrace { hold: 600.0, shape: 1.5, ..SyntheticTrace::default() };
        let mut stream = RandomStream::new(1, "holds");
        let holds: Vec<u64> = (0..100_000).map(|_| config.hold_frames(&mut stream)).collect();
        for x in [200, 400, 2000, 20_000] {
            let beyond = holds.iter().filter(|hold| **hold > x).count() as f64 / 1e5;
            let expected = (x as f64 / 200.0).powf(-1.5);
            assert!((beyond - expected).abs() < 4.0 * (expected / 1e5).sqrt() + 1e-9, "{x}: {beyond}");
        }
    }
}
