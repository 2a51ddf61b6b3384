//! Filter of packets: compression, carriage unchanged, or discard.

use bentpipe_net::InvalidConfig;
use bentpipe_net::text::{Ports, Prefix, Transport};
use bentpipe_rohc::{Profile, Profiles};
use bentpipe_site::Sample;
use bentpipe_units::Bytes;
use bentpipe_wire::ip::{self, Protocol, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packets of a flow that are looked at before a run.
const SAMPLED: usize = 1000;

/// Action of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Header compression, as far as a profile can.
    #[default]
    Compress,
    /// Carriage without compression.
    Plain,
    /// Discard.
    Drop,
}

/// Name of a ROHC profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileName {
    /// RTP over UDP (RFC 3095).
    Rtp,
    /// UDP (RFC 3095).
    Udp,
    /// ESP (RFC 3095).
    Esp,
    /// IP headers only (RFC 3843).
    Ip,
    /// TCP (RFC 6846).
    Tcp,
    /// RTP over UDP-Lite (RFC 4019).
    RtpUdpLite,
    /// UDP-Lite (RFC 4019).
    UdpLite,
}

impl ProfileName {
    /// Returns the profile.
    pub const fn profile(self) -> Profile {
        match self {
            ProfileName::Rtp => Profile::Rtp,
            ProfileName::Udp => Profile::Udp,
            ProfileName::Esp => Profile::Esp,
            ProfileName::Ip => Profile::Ip,
            ProfileName::Tcp => Profile::Tcp,
            ProfileName::RtpUdpLite => Profile::RtpUdpLite,
            ProfileName::UdpLite => Profile::UdpLite,
        }
    }
}

/// Version of ROHC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RohcVersion {
    /// Every profile of version 1 (RFC 3095, 3843, 4019 and 6846).
    V1,
    /// Every profile of version 2 (RFC 5225), and TCP.
    V2,
}

/// Profiles of a channel: those of a version, or a list, of version 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ChannelProfiles {
    /// Profiles of a version.
    Version(RohcVersion),
    /// A list, of version 1.
    List(Vec<ProfileName>),
}

impl Default for ChannelProfiles {
    fn default() -> Self {
        ChannelProfiles::Version(RohcVersion::V1)
    }
}

impl ChannelProfiles {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the set of the profiles.
    pub(super) fn set(&self) -> Profiles {
        match self {
            ChannelProfiles::Version(RohcVersion::V1) => Profiles::V1,
            ChannelProfiles::Version(RohcVersion::V2) => Profiles::V2,
            ChannelProfiles::List(names) => {
                names.iter().fold(Profiles::NONE, |set, name| set.with(name.profile()))
            }
        }
    }
}

/// Returns the set of these profiles, of either version, and Uncompressed.
pub(super) fn profiles(names: &[ProfileName]) -> Profiles {
    let versions =
        |name: &ProfileName| [0, 0x100].map(|version| Profile::from_id(name.profile().id() | version));
    names.iter().flat_map(versions).flatten().fold(Profiles::NONE, Profiles::with)
}

/// Rule of a filter. A packet has to meet every condition given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Prefix of the source address, IPv4 or IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<Prefix>,
    /// Prefix of the destination address, IPv4 or IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<Prefix>,
    /// Source port, or range of ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_port: Option<Ports>,
    /// Destination port, or range of ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<Ports>,
    /// Transport protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Transport>,
    /// Minimum length of the IP packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_size: Option<Bytes>,
    /// Maximum length of the IP packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Bytes>,
    /// Differentiated services codepoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 63))]
    pub dscp: Option<u8>,
    /// Action. No default.
    pub action: Action,
    /// Profiles that may compress the packets. Default: those of the channel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ProfileName>,
    /// CID reserved for the first flow of the rule. Default: none.
    ///
    /// Further flows share the rest. CID 0 is a poor choice: with more flows than CIDs it passes from flow to flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 16383))]
    pub cid: Option<u16>,
}

impl Rule {
    /// Returns `true` if a packet of `len` bytes meets the conditions.
    ///
    /// `packet` is `None` if it is not an IP packet, which meets no condition on its headers.
    fn matches(&self, packet: Option<&ip::Packet<&[u8]>>, len: u64) -> bool {
        self.min_size.is_none_or(|min| len >= min.get())
            && self.max_size.is_none_or(|max| len <= max.get())
            && (!self.looks_inside() || packet.is_some_and(|packet| self.matches_headers(packet)))
    }

