//! Bandwidth and jitter of calls over demand assignment (VoIP over Satellite).

use bentpipe_record::stats;

use crate::runs::{StudyRuns, measure};
use crate::study::At;

/// Width of a bin of the histogram of bandwidths, in kbit/s.
const BIN_KBPS: f64 = 5.0;
/// Seconds at the start of a call that its jitter takes to settle.
const SETTLING_S: f64 = 5.0;

/// Seconds after which the assignment has settled and the call is up.
const STEADY_S: f64 = 30.0;

/// Returns the bandwidth in each interval of the samples, in kbit/s.
fn bandwidths(runs: &StudyRuns, run: &str) -> Result<Vec<f64>, String> {
    bandwidths_after(runs, (run, 0), 0.0)
}

/// Returns the bandwidths of a point from a time on, in kbit/s.
fn bandwidths_after(runs: &StudyRuns, (run, point): (&str, usize), start: f64) -> Result<Vec<f64>, String> {
    let delivered = runs.column(run, point, "link.access.forward.delivered-bytes")?;
    let of_pair = |pair: &[(f64, f64)]| 8e-3 * (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
    Ok(delivered.windows(2).filter(|pair| pair[0].0 >= start).map(of_pair).collect())
}

/// Returns a figure of a call's bandwidth once it is up.
pub(super) fn steady(runs: &StudyRuns, run: &str, point: usize, of: Figure) -> Result<f64, String> {
    of(&bandwidths_after(runs, (run, point), STEADY_S)?)
}

/// Figure of the bandwidths of seconds.
type Figure = fn(&[f64]) -> Result<f64, String>;

/// Returns the deviation of a call's bandwidth over IAX2 less that over RTP, in kbit/s.
pub(super) fn difference(runs: &StudyRuns, point: usize) -> Result<f64, String> {
    Ok(steady(runs, "iax", point, deviation)? - steady(runs, "rtp", point, deviation)?)
}

/// Returns a measure at 1.4 Mbit/s of UDP.
fn saturated(runs: &StudyRuns, run: &str, name: &str) -> Result<f64, String> {
    let at = At::from([("rate".to_owned(), "1.4 Mbit/s".to_owned())]);
    match runs.points(run, &at)?[..] {
        [point] => Ok(measure(point, name)?.estimate.mean),
        _ => Err(format!("run \"{run}\" has not one point of 1.4 Mbit/s")),
    }
}

/// Returns the percentage of calls established at 1.4 Mbit/s of UDP.
pub(super) fn established(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    Ok(100.0 * saturated(runs, run, "flow.call.calls-established")?
        / saturated(runs, run, "flow.call.calls")?)
}

/// Returns the mouth-to-ear delay of the members in Pisa less that in Genoa, in milliseconds.
pub(super) fn conference(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let points = runs.points(run, &At::default())?;
    let [point] = points[..] else { return Err(format!("run \"{run}\" has not one point")) };
    let ear =
        |flow: &str| Ok::<f64, String>(measure(point, &format!("flow.{flow}.mouth-to-ear"))?.estimate.mean);
    Ok(1e3 * (ear("local")? - ear("remote")?))
}

/// Returns the loss of the UDP traffic at 1.4 Mbit/s in percent.
pub(super) fn excess_loss(runs: &StudyRuns) -> Result<f64, String> {
    Ok(100.0 * saturated(runs, "signalling", "flow.load.loss")?)
}

/// Returns the standard deviation of values.
pub(super) fn deviation(values: &[f64]) -> Result<f64, String> {
    mean(values).map(|_| stats::variance(values).sqrt())
}

/// Returns the mean of values.
pub(super) fn mean(values: &[f64]) -> Result<f64, String> {
    stats::mean(values).ok_or_else(|| "no values".to_owned())
}

/// Returns the standard deviation of the bandwidth of a run in kbit/s.
pub(super) fn rate_deviation(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    deviation(&bandwidths(runs, run)?)
}

/// Returns the middle of the fullest bin of the histogram of bandwidths in kbit/s.
pub(super) fn rate_mode(runs: &StudyRuns) -> Result<f64, String> {
    let mut counts = std::collections::BTreeMap::<u64, u32>::new();
    for rate in bandwidths(runs, "speech")? {
        *counts.entry((rate / BIN_KBPS).round() as u64).or_default() += 1;
    }
    let fullest = counts.into_iter().max_by_key(|(_, count)| *count).ok_or("no values")?;
    Ok(fullest.0 as f64 * BIN_KBPS)
}

/// Returns the samples of a call's jitter in milliseconds.
fn jitters(runs: &StudyRuns, run: &str) -> Result<Vec<f64>, String> {
    let jitter = runs.column(run, 0, "flow.call.receiver.jitter")?;
    let settled = jitter.into_iter().filter(|(at, value)| *at > SETTLING_S && value.is_finite());
    Ok(settled.map(|(_, value)| 1e3 * value).collect())
}

/// Returns the mean of a call's jitter over time in milliseconds.
pub(super) fn jitter_mean(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    mean(&jitters(runs, run)?)
}

/// Returns the standard deviation of a call's jitter over time in milliseconds.
pub(super) fn jitter_deviation(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    deviation(&jitters(runs, run)?)
}
