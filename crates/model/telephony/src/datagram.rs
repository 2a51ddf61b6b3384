//! UDP datagrams with real bytes.

use std::net::SocketAddr;

use bentpipe_net::{Packet, Why};
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Protocol, TrafficClass};
use bentpipe_wire::udp::{self, Datagram};
use bentpipe_wire::{ipv4, ipv6};

/// Hop limit of packets.
const HOP_LIMIT: u8 = 64;

/// Returns a packet from one address to another. `None` if their IP versions differ or the payload does not fit.
pub(crate) fn packet(from: SocketAddr, to: SocketAddr, dscp: u8, payload: &[u8]) -> Option<Packet> {
    let repr = udp::Repr { src_port: from.port(), dst_port: to.port(), payload_len: payload.len() };
    let len = udp::HEADER_LEN + payload.len();
    u16::try_from(len + ipv4::HEADER_LEN).ok()?;
    let mut bytes = headers(from, to, TrafficClass(dscp << 2), len)?;
    let start = bytes.len();
    bytes.resize(start + udp::HEADER_LEN, 0);
    bytes.extend(payload);
    repr.emit(&mut bytes[start..]);
    let mut datagram = Datagram::new_checked(&mut bytes[start..]).ok()?;
    datagram.fill_checksum(&Pseudo::new(from.ip(), to.ip(), Protocol::UDP));
    Some(Packet::from_bytes(&bytes))
}

fn headers(from: SocketAddr, to: SocketAddr, traffic_class: TrafficClass, len: usize) -> Option<Vec<u8>> {
    match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            let repr = ipv4::Repr::new(*from.ip(), *to.ip(), Protocol::UDP, len);
            let repr = ipv4::Repr { ttl: HOP_LIMIT, traffic_class, ..repr };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            Some(bytes)
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            let repr = ipv6::Repr::new(*from.ip(), *to.ip(), Protocol::UDP, len);
            let repr = ipv6::Repr { hop_limit: HOP_LIMIT, traffic_class, ..repr };
            let mut bytes = vec![0; ipv6::HEADER_LEN];
            repr.emit(&mut bytes);
            Some(bytes)
        }
        _ => None,
    }
}

/// Reason for which a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    BadChecksum,
    Unexpected,
}

impl Refusal {
    /// Returns the reason in accounts of packets.
    pub(crate) fn why(self) -> Why {
        match self {
            Refusal::BadChecksum => Why::Checksum,
            Refusal::Unexpected => Why::NoListener,
        }
    }

    /// Returns the counter of the reason.
    pub(crate) fn of<'a>(self, bad_checksum: &'a mut u64, unexpected: &'a mut u64) -> &'a mut u64 {
        match self {
            Refusal::BadChecksum => bad_checksum,
            Refusal::Unexpected => unexpected,
        }
    }
}

/// Returns the sender of a datagram, the port that it is for, and its payload.
pub(crate) fn read(packet: &Packet) -> Result<(SocketAddr, u16, Vec<u8>), Refusal> {
    let bytes = packet.to_vec();
    let ip = ip::Packet::new_checked(&bytes[..]).map_err(|_| Refusal::Unexpected)?;
    let upper = ip.upper().map_err(|_| Refusal::Unexpected)?;
    if upper.protocol != Protocol::UDP || upper.is_fragment {
        return Err(Refusal::Unexpected);
    }
    let datagram = Datagram::new_checked(upper.bytes).map_err(|_| Refusal::Unexpected)?;
    datagram.verify_checksum(&upper.pseudo).map_err(|_| Refusal::BadChecksum)?;
    let from = SocketAddr::new(ip.src(), datagram.src_port());
    Ok((from, datagram.dst_port(), datagram.payload().to_vec()))
}
