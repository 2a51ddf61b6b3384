//! Flows: the elements at their ends.

use std::net::SocketAddr;
use std::path::Path;

use bentpipe_net::app::{Arrivals, Endpoints, Header, Sink, SinkConfig, Source, SourceConfig};
use bentpipe_net::{Element, Port, tcp, tfrc, video};
use bentpipe_sim::Builder;
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::ip::Protocol;

use super::nodes::Nodes;
use super::routes::{Router, number};
use super::{FlowHandle, NodeHandle, Problem, Traffic, groups, header_len, mtu, replay};
use crate::scenario::{Flow, Ip, Replay, Scenario, Udp, Video};

/// The elements of a flow or a copy of one, before the network has them.
pub(super) struct Plan {
    name: String,
    flow: usize,
    traffic: Traffic,
    copies: u32,
    start: Span,
    sender: End,
    receivers: Vec<End>,
}

/// An element, and the node and its port that it is joined to.
struct End {
    element: Box<dyn Element>,
    node: usize,
    port: Port,
}

/// Makes the elements of all flows and gives them ports at their nodes.
pub(super) fn plan(
    scenario: &Scenario,
    nodes: &mut Nodes,
    router: &mut Router<'_>,
    folder: &Path,
) -> Result<Vec<Plan>, Problem> {
    let mut plans = Vec::new();
    for (n, (name, flow)) in scenario.flow.iter().enumerate() {
        let mut planner = Planner { scenario, n, name, flow, nodes, key: format!("flow.{name}") };
        let receivers = planner.receivers(router)?;
        let narrowest = planner.narrowest(&receivers, router)?;
        let mut copies = 0..flow.count;
        // Copies of UDP flows that start together are one element each side: cheaper, and nothing else differs.
        match (&flow.tcp, &flow.udp, &flow.video) {
            (Some(config), ..) => {
                copies.try_for_each(|copy| planner.tcp(config, copy, &receivers, &mut plans))?
            }
            (_, Some(udp), _) if flow.stagger.is_zero() => {
                planner.udp(udp, None, &receivers, narrowest, &mut plans)?
            }
            (_, Some(udp), _) => {
                copies.try_for_each(|copy| planner.udp(udp, Some(copy), &receivers, narrowest, &mut plans))?
            }
            (.., Some(video)) => {
                copies.try_for_each(|copy| planner.video(video, copy, &receivers, narrowest, &mut plans))?;
            }
            _ => {
                if let Some(config) = &flow.tfrc {
                    copies
                        .try_for_each(|copy| planner.tfrc(config, copy, &receivers, narrowest, &mut plans))?;
                }
                if let Some(replay) = &flow.replay {
                    planner.replay(replay, &receivers, folder, router, &mut plans)?;
                }
            }
        }
    }
    Ok(plans)
}

/// Adds the elements to the network and joins them to their nodes.
pub(super) fn add(
    scenario: &Scenario,
    plans: Vec<Plan>,
    nodes: &[NodeHandle],
    builder: &mut Builder,
) -> Vec<FlowHandle> {
    let add = |plan: Plan| {
        let (flow_name, flow) = scenario.flow.get_index(plan.flow).expect("planned from it");
        let mut join = |end: End, path: String| {
            let (element, node) = (builder.add_boxed(path, end.element), nodes[end.node].element);
            builder.connect((element, Port(0)), (node, end.port));
            builder.connect((node, end.port), (element, Port(0)));
            element
        };
        let base = format!("flow/{}", plan.name);
        let sender = join(plan.sender, format!("{base}/sender"));
        let several = plan.receivers.len() > 1;
        let receivers = plan.receivers.into_iter().map(|end| {
            let at = scenario.node.get_index(end.node).map_or("", |(name, _)| name);
            let path = if several { format!("{base}/receiver/{at}") } else { format!("{base}/receiver") };
            join(end, path)
        });
        FlowHandle {
            receivers: receivers.collect(),
            name: plan.name,
            flow: flow_name.clone(),
            traffic: plan.traffic,
            from: flow.from.clone(),
            to: flow.to.clone(),
            sender,
            copies: plan.copies,
            start: plan.start,
        }
    };
    plans.into_iter().map(add).collect()
}

