//! Datagrams of calls: RTP on even ports, RTCP on the next higher ones.
//!
//! *References*: RFC 3550, section 11.

use std::net::SocketAddr;

use bentpipe_net::{Body, Packet};
use bentpipe_units::Time;
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Protocol, TrafficClass};
use bentpipe_wire::{ipv4, ipv6, rtp, udp};

/// Addresses of both ends of the first call, with the ports of RTP. Those of the next call are higher by two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Own end.
    pub local: SocketAddr,
    /// Other end, of the same IP version.
    pub remote: SocketAddr,
}

/// Datagrams between two ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    ends: Ends,
    class: TrafficClass,
    pseudo: Pseudo,
}

/// Datagram that arrived: its call, and its payload.
#[derive(Debug)]
pub(super) struct Datagram<'a> {
    pub(super) call: usize,
    pub(super) is_rtcp: bool,
    /// Bytes of the payload that are there.
    pub(super) payload: &'a [u8],
    /// Number of elided zeros after them.
    pub(super) elided: usize,
}

/// Reason for which a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    BadChecksum,
    Unexpected,
}

impl Route {
    pub(super) fn new(ends: Ends, dscp: u8) -> Route {
        let pseudo = Pseudo::new(ends.local.ip(), ends.remote.ip(), Protocol::UDP);
        Route { ends, class: TrafficClass(dscp << 2), pseudo }
    }

    /// Returns the length of an IP header.
    pub(super) fn ip_header_len(&self) -> usize {
        if self.ends.local.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    fn ip(&self, payload_len: usize) -> ip::Repr {
        let (src, dst) = (self.ends.local.ip(), self.ends.remote.ip());
        match ip::Repr::new(src, dst, Protocol::UDP, payload_len) {
            ip::Repr::V4(repr) => ip::Repr::V4(ipv4::Repr { traffic_class: self.class, ..repr }),
            ip::Repr::V6(repr) => ip::Repr::V6(ipv6::Repr { traffic_class: self.class, ..repr }),
        }
    }

    /// Returns the ports of a call, own and other.
    fn ports(&self, call: usize, is_rtcp: bool) -> (u16, u16) {
        let above = (2 * call) as u16 + u16::from(is_rtcp);
        (self.ends.local.port().wrapping_add(above), self.ends.remote.port().wrapping_add(above))
    }

    /// Returns an RTP packet whose payload is zeros.
    pub(super) fn rtp(&self, call: usize, header: &rtp::Repr<'_>, payload_len: u32, now: Time) -> Packet {
        let headers_len = self.ip_header_len() + udp::HEADER_LEN + rtp::HEADER_LEN;
        let mut packet = Packet::new(headers_len, payload_len);
        packet.set_created_at(now);
        let bytes = packet.header_mut();
        header.emit(&mut bytes[self.ip_header_len() + udp::HEADER_LEN..]);
        self.emit(bytes, (call, false), payload_len as usize);
        packet
    }

    /// Returns an RTP packet with its payload.
    pub(super) fn rtp_with(&self, call: usize, header: &rtp::Repr<'_>, payload: &[u8], now: Time) -> Packet {
        let at = self.ip_header_len() + udp::HEADER_LEN;
        let mut bytes = vec![0; at + header.buffer_len()];
        header.emit(&mut bytes[at..]);
        bytes.extend_from_slice(payload);
        self.emit(&mut bytes, (call, false), 0);
        let mut packet = Packet::from_bytes(&bytes);
        packet.set_created_at(now);
        packet
    }

    /// Returns a compound RTCP packet.
    pub(super) fn rtcp(&self, call: usize, payload: &[u8], now: Time) -> Packet {
        let at = self.ip_header_len() + udp::HEADER_LEN;
        let mut bytes = vec![0; at + payload.len()];
        bytes[at..].copy_from_slice(payload);
        self.emit(&mut bytes, (call, true), 0);
        let mut packet = Packet::from_bytes(&bytes);
        packet.set_created_at(now);
        packet
    }

    /// Writes IP and UDP header in front of a payload that is there.
    fn emit(&self, bytes: &mut [u8], (call, is_rtcp): (usize, bool), elided: usize) {
        let (header, datagram) = bytes.split_at_mut(self.ip_header_len());
        let (src_port, dst_port) = self.ports(call, is_rtcp);
        let payload_len = datagram.len() - udp::HEADER_LEN + elided;
        self.ip(udp::HEADER_LEN + payload_len).emit(header);
        udp::Repr { src_port, dst_port, payload_len }.emit(datagram);
        let checksum = self.pseudo.datagram(datagram, elided).checksum();
        // Zero means no checksum; its other form is sent (RFC 768).
        let checksum = if checksum == 0 { 0xffff } else { checksum };
        datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Calls `then` with the datagram in a packet of one of `calls` calls.
    pub(super) fn read<T>(
        &self,
        packet: &Packet,
        calls: usize,
        then: impl FnOnce(Datagram<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        match packet.body() {
            Body::Zeros(elided) => self.read_bytes(packet.header(), *elided as usize, calls, then),
            Body::Bytes(_) | Body::Carried(_) => self.read_bytes(&packet.to_vec(), 0, calls, then),
        }
    }

    fn read_bytes<T>(
        &self,
        bytes: &[u8],
        elided: usize,
        calls: usize,
        then: impl FnOnce(Datagram<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let unexpected = |_| Refusal::Unexpected;
        let ip = ip::Packet::new_elided(bytes, elided).map_err(unexpected)?;
        let upper = ip.upper().map_err(unexpected)?;
        if upper.protocol != Protocol::UDP || upper.is_fragment || ip.src() != self.ends.remote.ip() {
            return Err(Refusal::Unexpected);
        }
        let datagram = udp::Datagram::new_elided(upper.bytes, upper.elided).map_err(unexpected)?;
        datagram.verify_checksum(&upper.pseudo).map_err(|_| Refusal::BadChecksum)?;
        let (call, is_rtcp) = self.call_of(&datagram, calls).ok_or(Refusal::Unexpected)?;
        let payload = datagram.payload();
        then(Datagram { call, is_rtcp, payload, elided: datagram.payload_len() - payload.len() })
    }

    /// Returns the call of a datagram's ports, and `true` for RTCP.
    fn call_of<T: AsRef<[u8]>>(&self, datagram: &udp::Datagram<T>, calls: usize) -> Option<(usize, bool)> {
        let above = datagram.dst_port().checked_sub(self.ends.local.port())?;
        let (call, is_rtcp) = (usize::from(above / 2), above % 2 == 1);
        let is_from_peer = datagram.src_port() == self.ports(call, is_rtcp).1;
        (call < calls && is_from_peer).then_some((call, is_rtcp))
    }
}
