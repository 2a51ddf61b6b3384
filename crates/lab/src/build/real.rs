//! Networks with real hosts: what a real host's place is taken by, and how it reaches the rest.

use std::net::IpAddr;
use std::path::Path;

use bentpipe_net::Gate;
use bentpipe_sim::{Builder, ElementId};
use bentpipe_units::Bytes;

use super::routes::{Hop, Router, number};
use super::{Built, Capture, LinkHandle, Problem, copies, direction, mtu};
use crate::scenario::{CellChannel, CellFault, Channel, Fault, Ip, Link, NodeKind, Queue, Scenario};

/// A host of the scenario that is to be real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealHost {
    /// Its name.
    pub name: String,
    /// Its IPv4 and IPv6 address.
    pub addresses: [IpAddr; 2],
    /// Its interfaces, one for each of its links in the order of the file.
    pub interfaces: Vec<Interface>,
    /// Other nodes' addresses, and the number of the interface that leads there.
    pub routes: Vec<(IpAddr, usize)>,
    /// Whether it passes packets on from one interface to another.
    pub forwards: bool,
    /// Whether its interfaces are Ethernet.
    pub ethernet: bool,
}

/// A real host's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The link's name.
    pub link: String,
    /// The `bentpipe_net::Gate` where its packets enter and leave the network.
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
    /// The scenario as it was built: without the flows of real hosts, and with what else an emulation needs.
    pub scenario: Scenario,
    /// What a user has to know of that.
    pub notices: Vec<String>,
}

/// A queue without a limit would grow with whatever a real host sends.
const MAX_QUEUE: Bytes = Bytes::new(64_000_000);
/// As much in cells.
const MAX_CELLS: u32 = 1_200_000;

impl Emulated {
    /// Builds a scenario with its real hosts outside: those that it marks `real`, or else all its hosts.
    ///
    /// # Errors
    /// As [`Built::new`]; if simulated flows may need a tunnel that ends at a real host; if there is no host.
    pub fn new(scenario: &Scenario, seed: u64, folder: &Path) -> Result<Emulated, Problem> {
        let (scenario, notices) = adapted(scenario)?;
        let built = Built::with_nodes(&scenario, seed, folder, |nodes, builder| {
            real_nodes(&scenario).for_each(|(node, _)| {
                [Ip::V4, Ip::V6].into_iter().for_each(|ip| nodes.send_to(node, ip));
            });
            add_gates(&scenario, builder)
        })?;
        let (mut built, gates) = built;
        built.captures.iter_mut().for_each(|capture| at_gate(capture, &gates));
        let mut router =
            Router::new(&scenario).map_err(|(key, error)| Problem::new(key, error.to_string()))?;
        let hosts = real_nodes(&scenario).map(|(node, name)| {
            let interfaces: Vec<Interface> =
                gates.iter().filter(|gate| gate.host == *name).map(GateAt::interface).collect();
            RealHost {
                name: name.clone(),
                addresses: built.nodes[node].addresses,
                routes: routes(&scenario, &built, node, &interfaces, &mut router),
                interfaces,
                forwards: scenario.node[node].kind != NodeKind::Host,
                ethernet: scenario.node[node].ethernet,
            }
        });
        let hosts = hosts.collect();
        Ok(Emulated { built, hosts, scenario, notices })
    }
}

/// The scenario for its emulation, and what was changed in it.
pub(super) fn adapted(scenario: &Scenario) -> Result<(Scenario, Vec<String>), Problem> {
    let (mut scenario, mut notices) = (copies::spread(scenario).into_owned(), Vec::new());
    if scenario.node.values().all(|node| !node.real) {
        let hosts = scenario.node.values_mut().filter(|node| node.kind == NodeKind::Host);
        hosts.for_each(|host| host.real = true);
        notices.push("no node is marked `real = true`, so all hosts are".to_owned());
    }
    if scenario.node.values().all(|node| !node.real) {
        return Err(Problem::new("node", "no host that could be real: expected `real = true` at one"));
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
            let problem = "ends at a real host, and a flow of IPv6 beside it may need it: expected a router at \
                           each end, the host behind it";
            return Err(Problem::new(format!("tunnel.{name}.between"), problem));
        }
        notices.push(format!("tunnel \"{name}\" is left out: it ends at a real host"));
    }
    for (name, link) in scenario.link.iter().filter(|(_, link)| link.vc.is_some()) {
        if let Some(end) = link.between.iter().find(|end| is_real(end)) {
            let problem = format!(
                "a virtual channel ends at \"{end}\", which is real: expected a router there, the host behind it"
            );
            return Err(Problem::new(format!("link.{name}.vc"), problem));
        }
    }
    let reaches = |to: &String| {
        is_real(to) || scenario.group.get(to).is_some_and(|group| group.members.iter().any(is_real))
    };
    let real_flow = |flow: &crate::scenario::Flow| is_real(&flow.from) || reaches(&flow.to);
    let left_out: Vec<String> =
        scenario.flow.iter().filter(|(_, flow)| real_flow(flow)).map(|(name, _)| name.clone()).collect();
    for name in left_out {
        scenario.flow.shift_remove(&name);
        notices.push(format!("flow \"{name}\" is left out: it begins or ends at a real host"));
    }
    for (name, link) in &mut scenario.link {
        if let Some(vc) = &mut link.vc {
            vc.limit.get_or_insert_with(|| {
                notices.push(format!("link \"{name}\": ends without a limit get one of {MAX_CELLS} cells"));
                MAX_CELLS
            });
            continue;
        }
        if bound_queues(link) {
            notices.push(format!("link \"{name}\": a queue without a limit gets one of {MAX_QUEUE}"));
        }
        fill_channels(link);
    }
    for (name, switch) in &mut scenario.atm.switch {
        let limit = &mut switch.limit;
        let all = [&mut limit.cbr, &mut limit.vbr, &mut limit.abr, &mut limit.ubr];
        if all.into_iter().filter(|limit| limit.is_none()).map(|limit| *limit = Some(MAX_CELLS)).count() > 0 {
            notices.push(format!("switch \"{name}\": queues without a limit get one of {MAX_CELLS} cells"));
        }
    }
    for (name, vs_vd) in &mut scenario.atm.vs_vd {
        vs_vd.limit.get_or_insert_with(|| {
            notices.push(format!("vs_vd \"{name}\": queues without a limit get one of {MAX_CELLS} cells"));
            MAX_CELLS
        });
    }
    for line in scenario.atm.line.values_mut() {
        line.channel.get_or_insert(CellChannel::One(CellFault::CellLoss { ratio: 0.0 }));
    }
    Ok((scenario, notices))
}

