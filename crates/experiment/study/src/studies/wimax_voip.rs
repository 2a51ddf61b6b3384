//! Calls over fixed WiMAX: the schedule of IR packets, and how many calls fit.

use std::collections::BTreeMap;

use crate::runs::{Points, StudyRuns};
use crate::study::At;

use super::{Code, CurveCode};

/// Loss ratio that a call may have.
const MOST_LOSS: f64 = 0.05;
/// Mean one-way delay in seconds that a call may have.
const MOST_DELAY: f64 = 0.2;
/// Wait in seconds of the first of two frames for the second.
const AGGREGATION: f64 = 0.02;

/// Final distance of IR packets.
const N: u64 = 30;

/// Values that depend on the seed.
pub(super) const CODES: &[(&str, Code)] = &[
    ("wimax-voip-plain", |runs| limit(runs, "plain", 0.0)),
    ("wimax-voip-rohc", |runs| limit(runs, "rohc", 0.0)),
    ("wimax-voip-two", |runs| limit(runs, "two", AGGREGATION)),
    ("wimax-voip-both", |runs| limit(runs, "both", AGGREGATION)),
    ("wimax-voip-short-limit", |runs| limit(runs, "both-10", AGGREGATION)),
    ("wimax-voip-plain-tdd", |runs| limit(runs, "plain-tdd", 0.0)),
    ("wimax-voip-gain-two", |runs| gain(runs, "two")),
    ("wimax-voip-gain-both", |runs| gain(runs, "both")),
    ("wimax-voip-gain-rohc-of-two", |runs| {
        Ok((limit(runs, "both", AGGREGATION)? / limit(runs, "two", AGGREGATION)? - 1.0) * 100.0)
    }),
    ("wimax-voip-goodput", |runs| goodput(runs, "plain", 65.0)),
    ("wimax-voip-use", |runs| Ok(goodput(runs, "plain", 65.0)? / base(runs)? * 100.0)),
    ("wimax-voip-use-ratio", |runs| {
        let voice = |run, calls, frame| Ok::<_, String>(goodput(runs, run, calls)? * 40.0 / frame);
        // Of 52 bytes of UDP payload 40 are voice, of 56 compressed ones 80 of two frames in 57.2 on average.
        Ok(voice("both", 121.0, 57.2)? * 2.0 / voice("plain", 65.0, 52.0)?)
    }),
    ("wimax-voip-loss-65", |runs| percent_lost(runs, "plain", 65.0)),
    ("wimax-voip-loss-66", |runs| percent_lost(runs, "plain", 66.0)),
    ("wimax-voip-delay-65", |runs| delay_ms(runs, "plain", 65.0, 0.0)),
    ("wimax-voip-delay-66", |runs| delay_ms(runs, "plain", 66.0, 0.0)),
    ("wimax-voip-rohc-delay-72", |runs| delay_ms(runs, "rohc", 72.0, 0.0)),
    ("wimax-voip-rohc-loss-69", |runs| percent_lost(runs, "rohc", 69.0)),
    ("wimax-voip-rohc-loss-70", |runs| percent_lost(runs, "rohc", 70.0)),
    ("wimax-voip-rohc-loss-72", |runs| percent_lost(runs, "rohc", 72.0)),
    ("wimax-voip-two-loss-96", |runs| percent_lost(runs, "two", 96.0)),
    ("wimax-voip-two-loss-97", |runs| percent_lost(runs, "two", 97.0)),
    ("wimax-voip-two-loss-98", |runs| percent_lost(runs, "two", 98.0)),
    ("wimax-voip-two-delay-94", |runs| delay_ms(runs, "two", 94.0, AGGREGATION)),
    ("wimax-voip-two-delay-95", |runs| delay_ms(runs, "two", 95.0, AGGREGATION)),
    ("wimax-voip-both-loss-122", |runs| percent_lost(runs, "both", 122.0)),
    ("wimax-voip-both-loss-123", |runs| percent_lost(runs, "both", 123.0)),
    ("wimax-voip-both-loss-126", |runs| percent_lost(runs, "both", 126.0)),
    ("wimax-voip-both-delay-121", |runs| delay_ms(runs, "both", 121.0, AGGREGATION)),
    ("wimax-voip-both-delay-122", |runs| delay_ms(runs, "both", 122.0, AGGREGATION)),
    ("wimax-voip-both-delay-126", |runs| delay_ms(runs, "both", 126.0, AGGREGATION)),
    ("wimax-voip-two-loss-step", |runs| Ok((loss(runs, "two", 98.0)? - loss(runs, "two", 97.0)?) * 100.0)),
    ("wimax-voip-grid-steepest", |runs| steepest(runs, "grid", 60.0)),
    ("wimax-voip-grid-steepest-arq", |runs| steepest(runs, "grid-arq", 60.0)),
    ("wimax-voip-grid-steepest-rates", |runs| steepest(runs, "grid-rates", 58.0)),
    ("wimax-voip-line-loss-97", |runs| Ok(line_loss(runs, 97.0)? * 100.0)),
    ("wimax-voip-line-loss-step", |runs| Ok((line_loss(runs, 98.0)? - line_loss(runs, 97.0)?) * 100.0)),
];

