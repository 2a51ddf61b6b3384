//! Declarations of the scenario format.
//!
//! The parser, the JSON Schema, `describe` and the web form are all made from them and from their doc
//! comments.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use bentpipe_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Schema;
use super::elements::{Application, Channel, Framing, Queue};
use super::event_keys::Event;
use super::media::{Medium, Shared};
use super::roles::{NodeRoles, RoleTables};
use super::stages::Stages;
use super::sweep::Sweep;
use super::traffic::Traffic;
use bentpipe_site::line::DelayChanges;
pub use bentpipe_site::{Copies, IpVersion as Ip, IpVersions, Named, RealAt, RealProgram, RealTraffic};

/// Schema for the validation of every file.
pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<Scenario>);

/// Experiment: nodes joined by links, traffic between them, and parameters to vary and record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Scenario {
    /// Title in reports, one line.
    pub title: String,
    /// Description for the reader of the report, one paragraph.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Simulated time.
    pub duration: Span,
    /// Seed of all random streams. The same file and seed give the same result to the byte.
    #[serde(default = "one")]
    pub seed: u64,
    /// Number of runs to average over, with seeds `seed`, `seed + 1`, ...
    #[serde(default = "one_u32")]
    #[schemars(range(min = 1, max = 10000))]
    pub seeds: u32,
    /// Hosts, routers and satellites.
    pub node: Named<Node>,
    /// Links between nodes.
    pub link: Named<Link>,
    /// Objects that links share by name.
    #[serde(flatten)]
    pub shared: Shared,
    /// Objects that roles share by name.
    #[serde(flatten)]
    pub role_tables: RoleTables,
    /// IPv6 through networks that carry only IPv4.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub tunnel: Named<Tunnel>,
    /// Multicast groups.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub group: Named<Group>,
    /// Traffic.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub flow: Named<Flow>,
    /// Changes of settings during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event: Vec<Event>,
    /// Recorded data, in addition to each element's counters and gauges.
    #[serde(default)]
    pub probe: Probe,
    /// Parameters that vary from run to run.
    #[serde(default, skip_serializing_if = "Sweep::is_empty")]
    pub sweep: Sweep,
    /// States after the events, computed from them.
    #[serde(skip)]
    pub timeline: Arc<[Moment]>,
}

/// Change of a scenario's state at a time of the run, because of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// Time from the start of the run.
    pub at: Span,
    /// Number of the event in the file, from zero; of the first if several coincide.
    pub event: usize,
    /// Changed keys and their values as text. `None`: the key is again as if the file did not give it.
    pub changes: Vec<(String, Option<String>)>,
    /// Entries of the scenario that differ from then on.
    pub difference: Difference,
}

/// Entries of a scenario that differ from those before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Nodes, which have other roles.
    pub node: Vec<(String, Node)>,
    /// Links, apart from their ends and what packets they take.
    pub link: Vec<(String, Link)>,
    /// Flows that are turned off or on.
    pub flow: Vec<(String, Flow)>,
    /// Objects that links share.
    pub shared: Option<Box<Shared>>,
    /// Set if more differs, which a running network cannot change.
    pub is_more: bool,
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
    /// Role in forwarding. Flows begin and end at hosts; routers and satellites forward, hosts do not.
    pub kind: NodeKind,
    /// Role, or list of roles: actions on packets in addition to forwarding. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<NodeRoles>,
    /// Addresses, at most one of each family.
    ///
    /// Default: assigned automatically, 10.0.0.1 and fd00::1 for the first node of the file, and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub address: Vec<IpAddr>,
    /// Enables a real machine for `bentpipe emulate`: a Linux network namespace that runs real programs.
    ///
    /// Flows from and to it are then left out. `bentpipe run` simulates it as any other. Without any such
    /// node, all hosts are real when emulated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub real: bool,
    /// Enables Ethernet interfaces of this real host, to bridge them with other machines, for example.
    ///
    /// They are TAP devices, with ARP and IPv6 neighbour discovery. Otherwise they carry IP packets alone
    /// (TUN).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ethernet: bool,
    /// Number of copies, called NAME.1, NAME.2, ...
    ///
    /// Links, ATM lines and flows that name the node are copied with it; between two nodes of one count, copy
    /// n joins copy n.
    #[schemars(range(min = 1, max = 10000))]
    #[serde(skip_serializing_if = "is_one")]
    pub count: u32,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            kind: NodeKind::default(),
            role: None,
            address: Vec::new(),
            real: false,
            ethernet: false,
            count: 1,
        }
    }
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Role of a node in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// End of flows. It does not forward.
    #[default]
    Host,
    /// Forwards packets; flows may begin and end there too.
    Router,
    /// Forwards packets as a router does; drawn as a satellite.
    Satellite,
}

/// Link between two nodes.
///
/// In each direction it has a queue, a serialiser at a line rate, a channel with impairments, and a
/// propagation delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Link {
    /// The two nodes. Forward is from the first to the second.
    #[schemars(length(min = 2, max = 2))]
    pub between: [String; 2],
    /// Medium of both directions, and its settings. Default: separate lines, described by `rate`, `framing`
    /// and `delay_changes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<Medium>,
    /// Line rate of each direction, framing included. Needed unless both directions say their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub rate: Option<Rate>,
    /// Propagation delay, one way. A GEO hop from the ground to the ground is about 270 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub delay: Option<Span>,
    /// Changes of the delay during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_changes: Option<DelayChanges>,
    /// Framing of packets, which determines their wire size.
    #[serde(default)]
    pub framing: Framing,
    /// Maximum length of an IP packet; longer ones are not sent. Default: the framing's maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
    /// IP versions that it carries.
    #[serde(default)]
    pub ip_versions: IpVersions,
    /// The queue in front of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub queue: Option<Queue>,
    /// Impairments of packets: errors, loss, duplicates, reordering, jitter. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub channel: Option<Channel>,
    /// Stages in front of the medium.
    #[serde(flatten)]
    pub stages: Stages,
    /// Settings of the direction from the first node to the second.
    #[serde(default, skip_serializing_if = "Direction::is_empty")]
    pub forward: Direction,
    /// Settings of the direction from the second node to the first.
    #[serde(default, rename = "return", skip_serializing_if = "Direction::is_empty")]
    pub reverse: Direction,
}

