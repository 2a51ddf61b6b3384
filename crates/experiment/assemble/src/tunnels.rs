//! Directions of links whose packets pass in a tunnel over other links.

use std::net::{IpAddr, Ipv4Addr};

use bentpipe_net::Port;
use bentpipe_scenario::{Medium, Problem};
use bentpipe_site::{
    Assemblies, IpVersion, Member, NodeHandle, Nodes, Passage, Router, Site, Topology, TunnelEnds,
};
use bentpipe_wire::ip::Protocol;

use super::links::Joined;

/// First address of tunnels' ends whose address the file leaves out (RFC 2544's range).
const FIRST_END: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Tunnel and its endpoints at the nodes.
pub(super) struct Tunnel {
    member: usize,
    ends: TunnelEnds,
    /// Node that sends, and its endpoint for announcements and tunnelled packets.
    near: (usize, Port),
    /// Node that receives, and its endpoint for tunnelled packets.
    far: (usize, Port),
}

/// Sets up the endpoints and routes of all tunnels.
pub(super) fn plan(
    members: &[Member<'_, Medium>],
    topology: &Topology,
    nodes: &mut Nodes<'_>,
) -> Result<Vec<Tunnel>, Problem> {
    let (mut tunnels, mut ends) = (Vec::new(), Vec::new());
    let mut router = Router::underlay(topology);
    for (n, member) in members.iter().enumerate() {
        let Some(service) =
            member.medium.service().filter(|_| member.medium.passage(member.way) == Passage::Tunnelled)
        else {
            continue;
        };
        let automatic = Ipv4Addr::from_bits(FIRST_END.to_bits() + tunnels.len() as u32);
        let end = service.end.unwrap_or(automatic);
        let key = member.place.key("medium");
        let [near, far] = [member.from, member.to].map(|name| topology.number(name));
        if let Err(error) = router.path(near, far, IpVersion::V4) {
            let problem = format!("{error}, other than this link, for the tunnel");
            return Err(Problem::new(key, problem));
        }
        let key = member.place.key("medium.feed_address");
        nodes.add_address(far, end.into()).map_err(|problem| Problem::new(key, problem))?;
        ends.push((end.into(), far));
        let [IpAddr::V4(from), IpAddr::V4(to)] = [near, far].map(|node| nodes.address(node, IpVersion::V4))
        else {
            continue;
        };
        let near_end = nodes.node(near).add_endpoint();
        nodes.node(near).join(near_end, service.group.into(), Protocol::UDP, service.port);
        let far_end = nodes.node(far).add_endpoint();
        nodes.node(far).bind_connection(far_end, Protocol::GRE, 0, (from.into(), 0));
        let of_tunnel = TunnelEnds { from, to, end };
        tunnels.push(Tunnel { member: n, ends: of_tunnel, near: (near, near_end), far: (far, far_end) });
    }
    nodes.route_to(&ends, &mut router);
    Ok(tunnels)
}

/// Passes their addresses to the assemblies.
pub(super) fn announce(tunnels: &[Tunnel], assemblies: &mut Assemblies<'_>) {
    tunnels.iter().for_each(|tunnel| assemblies.tunnel(tunnel.member, tunnel.ends));
}

/// Connects the ends of all tunnels with their nodes and links.
pub(super) fn connect(tunnels: &[Tunnel], nodes: &[NodeHandle], joined: &[Joined], site: &mut Site<'_>) {
    for Tunnel { member, near, far, .. } in tunnels {
        let node = |(node, port): (usize, Port)| (nodes[node].part, port);
        let (line, receiver) = joined[*member].tunnel_ends();
        site.connect((line, Port(0)), node(*near));
        site.connect(node(*near), (line, Port(1)));
        let Some(receiver) = receiver else { continue };
        site.connect(node(*far), (receiver, Port(0)));
        // The directions of a link are next to each other: forward, return.
        site.connect((receiver, Port(1)), joined[*member ^ 1].input);
    }
}
