//! Places on a path behind which none of a flow's packets comes.

use bentpipe_scenario::{Flow, Ip, Role, Scenario, Traffic, Way, copies};
use bentpipe_site::nat;
use bentpipe_transport::tfrc::Transport;

use super::path::{Barrier, MOST_LINKS, Path, splitter};

/// Returns the first barrier on the way of a flow's packets.
pub(super) fn find(scenario: &Scenario, flow: &Flow, path: &Path) -> Option<Barrier> {
    too_many_links(scenario, path).or_else(|| translated(scenario, flow, path))
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
    if flow.ip != Ip::V4 {
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

/// Returns a note on copies that get no port number of a translator.
pub(super) fn few_ports(scenario: &Scenario, flow: &Flow, path: &Path, ends: u64) -> Option<String> {
    let is_translated = flow.ip == Ip::V4 && path.blocked.is_none();
    let (_, node, nat, _) = translators(scenario, path).find(|(.., goes_out)| is_translated && *goes_out)?;
    (ends > u64::from(nat.ports)).then(|| {
        format!(
            "the translator of {node} has {} port numbers for its {ends} ends: what those send that get none is dropped",
            nat.ports
        )
    })
}
