//! Checking what types and schema cannot: names that must exist, amounts that must make sense together.

use bentpipe_net::dvb::RohcMode;
use bentpipe_units::{Rate, Span};

use super::check::join;
use super::elements::{Dama, Dvb, Framing, Stream};
use super::error::Mistake;
use super::named::Named;
use super::schema::{Direction, Flow, Link, Scenario};
use super::suggest;
use super::tree::Node as Tree;
use crate::build::copies;
use crate::build::delays::MAX_DELAY;

/// The longest simulated time.
const MAX_DURATION: Span = Span::from_secs(366 * 86_400);
/// The longest simulated time with cells: the order that they are merged in reaches 52 days with 4096 channels.
const MAX_DURATION_OF_CELLS: Span = Span::from_secs(50 * 86_400);
/// The most nodes and links of one scenario.
const MAX_NODES: u64 = 10_000;
/// The most flows of one scenario, copies counted.
const MAX_FLOWS: u64 = 100_000;
/// The most samples that a probe takes of each value.
const MAX_SAMPLES: u64 = 10_000_000;
/// The fastest line.
const MAX_RATE: Rate = Rate::from_bps(100_000_000_000_000);

/// What is wrong with `scenario`, which was made from `tree`.
pub(crate) fn validate(scenario: &Scenario, tree: &Tree) -> Vec<Mistake> {
    let mut review = Review { scenario, tree, mistakes: Vec::new() };
    review.amounts();
    review.names();
    scenario.link.iter().for_each(|(name, link)| review.link(&join("link", name), link));
    review.pairs("tunnel", scenario.tunnel.iter().map(|(name, tunnel)| (name, &tunnel.between)));
    review.groups();
    review.copies();
    review.atm();
    scenario.flow.iter().for_each(|(name, flow)| review.flow(&join("flow", name), flow));
    review.probe();
    review.mistakes
}

struct Review<'a> {
    scenario: &'a Scenario,
    tree: &'a Tree,
    mistakes: Vec<Mistake>,
}

/// One direction of a link: what it says itself, and what the link says for both.
#[derive(Clone, Copy)]
struct Side<'a> {
    key: &'a str,
    link: &'a Link,
    table: &'a str,
    own: &'a Direction,
    other: &'a Direction,
}

impl<'a> Side<'a> {
    /// The key of a field that is the direction's own or the link's.
    fn place(&self, is_own: bool, field: &str) -> String {
        if is_own { format!("{}.{}.{field}", self.key, self.table) } else { join(self.key, field) }
    }

    fn dama(&self) -> Option<&'a Dama> {
        self.own.dama.as_ref().or(self.link.dama.as_ref())
    }

    fn dvb(&self) -> Option<&'a Dvb> {
        self.own.dvb.as_ref().or(self.link.dvb.as_ref())
    }

    /// Whether it is neither of virtual channels nor of Wi-Fi, a terminal or DVB.
    fn is_a_line(&self) -> bool {
        self.link.vc.is_none() && self.link.wifi.is_none() && self.dama().is_none() && self.dvb().is_none()
    }
}

