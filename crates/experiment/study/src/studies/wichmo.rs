//! Models of frame errors against their trace, and rate adaptation (WICHMO).

use bentpipe_net::channel::loss::{self, Counts, Model};
use bentpipe_net::channel::{Config, Fit, Trace};

use crate::runs::{Points, StudyRuns};
use crate::study::{At, Value};

/// The swept keys, as the study names them.
const LOSS: &str = "synthetic.loss";
const FIT: &str = "channel.fit";

/// Models (a) to (d) of table III, as scenarios write them, and (e), the trace.
const MODELS: [&str; 4] = ["bernoulli", "bernoulli-by-bursts", "bernoulli-by-gaps", "bistable"];
const TRACE: &str = "itself";

/// Returns the goodput in Mbit/s against the loss ratio.
fn goodput(runs: &StudyRuns, run: &str, fit: &str) -> Result<Points, String> {
    let at = [(FIT.to_owned(), fit.to_owned())].into_iter().collect::<At>();
    let mut points = Points::new();
    for point in runs.points(run, &at)? {
        let loss = point
            .settings
            .iter()
            .find(|(key, _)| key.ends_with(LOSS))
            .and_then(|(_, text)| text.parse().ok());
        let goodput = point.value("flow.bulk.goodput").ok_or("no goodput")?;
        points.push((loss.ok_or("no rate of loss")?, goodput.estimate.mean / 1e6));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(points)
}

/// Returns the mean distance of a model's curve from the trace's, in Mbit/s.
fn distance(runs: &StudyRuns, run: &str, fit: &str) -> Result<f64, String> {
    let (model, trace) = (goodput(runs, run, fit)?, goodput(runs, run, TRACE)?);
    let far = model.iter().zip(&trace).map(|((_, a), (_, b))| (a - b).abs());
    Ok(far.sum::<f64>() / trace.len().max(1) as f64)
}

/// Returns the models' distances in the order of table III.
fn distances(runs: &StudyRuns, run: &str) -> Result<[f64; 4], String> {
    let mut all = [0.0; 4];
    for (place, fit) in all.iter_mut().zip(MODELS) {
        *place = distance(runs, run, fit)?;
    }
    Ok(all)
}

/// Returns the bistable model's distance over that of the nearest other model.
pub(super) fn closest(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let [a, b, c, d] = distances(runs, run)?;
    Ok(d / a.min(b).min(c))
}

/// Returns the gap-fitted Bernoulli model's distance over that of the farthest other model.
pub(super) fn farthest(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let [a, b, c, d] = distances(runs, run)?;
    Ok(c / a.max(b).max(d))
}

/// Returns the [`sag`] of a model's curve.
pub(super) fn sag_of(runs: &StudyRuns, fit: &str) -> Result<f64, String> {
    sag(&goodput(runs, "hybrid", fit)?)
}

/// Returns the mean depth of a curve below its chord, relative to the first value.
///
/// Above 0 the curve is convex in the mean, below 0 concave.
fn sag(points: &Points) -> Result<f64, String> {
    let [first, .., last] = points[..] else { return Err("fewer than two points".into()) };
    let line = |x: f64| first.1 + (last.1 - first.1) * (x - first.0) / (last.0 - first.0);
    let below = points.iter().map(|(x, y)| line(*x) - y);
    Ok(below.sum::<f64>() / points.len() as f64 / first.1)
}

/// Returns the synthetic traces of the scenarios that ran, in rising order of their loss.
fn traces(runs: &StudyRuns) -> Result<Vec<Trace>, String> {
    let run = runs.run("hybrid")?;
    let mut traces = Vec::new();
    for point in &run.plan.points {
        let link = point.scenario.link.get("wlan").ok_or("no link \"wlan\"")?;
        let faults = link.forward.channel.as_ref().map_or(&[][..], |channel| channel.faults());
        let [Config::Trace(config)] = faults else { return Err("no trace".into()) };
        if config.fit == Fit::Itself {
            let synthetic = config.synthetic.as_ref().ok_or("no synthetic trace")?;
            traces.push((synthetic.loss, synthetic.trace().ok_or("an empty trace")?));
        }
    }
    traces.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(traces.into_iter().map(|(_, trace)| trace).collect())
}

/// Returns a property of the traces against their loss ratios.
fn against_loss(runs: &StudyRuns, of: impl Fn(&Counts) -> Option<f64>) -> Result<Points, String> {
    let traces = traces(runs)?;
    Ok(traces.iter().map(Counts::of).filter_map(|counts| Some((counts.loss(), of(&counts)?))).collect())
}

/// Returns the mean loss bursts of the traces.
pub(super) fn bursts(runs: &StudyRuns) -> Result<Points, String> {
    against_loss(runs, |counts| counts.bursts.mean())
}

pub(super) fn bernoulli_bursts(runs: &StudyRuns) -> Result<Points, String> {
    against_loss(runs, |counts| Some(1.0 / (1.0 - counts.loss())))
}

/// Returns the mean gaps between loss bursts of the traces.
pub(super) fn gaps(runs: &StudyRuns) -> Result<Points, String> {
    against_loss(runs, |counts| counts.gaps.mean())
}

pub(super) fn bernoulli_gaps(runs: &StudyRuns) -> Result<Points, String> {
    against_loss(runs, |counts| Some(1.0 / counts.loss()))
}

/// Returns the least ratio of a trace's mean length to that of independent losses.
fn least_ratio(of: Points, bernoulli: Points) -> Result<f64, String> {
    let ratios = of.iter().zip(&bernoulli).map(|((_, a), (_, b))| a / b);
    ratios.min_by(f64::total_cmp).ok_or_else(|| "no trace".to_owned())
}

pub(super) fn least_burst_ratio(runs: &StudyRuns) -> Result<f64, String> {
    least_ratio(bursts(runs)?, bernoulli_bursts(runs)?)
}

pub(super) fn least_gap_ratio(runs: &StudyRuns) -> Result<f64, String> {
    least_ratio(gaps(runs)?, bernoulli_gaps(runs)?)
}

/// Returns the greatest relative difference of the gap-fitted Bernoulli model's loss from the trace's.
pub(super) fn loss_by_gaps(runs: &StudyRuns) -> Result<f64, String> {
    let share = |trace: &Trace| {
        let counts = Counts::of(trace);
        loss::fit(Fit::BernoulliByGaps, trace, &counts)
            .map(|fitted| fitted.model.loss() / counts.loss() - 1.0)
    };
    let shares = traces(runs)?.iter().map(share).collect::<Result<Vec<_>, _>>()?;
    shares.into_iter().max_by(f64::total_cmp).ok_or_else(|| "no trace".to_owned())
}

/// Returns a parameter of fitted models against the traces' loss ratios (table III).
pub(super) fn fitted(runs: &StudyRuns, fit: Fit, of: impl Fn(&Model) -> f64) -> Result<Points, String> {
    let point = |trace: &Trace| {
        let counts = Counts::of(trace);
        Ok((counts.loss(), of(&loss::fit(fit, trace, &counts)?.model)))
    };
    traces(runs)?.iter().map(point).collect()
}

/// Returns a counter of the link under one adaptation.
fn counted(runs: &StudyRuns, adaptation: &str, name: &str) -> Result<f64, String> {
    let value = Value {
        run: "adapt".into(),
        measure: format!("link.wlan.forward.{name}"),
        at: [("adaptation".to_owned(), adaptation.to_owned())].into_iter().collect(),
        ..Value::default()
    };
    Ok(runs.value(&value)?.estimate.mean)
}

/// Returns the mean air time of failed frames, with ARF over without adaptation.
pub(super) fn failed_time(runs: &StudyRuns) -> Result<f64, String> {
    let mean = |adaptation: &str| {
        let of = |name: &str| counted(runs, adaptation, name);
        Ok::<f64, String>(of("burst-mean-time")? / of("burst-mean")?)
    };
    Ok(mean("arf")? / mean("none")?)
}

/// Returns the cumulative distribution of "gaps" or "bursts" at 1, 2, 4, ... frames.
pub(super) fn up_to(runs: &StudyRuns, adaptation: &str, kind: &str) -> Result<Points, String> {
    let mut points = vec![(1.0, counted(runs, adaptation, &format!("{kind}-of-1"))?)];
    for n in 1..12 {
        let len = 1_u32 << n;
        points.push((f64::from(len), counted(runs, adaptation, &format!("{kind}-to-{len}"))?));
    }
    let beyond = counted(runs, adaptation, &format!("{kind}-beyond"))?;
    let all = points.iter().map(|(_, count)| count).sum::<f64>() + beyond;
    let mut seen = 0.0;
    points.iter_mut().for_each(|(_, count)| {
        seen += *count / all;
        *count = seen;
    });
    Ok(points)
}

/// Returns the frame error ratio in each state of the signal, the strongest at 0.
pub(super) fn in_states(runs: &StudyRuns, adaptation: &str) -> Result<Points, String> {
    let mut points = Points::new();
    for state in 1..=3_u32 {
        let sent = counted(runs, adaptation, &format!("sent-in-{state}"))?;
        let wrong = counted(runs, adaptation, &format!("wrong-in-{state}"))?;
        points.extend((sent > 0.0).then(|| (f64::from(state - 1), wrong / sent)));
    }
    Ok(points)
}
