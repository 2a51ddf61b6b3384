//! Tunnels that carry IPv6 in IPv4 (RFC 4213, configured tunnels).

use std::net::Ipv4Addr;

use bentpipe_wire::sixin4;
use bentpipe_wire::{ipv4, ipv6};

use crate::Packet;

/// A configured tunnel's end at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Local and remote address, and the TTL of the outer header.
    pub outer: sixin4::Tunnel,
    /// MTU for IPv6 packets in bytes; longer ones are dropped (RFC 4213, section 3.2).
    pub mtu: usize,
    /// The identification of the next outer packet.
    ident: u16,
}

impl Tunnel {
    /// A tunnel of 64 hops whose outer packets have at most `outer_mtu` bytes.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, outer_mtu: usize) -> Tunnel {
        // The outer header's length field has 16 bits.
        let mtu = outer_mtu.min(u16::MAX.into()).saturating_sub(ipv4::HEADER_LEN);
        Tunnel { outer: sixin4::Tunnel { src, dst, ttl: 64 }, mtu, ident: 0 }
    }

    /// Prepends the outer header to an IPv6 packet of at most [`Tunnel::mtu`] bytes. Returns `None` and changes nothing
    /// for any other packet.
    pub(super) fn encapsulate(&mut self, packet: &mut Packet) -> Option<()> {
        let header = packet.header();
        let inner = ipv6::Packet::new_elided(header, packet.len() - header.len()).ok()?;
        let outer = ipv4::Repr { ident: self.ident, ..self.outer.outer(&inner) };
        self.ident = self.ident.wrapping_add(1);
        outer.emit(packet.prepend(ipv4::HEADER_LEN));
        Some(())
    }
}

/// Removes the outer header of `outer_len` bytes and copies its congestion mark inside (RFC 6040). Returns `None` if
/// the packet has to be dropped.
pub(super) fn decapsulate(packet: &mut Packet, outer_len: usize) -> Option<()> {
    let outer = ipv4::Packet::new_unchecked(packet.header()).traffic_class().ecn();
    packet.trim_front(outer_len);
    let elided = packet.len() - packet.header().len();
    let mut inner = ipv6::Packet::new_elided(packet.header_mut(), elided).ok()?;
    let ecn = inner.traffic_class().ecn();
    let marked = sixin4::decapsulated_ecn(ecn, outer)?;
    if marked != ecn {
        inner.mark_ecn(marked);
    }
    Some(())
}
