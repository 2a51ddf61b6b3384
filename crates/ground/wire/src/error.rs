//! Decoding error: layer, offset and kind.

use std::fmt;

/// Error returned when bytes cannot be decoded.
///
/// This is about what a peer, a capture or a channel delivered. Misusing the API (a buffer too short to emit into, a
/// field that cannot hold a value) is a panic documented where it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    /// The format that refused.
    pub layer: Layer,
    /// Offset of the offending field in bytes from the start of that layer.
    pub offset: usize,
    /// Kind of error.
    pub kind: Kind,
}

/// The kind of a decoding [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The bytes end too early.
    Truncated {
        /// Number of bytes that the layer needs, from its start.
        needed: usize,
        /// Number of bytes present.
        have: usize,
    },
    /// A value its specification forbids.
    Malformed(&'static str),
    /// Unsupported feature of otherwise valid input.
    Unsupported(&'static str),
    /// A checksum or CRC that does not match.
    Checksum,
}

impl Error {
    #[inline]
    pub(crate) const fn truncated(layer: Layer, offset: usize, needed: usize, have: usize) -> Error {
        Error { layer, offset, kind: Kind::Truncated { needed, have } }
    }

    #[inline]
    pub(crate) const fn malformed(layer: Layer, offset: usize, what: &'static str) -> Error {
        Error { layer, offset, kind: Kind::Malformed(what) }
    }

    #[inline]
    pub(crate) const fn unsupported(layer: Layer, offset: usize, what: &'static str) -> Error {
        Error { layer, offset, kind: Kind::Unsupported(what) }
    }

    #[inline]
    pub(crate) const fn checksum(layer: Layer, offset: usize) -> Error {
        Error { layer, offset, kind: Kind::Checksum }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: ", self.layer, self.offset)?;
        match self.kind {
            Kind::Truncated { needed, have } => write!(f, "truncated: {needed} bytes needed, {have} there"),
            Kind::Malformed(what) => write!(f, "malformed: {what}"),
            Kind::Unsupported(what) => write!(f, "unsupported: {what}"),
            Kind::Checksum => f.write_str("checksum mismatch"),
        }
    }
}

impl std::error::Error for Error {}

/// A format of this crate, for [`Error::layer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is the format its Display names")]
pub enum Layer {
    Aal1,
    Aal5,
    AosFrame,
    Arp,
    Atm,
    BbFrame,
    Bundle,
    Cfdp,
    Dccp,
    Dtcp,
    Encapsulation,
    Erf,
    Esp,
    Ethernet,
    Gre,
    Gse,
    Icmp,
    Ikev2,
    Membership,
    Ipv4,
    Ipv6,
    Ipv6Ext,
    Link,
    Llc,
    Ltp,
    Mpe,
    Ncp,
    Oam,
    Ogg,
    Pcap,
    Pcapng,
    Pdcp,
    Pes,
    ProximityFrame,
    Psi,
    Rm,
    QuickStart,
    Rle,
    Rtcp,
    Rtp,
    Section,
    Tcp,
    Tcpcl,
    TmFrame,
    Ts,
    Udp,
    UdpLite,
    Ule,
    Wav,
    Wman,
    Wpan,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Aal1 => "AAL1",
            Layer::Aal5 => "AAL5",
            Layer::AosFrame => "AOS frame",
            Layer::Arp => "ARP",
            Layer::Atm => "ATM cell",
            Layer::BbFrame => "BBFrame",
            Layer::Bundle => "bundle",
            Layer::Cfdp => "CFDP",
            Layer::Dccp => "DCCP",
            Layer::Dtcp => "DTCP",
            Layer::Encapsulation => "encapsulation packet",
            Layer::Ethernet => "Ethernet",
            Layer::Erf => "ERF",
            Layer::Esp => "ROHC in ESP",
            Layer::Gre => "GRE",
            Layer::Gse => "GSE",
            Layer::Icmp => "ICMP",
            Layer::Ikev2 => "IKEv2 notification",
            Layer::Membership => "IGMP or MLD",
            Layer::Ipv4 => "IPv4",
            Layer::Ipv6 => "IPv6",
            Layer::Ipv6Ext => "IPv6 extension header",
            Layer::Link => "link header",
            Layer::Llc => "LLC/SNAP",
            Layer::Ltp => "LTP",
            Layer::Mpe => "MPE",
            Layer::Ncp => "IPCP or IPV6CP",
            Layer::Oam => "OAM cell",
            Layer::Ogg => "Ogg page",
            Layer::Pcap => "pcap",
            Layer::Pcapng => "pcapng",
            Layer::Pdcp => "PDCP",
            Layer::Pes => "PES",
            Layer::ProximityFrame => "Proximity-1 frame",
            Layer::Psi => "PSI",
            Layer::Rm => "RM cell",
            Layer::QuickStart => "Quick-Start option",
            Layer::Rle => "RLE",
            Layer::Rtcp => "RTCP",
            Layer::Rtp => "RTP",
            Layer::Section => "section",
            Layer::Tcp => "TCP",
            Layer::Tcpcl => "TCPCL",
            Layer::TmFrame => "TM frame",
            Layer::Ts => "TS",
            Layer::Udp => "UDP",
            Layer::UdpLite => "UDP-Lite",
            Layer::Ule => "ULE",
            Layer::Wav => "WAV",
            Layer::Wman => "802.16",
            Layer::Wpan => "802.15.4",
        })
    }
}