/// Where UDP flows begin and end: addresses, and the ports of the elements at their nodes.
struct UdpEnds {
    endpoints: Endpoints,
    count: u16,
    sender: (usize, Port),
    receivers: Vec<(usize, Port)>,
}

impl UdpEnds {
    /// What a sink there expects.
    fn sink(&self, header: Header, shared_ports: bool) -> SinkConfig {
        SinkConfig { first_port: self.endpoints.destination.port(), count: self.count, header, shared_ports }
    }
}

struct Planner<'a> {
    scenario: &'a Scenario,
    n: usize,
    name: &'a str,
    flow: &'a Flow,
    nodes: &'a mut Nodes,
    key: String,
}

impl Planner<'_> {
    fn from(&self) -> usize {
        number(&self.scenario.node, &self.flow.from)
    }

    /// The nodes that receive: one, or a group's members other than the sender.
    fn receivers(&self, router: &mut Router<'_>) -> Result<Vec<usize>, Problem> {
        let from = self.from();
        let Some(group) = self.scenario.group.get(&self.flow.to) else {
            let to = number(&self.scenario.node, &self.flow.to);
            let answers = self.flow.tcp.is_some() || self.flow.tfrc.is_some();
            let back = if answers { vec![(to, from)] } else { Vec::new() };
            for (from, to) in [(from, to)].into_iter().chain(back) {
                let unreachable =
                    |error: super::Unreachable| Problem::new(format!("{}.to", self.key), error.to_string());
                router.path(from, to, self.flow.ip).map_err(unreachable)?;
            }
            return Ok(vec![to]);
        };
        let members = group.members.iter().map(|member| number(&self.scenario.node, member));
        Ok(members.filter(|member| *member != from).collect())
    }

    /// The longest IP packet that reaches all receivers.
    fn narrowest(&self, receivers: &[usize], router: &mut Router<'_>) -> Result<u64, Problem> {
        let mut narrowest = u64::MAX;
        for &to in receivers {
            narrowest = narrowest.min(path_mtu(self.scenario, router, self.from(), to, self.flow.ip)?);
        }
        Ok(narrowest)
    }

    fn copy_name(&self, copy: Option<u32>) -> String {
        match copy {
            Some(copy) if self.flow.count > 1 => format!("{}.{}", self.name, copy + 1),
            _ => self.name.to_owned(),
        }
    }

    fn start(&self, copy: u32) -> Span {
        self.flow.start + self.flow.stagger * u64::from(copy)
    }

    fn bind(&mut self, node: usize, protocol: Protocol, count: u16) -> Result<(Port, u16), Problem> {
        self.nodes.bind(node, protocol, count).ok_or_else(|| {
            let name = self.scenario.node.get_index(node).map_or("", |(name, _)| name);
            Problem::new(
                format!("{}.count", self.key),
                format!("no port is left at node \"{name}\": 64511 flows can end there"),
            )
        })
    }

    fn tcp(
        &mut self,
        config: &tcp::Config,
        copy: u32,
        receivers: &[usize],
        plans: &mut Vec<Plan>,
    ) -> Result<(), Problem> {
        let (from, to, ip) = (self.from(), receivers[0], self.flow.ip);
        let (sender_port, local_port) = self.bind(from, Protocol::TCP, 1)?;
        let (receiver_port, remote_port) = self.bind(to, Protocol::TCP, 1)?;
        let local = SocketAddr::new(self.nodes.address(from, ip), local_port);
        let remote = SocketAddr::new(self.nodes.address(to, ip), remote_port);
        [from, to].into_iter().for_each(|node| self.nodes.send_to(node, ip));
        let start = self.start(copy);
        let impossible = |error| Problem::impossible(&format!("{}.tcp", self.key), &error);
        let sender = tcp::Endpoint::active(config.clone(), local, remote).map_err(impossible)?;
        let sender = sender.with_source(self.application(start)).starting_at(Time::ZERO + start);
        // What only receives has no use for a rate.
        let config = tcp::Config { quick_start: None, ..config.clone() };
        let receiver = tcp::Endpoint::passive(config, remote).map_err(impossible)?;
        plans.push(Plan {
            name: self.copy_name(Some(copy)),
            flow: self.n,
            traffic: Traffic::Tcp,
            copies: 1,
            start,
            sender: End { element: Box::new(sender), node: from, port: sender_port },
            receivers: vec![End { element: Box::new(receiver), node: to, port: receiver_port }],
        });
        Ok(())
    }

    /// What the application writes, with the flow's own end where it does not say one.
    fn application(&self, start: Span) -> tcp::Source {
        let lasts = self.flow.stop.map(|stop| stop.saturating_sub(start));
        let mut source = self.flow.application;
        match &mut source {
            tcp::Source::Nothing => {}
            tcp::Source::Bulk(bulk) => bulk.duration = bulk.duration.or(lasts),
            tcp::Source::Paced(paced) => paced.duration = paced.duration.or(lasts),
            tcp::Source::OnOff(on_off) => on_off.duration = on_off.duration.or(lasts),
        }
        source
    }

    fn udp(
        &mut self,
        udp: &Udp,
        copy: Option<u32>,
        receivers: &[usize],
        narrowest: u64,
        plans: &mut Vec<Plan>,
    ) -> Result<(), Problem> {
        self.fits(udp.payload, narrowest, "udp.payload")?;
        let count = if copy.is_some() { 1 } else { self.flow.count };
        let count = u16::try_from(count)
            .map_err(|_| Problem::new(format!("{}.count", self.key), "more than 65535 UDP flows"))?;
        let ends = self.udp_ends(receivers, count)?;
        let start = self.start(copy.unwrap_or(0));
        let sender = Source::new(&udp.source(start, self.flow.stop, count), ends.endpoints);
        let sender = sender.map_err(|error| Problem::impossible(&format!("{}.udp", self.key), &error))?;
        let sink = ends.sink(udp.header, udp.shared_ports);
        plans.push(self.udp_plan(copy, start, Box::new(sender), sink, ends));
        Ok(())
    }

    fn video(
        &mut self,
        video: &Video,
        copy: u32,
        receivers: &[usize],
        narrowest: u64,
        plans: &mut Vec<Plan>,
    ) -> Result<(), Problem> {
        self.fits(video.payload(), narrowest, "video.ts_packets")?;
        let impossible = |error| Problem::impossible(&format!("{}.video.rate", self.key), &error);
        video.rate.check().map_err(impossible)?;
        let ends = self.udp_ends(receivers, 1)?;
        let start = self.start(copy);
        let sender = video::Source::new(video, ends.endpoints, start, self.flow.stop);
        let sender = sender.map_err(|error| Problem::impossible(&format!("{}.video", self.key), &error))?;
        let sink = ends.sink(video.header, false);
        plans.push(self.udp_plan(Some(copy), start, Box::new(sender), sink, ends));
        Ok(())
    }

    /// Refuses datagrams that the path does not carry.
    fn fits(&self, payload: Bytes, narrowest: u64, key: &str) -> Result<(), Problem> {
        let len = header_len(self.flow.ip, 8).get() + payload.get();
        if len <= narrowest {
            return Ok(());
        }
        let problem = format!("makes packets of {len} B: expected at most the path's MTU, {narrowest} B");
        Err(Problem::new(format!("{}.{key}", self.key), problem))
    }

    /// Gives `count` UDP flows their ports at both ends.
    fn udp_ends(&mut self, receivers: &[usize], count: u16) -> Result<UdpEnds, Problem> {
        let (from, ip) = (self.from(), self.flow.ip);
        let (sender_port, local_port) = self.bind(from, Protocol::UDP, count)?;
        let source = SocketAddr::new(self.nodes.address(from, ip), local_port);
        let (destination, ports) = self.udp_destination(receivers, count)?;
        let receivers = receivers.iter().copied().zip(ports).collect();
        Ok(UdpEnds {
            endpoints: Endpoints { source, destination },
            count,
            sender: (from, sender_port),
            receivers,
        })
    }

    fn udp_plan(
        &self,
        copy: Option<u32>,
        start: Span,
        sender: Box<dyn Element>,
        sink: SinkConfig,
        ends: UdpEnds,
    ) -> Plan {
        let receiver = |(node, port)| End { element: Box::new(Sink::new(sink)), node, port };
        let (node, port) = ends.sender;
        Plan {
            name: self.copy_name(copy),
            flow: self.n,
            traffic: Traffic::Udp,
            copies: ends.count.into(),
            start,
            sender: End { element: sender, node, port },
            receivers: ends.receivers.into_iter().map(receiver).collect(),
        }
    }

    fn tfrc(
        &mut self,
        config: &tfrc::Config,
        copy: u32,
        receivers: &[usize],
        narrowest: u64,
        plans: &mut Vec<Plan>,
    ) -> Result<(), Problem> {
        let (from, to, ip) = (self.from(), receivers[0], self.flow.ip);
        // A DCCP header with an acknowledgement has 24 bytes.
        let (protocol, header) = match config.transport {
            tfrc::Transport::Udp => (Protocol::UDP, 8),
            tfrc::Transport::Dccp => (Protocol::DCCP, 24),
        };
        let len = header_len(ip, header).get() + config.payload.get();
        if len > narrowest {
            let problem = format!("makes packets of {len} B: expected at most the path's MTU, {narrowest} B");
            return Err(Problem::new(format!("{}.tfrc.payload", self.key), problem));
        }
        let (sender_port, local_port) = self.bind(from, protocol, 1)?;
        let (receiver_port, remote_port) = self.bind(to, protocol, 1)?;
        let source = SocketAddr::new(self.nodes.address(from, ip), local_port);
        let destination = SocketAddr::new(self.nodes.address(to, ip), remote_port);
        [from, to].into_iter().for_each(|node| self.nodes.send_to(node, ip));
        let start = self.start(copy);
        let sender = tfrc::Sender::new(config, Endpoints { source, destination }, start, self.flow.stop);
        let sender = sender.map_err(|error| Problem::impossible(&format!("{}.tfrc", self.key), &error))?;
        let receiver = tfrc::Receiver::new(config, destination);
        plans.push(Plan {
            name: self.copy_name(Some(copy)),
            flow: self.n,
            traffic: Traffic::Tfrc,
            copies: 1,
            start,
            sender: End { element: Box::new(sender), node: from, port: sender_port },
            receivers: vec![End { element: Box::new(receiver), node: to, port: receiver_port }],
        });
        Ok(())
    }

    /// Where datagrams go, and the ports of the receivers' elements at their nodes.
    fn udp_destination(
        &mut self,
        receivers: &[usize],
        count: u16,
    ) -> Result<(SocketAddr, Vec<Port>), Problem> {
        let ip = self.flow.ip;
        let Some(group) = self.scenario.group.get_index_of(&self.flow.to) else {
            let to = receivers[0];
            self.nodes.send_to(to, ip);
            let (port, first) = self.bind(to, Protocol::UDP, count)?;
            return Ok((SocketAddr::new(self.nodes.address(to, ip), first), vec![port]));
        };
        let address = groups::address(self.scenario, group, ip);
        if address.is_ipv4() != (ip == Ip::V4) {
            return Err(Problem::new(
                format!("{}.ip", self.key),
                format!(
                    "the group's address is {address}: expected ip = {}",
                    if address.is_ipv4() { 4 } else { 6 }
                ),
            ));
        }
        // One number for all members: each flow to the group has its own, far from those of single nodes.
        let first = 40_000_u16.checked_add(self.n as u16).filter(|first| first.checked_add(count).is_some());
        let first = first
            .ok_or_else(|| Problem::new(format!("{}.count", self.key), "more flows to groups than ports"))?;
        let join = |node: &usize| {
            let port = self.nodes.node(*node).add_endpoint();
            (first..first + count)
                .for_each(|number| self.nodes.node(*node).join(port, address, Protocol::UDP, number));
            port
        };
        Ok((SocketAddr::new(address, first), receivers.iter().map(join).collect()))
    }

    /// A capture's packets go from node to node whatever their addresses are: the nodes on the way get routes for them.
    fn replay(
        &mut self,
        config: &Replay,
        receivers: &[usize],
        folder: &Path,
        router: &mut Router<'_>,
        plans: &mut Vec<Plan>,
    ) -> Result<(), Problem> {
        let key = format!("{}.replay.file", self.key);
        let captured = replay::read(config, folder).map_err(|problem| Problem::new(&key, problem))?;
        let (from, to) = (self.from(), receivers[0]);
        for address in &captured.destinations {
            let unreachable = |problem: String| Problem::new(format!("{}.to", self.key), problem);
            self.nodes.lead(*address, from, to, self.scenario, router).map_err(unreachable)?;
        }
        let [sender_port, receiver_port] = [from, to].map(|node| self.nodes.node(node).add_endpoint());
        self.nodes.node(to).bind_rest(receiver_port);
        let sender = bentpipe_net::app::Replay::new(captured.packets, self.flow.start);
        let sender = sender.map_err(|error| Problem::impossible(&key, &error))?;
        plans.push(Plan {
            name: self.name.to_owned(),
            flow: self.n,
            traffic: Traffic::Replay,
            copies: 1,
            start: self.flow.start,
            sender: End { element: Box::new(sender), node: from, port: sender_port },
            receivers: vec![End { element: Box::new(Arrivals::new()), node: to, port: receiver_port }],
        });
        Ok(())
    }
}

