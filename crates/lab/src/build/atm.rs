//! The ATM network: its switches, the interfaces of nodes, and the virtual channels through them.
//!
//! A link that is a virtual channel is to its nodes as any other: packets go in at one end and come out at the other. Cells
//! pass the lines of least delay, then the fewest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bentpipe_net::atm::interface::LINE;
use bentpipe_net::atm::{Channel, Content, Coupling, Faults, Interface, Rates, Service, Switch, Vc, line};
use bentpipe_net::video;
use bentpipe_net::{Framing, Port};
use bentpipe_sim::{Builder, ElementId};
use bentpipe_units::{Rate, Span, Stream, Time};

use super::nodes::interface as interface_of_node;
use super::routes::number;
use super::{NodeHandle, Problem, Way};
use crate::record::PduOf;
use crate::scenario::{AtmLine, AtmStream, CellChannel, CellSource, Scenario, VirtualChannel};

/// Where packets go into a virtual channel, for captures.
pub(super) struct Entry {
    /// The link's name.
    pub(super) link: String,
    /// The node's name.
    pub(super) node: String,
    /// The input that the node's packets come to.
    pub(super) input: (ElementId, Port),
    /// The channel, for captures.
    pub(super) pdu_of: PduOf,
}

/// Gives links that are virtual channels the rate and delay of the lines that they pass.
pub(crate) fn fill(scenario: &mut Scenario) -> Result<(), Problem> {
    let as_read = scenario.clone();
    for (name, link) in scenario.link.iter_mut().filter(|(_, link)| link.vc.is_some()) {
        let way = path(&as_read, &link.between[0], &link.between[1]);
        let way = way.map_err(|problem| Problem::new(format!("link.{name}.between"), problem))?;
        let lines = || way.iter().map(|(line, _)| &as_read.atm.line[*line]);
        let (rate, delay) =
            (lines().map(|line| line.cell_rate()).min(), lines().map(|line| line.delay).sum());
        // A scenario as it was run says them.
        let problem = |what: &str| {
            let problem = "of a virtual channel is that of the lines that it passes: expected none";
            Err(Problem::new(format!("link.{name}.{what}"), problem))
        };
        if link.rate.is_some() && link.rate != rate {
            return problem("rate");
        }
        if link.delay.is_some_and(|said| said != delay) {
            return problem("delay");
        }
        (link.rate, link.delay) = (rate, Some(delay));
        link.framing = Framing::Aal5LlcSnap { sdh: false };
    }
    Ok(())
}

/// The lines from one node to another over switches.
fn path(scenario: &Scenario, from: &str, to: &str) -> Result<Vec<(usize, Way)>, String> {
    let mut best: BTreeMap<&str, (Span, u32)> = BTreeMap::from([(to, (Span::ZERO, 0))]);
    let mut next: BTreeMap<&str, (usize, Way, &str)> = BTreeMap::new();
    let mut open = BinaryHeap::from([Reverse((Span::ZERO, 0_u32, to))]);
    while let Some(Reverse((delay, hops, at))) = open.pop() {
        if best[at] != (delay, hops) || (at != to && !scenario.atm.passes(at)) {
            continue;
        }
        for (n, line) in scenario.atm.line.values().enumerate() {
            let [a, b] = line.between.each_ref().map(String::as_str);
            for (here, there, way) in [(a, b, Way::Forward), (b, a, Way::Return)] {
                let cost = (delay + line.delay, hops + 1);
                if there == at && best.get(here).is_none_or(|known| cost < *known) {
                    best.insert(here, cost);
                    next.insert(here, (n, way, there));
                    open.push(Reverse((cost.0, cost.1, here)));
                }
            }
        }
    }
    let (mut at, mut lines) = (from, Vec::new());
    while at != to {
        let Some((line, way, then)) = next.get(at) else {
            return Err(format!(
                "no way from \"{from}\" to \"{to}\" over ATM lines: expected `atm.line` to join them"
            ));
        };
        lines.push((*line, *way));
        at = then;
    }
    Ok(lines)
}

