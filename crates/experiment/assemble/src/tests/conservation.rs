//! Packets are conserved in every shipped scenario: what goes into a link or node comes out, or is counted with a reason.
//! The account of each sender closes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use bentpipe_net::ledger::Entry;
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{Observer, Port, Why};
use bentpipe_scenario::NodeKind;
use bentpipe_sim::{ElementId, Statement};

use super::*;

/// Start and end of all flows.
const FLOWS: [&str; 2] = ["start=0 s", "stop=4 s"];
/// End of the run.
const END: u64 = 30;
/// Counters of packets that end in a link. Causes of `dropped-queue` are counted again by name.
const DROPS: [&str; 6] =
    ["dropped-queue", "dropped-too-big", "dropped-retries", "dropped-by-filter", "dropped-refused", "lost"];
/// Gauges of packets that are still in a link.
const WAITING: [&str; 3] = ["queue", "in-flight", "held"];
/// Counters of packets that end at a node.
const NODE_DROPS: [&str; 8] = [
    "dropped-no-route",
    "dropped-hop-limit",
    "dropped-bad-checksum",
    "dropped-bad-header",
    "dropped-too-big",
    "dropped-no-listener",
    "dropped-reassembly",
    "dropped-no-member",
];

/// Final values by path of the part and name.
#[derive(Default)]
struct Values {
    part: String,
    found: BTreeMap<(String, &'static str), u64>,
}

impl Values {
    /// Returns the sum over all parts of an element or link, and the names.
    fn sum(&self, path: &str, names: &[&str]) -> u64 {
        // Bundle nodes count bundles by the names that nodes have for packets.
        let is_of = |rest: &str| rest.is_empty() || rest.starts_with('/') && rest != "/dtn";
        let is_meant = |part: &str| part.strip_prefix(path).is_some_and(is_of);
        let meant = self.found.iter().filter(|((part, name), _)| is_meant(part) && names.contains(name));
        meant.map(|(_, value)| value).sum()
    }
}

impl Observer for Values {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        *self.found.entry((self.part.clone(), metric.name)).or_default() += total;
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.found.insert((self.part.clone(), metric.name), value as u64);
    }
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.part);
    }
    /// Their packets are among those of the whole queue.
    fn class(&mut self, _: &str) {
        self.part = "classes".to_owned();
    }
}

/// Returns the shipped scenarios.
fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let files = std::fs::read_dir(folder).expect("scenarios").map(|entry| entry.expect("a file").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files
}