/// The longest IP packet that passes from one node to another.
pub(crate) fn path_mtu(
    scenario: &Scenario,
    router: &mut Router<'_>,
    from: usize,
    to: usize,
    ip: Ip,
) -> Result<u64, Problem> {
    let unreachable = |error: super::Unreachable| Problem::new("", error.to_string());
    let mut narrowest = u64::MAX;
    for hop in router.path(from, to, ip).map_err(unreachable)? {
        let own = match hop {
            super::Hop::Link(link, _) => mtu(&scenario.link[link]).get(),
            super::Hop::Tunnel(tunnel, way) => {
                let ends =
                    scenario.tunnel[tunnel].between.each_ref().map(|name| number(&scenario.node, name));
                let (a, b) = if way == super::Way::Forward { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
                path_mtu(scenario, router, a, b, Ip::V4)?.saturating_sub(20)
            }
        };
        narrowest = narrowest.min(own);
    }
    Ok(narrowest)
}

/// Fills in what depends on the network: what virtual channels have of the lines that they pass, and the MSS of TCP flows
/// that do not say one, which is their path's MTU less the headers. `is_given` tells whether a key was in the file. Flows
/// without a way are left for building to refuse.
///
/// # Errors
/// If there is no way for a virtual channel.
pub(crate) fn resolve(scenario: &mut Scenario, is_given: impl Fn(&str) -> bool) -> Result<(), Problem> {
    super::atm::fill(scenario)?;
    let as_read = scenario.clone();
    let Ok(mut router) = Router::new(&as_read) else { return Ok(()) };
    for (name, flow) in &mut scenario.flow {
        let Some(config) = flow.tcp.as_mut().filter(|_| !is_given(&format!("flow.{name}.tcp.mss"))) else {
            continue;
        };
        let [from, to] = [&flow.from, &flow.to].map(|node| number(&as_read.node, node));
        let there = path_mtu(&as_read, &mut router, from, to, flow.ip);
        let back = path_mtu(&as_read, &mut router, to, from, flow.ip);
        if let (Ok(there), Ok(back)) = (there, back) {
            let headers = header_len(flow.ip, 20).get();
            config.mss = Bytes::new(there.min(back).saturating_sub(headers).min(65_495));
        }
    }
    Ok(())
}

impl Udp {
    /// As the element takes it.
    pub(crate) fn source(&self, start: Span, stop: Option<Span>, count: u16) -> SourceConfig {
        SourceConfig {
            header: self.header,
            count,
            spread: self.spread,
            start,
            stop,
            packets: self.packets,
            dscp: self.dscp,
            identification: self.identification,
            shared_ports: self.shared_ports,
            ..SourceConfig::new(self.pattern, self.payload)
        }
    }
}
