//! Samples of declared metrics, and their text for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bentpipe_net::metric::{Kind, Metric};

/// Value of a metric.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Declaration.
    pub metric: &'static Metric,
    /// Labels: names and values.
    pub labels: Vec<(&'static str, String)>,
    /// Value.
    pub value: f64,
}

impl Sample {
    /// Returns the declaration.
    pub fn metric(&self) -> &'static Metric {
        self.metric
    }

    /// Returns the value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Returns the exported name and the labels.
    pub fn place(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key} {value}")).collect();
        let name = exported(self.metric);
        if labels.is_empty() { name } else { format!("{name} of {}", labels.join(", ")) }
    }
}

/// Returns the name of a metric in JSON and, after a prefix, in Prometheus' format.
pub fn exported(metric: &Metric) -> String {
    metric.name.replace('-', "_")
}

/// Returns Prometheus' text format (version 0.0.4), each name in one piece.
///
/// They are in the order of their first samples. /// Names begin with `prefix`, and each sample has the label `common` in front of its own.
pub fn prometheus(prefix: &str, common: (&str, &str), samples: &[Sample]) -> String {
    let (mut order, mut groups) = (Vec::new(), BTreeMap::<String, Vec<&Sample>>::new());
    for sample in samples {
        let total = if sample.metric.kind == Kind::Counter { "_total" } else { "" };
        let name = format!("{prefix}_{}{total}", exported(sample.metric));
        let group = groups.entry(name.clone()).or_default();
        if group.is_empty() {
            order.push(name);
        }
        group.push(sample);
    }
    let mut text = String::new();
    for name in order {
        let group = &groups[&name];
        let metric = group[0].metric;
        let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.label);
        for sample in group {
            let own = sample.labels.iter().map(|(key, value)| (*key, value.as_str()));
            let labels = [common].into_iter().chain(own);
            let labels: Vec<String> =
                labels.map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let _ = writeln!(text, "{name}{{{}}} {}", labels.join(","), sample.value);
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