/// Whether a flow of IPv6 begins or ends at neither of the two nodes, so that a tunnel between them may carry it.
fn needs_ipv6(scenario: &Scenario, ends: &[String; 2]) -> bool {
    let mut others =
        scenario.flow.values().filter(|flow| !ends.contains(&flow.from) && !ends.contains(&flow.to));
    others.any(|flow| flow.ip == Ip::V6)
}

/// Gives queues without a limit one; whether there were any.
fn bound_queues(link: &mut Link) -> bool {
    let bounded = |queue: Option<Queue>| match queue.unwrap_or_default() {
        Queue::DropTail(mut config) if config.packets.is_none() && config.bytes.is_none() => {
            config.bytes = Some(MAX_QUEUE);
            (Queue::DropTail(config), true)
        }
        queue => (queue, false),
    };
    let both = [super::Way::Forward, super::Way::Return].map(|way| bounded(direction(link, way).queue));
    (link.forward.queue, link.reverse.queue) = (Some(both[0].0), Some(both[1].0));
    both[0].1 || both[1].1
}

/// Gives directions without a channel one that does nothing, so that it can be changed later.
fn fill_channels(link: &mut Link) {
    let both = [super::Way::Forward, super::Way::Return].map(|way| direction(link, way).channel);
    let filled = both.map(|channel| Some(channel.unwrap_or(Channel::One(Fault::PacketErrors { loss: 0.0 }))));
    [link.forward.channel, link.reverse.channel] = filled;
}

fn real_nodes(scenario: &Scenario) -> impl Iterator<Item = (usize, &String)> {
    scenario.node.iter().enumerate().filter(|(_, (_, node))| node.real).map(|(n, (name, _))| (n, name))
}

/// A gate and where it is.
pub(super) struct GateAt {
    host: String,
    link: String,
    element: ElementId,
    mtu: Bytes,
}

impl GateAt {
    fn interface(&self) -> Interface {
        Interface { link: self.link.clone(), gate: self.element, mtu: self.mtu }
    }

    /// Puts the gate in the host's place at the ends of the link's directions.
    pub(super) fn connect(&self, links: &[LinkHandle], builder: &mut Builder) {
        for link in links.iter().filter(|link| link.name == self.link) {
            if link.from == self.host {
                builder.connect((self.element, Gate::NETWORK), link.input());
            } else {
                builder.connect(link.output(), (self.element, Gate::NETWORK));
            }
        }
    }
}

fn add_gates(scenario: &Scenario, builder: &mut Builder) -> Vec<GateAt> {
    let mut gates = Vec::new();
    for (_, host) in real_nodes(scenario) {
        for (name, link) in scenario.link.iter().filter(|(_, link)| link.between.contains(host)) {
            let element = builder.add(format!("node/{host}/gate/{name}"), Gate::default());
            gates.push(GateAt { host: host.clone(), link: name.clone(), element, mtu: mtu(link) });
        }
    }
    gates
}

/// Lets a capture at a real host see what arrives at its gate.
fn at_gate(capture: &mut Capture, gates: &[GateAt]) {
    let Some((host, link)) = capture.name.split_once(':') else { return };
    if let Some(gate) = gates.iter().find(|gate| gate.host == host && gate.link == link) {
        capture.received = (gate.element, Gate::NETWORK);
    }
}

/// Which interface of a real host leads to which other node.
fn routes(
    scenario: &Scenario,
    built: &Built,
    host: usize,
    interfaces: &[Interface],
    router: &mut Router<'_>,
) -> Vec<(IpAddr, usize)> {
    let mut routes = Vec::new();
    for (ip, at) in [(Ip::V4, 0), (Ip::V6, 1)] {
        for (name, _) in &scenario.node {
            let to = number(&scenario.node, name);
            if let Some((Hop::Link(link, _), _)) = router.towards(to, ip)[host] {
                let link = scenario.link.get_index(link).map_or("", |(name, _)| name);
                let interface = interfaces.iter().position(|interface| interface.link == link);
                routes.extend(interface.map(|interface| (built.nodes[to].addresses[at], interface)));
            }
        }
    }
    routes
}
