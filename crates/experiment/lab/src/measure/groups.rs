//! Measures of groups: copies of one flow, link or line.

use std::collections::HashSet;

use bentpipe_net::metric::How;
use bentpipe_record::{Measure, SubjectKind, group_of, stats};
use bentpipe_scenario::copies::Never;
use indexmap::IndexMap;

use super::run::{Summed, is_delivered};
use super::subjects::{Kind, Subject};

/// Names of the numbers of copies in a group. Those of flows that never begin come last.
const COUNTS: [&str; 4] = ["n", "of", "after-end", "after-stop"];

/// Returns `true` if a measure is a flow's goodput.
pub(super) fn is_goodput(summed: &Summed<'_>) -> bool {
    matches!(summed.sum.how, How::PerSecond) && is_delivered(summed.metric)
}

/// Returns R. Jain's index of fairness: one if all have the same, 1/n if one has all.
pub(super) fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / squares / values.len() as f64
}

/// Values of one measure of all copies.
struct Group<'a> {
    unit: &'static str,
    /// Sum over one common window, if the copies compete for it.
    sum: Option<f64>,
    values: Vec<f64>,
    name: &'a str,
    since: u32,
}

/// Returns the numbers of copies in each group.
///
/// They are those with a value, all, and of a flow those that never begin.
pub(super) fn counts(
    subjects: &[Subject<'_>],
    sums: &[&Summed<'_>],
    never: impl Fn(&str) -> Option<Never>,
) -> Vec<Measure> {
    let with_values: HashSet<&str> =
        sums.iter().filter(|summed| summed.value().is_finite()).map(|summed| summed.path).collect();
    let mut groups: IndexMap<String, (Kind, [f64; 4])> = IndexMap::new();
    for subject in subjects {
        let Some(name) = group(subject.path) else { continue };
        let (_, counts) = groups.entry(name).or_insert((subject.kind, [0.0; 4]));
        let why = if subject.kind == Kind::Flow { never(subject.path) } else { None };
        let is_counted = [
            with_values.contains(subject.path),
            true,
            why == Some(Never::BehindTheEnd),
            why == Some(Never::BehindItsStop),
        ];
        counts.iter_mut().zip(is_counted).for_each(|(count, is)| *count += f64::from(u8::from(is)));
    }
    let several = groups.into_iter().filter(|(_, (_, [_, of, ..]))| *of > 1.0);
    let measures = |(name, (kind, counts)): (String, (Kind, [f64; 4]))| {
        let kept = if kind == Kind::Flow { COUNTS.len() } else { 2 };
        let measure = |(what, count)| Measure::new(format!("group.{name}.{what}"), "count", count);
        COUNTS.into_iter().zip(counts).take(kept).filter_map(measure).collect::<Vec<_>>()
    };
    several.flat_map(measures).collect()
}

/// Returns mean, standard deviation and quantiles of each measure over a group's copies. For goodput also the sum over the window
/// of `window_s`, and Jain's index.
pub(super) fn measures(sums: &[&Summed<'_>], window_s: f64) -> Vec<Measure> {
    let mut groups: IndexMap<(String, &str), Group<'_>> = IndexMap::new();
    let is_meant = |summed: &&&Summed<'_>| summed.value().is_finite() && !summed.sum.is_setting;
    for summed in sums.iter().filter(is_meant) {
        let Some(mut of) = group(summed.path) else { continue };
        if !summed.way.is_empty() {
            of = format!("{of}.{}", summed.way);
        }
        let group = groups.entry((of, summed.sum.name)).or_insert_with(|| Group {
            unit: summed.unit().symbol(),
            sum: is_goodput(summed).then_some(0.0),
            values: Vec::new(),
            name: summed.sum.name,
            since: summed.sum.since,
        });
        group.values.push(summed.value());
        group.sum = group.sum.map(|sum| sum + summed.over(window_s));
    }
    let several = groups.into_iter().filter(|(_, group)| group.values.len() > 1);
    several.flat_map(|((of, _), group)| group.measures(&of)).collect()
}

/// Returns the name of the group that a subject is in.
///
/// That is "download" of "flow/download.3", "access.forward" of
/// "link/access.2/forward".
fn group(path: &str) -> Option<String> {
    let name = path.replace('/', ".");
    SubjectKind::of_name(&name).and_then(|(_, thing)| group_of(thing))
}

impl Group<'_> {
    fn measures(mut self, of: &str) -> Vec<Measure> {
        self.values.sort_by(f64::total_cmp);
        let mean = stats::mean(&self.values).unwrap_or(f64::NAN);
        let quantile = |q| stats::quantile(&self.values, q).unwrap_or(f64::NAN);
        let spread = [
            ("mean", mean),
            ("sd", stats::variance(&self.values).sqrt()),
            ("p5", quantile(0.05)),
            ("p50", quantile(0.5)),
            ("p95", quantile(0.95)),
        ];
        let measure = |name: &str, unit, value| {
            Measure::new(format!("group.{of}.{}.{name}", self.name), unit, value)
                .map(|measure| measure.since(self.since))
        };
        let n = measure("n", "count", self.values.len() as f64);
        let mut measures: Vec<Measure> = n.into_iter().collect();
        measures.extend(spread.into_iter().filter_map(|(name, value)| measure(name, self.unit, value)));
        if let Some(sum) = self.sum {
            measures.extend(measure("sum", self.unit, sum));
            measures.extend(measure("jain", "ratio", jain(&self.values)));
        }
        measures
    }
}