/// Returns a scenario whose flows end early, without copies.
fn shortened(path: &Path) -> Scenario {
    let mut document = bentpipe_paths::document(path).expect("TOML");
    let flows: Vec<String> = checked(&document).expect("a scenario").flow.keys().cloned().collect();
    for (flow, key) in flows.iter().flat_map(|flow| FLOWS.map(|key| (flow, key))) {
        // Some flows have no such key.
        let _ = document.set(&format!("flow.{flow}.{key}"));
    }
    document.set(&format!("duration={END} s")).expect("a duration");
    document.set("probe.warm_up=0 s").expect("a warm-up");
    copies::spread(&checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"))).into_owned()
}

/// Counts packets at an input.
fn tap(built: &mut Built, (element, port): (ElementId, Port)) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&count);
    built.network.tap(element, port, move |_, _| {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    count
}

/// Returns the interface of a node to a link: interfaces have the order of the file.
fn interface(scenario: &Scenario, link: &str, node: &str) -> Port {
    let mut links = scenario.link.iter().filter(|(_, link)| link.between.iter().any(|end| end == node));
    Port(links.position(|(name, _)| name == link).expect("a link of the node") as u16)
}

/// Returns the packets into and out of each direction of a link after a run, with all final values.
fn run(scenario: &Scenario, built: &mut Built) -> (Vec<[u64; 2]>, Values) {
    let sides = built.sides.clone();
    let taps: Vec<_> = sides
        .iter()
        .map(|side| {
            let to = built.nodes.iter().find(|node| node.name == side.to).expect("a node").element;
            [side.input, (to, interface(scenario, &side.name, &side.to))].map(|input| tap(built, input))
        })
        .collect();
    built.network.run_until(at(END));
    let mut values = Values::default();
    for id in built.network.ids() {
        built.network.path(id).clone_into(&mut values.part);
        built.network.observe(id, &mut values);
    }
    let counts = taps.into_iter().map(|pair| pair.map(|count| count.load(Ordering::Relaxed)));
    (counts.collect(), values)
}

/// Returns `true` if a link carries packets one by one, and not in units or cells that are lost with parts of some.
fn is_of_packets(scenario: &Scenario, link: &str) -> bool {
    let link = &scenario.link[link];
    let media = [&link.medium, &link.forward.medium, &link.reverse.medium].into_iter().flatten();
    media.into_iter().all(|medium| !matches!(medium, Medium::Dvb(_) | Medium::Vc(_) | Medium::Space(_)))
}

/// Lists the directions of links that lose or make packets without a counter.
fn faults_of_links(scenario: &Scenario, built: &Built, counts: &[[u64; 2]], values: &Values) -> Vec<String> {
    let mut faults = Vec::new();
    for (side, [into, out]) in built.sides.iter().zip(counts) {
        let path = side.path();
        let ended = values.sum(&path, &DROPS) + values.sum(&path, &WAITING);
        let most = into + values.sum(&path, &["duplicated"]);
        // Channels of units and cells count those, not packets.
        let drops = values.sum(&path, &DROPS[..5]);
        let is_right =
            if is_of_packets(scenario, &side.name) { out + ended == most } else { out + drops <= most };
        if !is_right {
            faults.push(format!("{path}: {into} in, {out} out, {ended} dropped, lost or waiting"));
        }
    }
    faults
}

/// Lists the nodes that lose or make packets without a counter.
fn faults_of_nodes(scenario: &Scenario, built: &Built, counts: &[[u64; 2]], values: &Values) -> Vec<String> {
    let mut faults = Vec::new();
    for node in &built.nodes {
        let to_it = built.sides.iter().zip(counts).filter(|(side, _)| side.to == node.name);
        let into: u64 = to_it.map(|(_, [_, out])| out).sum();
        let path = format!("node/{}", node.name);
        let count = |names: &[&str]| values.sum(&path, names);
        let ended = count(&["delivered", "icmp-received", "segments-ended"]) + count(&NODE_DROPS);
        // A bundle node takes packets and makes others, as a host does.
        let has_bundles = values.found.keys().any(|(part, _)| *part == format!("{path}/dtn"));
        let is_host = has_bundles || scenario.node[&node.name].kind == NodeKind::Host;
        // What a host forwards is from its own endpoints; a router's own packets are ICMP, and segments of its proxy.
        let made = if is_host { 0 } else { count(&["icmp-sent", "segments-made"]) };
        let forwarded = if is_host { 0 } else { count(&["forwarded"]) };
        // Packets to a group are forwarded or delivered once for each branch.
        let (known, found) = (into + made, ended + forwarded);
        if known > found || known < found && scenario.group.is_empty() {
            faults.push(format!("{path}: {into} in, {made} made, {ended} ended, {forwarded} forwarded"));
        }
    }
    faults
}

/// Lists the accounts that do not close, or have packets whose end no element declared.
fn faults_of_accounts(statements: &[Statement]) -> Vec<String> {
    let is_open = |statement: &&Statement| {
        let undeclared = statement.sum(|entry| entry == Entry::Dropped(Why::Undeclared));
        let is_negative = statement.entries.iter().any(|(.., count)| *count < 0);
        statement.elsewhere() != 0 || undeclared != 0 || is_negative
    };
    statements.iter().filter(is_open).map(|statement| format!("{statement:?}")).collect()
}

#[test]
fn what_does_not_arrive_is_counted_in_every_shipped_scenario() {
    for path in shipped() {
        let scenario = shortened(&path);
        let mut built = Built::new(&scenario, 1, &bentpipe_paths::any_file(path.parent().expect("a folder")))
            .expect("builds");
        let (counts, values) = run(&scenario, &mut built);
        let mut faults = faults_of_links(&scenario, &built, &counts, &values);
        faults.extend(faults_of_nodes(&scenario, &built, &counts, &values));
        // The first contact of deep space is after the end of a shortened run, and so is the arrival of a query on Mars.
        let waits = ["deep-space.toml", "sensor-field.toml"].iter().any(|name| path.ends_with(name));
        assert!(
            waits || counts.iter().any(|[into, _]| *into > 100),
            "{}: next to no packets",
            path.display()
        );
        let statements = built.network.close();
        faults.extend(faults_of_accounts(&statements));
        let is_used = |statement: &Statement| statement.account.delivered > 100;
        assert!(waits || statements.iter().any(is_used), "{}: next to no accounts", path.display());
        assert!(faults.is_empty(), "{}: {faults:#?}", path.display());
    }
}
