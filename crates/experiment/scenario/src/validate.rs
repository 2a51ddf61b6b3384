//! Checks beyond types and schema: names that must exist, amounts that must be consistent.

use std::collections::BTreeSet;
use std::rc::Rc;

use bentpipe_site::{Copies, MAX_DELAY, Named, Problem, Scope, Way, stage};
use bentpipe_units::Span;
use bentpipe_voice::aggregate::Outer;
use indexmap::{IndexMap, IndexSet};

use super::check::join;
use super::copies;
use super::error::Diagnostic;
use super::media::{Medium, Shared};
use super::place::NAMED;
use super::schema::{Difference, Flow, Link, Scenario};
use super::sides::{Layout, Side};
use super::stages::Stages;
use super::suggest;
use super::tree::{Node as Tree, Table};

/// The longest simulated time.
pub(crate) const MAX_DURATION: Span = Span::from_secs(366 * 86_400);
/// The most nodes and links of one scenario.
pub(crate) const MAX_NODES: u64 = 20_000;
/// The most links of one scenario, copies counted.
pub(crate) const MAX_LINKS: usize = 40_000;
/// The most flows of one scenario, copies counted.
pub(crate) const MAX_FLOWS: u64 = 100_000;
/// The most samples that a probe takes of each value.
pub(crate) const MAX_SAMPLES: u64 = 10_000_000;
/// Message about a role at a real host.
pub const REAL_HOST: &str =
    "a real host has programs in place of roles: expected a simulated router, the host behind it";

/// Tables whose entries may be copies with settings of their own: "access.3".
const COPIED: [&str; 3] = ["node", "link", "flow"];

/// Checks `scenario`, which was made from `tree`, and returns the errors.
pub(crate) fn validate(scenario: &Scenario, tree: &Tree) -> Vec<Diagnostic> {
    let mut review = Review { scenario, tree, is_later: false, diagnostics: Vec::new() };
    review.amounts();
    review.names();
    scenario.link.iter().for_each(|(name, link)| review.link(&join("link", name), link));
    review.pairs("tunnel", scenario.tunnel.iter().map(|(name, tunnel)| (name, &tunnel.between)));
    review.groups();
    review.copies();
    let names = scenario.node.keys().map(String::as_str).collect();
    review.kinds(&Layout::new(scenario), &Part::all(scenario), Rc::new(names));
    scenario.flow.iter().for_each(|(name, flow)| review.flow(&join("flow", name), flow));
    review.probe();
    review.diagnostics
}

/// Checks the state of a scenario after an event, which was valid before. `tree` has the entries that the event changed.
pub(crate) fn validate_difference(
    layout: &Layout<'_>,
    tree: &Tree,
    difference: &Difference,
    names: Rc<IndexSet<&str>>,
) -> Vec<Diagnostic> {
    let scenario = layout.scenario();
    let mut review = Review { scenario, tree, is_later: true, diagnostics: Vec::new() };
    let Difference { node, link, flow, shared, .. } = difference;
    link.iter().for_each(|(name, link)| review.link(&join("link", name), link));
    flow.iter().for_each(|(name, flow)| review.flow(&join("flow", name), flow));
    let changed: Vec<usize> = link.iter().filter_map(|(name, _)| scenario.link.get_index_of(name)).collect();
    let is_alone = |n: usize| layout.pair(n).iter().all(|side| side.medium.is_alone());
    // What links share is checked with all of them.
    let is_shared = shared.is_some() || !changed.iter().all(|n| is_alone(*n));
    let others = (0..if is_shared { scenario.link.len() } else { 0 }).filter(|n| !is_alone(*n));
    let links: BTreeSet<usize> = changed.into_iter().chain(others).collect();
    let none = Shared::default();
    let part = Part {
        links: links.into_iter().collect(),
        shared: if is_shared { &scenario.shared } else { &none },
        nodes: node.iter().map(|(name, _)| name.as_str()).collect(),
        flows: flow.iter().map(|(name, _)| name.as_str()).collect(),
    };
    review.kinds(layout, &part, names);
    let facts = Medium::facts(&layout.members_of(part.links.iter().copied()), part.shared);
    facts.err().into_iter().for_each(|Problem { key, problem }| review.report(&key, problem));
    review.diagnostics
}

/// Part of a scenario whose kinds are checked.
struct Part<'a> {
    /// Numbers of the links.
    links: Vec<usize>,
    shared: &'a Shared,
    nodes: Vec<&'a str>,
    flows: Vec<&'a str>,
}

