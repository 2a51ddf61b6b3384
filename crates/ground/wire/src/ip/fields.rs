//! Fields that mean the same in both versions.

use std::fmt;

/// An IP protocol number, which is IPv6's "next header" too (IANA, assigned Internet protocol numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

#[allow(missing_docs, reason = "the names are the registry's")]
impl Protocol {
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    pub const ICMP: Protocol = Protocol(1);
    pub const IGMP: Protocol = Protocol(2);
    pub const IPV4: Protocol = Protocol(4);
    pub const TCP: Protocol = Protocol(6);
    pub const UDP: Protocol = Protocol(17);
    pub const DCCP: Protocol = Protocol(33);
    pub const IPV6: Protocol = Protocol(41);
    pub const ROUTING: Protocol = Protocol(43);
    pub const FRAGMENT: Protocol = Protocol(44);
    pub const GRE: Protocol = Protocol(47);
    pub const ESP: Protocol = Protocol(50);
    pub const AH: Protocol = Protocol(51);
    pub const ICMPV6: Protocol = Protocol(58);
    pub const NO_NEXT_HEADER: Protocol = Protocol(59);
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
    pub const UDP_LITE: Protocol = Protocol(136);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Protocol::HOP_BY_HOP => "hop-by-hop options",
            Protocol::ICMP => "ICMP",
            Protocol::IGMP => "IGMP",
            Protocol::IPV4 => "IPv4",
            Protocol::TCP => "TCP",
            Protocol::UDP => "UDP",
            Protocol::DCCP => "DCCP",
            Protocol::IPV6 => "IPv6",
            Protocol::ROUTING => "routing",
            Protocol::FRAGMENT => "fragment",
            Protocol::GRE => "GRE",
            Protocol::ESP => "ESP",
            Protocol::AH => "AH",
            Protocol::ICMPV6 => "ICMPv6",
            Protocol::NO_NEXT_HEADER => "no next header",
            Protocol::DESTINATION_OPTIONS => "destination options",
            Protocol::UDP_LITE => "UDP-Lite",
            Protocol(number) => return write!(f, "protocol {number}"),
        };
        f.write_str(name)
    }
}

/// The ECN field (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable transport, 00.
    #[default]
    NotEct,
    /// ECN-capable transport, 01.
    Ect1,
    /// ECN-capable transport, 10.
    Ect0,
    /// Congestion experienced, 11.
    Ce,
}

/// Type of service octet of IPv4, traffic class of IPv6: DSCP and ECN. RFC 2474, RFC 3168.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TrafficClass(pub u8);

impl TrafficClass {
    /// Creates a traffic class from a DSCP and an ECN codepoint.
    ///
    /// # Panics
    /// If `dscp` does not fit in 6 bits.
    pub fn new(dscp: u8, ecn: Ecn) -> TrafficClass {
        assert!(dscp < 64, "a DSCP has 6 bits, not {dscp}");
        TrafficClass(dscp << 2).with_ecn(ecn)
    }

    /// Returns the differentiated services codepoint, 0 to 63.
    #[inline]
    pub const fn dscp(self) -> u8 {
        self.0 >> 2
    }

    /// Returns the ECN codepoint.
    #[inline]
    pub const fn ecn(self) -> Ecn {
        match self.0 & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns the same ECN codepoint with another DSCP, of which the lower 6 bits count.
    #[inline]
    #[must_use]
    pub const fn with_dscp(self, dscp: u8) -> TrafficClass {
        TrafficClass(self.0 & 3 | dscp << 2)
    }

    /// Returns the same DSCP with another ECN codepoint.
    #[inline]
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> TrafficClass {
        TrafficClass(self.0 & !3 | ecn as u8)
    }
}
