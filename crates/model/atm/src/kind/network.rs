//! Switches, boxes and interfaces while channels are led through them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::interface::LINE;
use crate::switch::Contract;
use crate::{Channel, Content, Coupling, Faults, Interface, Rates, Service, Switch, Vc, line};
use bentpipe_mpeg as video;
use bentpipe_net::Port;
use bentpipe_units::{RandomStream, Rate, Span, Time};

use super::capture::Pdus;
use super::paths::Graph;
use super::{Atm, AtmLine, AtmStream, CellChannel, CellSource, Kind, Receivers, tree};
use bentpipe_site::{At, Member, NativeChannel, NativeEnds, Order, Part, Problem, SharedParts, Site, Way};

/// An interface by its number, and the port of a channel there.
type End = (usize, Port);

/// Connection at an end of a line.
#[derive(Clone, Copy)]
enum Plug {
    Switch(usize, Port),
    Interface(usize),
    /// A box of VS/VD, and its side.
    Coupling(usize, Port),
}

/// Leaf of a point-to-multipoint channel.
struct Leaf<'l> {
    /// Key in the file.
    key: String,
    /// Path that its end reports under.
    path: String,
    node: &'l str,
    content: Content,
    receive: Option<crate::receive::Config>,
}

/// Switches and interfaces while channels are led through them.
pub(super) struct Network<'a> {
    atm: &'a Atm,
    graph: Graph<'a>,
    switches: Vec<Switch>,
    couplings: Vec<Coupling>,
    /// Interfaces with their names.
    interfaces: Vec<(String, Interface)>,
    /// The ends of each line.
    plugs: Vec<[Plug; 2]>,
    /// Sum of guaranteed rates on each direction of each line.
    guaranteed: Vec<[Rate; 2]>,
    /// The number of the next channel, the same on all its lines.
    next: u16,
    /// The channel led last.
    last: Vc,
}