/// Values of arithmetic.
pub(super) const CONSTANTS: &[(&str, Code)] = &[
    ("wimax-voip-schedule", |_| Ok(index(N) as f64)),
    ("wimax-voip-schedule-to-period", |_| Ok((index(N) + 1) as f64)),
    ("wimax-voip-schedule-of-eq-2", |_| Ok((index(N) + N + 1 + 1) as f64)),
    // A limit of packets that 70 calls exceed by 5 %.
    ("wimax-voip-constant-limit", |_| Ok((1.0 - (1.0 - MOST_LOSS) * 70.0 / 72.0) * 100.0)),
    ("wimax-voip-printed-gain", |_| Ok((121.0 / 94.0 - 1.0) * 100.0)),
];

/// Curves by name.
pub(super) const CURVES: &[(&str, CurveCode)] = &[
    ("wimax-voip-loss-plain", |runs| curve(runs, "plain", loss_of, 0.0)),
    ("wimax-voip-loss-rohc", |runs| curve(runs, "rohc", loss_of, 0.0)),
    ("wimax-voip-loss-two", |runs| curve(runs, "two", loss_of, 0.0)),
    ("wimax-voip-loss-both", |runs| curve(runs, "both", loss_of, 0.0)),
    ("wimax-voip-delay-plain", |runs| curve(runs, "plain", delay_of, 0.0)),
    ("wimax-voip-delay-rohc", |runs| curve(runs, "rohc", delay_of, 0.0)),
    ("wimax-voip-delay-two", |runs| curve(runs, "two", delay_of, AGGREGATION)),
    ("wimax-voip-delay-both", |runs| curve(runs, "both", delay_of, AGGREGATION)),
];

/// Returns the index of IR packet `k` (equation 1).
fn index(k: u64) -> u64 {
    (1..=k).sum()
}

/// Measure of the two directions of the calls, averaged.
type Of = fn(&dyn Fn(&str) -> Option<f64>) -> Option<f64>;

/// Returns the ratio of drops on the way. A sink does not know of flows that lose all packets.
fn loss_of(value: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
    let drops = |way: &str| value(&format!("link.{way}.drop-ratio"));
    let lost = |up, down| Some(1.0 - (1.0 - drops(up)?) * (1.0 - drops(down)?));
    Some((lost("first.return", "second.forward")? + lost("second.return", "first.forward")?) / 2.0)
}

fn delay_of(value: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
    Some((value("flow.forth.delay-mean")? + value("flow.back.delay-mean")?) / 2.0)
}

