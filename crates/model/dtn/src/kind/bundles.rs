//! Traffic of bundles.

use std::net::SocketAddr;

use bentpipe_net::InvalidConfig;
use bentpipe_site::{
    Attach, Client, End, FlowAt, FlowEnds, FlowGround, FlowTakes, IpVersion, PortNumbers, Problem,
    RealTraffic, Review, TrafficKind,
};
use bentpipe_transport::tcp;
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::dtn::bundle::{Bundle, Content, HopCount, Payload, Primary, Timestamp};
use bentpipe_wire::dtn::crc::CrcKind;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::ip::tcp::HEADER_LEN;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::endpoint;
use crate::element::{Agent, Cutter, Measures, Sender, Sink, Timing};
use crate::node::{Registry, priority_block};

/// Bundles at a fixed interval, from a node with the role `dtn` to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Bundles {
    /// Payload of each bundle, at least 12 B: a number and the time of creation.
    pub payload: Bytes,
    /// Time from bundle to bundle, at least 10 us.
    pub interval: Span,
    /// Lifetime. Default: 1 h.
    #[serde(default = "lifetime")]
    pub lifetime: Span,
    /// Priority: 0 bulk, 1 normal, 2 expedited. Default: 1.
    #[serde(default = "normal")]
    #[schemars(range(min = 0, max = 2))]
    pub priority: u8,
    /// Maximum number of bundles. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundles: Option<u64>,
    /// Enables a CRC over the payload. Default: true.
    #[serde(default = "yes")]
    pub crc: bool,
    /// Hop limit of the bundles. Default: no hop count block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub hop_limit: Option<u8>,
    /// Proxy that makes the bundles, of measures that come to it over TCP from `from`. Default: `from` makes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Through>,
}

/// Proxy on the way of a flow, which cuts a TCP stream into bundles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BundlesThrough")]
pub struct Through {
    /// Node with the role `dtn`.
    pub node: String,
    /// TCP of the stream, with the defaults of a flow's. Default: those, but `nagle = false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Box<tcp::Config>>,
}

const fn lifetime() -> Span {
    Span::from_secs(3600)
}

const fn normal() -> u8 {
    1
}

const fn yes() -> bool {
    true
}

/// Bytes of a bundle without payload, about.
const OVERHEAD: u64 = 55;

impl Bundles {
    /// Returns the length of a bundle, about.
    pub fn bundle_len(&self) -> Bytes {
        Bytes::new(self.payload.get() + OVERHEAD)
    }

    /// Returns the node that makes the bundles of a flow from a node.
    pub fn origin<'a>(&'a self, from: &'a str) -> &'a str {
        self.through.as_ref().map_or(from, |through| &through.node)
    }

    /// Returns the settings of the connection to a proxy.
    fn connection(through: &Through) -> tcp::Config {
        let given = through.tcp.as_deref().cloned();
        given.unwrap_or_else(|| tcp::Config { nagle: false, ..tcp::Config::default() })
    }

    /// Returns a bundle from an endpoint to another.
    fn template(&self, [source, destination]: [Eid; 2]) -> Bundle {
        let lifetime = self.lifetime.as_nanos() / 1_000_000;
        let primary = Primary::new(source, destination, Timestamp::default(), lifetime);
        let crc = if self.crc { CrcKind::Castagnoli } else { CrcKind::None };
        let payload = Payload { crc, ..Payload::elided(self.payload.get()) };
        let mut bundle = Bundle { primary, blocks: vec![], payload };
        if let Some(limit) = self.hop_limit {
            bundle.set(Content::HopCount(HopCount { limit, count: 0 }));
        }
        if self.priority != 1 {
            bundle.set(priority_block(self.priority));
        }
        bundle
    }
}

impl Bundles {
    /// Returns the sender of measures with its proxy, and the receiver's client.
    fn cut(
        &self,
        at: &FlowAt<'_>,
        through: &Through,
        timing: Timing,
        ground: &mut FlowGround<'_, '_>,
    ) -> Result<(End, Client, Eid), Problem> {
        let refuse = |problem: &str| Problem::new(at.key("traffic.through.node"), problem);
        let (to, proxy) = (at.receivers[0], ground.number(&through.node));
        let proxy = proxy.filter(|proxy| *proxy != at.from && *proxy != to);
        let proxy = proxy.ok_or_else(|| refuse("expected a node between sender and receiver"))?;
        let no_role = refuse("has no role \"dtn\": expected a node with it");
        let own = ground.client(at, proxy, "dtn").map_err(|_| no_role)?;
        let other = ground.client(at, to, "dtn")?;
        let one = PortNumbers::consecutive(1);
        let (sender, local) = ground.bind(at, at.from, Protocol::TCP, one)?;
        let (door, remote) = ground.bind(at, proxy, Protocol::TCP, one)?;
        let nodes = ground.nodes();
        [at.from, proxy].into_iter().for_each(|node| nodes.send_to(node, at.ip));
        let addresses = [(at.from, local), (proxy, remote)]
            .map(|(node, port)| SocketAddr::new(nodes.address(node, at.ip), port));
        let tcp = Bundles::connection(through);
        let source = endpoint(proxy, own.port().0);
        let template = self.template([source.clone(), endpoint(to, other.port().0)]);
        let cutter = Cutter::new(tcp.clone(), addresses[1], template);
        let cutter = End::new(cutter, (proxy, door)).joined(own);
        let measures = Measures::new(tcp, addresses, self.payload.get(), timing);
        Ok((End::new(measures, (at.from, sender)).through(cutter), other, source))
    }
}