/// Settings of one direction of a link, in place of the link's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Direction {
    /// Line rate, framing included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub rate: Option<Rate>,
    /// Propagation delay, one way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub delay: Option<Span>,
    /// Changes of the delay during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_changes: Option<DelayChanges>,
    /// The queue in front of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub queue: Option<Queue>,
    /// Impairments of packets: errors, loss, duplicates, reordering, jitter. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub channel: Option<Channel>,
    /// Stages in front of the medium.
    #[serde(flatten)]
    pub stages: Stages,
    /// Medium, instead of the link's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<Medium>,
}

impl Direction {
    fn is_empty(&self) -> bool {
        *self == Direction::default()
    }
}

/// Tunnel: an IPv6 link between two nodes that are connected over IPv4 (6in4, RFC 4213).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// The two nodes that encapsulate and decapsulate.
    #[schemars(length(min = 2, max = 2))]
    pub between: [String; 2],
}

/// Multicast group. Packets to it reach all members over the tree of shortest paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Address, IPv4 or IPv6. Default: 239.0.0.1 or ff0e::1 for the first group, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Nodes that receive packets to the group. The name of a node with copies stands for all of them.
    #[schemars(length(min = 1))]
    pub members: Vec<String>,
}

/// Traffic from one node to another, or to a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The node that sends.
    pub from: String,
    /// The node that receives; for datagrams a group as well.
    pub to: String,
    /// Traffic.
    pub traffic: Traffic,
    /// Data written by the application, if the traffic carries an application.
    #[serde(default = "bulk", skip_serializing_if = "is_bulk")]
    pub application: Application,
    /// Start.
    #[serde(default)]
    pub start: Span,
    /// End of the application's data. Default: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// Number of copies, called NAME.1, NAME.2, ... If an end is a node with copies, the number is for each
    /// of them.
    #[serde(default = "one_u32")]
    #[schemars(range(min = 1, max = 100000))]
    pub count: u32,
    /// Delay between the starts of successive copies.
    #[serde(default)]
    pub stagger: Span,
    /// Delay between the starts at successive copies of a node, in addition to `stagger`. Default: 0 s.
    #[serde(default, skip_serializing_if = "is_none")]
    pub node_stagger: Span,
    /// Longest random delay of a start, in addition to the others. Default: 0 s.
    ///
    /// Each copy draws its own, uniform from zero, in each run by its seed: the seeds of a run then differ for TCP on a
    /// line without chance too.
    #[serde(default, skip_serializing_if = "is_none")]
    pub start_spread: Span,
    /// The IP version.
    #[serde(default)]
    pub ip: Ip,
    /// Refuses datagrams longer than the path's MTU. Default: false.
    ///
    /// Without it the sender's node fragments them, as a kernel does, and the receiver's reassembles them: a lost
    /// fragment loses the datagram. Segments of TCP and packets of DCCP always fit.
    #[serde(default, skip_serializing_if = "is_no")]
    pub dont_fragment: bool,
    /// Enables sending. Default: true. An event turns it off and on: only UDP and TCP.
    ///
    /// While it is off, UDP's source sends nothing. TCP's application writes nothing and takes back what was not sent.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[schemars(extend("x-change" = true))]
    pub active: bool,
}

impl Flow {
    /// Returns `true` if all copies of the flow start at one instant.
    pub fn starts_together(&self) -> bool {
        self.stagger.is_zero() && self.start_spread.is_zero()
    }
}

/// Returns `true` for no delay, which is not written out.
fn is_none(delay: &Span) -> bool {
    delay.is_zero()
}

const fn yes() -> bool {
    true
}

const fn is_yes(value: &bool) -> bool {
    *value
}

const fn is_no(value: &bool) -> bool {
    !*value
}

fn bulk() -> Application {
    Application::Bulk(Default::default())
}

/// Returns `true` for the default application. It is not written out, as other traffic rejects the key.
fn is_bulk(application: &Application) -> bool {
    *application == bulk()
}

/// Recorded data, in addition to each element's counters and gauges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// Sampling interval of counters and gauges.
    pub interval: Span,
    /// Initial time excluded from means and rates, while the flows start up.
    pub warm_up: Span,
    /// Capture points of packets, for pcap files. `"node:link"` captures packets that the node sends into and
    /// receives from the link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capture: Vec<String>,
    /// Enables NULL packets in captures of a transport stream, as on an idle line.
    pub nulls: bool,
    /// Flows whose packets are recorded one by one, in `packets.parquet`. Names of flows or copies, or `"*"` for all. Emulations do not record them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<String>,
}

impl Default for Probe {
    fn default() -> Probe {
        let (interval, warm_up) = (Span::from_millis(100), Span::ZERO);
        Probe { interval, warm_up, capture: Vec::new(), nulls: true, packets: Vec::new() }
    }
}
