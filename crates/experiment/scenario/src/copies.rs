//! Nodes with several copies, each with separate links and flows.

use std::borrow::Cow;

use indexmap::IndexMap;

use bentpipe_site::numbered;
use bentpipe_units::{RandomStream, Span};

use crate::{Difference, Flow, Link, Node, Problem, Scenario};

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
pub fn apart<'a, T>(table: &IndexMap<String, T>, name: &'a str) -> Option<(&'a str, u32)> {
    let (original, number) = name.rsplit_once('.')?;
    let number: u32 = number.parse().ok().filter(|number| *number > 0)?;
    table.contains_key(original).then_some((original, number - 1))
}

/// Numbers the media of links that are copies with settings of their own.
pub(crate) fn set_apart(links: &mut IndexMap<String, Link>) {
    let numbered: Vec<(String, u32)> =
        links.keys().filter_map(|name| Some((name.clone(), apart(links, name)?.1))).collect();
    for (name, number) in numbered {
        links[&name].media_mut().for_each(|medium| medium.copy(number));
    }
}

/// Returns the link of which one is a copy with settings of its own.
pub fn link_of<'a>(scenario: &Scenario, name: &'a str) -> Option<&'a str> {
    apart(&scenario.link, name).map(|(link, _)| link)
}

/// Returns the number of copies between two ends: that of the end with more.
pub fn copies(scenario: &Scenario, ends: [&str; 2]) -> u32 {
    ends.map(|end| count(scenario, end)).into_iter().max().unwrap_or(1)
}

/// Returns the number of links, copies counted.
pub(crate) fn links(scenario: &Scenario) -> usize {
    let link = |(name, link): (&String, &Link)| {
        let copies = copies(scenario, [&link.between[0], &link.between[1]]) as usize;
        if apart(&scenario.link, name).is_some() { 0 } else { copies }
    };
    scenario.link.iter().map(link).sum()
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

/// Returns the numbers, from zero, of the copies with the settings of a flow.
///
/// Those with settings of their own are flows of the file too.
pub fn of(scenario: &Scenario, (name, flow): (&str, &Flow)) -> Vec<u64> {
    if let Some((_, n)) = apart(&scenario.flow, name) {
        return vec![n.into()];
    }
    let all = u64::from(flow.count) * u64::from(copies(scenario, [&flow.from, &flow.to]));
    let is_alike = |n: &u64| all == 1 || !scenario.flow.contains_key(&format!("{name}.{}", n + 1));
    (0..all).filter(is_alike).collect()
}

/// Returns the name of a flow's copy number `n`, from zero.
///
/// It is NAME.N, or NAME without other copies.
pub fn name_of(scenario: &Scenario, (name, flow): (&str, &Flow), n: u64) -> String {
    let all = u64::from(flow.count) * u64::from(copies(scenario, [&flow.from, &flow.to]));
    let is_one = all == 1 || apart(&scenario.flow, name).is_some();
    if is_one { name.to_owned() } else { format!("{name}.{}", n + 1) }
}

/// Returns the start of a flow's copy number `n`, from zero.
///
/// # Errors
/// Returns [`Never`] if it would start at the end of the run or later, or at its stop or later.
pub fn begin(scenario: &Scenario, flow: (&str, &Flow), n: u64, seed: u64) -> Result<Span, Never> {
    let at = start(scenario, flow, n, seed);
    match flow.1.stop {
        _ if at >= scenario.duration => Err(Never::BehindTheEnd),
        Some(stop) if at >= stop => Err(Never::BehindItsStop),
        _ => Ok(at),
    }
}

/// Cause for which a flow or a copy never begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {
    /// Start at the end of the run or later.
    BehindTheEnd,
    /// Start at its stop or later.
    BehindItsStop,
}

/// Returns the numbers of a flow's copies that run, and of the others.
///
/// Those would start after the end, or after their stop.
pub fn started(scenario: &Scenario, (name, flow): (&str, &Flow), seed: u64) -> [u64; 3] {
    let mut counts = [0; 3];
    for n in of(scenario, (name, flow)) {
        let place = match begin(scenario, (name, flow), n, seed) {
            Ok(_) => 0,
            Err(Never::BehindTheEnd) => 1,
            Err(Never::BehindItsStop) => 2,
        };
        counts[place] += 1;
    }
    counts
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
    (spread.node, spread.link, spread.flow) = (IndexMap::new(), IndexMap::new(), IndexMap::new());
    for (name, node) in node.iter().filter(|(name, _)| apart(node, name).is_none()) {
        spread.node.extend(copies_of_node(scenario, name, node));
    }
    // Their tables are large: none has room that stays empty.
    spread.link.reserve_exact(links(scenario));
    for (name, link) in link.iter().filter(|(name, _)| apart(link, name).is_none()) {
        spread.link.extend(copies_of_link(scenario, name, link));
    }
    spread.shared.spread(&|name| count(scenario, name));
    spread.role_tables.spread(&|name| count(scenario, name));
    for group in spread.group.values_mut() {
        let copies =
            |name: &String| (0..count(scenario, name)).map(|n| copied(scenario, name, n)).collect::<Vec<_>>();
        group.members = group.members.iter().flat_map(copies).collect();
    }
    for (name, flow) in flow.iter().filter(|(name, _)| apart(flow, name).is_none()) {
        spread.flow.extend(copies_of_flow(scenario, name, flow));
    }
    Cow::Owned(spread)
}

