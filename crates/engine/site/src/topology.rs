//! Graph of nodes, links and tunnels.

use std::net::IpAddr;

use bentpipe_units::{Bytes, Span};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values by their names, in the order of the file.
pub type Named<T> = IndexMap<String, T>;

/// Direction of a link or tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Direction from the first-named node to the second.
    Forward,
    /// Direction from the second-named node to the first.
    Return,
}

impl Way {
    /// Both directions, forward first.
    pub const BOTH: [Way; 2] = [Way::Forward, Way::Return];

    /// Returns the word that keys and paths have.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Forward => "forward",
            Way::Return => "return",
        }
    }

    /// Returns the number of the end that sends: 0 forward, 1 in the return direction.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the other direction.
    pub const fn back(self) -> Way {
        match self {
            Way::Forward => Way::Return,
            Way::Return => Way::Forward,
        }
    }
}

/// IP versions that a link carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IpVersions {
    /// IPv4 and IPv6.
    #[default]
    Both,
    /// IPv4 only; IPv6 crosses it in a tunnel.
    Ipv4,
    /// IPv6 only.
    Ipv6,
}

impl IpVersions {
    /// Returns `true` if packets of this version are carried.
    pub const fn has(self, ip: IpVersion) -> bool {
        match self {
            IpVersions::Both => true,
            IpVersions::Ipv4 => matches!(ip, IpVersion::V4),
            IpVersions::Ipv6 => matches!(ip, IpVersion::V6),
        }
    }
}

/// IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl TryFrom<u8> for IpVersion {
    type Error = &'static str;
    fn try_from(version: u8) -> Result<IpVersion, &'static str> {
        match version {
            4 => Ok(IpVersion::V4),
            6 => Ok(IpVersion::V6),
            _ => Err("there is IP version 4 and 6"),
        }
    }
}

impl From<IpVersion> for u8 {
    fn from(ip: IpVersion) -> u8 {
        match ip {
            IpVersion::V4 => 4,
            IpVersion::V6 => 6,
        }
    }
}

impl JsonSchema for IpVersion {
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

/// Node as routes see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAt {
    /// Set if the node forwards packets of others.
    pub forwards: bool,
    /// Configured addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
}

/// Passage of packets in a direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// Packets pass over the direction itself.
    #[default]
    Own,
    /// Packets to groups alone pass over the direction itself, each to all of its receivers.
    Groups,
    /// Packets pass in a tunnel over other links.
    Tunnelled,
    /// No packets pass.
    Closed,
}

/// Link as routes see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAt {
    /// Names of its two nodes.
    pub between: [String; 2],
    /// IP versions that it carries.
    pub ip_versions: IpVersions,
    /// Longest IP packet.
    pub mtu: Bytes,
    /// Nominal delay of each direction, for routes.
    pub delay: [Span; 2],
    /// Passage of packets in each direction.
    pub passage: [Passage; 2],
}

/// Nodes, links and tunnels, all of whose names exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Nodes in the order of the file.
    pub node: Named<NodeAt>,
    /// Links in the order of the file.
    pub link: Named<LinkAt>,
    /// Ends of the tunnels in the order of the file.
    pub tunnel: Named<[String; 2]>,
}

impl Topology {
    /// Returns the number of a node. For a copy such as "home.3" it may be that of "home".
    pub fn find(&self, node: &str) -> Option<usize> {
        let original = || self.node.get_index_of(node.rsplit_once('.')?.0);
        self.node.get_index_of(node).or_else(original)
    }

    /// Returns the number of a node, as [`Topology::find`] does.
    ///
    /// # Panics
    /// If no node has this name.
    pub fn number(&self, node: &str) -> usize {
        self.find(node).expect("names are validated")
    }

    /// Returns the name of a node.
    pub fn name(&self, node: usize) -> &str {
        self.node.get_index(node).map_or("", |(name, _)| name)
    }

    /// Returns the numbers of a tunnel's ends, the starting one of this direction first.
    pub fn tunnel_ends(&self, tunnel: usize, way: Way) -> [usize; 2] {
        let [a, b] = self.tunnel[tunnel].each_ref().map(|name| self.number(name));
        if way == Way::Forward { [a, b] } else { [b, a] }
    }

    /// Returns the numbers of a link's ends, the sending one of this direction first.
    pub fn link_ends(&self, link: usize, way: Way) -> [usize; 2] {
        let [a, b] = self.link[link].between.each_ref().map(|name| self.number(name));
        if way == Way::Forward { [a, b] } else { [b, a] }
    }
}
