//! Places on a path behind which none of a flow's packets comes.

use std::collections::HashMap;

use bentpipe_scenario::{Flow, Ip, Role, Scenario, Traffic, Way, copies};
use bentpipe_site::{Opener, nat};
use bentpipe_transport::tfrc::Transport;
use bentpipe_units::Span;

use super::FlowBudget;
use super::active::{Activities, Up, most_at_once};
use super::path::{Barrier, MOST_LINKS, Path, splitter};
use super::voice::copy_of_ends;

/// Returns the first barrier on the way of a flow's packets.
pub(super) fn find(scenario: &Scenario, flow: &Flow, path: &Path) -> Option<Barrier> {
    let of_filter = || filtered(scenario, path);
    too_many_links(scenario, path).or_else(|| translated(scenario, flow, path)).or_else(of_filter)
}

/// Returns the barrier of a link's filter.
fn filtered(scenario: &Scenario, path: &Path) -> Option<Barrier> {
    let n = path.filter_of_all()?;
    let (link, way, _) = path.hops_there()[n];
    let name = scenario.link.get_index(link).map_or("", |(name, _)| name.as_str());
    let why = format!("the filter of {name} {} drops its packets: nothing arrives", way.name());
    Some(Barrier { hop: n + 1, why })
}

/// Returns the barrier of the hop limit.
fn too_many_links(scenario: &Scenario, path: &Path) -> Option<Barrier> {
    let [there, back] = path.links;
    // A proxy sends packets of its own.
    if path.window.is_some() && splitter(scenario, path).is_some() {
        return None;
    }
    let why = |count: usize| {
        format!("its way has {count} links, and packets have a hop limit of {MOST_LINKS}: nothing arrives")
    };
    if there > MOST_LINKS {
        return Some(Barrier { hop: MOST_LINKS, why: why(there) });
    }
    (back > MOST_LINKS && path.window.is_some())
        .then(|| Barrier { hop: 0, why: format!("back, {}", why(back)) })
}

/// Returns the translator that a node has.
fn translator<'s>(scenario: &'s Scenario, node: &str) -> Option<&'s nat::Kind> {
    scenario.roles_of(node).iter().find_map(|role| match role {
        Role::Nat(kind) => Some(kind),
        _ => None,
    })
}

/// Returns the address translators on a path, each with its node.
///
/// The number is that of the link behind it, and `true` stands for the way out.
fn translators<'s>(
    scenario: &'s Scenario,
    path: &Path,
) -> impl Iterator<Item = (usize, &'s str, &'s nat::Kind, bool)> {
    let hops = path.hops_there();
    let at = move |(n, pair): (usize, &[(usize, Way, u64)])| {
        let &[(before, way, added), (after, _, added_after)] = pair else { return None };
        // Packets in a tunnel are not translated.
        if added > 0 || added_after > 0 {
            return None;
        }
        let node = scenario.link[before].between[usize::from(way == Way::Forward)].as_str();
        let nat = translator(scenario, node)?;
        let is_inside = |link: usize| {
            let name = scenario.link.get_index(link).map_or("", |(name, _)| name);
            let name = copies::link_of(scenario, name).unwrap_or(name);
            nat.inside.iter().any(|inside| inside == name)
        };
        match [before, after].map(is_inside) {
            [false, false] => None,
            [comes_from_inside, _] => Some((n + 1, node, nat, comes_from_inside)),
        }
    };
    hops.windows(2).enumerate().filter_map(at).collect::<Vec<_>>().into_iter()
}

