//! Diagrams of distributions.

use bentpipe_net::metric::End;
use bentpipe_record::{Distribution, Outcome, Subject, pattern};
use indexmap::IndexMap;

use super::axis::Axis;
use super::plot::{Curve, Plot};
use super::timed;

/// Most curves of a diagram; of more flows the copies share one.
const MAX_CURVES: usize = 8;

/// Returns the distributions of delay over all seeds of a point.
pub fn plot<'a>(runs: impl Iterator<Item = &'a Outcome> + Clone) -> Option<Plot> {
    let all = || runs.clone().flat_map(|run| &run.distributions).filter(|d| d.metric == "delays");
    let mut flows = merged(all(), str::to_owned);
    if flows.len() > MAX_CURVES {
        flows = merged(all(), pattern);
    }
    let mut flows: Vec<(String, Distribution)> = flows.into_iter().collect();
    let all = flows.len();
    flows.truncate(MAX_CURVES);
    let mut plot =
        Plot::new("Distribution of the one-way delay", Axis::new("delay", "s"), Axis::new("share", ""));
    let curve = |(colour, (name, distribution)): (usize, (String, Distribution))| Curve {
        name,
        points: distribution.cumulative(),
        colour,
        ..Curve::default()
    };
    plot.curves = flows.into_iter().enumerate().map(curve).collect();
    plot.x.from_zero = false;
    if all > MAX_CURVES {
        plot.note =
            format!("Shown: the first {MAX_CURVES} of {all}; bentpipe results distributions has all.");
    }
    Some(plot.spread_x()).filter(|plot| !plot.is_empty())
}

/// Returns the distributions of flows, those of the same name added up.
fn merged<'a>(
    all: impl Iterator<Item = &'a Distribution>,
    named: impl Fn(&str) -> String,
) -> IndexMap<String, Distribution> {
    let mut merged: IndexMap<String, Distribution> = IndexMap::new();
    for distribution in all {
        let whole = &*distribution.subject;
        let flow = match (Subject::end_of_flow(whole), Subject::of_name(whole)) {
            (Some((flow, End::Receiver)), _) => flow,
            (_, Some((Subject::Flow(_), _))) => timed::without_kind(whole),
            _ => whole,
        };
        match merged.entry(named(flow)) {
            indexmap::map::Entry::Occupied(mut known) => known.get_mut().add(distribution),
            indexmap::map::Entry::Vacant(new) => {
                new.insert(distribution.clone());
            }
        }
    }
    merged
}