/// Returns the number of nodes, links and flows that a difference changes, copies counted.
pub(crate) fn changed(scenario: &Scenario, difference: &Difference) -> usize {
    let Difference { node, link, flow, shared, .. } = difference;
    let nodes: usize = node.iter().map(|(_, node)| node.count as usize).sum();
    let of_link = |link: &Link| copies(scenario, [&link.between[0], &link.between[1]]) as usize;
    let of_flow = |flow: &Flow| flow.count as usize * copies(scenario, [&flow.from, &flow.to]) as usize;
    let links: usize = link.iter().map(|(_, link)| of_link(link)).sum();
    let flows: usize = flow.iter().map(|(_, flow)| of_flow(flow)).sum();
    nodes + links + flows + usize::from(shared.is_some())
}

/// Returns the difference between scenarios with all copies expanded. `scenario` is that after it, before expansion.
pub fn spread_difference(scenario: &Scenario, difference: &Difference) -> Difference {
    let Difference { node, link, flow, shared, is_more } = difference;
    let mut spread = Difference { is_more: *is_more, ..Difference::default() };
    for (name, node) in node {
        match apart(&scenario.node, name) {
            Some(_) => spread.node.push((name.clone(), node.clone())),
            None => spread.node.extend(copies_of_node(scenario, name, node)),
        }
    }
    for (name, link) in link {
        match apart(&scenario.link, name) {
            Some(_) => spread.link.push((name.clone(), link.clone())),
            None => spread.link.extend(copies_of_link(scenario, name, link)),
        }
    }
    for (name, own) in flow {
        let (name, of) = match apart(&scenario.flow, name) {
            Some((name, _)) => (name, &scenario.flow[name]),
            None => (name.as_str(), own),
        };
        spread.flow.extend(copies_of_flow(scenario, name, of));
    }
    spread.shared.clone_from(shared);
    spread.shared.iter_mut().for_each(|shared| shared.spread(&|name| count(scenario, name)));
    spread
}

/// Returns the name of copy `n` of a node.
fn copied(scenario: &Scenario, name: &str, n: u32) -> String {
    if count(scenario, name) > 1 { numbered(name, n) } else { name.to_owned() }
}

fn copies_of_node<'a>(
    scenario: &'a Scenario,
    name: &'a str,
    node: &'a Node,
) -> impl Iterator<Item = (String, Node)> {
    (0..node.count).map(move |n| {
        let copy = copied(scenario, name, n);
        let own = scenario.node.get(&copy).filter(|_| node.count > 1);
        let own = own.cloned().unwrap_or_else(|| Node { count: 1, ..node.clone() });
        (copy, own)
    })
}

fn copies_of_link<'a>(
    scenario: &'a Scenario,
    name: &'a str,
    link: &'a Link,
) -> impl Iterator<Item = (String, Link)> {
    let several = copies(scenario, [&link.between[0], &link.between[1]]);
    (0..several).map(move |n| {
        if several == 1 {
            return (name.to_owned(), link.clone());
        }
        let between = link.between.each_ref().map(|end| copied(scenario, end, n));
        let copy = numbered(name, n);
        let own = scenario.link.get(&copy).cloned();
        (copy, own.unwrap_or_else(|| Link { between, ..copy_of(link, n) }))
    })
}

fn copies_of_flow<'a>(
    scenario: &'a Scenario,
    name: &'a str,
    flow: &'a Flow,
) -> impl Iterator<Item = (String, Flow)> {
    let several = copies(scenario, [&flow.from, &flow.to]);
    // One after the other through the nodes, as `stagger` counts them.
    let count = if several == 1 { 1 } else { several * flow.count };
    (0..count).map(move |n| {
        if several == 1 {
            return (name.to_owned(), flow.clone());
        }
        let [from, to] = [&flow.from, &flow.to].map(|end| copied(scenario, end, n % several));
        let copy = numbered(name, n);
        let settings = scenario.flow.get(&copy).unwrap_or(flow);
        let start = fixed_start(settings, n.into(), several.into());
        (copy, Flow { from, to, start, count: 1, ..settings.clone() })
    })
}

/// Returns copy `n` of a link.
pub(crate) fn copy_of(link: &Link, n: u32) -> Link {
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
