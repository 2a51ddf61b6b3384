//! A packet of either version of IP.

use std::net::IpAddr;

use super::fields::{Ecn, Protocol, TrafficClass};
use super::upper::Upper;
use super::{ipv4, ipv6};
use crate::{Error, Layer};

/// A packet of either version, its header checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<T: AsRef<[u8]>> {
    /// IPv4.
    V4(ipv4::Packet<T>),
    /// IPv6.
    V6(ipv6::Packet<T>),
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Returns a packet whose bytes are all there.
    ///
    /// # Errors
    /// Returns the errors for the version the first four bits say; `Unsupported` for any other.
    pub fn new_checked(buffer: T) -> Result<Packet<T>, Error> {
        Packet::new_elided(buffer, 0)
    }

    /// Returns a packet of which the last `elided` bytes are zeros that `buffer` leaves out.
    ///
    /// # Errors
    /// Returns the errors of [`Packet::new_checked`].
    #[inline]
    pub fn new_elided(buffer: T, elided: usize) -> Result<Packet<T>, Error> {
        match buffer.as_ref().first().map(|byte| byte >> 4) {
            Some(4) => ipv4::Packet::new_elided(buffer, elided).map(Packet::V4),
            Some(6) => ipv6::Packet::new_elided(buffer, elided).map(Packet::V6),
            Some(_) => Err(Error::unsupported(Layer::Ipv4, 0, "IP version other than 4 and 6")),
            None => Err(Error::truncated(Layer::Ipv4, 0, ipv4::HEADER_LEN, 0)),
        }
    }

    /// Returns the source address.
    #[inline]
    pub fn src(&self) -> IpAddr {
        match self {
            Packet::V4(packet) => packet.src().into(),
            Packet::V6(packet) => packet.src().into(),
        }
    }

    /// Returns the destination address in the fixed header.
    #[inline]
    pub fn dst(&self) -> IpAddr {
        match self {
            Packet::V4(packet) => packet.dst().into(),
            Packet::V6(packet) => packet.dst().into(),
        }
    }

    /// Returns DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> TrafficClass {
        match self {
            Packet::V4(packet) => packet.traffic_class(),
            Packet::V6(packet) => packet.traffic_class(),
        }
    }

    /// Returns the time to live, or hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        match self {
            Packet::V4(packet) => packet.ttl(),
            Packet::V6(packet) => packet.hop_limit(),
        }
    }

    /// Returns the length in bytes by the header: header, payload and elided zeros.
    #[inline]
    pub fn total_len(&self) -> usize {
        match self {
            Packet::V4(packet) => packet.total_len(),
            Packet::V6(packet) => packet.total_len(),
        }
    }

    /// Returns the content of the packet after its header and IPv6 extension headers.
    ///
    /// # Errors
    /// Returns an error if IPv6 extension headers are truncated, malformed or too many.
    #[inline]
    pub fn upper(&self) -> Result<Upper<'_>, Error> {
        match self {
            Packet::V4(packet) => Ok(packet.upper()),
            Packet::V6(packet) => packet.upper(),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Returns `true` unless the time to live or hop limit, which it decrements, has expired. The IPv4 header
    /// checksum is updated (RFC 1624). Unchanged if it was 0 or 1: drop the packet.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> bool {
        match self {
            Packet::V4(packet) => packet.decrement_ttl(),
            Packet::V6(packet) => packet.decrement_hop_limit(),
        }
    }

    /// Writes the ECN codepoint, the IPv4 header checksum kept right.
    #[inline]
    pub fn mark_ecn(&mut self, ecn: Ecn) {
        match self {
            Packet::V4(packet) => packet.mark_ecn(ecn),
            Packet::V6(packet) => packet.mark_ecn(ecn),
        }
    }

    /// Writes DSCP and ECN codepoint and updates the IPv4 header checksum.
    #[inline]
    pub fn set_traffic_class(&mut self, class: TrafficClass) {
        match self {
            Packet::V4(packet) => packet.set_traffic_class(class),
            Packet::V6(packet) => packet.set_traffic_class(class),
        }
    }
}

/// The header of a packet of either version, to be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// IPv4.
    V4(ipv4::Repr),
    /// IPv6.
    V6(ipv6::Repr),
}

impl Repr {
    /// Creates a plain header between two addresses. It has no options, no fragmentation, the default traffic
    /// class and 64 hops.
    ///
    /// # Panics
    /// Panics if the addresses are of different versions.
    pub fn new(src: IpAddr, dst: IpAddr, protocol: Protocol, payload_len: usize) -> Repr {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Repr::V4(ipv4::Repr::new(src, dst, protocol, payload_len)),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Repr::V6(ipv6::Repr::new(src, dst, protocol, payload_len)),
            _ => panic!("addresses of different IP versions: {src}, {dst}"),
        }
    }

    /// Returns the header's length in bytes.
    #[inline]
    pub fn buffer_len(&self) -> usize {
        match self {
            Repr::V4(repr) => repr.buffer_len(),
            Repr::V6(repr) => repr.buffer_len(),
        }
    }

    /// Writes the header, checksum included.
    ///
    /// # Panics
    /// As the version's own `emit`.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        match self {
            Repr::V4(repr) => repr.emit(buffer),
            Repr::V6(repr) => repr.emit(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::ip::checksum::Pseudo;

    fn headers() -> [Repr; 2] {
        let v4 = Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, 100);
        let v6 = Repr::new([1u16; 8].into(), [2u16; 8].into(), Protocol::UDP, 100);
        [v4, v6]
    }

    #[test]
    fn both_versions_alike() {
        for repr in headers() {
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            let mut packet = Packet::new_elided(&mut bytes[..], 100).unwrap();
            packet.mark_ecn(Ecn::Ce);
            assert!(packet.decrement_hop_limit());
            assert_eq!((packet.hop_limit(), packet.traffic_class()), (63, TrafficClass(3)));
            assert_eq!(packet.total_len(), repr.buffer_len() + 100);
            let upper = packet.upper().unwrap();
            assert_eq!((upper.protocol, upper.elided, upper.is_empty()), (Protocol::UDP, 100, false));
            assert_eq!(upper.pseudo, Pseudo::new(packet.src(), packet.dst(), Protocol::UDP));
        }
    }

    #[test]
    fn other_versions_are_unsupported() {
        assert!(matches!(Packet::new_checked([0x50; 40]).unwrap_err().kind, Kind::Unsupported(_)));
        assert_eq!(Packet::new_checked([]).unwrap_err().kind, Kind::Truncated { needed: 20, have: 0 });
    }

    #[test]
    #[should_panic(expected = "different IP versions")]
    fn a_header_has_one_version() {
        Repr::new([10, 0, 0, 1].into(), [0u16; 8].into(), Protocol::UDP, 0);
    }

    #[test]
    fn the_traffic_class_is_dscp_and_ecn() {
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            let class = TrafficClass::new(46, ecn);
            assert_eq!((class.dscp(), class.ecn()), (46, ecn));
        }
        assert_eq!(TrafficClass::new(46, Ecn::Ect0).0, 0xba);
    }
}
