//! Networks with real hosts: external ports in their place, and their routes.

use std::net::IpAddr;
use std::sync::Arc;

use bentpipe_net::ExternalPort;
use bentpipe_scenario::{
    Access, Channel, Difference, Fault, Hop, Ip, Layout, Link, Moment, NodeKind, Problem, REAL_HOST,
    Scenario, Way, copies,
};
use bentpipe_sim::ElementId;
use bentpipe_site::{At, Facts, Order, Part, Router, Site, Topology};
use bentpipe_units::{Bytes, Span};

use super::cut::{NetworkCut, ScenarioPart};
use super::links::Joined;
use super::{Built, Capture, Flows, Gates, Loader, Plan, multicast};

/// A host of the scenario that is to be real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealHost {
    /// Name.
    pub name: String,
    /// IPv4 and IPv6 address.
    pub addresses: [IpAddr; 2],
    /// Interfaces, one for each of its links in the order of the file.
    pub interfaces: Vec<Interface>,
    /// Other nodes' addresses, and the number of the interface that leads there.
    pub routes: Vec<(IpAddr, usize)>,
    /// Set if it forwards packets between its interfaces.
    pub forwards: bool,
    /// Set if its interfaces are Ethernet.
    pub ethernet: bool,
}

/// A real host's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The link's name.
    pub link: String,
    /// The `bentpipe_net::ExternalPort` where its packets enter and leave the network.
    pub gate: ElementId,
    /// The longest IP packet.
    pub mtu: Bytes,
}

/// A network with gates in the places of real hosts.
pub struct Emulated {
    /// The network and its handles. A real host's node is there too, and nothing reaches it.
    pub built: Built,
    /// The real hosts.
    pub hosts: Vec<RealHost>,
    /// Scenario as built: without the flows of real hosts, and adapted for emulation.
    pub scenario: Scenario,
    /// Notices of the adaptation for the user.
    pub notices: Vec<String>,
    /// Longest round trip between real hosts: delays of the links, without queues.
    pub max_round_trip: Span,
    /// Largest bandwidth-delay product between real hosts.
    pub max_bdp: Bytes,
    /// Place where the network continues on another machine.
    pub cut: Option<NetworkCut>,
}

impl Emulated {
    /// Assembles a scenario with its real hosts outside; all hosts if none is marked `real`.
    ///
    /// # Errors
    /// Returns the errors of [`Built::new`], and an error if simulated flows may need a tunnel that ends at a
    /// real host, or if the scenario lacks hosts.
    pub fn new(scenario: &Scenario, seed: u64, access: &Access) -> Result<Emulated, Problem> {
        Emulated::of_part(scenario, seed, access, None)
    }

    /// Assembles a scenario of which one part is emulated here. The hosts of the other part are not real.
    ///
    /// # Errors
    /// As [`Emulated::new`], and an error if the cut link's delay is too short.
    pub fn of_part(
        scenario: &Scenario,
        seed: u64,
        access: &Access,
        part: Option<&ScenarioPart>,
    ) -> Result<Emulated, Problem> {
        let (original, notices) = adapted(scenario)?;
        let mut scenario = original.clone();
        part.map_or(Ok(()), |part| part.adapt(&mut scenario))?;
        let layout = Layout::new(&scenario);
        let topology = Plan::new(&scenario, Flows::Whole)?.topology;
        let mut router = Router::new(&topology)?;
        let built =
            Built::with_gates(&scenario, (seed, Flows::Whole), &Loader::new(access), |nodes, site| {
                destinations(&scenario).for_each(|node| {
                    [Ip::V4, Ip::V6].into_iter().for_each(|ip| nodes.send_to(node, ip));
                });
                multicast::enable(&scenario, &layout, &topology, nodes, &mut router);
                let hosts = add_gates(&scenario, &layout, site);
                Gates { hosts, cut: part.map(|part| (part.clone(), part.add(&scenario, site))) }
            })?;
        let (mut built, Gates { hosts: gates, cut }) = built;
        built.captures.iter_mut().for_each(|capture| at_gate(capture, &gates));
        let is_here = |name: &str| part.is_none_or(|part| part.has(name));
        let hosts = real_nodes(&scenario).filter(|(_, name)| is_here(name)).map(|(node, name)| {
            let interfaces: Vec<Interface> =
                gates.iter().filter(|gate| gate.host == *name).map(GateAt::interface).collect();
            RealHost {
                name: name.clone(),
                addresses: built.nodes[node].addresses,
                routes: routes(&topology, &built, node, &interfaces, &mut router),
                interfaces,
                forwards: scenario.node[node].kind != NodeKind::Host,
                ethernet: scenario.node[node].ethernet,
            }
        });
        let hosts = hosts.collect();
        let facts = Layout::new(&original).facts()?;
        let (max_round_trip, max_bdp) = extremes(&scenario, &facts, &mut router);
        let cut = cut.map(|(part, element)| NetworkCut { element, part });
        Ok(Emulated { built, hosts, scenario, notices, max_round_trip, max_bdp, cut })
    }
}

