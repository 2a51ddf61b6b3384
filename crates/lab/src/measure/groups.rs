//! Measures of groups: copies of one flow, link or line.

use bentpipe_net::metric::{How, Metric};
use bentpipe_record::{Measure, pattern, stats};
use bentpipe_transport::{app, tcp};
use indexmap::IndexMap;

use super::run::Summed;

/// Bytes of application data that reached a receiver.
static DELIVERED: [&Metric; 2] =
    [&tcp::metrics::DELIVERED_BYTES.metric, &app::metrics::DELIVERED_BYTES.metric];

/// Returns `true` if a measure is a flow's goodput.
pub(super) fn is_goodput(summed: &Summed<'_>) -> bool {
    matches!(summed.sum.how, How::PerSecond) && DELIVERED.iter().any(|metric| summed.metric.is(metric))
}

/// Returns R. Jain's index of fairness: one if all have the same, 1/n if one has all.
pub(super) fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / squares / values.len() as f64
}

/// Values of one measure of all copies.
struct Group<'a> {
    unit: &'static str,
    /// Set if the copies compete for it.
    is_shared: bool,
    values: Vec<f64>,
    name: &'a str,
}

/// Returns mean, standard deviation and quantiles of each measure over a group's copies. For goodput also the sum and
/// Jain's index.
pub(super) fn measures<'a>(sums: impl Iterator<Item = &'a Summed<'a>>) -> Vec<Measure> {
    let mut groups: IndexMap<(String, &str), Group<'_>> = IndexMap::new();
    for summed in sums.filter(|summed| summed.value().is_finite()) {
        let Some(of) = group(summed.path) else { continue };
        let group = groups.entry((of, summed.sum.name)).or_insert_with(|| Group {
            unit: summed.unit().symbol(),
            is_shared: is_goodput(summed),
            values: Vec::new(),
            name: summed.sum.name,
        });
        group.values.push(summed.value());
    }
    let several = groups.into_iter().filter(|(_, group)| group.values.len() > 1);
    several.flat_map(|((of, _), group)| group.measures(&of)).collect()
}

/// Returns the name of the group that a subject is in.
///
/// That is "download" of "flow/download.3", "access.forward" of
/// "link/access.2/forward".
fn group(path: &str) -> Option<String> {
    let pattern = pattern(&path.replace('/', "."));
    let (_, rest) = pattern.split_once('.')?;
    pattern.contains('*').then(|| rest.split('.').filter(|part| *part != "*").collect::<Vec<_>>().join("."))
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
        let measure =
            |name: &str, unit, value| Measure::new(format!("group.{of}.{}.{name}", self.name), unit, value);
        let mut measures: Vec<Measure> =
            spread.into_iter().filter_map(|(name, value)| measure(name, self.unit, value)).collect();
        if self.is_shared {
            measures.extend(measure("sum", self.unit, self.values.iter().sum()));
            measures.extend(measure("jain", "ratio", jain(&self.values)));
        }
        measures
    }
}
