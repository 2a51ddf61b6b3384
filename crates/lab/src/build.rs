//! From a scenario to a wired network.
//!
//! A node is one element; a link is in each direction a shaper if there is one, a line (queue, serialiser, pipe) and a
//! channel if there is one, in this order; a flow is an element at each of its ends. Elements are named after their key
//! in the scenario ("link/satellite/forward", "flow/bulk/sender"), and the name seeds their random stream, so adding a
//! flow does not change the losses that the others see.

mod atm;
mod carriers;
mod change;
pub(crate) mod copies;
pub(crate) mod delays;
mod dvb;
mod flows;
mod groups;
mod links;
mod nodes;
mod real;
mod replay;
pub(crate) mod routes;
mod wifi;

use std::net::IpAddr;
use std::path::Path;

use bentpipe_net::{Impossible, Port};
use bentpipe_sim::{BuildError, Builder, ElementId, Network};
use bentpipe_units::{Bytes, Rate, Span};

pub use carriers::CarrierHandle;
pub use change::{Change, Changer, Setting};
pub use delays::parse as delay_changes;
pub use real::{Emulated, Interface, RealHost};
pub use routes::{Hop, Unreachable, Way};

use crate::record::{Form, Multiplex, PduOf};
use crate::scenario::Scenario;
pub(crate) use carriers::{frame, terminals};
pub(crate) use flows::{path_mtu, resolve};
pub(crate) use links::{direction, mtu};

/// Why there is no network: what is wrong, and at which key of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Problem {
    /// Dotted key.
    pub key: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Problem {
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> Problem {
        Problem { key: key.into(), problem: problem.into() }
    }

    /// An element's own refusal of its configuration at `key`.
    pub(crate) fn impossible(key: &str, impossible: &Impossible) -> Problem {
        Problem::new(format!("{key}.{}", impossible.key), format!("expected {}", impossible.expected))
    }
}

/// A network, and which of its elements is what.
pub struct Built {
    /// The network, at the start of its run.
    pub network: Network,
    /// Nodes in the order of the file.
    pub nodes: Vec<NodeHandle>,
    /// Both directions of each link, in the order of the file.
    pub links: Vec<LinkHandle>,
    /// Flows in the order of the file, each copy by itself where copies have elements of their own.
    pub flows: Vec<FlowHandle>,
    /// Carriers in the order of the file.
    pub carriers: Vec<CarrierHandle>,
    /// Where packets are to be captured.
    pub captures: Vec<Capture>,
}

/// A node and its element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHandle {
    /// Its name.
    pub name: String,
    /// A `bentpipe_net::Node`.
    pub element: ElementId,
    /// Its IPv4 and IPv6 address.
    pub addresses: [IpAddr; 2],
}

/// One direction of a link and its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkHandle {
    /// The link's name.
    pub name: String,
    /// The direction.
    pub way: Way,
    /// The node that sends into it, by name.
    pub from: String,
    /// The node that receives from it, by name.
    pub to: String,
    /// What answers Quick-Start requests in front of it all.
    pub approver: Option<ElementId>,
    /// The token bucket in front of it.
    pub shaper: Option<ElementId>,
    /// A `bentpipe_net::Link`: queue, serialiser and pipe; a `bentpipe_net::dama::Terminal`; a
    /// `bentpipe_net::dvb::Sender` with others; or of a Wi-Fi link the `bentpipe_net::Wifi` that it shares.
    pub line: ElementId,
    /// The input and the output of `line` that this direction has.
    pub port: Port,
    /// What is on the line if it is not packets.
    pub form: Option<Form>,
    /// What loses packets behind it, in their order.
    pub channels: Vec<ElementId>,
    /// The far end of a terminal or of a stream of DVB, behind the channel.
    pub receiver: Option<ElementId>,
    /// Its line rate; of a terminal that of its carriers, of DVB that of its whole line, of Wi-Fi that of data frames.
    pub rate: Rate,
    /// Its propagation delay.
    pub delay: Span,
}

impl LinkHandle {
    /// Where packets go in.
    pub fn input(&self) -> (ElementId, Port) {
        let first = self.approver.or(self.shaper);
        first.map_or((self.line, self.port), |first| (first, Port(0)))
    }

