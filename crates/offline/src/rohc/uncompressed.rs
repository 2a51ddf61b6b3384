//! Headers of packets that are sent uncompressed, and the reason for it.

use bentpipe_wire::ip::{self, Protocol, checksum};
use bentpipe_wire::{ipv4, rtp, tcp, udp};

use crate::capture::Packet;

/// Maximum depth of tunnels within tunnels.
const DEPTH: u8 = 4;
/// Lowest port that RTP has.
const FIRST_PORT: u16 = 1024;

/// Reason of packets without any other.
pub(super) const NO_PROFILE: &str = "for which no profile is enabled, or no context is free";

/// Returns the length of a packet's headers: IP, those within, UDP with RTP, TCP.
pub(super) fn header_len(packet: &Packet<'_>) -> usize {
    within(packet.bytes, packet.len, DEPTH).min(packet.len)
}

fn within(bytes: &[u8], len: usize, depth: u8) -> usize {
    let elided = len.saturating_sub(bytes.len());
    let Ok(packet) = ip::Packet::new_elided(bytes, elided) else { return 0 };
    let Ok(upper) = packet.upper() else { return 0 };
    let (at, rest) = (upper.offset, upper.bytes);
    if upper.is_later_fragment {
        return at;
    }
    at + match upper.protocol {
        Protocol::UDP => udp::HEADER_LEN + rtp_len(rest),
        Protocol::TCP => {
            tcp::Segment::new_elided(rest, upper.elided).map_or(0, |segment| segment.header_len())
        }
        Protocol(4 | 41) if depth > 0 => within(rest, rest.len() + upper.elided, depth - 1),
        _ => 0,
    }
}

/// Returns the length of the RTP header in a UDP datagram; 0 without one.
fn rtp_len(datagram: &[u8]) -> usize {
    let [_, _, high, low, ..] = *datagram else { return 0 };
    let port = u16::from_be_bytes([high, low]);
    let payload = datagram.get(udp::HEADER_LEN..).unwrap_or_default();
    let is_possible = port >= FIRST_PORT && port.is_multiple_of(2) && payload.len() >= rtp::HEADER_LEN;
    let is_rtcp = payload.get(1).is_some_and(|kind| (192..=223).contains(kind));
    let packet = rtp::Packet::new_elided(payload, usize::from(u16::MAX)).ok();
    packet.filter(|_| is_possible && !is_rtcp).map_or(0, |packet| packet.header_len())
}

/// Returns the reason for which a packet has no profile.
pub(super) fn reason(bytes: &[u8], len: usize) -> &'static str {
    let found = match ip::Packet::new_elided(bytes, len.saturating_sub(bytes.len())) {
        Ok(found) => found,
        Err(_) => return "that are not IP, or have a wrong length",
    };
    if found.total_len() != len {
        return "whose header has another length";
    }
    if let ip::Packet::V4(_) = found {
        let header_len = 4 * usize::from(bytes[0] & 0x0f);
        let is_right =
            bytes.get(..header_len.max(ipv4::HEADER_LEN)).is_some_and(|it| checksum::checksum(it) == 0);
        match (&bytes[10..12], is_right) {
            ([0, 0], false) => return "without an IPv4 header checksum, as offload leaves it",
            (_, false) => return "with a wrong IPv4 header checksum",
            _ => {}
        }
    }
    match found.upper() {
        Ok(upper) if upper.is_fragment => "that are fragments",
        Ok(_) => NO_PROFILE,
        Err(_) => "with a malformed extension header",
    }
}
