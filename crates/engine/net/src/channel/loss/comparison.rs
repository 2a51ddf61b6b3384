//! Comparison of a trace with the models fitted to it.

use super::counts::{Counts, Lengths};
use super::fit::{Fitted, fit_all, parameters};
use super::model::Model;
use crate::channel::{Fit, Trace};

/// Maximum length of runs in comparisons with models. Longer ones count as of this length.
pub const MAX_LENGTH: u64 = 1 << 20;

/// Comparison of a trace with models of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Comparison {
    /// Number of frames.
    pub frames: u64,
    /// Number of lost frames.
    pub losses: u64,
    /// The share that was lost.
    pub loss: f64,
    /// Mean number of consecutive lost frames; `None` without any.
    pub burst: Option<f64>,
    /// Mean number of consecutive received frames; `None` without any.
    pub gap: Option<f64>,
    /// The most lost frames in a row, and the most received ones.
    pub longest: [u64; 2],
    /// Maximum number of transmissions of a packet.
    pub attempts: u32,
    /// Residual loss ratio of packets, if each transmission takes the next frame.
    pub residual: f64,
    /// Histogram of loss run lengths: a class's last length, and its runs. The classes end at 1, 2, 4, 8, ...
    pub burst_histogram: Vec<(u64, u64)>,
    /// The same of received frames.
    pub gap_histogram: Vec<(u64, u64)>,
    /// The models.
    pub models: Vec<Row>,
}

/// A model and how well it fits.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// Fit, as in a scenario.
    pub fit: Fit,
    /// The model, or why there is none.
    pub model: Option<Model>,
    /// Reason for a missing model.
    pub problem: Option<String>,
    /// Goodness of the fit.
    pub goodness: Option<Goodness>,
}

/// Goodness of a model's fit.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Goodness {
    /// The model's share of lost frames.
    pub loss: f64,
    /// Mean number of consecutive lost frames of the model.
    pub burst: f64,
    /// Mean number of consecutive received frames of the model.
    pub gap: f64,
    /// Residual loss ratio of the model.
    pub residual: f64,
    /// Maximum distance between the distributions of loss run lengths. Kolmogorov and Smirnov.
    pub burst_distance: f64,
    /// The same of received frames.
    pub gap_distance: f64,
    /// Logarithm of the trace's probability in the model; `None` if that is zero.
    pub log_likelihood: Option<f64>,
    /// Akaike's criterion: twice the number of parameters, less twice that logarithm. The least is best.
    pub aic: Option<f64>,
}

/// Fits every model to a trace and compares them.
///
/// The link layer sends each packet up to `attempts` times.
pub fn comparison(trace: &Trace, attempts: u32) -> Comparison {
    let counts = Counts::of(trace);
    let row = |(fit, fitted): (Fit, Result<Fitted, String>)| {
        let model = fitted.as_ref().ok().map(|fitted| fitted.model);
        let goodness = model.map(|model| goodness(fit, &model, trace, &counts, attempts));
        Row { fit, model, problem: fitted.err(), goodness }
    };
    Comparison {
        frames: counts.frames,
        losses: counts.losses,
        loss: counts.loss(),
        burst: counts.bursts.mean(),
        gap: counts.gaps.mean(),
        longest: [counts.bursts.longest(), counts.gaps.longest()],
        attempts,
        residual: Counts::residual(trace, attempts),
        burst_histogram: counts.bursts.classes(),
        gap_histogram: counts.gaps.classes(),
        models: fit_all(trace, &counts).into_iter().map(row).collect(),
    }
}

fn goodness(fit: Fit, model: &Model, trace: &Trace, counts: &Counts, attempts: u32) -> Goodness {
    let log_likelihood = Some(model.log_likelihood(trace)).filter(|log| log.is_finite());
    Goodness {
        loss: model.loss(),
        burst: model.mean_run(true),
        gap: model.mean_run(false),
        residual: model.residual(attempts),
        burst_distance: distance(&counts.bursts, model, true),
        gap_distance: distance(&counts.gaps, model, false),
        log_likelihood,
        aic: log_likelihood.map(|log| 2.0 * f64::from(parameters(fit)) - 2.0 * log),
    }
}

/// Returns the maximum distance between two distributions. The trace's changes only at lengths that occur.
fn distance(lengths: &Lengths, model: &Model, lost: bool) -> f64 {
    let expected = model.beyond(lost, lengths.longest().clamp(1, MAX_LENGTH));
    let at = |len: u64| match usize::try_from(len).unwrap_or(usize::MAX) {
        0 => 1.0,
        len => expected.get(len - 1).or(expected.last()).copied().unwrap_or(0.0),
    };
    let mut before = 1.0;
    let step = |(len, share): (u64, f64)| {
        // Just before a length that occurs, the trace's share is still that of the last one.
        let far = (before - at(len - 1)).abs().max((share - at(len)).abs());
        before = share;
        far
    };
    lengths.beyond().into_iter().map(step).fold(0.0, f64::max)
}
