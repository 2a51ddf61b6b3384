//! The map of a scenario's network.

use bentpipe_record::{MappedKind, MappedLink, MappedNode, NetworkMap};
use bentpipe_scenario::{NodeKind, Scenario, copies};
use bentpipe_units::Span;

use crate::budget::{Budget, LinkBudget, show};

/// Returns the nodes and links of a scenario.
pub fn network_map(scenario: &Scenario, budget: Option<&Budget>) -> NetworkMap {
    let node = |(name, node): (&String, &bentpipe_scenario::Node)| {
        let kind = match node.kind {
            NodeKind::Host => MappedKind::Host,
            NodeKind::Router => MappedKind::Router,
            NodeKind::Satellite => MappedKind::Satellite,
        };
        MappedNode { name: name.clone(), kind, copies: node.count }
    };
    let links = scenario.link.iter().filter_map(|(name, link)| {
        let number = |end: &String| scenario.node.get_index_of(copies::original(scenario, end)?);
        let [from, to] = link.between.each_ref().map(number);
        Some(MappedLink { name: name.clone(), between: [from?, to?], label: label(name, budget) })
    });
    NetworkMap { nodes: scenario.node.iter().map(node).collect(), links: links.collect() }
}

/// Returns rate and delay of a link; those of both directions if they differ.
fn label(name: &str, budget: Option<&Budget>) -> String {
    let of = |direction: &str| -> Option<&LinkBudget> {
        budget?.links.iter().find(|link| link.name == name && link.direction == direction)
    };
    let (forward, back) = match (of("forward"), of("return")) {
        (Some(forward), Some(back)) => (forward, back),
        // A one-way link.
        (Some(one), None) | (None, Some(one)) => (one, one),
        (None, None) => return String::new(),
    };
    let both = |[there, back]: [String; 2]| {
        if there == back { there } else { format!("{there} / {back}") }
    };
    let delay = |delay: Span| if delay == Span::ZERO { String::new() } else { delay.to_string() };
    let parts =
        [both([forward.rate, back.rate].map(show::rate)), both([forward.delay, back.delay].map(delay))];
    parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join(", ")
}
