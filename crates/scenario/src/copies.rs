//! Nodes with several copies, each with separate links and flows.

use std::borrow::Cow;

use indexmap::IndexMap;

use bentpipe_site::numbered;
use bentpipe_units::{RandomStream, Span};

use crate::{Flow, Link, Problem, Scenario};

/// Returns the number of copies of a node; one for an unknown name.
pub fn count(scenario: &Scenario, node: &str) -> u32 {
    scenario.node.get(node).map_or(1, |node| node.count)
}

/// Returns the node of the file that a name means. It is the one of that name, or that of a copy: "home" of "home.3".
pub fn original<'a>(scenario: &Scenario, name: &'a str) -> Option<&'a str> {
    if scenario.node.contains_key(name) {
        return Some(name);
    }
    let (node, number) = name.rsplit_once('.')?;
    let copies = scenario.node.get(node)?.count;
    let number: u32 = number.parse().ok().filter(|_| !number.starts_with(['0', '+']))?;
    (copies > 1 && number <= copies).then_some(node)
}

/// Returns original and number, from zero, of a copy with settings of its own.
fn apart<'a, T>(table: &IndexMap<String, T>, name: &'a str) -> Option<(&'a str, u32)> {
    let (original, number) = name.rsplit_once('.')?;
    let number: u32 = number.parse().ok().filter(|number| *number > 0)?;
    table.contains_key(original).then_some((original, number - 1))
}

/// Numbers the media of links that are copies with settings of their own.
pub(crate) fn set_apart(scenario: &mut Scenario) {
    let numbered: Vec<(String, u32)> = scenario
        .link
        .keys()
        .filter_map(|name| Some((name.clone(), apart(&scenario.link, name)?.1)))
        .collect();
    for (name, number) in numbered {
        scenario.link[&name].media_mut().for_each(|medium| medium.copy(number));
    }
}

/// Returns the link of which one is a copy with settings of its own.
pub(crate) fn link_of<'a>(scenario: &Scenario, name: &'a str) -> Option<&'a str> {
    apart(&scenario.link, name).map(|(link, _)| link)
}

/// Returns the number of copies between two ends: that of the end with more.
pub fn copies(scenario: &Scenario, ends: [&str; 2]) -> u32 {
    ends.map(|end| count(scenario, end)).into_iter().max().unwrap_or(1)
}

/// Returns the start of a flow's copy number `n`, from zero, with a seed.
pub fn start(scenario: &Scenario, (name, flow): (&str, &Flow), n: u64, seed: u64) -> Span {
    let several = u64::from(copies(scenario, [&flow.from, &flow.to]));
    let start = fixed_start(flow, n, several);
    if flow.start_spread.is_zero() {
        return start;
    }
    let name = match u64::from(flow.count) * several {
        1 => Cow::Borrowed(name),
        _ => Cow::Owned(format!("{name}.{}", n + 1)),
    };
    let part = RandomStream::new(seed, &format!("flow/{name}/start")).unit();
    start + flow.start_spread.mul_f64(part)
}

/// Returns the start of a copy without its random delay. Copies go round the copies of the node.
fn fixed_start(flow: &Flow, n: u64, several: u64) -> Span {
    flow.start + flow.stagger * n + flow.node_stagger * (n % several.max(1))
}