    /// Where they come out.
    pub fn output(&self) -> (ElementId, Port) {
        let last = self.receiver.or(self.channels.last().copied());
        last.map_or((self.line, self.port), |last| (last, Port(0)))
    }

    /// What its counters are recorded under: "link/satellite/forward".
    pub fn path(&self) -> String {
        format!("link/{}/{}", self.name, self.way.name())
    }
}

/// What a flow consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// A TCP connection: both ends are a `bentpipe_net::tcp::Endpoint`.
    Tcp,
    /// UDP datagrams: a `bentpipe_net::app::Source` and for each receiver a `bentpipe_net::app::Sink`.
    Udp,
    /// Media under TFRC: a `bentpipe_net::tfrc::Sender` and a `bentpipe_net::tfrc::Receiver`.
    Tfrc,
    /// A capture's packets: a `bentpipe_net::app::Replay` and a `bentpipe_net::app::Arrivals`.
    Replay,
}

/// A flow, or a copy of one, and its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowHandle {
    /// The name in the file, for copies with their number: "bulk", or "bulk.1", "bulk.2", ...
    pub name: String,
    /// The name in the file.
    pub flow: String,
    /// What it consists of.
    pub traffic: Traffic,
    /// The node that sends.
    pub from: String,
    /// The node or group that receives.
    pub to: String,
    /// The sending end.
    pub sender: ElementId,
    /// The receiving ends: one, or one for each member of a group.
    pub receivers: Vec<ElementId>,
    /// How many like flows these elements stand for: copies of UDP flows that start together share one element.
    pub copies: u32,
    /// When it starts.
    pub start: Span,
}

/// What a node sends on a line in another form than packets.
#[derive(Clone, Debug)]
pub struct OnLine {
    /// Which form it is.
    pub form: Form,
    /// Where it arrives first; of a multiplex, where each of its streams does.
    pub inputs: Vec<(ElementId, Port)>,
    /// The multiplex, if it is a transport stream.
    pub multiplex: Option<Multiplex>,
}

/// A point where packets are to be captured, as IP packets: these inputs are to be tapped.
#[derive(Clone, Debug)]
pub struct Capture {
    /// As in the scenario: "node:link".
    pub name: String,
    /// Where packets that the node sends into the link arrive first.
    pub sent: (ElementId, Port),
    /// Where packets that the node receives from the link arrive.
    pub received: (ElementId, Port),
    /// If the node is a terminal there, or sends a stream of DVB: where its bursts, TS packets or frames arrive first, and
    /// which they are.
    pub on_line: Option<OnLine>,
    /// The virtual channel that the link is, if it is one.
    pub pdu_of: Option<PduOf>,
}

impl Built {
    /// Builds a scenario that is valid. `folder` is where relative paths in it start.
    ///
    /// # Errors
    /// What cannot be built: nodes that do not reach each other, values that an element refuses, a loop without delay, a
    /// capture file that cannot be read.
    pub fn new(scenario: &Scenario, seed: u64, folder: &Path) -> Result<Built, Problem> {
        Built::with_nodes(scenario, seed, folder, |_, _| Vec::new()).map(|(built, _)| built)
    }

    /// As [`Built::new`]; `real` is called once all nodes are known, and gives the gates that stand in the places of
    /// real hosts.
    fn with_nodes(
        scenario: &Scenario,
        seed: u64,
        folder: &Path,
        real: impl FnOnce(&mut nodes::Nodes, &mut Builder) -> Vec<real::GateAt>,
    ) -> Result<(Built, Vec<real::GateAt>), Problem> {
        Built::of_spread(&copies::spread(scenario), seed, folder, real)
            .map_err(|problem| copies::in_file(scenario, problem))
    }

