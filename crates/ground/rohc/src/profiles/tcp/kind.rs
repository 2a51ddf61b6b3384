//! The kinds of header before TCP.

pub(in crate::profiles) const PROTO_HOP_BY_HOP: u8 = 0;
const PROTO_IPV4: u8 = 4;
pub(in crate::profiles) const PROTO_TCP: u8 = 6;
const PROTO_IPV6: u8 = 41;
pub(in crate::profiles) const PROTO_ROUTING: u8 = 43;
pub(in crate::profiles) const PROTO_GRE: u8 = 47;
pub(in crate::profiles) const PROTO_AH: u8 = 51;
pub(in crate::profiles) const PROTO_MINIMAL: u8 = 55;
pub(in crate::profiles) const PROTO_DESTINATION: u8 = 60;

/// Header or protocol after a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::profiles) enum Next {
    /// An IP protocol number.
    Protocol(u8),
    /// An IP header of either version, given by its first four bits.
    Ip,
}

/// The kinds of header for which RFC 6846 has items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::profiles) enum Kind {
    Ipv4,
    Ipv6,
    HopByHop,
    Destination,
    Routing,
    Ah,
    Gre,
    MinimalEncapsulation,
}

impl Kind {
    pub(in crate::profiles) const fn is_ip(self) -> bool {
        matches!(self, Kind::Ipv4 | Kind::Ipv6)
    }

    /// Returns the kind of a header that is not IP. `None` for those the profile does not take.
    pub(in crate::profiles) fn of_protocol(protocol: u8) -> Option<Kind> {
        match protocol {
            PROTO_IPV4 => Some(Kind::Ipv4),
            PROTO_IPV6 => Some(Kind::Ipv6),
            PROTO_HOP_BY_HOP => Some(Kind::HopByHop),
            PROTO_DESTINATION => Some(Kind::Destination),
            PROTO_ROUTING => Some(Kind::Routing),
            PROTO_AH => Some(Kind::Ah),
            PROTO_GRE => Some(Kind::Gre),
            PROTO_MINIMAL => Some(Kind::MinimalEncapsulation),
            _ => None,
        }
    }
}