impl<'a> Part<'a> {
    fn all(scenario: &'a Scenario) -> Part<'a> {
        Part {
            links: (0..scenario.link.len()).collect(),
            shared: &scenario.shared,
            nodes: scenario.node.keys().map(String::as_str).collect(),
            flows: scenario.flow.keys().map(String::as_str).collect(),
        }
    }
}

/// Checks that PPP frames in place of packets are on a line.
fn frames(side: &Side, review: &mut bentpipe_site::Review<'_>) {
    let is_ppp = side.stages.aggregate.is_some_and(|aggregate| aggregate.outer == Outer::Ppp);
    let expected = "only a line carries PPP frames: expected \"l2tp\"";
    review.ensure(
        !is_ppp || matches!(side.medium, Medium::Line(_)),
        &side.place.key("aggregate.outer"),
        expected,
    );
}

struct Review<'a> {
    scenario: &'a Scenario,
    tree: &'a Tree,
    is_later: bool,
    diagnostics: Vec<Diagnostic>,
}

impl Review<'_> {
    fn report(&mut self, key: &str, problem: impl Into<String>) {
        let origin = self.tree.nearest_origin(key);
        self.diagnostics.push(Diagnostic { key: key.to_owned(), problem: problem.into(), origin });
    }

    fn unless(&mut self, holds: bool, key: &str, problem: impl Into<String>) {
        if !holds {
            self.report(key, problem);
        }
    }

    fn amounts(&mut self) {
        let (duration, interval) = (self.scenario.duration, self.scenario.probe.interval);
        self.unless(!duration.is_zero(), "duration", "expected more than no time");
        self.unless(duration <= MAX_DURATION, "duration", format!("longer than {MAX_DURATION}"));
        let nodes: u64 = self.scenario.node.values().map(|node| u64::from(node.count)).sum();
        self.unless(nodes <= MAX_NODES, "node", format!("more than {MAX_NODES} nodes, copies counted"));
        self.unless(
            self.scenario.link.len() as u64 <= MAX_NODES,
            "link",
            format!("more than {MAX_NODES} links"),
        );
        let links = copies::links(self.scenario);
        self.unless(
            links <= MAX_LINKS || nodes > MAX_NODES,
            "link",
            format!("{links} links, copies of nodes counted: expected at most {MAX_LINKS}"),
        );
        let copies = |flow: &Flow| copies::copies(self.scenario, [&flow.from, &flow.to]);
        let flows = self.scenario.flow.values();
        let flows: u64 = flows.map(|flow| u64::from(flow.count) * u64::from(copies(flow))).sum();
        self.unless(flows <= MAX_FLOWS, "flow", format!("more than {MAX_FLOWS} flows, copies counted"));
        let samples = duration.as_nanos() / interval.as_nanos().max(1);
        let problem = format!("{samples} samples in {duration}: expected at most {MAX_SAMPLES}");
        self.unless(!interval.is_zero(), "probe.interval", "expected more than no time");
        self.unless(interval.is_zero() || samples <= MAX_SAMPLES, "probe.interval", problem);
        self.unless(
            self.scenario.probe.warm_up < duration || duration.is_zero(),
            "probe.warm_up",
            format!("expected less than the duration, {duration}"),
        );
    }

    /// Names become parts of keys, of elements' paths and of file names.
    fn names(&mut self) {
        let none = Table::default();
        let tables = NAMED.iter().map(|at| (at, self.tree.at(at).and_then(Tree::table).unwrap_or(&none)));
        let keys = tables.flat_map(|(at, table)| table.keys().map(move |name| (at, name)));
        let is_copy = |table: &String, name: &str| {
            let (original, number) = name.rsplit_once('.').unwrap_or((name, ""));
            COPIED.contains(&table.as_str()) && number.parse::<u32>().is_ok() && good_name(original)
        };
        let bad: Vec<String> = keys
            .filter(|(at, name)| !good_name(name) && !is_copy(at, name))
            .map(|(table, name)| join(table, name))
            .collect();
        for key in bad {
            self.report(&key, "a name has letters, digits, `-` and `_`, at most 60 of them");
        }
        let (nodes, groups) = (&self.scenario.node, &self.scenario.group);
        let twice: Vec<&String> = groups.keys().filter(|name| nodes.contains_key(*name)).collect();
        for name in twice {
            self.report(&join("group", name), "a node has this name too: a flow could not distinguish them");
        }
        self.addresses();
    }

    fn addresses(&mut self) {
        let mut seen = std::collections::BTreeMap::new();
        for (name, node) in &self.scenario.node {
            let key = join(&join("node", name), "address");
            let both = node.address.len() == 2 && node.address[0].is_ipv4() == node.address[1].is_ipv4();
            self.unless(
                !both,
                &key,
                "two addresses of one family: expected at most one IPv4 and one IPv6 address",
            );
            for address in &node.address {
                let usable = !address.is_multicast() && !address.is_unspecified();
                self.unless(usable, &key, format!("{address} is not a host address"));
                if let Some(other) = seen.insert(*address, name) {
                    self.report(&key, format!("{address} is node \"{other}\"'s already"));
                }
            }
        }
    }

    fn node(&mut self, key: &str, name: &str) {
        let nodes = &self.scenario.node;
        if copies::original(self.scenario, name).is_none() {
            let problem = format!("no node is called \"{}\": {}", short(name), instead(name, nodes));
            self.report(key, problem);
        }
    }

    fn pairs<'b>(&mut self, table: &str, pairs: impl Iterator<Item = (&'b String, &'b [String; 2])>) {
        for (name, between) in pairs {
            let key = join(&join(table, name), "between");
            self.node(&join(&key, "0"), &between[0]);
            self.node(&join(&key, "1"), &between[1]);
            let [first, second] = between.each_ref().map(|end| self.end(end));
            self.unless(
                first != second,
                &key,
                format!("both ends are \"{}\": expected two nodes", short(&second)),
            );
        }
    }

    /// Returns the node of the file that a name means, without its number.
    fn end(&self, name: &str) -> String {
        copies::original(self.scenario, name).unwrap_or(name).to_owned()
    }

    fn link(&mut self, key: &str, link: &Link) {
        let name = key.trim_start_matches("link.").to_owned();
        self.pairs("link", std::iter::once((&name, &link.between)));
        for way in Way::BOTH {
            self.side(link, &link.side(&name, way), way);
        }
        let mtu = link.mtu.map_or(1500, |mtu| mtu.get());
        self.unless(
            (68..=65_535).contains(&mtu),
            &join(key, "mtu"),
            "expected from 68 B (RFC 791) to 65535 B",
        );
    }

    fn side(&mut self, link: &Link, side: &Side, way: Way) {
        let Side { medium, line, common, place, .. } = side;
        self.scope(link, side, way);
        self.unless(common.delay <= MAX_DELAY, &place.key("delay"), format!("longer than {MAX_DELAY}"));
        self.unless(
            matches!(medium, Medium::Line(_)) || line.delay_changes.is_none(),
            &place.key("delay_changes"),
            "only a line's delay changes: expected none on virtual channels, terminals, DVB and Wi-Fi",
        );
        let takes = medium.takes();
        let settings = [("queue", takes.queue), ("channel", takes.channel)];
        let stages = Stages::ROWS.iter().map(|row| (row.key, takes.stages));
        for (key, why) in settings.into_iter().chain(stages) {
            let Some(why) = why else { continue };
            self.unless(!place.is_shared(key), &format!("{}.{key}", place.link_key()), why);
            self.unless(!place.is_own(key), &place.own_key(key), why);
        }
    }

    /// Checks that a medium of both directions belongs to the link, alone.
    fn scope(&mut self, link: &Link, side: &Side, way: Way) {
        let place = &side.place;
        let Some(own) = &link.own(way).medium else { return };
        if own.scope() == Scope::Link {
            let problem = format!(
                "both directions share a \"{}\": expected `medium` in the link, not in a direction",
                own.word()
            );
            self.report(&place.own_key("medium"), problem);
        }
        let shared = link.medium.as_ref().filter(|medium| medium.scope() == Scope::Link);
        if let Some(shared) = shared.filter(|_| own.scope() != Scope::Link) {
            let problem = format!("both directions share a \"{}\": expected none", shared.word());
            self.report(&place.own_key("medium"), problem);
        }
    }

    /// Checks the kinds of media, roles and traffic of a part, and their shared objects.
    fn kinds(&mut self, layout: &Layout<'_>, part: &Part<'_>, names: Rc<IndexSet<&str>>) {
        let instead: fn(&str, &[&str]) -> String =
            |name, known| suggest::instead(name, known.iter().copied());
        let mut review = bentpipe_site::Review::of_nodes(names, self.scenario.duration, instead)
            .after_events(self.is_later);
        Medium::check(&layout.members_of(part.links.iter().copied()), part.shared, &mut review);
        let pairs = || part.links.iter().map(|link| layout.pair(*link));
        let sides = || pairs().flatten();
        sides().for_each(|side| stage::check(&side.stages.by_row(), &side.place, &mut review));
        pairs().flat_map(|[one, other]| [(one, other), (other, one)]).for_each(|(side, back)| {
            let stages = [side, back].map(|side| side.stages.by_row());
            stage::check_feedback(&stages[0], &stages[1], &side.place, &mut review);
        });
        sides().for_each(|side| frames(side, &mut review));
        let tables = &self.scenario.role_tables;
        if !self.is_later {
            tables.check(&mut review);
        }
        for (at, role) in self.scenario.roles_at(part.nodes.iter().copied()) {
            role.check(&at, tables, &mut review);
            let is_real = self.scenario.node[at.node].real;
            review.ensure(!is_real || role.has_program(), &at.key, REAL_HOST);
        }
        for name in &part.flows {
            let kind = self.scenario.flow[*name].traffic.kind();
            kind.check(&format!("flow.{name}.traffic"), &mut review);
        }
        review.into_problems().into_iter().for_each(|problem| self.report(&problem.key, problem.problem));
    }

    /// Checks nodes with copies, all copies together.
    fn copies(&mut self) {
        for (name, node) in self.scenario.node.iter().filter(|(_, node)| node.count != 1) {
            let key = join("node", name);
            self.unless(node.address.is_empty(), &join(&key, "address"), "one address for several nodes");
            self.unless(
                !node.real,
                &join(&key, "real"),
                "a real host has no copies: expected a node for each",
            );
        }
        let scenario = self.scenario;
        let counts = |ends: [&str; 2]| ends.map(|end| scenario.node.get(end).map_or(1, |node| node.count));
        let links = scenario.link.iter();
        let links =
            links.map(|(name, link)| (join("link", name), counts([&link.between[0], &link.between[1]])));
        let flows = scenario.flow.iter();
        let flows = flows.map(|(name, flow)| (join("flow", name), counts([&flow.from, &flow.to])));
        for (key, [a, b]) in links.chain(flows) {
            let problem = format!("{a} copies of one end and {b} of the other: expected as many, or one");
            self.unless(a == b || a == 1 || b == 1, &key, problem);
        }
        let counted = |name: &String| scenario.node.get(name).is_some_and(|node| node.count != 1);
        for (name, tunnel) in &scenario.tunnel {
            let one = !tunnel.between.iter().any(counted);
            self.unless(one, &join("tunnel", name), "ends at a node with copies: expected one without");
        }
    }

    fn groups(&mut self) {
        for (name, group) in &self.scenario.group {
            let key = join("group", name);
            if let Some(address) = group.address.filter(|address| !address.is_multicast()) {
                let problem =
                    format!("{address} is not a multicast address: expected one of 224.0.0.0/4 or ff00::/8");
                self.report(&join(&key, "address"), problem);
            }
            for (n, member) in group.members.iter().enumerate() {
                self.node(&format!("{key}.members.{n}"), member);
            }
        }
    }

    fn flow(&mut self, key: &str, flow: &Flow) {
        self.node(&join(key, "from"), &flow.from);
        if self.scenario.group.contains_key(&flow.to) {
            let problem = format!(
                "a \"{}\" flow goes to one node, not to a group: expected a node",
                flow.traffic.word()
            );
            self.unless(flow.traffic.kind().takes().groups, &join(key, "to"), problem);
        } else {
            self.node(&join(key, "to"), &flow.to);
            let is_itself = self.end(&flow.from) == self.end(&flow.to);
            self.unless(!is_itself, &join(key, "to"), "the node that it comes from");
        }
        self.takes(key, flow);
        let duration = self.scenario.duration;
        self.unless(
            flow.start < duration,
            &join(key, "start"),
            format!("after the end of the run at {duration}"),
        );
        if let Some(stop) = flow.stop {
            self.unless(
                stop > flow.start,
                &join(key, "stop"),
                format!("not after its start at {}", flow.start),
            );
        }
    }

    /// Settings of a flow that its traffic does not take.
    fn takes(&mut self, key: &str, flow: &Flow) {
        let (takes, word) = (flow.traffic.kind().takes(), flow.traffic.word());
        let application = join(key, "application");
        let is_given = self.tree.at(&application).is_some();
        let problem = format!("no application writes a \"{word}\" flow: expected none");
        self.unless(takes.application || !is_given, &application, problem);
        let problem = format!("a \"{word}\" flow has no copies: expected 1");
        self.unless(takes.copies != Copies::None || flow.count == 1, &join(key, "count"), problem);
    }

    fn probe(&mut self) {
        if !self.diagnostics.is_empty() {
            // There may be far too many copies.
            return;
        }
        for (n, name) in self.scenario.probe.packets.iter().enumerate() {
            if !self.scenario.has_flow(name) {
                let instead = instead(name, &self.scenario.flow);
                let problem = format!("no flow is called \"{}\": {instead}", short(name));
                self.report(&format!("probe.packets.{n}"), problem);
            }
        }
        if self.scenario.probe.capture.is_empty() {
            return;
        }
        // Points are of nodes and links. There may be very many flows.
        let without_flows = Scenario { flow: IndexMap::new(), ..self.scenario.clone() };
        let spread = copies::spread(&without_flows);
        for (n, point) in self.scenario.probe.capture.iter().enumerate() {
            let key = format!("probe.capture.{n}");
            if let Err(problem) = spread.capture_point(point) {
                self.report(&key, problem);
                continue;
            }
            // Files have "-" in the place of ":".
            let file = |point: &str| point.replace(':', "-");
            let mut before = self.scenario.probe.capture[..n].iter();
            match before.find(|other| file(other) == file(point)) {
                Some(other) if other == point => {
                    let problem = format!("\"{}\" is captured twice: expected each point once", short(point));
                    self.report(&key, problem);
                }
                Some(other) => {
                    let other = short(other);
                    let problem = format!(
                        "the file of \"{}\" has the name of that of \"{other}\": expected one of them",
                        short(point)
                    );
                    self.report(&key, problem);
                }
                None => {}
            }
        }
    }
}

