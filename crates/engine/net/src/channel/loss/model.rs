//! Two-state chains with losses in both states. Independent losses, bistable, Gilbert and Gilbert-Elliott are
//! special cases.

use bentpipe_units::RandomStream;

use crate::channel::Trace;

/// A chain of two states that changes after each frame (Gilbert 1960, Elliott 1963).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Model {
    /// The probability of going from good to bad.
    pub p: f64,
    /// The probability of going from bad to good.
    pub r: f64,
    /// The probability of loss in the good state.
    pub loss_good: f64,
    /// The probability of loss in the bad state.
    pub loss_bad: f64,
}

/// Weights of the two states.
type Weights = [f64; 2];

impl Model {
    /// Creates a model of independent losses.
    pub fn bernoulli(loss: f64) -> Model {
        Model { p: 0.0, r: 1.0, loss_good: loss, loss_bad: loss }
    }

    /// Creates a model that loses all frames in the bad state, none in the good.
    pub fn bistable(p: f64, r: f64) -> Model {
        Model { p, r, loss_good: 0.0, loss_bad: 1.0 }
    }

    /// Returns the share of time of each state. That of good is r / (p + r). A chain that never changes is
    /// good.
    fn stationary(&self) -> Weights {
        let sum = self.p + self.r;
        if sum > 0.0 { [self.r / sum, self.p / sum] } else { [1.0, 0.0] }
    }

    fn changed(&self, [good, bad]: Weights) -> Weights {
        [good * (1.0 - self.p) + bad * self.r, good * self.p + bad * (1.0 - self.r)]
    }

    fn lost(&self, [good, bad]: Weights) -> Weights {
        [good * self.loss_good, bad * self.loss_bad]
    }

    fn received(&self, [good, bad]: Weights) -> Weights {
        [good * (1.0 - self.loss_good), bad * (1.0 - self.loss_bad)]
    }

    fn with_outcome(&self, weights: Weights, lost: bool) -> Weights {
        if lost { self.lost(weights) } else { self.received(weights) }
    }

    /// Returns the share of lost frames.
    pub fn loss(&self) -> f64 {
        sum(self.lost(self.stationary()))
    }

    /// Returns the mean length of runs of lost (`true`) or received frames.
    ///
    /// It is their share, divided by the frequency of run starts.
    pub fn mean_run(&self, lost: bool) -> f64 {
        sum(self.with_outcome(self.stationary(), lost)) / sum(self.first_of_run(lost))
    }

    /// Returns the weights of the states at a run's first frame, its outcome included.
    fn first_of_run(&self, lost: bool) -> Weights {
        self.with_outcome(self.changed(self.with_outcome(self.stationary(), !lost)), lost)
    }

    /// Returns the probabilities that a run exceeds 1, 2, ... `up_to` frames.
    pub fn beyond(&self, lost: bool, up_to: u64) -> Vec<f64> {
        let first = self.first_of_run(lost);
        let all = sum(first);
        let mut weights = first;
        let step = |_| {
            weights = self.with_outcome(self.changed(weights), lost);
            sum(weights) / all
        };
        (0..up_to).map(step).collect()
    }

    /// Returns the residual loss ratio after up to `attempts` consecutive transmissions, in the long run.
    ///
    /// It is the frequency at which runs of `attempts` failures end, divided by that at which packets
    /// complete.
    pub fn residual(&self, attempts: u32) -> f64 {
        // The state at a packet's first transmission depends on how the last packet ended, so this is a chain over packets.
        let mut start = self.stationary();
        let mut share = 0.0;
        for _ in 0..200 {
            let mut weights = start;
            let mut next = [0.0; 2];
            for _ in 0..attempts {
                let arrived = self.changed(self.received(weights));
                next = [next[0] + arrived[0], next[1] + arrived[1]];
                weights = self.changed(self.lost(weights));
            }
            share = sum(weights);
            next = [next[0] + weights[0], next[1] + weights[1]];
            let all = sum(next);
            start = [next[0] / all, next[1] / all];
        }
        share
    }

    /// Returns the covariance of the losses of frames that are `lag` apart, lag above 0.
    pub fn covariance(&self, lag: u32) -> f64 {
        let [good, bad] = self.stationary();
        let memory = (1.0 - self.p - self.r).powi(lag as i32);
        good * bad * (self.loss_bad - self.loss_good).powi(2) * memory
    }

    /// Returns the log-probability of a trace; minus infinity if the model cannot produce it.
    pub fn log_likelihood(&self, trace: &Trace) -> f64 {
        let (mut weights, mut log, mut scale) = (self.stationary(), 0.0, 1.0);
        for lost in trace.iter() {
            weights = self.with_outcome(weights, lost);
            let share = sum(weights);
            if share <= 0.0 {
                return f64::NEG_INFINITY;
            }
            // One logarithm for many frames: their product stays above the smallest numbers.
            scale *= share;
            if scale < 1e-200 {
                log += libm::log(scale);
                scale = 1.0;
            }
            weights = self.changed([weights[0] / share, weights[1] / share]);
        }
        log + libm::log(scale)
    }

    /// Returns a trace of `frames` frames; `None` for zero.
    pub fn trace(&self, frames: u64, stream: &mut RandomStream) -> Option<Trace> {
        let mut is_bad = stream.chance(self.stationary()[1]);
        let step = |_| {
            let (loss, leave) = if is_bad { (self.loss_bad, self.r) } else { (self.loss_good, self.p) };
            let is_lost = stream.chance(loss);
            is_bad ^= stream.chance(leave);
            is_lost
        };
        Trace::from_losses((0..frames).map(step))
    }
}

fn sum([good, bad]: Weights) -> f64 {
    good + bad
}
