//! Role `dtn` of a node and traffic of bundles.

mod bundles;
mod real;

pub use bundles::Bundles;

use std::collections::BTreeSet;
use std::net::IpAddr;

use bentpipe_net::{Element, Port};
use bentpipe_site::{Ground, IpVersion, Problem, RealAt, RealProgram, Review, RoleAt, RoleKind, header_len};
use bentpipe_transport::tcp;
use bentpipe_units::Bytes;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::{BUNDLE_PORT, LTP_PORT};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::tcp as segment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::element::{Agent, Bearer, CALLER_PORTS, Neighbour};
use crate::network::{Layer, Network, Networks};
use crate::node::{self, Node};

/// Time of instant 0 of a simulation in milliseconds since 2000: 2026-01-01T00:00:00 UTC.
///
/// An emulation begins at the time of its start instead.
pub const EPOCH: u64 = 820_540_800_000;

/// Node of a delay-tolerant network (RFC 9171). It stores bundles and forwards them in contacts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Kind {
    /// Network of bundles that it belongs to: `[dtn.NAME]`.
    pub network: String,
    /// Storage of bundles. Default: 1 GB.
    #[serde(default = "storage")]
    pub storage: Bytes,
    /// Enables status reports on bundles that ask for them. Default: true.
    #[serde(default = "yes")]
    pub reports: bool,
}

fn storage() -> Bytes {
    Bytes::new(1_000_000_000)
}

const fn yes() -> bool {
    true
}

/// Returns the endpoint of a service at a node. Node numbers count from 1.
pub fn endpoint(node: usize, service: u16) -> Eid {
    Eid::ipn(node as u32 + 1, service.into())
}

impl RoleKind for Kind {
    type Shared = Networks;

    fn check(&self, at: &RoleAt<'_>, networks: &Networks, review: &mut Review<'_>) {
        review.ensure_named(&networks.0, "network of bundles", &format!("{}.network", at.key), &self.network);
    }

    const HAS_PROGRAM: bool = true;

    fn program(&self, networks: &Networks, at: &RealAt<'_>) -> Result<RealProgram, Problem> {
        real::daemon(self, &networks.0[&self.network], at)
    }

    fn plan(&self, networks: &Networks, ground: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        let network = &networks.0[&self.network];
        let graph = network.graph(&self.network, &|name| ground.index(name).map(|node| node as u64 + 1))?;
        let plan = graph.plan();
        let own = ground.index(ground.name()).expect("a node of the topology") as u64 + 1;
        let first_port = bind(network.layer, plan.contacts.len(), ground)?;
        let contacts = plan.contacts.iter().filter(|contact| contact.from == own || contact.to == own);
        let others: BTreeSet<u64> =
            contacts.map(|contact| if contact.from == own { contact.to } else { contact.from }).collect();
        let address = first(ground, ground.name())?;
        let (mut neighbours, mut mtu) = (Vec::new(), u64::MAX);
        for other in others {
            let Some(name) = ground.node_at(other as usize - 1) else {
                let problem =
                    format!("no node has the number {other}: nodes count from 1 in the order of the file");
                return Err(Problem::new(format!("dtn.{}.plan", self.network), problem));
            };
            ground.reach(name, IpVersion::V4)?;
            mtu = mtu.min(ground.set_path_mtus(name, IpVersion::V4).unwrap_or(u64::MAX));
            let there = first(ground, name)?;
            neighbours.push(Neighbour::new(own, other, [address, there], plan));
        }
        let config = node::Config {
            eid: endpoint(own as usize - 1, 0),
            storage: self.storage.get(),
            reports: self.reports,
            epoch: EPOCH,
            no_route: None,
        };
        let number = |name: &str| ground.index(name).map(|node| node as u64 + 1);
        let routing = network.routing(&self.network, (ground.name(), own), &graph, &number)?;
        let at = (address, first_port);
        let bearer = match network.layer {
            Layer::Udp | Layer::Ltp | Layer::LtpGreen => Bearer::datagrams(),
            Layer::Tcpcl => {
                let eid = endpoint(own as usize - 1, 0).to_string();
                let tcp = tcp_within(network, mtu);
                Bearer::sessions((own, eid), at, (&tcp, network.reactive), &neighbours)
            }
            Layer::Dccp => Bearer::flows(at, network.datagram, neighbours.len()),
        };
        let node = Node::new(config, routing);
        let account = ground.account_of(Port(0));
        Ok(Box::new(Agent::new(own, node, (neighbours, bearer), network).with_account(account)))
    }
}

/// Returns the TCP of a network's nodes, with segments that fit an MTU.
fn tcp_within(network: &Network, mtu: u64) -> tcp::Config {
    let (tcp, headers) = (network.tcp(), header_len(IpVersion::V4, segment::HEADER_LEN as u64).get());
    let mss = tcp.mss.min(Bytes::new(mtu.saturating_sub(headers).max(1)));
    tcp::Config { mss, ..tcp }
}

/// Binds the ports of a convergence layer, whose node fragments datagrams.
///
/// Returns the first port number of connections that the node opens.
fn bind(layer: Layer, contacts: usize, ground: &mut Ground<'_, '_>) -> Result<u16, Problem> {
    let (protocol, calls) = match layer {
        Layer::Udp | Layer::Ltp | Layer::LtpGreen => (Protocol::UDP, None),
        Layer::Tcpcl => (Protocol::TCP, Some(CALLER_PORTS)),
        // One for each neighbour, of which there are not more than contacts.
        Layer::Dccp => (Protocol::DCCP, Some(contacts.clamp(1, 10_000) as u16)),
    };
    let own = ground.bind_at(protocol, BUNDLE_PORT)?;
    let (other, first) = match calls {
        None => (ground.bind_at(protocol, LTP_PORT)?, LTP_PORT),
        Some(count) => ground.bind(protocol, count)?,
    };
    debug_assert_eq!((own, other), (Port(0), Port(1)));
    if layer != Layer::Tcpcl {
        [own, other].into_iter().for_each(|port| ground.fragment(port));
    }
    Ok(first)
}

/// Returns the IPv4 address of a node.
fn first(ground: &Ground<'_, '_>, node: &str) -> Result<IpAddr, Problem> {
    let addresses = ground.addresses(node).map(|[v4, _]| v4);
    addresses.ok_or_else(|| Problem::new(ground.key(), format!("node \"{node}\" has no address")))
}