/// Returns the scenario for its emulation, and notices of the changes.
pub(super) fn adapted(original: &Scenario) -> Result<(Scenario, Vec<String>), Problem> {
    let (mut scenario, mut notices) = (copies::spread(original).into_owned(), Vec::new());
    if scenario.node.values().all(|node| !node.real) {
        let hosts = scenario.node.values_mut().filter(|node| node.kind == NodeKind::Host);
        hosts.for_each(|host| host.real = true);
        notices.push("no node is marked `real = true`, so all hosts are".to_owned());
    }
    if scenario.node.values().all(|node| !node.real) {
        return Err(Problem::new("node", "no host that could be real: expected `real = true` at one"));
    }
    let mut programs = Vec::new();
    for (at, role) in scenario.roles().filter(|(at, _)| scenario.node[at.node].real) {
        if !role.has_program() {
            return Err(Problem::new(at.key, REAL_HOST));
        }
        programs.push(at.node.to_owned());
    }
    if !programs.is_empty() {
        let real = scenario.node.values_mut().filter(|node| node.real);
        real.for_each(|node| node.role = None);
        let hosts = listed("host", &programs);
        notices.push(format!("roles that are for programs, which --real-flows starts: {hosts}"));
    }
    let real: Vec<String> = real_nodes(&scenario).map(|(_, name)| name.clone()).collect();
    let is_real = |name: &String| real.contains(name);
    let of_real: Vec<String> = scenario
        .tunnel
        .iter()
        .filter(|(_, tunnel)| tunnel.between.iter().any(is_real))
        .map(|(name, _)| name.clone())
        .collect();
    for name in of_real {
        let Some(tunnel) = scenario.tunnel.shift_remove(&name) else { continue };
        if needs_ipv6(&scenario, &tunnel.between) {
            let problem = "ends at a real host, and a flow of IPv6 next to it may need it: expected a router at \
                           each end, the host behind it";
            return Err(Problem::new(format!("tunnel.{name}.between"), problem));
        }
        notices.push(format!("tunnel \"{name}\" is left out: it ends at a real host"));
    }
    for (name, link) in &scenario.link {
        let what = link.side(name, Way::Forward).medium.takes().real_ends;
        if let Some((what, end)) = what.zip(link.between.iter().find(|end| is_real(end))) {
            let problem = format!(
                "{what} ends at \"{end}\", which is real: expected a router there, the host behind it"
            );
            return Err(Problem::new(format!("link.{name}.medium"), problem));
        }
    }
    let reaches = |to: &String| {
        is_real(to) || scenario.group.get(to).is_some_and(|group| group.members.iter().any(is_real))
    };
    let real_flow = |flow: &bentpipe_scenario::Flow| is_real(&flow.from) || reaches(&flow.to);
    let left_out: Vec<String> =
        scenario.flow.iter().filter(|(_, flow)| real_flow(flow)).map(|(name, _)| name.clone()).collect();
    for name in &left_out {
        scenario.flow.shift_remove(name);
    }
    if !left_out.is_empty() {
        notices.push(format!("not simulated, as a real host is an end: {}", listed("flow", &left_out)));
    }
    for (name, link) in &mut scenario.link {
        link.media_mut().for_each(|medium| medium.bound(name, &mut notices));
        fill_channels(name, link);
    }
    scenario.shared.bound(&mut notices);
    scenario.role_tables.bound(&mut notices);
    scenario.timeline = adapted_moments(original, &scenario);
    Ok((scenario, notices))
}

