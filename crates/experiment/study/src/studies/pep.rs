//! Gain of a splitting proxy: completion time without it divided by that with it.

use std::collections::BTreeMap;

use bentpipe_record::PointSummary;
use bentpipe_units::{Bytes, Span};

use crate::runs::{Points, StudyRuns, measure};
use crate::study::At;

use super::CurveCode;

const SIZE: &str = "flow.transfer.application.size";
const DELAY: &str = "link.space.delay";
const LOSS: &str = "link.space.forward.channel.loss";
const STATE: &str = "node.edge.role.state";

/// Curves by name.
pub(super) const CURVES: &[(&str, CurveCode)] = &[
    ("pep-gain-24-ms", |runs| gain(runs, "transfers", SIZE, &[(DELAY, "24 ms")])),
    ("pep-gain-124-ms", |runs| gain(runs, "transfers", SIZE, &[(DELAY, "124 ms")])),
    ("pep-gain-299-ms", |runs| gain(runs, "transfers", SIZE, &[(DELAY, "299 ms")])),
    ("pep-gain-50-kb", |runs| gain(runs, "transfers", DELAY, &[(SIZE, "50 kB")])),
    ("pep-gain-1-mb", |runs| gain(runs, "transfers", DELAY, &[(SIZE, "1 MB")])),
    ("pep-gain-10-mb", |runs| gain(runs, "transfers", DELAY, &[(SIZE, "10 MB")])),
    ("pep-gain-loss-50-kb", |runs| gain(runs, "losses", LOSS, &[(SIZE, "50 kB")])),
    ("pep-gain-loss-1-mb", |runs| gain(runs, "losses", LOSS, &[(SIZE, "1 MB")])),
    ("pep-gain-loss-10-mb", |runs| gain(runs, "losses", LOSS, &[(SIZE, "10 MB")])),
];

/// Returns the gain against a swept key, in rising order.
fn gain(runs: &StudyRuns, run: &str, x: &str, at: &[(&str, &str)]) -> Result<Points, String> {
    let has = |point: &PointSummary, (key, text): &(&str, &str)| setting(point, key) == Some(text);
    let mut times: BTreeMap<&str, [Option<f64>; 2]> = BTreeMap::new();
    let points = runs.points(run, &At::default())?;
    for point in points.into_iter().filter(|point| at.iter().all(|wanted| has(point, wanted))) {
        let side = usize::from(setting(point, STATE) == Some("on"));
        let text = setting(point, x).ok_or_else(|| format!("no sweep of {x}"))?;
        times.entry(text).or_default()[side] =
            Some(measure(point, "flow.transfer.completion")?.estimate.mean);
    }
    let ratio = |(text, times): (&&str, &[Option<f64>; 2])| {
        let [Some(without), Some(with)] = times else { return Err(format!("one side of {text} is missing")) };
        Ok((number(text)?, without / with))
    };
    let mut points: Points = times.iter().map(ratio).collect::<Result<_, String>>()?;
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(points)
}

fn setting<'p>(point: &'p PointSummary, key: &str) -> Option<&'p str> {
    point.settings.get(key).map(String::as_str)
}

/// Returns a value of a sweep in its base unit.
fn number(text: &str) -> Result<f64, String> {
    let bytes = || text.parse::<Bytes>().ok().map(|bytes| bytes.get() as f64);
    let span = || text.parse::<Span>().ok().map(Span::as_secs_f64);
    let plain = text.parse().ok();
    plain.or_else(bytes).or_else(span).ok_or_else(|| format!("\"{text}\" is not a number"))
}