impl Scenario {
    /// Returns `true` if a flow or a copy has this name. `"*"` means all.
    fn has_flow(&self, name: &str) -> bool {
        let copy = || {
            let (flow, number) = name.rsplit_once('.')?;
            let flow = self.flow.get(flow)?;
            let copies = flow.count * copies::copies(self, [&flow.from, &flow.to]);
            number.parse::<u32>().ok().filter(|number| (1..=copies).contains(number))
        };
        name == "*" || self.flow.contains_key(name) || copy().is_some()
    }

    /// Returns the node and the link of a capture point `"node:link"`.
    ///
    /// # Errors
    /// Returns the problem and the expected value.
    pub fn capture_point<'a>(&self, point: &'a str) -> Result<(&'a str, &'a str), String> {
        let Some((node, link)) = point.split_once(':') else {
            let such = self
                .link
                .iter()
                .next()
                .map(|(name, link)| format!(", such as \"{}:{name}\"", link.between[0]));
            let expected = format!("expected \"NODE:LINK\"{}", such.unwrap_or_default());
            return Err(format!("\"{}\" is not a capture point: {expected}", short(point)));
        };
        if !self.node.contains_key(node) {
            return Err(format!("no node is called \"{}\": {}", short(node), instead(node, &self.node)));
        }
        let of_node = self.link.iter().filter(|(_, link)| link.between.iter().any(|end| end == node));
        let names: Vec<&str> = of_node.map(|(name, _)| name.as_str()).collect();
        match names.contains(&link) {
            true => Ok((node, link)),
            false => {
                let instead = suggest::instead(link, names);
                Err(format!("no link \"{}\" at node \"{node}\": {instead}", short(link)))
            }
        }
    }
}

fn instead<T>(name: &str, names: &Named<T>) -> String {
    suggest::instead(name, names.keys().map(String::as_str))
}

fn short(name: &str) -> String {
    name.chars().take(60).collect()
}

/// Returns `true` for a valid name. Copies of nodes, and of their links, have a number after a dot.
fn good_name(name: &str) -> bool {
    let name = name
        .rsplit_once('.')
        .filter(|(_, number)| number.parse::<u16>().is_ok())
        .map_or(name, |(base, _)| base);
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=60).contains(&name.len()) && name.chars().all(good)
}