    /// As [`Built::with_nodes`], of a scenario without copies of nodes.
    fn of_spread(
        scenario: &Scenario,
        seed: u64,
        folder: &Path,
        real: impl FnOnce(&mut nodes::Nodes, &mut Builder) -> Vec<real::GateAt>,
    ) -> Result<(Built, Vec<real::GateAt>), Problem> {
        let mut router =
            routes::Router::new(scenario).map_err(|(key, error)| Problem::new(key, error.to_string()))?;
        let mut nodes = nodes::Nodes::new(scenario);
        nodes.add_tunnels(scenario, &mut router)?;
        let plans = flows::plan(scenario, &mut nodes, &mut router, folder)?;
        groups::route(scenario, &mut nodes, &mut router)?;
        let mut builder = Builder::new(seed);
        let gates = real(&mut nodes, &mut builder);
        let handles = nodes.add_to(scenario, &mut builder, &mut router);
        let carriers = carriers::add(scenario, &mut builder)?;
        let links = links::add(scenario, &handles, &carriers, (seed, folder), &mut builder)?;
        let entries = atm::add(scenario, &handles, seed, &mut builder)?;
        gates.iter().for_each(|gate| gate.connect(&links, &mut builder));
        let flows = flows::add(scenario, plans, &handles, &mut builder);
        let captures = captures(scenario, &handles, &links, &entries);
        let network = builder.build().map_err(|error| loop_problem(scenario, &error))?;
        Ok((Built { network, nodes: handles, links, flows, carriers, captures }, gates))
    }
}

/// What is wrong with `scenario` that only building shows.
pub(crate) fn check(scenario: &Scenario, folder: &Path) -> Result<(), Problem> {
    Built::new(scenario, scenario.seed, folder).map(|_| ())
}

fn captures(
    scenario: &Scenario,
    nodes: &[NodeHandle],
    links: &[LinkHandle],
    entries: &[atm::Entry],
) -> Vec<Capture> {
    let points =
        scenario.probe.capture.iter().filter_map(|name| Some((name, scenario.capture_point(name).ok()?)));
    let point = |(name, (node, link)): (&String, (&str, &str))| {
        let line = links.iter().find(|handle| handle.name == link && handle.from == node);
        let channel = entries.iter().find(|entry| entry.link == link && entry.node == node);
        let sent = match (line, channel) {
            (Some(line), _) => line.input(),
            (None, channel) => channel?.input,
        };
        let number = routes::number(&scenario.node, node);
        let interface = nodes::interface(scenario, number, routes::number(&scenario.link, link));
        let on_line = line.and_then(|line| on_line(scenario, line, links));
        let pdu_of = channel.map(|entry| entry.pdu_of);
        let received = (nodes[number].element, interface);
        Some(Capture { name: name.clone(), sent, received, on_line, pdu_of })
    };
    points.filter_map(point).collect()
}

/// What is captured of a line that has something else than packets on it.
fn on_line(scenario: &Scenario, line: &LinkHandle, links: &[LinkHandle]) -> Option<OnLine> {
    let form = line.form?;
    let first = |line: &LinkHandle| Some((line.channels.first().copied().or(line.receiver)?, Port(0)));
    let Some(idle) = dvb::idle(scenario, line) else {
        return Some(OnLine { form, inputs: vec![first(line)?], multiplex: None });
    };
    let members: Vec<&LinkHandle> = links.iter().filter(|other| other.line == line.line).collect();
    let farthest = members.iter().map(|member| member.delay).max().unwrap_or_default();
    let inputs = members.into_iter().filter_map(first).collect();
    let multiplex = Multiplex { idle, delay: line.delay, farthest, nulls: scenario.probe.nulls };
    Some(OnLine { form, inputs, multiplex: Some(multiplex) })
}

/// A loop without delay, at the first of the links that it goes over.
fn loop_problem(scenario: &Scenario, error: &BuildError) -> Problem {
    let BuildError::ZeroDelayLoop(around) = error else { return Problem::new("", error.to_string()) };
    let names = around.iter().filter_map(|path| path.strip_prefix("link/")?.split('/').next());
    let link = names.into_iter().find(|name| scenario.link.contains_key(*name));
    let key = link.map_or_else(String::new, |name| format!("link.{name}.delay"));
    Problem::new(key, format!("{error}: expected a delay above zero"))
}

/// The length of IP and transport headers before a payload.
pub(crate) const fn header_len(ip: crate::scenario::Ip, transport: u64) -> Bytes {
    match ip {
        crate::scenario::Ip::V4 => Bytes::new(20 + transport),
        crate::scenario::Ip::V6 => Bytes::new(40 + transport),
    }
}

#[cfg(test)]
mod real_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wifi_tests;