/// Adds the network and joins it to the nodes.
pub(super) fn add(
    scenario: &Scenario,
    nodes: &[NodeHandle],
    seed: u64,
    builder: &mut Builder,
) -> Result<Vec<Entry>, Problem> {
    let mut network = Network::new(scenario)?;
    let mut joints = Vec::new();
    for (n, (name, link)) in scenario.link.iter().enumerate() {
        let Some(vc) = &link.vc else { continue };
        let key = format!("link.{name}");
        let content = || Content::Packets(vc.encapsulation);
        let ends = network.lead(&key, name, &link.between, vc, [content(), content()])?;
        let pdu_of = (network.last, vc.encapsulation);
        let joint = |(end, node)| Joint { link: n, name, node, end, pdu_of };
        joints.extend(ends.into_iter().zip(&link.between).map(joint));
    }
    for (name, stream) in &scenario.atm.stream {
        let key = format!("atm.stream.{name}");
        let rates = rates(name, stream, seed).map_err(|(field, expected)| {
            Problem::new(format!("{key}.source.{field}"), format!("expected {expected}"))
        })?;
        let ends = [stream.from.clone(), stream.to.clone()];
        let vc = VirtualChannel { service: stream.service, ..VirtualChannel::default() };
        network.lead(&key, name, &ends, &vc, [Content::Streams(rates), Content::Sink])?;
    }
    let interfaces = network.join(builder)?;
    let entries = joints.into_iter().map(|joint| {
        let inside = (interfaces[joint.end.0], joint.end.1);
        let node = number(&scenario.node, joint.node);
        let outside = (nodes[node].element, interface_of_node(scenario, node, joint.link));
        builder.connect(outside, inside);
        builder.connect(inside, outside);
        Entry { link: joint.name.clone(), node: joint.node.clone(), input: inside, pdu_of: joint.pdu_of }
    });
    Ok(entries.collect())
}

/// Where a link that is a virtual channel meets a node.
struct Joint<'a> {
    link: usize,
    name: &'a String,
    node: &'a String,
    end: End,
    pdu_of: PduOf,
}

/// An interface by its number, and the port of a channel there.
type End = (usize, Port);

/// One end of a line.
#[derive(Clone, Copy)]
enum Plug {
    Switch(usize, Port),
    Interface(usize),
    /// A box of VS/VD, and its side.
    Coupling(usize, Port),
}

/// Switches and interfaces while channels are led through them.
struct Network<'a> {
    scenario: &'a Scenario,
    switches: Vec<Switch>,
    couplings: Vec<Coupling>,
    /// With their names.
    interfaces: Vec<(String, Interface)>,
    /// The ends of each line.
    plugs: Vec<[Plug; 2]>,
    /// The number of the next channel, the same on all its lines.
    next: u16,
    /// The channel led last.
    last: Vc,
}

