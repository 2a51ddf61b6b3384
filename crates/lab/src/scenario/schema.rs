//! What a scenario file may contain. These declarations are the format: the parser, the JSON Schema, `describe` and
//! the web form are all made from them and from their doc comments.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use bentpipe_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::atm::{Atm, VirtualChannel};
use super::check::Schema;
use super::delays::DelayChanges;
use super::elements::{
    Application, Carrier, Channel, Dama, Dvb, DvbLine, Framing, Queue, QuickStart, Shaper, Stream, Tcp, Tfrc,
    Udp, Video, Wifi,
};
use super::named::Named;
use super::sweep::Sweep;

/// The schema that every file is held against.
pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<Scenario>);

/// One experiment: nodes joined by links, the traffic that flows between them, and what to vary and record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the experiment is called in reports, in a line.
    pub title: String,
    /// What it shows, in a paragraph for whoever reads the report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How long to simulate.
    pub duration: Span,
    /// What every random stream is seeded from. The same file and seed give the same result to the byte.
    #[serde(default = "one")]
    pub seed: u64,
    /// How many runs with seeds `seed`, `seed + 1`, ... to average over.
    #[serde(default = "one_u32")]
    #[schemars(range(min = 1, max = 10000))]
    pub seeds: u32,
    /// Hosts, routers and satellites.
    pub node: Named<Node>,
    /// What joins two nodes.
    pub link: Named<Link>,
    /// Carriers that terminals share by demand assignment: `dama` in a direction of a link makes it a terminal.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub carrier: Named<Carrier>,
    /// Lines of DVB: `dvb` in a direction of a link makes it a stream on one. Each node that sends on a line has such a line
    /// of its own, and a multiplex of the streams that it sends there.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub dvb: Named<DvbLine>,
    /// A network of ATM switches under the links that are virtual channels.
    #[serde(default, skip_serializing_if = "Atm::is_empty")]
    pub atm: Atm,
    /// IPv6 through networks that carry only IPv4.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub tunnel: Named<Tunnel>,
    /// Multicast groups.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub group: Named<Group>,
    /// Traffic.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub flow: Named<Flow>,
    /// What to record, besides each element's counters and gauges.
    #[serde(default)]
    pub probe: Probe,
    /// What to vary from run to run.
    #[serde(default, skip_serializing_if = "Sweep::is_empty")]
    pub sweep: Sweep,
}

const fn one() -> u64 {
    1
}

const fn one_u32() -> u32 {
    1
}

/// A host, router or satellite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// What it is. Flows begin and end at hosts; routers and satellites forward, hosts do not.
    pub kind: NodeKind,
    /// Its addresses, at most one of each family; without one it gets one by itself: 10.0.0.1 and fd00::1 for the
    /// first node of the file, and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub address: Vec<IpAddr>,
    /// Whether `bentpipe emulate` puts a real machine here: a network namespace of Linux, in which real programs run.
    /// Flows from and to it are then left out. `bentpipe run` simulates it as any other. Without any such node, all
    /// hosts are real when emulated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub real: bool,
    /// Whether the interfaces of this real host are Ethernet (TAP devices, with ARP and IPv6 neighbour discovery), to
    /// be put into a bridge with other machines, say. Otherwise they carry IP packets alone (TUN).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ethernet: bool,
    /// How many of it: copies are called NAME.1, NAME.2, ... Each has links, ATM lines and flows of its own: those
    /// that name it are copied with it; between two nodes of one count, copy n joins copy n.
    #[schemars(range(min = 1, max = 2000))]
    #[serde(skip_serializing_if = "is_one")]
    pub count: u32,
}

impl Default for Node {
    fn default() -> Node {
        Node { kind: NodeKind::default(), address: Vec::new(), real: false, ethernet: false, count: 1 }
    }
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Where flows begin and end. It does not forward.
    #[default]
    Host,
    /// Forwards packets; flows may begin and end there too.
    Router,
    /// Forwards packets as a router does; drawn as a satellite.
    Satellite,
}

/// What joins two nodes: in each direction a queue, a serialiser at a line rate, a channel that may lose, and a
/// propagation delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two nodes. Forward is from the first to the second.
    #[schemars(length(min = 2, max = 2))]
    pub between: [String; 2],
    /// A virtual channel of the ATM network instead of a line of its own: `atm` says what its cells pass. Rate, delay and
    /// framing then come from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vc: Option<VirtualChannel>,
    /// Line rate of each direction, framing included. Needed unless both directions say their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// One-way propagation delay. A GEO hop from the ground to the ground is about 270 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// How the delay changes during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_changes: Option<DelayChanges>,
    /// How packets are framed, and so what a packet costs on the line.
    #[serde(default)]
    pub framing: Framing,
    /// The longest IP packet; longer ones are not sent. By default what the framing allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
    /// Which IP versions it carries.
    #[serde(default)]
    pub carries: Carries,
    /// The queue in front of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// What the channel does to packets: errors, loss, duplicates, reordering, jitter. Without it, nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// A token bucket in front of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper: Option<Shaper>,
    /// The nodes at both ends answer requests for a rate (Quick-Start, RFC 4782) for this link. Without it they let them
    /// pass as they are, and so without their consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_start: Option<QuickStart>,
    /// How both ends send if they are terminals that share carriers; there is no line then, and no rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dama: Option<Dama>,
    /// How packets are carried in a transport stream or in the frames of DVB-S2, in both directions, of which each node has
    /// its own line; there is no rate besides. Its channel acts on TS packets or frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dvb: Option<Dvb>,
    /// Makes it a Wi-Fi link: instead of a line in each direction a medium that both share. Its channel acts on frames, which
    /// are sent again; it has no rate and no framing of a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wifi: Option<Wifi>,
    /// What differs from the first node to the second.
    #[serde(default, skip_serializing_if = "Direction::is_empty")]
    pub forward: Direction,
    /// What differs from the second node to the first.
    #[serde(default, rename = "return", skip_serializing_if = "Direction::is_empty")]
    pub reverse: Direction,
}

