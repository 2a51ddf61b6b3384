//! Codepoints of packets behind the markers on their way.

use bentpipe_net::node::Prefix;
use bentpipe_net::text::Ports;
use bentpipe_scenario::{Flow, Ip, Role, Scenario, Traffic, Way, copies};
use bentpipe_site::marker;
use bentpipe_transport::tfrc::Transport;
use bentpipe_wire::ip::{self, Protocol};

use super::path::Path;

/// Facts on a flow's packets that are known before the run.
struct Known<'s> {
    to: &'s str,
    protocol: Option<Protocol>,
    /// Source and destination port.
    ports: Option<[u16; 2]>,
    dscp: Option<u8>,
}

impl<'s> Known<'s> {
    fn of(flow: &'s Flow, dscp: Option<u8>) -> Known<'s> {
        let sample = flow.traffic.kind().sample(flow.ip, 1);
        let of_sample = sample.and_then(|mut packets| packets.next()).and_then(|(_, packet)| {
            let bytes = packet.to_vec();
            let packet = ip::Packet::new_checked(&bytes[..]).ok()?;
            let upper = packet.upper().ok()?;
            let ports = upper.bytes.first_chunk().map(|[a, b, c, d]| [[*a, *b], [*c, *d]]);
            Some((upper.protocol, ports.map(|ports| ports.map(u16::from_be_bytes))))
        });
        let of_kind = match &flow.traffic {
            Traffic::Tcp(_) => Some(Protocol::TCP),
            Traffic::Tfrc(config) if config.transport == Transport::Dccp => Some(Protocol(33)),
            Traffic::Tfrc(_) => Some(Protocol::UDP),
            Traffic::Ping(_) if flow.ip == Ip::V4 => Some(Protocol::ICMP),
            Traffic::Ping(_) => Some(Protocol::ICMPV6),
            _ => None,
        };
        let protocol = of_sample.map(|(protocol, _)| protocol).or(of_kind);
        Known { to: &flow.to, protocol, ports: of_sample.and_then(|(_, ports)| ports), dscp }
    }

    /// Returns `true` if packets meet a rule; `None` if that is not known.
    fn meets(&self, scenario: &Scenario, rule: &marker::Rule, from: &str) -> Option<bool> {
        let has_port = |ports: Ports| self.ports.map(|own| own.into_iter().any(|port| ports.contains(port)));
        let conditions = [
            rule.from.as_deref().map(|link| Some(link == from)),
            rule.protocol.map(|protocol| self.protocol.map(|own| own == protocol.0)),
            rule.ports.map(has_port),
            rule.dscp.map(|dscp| self.dscp.map(|own| own == dscp)),
            rule.to.as_deref().map(|to| match to.parse::<Prefix>() {
                Ok(_) => None,
                Err(_) => Some(to == self.to || copies::original(scenario, self.to) == Some(to)),
            }),
        ];
        let given: Vec<Option<bool>> = conditions.into_iter().flatten().collect();
        match given.contains(&Some(false)) {
            true => Some(false),
            false => given.iter().all(Option::is_some).then_some(true),
        }
    }
}

/// Returns the codepoint of a flow's packets on each link there.
///
/// `None` stands for one that is not known. Packets to groups and those in tunnels are not marked.
pub(super) fn of(scenario: &Scenario, flow: &Flow, path: &Path) -> Vec<Option<u8>> {
    let hops = path.hops_there();
    let mut known = Known::of(flow, path.dscps.first().copied().flatten());
    let mut all: Vec<Option<u8>> = hops.first().map(|_| known.dscp).into_iter().collect();
    for pair in hops.windows(2) {
        let [(before, way, added), (_, _, added_after)] = [pair[0], pair[1]];
        let node = scenario.link[before].between[usize::from(way == Way::Forward)].as_str();
        let name = scenario.link.get_index(before).map_or("", |(name, _)| name.as_str());
        let from = copies::link_of(scenario, name).unwrap_or(name);
        let is_passed = (added == 0 || added_after == 0) && !scenario.group.contains_key(&flow.to);
        for role in scenario.roles_of(node).iter().filter(|_| is_passed) {
            let Role::Marker(kind) = role else { continue };
            let met = kind.rules.iter().map(|rule| (known.meets(scenario, rule, from), rule.mark));
            match met.into_iter().find(|(met, _)| *met != Some(false)) {
                Some((Some(true), mark)) => known.dscp = Some(mark),
                Some(_) => known.dscp = None,
                None => {}
            }
        }
        all.push(known.dscp);
    }
    all
}

/// Returns a note on a marker whose rules may hold for a flow.
///
/// It is of no concern where no class behind it has a ceiling.
pub(super) fn note(path: &Path, has_ceilings: impl Fn((usize, Way)) -> bool) -> Option<String> {
    let behind = path.hops_there().iter().zip(&path.dscps).skip(1);
    let mut unknown = behind.filter(|(hop, dscp)| dscp.is_none() && has_ceilings((hop.0, hop.1)));
    (path.dscps.first().copied().flatten().is_some() && unknown.next().is_some()).then(|| {
        "whether a marker marks its packets is not known before the run: ceilings of classes behind it are left out"
            .to_owned()
    })
}