/// Returns the events of a scenario in the terms of what it was adapted to.
fn adapted_moments(scenario: &Scenario, adapted: &Scenario) -> Arc<[Moment]> {
    let mut state = scenario.clone();
    let of = |moment: &Moment| {
        moment.difference.apply(&mut state);
        let mut difference = prepared_difference(&state, moment);
        difference.flow.retain(|(name, _)| adapted.flow.contains_key(name));
        for (name, node) in &mut difference.node {
            node.real = adapted.node.get(name).is_some_and(|node| node.real);
            // Programs have its roles.
            node.role = node.role.take().filter(|_| !node.real);
        }
        let media =
            difference.link.iter_mut().flat_map(|(name, link)| link.media_mut().map(|of| (&*name, of)));
        media.for_each(|(name, medium)| medium.bound(name, &mut Vec::new()));
        difference.shared.iter_mut().for_each(|shared| shared.bound(&mut Vec::new()));
        Moment { difference, ..moment.clone() }
    };
    scenario.timeline.iter().map(of).collect()
}

/// Maximum number of names in a notice.
const MAX_NAMES: usize = 8;

/// Lists the first names of a kind, with the number of the others.
fn listed(kind: &str, names: &[String]) -> String {
    let plural = if names.len() > 1 { "s" } else { "" };
    let first: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("\"{name}\"")).collect();
    let rest = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{kind}{plural} {}{rest}", first.join(", "))
}

/// Returns the longest round trip between real hosts, and the largest bandwidth-delay product.
fn extremes(scenario: &Scenario, facts: &[Facts], router: &mut Router<'_>) -> (Span, Bytes) {
    let real: Vec<usize> = real_nodes(scenario).map(|(node, _)| node).collect();
    let (mut round_trip, mut bdp) = (Span::ZERO, Bytes::ZERO);
    for (at, &a) in real.iter().enumerate() {
        for &b in &real[at + 1..] {
            let paths = [(a, b), (b, a)].map(|(from, to)| {
                router.path_of_links(from, to, Ip::V4).or_else(|_| router.path_of_links(from, to, Ip::V6))
            });
            let [Ok(there), Ok(back)] = paths else { continue };
            let of = |path: &[(usize, Way)]| {
                let facts = path.iter().map(|(link, way)| &facts[2 * link + way.index()]);
                let delay: Span = facts.clone().map(|facts| facts.delay).sum();
                (delay, facts.map(|facts| facts.rate).min().unwrap_or_default())
            };
            let [(there, rate), (back, other)] = [of(&there), of(&back)];
            round_trip = round_trip.max(there + back);
            bdp = bdp.max(rate.max(other).bdp(there + back));
        }
    }
    (round_trip, bdp)
}

/// Returns `true` if an IPv6 flow has neither end at the two nodes.
///
/// A tunnel between them may carry it.
fn needs_ipv6(scenario: &Scenario, ends: &[String; 2]) -> bool {
    let mut others =
        scenario.flow.values().filter(|flow| !ends.contains(&flow.from) && !ends.contains(&flow.to));
    others.any(|flow| flow.ip == Ip::V6)
}

/// Adds an idle channel to directions without one, so that it can change later.
pub(super) fn fill_channels(name: &str, link: &mut Link) {
    for way in Way::BOTH {
        let side = link.side(name, way);
        if side.medium.takes().channel.is_none() {
            let channel = side.common.channel.filter(|channel| !channel.faults().is_empty());
            let idle = || Channel::One(Fault::PacketErrors { loss: 0.0 });
            link.own_mut(way).channel = Some(channel.unwrap_or_else(idle));
        }
    }
}

/// Returns what a moment changes in a prepared scenario. `after` is the state after it, with copies.
pub(super) fn prepared_difference(after: &Scenario, moment: &Moment) -> Difference {
    let mut difference = copies::spread_difference(after, &moment.difference);
    difference.link.iter_mut().for_each(|(name, link)| fill_channels(name, link));
    difference
}

