//! Which packets are compressed, which go as they are, and which not at all.

use bentpipe_rohc::{Profile, Profiles};
use bentpipe_units::Bytes;
use bentpipe_wire::ip::{self, Protocol, Upper};

use super::text::{Ports, Prefix, Transport};

/// What is done with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// Its headers are compressed, as far as a profile can.
    #[default]
    Compress,
    /// It is carried as it is.
    Plain,
    /// It is not carried.
    Drop,
}

/// A ROHC profile by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
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
    /// The profile.
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

/// The set of these profiles, and Uncompressed.
pub(super) fn profiles(names: &[ProfileName]) -> Profiles {
    names.iter().fold(Profiles::NONE, |set, name| set.with(name.profile()))
}

/// Which packets a rule is for, and what it says. A packet has to meet every condition that is given.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Rule {
    /// The source address begins so, IPv4 or IPv6.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub src: Option<Prefix>,
    /// The destination address begins so, IPv4 or IPv6.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub dst: Option<Prefix>,
    /// The source port is one of these.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub src_port: Option<Ports>,
    /// The destination port is one of these.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub dst_port: Option<Ports>,
    /// The transport protocol is this.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub protocol: Option<Transport>,
    /// The IP packet is at least so long.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub min_size: Option<Bytes>,
    /// The IP packet is at most so long.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub max_size: Option<Bytes>,
    /// The differentiated services codepoint is this.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none"),
        schemars(range(max = 63))
    )]
    pub dscp: Option<u8>,
    /// What is done with such packets. No default.
    pub action: Action,
    /// Those of the channel's profiles that may compress them; empty: all.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub profiles: Vec<ProfileName>,
    /// The CID that the first flow of such packets has to itself from then on, however many other flows there are; further flows share
    /// the rest. Better not 0: where there are more flows than CIDs, that is the one that goes from flow to flow. Default: none is kept.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none"),
        schemars(range(max = 16383))
    )]
    pub cid: Option<u16>,
}

impl Rule {
    /// Whether a packet of `len` bytes meets the conditions; `packet` is `None` if it is no IP, which meets none that
    /// looks into it.
    fn matches(&self, packet: Option<&ip::Packet<&[u8]>>, len: u64) -> bool {
        self.min_size.is_none_or(|min| len >= min.get())
            && self.max_size.is_none_or(|max| len <= max.get())
            && (!self.looks_inside() || packet.is_some_and(|packet| self.matches_headers(packet)))
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

/// The port at this offset of the transport header, if the protocol has ports and this is not a later fragment.
fn port(upper: &Upper<'_>, at: usize) -> Option<u16> {
    let has_ports =
        matches!(upper.protocol, Protocol::UDP | Protocol::TCP | Protocol::UDP_LITE | Protocol::DCCP);
    let bytes = upper.bytes.get(at..at + 2).filter(|_| has_ports && !upper.is_later_fragment)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// What is done with a packet, and by which profiles it may be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is done.
    pub action: Action,
    /// The profiles that the rule allows.
    pub profiles: Profiles,
    /// The CID that the rule keeps for the first flow.
    pub cid: Option<u16>,
}

/// Rules in order. The first that matches a packet says what is done with it; what none matches is compressed.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(transparent)
)]
pub struct Filter {
    /// The rules.
    pub rules: Vec<Rule>,
}

impl Filter {
    /// What is done with an IP packet that ends with `elided` zeros which `bytes` leaves out.
    pub fn judge(&self, bytes: &[u8], elided: usize) -> Verdict {
        let all = Verdict { action: Action::Compress, profiles: Profiles::ALL, cid: None };
        if self.rules.is_empty() {
            return all;
        }
        let packet = ip::Packet::new_elided(bytes, elided).ok();
        let len = (bytes.len() + elided) as u64;
        let rule = self.rules.iter().find(|rule| rule.matches(packet.as_ref(), len));
        rule.map_or(all, |rule| Verdict {
            action: rule.action,
            profiles: if rule.profiles.is_empty() { Profiles::ALL } else { profiles(&rule.profiles) },
            cid: rule.cid,
        })
    }
}
