//! What flows achieved.

use bentpipe_units::Span;

use super::Measure;
use super::parts::Parts;
use crate::scenario::{Flow, Scenario};
use crate::stats;

/// A flow's elements, and when it was on.
struct Ends<'a> {
    name: &'a str,
    elements: Vec<&'a str>,
    on_s: f64,
}

pub(super) fn measures(scenario: &Scenario, parts: &Parts<'_>) -> Vec<Measure> {
    let flows: Vec<Ends<'_>> = ends(scenario, parts);
    let mut measures: Vec<Measure> = flows.iter().flat_map(|flow| flow.measures(parts)).collect();
    let goodputs: Vec<f64> =
        measures.iter().filter(|m| m.name.ends_with(".goodput")).map(|m| m.value).collect();
    if goodputs.len() > 1 {
        let sum: f64 = goodputs.iter().sum();
        let squares: f64 = goodputs.iter().map(|x| x * x).sum();
        let delivered: f64 = flows.iter().filter_map(|flow| flow.delivered(parts)).sum();
        // Of all together over the whole time: flows that were on at different times never had their sum at once.
        let all = delivered * 8.0 / parts.on_s(Span::ZERO, None);
        measures.extend(Measure::new("flows.goodput", "bit/s", all));
        // R. Jain's index: one if all have the same, 1/n if one has all.
        measures.extend(Measure::new("flows.fairness", "ratio", sum * sum / squares / goodputs.len() as f64));
    }
    measures
}

/// The flows that there are elements of.
fn ends<'a>(scenario: &Scenario, parts: &Parts<'a>) -> Vec<Ends<'a>> {
    let mut flows: Vec<Ends<'a>> = Vec::new();
    for element in &parts.elements {
        let Some((name, _)) = element.strip_prefix("flow/").and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        match flows.last_mut().filter(|flow| flow.name == name) {
            Some(flow) => flow.elements.push(element),
            None => flows.push(Ends { name, elements: vec![element], on_s: on_s(scenario, name, parts) }),
        }
    }
    merge(flows)
}

/// Brings together what belongs to one flow, as its elements need not follow each other.
fn merge(flows: Vec<Ends<'_>>) -> Vec<Ends<'_>> {
    let mut places = std::collections::HashMap::new();
    let mut merged: Vec<Ends<'_>> = Vec::new();
    for flow in flows {
        let place = *places.entry(flow.name).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(known) => known.elements.extend(flow.elements),
            None => merged.push(flow),
        }
    }
    merged
}

/// How long the flow was on after the warm-up. Copy number n is called NAME.n.
fn on_s(scenario: &Scenario, name: &str, parts: &Parts<'_>) -> f64 {
    let whole = scenario.flow.get(name).map(|flow| (flow, 0));
    let copy = || {
        let (base, number) = name.rsplit_once('.')?;
        Some((scenario.flow.get(base)?, number.parse::<u64>().ok()?.saturating_sub(1)))
    };
    let span = |(flow, copy): (&Flow, u64)| parts.on_s(flow.start + flow.stagger * copy, flow.stop);
    whole.or_else(copy).map_or_else(|| parts.on_s(Span::ZERO, None), span)
}

impl Ends<'_> {
    fn measures(&self, parts: &Parts<'_>) -> Vec<Measure> {
        let bits = |bytes: f64| bytes * 8.0 / self.on_s;
        let delivered = self.delivered(parts);
        let at_sender = |names: &[&str]| self.of("sender", |element| parts.grown(element, names));
        let sender_average = |names: &[&str]| self.of("sender", |element| parts.average(element, names));
        let sender_median = |names: &[&str]| self.of("sender", |element| parts.median(element, names));
        let at_end = |name: &str| self.of("receiver", |element| parts.at_end(element, &[name]));
        let delay = || self.of("receiver", |element| parts.average(element, &["one_way_delay"]));
        let sent = at_sender(&["data_segments_sent"]);
        let values = [
            ("goodput", "bit/s", delivered.map(bits)),
            ("sent", "bit/s", at_sender(&["sent-bytes"]).map(bits)),
            (
                "retransmitted",
                "ratio",
                at_sender(&["retransmits"]).zip(sent).map(|(again, sent)| again / sent),
            ),
            ("timeouts", "count", at_sender(&["timeouts"])),
            ("loss", "ratio", at_end("loss-ratio")),
            ("goodput-p50", "bit/s", self.median_delivered(parts).map(|bytes| bytes * 8.0)),
            ("rtt", "s", sender_average(&["srtt"])),
            ("rtt-p50", "s", sender_median(&["srtt"])),
            ("cwnd", "B", sender_average(&["cwnd"])),
            ("cwnd-p50", "B", sender_median(&["cwnd"])),
            ("delay-mean", "s", at_end("delay-mean").or_else(delay)),
            ("delay-p50", "s", at_end("delay-p50")),
            ("delay-p95", "s", at_end("delay-p95")),
            ("delay-p99", "s", at_end("delay-p99")),
            ("jitter", "s", at_end("jitter")),
        ];
        let measure = |(what, unit, value): (&str, &str, Option<f64>)| {
            Measure::new(format!("flow.{}.{what}", self.name), unit, value?)
        };
        values.into_iter().filter_map(measure).collect()
    }

    /// Bytes of application data delivered.
    fn delivered(&self, parts: &Parts<'_>) -> Option<f64> {
        self.of("receiver", |element| parts.grown(element, &["bytes_delivered", "bytes"]))
    }

    /// The median over the samples of bytes delivered in a second.
    fn median_delivered(&self, parts: &Parts<'_>) -> Option<f64> {
        self.of("receiver", |element| parts.median_growth(element, &["bytes_delivered"]))
    }

    /// A value of the flow's sender or receiver; of several receivers their mean.
    fn of(&self, role: &str, value: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let has_role = |element: &&&str| element.split('/').nth(2) == Some(role);
        let values: Vec<f64> =
            self.elements.iter().filter(has_role).filter_map(|element| value(element)).collect();
        stats::mean(&values)
    }
}
