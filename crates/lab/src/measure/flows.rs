//! What flows achieved.

use bentpipe_units::Span;

use super::Measure;
use super::parts::Parts;
use crate::scenario::{Flow, Scenario};

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
        measures.extend(Measure::new("flows.goodput", "bit/s", sum));
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
        let bits = |names: &[&str]| self.grown(parts, names).map(|bytes| bytes * 8.0 / self.on_s);
        let sent = self.grown(parts, &["segments-sent", "sent"]);
        let share = |names: &[&str]| Some(self.grown(parts, names)? / sent?);
        let end = |name: &str| self.at_end(parts, name);
        let values = [
            ("goodput", "bit/s", bits(&["delivered-bytes", "bytes"])),
            ("throughput", "bit/s", bits(&["sent-bytes"])),
            ("retransmitted", "ratio", share(&["retransmits"])),
            ("timeouts", "count", self.grown(parts, &["timeouts"])),
            ("loss", "ratio", end("loss-ratio")),
            ("rtt", "s", self.average(parts, &["rtt", "srtt"])),
            ("cwnd", "B", self.average(parts, &["cwnd"])),
            ("delay-mean", "s", end("delay-mean")),
            ("delay-p50", "s", end("delay-p50")),
            ("delay-p95", "s", end("delay-p95")),
            ("delay-p99", "s", end("delay-p99")),
            ("jitter", "s", end("jitter")),
            ("finished", "s", end("finished")),
        ];
        let measure = |(what, unit, value): (&str, &str, Option<f64>)| {
            Measure::new(format!("flow.{}.{what}", self.name), unit, value?)
        };
        values.into_iter().filter_map(measure).collect()
    }

    fn grown(&self, parts: &Parts<'_>, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| self.elements.iter().find_map(|element| parts.grown(element, &[name])))
    }

    fn at_end(&self, parts: &Parts<'_>, name: &str) -> Option<f64> {
        self.elements.iter().find_map(|element| parts.at_end(element, &[name]))
    }

    fn average(&self, parts: &Parts<'_>, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| self.elements.iter().find_map(|element| parts.average(element, &[name])))
    }
}