    /// Returns `true` if it asks for addresses, of which samples have examples.
    fn looks_at_addresses(&self) -> bool {
        self.src.is_some() || self.dst.is_some()
    }

    fn looks_inside(&self) -> bool {
        self.src.is_some() || self.dst.is_some() || self.dscp.is_some() || self.looks_at_transport()
    }

    fn looks_at_transport(&self) -> bool {
        self.protocol.is_some() || self.src_port.is_some() || self.dst_port.is_some()
    }

    fn matches_headers(&self, packet: &ip::Packet<&[u8]>) -> bool {
        self.src.is_none_or(|prefix| prefix.contains(packet.src()))
            && self.dst.is_none_or(|prefix| prefix.contains(packet.dst()))
            && self.dscp.is_none_or(|dscp| packet.traffic_class().dscp() == dscp)
            && (!self.looks_at_transport()
                || packet.upper().is_ok_and(|upper| self.matches_transport(&upper)))
    }

    fn matches_transport(&self, upper: &Upper<'_>) -> bool {
        let is_within = |wanted: Option<Ports>, at| {
            wanted.is_none_or(|ports| port(upper, at).is_some_and(|port| ports.contains(port)))
        };
        self.protocol.is_none_or(|transport| transport.0 == upper.protocol)
            && is_within(self.src_port, 0)
            && is_within(self.dst_port, 2)
    }
}

/// Returns the port at this offset of the transport header, if the protocol has ports.
///
/// Later fragments have none.
fn port(upper: &Upper<'_>, at: usize) -> Option<u16> {
    let has_ports =
        matches!(upper.protocol, Protocol::UDP | Protocol::TCP | Protocol::UDP_LITE | Protocol::DCCP);
    let bytes = upper.bytes.get(at..at + 2).filter(|_| has_ports && !upper.is_later_fragment)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Decision of a filter on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterDecision {
    /// Action.
    pub action: Action,
    /// Profiles that the rule allows.
    pub profiles: Profiles,
    /// CID that the rule reserves for the first flow.
    pub cid: Option<u16>,
}

/// Rules in order. The first that matches applies; other packets are compressed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Filter {
    /// Rules.
    pub rules: Vec<Rule>,
}

impl Filter {
    /// Checks the values of all rules.
    pub(super) fn check(&self) -> Result<(), InvalidConfig> {
        self.rules.iter().enumerate().try_for_each(|(n, rule)| {
            let is_codepoint = rule.dscp.is_none_or(|dscp| dscp < 64);
            let checked = InvalidConfig::ensure(is_codepoint, "dscp", "a codepoint from 0 to 63");
            checked.map_err(|error| error.inside(format_args!("filter.{n}")))
        })
    }

    /// Returns the decision on an IP packet that ends with `elided` zeros.
    pub fn judge(&self, bytes: &[u8], elided: usize) -> FilterDecision {
        let all = FilterDecision { action: Action::Compress, profiles: Profiles::ALL, cid: None };
        if self.rules.is_empty() {
            return all;
        }
        let packet = ip::Packet::new_elided(bytes, elided).ok();
        let len = (bytes.len() + elided) as u64;
        let rule = self.rules.iter().find(|rule| rule.matches(packet.as_ref(), len));
        rule.map_or(all, |rule| FilterDecision {
            action: rule.action,
            profiles: if rule.profiles.is_empty() { Profiles::ALL } else { profiles(&rule.profiles) },
            cid: rule.cid,
        })
    }

    /// Returns the part of a flow's packets that it drops.
    ///
    /// `None` stands for a part that is not known before a run. `sample` returns packets of the flow, if they are known. Their addresses are examples.
    pub(super) fn dropped(&self, sample: &dyn Fn() -> Option<Sample>) -> Option<f64> {
        let Some(last) = self.rules.iter().rposition(|rule| rule.action == Action::Drop) else {
            return Some(0.0);
        };
        if self.rules[..=last].iter().any(Rule::looks_at_addresses) {
            return None;
        }
        let mut bytes = Vec::new();
        let (mut all, mut dropped) = (0_u32, 0_u32);
        for (_, packet) in sample()?.take(SAMPLED) {
            bytes.clear();
            packet.write_to(&mut bytes);
            all += 1;
            dropped += u32::from(self.judge(&bytes, 0).action == Action::Drop);
        }
        (all > 0).then(|| f64::from(dropped) / f64::from(all))
    }
}