/// Returns the nodes with routes from all others: real hosts and forwarding nodes.
fn destinations(scenario: &Scenario) -> impl Iterator<Item = usize> {
    let is_meant = |node: &bentpipe_scenario::Node| node.real || node.kind != NodeKind::Host;
    scenario.node.values().enumerate().filter(move |(_, node)| is_meant(node)).map(|(number, _)| number)
}

fn real_nodes(scenario: &Scenario) -> impl Iterator<Item = (usize, &String)> {
    scenario.node.iter().enumerate().filter(|(_, (_, node))| node.real).map(|(n, (name, _))| (n, name))
}

/// A gate and where it is; `E` numbers elements.
pub(super) struct GateAt<E> {
    host: String,
    link: String,
    element: E,
    mtu: Bytes,
}

impl GateAt<ElementId> {
    fn interface(&self) -> Interface {
        Interface { link: self.link.clone(), gate: self.element, mtu: self.mtu }
    }
}

impl GateAt<Part> {
    /// Returns the gate with the number of its element.
    pub(super) fn map(self, number: impl FnOnce(Part) -> ElementId) -> GateAt<ElementId> {
        let GateAt { host, link, element, mtu } = self;
        GateAt { host, link, element: number(element), mtu }
    }

    /// Returns the input of the port if it is that of a host and link.
    pub(super) fn input(&self, host: &str, link: &str) -> Option<At> {
        (self.host == host && self.link == link).then_some((self.element, ExternalPort::NETWORK))
    }

    /// Connects the external port in the host's place to the link's directions.
    pub(super) fn connect(&self, links: &[Joined], site: &mut Site<'_>) {
        for link in links.iter().filter(|link| link.name == self.link) {
            if link.from == self.host {
                site.connect((self.element, ExternalPort::NETWORK), link.input);
            } else {
                site.connect(link.output, (self.element, ExternalPort::NETWORK));
            }
        }
    }
}

fn add_gates(scenario: &Scenario, layout: &Layout<'_>, site: &mut Site<'_>) -> Vec<GateAt<Part>> {
    let mut gates = Vec::new();
    for (_, host) in real_nodes(scenario) {
        let links = scenario.link.iter().enumerate().filter(|(_, (_, link))| link.between.contains(host));
        for (n, (name, _)) in links {
            let is_first = gates.iter().all(|gate: &GateAt<Part>| gate.host != *host);
            let port = match is_first {
                true => ExternalPort::reporting(format!("node/{host}/tcp")),
                false => ExternalPort::default(),
            };
            let element = site.add(Order::Gate, format!("node/{host}/gate/{name}"), port);
            gates.push(GateAt { host: host.clone(), link: name.clone(), element, mtu: layout.mtu(n) });
        }
    }
    gates
}

/// Moves a capture at a real host to its external port.
fn at_gate(capture: &mut Capture, gates: &[GateAt<ElementId>]) {
    let Some((host, link)) = capture.name.split_once(':') else { return };
    if let Some(gate) = gates.iter().find(|gate| gate.host == host && gate.link == link) {
        capture.received = (gate.element, ExternalPort::NETWORK);
    }
}

/// Returns the interface of a real host for each other node.
fn routes(
    topology: &Topology,
    built: &Built,
    host: usize,
    interfaces: &[Interface],
    router: &mut Router<'_>,
) -> Vec<(IpAddr, usize)> {
    let mut routes = Vec::new();
    for (ip, at) in [(Ip::V4, 0), (Ip::V6, 1)] {
        for to in 0..topology.node.len() {
            let steps = router.steps(host, to, ip).unwrap_or_default();
            if let Some(&(Hop::Link(link, _), _)) = steps.first() {
                let link = topology.link.get_index(link).map_or("", |(name, _)| name);
                let interface = interfaces.iter().position(|interface| interface.link == link);
                routes.extend(interface.map(|interface| (built.nodes[to].addresses[at], interface)));
            }
        }
    }
    routes
}
