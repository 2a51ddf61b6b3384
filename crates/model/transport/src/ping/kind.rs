//! Traffic of echo requests.

use std::net::SocketAddr;

use bentpipe_site::{
    Copies, End, FlowAt, FlowEnds, FlowGround, FlowTakes, IpVersion, PortNumbers, Problem, RealTraffic,
    TrafficKind,
};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::icmp::HEADER_LEN;
use bentpipe_wire::ip::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Pinger;

/// ICMP echo requests at a fixed interval, whose replies give the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Ping {
    /// Time between requests. Default: "1 s".
    pub interval: Span,
    /// Data of each request, without ICMP and IP headers. Default: "56 B".
    pub payload: Bytes,
    /// Number of requests. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Differentiated services codepoint. Default: 0.
    #[schemars(range(min = 0, max = 63))]
    pub dscp: u8,
}

impl Default for Ping {
    fn default() -> Ping {
        Ping { interval: Span::from_secs(1), payload: Bytes::new(56), packets: None, dscp: 0 }
    }
}

impl TrafficKind for Ping {
    fn dscp(&self) -> Option<u8> {
        Some(self.dscp)
    }

    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, copies: Copies::Each, ..FlowTakes::default() }
    }

    fn answer_len(&self) -> u64 {
        HEADER_LEN as u64 + self.payload.get()
    }

    fn answers_per_packet(&self) -> f64 {
        1.0
    }

    fn segment_len(&self) -> Option<u64> {
        Some(HEADER_LEN as u64 + self.payload.get())
    }

    fn real(&self, _ip: IpVersion) -> Result<RealTraffic, &'static str> {
        let Ping { interval, payload, packets, dscp } = *self;
        Ok(RealTraffic::Requests { payload, interval, packets, dscp })
    }

    fn offered(&self, _packet: Bytes) -> Option<Rate> {
        Some(Rate::of(self.payload, self.interval))
    }

    fn lasts(&self) -> Option<Span> {
        Some(Span::from_secs_f64(self.interval.as_secs_f64() * self.packets? as f64))
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let to = at.receivers[0];
        let is_v4 = ground.nodes().address(at.from, at.ip).is_ipv4();
        let protocol = if is_v4 { Protocol::ICMP } else { Protocol::ICMPV6 };
        let (port, ident) = ground.bind(at, at.from, protocol, PortNumbers::consecutive(1))?;
        ground.fit_echo(at, port, (self.payload, HEADER_LEN as u64), "payload")?;
        [at.from, to].into_iter().for_each(|node| ground.nodes().send_to(node, at.ip));
        let requests = ground.nodes().node(at.from).account_of(port);
        ground.nodes().node(to).answer(requests);
        let local = SocketAddr::new(ground.nodes().address(at.from, at.ip), ident);
        let remote = SocketAddr::new(ground.nodes().address(to, at.ip), 0);
        let pinger = Pinger::new(self, [local, remote], at.start, at.stop);
        let pinger = pinger.map_err(|error| at.impossible("", &error))?;
        Ok(FlowEnds { sender: End::new(pinger, (at.from, port)), receivers: Vec::new(), judges: Vec::new() })
    }
}