/// Returns the barrier of an address translator.
fn translated(scenario: &Scenario, flow: &Flow, path: &Path) -> Option<Barrier> {
    // Packets to groups are not translated.
    if flow.ip != Ip::V4 || scenario.group.contains_key(&flow.to) {
        return None;
    }
    // Who opens a connection is a key: a wrong one is refused before the run.
    let opens = matches!(flow.traffic, Traffic::Tcp(_) | Traffic::Tfrc(_));
    let is_dccp = matches!(&flow.traffic, Traffic::Tfrc(config) if config.transport == Transport::Dccp);
    let knows_address = matches!(flow.traffic, Traffic::Voice(_) | Traffic::Conference(_));
    translators(scenario, path).find_map(|(hop, node, _, goes_out)| {
        let (hop, why) = match goes_out {
            false if !opens => (
                hop,
                format!("the translator of {node} hides its receiver, and drops what comes from outside"),
            ),
            _ if is_dccp => (hop, format!("the translator of {node} drops DCCP")),
            _ if path.fragments > 1 => (hop, format!("the translator of {node} drops fragments")),
            true if knows_address => (
                path.hops_there().len(),
                format!(
                    "its receiver knows the sender by the address, which the translator of {node} changes"
                ),
            ),
            _ => return None,
        };
        Some(Barrier { hop, why: format!("{why}: nothing arrives") })
    })
}

/// Ends of flows that a translator has port numbers of one protocol for.
#[derive(Default)]
struct PortUsers<'s> {
    flows: Vec<&'s str>,
    times: Vec<Up<1>>,
}

/// Returns the number of a flow's protocol, and the idle time of its mappings.
fn mapping(flow: &Flow, nat: &nat::Kind) -> (usize, Span) {
    match flow.traffic {
        Traffic::Tcp(_) => (1, nat.tcp_transitory_timeout),
        Traffic::Ping(_) => (2, nat.icmp_timeout),
        _ => (0, nat.udp_timeout),
    }
}

/// Returns `true` if a flow's end inside takes a port number.
fn takes_port(flow: &Flow, goes_out: bool) -> bool {
    goes_out || matches!(&flow.traffic, Traffic::Tcp(tcp) if tcp.opened_by == Opener::Receiver)
}

/// Notes flows of which some copies get no port number of a translator.
///
/// Each protocol has its own numbers, which all flows through a translator share.
pub(super) fn few_ports(
    scenario: &Scenario,
    activities: &Activities,
    paths: &[(usize, Path)],
    flows: &mut [FlowBudget],
) {
    let through = |(n, path): &(usize, Path)| {
        let flow = &scenario.flow[*n];
        let is_translated =
            flow.ip == Ip::V4 && path.blocked.is_none() && !scenario.group.contains_key(&flow.to);
        let mut all = translators(scenario, path).filter(|(.., out)| is_translated && takes_port(flow, *out));
        let (_, node, nat, goes_out) = all.next()?;
        Some((node, nat, goes_out))
    };
    let places: Vec<_> = paths.iter().map(through).collect();
    if places.iter().all(Option::is_none) {
        return;
    }
    let mut users: HashMap<(&str, usize), PortUsers<'_>> = HashMap::new();
    for ((n, _), place) in paths.iter().zip(&places) {
        let (Some((node, nat, _)), Some((name, flow))) = (place, scenario.flow.get_index(*n)) else {
            continue;
        };
        let (protocol, timeout) = mapping(flow, nat);
        let of = users.entry((*node, protocol)).or_default();
        // Its receivers and legs have one sender.
        if of.flows.last().is_some_and(|last| *last == name) {
            continue;
        }
        let copies = u64::from(copies::count(scenario, node)).max(1);
        of.flows.push(name);
        of.times.extend(activities.of_copies(scenario, *n).into_iter().map(|(copy, [from, to])| Up {
            group: copy_of_ends(scenario, *n, copy) % copies,
            time: [from, to + timeout.as_secs_f64()],
            load: [1.0],
        }));
    }
    for ((budget, (n, _)), place) in flows.iter_mut().zip(paths).zip(places) {
        let Some((node, nat, goes_out)) = place else { continue };
        let (protocol, _) = mapping(&scenario.flow[*n], nat);
        let Some(users) = users.get(&(node, protocol)) else { continue };
        let [ends] = most_at_once(&users.times);
        if ends <= f64::from(nat.ports) {
            continue;
        }
        let of = match users.flows.len() {
            1 => format!("its {ends} ends"),
            _ => format!("the {ends} ends of {}", users.flows.join(", ")),
        };
        let why = if goes_out {
            "what those send that get none is dropped"
        } else {
            "those that get none get nothing"
        };
        budget
            .warnings
            .push(format!("the translator of {node} has {} port numbers for {of}: {why}", nat.ports));
    }
}