impl Review<'_> {
    fn mistake(&mut self, key: &str, problem: impl Into<String>) {
        let origin = self.tree.nearest_origin(key);
        self.mistakes.push(Mistake { key: key.to_owned(), problem: problem.into(), origin });
    }

    fn unless(&mut self, holds: bool, key: &str, problem: impl Into<String>) {
        if !holds {
            self.mistake(key, problem);
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
        let copies = |flow: &Flow| copies::copies(self.scenario, [&flow.from, &flow.to]);
        let flows = self.scenario.flow.values();
        let flows: u64 = flows.map(|flow| u64::from(flow.count) * u64::from(copies(flow))).sum();
        self.unless(flows <= MAX_FLOWS, "flow", format!("more than {MAX_FLOWS} flows, copies counted"));
        let samples = duration.as_nanos() / interval.as_nanos().max(1);
        let problem = format!("{samples} samples in {duration}: expected at most {MAX_SAMPLES}");
        self.unless(!interval.is_zero(), "probe.interval", "expected more than no time");
        self.unless(interval.is_zero() || samples <= MAX_SAMPLES, "probe.interval", problem);
        self.unless(
            self.scenario.probe.warm_up < duration,
            "probe.warm_up",
            format!("expected less than the duration, {duration}"),
        );
    }

    /// Names become parts of keys, of elements' paths and of file names.
    fn names(&mut self) {
        let keys = self.scenario.node.keys().map(|name| ("node", name));
        let keys = keys.chain(self.scenario.link.keys().map(|name| ("link", name)));
        let keys = keys.chain(self.scenario.carrier.keys().map(|name| ("carrier", name)));
        let keys = keys.chain(self.scenario.dvb.keys().map(|name| ("dvb", name)));
        let keys = keys.chain(self.scenario.tunnel.keys().map(|name| ("tunnel", name)));
        let keys = keys.chain(self.scenario.group.keys().map(|name| ("group", name)));
        let keys = keys.chain(self.scenario.flow.keys().map(|name| ("flow", name)));
        let atm = &self.scenario.atm;
        let keys = keys.chain(atm.switch.keys().map(|name| ("atm.switch", name)));
        let keys = keys.chain(atm.vs_vd.keys().map(|name| ("atm.vs_vd", name)));
        let keys = keys.chain(atm.line.keys().map(|name| ("atm.line", name)));
        let keys = keys.chain(atm.stream.keys().map(|name| ("atm.stream", name)));
        let bad: Vec<String> =
            keys.filter(|(_, name)| !good_name(name)).map(|(table, name)| join(table, name)).collect();
        for key in bad {
            self.mistake(&key, "a name has letters, digits, `-` and `_`, at most 60 of them");
        }
        let (nodes, groups) = (&self.scenario.node, &self.scenario.group);
        let twice: Vec<&String> = groups.keys().filter(|name| nodes.contains_key(*name)).collect();
        for name in twice {
            self.mistake(&join("group", name), "a node has this name too: a flow could not tell them apart");
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
                self.unless(usable, &key, format!("{address} is no host's address"));
                if let Some(other) = seen.insert(*address, name) {
                    self.mistake(&key, format!("{address} is node \"{other}\"'s already"));
                }
            }
        }
    }

    fn node(&mut self, key: &str, name: &str) {
        let nodes = &self.scenario.node;
        if !nodes.contains_key(name) {
            let problem = format!("no node is called \"{}\": {}", short(name), instead(name, nodes));
            self.mistake(key, problem);
        }
    }

    fn pairs<'b>(&mut self, table: &str, pairs: impl Iterator<Item = (&'b String, &'b [String; 2])>) {
        for (name, between) in pairs {
            let key = join(&join(table, name), "between");
            self.node(&join(&key, "0"), &between[0]);
            self.node(&join(&key, "1"), &between[1]);
            self.unless(
                between[0] != between[1],
                &key,
                format!("both ends are \"{}\": expected two nodes", short(&between[0])),
            );
        }
    }

    fn link(&mut self, key: &str, link: &Link) {
        let name = key.trim_start_matches("link.").to_owned();
        self.pairs("link", std::iter::once((&name, &link.between)));
        for (table, own, other) in
            [("forward", &link.forward, &link.reverse), ("return", &link.reverse, &link.forward)]
        {
            self.side(&Side { key, link, table, own, other });
        }
        if link.wifi.is_some() {
            let key = join(key, "framing");
            self.unless(link.framing == Framing::None, &key, "a Wi-Fi link has its own: expected none");
        }
        if link.vc.is_some() {
            self.virtual_channel(key, link);
        }
        let mtu = link.mtu.map_or(1500, |mtu| mtu.get());
        self.unless(
            (68..=65_535).contains(&mtu),
            &join(key, "mtu"),
            "expected from 68 B (RFC 791) to 65535 B",
        );
    }

    fn side(&mut self, side: &Side<'_>) {
        let Side { link, own, other, .. } = *side;
        if let Some(dama) = side.dama() {
            let key = side.place(own.dama.is_some(), "dama");
            self.terminal(&key, &dama.carrier, own.rate.is_some() && own.dama.is_some());
        }
        if let Some(dvb) = side.dvb() {
            let back = other.dvb.as_ref().or(link.dvb.as_ref());
            let has_rate = own.rate.or(link.rate.filter(|_| own.dvb.is_none())).is_some();
            self.stream_of_dvb(&side.place(own.dvb.is_some(), "dvb"), dvb, back, has_rate, link);
        }
        if side.dvb().is_none() {
            self.rate(side);
        }
        let delay = own.delay.or(link.delay).unwrap_or_default();
        let key = side.place(own.delay.is_some(), "delay");
        self.unless(delay <= MAX_DELAY, &key, format!("longer than {MAX_DELAY}"));
        let changes = own.delay_changes.as_ref().or(link.delay_changes.as_ref());
        self.unless(
            side.is_a_line() || changes.is_none(),
            &side.place(own.delay_changes.is_some(), "delay_changes"),
            "only a line's delay changes: expected none on virtual channels, terminals, DVB and Wi-Fi",
        );
    }

    fn rate(&mut self, side: &Side<'_>) {
        let Side { key, link, table, own, .. } = *side;
        let place = side.place(own.rate.is_some(), "rate");
        match own.rate.or(link.rate) {
            None if !side.is_a_line() => {}
            // What both directions share is said once.
            Some(_) if link.wifi.is_some() && table == "return" && own.rate.is_none() => {}
            Some(_) if link.wifi.is_some() => {
                self.mistake(&place, "a Wi-Fi link has no rate of a line: expected `wifi.rate`, or none");
            }
            None => {
                let problem = format!(
                    "no rate in the {table} direction: expected `rate = \"10 Mbit/s\"`, or `{table}.rate`"
                );
                self.mistake(key, problem);
            }
            Some(rate) => {
                self.unless(rate.as_bps() > 0, &place, "expected more than zero");
                self.unless(rate <= MAX_RATE, &place, format!("faster than {MAX_RATE}"));
            }
        }
    }

    /// What a virtual channel has not, as its lines and switches have it.
    fn virtual_channel(&mut self, key: &str, link: &Link) {
        const QUEUE: &str =
            "a virtual channel has none of its own: expected `vc.limit`, or `atm.switch.NAME.limit`";
        const CHANNEL: &str = "a virtual channel has none of its own: expected `atm.line.NAME.channel`";
        const OTHER: &str = "a virtual channel has none of its own: expected none";
        // Rate and delay of both directions are filled in from the lines.
        let both = Direction {
            queue: link.queue,
            channel: link.channel.clone(),
            shaper: link.shaper,
            quick_start: link.quick_start,
            dama: link.dama.clone(),
            ..Direction::default()
        };
        for (place, said) in
            [(key, &both), (&join(key, "forward"), &link.forward), (&join(key, "return"), &link.reverse)]
        {
            self.unless(said.rate.is_none(), &join(place, "rate"), OTHER);
            self.unless(said.delay.is_none(), &join(place, "delay"), OTHER);
            self.unless(said.queue.is_none(), &join(place, "queue"), QUEUE);
            self.unless(said.channel.is_none(), &join(place, "channel"), CHANNEL);
            self.unless(said.shaper.is_none(), &join(place, "shaper"), OTHER);
            self.unless(said.quick_start.is_none(), &join(place, "quick_start"), OTHER);
            self.unless(said.dama.is_none(), &join(place, "dama"), OTHER);
        }
        self.unless(
            link.wifi.is_none(),
            &join(key, "wifi"),
            "a virtual channel besides: expected one of them",
        );
        let own = matches!(link.framing, Framing::None | Framing::Aal5LlcSnap { sdh: false });
        self.unless(own, &join(key, "framing"), "a virtual channel has its own: expected `vc.encapsulation`");
    }

    /// A stream on a line of DVB; `back` is that of the other direction.
    fn stream_of_dvb(&mut self, key: &str, dvb: &Dvb, back: Option<&Dvb>, has_rate: bool, link: &Link) {
        let lines = &self.scenario.dvb;
        if !lines.contains_key(&dvb.line) {
            let instead = instead(&dvb.line, lines);
            let problem = format!("no line of DVB is called \"{}\": {instead}", short(&dvb.line));
            self.mistake(&join(key, "line"), problem);
        }
        self.unless(!has_rate, key, "a rate besides: the line has one, expected one of them");
        let other = link.vc.is_some() || link.wifi.is_some() || link.dama.is_some();
        self.unless(!other, key, "a virtual channel, terminal or Wi-Fi link besides: expected one of them");
        self.unless(link.framing == Framing::None, key, "a framing besides: it has its own, expected none");
        let is_heard = back.is_some_and(|back| back.stream.rohc.is_some());
        let mode = dvb.stream.rohc.as_ref().map_or(RohcMode::Unidirectional, |rohc| rohc.mode);
        self.unless(
            mode == RohcMode::Unidirectional || is_heard,
            &join(key, "rohc.mode"),
            "no way back for feedback: expected \"unidirectional\", or `dvb` with `rohc` in the other direction",
        );
    }

    fn terminal(&mut self, key: &str, carrier: &str, has_rate: bool) {
        let carriers = &self.scenario.carrier;
        if !carriers.contains_key(carrier) {
            let instead = instead(carrier, carriers);
            self.mistake(
                &join(key, "carrier"),
                format!("no carrier is called \"{}\": {instead}", short(carrier)),
            );
        }
        self.unless(
            !has_rate,
            key,
            "a rate besides: a terminal sends with what it is assigned, expected one of them",
        );
    }

    /// Nodes with copies: what may be said of all of them at once.
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
        for (name, group) in &scenario.group {
            let one = !group.members.iter().any(counted);
            self.unless(one, &join("group", name), "has a member with copies: expected ones without");
        }
    }

    /// Lines end at nodes and switches, streams at nodes.
    fn atm(&mut self) {
        let (atm, nodes) = (&self.scenario.atm, &self.scenario.node);
        let ends = atm.line.is_empty() || self.scenario.duration <= MAX_DURATION_OF_CELLS;
        self.unless(ends, "duration", format!("longer than {MAX_DURATION_OF_CELLS}, the most with cells"));
        for name in atm.switch.keys().filter(|name| nodes.contains_key(*name)) {
            self.mistake(
                &join("atm.switch", name),
                "a node has this name too: a line could not tell them apart",
            );
        }
        for name in
            atm.vs_vd.keys().filter(|name| nodes.contains_key(*name) || atm.switch.contains_key(*name))
        {
            self.mistake(
                &join("atm.vs_vd", name),
                "a node or switch has this name too: a line could not tell them apart",
            );
        }
        for (name, line) in &atm.line {
            let key = join("atm.line", name);
            for (n, end) in line.between.iter().enumerate() {
                if !nodes.contains_key(end) && !atm.passes(end) {
                    let known =
                        nodes.keys().chain(atm.switch.keys()).chain(atm.vs_vd.keys()).map(String::as_str);
                    let instead = suggest::instead(end, known);
                    let problem = format!("no node or switch is called \"{}\": {instead}", short(end));
                    self.mistake(&format!("{key}.between.{n}"), problem);
                }
            }
            let differ = line.between[0] != line.between[1];
            self.unless(differ, &join(&key, "between"), "both ends are one: expected two");
            self.unless(line.rate.as_bps() > 0, &join(&key, "rate"), "expected more than zero");
            self.unless(line.delay <= MAX_DELAY, &join(&key, "delay"), format!("longer than {MAX_DELAY}"));
        }
        for (name, stream) in &atm.stream {
            let key = join("atm.stream", name);
            self.node(&join(&key, "from"), &stream.from);
            self.node(&join(&key, "to"), &stream.to);
            self.unless(stream.from != stream.to, &join(&key, "to"), "the node that it comes from");
        }
    }

    fn groups(&mut self) {
        for (name, group) in &self.scenario.group {
            let key = join("group", name);
            if let Some(address) = group.address.filter(|address| !address.is_multicast()) {
                let problem =
                    format!("{address} is no multicast address: expected one of 224.0.0.0/4 or ff00::/8");
                self.mistake(&join(&key, "address"), problem);
            }
            for (n, member) in group.members.iter().enumerate() {
                self.node(&format!("{key}.members.{n}"), member);
            }
        }
    }

    fn flow(&mut self, key: &str, flow: &Flow) {
        self.node(&join(key, "from"), &flow.from);
        if self.scenario.group.contains_key(&flow.to) {
            self.unless(
                flow.udp.is_some() || flow.video.is_some(),
                &join(key, "to"),
                "only `udp` and `video` go to a group: expected one node",
            );
        } else {
            self.node(&join(key, "to"), &flow.to);
            self.unless(flow.from != flow.to, &join(key, "to"), "the node that it comes from");
        }
        let datagrams = [flow.udp.is_some(), flow.video.is_some(), flow.replay.is_some()];
        let others = [flow.tcp.is_some(), flow.stream.is_some(), flow.tfrc.is_some()];
        let given = datagrams.into_iter().chain(others);
        let expected = "expected one of `tcp`, `udp`, `video`, `stream`, `tfrc` and `replay`";
        match given.filter(|given| *given).count() {
            0 => self.mistake(key, format!("nothing to send: {expected}")),
            1 => {}
            _ => self.mistake(key, format!("several things to send: {expected}")),
        }
        if let Some(stream) = &flow.stream {
            self.stream(&join(key, "stream"), flow, stream);
        }
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

    fn stream(&mut self, key: &str, flow: &Flow, stream: &Stream) {
        let alone = self.scenario.flow.len() == 1 && flow.count == 1;
        self.unless(
            alone,
            key,
            "not alone: expected no other flow, and no copies, beside a transport stream",
        );
        let is_joined = crate::video::link(self.scenario, flow).is_some();
        self.unless(is_joined, key, "expected a link that joins `from` and `to` directly");
        if let Some((field, expected)) = stream.card.problem() {
            self.mistake(&format!("{key}.card.{field}"), format!("expected {expected}"));
        }
    }

    fn probe(&mut self) {
        if !self.mistakes.is_empty() {
            // There may be far too many copies.
            return;
        }
        let spread = copies::spread(self.scenario);
        for (n, point) in self.scenario.probe.capture.iter().enumerate() {
            if let Err(problem) = spread.capture_point(point) {
                self.mistake(&format!("probe.capture.{n}"), problem);
            }
        }
    }
}

impl Scenario {
    /// The node and the link that a capture point `"node:link"` names.
    ///
    /// # Errors
    /// What is wrong with it and what would be right.
    pub fn capture_point<'a>(&self, point: &'a str) -> Result<(&'a str, &'a str), String> {
        let Some((node, link)) = point.split_once(':') else {
            let such = self
                .link
                .iter()
                .next()
                .map(|(name, link)| format!(", such as \"{}:{name}\"", link.between[0]));
            let expected = format!("expected \"NODE:LINK\"{}", such.unwrap_or_default());
            return Err(format!("\"{}\" is no point of capture: {expected}", short(point)));
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

/// Whether a name may be given. Copies of nodes, and of what joins them, have a number behind a dot.
fn good_name(name: &str) -> bool {
    let name = name
        .rsplit_once('.')
        .filter(|(_, number)| number.parse::<u16>().is_ok())
        .map_or(name, |(base, _)| base);
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=60).contains(&name.len()) && name.chars().all(good)
}
