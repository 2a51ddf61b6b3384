//! Flows: the elements at their ends.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use bentpipe_net::Port;
use bentpipe_scenario::copies::start;
use bentpipe_scenario::{Flow, Ip, Medium, Problem, Scenario, Unreachable};
use bentpipe_site::{
    Assemblies, Attach, Copies, End, Files, FlowAt, FlowEnds, FlowGround, Judge, Member, Native,
    NativeChannel, NativeEnds, NodeHandle, Nodes, Order, Part, Peers, RolePlans, Roles, Router, Site,
    Topology, path_mtu,
};
use bentpipe_units::{Bytes, Span};

use super::{FlowHandle, Flows, groups, shape};

/// Ends of a flow or a copy of one, before the network has them.
pub(super) struct Plan {
    name: String,
    flow: usize,
    copies: u32,
    start: Span,
    ends: FlowEnds,
}

/// Creates the ends of all flows and binds them to their nodes.
pub(super) fn plan<'t>(
    scenario: &Scenario,
    topology: &'t Topology,
    nodes: &mut Nodes<'t>,
    [router, of_groups]: [&mut Router<'t>; 2],
    (files, seed, elements): (&dyn Files, u64, Flows),
    natives: &mut Vec<NativeChannel>,
    roles: &mut RolePlans,
) -> Result<Vec<Plan>, Problem> {
    let mut plans = Vec::new();
    let mut peers = peers(scenario);
    let switched = switched(scenario);
    for (n, (name, flow)) in scenario.flow.iter().enumerate() {
        let is_group = scenario.group.contains_key(&flow.to);
        let router = if is_group { &mut *of_groups } else { &mut *router };
        let ends = Ends::new(scenario, topology, (name, flow), router)?;
        let mut ground = FlowGround::new(topology, nodes, router, files, natives, roles);
        let is_switched = !flow.active || switched.contains(&name[..]) || switched.contains(original(name));
        for copy in copies(flow) {
            let own = peers.entry(group_of(flow)).or_default();
            let start = start(scenario, (name, flow), copy.unwrap_or(0).into(), seed);
            // The run ends with what happens at its last instant. Nothing starts there: measures have no time for it.
            let start = if start == scenario.duration { start + Span::from_nanos(1) } else { start };
            let at = FlowAt { seed, peers: *own, start, ..ends.at(n, (name, flow), copy) };
            own.before += at.copies;
            let made = flow.traffic.kind().plan(&at, &mut ground)?;
            let made = if elements == Flows::Shapes && !is_switched { shape::of_ends(made) } else { made };
            let name = copy_name(name, flow, copy);
            plans.push(Plan { name, flow: n, copies: at.copies, start: at.start, ends: made });
        }
    }
    Ok(plans)
}

/// Returns the names of flows that events turn off or on.
fn switched(scenario: &Scenario) -> HashSet<&str> {
    let moments = scenario.timeline.iter();
    moments.flat_map(|moment| moment.difference.flow.iter().map(|(name, _)| &name[..])).collect()
}

/// Returns the name in the file of a copy: "bulk" of "bulk.2".
fn original(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(name, _)| name)
}

/// Returns the sender and the kind of traffic of a flow.
fn group_of(flow: &Flow) -> (&str, &'static str) {
    (&flow.from, flow.traffic.word())
}

/// Returns the numbers of copies with the same sender and kind of traffic.
fn peers(scenario: &Scenario) -> HashMap<(&str, &'static str), Peers> {
    let mut peers: HashMap<_, Peers> = HashMap::new();
    for flow in scenario.flow.values() {
        let own = peers.entry(group_of(flow)).or_default();
        own.all = own.all.saturating_add(flow.count);
    }
    peers
}

/// Returns the copies that have elements of their own: `None` stands for all of them.
fn copies(flow: &Flow) -> Vec<Option<u32>> {
    match flow.traffic.kind().takes().copies {
        Copies::Together if flow.starts_together() => vec![None],
        Copies::None => vec![None],
        Copies::Each | Copies::Together => (0..flow.count).map(Some).collect(),
    }
}