/// Returns the scenario with all copies expanded.
///
/// Each copy has a node, link, shared object and flow; the counts of nodes are removed.
pub fn spread(scenario: &Scenario) -> Cow<'_, Scenario> {
    if scenario.node.values().all(|node| node.count == 1) {
        return Cow::Borrowed(scenario);
    }
    let (node, link, flow) = (&scenario.node, &scenario.link, &scenario.flow);
    let mut spread = scenario.clone();
    let copied = |name: &str, n: u32| {
        if count(scenario, name) > 1 { numbered(name, n) } else { name.to_owned() }
    };
    spread.node = IndexMap::new();
    for (name, node) in node.iter().filter(|(name, _)| apart(node, name).is_none()) {
        let one = crate::Node { count: 1, ..node.clone() };
        for copy in (0..node.count).map(|n| copied(name, n)) {
            let own = scenario.node.get(&copy).filter(|_| node.count > 1).unwrap_or(&one);
            spread.node.insert(copy, own.clone());
        }
    }
    spread.link = IndexMap::new();
    for (name, link) in link.iter().filter(|(name, _)| apart(link, name).is_none()) {
        match copies(scenario, [&link.between[0], &link.between[1]]) {
            1 => drop(spread.link.insert(name.clone(), link.clone())),
            several => spread.link.extend((0..several).map(|n| {
                let between = link.between.each_ref().map(|end| copied(end, n));
                let copy = numbered(name, n);
                let own = scenario.link.get(&copy).cloned();
                (copy, own.unwrap_or_else(|| Link { between, ..copy_of(link, n) }))
            })),
        }
    }
    spread.shared.spread(&|name| count(scenario, name));
    spread.role_tables.spread(&|name| count(scenario, name));
    for group in spread.group.values_mut() {
        let copies = |name: &String| (0..count(scenario, name)).map(|n| copied(name, n)).collect::<Vec<_>>();
        group.members = group.members.iter().flat_map(copies).collect();
    }
    spread.flow = IndexMap::new();
    for (name, flow) in flow.iter().filter(|(name, _)| apart(flow, name).is_none()) {
        let several = copies(scenario, [&flow.from, &flow.to]);
        if several == 1 {
            spread.flow.insert(name.clone(), flow.clone());
            continue;
        }
        // One after the other through the nodes, as `stagger` counts them.
        spread.flow.extend((0..several * flow.count).map(|n| {
            let (from, to) = (copied(&flow.from, n % several), copied(&flow.to, n % several));
            let copy = numbered(name, n);
            let settings = scenario.flow.get(&copy).unwrap_or(flow);
            let start = fixed_start(settings, n.into(), several.into());
            (copy, Flow { from, to, start, count: 1, ..settings.clone() })
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
    fn flows_and_links_may_end_at_one_copy() {
        let text = "title = \"t\"\nduration = \"1 s\"\nnode.hub = {}\nnode.shop = {}\nnode.home = { count = 3 }\n\
            link.access = { between = [\"home\", \"hub\"], rate = \"1 Mbit/s\" }\n\
            link.lan = { between = [\"home.2\", \"shop\"], rate = \"1 Mbit/s\" }\n\
            flow.web = { from = \"hub\", to = \"home.3\", traffic = \"tcp\" }\n";
        let read = |text: &str| {
            Document::parse("file.toml", text.as_bytes()).and_then(|document| document.scenario())
        };
        let scenario = read(text).unwrap_or_else(|refusal| panic!("{refusal}"));
        let spread = spread(&scenario);
        assert_eq!((spread.flow.len(), &spread.flow["web"].to[..]), (1, "home.3"));
        assert_eq!(spread.link["lan"].between, ["home.2", "shop"]);
        let refused =
            |from: &str, to: &str| read(&text.replace(from, to)).err().map(|error| error.to_string());
        let missing = refused("\"home.3\"", "\"home.4\"").unwrap_or_default();
        assert!(missing.contains("no node is called \"home.4\""), "{missing}");
        assert!(
            refused("\"home.3\"", "\"home.03\"").is_some() && refused("\"home.3\"", "\"hub.1\"").is_some()
        );
        let itself = refused("[\"home.2\", \"shop\"]", "[\"home.2\", \"home\"]").unwrap_or_default();
        assert!(itself.contains("both ends are \"home\""), "{itself}");
    }

    #[test]
    fn a_copy_may_have_settings_of_its_own() {
        let text = "title = \"t\"\nduration = \"9 s\"\n[node.hub]\n[node.home]\ncount = 3\n\
            [dvb.sky]\nkind = \"dvb-s\"\nsymbol_rate = 1_000_000\n\
            [link.access]\nbetween = [\"hub\", \"home\"]\ndelay = \"250 ms\"\nforward.medium = { kind = \"dvb\", line = \"sky\", \
            pid = \"0x201\", encapsulation = \"ule\" }\nreturn.rate = \"1 Mbit/s\"\n\
            [link.access.2]\nreturn.rate = \"2 Mbit/s\"\nforward.medium.packing = \"1 ms\"\n\
            [node.home.3]\nkind = \"router\"\n\
            [flow.web]\nfrom = \"hub\"\nto = \"home\"\ntraffic = \"tcp\"\n[flow.web.1]\nstart = \"5 s\"\n";
        let read = |text: &str| {
            Document::parse("file.toml", text.as_bytes()).and_then(|document| document.scenario())
        };
        let scenario = read(text).unwrap_or_else(|refusal| panic!("{refusal}"));
        let spread = spread(&scenario);
        assert_eq!(spread.node.keys().collect::<Vec<_>>(), ["hub", "home.1", "home.2", "home.3"]);
        assert_eq!(spread.link.keys().collect::<Vec<_>>(), ["access.1", "access.2", "access.3"]);
        let rates =
            spread.link.iter().map(|(name, link)| link.side(name, bentpipe_site::Way::Return).line.rate);
        let rates: Vec<u64> = rates.flatten().map(|rate| rate.as_bps()).collect();
        assert_eq!(rates, [1_000_000, 2_000_000, 1_000_000]);
        assert_eq!(spread.link["access.2"].between, ["hub", "home.2"]);
        let pids: std::collections::BTreeSet<String> =
            spread.link.values().map(|link| format!("{:?}", link.forward.medium)).collect();
        assert_eq!(pids.len(), 3, "each has its PID");
        assert_eq!(
            [spread.node["home.2"].kind, spread.node["home.3"].kind],
            [crate::NodeKind::Host, crate::NodeKind::Router]
        );
        let starts: Vec<u64> =
            spread.flow.values().map(|flow| flow.start.as_nanos() / 1_000_000_000).collect();
        assert_eq!(starts, [5, 0, 0]);
        let refused =
            |from: &str, to: &str| read(&text.replace(from, to)).err().map(|error| error.to_string());
        assert!(
            refused("[link.access.2]", "[link.access.4]").is_some_and(|text| text.contains("link.access.4"))
        );
        let wrong = refused("\"2 Mbit/s\"", "\"2 Mbit\"").unwrap_or_default();
        assert!(wrong.contains("file.toml:15:"), "{wrong}");
    }

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