impl<'a> Network<'a> {
    fn new(scenario: &'a Scenario) -> Result<Network<'a>, Problem> {
        let switches = scenario.atm.switch.values().map(Switch::new).collect();
        let couplings = scenario.atm.vs_vd.keys().map(|name| coupling(scenario, name));
        let couplings = couplings.collect::<Result<_, Problem>>()?;
        let (interfaces, plugs) = (Vec::new(), Vec::new());
        let mut network = Network {
            scenario,
            switches,
            couplings,
            interfaces,
            plugs,
            next: Vc::FIRST.vci(),
            last: Vc::FIRST,
        };
        for (name, line) in &scenario.atm.line {
            let config = line::Config { rate: line.cell_rate(), delay: line.delay };
            let mut plug = |node: &String, way: Way| {
                if let Some(n) = scenario.atm.vs_vd.get_index_of(node) {
                    let is_other = lines_of(scenario, node).position(|(other, _)| other == name) == Some(1);
                    return Ok(Plug::Coupling(n, Port(u16::from(is_other))));
                }
                let path = format!("line/{name}/{}", way.name());
                match scenario.atm.switch.get_index_of(node) {
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

    /// Leads a channel from one node to another; gives its ends. `key` is where it is said.
    fn lead(
        &mut self,
        key: &str,
        name: &str,
        between: &[String; 2],
        given: &VirtualChannel,
        contents: [Content; 2],
    ) -> Result<[End; 2], Problem> {
        let path =
            path(self.scenario, &between[0], &between[1]).map_err(|problem| Problem::new(key, problem))?;
        let vc = Vc::new(self.next).ok_or_else(|| Problem::new(key, "more than 4064 virtual channels"))?;
        (self.next, self.last) = (self.next + 1, vc);
        // The two ends of each line in the order that the channel passes them.
        let plugs: Vec<Plug> = path.iter().flat_map(|(line, way)| self.ends(*line, *way)).collect();
        let [first, middle @ .., last] = &plugs[..] else {
            return Err(Problem::new(key, "no line between its ends"));
        };
        for pair in middle.chunks(2) {
            match *pair {
                [Plug::Switch(switch, a), Plug::Switch(_, b)] => {
                    self.switches[switch].connect((a, vc), (b, vc), given.service.class());
                }
                [Plug::Coupling(n, a), Plug::Coupling(..)] => {
                    self.couple(key, (n, a), vc, name, given.service)?
                }
                _ => {}
            }
        }
        if let Some(receive) = &given.receive {
            let of_receive = format!("{key}.vc.receive");
            let checked = receive.check(given.service.class());
            checked.map_err(|error| Problem::impossible(&of_receive, &error))?;
        }
        let [near, far] = contents;
        let mut end = |plug: &Plug, node: &String, content| {
            let Plug::Interface(n) = *plug else { return Err(Problem::new(key, "a channel ends at nodes")) };
            let (path, service) = (format!("vc/{name}/{node}"), given.service);
            let channel = Channel { path, vc, service, content, limit: given.limit, receive: given.receive };
            let port = self.interfaces[n].1.add(channel);
            let of_service =
                if key.starts_with("link.") { format!("{key}.vc.service") } else { format!("{key}.service") };
            port.map(|port| (n, port)).map_err(|error| Problem::impossible(&of_service, &error))
        };
        Ok([end(first, &between[0], near)?, end(last, &between[1], far)?])
    }

    /// Leads a channel through a box, which it comes to at `side` on its way forward.
    fn couple(
        &mut self,
        key: &str,
        (n, side): (usize, Port),
        vc: Vc,
        name: &str,
        service: Service,
    ) -> Result<(), Problem> {
        let of_box = self.scenario.atm.vs_vd.get_index(n).map_or("", |(of_box, _)| of_box.as_str());
        // A direction is where its cells leave.
        let ways = if side == Port(0) { [Way::Return, Way::Forward] } else { [Way::Forward, Way::Return] };
        let paths = ways.map(|way| format!("vc/{name}/{of_box}/{}", way.name()));
        let connected = self.couplings[n].connect(vc, &service, paths);
        connected.map_err(|error| Problem::impossible(&format!("{key}.vc.service"), &error))
    }

    fn ends(&self, line: usize, way: Way) -> [Plug; 2] {
        let [a, b] = self.plugs[line];
        if way == Way::Forward { [a, b] } else { [b, a] }
    }

    /// Adds all to the network, and joins the lines' ends; gives the interfaces.
    fn join(self, builder: &mut Builder) -> Result<Vec<ElementId>, Problem> {
        let names = self.scenario.atm.switch.keys();
        let switches: Vec<ElementId> = names
            .zip(self.switches)
            .map(|(name, switch)| builder.add(format!("atm/{name}"), switch))
            .collect();
        let names = self.scenario.atm.vs_vd.keys();
        let couplings: Vec<ElementId> = names
            .zip(self.couplings)
            .map(|(name, coupling)| builder.add(format!("atm/{name}"), coupling))
            .collect();
        let interfaces: Vec<ElementId> =
            self.interfaces.into_iter().map(|(path, interface)| builder.add(path, interface)).collect();
        let at = |plug: Plug| match plug {
            Plug::Switch(switch, port) => (switches[switch], port),
            Plug::Interface(interface) => (interfaces[interface], LINE),
            Plug::Coupling(n, side) => (couplings[n], side),
        };
        for ([a, b], (name, line)) in self.plugs.into_iter().zip(&self.scenario.atm.line) {
            for (from, to, way) in [(a, b, Way::Forward), (b, a, Way::Return)] {
                let last = faults(name, line, way, at(from), builder)?;
                builder.connect(last, at(to));
            }
        }
        Ok(interfaces)
    }
}

/// The lines that end at a box or switch, and the direction that leaves there.
fn lines_of<'a>(scenario: &'a Scenario, name: &'a str) -> impl Iterator<Item = (&'a String, Way)> {
    scenario.atm.line.iter().filter_map(move |(line, config)| {
        let end = config.between.iter().position(|end| end == name)?;
        Some((line, if end == 0 { Way::Forward } else { Way::Return }))
    })
}

/// The box of VS/VD of this name, between its two lines.
fn coupling(scenario: &Scenario, name: &str) -> Result<Coupling, Problem> {
    let key = format!("atm.vs_vd.{name}");
    let lines: Vec<(&String, Way)> = lines_of(scenario, name).collect();
    let [one, other] = lines[..] else {
        return Err(Problem::new(key, format!("{} lines end here: expected two", lines.len())));
    };
    let of_line = |(line, _): (&String, Way)| {
        let line = &scenario.atm.line[line];
        line::Config { rate: line.cell_rate(), delay: line.delay }
    };
    let path = |(line, way): (&String, Way)| format!("line/{line}/{}", way.name());
    let (lines, paths) = ([of_line(one), of_line(other)], [path(one), path(other)]);
    Coupling::new(&scenario.atm.vs_vd[name], paths, lines.each_ref())
        .map_err(|error| Problem::impossible(&key, &error))
}

/// Adds the faults of a line behind `from`, where its cells come out; gives where they come out then.
fn faults(
    name: &str,
    line: &AtmLine,
    way: Way,
    from: (ElementId, Port),
    builder: &mut Builder,
) -> Result<(ElementId, Port), Problem> {
    let mut last = from;
    let configs = line.channel.as_ref().map_or(&[][..], |channel| channel.faults());
    for (n, config) in configs.iter().enumerate() {
        let place = match &line.channel {
            Some(CellChannel::Several(_)) => format!(".{n}"),
            _ => String::new(),
        };
        let fault = Faults::new(config)
            .map_err(|error| Problem::impossible(&format!("atm.line.{name}.channel{place}"), &error))?;
        let number = if n == 0 { String::new() } else { format!(".{}", n + 1) };
        let fault = builder.add(format!("line/{name}/{}/channel{number}", way.name()), fault);
        builder.connect(last, (fault, Port(0)));
        last = (fault, Port(0));
    }
    Ok(last)
}

/// The rates of a stream's sources; or the key of what is wrong, and what was expected.
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
            let single = video::RateConfig { programmes: 1, ..*config };
            let programme = |n: u16| -> Result<Rates, (&'static str, &'static str)> {
                let mut stream = Stream::new(seed, &format!("vc/{name}/source/{n}"));
                let rates = video::Rates::new(&single, Time::ZERO, &mut stream);
                let rates = rates.map_err(|error| (error.key, error.expected))?;
                Ok(Box::new(Programme { rates, stream }))
            };
            (0..config.programmes).map(programme).collect::<Result<_, _>>()?
        }
    })
}

/// The rates of a programme, with the random numbers that they are drawn from.
struct Programme {
    rates: video::Rates,
    stream: Stream,
}

impl Iterator for Programme {
    type Item = (Span, Rate);

    fn next(&mut self) -> Option<(Span, Rate)> {
        let piece = self.rates.next_piece(&mut self.stream);
        Some((piece.span, piece.rate))
    }
}

#[cfg(test)]
mod tests;