fn copy_name(name: &str, flow: &Flow, copy: Option<u32>) -> String {
    match copy {
        Some(copy) if flow.count > 1 => format!("{name}.{}", copy + 1),
        _ => name.to_owned(),
    }
}

/// Nodes between which a flow goes.
struct Ends {
    from: usize,
    receivers: Vec<usize>,
    group: Option<IpAddr>,
    mtu: Bytes,
}

impl Ends {
    fn new(
        scenario: &Scenario,
        topology: &Topology,
        (name, flow): (&str, &Flow),
        router: &mut Router<'_>,
    ) -> Result<Ends, Problem> {
        let from = topology.number(&flow.from);
        let (receivers, group) = match scenario.group.get_index_of(&flow.to) {
            Some(group) => {
                let members = scenario.group[group].members.iter().map(|member| topology.number(member));
                let members = members.filter(|member| *member != from).collect();
                (members, Some(group_address(scenario, group, (name, flow))?))
            }
            None => (vec![receiver(topology, (name, flow), router)?], None),
        };
        let mut mtu = u64::MAX;
        for &to in &receivers {
            mtu = mtu.min(path_mtu(router, from, to, flow.ip)?);
        }
        Ok(Ends { from, receivers, group, mtu: Bytes::new(mtu) })
    }

    fn at<'a>(&'a self, n: usize, (name, flow): (&'a str, &'a Flow), copy: Option<u32>) -> FlowAt<'a> {
        FlowAt {
            flow: n,
            name,
            from: self.from,
            receivers: &self.receivers,
            group: self.group,
            ip: flow.ip,
            mtu: self.mtu,
            dont_fragment: flow.dont_fragment,
            start: flow.start,
            stop: flow.stop,
            copies: if copy.is_some() { 1 } else { flow.count },
            peers: Peers::default(),
            application: flow.application,
            seed: 0,
        }
    }
}

/// Returns the number of the receiving node, and checks the paths there and back.
fn receiver(
    topology: &Topology,
    (name, flow): (&str, &Flow),
    router: &mut Router<'_>,
) -> Result<usize, Problem> {
    let [from, to] = [&flow.from, &flow.to].map(|node| topology.number(node));
    let back = flow.traffic.kind().takes().answers.then_some((to, from));
    for (from, to) in [(from, to)].into_iter().chain(back) {
        let unreachable = |error: Unreachable| Problem::new(format!("flow.{name}.to"), error.to_string());
        router.path(from, to, flow.ip).map_err(unreachable)?;
    }
    Ok(to)
}

/// Returns the address of a group, which must be of the flow's IP version.
fn group_address(scenario: &Scenario, group: usize, (name, flow): (&str, &Flow)) -> Result<IpAddr, Problem> {
    let address = groups::address(scenario, group, flow.ip);
    if address.is_ipv4() == (flow.ip == Ip::V4) {
        return Ok(address);
    }
    let expected = if address.is_ipv4() { 4 } else { 6 };
    let problem = format!("the group's address is {address}: expected ip = {expected}");
    Err(Problem::new(format!("flow.{name}.ip"), problem))
}