/// What differs in one direction of a link. What is not given is as the link says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Direction {
    /// Line rate, framing included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// One-way propagation delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// How the delay changes during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_changes: Option<DelayChanges>,
    /// The queue in front of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// What the channel does to packets: errors, loss, duplicates, reordering, jitter. Without it, nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// A token bucket in front of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<Shaper>,
    /// The sending node answers requests for a rate (Quick-Start, RFC 4782) for this direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quick_start: Option<QuickStart>,
    /// How the sending end sends if it is a terminal that shares carriers; there is no line then, and no rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dama: Option<Dama>,
    /// How packets are carried in a transport stream or in the frames of DVB-S2; there is no rate then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dvb: Option<Dvb>,
}

impl Direction {
    fn is_empty(&self) -> bool {
        *self == Direction::default()
    }
}

/// Which IP versions a link carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carries {
    /// IPv4 and IPv6.
    #[default]
    Both,
    /// IPv4 only; IPv6 crosses it in a tunnel.
    Ipv4,
    /// IPv6 only.
    Ipv6,
}

/// A tunnel: a link for IPv6 between two nodes that reach each other over IPv4 (6in4, RFC 4213).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// The two nodes that encapsulate and decapsulate.
    #[schemars(length(min = 2, max = 2))]
    pub between: [String; 2],
}

/// A multicast group: packets sent to it reach all its members over the tree of shortest paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its address, IPv4 or IPv6; without one 239.0.0.1 or ff0e::1 for the first group, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The nodes that receive what is sent to it.
    #[schemars(length(min = 1))]
    pub members: Vec<String>,
}

/// Traffic from one node to another, or to a group. What it is, one of `tcp`, `udp`, `video`, `stream`, `tfrc` and
/// `replay` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The node that sends.
    pub from: String,
    /// The node that receives; for datagrams a group as well.
    pub to: String,
    /// A TCP connection that carries bulk data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
    /// What the application writes into the TCP connection.
    #[serde(default = "bulk")]
    pub application: Application,
    /// UDP datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<Udp>,
    /// MPEG-2 video of variable rate in UDP datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<Video>,
    /// Media whose rate TFRC controls (RFC 5348), over UDP or DCCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tfrc: Option<Tfrc>,
    /// A real MPEG-2 transport stream in ATM cells over the one link between the two nodes, whose line rate is then that of
    /// cells. It is the only flow of its scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// The packets of a capture file with their spacing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// When it starts.
    #[serde(default)]
    pub start: Span,
    /// When its application stops giving data; without it the flow lasts to the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// How many of it: copies are called NAME.1, NAME.2, ... If one of its ends is a node with copies, so many for each.
    #[serde(default = "one_u32")]
    #[schemars(range(min = 1, max = 100000))]
    pub count: u32,
    /// How much later each copy starts than the one before.
    #[serde(default)]
    pub stagger: Span,
    /// The IP version.
    #[serde(default)]
    pub ip: Ip,
}

fn bulk() -> Application {
    Application::Bulk(Default::default())
}

/// An IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Ip {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl TryFrom<u8> for Ip {
    type Error = &'static str;
    fn try_from(version: u8) -> Result<Ip, &'static str> {
        match version {
            4 => Ok(Ip::V4),
            6 => Ok(Ip::V6),
            _ => Err("there is IP version 4 and 6"),
        }
    }
}

impl From<Ip> for u8 {
    fn from(ip: Ip) -> u8 {
        match ip {
            Ip::V4 => 4,
            Ip::V6 => 6,
        }
    }
}

impl JsonSchema for Ip {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Ip".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "enum": [4, 6] })
    }
}

/// A capture file whose packets are sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// A pcap file; a relative path starts at the scenario file's folder.
    pub file: PathBuf,
    /// How many times, one after the other.
    #[serde(default = "one_u32")]
    #[schemars(range(min = 1, max = 1000000))]
    pub times: u32,
}

/// What to record, besides each element's counters and gauges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// How often counters and gauges are sampled.
    pub interval: Span,
    /// What is left out of means and rates at the beginning, while the flows start up.
    pub warm_up: Span,
    /// Where packets are captured into pcap files: `"node:link"` for what the node sends into and receives from the
    /// link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capture: Vec<String>,
    /// Whether captures of a transport stream have NULL packets where nothing was sent, as the line has.
    pub nulls: bool,
}

impl Default for Probe {
    fn default() -> Probe {
        let (interval, warm_up) = (Span::from_millis(100), Span::ZERO);
        Probe { interval, warm_up, capture: Vec::new(), nulls: true }
    }
}
