//! Bundles on the way of a flow, and the packets that they are in.

use bentpipe_dtn::network::{Layer, Network};
use bentpipe_scenario::{Flow, Ip, Role, Scenario, Traffic};
use bentpipe_site::header_len;
use bentpipe_wire::ip::fragments;

use super::path::Path;

/// Returns the numbers of links behind which nodes on a way keep bundles.
pub(super) fn stops(scenario: &Scenario, flow: &Flow, nodes: &[String]) -> Vec<usize> {
    let keeps = |node: &String| scenario.roles_of(node).iter().any(|role| matches!(role, Role::Dtn(_)));
    let inner = nodes.iter().enumerate().skip(1).take(nodes.len().saturating_sub(2));
    let is_of_bundles = matches!(flow.traffic, Traffic::Bundles(_));
    inner.filter(|(_, node)| is_of_bundles && keeps(node)).map(|(n, _)| n).collect()
}

/// Returns `true` for bundles that travel in a datagram each.
pub(super) fn is_whole(scenario: &Scenario, flow: &Flow) -> bool {
    layer(scenario, flow) == Some(Layer::Udp)
}

/// Returns the convergence layer of a flow of bundles.
pub(super) fn layer(scenario: &Scenario, flow: &Flow) -> Option<Layer> {
    Some(network(scenario, flow)?.layer)
}

/// Returns the network of a flow of bundles.
pub(super) fn network<'s>(scenario: &'s Scenario, flow: &Flow) -> Option<&'s Network> {
    let Traffic::Bundles(bundles) = &flow.traffic else { return None };
    scenario.roles_of(bundles.origin(&flow.from)).iter().find_map(|role| {
        let Role::Dtn(dtn) = role else { return None };
        scenario.role_tables.dtn.0.get(&dtn.network)
    })
}

/// Header of a segment of LTP with data, about.
const LTP_HEADER: u64 = 10;

/// Header of UDP.
const UDP_HEADER: u64 = 8;

/// Header of DCCP with data.
const DCCP_HEADER: u64 = 16;

/// Length of a fragment of a bundle without its data, about.
const FRAGMENT_HEADER: u64 = 60;

/// Returns the number of packets of a bundle that are lost together. One if they are not, or are sent again.
pub(super) fn pieces(scenario: &Scenario, flow: &Flow, path: &Path) -> u64 {
    let (Traffic::Bundles(bundles), Some(network)) = (&flow.traffic, network(scenario, flow)) else {
        return 1;
    };
    let (len, datagram) = (bundles.bundle_len().get(), network.datagram.get());
    let (own, each, header) = match network.layer {
        Layer::Udp => (0, FRAGMENT_HEADER, UDP_HEADER),
        Layer::LtpGreen => (LTP_HEADER, LTP_HEADER, UDP_HEADER),
        // A datagram of DCCP has its header in it.
        Layer::Dccp => (DCCP_HEADER, DCCP_HEADER + FRAGMENT_HEADER, 0),
        Layer::Ltp | Layer::Tcpcl => return 1,
    };
    if path.window.is_some() {
        return 1;
    }
    let count = match len + own <= datagram {
        true => 1,
        false => len.div_ceil(datagram.saturating_sub(each).max(1)),
    };
    let packet = header_len(flow.ip, datagram.min(len + own) + header).get();
    count * fragments::sizes(flow.ip == Ip::V4, packet, path.mtu).0
}
