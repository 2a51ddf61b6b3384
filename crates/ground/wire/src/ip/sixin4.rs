//! IPv6 in IPv4 (RFC 4213): ends of a configured tunnel, with ECN by RFC 6040.
//!
//! Path MTU discovery in the tunnel and forwarding of ICMP errors to the inner sender are not modelled.

use std::net::Ipv4Addr;

use crate::ip::{Ecn, Protocol, TrafficClass, Upper};
use crate::ip::{ipv4, ipv6};
use crate::{Error, Layer};

/// Direction of a configured tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Address of this end.
    pub src: Ipv4Addr,
    /// The other end.
    pub dst: Ipv4Addr,
    /// Time to live of the outer header.
    pub ttl: u8,
}

impl Tunnel {
    /// Creates the outer header for an inner packet. DSCP and ECN are copied (RFC 6040, normal mode, section
    /// 4.1), DF is clear as for a tunnel with a static MTU (RFC 4213, section 3.2.1), and the identification
    /// is 0 for the sender to set.
    #[inline]
    pub fn outer<T: AsRef<[u8]>>(&self, inner: &ipv6::Packet<T>) -> ipv4::Repr {
        let inner_class = inner.traffic_class();
        ipv4::Repr {
            ttl: self.ttl,
            traffic_class: inner_class,
            dont_fragment: false,
            ..ipv4::Repr::new(self.src, self.dst, Protocol::IPV6, inner.total_len())
        }
    }
}

/// Returns the inner packet, from what [`ipv4::Packet::upper`] found.
///
/// # Errors
/// `Unsupported` if it is not protocol 41 or is a fragment, which has to be reassembled first; otherwise as for any
/// IPv6 packet.
#[inline]
pub fn inner<'a>(upper: &Upper<'a>) -> Result<ipv6::Packet<&'a [u8]>, Error> {
    if upper.protocol != Protocol::IPV6 {
        return Err(Error::unsupported(Layer::Ipv4, 9, "protocol other than 41"));
    }
    if upper.is_fragment {
        return Err(Error::unsupported(Layer::Ipv4, 6, "tunnelled packet in fragments"));
    }
    ipv6::Packet::new_elided(upper.bytes, upper.elided)
}

/// Returns the inner packet's ECN field after decapsulation (RFC 6040, section 4.2, figure 4). None to drop
/// the packet, because a transport without ECN cannot learn of congestion.
pub const fn decapsulated_ecn(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::NotEct, _) => Some(Ecn::NotEct),
        (_, Ecn::Ce) | (Ecn::Ce, _) => Some(Ecn::Ce),
        (_, Ecn::Ect1) => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

/// Applies [`decapsulated_ecn`] to traffic classes; the inner DSCP stays.
pub fn decapsulated_class(inner: TrafficClass, outer: TrafficClass) -> Option<TrafficClass> {
    decapsulated_ecn(inner.ecn(), outer.ecn()).map(|ecn| inner.with_ecn(ecn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::ip::udp;

    fn inner_bytes() -> Vec<u8> {
        let mut bytes = vec![0; 48];
        let repr = ipv6::Repr {
            traffic_class: TrafficClass::new(10, Ecn::Ect0),
            ..ipv6::Repr::new([1; 16].into(), [2; 16].into(), Protocol::UDP, 508)
        };
        repr.emit(&mut bytes);
        udp::Repr { src_port: 1, dst_port: 2, payload_len: 500 }.emit(&mut bytes[40..]);
        bytes
    }

    #[test]
    fn in_and_out_of_a_tunnel() {
        let inside = inner_bytes();
        let packet = ipv6::Packet::new_elided(&inside[..], 500).unwrap();
        let tunnel = Tunnel { src: [192, 0, 2, 1].into(), dst: [192, 0, 2, 2].into(), ttl: 64 };
        let mut bytes = vec![0; 20];
        tunnel.outer(&packet).emit(&mut bytes);
        bytes.extend(&inside);
        assert_eq!(bytes[..4], [0x45, 0x2a, 0x02, 0x38]); // DSCP 10, ECT(0); 20 + 40 + 508 bytes
        let outer = ipv4::Packet::new_elided(&bytes[..], 500).unwrap();
        assert_eq!(inner(&outer.upper()), ipv6::Packet::new_elided(&inside[..], 500));
    }

    #[test]
    fn fragments_and_other_protocols_are_refused() {
        let mut bytes = [0; 20];
        let repr = ipv4::Repr::new([1; 4].into(), [2; 4].into(), Protocol::UDP, 0);
        for repr in [repr, ipv4::Repr { protocol: Protocol::IPV6, more_fragments: true, ..repr }] {
            repr.emit(&mut bytes);
            let packet = ipv4::Packet::new_checked(&bytes[..]).unwrap();
            assert!(matches!(inner(&packet.upper()).unwrap_err().kind, Kind::Unsupported(_)));
        }
    }

    #[test]
    fn the_table_of_rfc_6040() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let columns = [NotEct, Ect0, Ect1, Ce];
        for (inner, row) in [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ] {
            assert_eq!(columns.map(|outer| decapsulated_ecn(inner, outer)), row, "{inner:?}");
        }
    }
}