impl<'a> Network<'a> {
    pub(super) fn new(atm: &'a Atm) -> Result<Network<'a>, Problem> {
        let switches = atm.switch.values().map(Switch::new).collect();
        let couplings = atm.vs_vd.keys().map(|name| coupling(atm, name));
        let couplings = couplings.collect::<Result<_, Problem>>()?;
        for (name, switch) in &atm.switch {
            switch.check().map_err(|error| Problem::impossible(&format!("atm.switch.{name}"), &error))?;
        }
        let (interfaces, plugs) = (Vec::new(), Vec::new());
        let mut network = Network {
            atm,
            graph: Graph::new(atm),
            switches,
            couplings,
            interfaces,
            plugs,
            guaranteed: vec![[Rate::default(); 2]; atm.line.len()],
            next: Vc::FIRST.vci(),
            last: Vc::FIRST,
        };
        for (name, line) in &atm.line {
            let config = line::Config { rate: line.cell_rate(), delay: line.delay };
            let mut plug = |node: &String, way: Way| {
                if let Some(n) = atm.vs_vd.get_index_of(node) {
                    let is_other = lines_of(atm, node).position(|(other, _)| other == name) == Some(1);
                    return Ok(Plug::Coupling(n, Port(u16::from(is_other))));
                }
                let path = format!("line/{name}/{}", way.name());
                match atm.switch.get_index_of(node) {
                    Some(switch) => {
                        let port = network.switches[switch].add_port(path, &config);
                        port.map(|port| Plug::Switch(switch, port)).map_err(|error| {
                            let key = if error.key == "rate" {
                                format!("atm.line.{name}")
                            } else {
                                format!("atm.switch.{node}.abr")
                            };
                            Problem::impossible(&key, &error)
                        })
                    }
                    None => {
                        let interface = Interface::new(path, &config)
                            .map_err(|error| Problem::impossible(&format!("atm.line.{name}"), &error))?;
                        network.interfaces.push((format!("atm/{node}/{name}"), interface));
                        Ok(Plug::Interface(network.interfaces.len() - 1))
                    }
                }
            };
            let plugs = [plug(&line.between[0], Way::Forward)?, plug(&line.between[1], Way::Return)?];
            network.plugs.push(plugs);
        }
        Ok(network)
    }

    /// Connects a channel from one node to another and returns its ends. `key` is its place in the file.
    fn lead(
        &mut self,
        key: &str,
        name: &str,
        between: [&str; 2],
        given: &Kind,
        contents: [Content; 2],
    ) -> Result<[End; 2], Problem> {
        let path = self.graph.path(between[0], between[1]).map_err(|problem| Problem::new(key, problem))?;
        let vc = self.next_vc(key)?;
        path.iter().try_for_each(|(line, _)| self.admit(key, *line, &Way::BOTH, given.service))?;
        let has_pdus = contents.iter().all(|content| matches!(content, Content::Packets(_)));
        let contract = contract(given, has_pdus);
        // The two ends of each line in the order that the channel passes them.
        let plugs: Vec<Plug> = path.iter().flat_map(|(line, way)| self.ends(*line, *way)).collect();
        let [first, middle @ .., last] = &plugs[..] else {
            return Err(Problem::new(key, "no line between its ends"));
        };
        for pair in middle.chunks(2) {
            match *pair {
                [Plug::Switch(switch, a), Plug::Switch(_, b)] => {
                    self.switches[switch].connect((a, vc), (b, vc), contract);
                }
                [Plug::Coupling(n, a), Plug::Coupling(..)] => {
                    self.couple(key, (n, a), vc, name, given.service)?
                }
                _ => {}
            }
        }
        check_receive(key, given)?;
        let [near, far] = contents;
        let (path, limit, receive) = (|node: &str| format!("vc/{name}/{node}"), given.limit, given.receive);
        let (near, far) = ((path(between[0]), near, limit, receive), (path(between[1]), far, limit, receive));
        Ok([self.end(key, (first, vc), given, near)?, self.end(key, (last, vc), given, far)?])
    }

    /// Adds the end of a channel to an interface: path, content, limit and receive buffer.
    fn end(
        &mut self,
        key: &str,
        (plug, vc): (&Plug, Vc),
        given: &Kind,
        (path, content, limit, receive): (String, Content, Option<u32>, Option<crate::receive::Config>),
    ) -> Result<End, Problem> {
        let Plug::Interface(n) = *plug else { return Err(Problem::new(key, "a channel ends at nodes")) };
        let channel = Channel { path, vc, service: given.service, content, limit, receive };
        let port = self.interfaces[n].1.add(channel);
        let of_service = if key.starts_with("link.") { "medium.service" } else { "service" };
        let of_service = format!("{key}.{of_service}");
        port.map(|port| (n, port)).map_err(|error| Problem::impossible(&of_service, &error))
    }

    /// Returns the number of a new channel, the same on all its lines.
    fn next_vc(&mut self, key: &str) -> Result<Vc, Problem> {
        let vc = Vc::new(self.next).ok_or_else(|| Problem::new(key, "more than 4064 virtual channels"))?;
        (self.next, self.last) = (self.next + 1, vc);
        Ok(vc)
    }

    /// Connects a point-to-multipoint channel and returns the end of its root, and of each leaf.
    ///
    /// `key` is its place in the file. The root's end reports under `path`.
    fn lead_tree(
        &mut self,
        (key, name): (&str, &str),
        (root, path, near): (&str, String, Content),
        given: &Kind,
        leaves: Vec<Leaf<'_>>,
    ) -> Result<(End, Vec<End>), Problem> {
        let tree = self.graph.tree(root);
        let paths = leaves
            .iter()
            .map(|leaf| tree.path(leaf.node).map_err(|problem| Problem::new(&leaf.key, problem)));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        let vc = self.next_vc(key)?;
        // Lines behind each line, by the line and direction that cells come in by.
        let mut behind: BTreeMap<(usize, Way), Vec<(usize, Way)>> = BTreeMap::new();
        let (mut used, mut first, mut nodes) = (HashSet::new(), None, HashSet::new());
        for (leaf, path) in leaves.iter().zip(&paths) {
            if !nodes.insert(leaf.node) {
                let key = &leaf.key;
                let key = if key.starts_with("link.") { format!("{key}.between") } else { key.clone() };
                return Err(Problem::new(key, tree::twice(leaf.node, name)));
            }
            let mut before = None;
            for at in path {
                if used.insert(*at) {
                    self.admit(key, at.0, &[at.1], given.service)?;
                    match before {
                        Some(before) => behind.entry(before).or_default().push(*at),
                        None if first.is_none() => first = Some(*at),
                        None => return Err(self.two_roots(&leaf.key, root, leaf.node, first, *at)),
                    }
                }
                before = Some(*at);
            }
        }
        let has_pdus = matches!(near, Content::Packets(_));
        for (line, further) in behind {
            let [_, plug] = self.ends(line.0, line.1);
            match plug {
                Plug::Switch(switch, input) => {
                    let output = |(line, way): &(usize, Way)| match self.ends(*line, *way) {
                        [Plug::Switch(_, output), _] => Some((output, vc)),
                        _ => None,
                    };
                    let outputs: Vec<(Port, Vc)> = further.iter().filter_map(output).collect();
                    self.switches[switch].connect_tree((input, vc), &outputs, contract(given, has_pdus));
                }
                Plug::Coupling(n, side) => self.couple(key, (n, side), vc, name, given.service)?,
                Plug::Interface(_) => {}
            }
        }
        let Some(first) = first else { return Err(Problem::new(key, "no line between its ends")) };
        let [plug, _] = self.ends(first.0, first.1);
        let near = self.end(key, (&plug, vc), given, (path, near, given.limit, None))?;
        let mut far = Vec::new();
        for (leaf, path) in leaves.into_iter().zip(&paths) {
            let Leaf { key, path: reported, content, receive, .. } = leaf;
            check_receive(&key, &Kind { receive, ..given.clone() })?;
            let Some(&(line, way)) = path.last() else {
                return Err(Problem::new(key, "no line between its ends"));
            };
            let [_, plug] = self.ends(line, way);
            // A leaf sends nothing.
            far.push(self.end(&key, (&plug, vc), given, (reported, content, Some(0), receive))?);
        }
        Ok((near, far))
    }

    /// Refuses a root that two lines of its own lead from.
    fn two_roots(
        &self,
        key: &str,
        root: &str,
        leaf: &str,
        first: Option<(usize, Way)>,
        other: (usize, Way),
    ) -> Problem {
        let name = |line: usize| self.atm.line.get_index(line).map_or("", |(name, _)| name);
        let (first, other) = (first.map_or("", |first| name(first.0)), name(other.0));
        let problem = format!(
            "from \"{root}\" line \"{other}\" leads to \"{leaf}\", and line \"{first}\" to leaves before it: expected one line from \
             the root of a point-to-multipoint channel, or a channel of another name"
        );
        Problem::new(key, problem)
    }

    /// Admits a channel to directions of a line if guaranteed rates fit.
    ///
    /// TM 4.0, section 5.1.2.
    fn admit(&mut self, key: &str, line: usize, ways: &[Way], service: Service) -> Result<(), Problem> {
        let rate = service.guaranteed();
        let (Some((name, config)), Some(sums)) =
            (self.atm.line.get_index(line), self.guaranteed.get_mut(line))
        else {
            return Ok(());
        };
        let mut all = Rate::default();
        for way in ways {
            let sum = &mut sums[way.index()];
            *sum = Rate::from_bps(sum.as_bps().saturating_add(rate.as_bps()));
            all = all.max(*sum);
        }
        if rate.as_bps() == 0 || all <= config.cell_rate() {
            return Ok(());
        }
        let of_service = if key.starts_with("link.") { "medium.service" } else { "service" };
        let field = if matches!(service, Service::Abr(_)) { "mcr" } else { "pcr" };
        let problem = format!(
            "minimum rates of ABR and peak rates of CBR on line \"{name}\" sum to {all}: expected at most its {}",
            config.cell_rate()
        );
        Err(Problem::new(format!("{key}.{of_service}.{field}"), problem))
    }

    /// Connects a channel through a VS/VD node, entered at `side` on its way forward.
    fn couple(
        &mut self,
        key: &str,
        (n, side): (usize, Port),
        vc: Vc,
        name: &str,
        service: Service,
    ) -> Result<(), Problem> {
        let of_box = self.atm.vs_vd.get_index(n).map_or("", |(of_box, _)| of_box.as_str());
        // A direction is where its cells leave.
        let ways = if side == Port(0) { [Way::Return, Way::Forward] } else { [Way::Forward, Way::Return] };
        let paths = ways.map(|way| format!("vc/{name}/{of_box}/{}", way.name()));
        let connected = self.couplings[n].connect(vc, &service, paths);
        connected.map_err(|error| Problem::impossible(&format!("{key}.medium.service"), &error))
    }

    fn ends(&self, line: usize, way: Way) -> [Plug; 2] {
        let [a, b] = self.plugs[line];
        if way == Way::Forward { [a, b] } else { [b, a] }
    }

    /// Connects the channels of all members, streams and flows, and records the network.
    pub(super) fn with_channels(
        mut self,
        row: usize,
        all: &[Member<'_, Kind>],
        natives: &[(usize, NativeChannel)],
        site: &mut Site<'_>,
    ) -> Result<Led, Problem> {
        let mut members = Vec::new();
        // Both directions are one channel. Links of one point-to-multipoint channel are led with the first of them.
        let mut trees: HashMap<_, Vec<Member<'_, Kind>>> = HashMap::new();
        let forward = || all.iter().filter(|member| member.way == Way::Forward);
        for member in forward().filter(|member| member.medium.multicast.is_some()) {
            trees.entry(tree::channel(member)).or_default().push(*member);
        }
        let mut leaf_ends: HashMap<usize, ([End; 2], Pdus)> = HashMap::new();
        for member in forward() {
            let (key, vc) = (member.place.link_key(), member.medium);
            let content = || Content::Packets(vc.encapsulation);
            let led = match trees.remove(&tree::channel(member)) {
                Some(leaves) => {
                    let (root, ends) = self.channel_of_links(&leaves, None, content)?;
                    let pdus = Pdus::new(self.last, vc.encapsulation);
                    let numbers = leaves.iter().map(|leaf| leaf.link);
                    leaf_ends.extend(numbers.zip(ends).map(|(link, end)| (link, ([root, end], pdus))));
                    leaf_ends.remove(&member.link)
                }
                None => leaf_ends.remove(&member.link),
            };
            members.push(match led {
                Some(led) => led,
                None => {
                    let ends = [member.from, member.to];
                    let led = self.lead(key, member.name, ends, vc, [content(), content()])?;
                    (led, Pdus::new(self.last, vc.encapsulation))
                }
            });
        }
        for (name, stream) in &self.atm.stream {
            self.stream(name, stream, site.seed())?;
        }
        let of_link: HashMap<usize, &Member<'_, Kind>> =
            forward().map(|member| (member.link, member)).collect();
        let of_flows = natives.iter().map(|(member, channel)| self.native(&all[*member], channel, &of_link));
        let of_flows = of_flows.collect::<Result<Vec<_>, _>>()?;
        let (interfaces, faults) = self.join(row, site)?;
        let at = |(n, port): End| (interfaces[n], port);
        let both = |([near, far], pdus): ([End; 2], Pdus)| {
            let (near, far) = (at(near), at(far));
            [([near, far], pdus), ([far, near], pdus)]
        };
        let members = members.into_iter().flat_map(both).collect();
        let natives = of_flows.into_iter().map(|(near, far)| (at(near), far.into_iter().map(at).collect()));
        Ok(Led { members, natives: natives.collect(), faults })
    }

    /// Connects the channel of a flow as that of its link or leaves.
    fn native(
        &mut self,
        member: &Member<'_, Kind>,
        channel: &NativeChannel,
        of_link: &HashMap<usize, &Member<'_, Kind>>,
    ) -> Result<(End, Vec<End>), Problem> {
        if member.medium.multicast.is_some() {
            let others = channel.others.iter().filter_map(|link| of_link.get(link).map(|leaf| **leaf));
            let leaves: Vec<Member<'_, Kind>> = std::iter::once(*member).chain(others).collect();
            return self.channel_of_links(&leaves, Some(&channel.flow), || Content::Cells);
        }
        let name = format!("{}/{}", member.name, channel.flow);
        let contents = [Content::Cells, Content::Cells];
        let ends = [member.from, member.to];
        let led = self.lead(member.place.link_key(), &name, ends, member.medium, contents);
        led.map(|[near, far]| (near, vec![far]))
    }

    /// Connects a point-to-multipoint channel whose leaves are links, or one of a flow along it.
    fn channel_of_links(
        &mut self,
        leaves: &[Member<'_, Kind>],
        flow: Option<&str>,
        content: impl Fn() -> Content,
    ) -> Result<(End, Vec<End>), Problem> {
        let Some(first) = leaves.first() else { return Err(Problem::new("", "a channel without leaves")) };
        let key = first.place.link_key();
        let (root, channel) = tree::channel(first);
        let of_flow = flow.map_or_else(String::new, |flow| format!("/{flow}"));
        let name = format!("{}{of_flow}", channel.unwrap_or_default());
        let all = leaves
            .iter()
            .map(|member| Leaf {
                key: member.place.link_key().to_owned(),
                path: format!("vc/{}{of_flow}/{}", member.name, member.to),
                node: member.to,
                content: content(),
                receive: member.medium.receive,
            })
            .collect();
        let path = format!("vc/{name}/{root}");
        self.lead_tree((key, &name), (root, path, content()), first.medium, all)
    }

    /// Connects a stream of cells without a receiver.
    fn stream(&mut self, name: &str, stream: &'a AtmStream, seed: u64) -> Result<(), Problem> {
        let key = format!("atm.stream.{name}");
        let rates = rates(name, stream, seed).map_err(|(field, expected)| {
            Problem::new(format!("{key}.source.{field}"), format!("expected {expected}"))
        })?;
        if matches!(
            stream.service,
            Service::Cbr { pcr: Some(_) } | Service::Vbr { pcr: Some(_) } | Service::Ubr { pcr: Some(_) }
        ) {
            const SOURCE: &str = "a stream sends at the rate of its source: expected none";
            return Err(Problem::new(format!("{key}.service.pcr"), SOURCE));
        }
        let service = match (stream.service, &stream.source) {
            (Service::Cbr { .. }, CellSource::Constant { rate }) => Service::Cbr { pcr: Some(*rate) },
            (service, _) => service,
        };
        let given = Kind { service, ..Kind::default() };
        let (source, from) = (Content::Streams(rates), &stream.from[..]);
        let names = match &stream.to {
            Receivers::One(to) => {
                return self.lead(&key, name, [from, to], &given, [source, Content::Sink]).map(drop);
            }
            Receivers::Several(names) => names,
        };
        let leaf = |(n, node): (usize, &'a String)| Leaf {
            key: format!("{key}.to.{n}"),
            path: format!("vc/{name}/{node}"),
            node,
            content: Content::Sink,
            receive: None,
        };
        let leaves = names.iter().enumerate().map(leaf).collect();
        let path = format!("vc/{name}/{from}");
        self.lead_tree((&key, name), (from, path, source), &given, leaves).map(drop)
    }

    /// Records all, and connects the ends of the lines. Returns the interfaces, and the faults of the lines.
    fn join(self, row: usize, site: &mut Site<'_>) -> Result<(Vec<Part>, SharedParts<Part>), Problem> {
        let mut recorder = Recorder { site, row, next: 0 };
        let names = self.atm.switch.keys().zip(self.switches);
        let switches: Vec<Part> =
            names.map(|(name, switch)| recorder.add(format!("atm/{name}"), switch)).collect();
        let names = self.atm.vs_vd.keys().zip(self.couplings);
        let couplings: Vec<Part> =
            names.map(|(name, coupling)| recorder.add(format!("atm/{name}"), coupling)).collect();
        let interfaces: Vec<Part> =
            self.interfaces.into_iter().map(|(path, interface)| recorder.add(path, interface)).collect();
        let at = |plug: Plug| match plug {
            Plug::Switch(switch, port) => (switches[switch], port),
            Plug::Interface(interface) => (interfaces[interface], LINE),
            Plug::Coupling(n, side) => (couplings[n], side),
        };
        let mut all = SharedParts::new();
        for ([a, b], (name, line)) in self.plugs.into_iter().zip(&self.atm.line) {
            for (from, to, way) in [(a, b, Way::Forward), (b, a, Way::Return)] {
                let faults = faults(name, line, way, at(from), &mut recorder)?;
                let last = faults.last().map_or(at(from), |last| (*last, Port(0)));
                recorder.site.connect(last, at(to));
                all.insert(format!("line/{name}/{}", way.name()), faults);
            }
        }
        Ok((interfaces, all))
    }
}

/// Channels that were led through a network.
pub(super) struct Led {
    /// Ends of each member's channel, that of the sending node first, and the channel.
    pub(super) members: Vec<([At; 2], Pdus)>,
    /// Ends of the channels of flows.
    pub(super) natives: Vec<NativeEnds>,
    /// Faults of each direction of each line.
    pub(super) faults: SharedParts<Part>,
}

/// Returns the contract of a channel with switches.
fn contract(given: &Kind, has_pdus: bool) -> Contract {
    Contract { class: given.service.class(), has_pdus, guarantee: given.service.guarantee() }
}

/// Checks the receive buffers of a channel's ends.
fn check_receive(key: &str, given: &Kind) -> Result<(), Problem> {
    let checked = given.receive.map_or(Ok(()), |receive| receive.check(given.service.class()));
    checked.map_err(|error| Problem::impossible(&format!("{key}.medium.receive"), &error))
}

/// Recorder of a network's elements in their order.
struct Recorder<'a, 'f> {
    site: &'a mut Site<'f>,
    row: usize,
    next: usize,
}

impl Recorder<'_, '_> {
    fn add(&mut self, path: String, element: impl bentpipe_net::Element + 'static) -> Part {
        self.next += 1;
        self.site.add(Order::Network(self.row, self.next), path, element)
    }
}

/// The lines that end at a box or switch, and the direction that leaves there.
fn lines_of<'a>(atm: &'a Atm, name: &'a str) -> impl Iterator<Item = (&'a String, Way)> {
    atm.line.iter().filter_map(move |(line, config)| {
        let end = config.between.iter().position(|end| end == name)?;
        Some((line, if end == 0 { Way::Forward } else { Way::Return }))
    })
}

/// The box of VS/VD of this name, between its two lines.
fn coupling(atm: &Atm, name: &str) -> Result<Coupling, Problem> {
    let key = format!("atm.vs_vd.{name}");
    let lines: Vec<(&String, Way)> = lines_of(atm, name).collect();
    let [one, other] = lines[..] else {
        return Err(Problem::new(key, format!("{} lines end here: expected two", lines.len())));
    };
    let of_line = |(line, _): (&String, Way)| {
        let line = &atm.line[line];
        line::Config { rate: line.cell_rate(), delay: line.delay }
    };
    let path = |(line, way): (&String, Way)| format!("line/{line}/{}", way.name());
    let (lines, paths) = ([of_line(one), of_line(other)], [path(one), path(other)]);
    Coupling::new(&atm.vs_vd[name], paths, lines.each_ref())
        .map_err(|error| Problem::impossible(&key, &error))
}

/// Records the faults of a line after `from`, where its cells come out.
fn faults(
    name: &str,
    line: &AtmLine,
    way: Way,
    from: At,
    recorder: &mut Recorder<'_, '_>,
) -> Result<Vec<Part>, Problem> {
    let (mut last, mut all) = (from, Vec::new());
    let configs = line.channel.as_ref().map_or(&[][..], |channel| channel.faults());
    for (n, config) in configs.iter().enumerate() {
        let place = match &line.channel {
            Some(CellChannel::Several(_)) => format!(".{n}"),
            _ => String::new(),
        };
        let fault = Faults::new(config)
            .map_err(|error| Problem::impossible(&format!("atm.line.{name}.channel{place}"), &error))?;
        let number = if n == 0 { String::new() } else { format!(".{}", n + 1) };
        let fault = recorder.add(format!("line/{name}/{}/channel{number}", way.name()), fault);
        recorder.site.connect(last, (fault, Port(0)));
        last = (fault, Port(0));
        all.push(fault);
    }
    Ok(all)
}

/// Returns the rates of a stream's sources.
///
/// # Errors
/// Returns the key of an invalid value, and the expected one.
fn rates(name: &str, stream: &AtmStream, seed: u64) -> Result<Vec<Rates>, (&'static str, &'static str)> {
    if matches!(stream.service, Service::Abr(_)) {
        return Err(("kind", "a service other than ABR: the network has no say in a stream's rate"));
    }
    const LONG: Span = Span::from_secs(3600);
    Ok(match &stream.source {
        CellSource::Constant { rate } => vec![Box::new(std::iter::repeat((LONG, *rate)))],
        CellSource::OnOff { rate, on, off } => {
            if on.is_zero() && off.is_zero() {
                return Err(("on", "more than no time"));
            }
            let period = [(*on, *rate), (*off, Rate::default())];
            vec![Box::new(period.into_iter().filter(|(span, _)| !span.is_zero()).cycle())]
        }
        CellSource::Video(config) => {
            config.check().map_err(|error| (error.key, error.expected))?;
            let (programmes, config) = (config.programmes, video::RateConfig { programmes: 1, ..*config });
            let noise = Arc::default();
            let programme = |n: u16| -> Rates {
                let stream = RandomStream::new(seed, &format!("vc/{name}/source/{n}"));
                Box::new(Programme { config, noise: Arc::clone(&noise), rates: None, stream })
            };
            (0..programmes).map(programme).collect()
        }
    })
}

/// The rates of a programme, with the random numbers that they are drawn from.
///
/// A network that is only checked draws none, and there may be 65,535 programmes of some 100 kB each.
struct Programme {
    config: video::RateConfig,
    /// Noise that all programmes of a stream have in common.
    noise: Arc<OnceLock<Arc<video::Fgn>>>,
    /// `None` before the first rate.
    rates: Option<video::Rates>,
    stream: RandomStream,
}

impl Iterator for Programme {
    type Item = (Span, Rate);

    fn next(&mut self) -> Option<(Span, Rate)> {
        let Programme { config, noise, rates, stream } = self;
        if rates.is_none() {
            let noise = Arc::clone(noise.get_or_init(|| config.noise()));
            *rates = video::Rates::of_noise(config, noise, Time::ZERO, stream).ok();
        }
        let piece = rates.as_mut()?.next_piece(stream);
        Some((piece.span, piece.rate))
    }
}
