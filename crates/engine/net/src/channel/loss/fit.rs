//! Fitting models to traces.

use crate::channel::{Fit, Trace};

use super::counts::Counts;
use super::model::Model;

/// Frames that the fit by maximum likelihood looks at: the first ones.
const MAX_FRAMES: u64 = 1_000_000;
/// Steps of that fit.
const MAX_STEPS: usize = 100;
/// Convergence limit: minimum growth of the log-likelihood per frame and step.
const ENOUGH: f64 = 1e-8;

/// Model with the fit it comes from.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Fitted {
    /// Fit that made the model.
    pub fit: Fit,
    /// The model.
    pub model: Model,
}

/// Fits that make a model: first the published order of table III, then the others.
const ALL: [Fit; 6] = [
    Fit::Bernoulli,
    Fit::BernoulliByBursts,
    Fit::BernoulliByGaps,
    Fit::Bistable,
    Fit::Gilbert,
    Fit::GilbertElliott,
];

/// Returns the name of a fit.
pub fn name(fit: Fit) -> &'static str {
    match fit {
        Fit::Itself => "the trace",
        Fit::Bernoulli => "Bernoulli, by loss",
        Fit::BernoulliByBursts => "Bernoulli, by bursts",
        Fit::BernoulliByGaps => "Bernoulli, by gaps",
        Fit::Bistable => "bistable",
        Fit::Gilbert => "Gilbert",
        Fit::GilbertElliott => "Gilbert-Elliott",
    }
}

/// Returns the number of parameters that the fit sets.
pub fn parameters(fit: Fit) -> u32 {
    match fit {
        Fit::Itself => 0,
        Fit::Bernoulli | Fit::BernoulliByBursts | Fit::BernoulliByGaps => 1,
        Fit::Bistable => 2,
        Fit::Gilbert => 3,
        Fit::GilbertElliott => 4,
    }
}

/// Returns all fits to a trace, each with its model or the reason for none.
pub fn fit_all(trace: &Trace, counts: &Counts) -> Vec<(Fit, Result<Fitted, String>)> {
    ALL.into_iter().map(|of| (of, fit(of, trace, counts))).collect()
}

/// Returns the model that a fit makes of a trace.
///
/// # Errors
/// Returns an error if the trace lacks the fitted features: no losses, nothing but losses, or for `gilbert`
/// frequencies that no such chain has.
pub fn fit(fit: Fit, trace: &Trace, counts: &Counts) -> Result<Fitted, String> {
    let runs = counts.bursts.mean().zip(counts.gaps.mean());
    let runs = || runs.ok_or_else(|| "all frames are lost, or none is".to_owned());
    let model = match fit {
        Fit::Itself => return Err("the trace itself is not a model".into()),
        Fit::Bernoulli => Model::bernoulli(counts.loss()),
        Fit::BernoulliByBursts => Model::bernoulli(1.0 - 1.0 / runs()?.0),
        Fit::BernoulliByGaps => Model::bernoulli(1.0 / runs()?.1),
        Fit::Bistable => {
            let (burst, gap) = runs()?;
            Model::bistable(1.0 / gap, 1.0 / burst)
        }
        Fit::Gilbert => gilbert(counts)?,
        Fit::GilbertElliott => most_likely(trace, counts)?,
    };
    Ok(Fitted { fit, model })
}

/// Fits the probabilities of up to three frames (Gilbert 1960, equation 11).
///
/// a = P(1), u = P(1|1), c = P(111) / (P(101) + P(111)).
fn gilbert(counts: &Counts) -> Result<Model, String> {
    let [all, gap] = counts.triples.map(|count| count as f64);
    let a = counts.loss();
    let u = counts.pairs as f64 / counts.losses as f64;
    let c = all / (all + gap);
    let stays = (a * c - u * u) / (2.0 * a * c - u * (a + c));
    let loss_bad = u / stays;
    let r = 1.0 - stays;
    let p = a * r / (loss_bad - a);
    let is_chain = [p, r, loss_bad].iter().all(|value| (0.0..=1.0).contains(value)) && r > 0.0;
    if !is_chain {
        return Err("no chain of this kind has the trace's frequencies of three frames in a row".into());
    }
    Ok(Model { p, r, loss_good: 0.0, loss_bad })
}

