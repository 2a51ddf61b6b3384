//! Nodes with several copies, each with separate links and flows.

use std::borrow::Cow;

use indexmap::IndexMap;

use bentpipe_site::numbered;

use crate::{Flow, Link, Problem, Scenario};

/// Returns the number of copies of a node; one for an unknown name.
pub fn count(scenario: &Scenario, node: &str) -> u32 {
    scenario.node.get(node).map_or(1, |node| node.count)
}

/// Returns the number of copies between two ends: that of the end with more.
pub fn copies(scenario: &Scenario, ends: [&str; 2]) -> u32 {
    ends.map(|end| count(scenario, end)).into_iter().max().unwrap_or(1)
}

/// Returns the scenario with all copies expanded.
///
/// Each copy has a node, link, shared object and flow; the counts of nodes are removed.
pub fn spread(scenario: &Scenario) -> Cow<'_, Scenario> {
    if scenario.node.values().all(|node| node.count == 1) {
        return Cow::Borrowed(scenario);
    }
    let mut spread = scenario.clone();
    let copied = |name: &str, n: u32| {
        if count(scenario, name) > 1 { numbered(name, n) } else { name.to_owned() }
    };
    spread.node = IndexMap::new();
    for (name, node) in &scenario.node {
        let one = crate::Node { count: 1, ..node.clone() };
        (0..node.count).for_each(|n| drop(spread.node.insert(copied(name, n), one.clone())));
    }
    spread.link = IndexMap::new();
    for (name, link) in &scenario.link {
        match copies(scenario, [&link.between[0], &link.between[1]]) {
            1 => drop(spread.link.insert(name.clone(), link.clone())),
            several => spread.link.extend((0..several).map(|n| {
                let between = link.between.each_ref().map(|end| copied(end, n));
                (numbered(name, n), Link { between, ..copy_of(link, n) })
            })),
        }
    }
    spread.shared.spread(&|name| count(scenario, name));
    spread.role_tables.spread(&|name| count(scenario, name));
    spread.flow = IndexMap::new();
    for (name, flow) in &scenario.flow {
        let several = copies(scenario, [&flow.from, &flow.to]);
        if several == 1 {
            spread.flow.insert(name.clone(), flow.clone());
            continue;
        }
        // One after the other through the nodes, as `stagger` counts them.
        spread.flow.extend((0..several * flow.count).map(|n| {
            let (from, to) = (copied(&flow.from, n % several), copied(&flow.to, n % several));
            let start = flow.start + flow.stagger * u64::from(n);
            (numbered(name, n), Flow { from, to, start, count: 1, ..flow.clone() })
        }));
    }
    Cow::Owned(spread)
}

/// Returns copy `n` of a link.
fn copy_of(link: &Link, n: u32) -> Link {
    let mut link = link.clone();
    link.media_mut().for_each(|medium| medium.copy(n));
    link
}

/// Translates a problem of a copy to the name in the file.
pub fn in_file(scenario: &Scenario, problem: Problem) -> Problem {
    let mut parts: Vec<&str> = problem.key.split('.').collect();
    let of_file = |table: &str, name: &str| match table {
        "node" => scenario.node.contains_key(name),
        "link" => scenario.link.contains_key(name),
        "flow" => scenario.flow.contains_key(name),
        _ => false,
    };
    if let [table, name, number, ..] = parts[..]
        && of_file(table, name)
        && number.parse::<u32>().is_ok()
    {
        parts.remove(2);
    }
    Problem { key: parts.join("."), problem: problem.problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[test]
    fn copies_of_a_node_have_links_and_flows_of_their_own() {
        let text = "title = \"t\"\nduration = \"1 s\"\nnode.hub = {}\nnode.home = { count = 3 }\n\
            link.access = { between = [\"home\", \"hub\"], rate = \"1 Mbit/s\" }\n\
            flow.web = { from = \"hub\", to = \"home\", traffic = \"tcp\", count = 2, stagger = \"10 ms\" }\n";
        let scenario = Document::parse("file.toml", text.as_bytes()).and_then(|document| document.scenario());
        let scenario = scenario.unwrap_or_else(|refusal| panic!("{refusal}"));
        let spread = spread(&scenario);
        let names = |keys: indexmap::map::Keys<'_, String, Link>| keys.cloned().collect::<Vec<_>>();
        assert_eq!(names(spread.link.keys()), ["access.1", "access.2", "access.3"]);
        assert_eq!(spread.link["access.2"].between, ["home.2", "hub"]);
        let flow = &spread.flow["web.5"];
        assert_eq!((&flow.to[..], flow.start), ("home.2", bentpipe_units::Span::from_millis(40)));
        assert_eq!(spread.flow.len(), 6);
        let problem = in_file(&scenario, Problem::new("link.access.2.return.medium.cra", "x"));
        assert_eq!(problem.key, "link.access.return.medium.cra");
    }
}
