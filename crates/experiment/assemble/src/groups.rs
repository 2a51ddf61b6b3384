//! Multicast: the tree from a group's sender to its members.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bentpipe_scenario::{Hop, Ip, Layout, Problem, Scenario, Unreachable};
use bentpipe_site::{Nodes, Router, Topology};

/// Returns the address of a group by its number in the file.
pub(super) fn address(scenario: &Scenario, group: usize, ip: Ip) -> IpAddr {
    let own = scenario.group[group].address;
    let n = group as u32 + 1;
    own.unwrap_or_else(|| match ip {
        Ip::V4 => Ipv4Addr::from_bits(0xef00_0000 + n).into(),
        Ip::V6 => Ipv6Addr::from_bits((0xff0e_u128 << 112) + u128::from(n)).into(),
    })
}

/// Sets the branches of each group's tree at its nodes.
pub(super) fn route(
    scenario: &Scenario,
    layout: &Layout<'_>,
    topology: &Topology,
    nodes: &mut Nodes<'_>,
    router: &mut Router<'_>,
) -> Result<(), Problem> {
    for (n, (name, group)) in scenario.group.iter().enumerate() {
        let mut senders = scenario.flow.iter().filter(|(_, flow)| flow.to == *name);
        let Some((_, sender)) = senders.next() else { continue };
        if let Some((other, flow)) =
            senders.find(|(_, flow)| (&flow.from, flow.ip) != (&sender.from, sender.ip))
        {
            let problem = format!(
                "\"{name}\" has a sender already, \"{}\" with IPv{}: expected one for each group",
                sender.from,
                u8::from(sender.ip)
            );
            let key = if flow.from == sender.from { "ip" } else { "from" };
            return Err(Problem::new(format!("flow.{other}.{key}"), problem));
        }
        let to = address(scenario, n, sender.ip);
        let mut streams = BTreeSet::new();
        for (node, hop) in tree(topology, &sender.from, &group.members, sender.ip, router, name)? {
            match hop {
                Hop::Link(link, way)
                    if layout
                        .side(link, way)
                        .medium
                        .multicast()
                        .is_some_and(|name| !streams.insert((node, name))) => {}
                Hop::Link(link, _) => {
                    let interface = nodes.interface(node, link);
                    nodes.node(node).add_group_interface(to, interface);
                }
                Hop::Tunnel(tunnel, way) => {
                    let end = nodes.tunnel_end(tunnel, way);
                    nodes.node(node).add_group_tunnel(to, end);
                }
            }
        }
    }
    Ok(())
}

/// Returns the hops of the tree, each with its node.
fn tree(
    topology: &Topology,
    from: &str,
    members: &[String],
    ip: Ip,
    router: &mut Router<'_>,
    group: &str,
) -> Result<BTreeSet<(usize, Hop)>, Problem> {
    let root = topology.number(from);
    let mut branches = BTreeSet::new();
    for (n, member) in members.iter().enumerate() {
        let member = topology.number(member);
        let at = |error: Unreachable| Problem::new(format!("group.{group}.members.{n}"), error.to_string());
        // The path to each member is a part of the tree: it leaves a node as the others do.
        for hop in router.path(root, member, ip).map_err(at)? {
            let [node, _] = match hop {
                Hop::Link(link, way) => topology.link_ends(link, way),
                Hop::Tunnel(tunnel, way) => topology.tunnel_ends(tunnel, way),
            };
            branches.insert((node, hop));
        }
    }
    Ok(branches)
}