/// Returns a measure against the number of calls, in rising order.
fn curve(runs: &StudyRuns, run: &str, of: Of, more: f64) -> Result<Points, String> {
    let mut points = Points::new();
    for point in runs.points(run, &At::default())? {
        let calls = point.settings.iter().find(|(key, _)| key.ends_with("count"));
        let calls = calls.and_then(|(_, text)| text.parse().ok()).ok_or("no number of calls")?;
        let value = |name: &str| point.value(name).map(|value| value.estimate.mean);
        points.push((calls, of(&value).ok_or("no loss or delay")? + more));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(points)
}

fn at(points: &Points, calls: f64) -> Result<f64, String> {
    let found = points.iter().find(|(x, _)| (x - calls).abs() < 0.5);
    found.map(|(_, y)| *y).ok_or_else(|| format!("not simulated with {calls} calls"))
}

fn loss(runs: &StudyRuns, run: &str, calls: f64) -> Result<f64, String> {
    at(&curve(runs, run, loss_of, 0.0)?, calls)
}

/// Returns the loss of calls over the line of constant capacity.
fn line_loss(runs: &StudyRuns, calls: f64) -> Result<f64, String> {
    let of: Of = |value| value("link.uplink.forward.drop-ratio");
    at(&curve(runs, "line", of, 0.0)?, calls)
}

fn percent_lost(runs: &StudyRuns, run: &str, calls: f64) -> Result<f64, String> {
    Ok(loss(runs, run, calls)? * 100.0)
}

/// Returns the mean one-way delay in milliseconds, with `more` seconds of waiting at the sender.
fn delay_ms(runs: &StudyRuns, run: &str, calls: f64, more: f64) -> Result<f64, String> {
    Ok(at(&curve(runs, run, delay_of, more)?, calls)? * 1e3)
}

/// Returns the largest simulated number of calls that are good, with all smaller ones.
fn limit(runs: &StudyRuns, run: &str, more: f64) -> Result<f64, String> {
    let (losses, delays) = (curve(runs, run, loss_of, 0.0)?, curve(runs, run, delay_of, more)?);
    let good = losses
        .iter()
        .zip(&delays)
        .take_while(|((_, loss), (_, delay))| *loss < MOST_LOSS && *delay < MOST_DELAY);
    good.last().map(|((calls, _), _)| *calls).ok_or_else(|| "no number of calls is good".to_owned())
}

/// Returns the steepest rise of the loss per further call, in per cent.
///
/// It is that from one number of calls to the next, of all cells of a run in which enough calls are good.
fn steepest(runs: &StudyRuns, run: &str, good: f64) -> Result<f64, String> {
    let mut cells: BTreeMap<Vec<&str>, Vec<(f64, f64, f64)>> = BTreeMap::new();
    for point in runs.points(run, &At::default())? {
        let (calls, cell): (Vec<_>, Vec<_>) =
            point.settings.iter().partition(|(key, _)| key.ends_with("count"));
        let calls = calls.first().and_then(|(_, text)| text.parse().ok()).ok_or("no number of calls")?;
        let value = |name: &str| point.value(name).map(|value| value.estimate.mean);
        // A cell in which a station sends nothing has no loss and no delay.
        let (loss, delay) = (loss_of(&value).unwrap_or(1.0), delay_of(&value).unwrap_or(f64::INFINITY));
        let cell = cell.into_iter().map(|(_, value)| &value[..]).collect();
        cells.entry(cell).or_default().push((calls, loss, delay));
    }
    cells.values_mut().for_each(|cell| cell.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let is_good =
        |(calls, loss, delay): &(f64, f64, f64)| *calls >= good && *loss < MOST_LOSS && *delay < MOST_DELAY;
    let cells = cells.values().filter(|cell| cell.iter().any(is_good));
    let rises =
        cells.flat_map(|cell| cell.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)));
    rises.map(|rise| rise * 100.0).max_by(f64::total_cmp).ok_or_else(|| format!("no {good} calls are good"))
}

/// Returns the gain in percent of calls over plain ones.
fn gain(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    Ok((limit(runs, run, AGGREGATION)? / limit(runs, "plain", 0.0)? - 1.0) * 100.0)
}

/// Returns the UDP payload in Mbit/s that all calls of one direction deliver.
fn goodput(runs: &StudyRuns, run: &str, calls: f64) -> Result<f64, String> {
    let of: Of = |value| value("flow.forth.goodput");
    Ok(at(&curve(runs, run, of, 0.0)?, calls)? / 1e6)
}

/// Returns the goodput in Mbit/s of the baseline of the uplink.
fn base(runs: &StudyRuns) -> Result<f64, String> {
    let points = runs.points("baseline-up", &At::default())?;
    let point = points.first().ok_or("no baseline")?;
    point
        .value("flow.bulk.goodput")
        .map(|value| value.estimate.mean / 1e6)
        .ok_or_else(|| "no goodput".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ir_packets_have_the_indices_of_the_equation() {
        let indices: Vec<u64> = (0..6).map(index).collect();
        assert_eq!(indices, [0, 1, 3, 6, 10, 15]);
        assert_eq!((index(N), index(10)), (465, 55));
    }
}