/// Returns the registry that all bundle nodes share. The first flow makes it.
fn registry(node: usize, ground: &mut FlowGround<'_, '_>) -> Registry {
    let known = agent(node, ground).and_then(|agent| agent.registry().cloned());
    known.unwrap_or_else(|| {
        let registry = Registry::default();
        for node in 0..ground.node_count() {
            let name = format!("node.{}", ground.name(node));
            agent(node, ground).into_iter().for_each(|agent| agent.register(registry.clone(), &name));
        }
        registry
    })
}

fn agent<'g>(node: usize, ground: &'g mut FlowGround<'_, '_>) -> Option<&'g mut Agent> {
    ground.role(node, "dtn")?.as_any().downcast_mut()
}

impl TrafficKind for Bundles {
    fn takes(&self) -> FlowTakes {
        FlowTakes::default()
    }

    fn check(&self, key: &str, review: &mut Review<'_>) {
        let bytes = self.payload.get();
        let problem = format!("expected 12 to 60000 B, got {bytes} B");
        review.ensure((12..=60_000).contains(&bytes), &format!("{key}.payload"), problem);
        // A bundle that waits takes 1 kB: those of a nanosecond each took 6 GB in less than a second.
        let is_slow = self.interval >= Span::from_micros(10);
        review.ensure(is_slow, &format!("{key}.interval"), "expected 10 us or more");
        if let Some(through) = &self.through {
            review.ensure_node(&format!("{key}.through.node"), &through.node);
        }
    }

    fn segment_len(&self) -> Option<u64> {
        Some(self.bundle_len().get() + self.header_len())
    }

    /// Returns `true`: nodes of bundles cut them to segments or fragments of the layer below.
    fn cuts(&self) -> bool {
        true
    }

    /// Returns the connection to the proxy, with a measure in each segment.
    fn first_leg(&self) -> Option<(&str, Box<dyn TrafficKind>)> {
        let through = self.through.as_ref()?;
        let mut tcp = Bundles::connection(through);
        let options = tcp.header_len().saturating_sub(HEADER_LEN as u64);
        tcp.mss = tcp.mss.min(Bytes::new(self.payload.get() + options));
        Some((&through.node, Box::new(tcp)))
    }

    fn offered(&self, _packet: Bytes) -> Option<Rate> {
        Some(Rate::of(self.payload, self.interval))
    }

    fn lasts(&self) -> Option<Span> {
        Some(self.interval * self.bundles?)
    }

    fn real(&self, _ip: IpVersion) -> Result<RealTraffic, &'static str> {
        let Bundles { payload, interval, lifetime, bundles, .. } = *self;
        if self.through.is_some() {
            return Err("`dtn perf` sends bundles, and no stream that a proxy cuts");
        }
        match (self.priority, self.hop_limit, self.crc) {
            (1, None, true) => Ok(RealTraffic::Bundles { payload, interval, lifetime, bundles }),
            _ => Err(
                "`dtn perf` sends bundles of priority 1 with a CRC, and sets no hop limit of the scenario",
            ),
        }
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let to = at.receivers[0];
        InvalidConfig::ensure(at.from != to, "to", "another node")
            .map_err(|error| at.impossible("", &error))?;
        let bundles = self.bundles.unwrap_or(u64::MAX);
        let timing = Timing { start: at.start, stop: at.stop, interval: self.interval, bundles };
        let (sender, other, source) = match &self.through {
            None => {
                let [own, other] = [ground.client(at, at.from, "dtn")?, ground.client(at, to, "dtn")?];
                let ends = [endpoint(at.from, own.port().0), endpoint(to, other.port().0)];
                let sender = Sender::new(self.template(ends.clone()), timing);
                let [source, _] = ends;
                (End::attached(sender, Attach::Role(own)), other, source)
            }
            Some(through) => self.cut(at, through, timing, ground)?,
        };
        let holdings = registry(to, ground).add(source);
        Ok(FlowEnds {
            sender,
            receivers: vec![End::attached(Sink::new().with_holdings(holdings), Attach::Role(other))],
            judges: Vec::new(),
        })
    }
}