/// Returns the most likely chain with losses in both states. Baum and Welch's iteration starts at the Gilbert
/// chain.
fn most_likely(trace: &Trace, counts: &Counts) -> Result<Model, String> {
    if counts.losses == 0 || counts.losses == counts.frames {
        return Err("all frames are lost, or none is".into());
    }
    let lost: Vec<bool> = trace.iter().take(MAX_FRAMES as usize).collect();
    let mut model = start(counts);
    let mut before = f64::NEG_INFINITY;
    for _ in 0..MAX_STEPS {
        let (better, log) = step(&model, &lost);
        model = better;
        if log - before < ENOUGH * lost.len() as f64 {
            break;
        }
        before = log;
    }
    Ok(model)
}

/// Returns the initial model: bad times longer than bursts, with most frames lost.
fn start(counts: &Counts) -> Model {
    let by_gilbert = gilbert(counts).ok();
    let loss = counts.loss();
    let guess = Model { p: 0.02, r: 0.1, loss_good: loss * 0.3, loss_bad: (loss * 3.0).min(0.9) };
    let model = by_gilbert.unwrap_or(guess);
    // A value of exactly 0 or 1 never moves.
    let inside = |value: f64| value.clamp(1e-4, 1.0 - 1e-4);
    Model {
        p: inside(model.p),
        r: inside(model.r),
        loss_good: inside(model.loss_good.max(loss * 0.1)),
        loss_bad: inside(model.loss_bad),
    }
}

/// Performs a step of Baum and Welch. Also returns the log-likelihood before it.
fn step(model: &Model, lost: &[bool]) -> (Model, f64) {
    let emit = |lost: bool| {
        let of = |loss: f64| if lost { loss } else { 1.0 - loss };
        [of(model.loss_good), of(model.loss_bad)]
    };
    let change = [[1.0 - model.p, model.p], [model.r, 1.0 - model.r]];
    // Forward: the state's probability given the frames up to this one.
    let mut forward: Vec<([f64; 2], f64)> = Vec::with_capacity(lost.len());
    let sum = model.p + model.r;
    let (mut prior, mut log, mut scale) = ([model.r / sum, model.p / sum], 0.0, 1.0);
    for &is_lost in lost {
        let e = emit(is_lost);
        let share = prior[0] * e[0] + prior[1] * e[1];
        let state = [prior[0] * e[0] / share, prior[1] * e[1] / share];
        forward.push((state, share));
        scale *= share;
        if scale < 1e-200 {
            (log, scale) = (log + libm::log(scale), 1.0);
        }
        prior = [0, 1].map(|to| state[0] * change[0][to] + state[1] * change[1][to]);
    }
    log += libm::log(scale);
    // Backward: expected numbers of visits, losses and changes.
    let (mut later, mut visits, mut losses, mut changes) = ([1.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]);
    for n in (0..lost.len()).rev() {
        let (state, _) = forward[n];
        let here = [state[0] * later[0], state[1] * later[1]];
        for s in [0, 1] {
            losses[s] += if lost[n] { here[s] } else { 0.0 };
            visits[s] += here[s];
        }
        if n > 0 {
            let (e, (before, _), share) = (emit(lost[n]), forward[n - 1], forward[n].1);
            let ahead = [e[0] * later[0] / share, e[1] * later[1] / share];
            changes[0] += before[0] * change[0][1] * ahead[1];
            changes[1] += before[1] * change[1][0] * ahead[0];
            later = [0, 1].map(|from| change[from][0] * ahead[0] + change[from][1] * ahead[1]);
        }
    }
    let (state, _) = forward[lost.len() - 1];
    let share = |part: f64, of: f64| if of > 0.0 { (part / of).clamp(0.0, 1.0) } else { 0.0 };
    let better = Model {
        p: share(changes[0], visits[0] - state[0]),
        r: share(changes[1], visits[1] - state[1]),
        loss_good: share(losses[0], visits[0]),
        loss_bad: share(losses[1], visits[1]),
    };
    (if better.p + better.r > 0.0 { better } else { *model }, log)
}