/// Adds the channels that flows have on links for themselves.
pub(super) fn natives(
    channels: &[NativeChannel],
    scenario: &Scenario,
    members: &[Member<'_, Medium>],
    assemblies: &mut Assemblies<'_>,
) -> Result<Vec<Native>, Problem> {
    let add = |channel: &NativeChannel| {
        // Both directions of each link are next to each other.
        let member = Some(2 * channel.link + channel.way.index()).filter(|n| *n < members.len());
        member.and_then(|member| assemblies.add_native(member, channel)).ok_or_else(|| {
            let (link, _) = scenario.link.get_index(channel.link).expect("it has a channel");
            let word = member.map_or("", |member| members[member].medium.word());
            let form = channel.form.name();
            let problem = format!("link \"{link}\" is a \"{word}\" and carries no {form}: expected \"udp\", or another medium there");
            Problem::new(&channel.key, problem)
        })
    };
    channels.iter().map(add).collect()
}

/// Handles of all flows, and their steps after the run by name.
type Added = (Vec<FlowHandle<Part>>, Vec<(String, Box<dyn Judge>)>);

/// Records the elements and connects them with their nodes or native channels.
pub(super) fn add(
    scenario: &Scenario,
    plans: Vec<Plan>,
    places: (&[NodeHandle], &[NativeEnds], &Roles),
    site: &mut Site<'_>,
) -> Added {
    let mut judges = Vec::new();
    let numbered = plans.into_iter().enumerate();
    let add = |(n, mut plan): (usize, Plan)| {
        let of_flow = std::mem::take(&mut plan.ends.judges).into_iter();
        judges.extend(of_flow.map(|(receiver, judge)| {
            let receiver = receiver.map_or_else(String::new, |receiver| format!(".{receiver}"));
            (format!("{}{receiver}", plan.name), judge)
        }));
        add_copy(scenario, (n as u32, plan), places, site)
    };
    (numbered.map(add).collect(), judges)
}

fn add_copy(
    scenario: &Scenario,
    (copy, plan): (u32, Plan),
    (nodes, natives, roles): (&[NodeHandle], &[NativeEnds], &Roles),
    site: &mut Site<'_>,
) -> FlowHandle<Part> {
    let (name, flow) = scenario.flow.get_index(plan.flow).expect("planned from it");
    let mut calls = Vec::new();
    let mut join = |n: usize, end: End, path: String| {
        let (node, read) = (end_node(&end.at, nodes), end.calls);
        let element = site.add_boxed(Order::Flow(plan.flow, copy, n), path, end.element);
        let own = (element, Port(0));
        match end.at {
            Attach::Node(node, port) => {
                let at = (nodes[node].part, port);
                site.connect(own, at);
                site.connect(at, own);
            }
            Attach::Role(client) => {
                let at = roles.client(client);
                site.connect(own, at);
                site.connect(at, own);
            }
            Attach::Entry(channel) => site.connect(own, natives[channel].0),
            Attach::Exit(channel, n, _) => site.connect(natives[channel].1[n], own),
        }
        if let Some(client) = end.second {
            let (own, at) = ((element, Port(1)), roles.client(client));
            site.connect(own, at);
            site.connect(at, own);
        }
        calls.extend(node.zip(read).map(|(node, read)| (node, element, read)));
        element
    };
    let base = format!("flow/{}", plan.name);
    let FlowEnds { mut sender, receivers, .. } = plan.ends;
    let switch = sender.switch;
    if let Some(between) = sender.between.take() {
        join(receivers.len() + 1, *between, format!("{base}/between"));
    }
    let sender = join(0, sender, format!("{base}/sender"));
    let several = receivers.len() > 1;
    let receivers = receivers.into_iter().enumerate().map(|(n, end)| {
        let path = match end.at {
            Attach::Node(node, _) | Attach::Exit(_, _, node) if several => {
                format!("{base}/receiver/{}", nodes[node].name)
            }
            _ => format!("{base}/receiver"),
        };
        join(n + 1, end, path)
    });
    let receivers = receivers.collect();
    FlowHandle {
        receivers,
        name: plan.name,
        flow: name.clone(),
        traffic: flow.traffic.word(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        sender,
        copies: plan.copies,
        start: plan.start,
        calls,
        switch,
    }
}

/// Returns the name of an end's node.
fn end_node(at: &Attach, nodes: &[NodeHandle]) -> Option<String> {
    match at {
        Attach::Node(node, _) => Some(nodes[*node].name.to_owned()),
        _ => None,
    }
}
