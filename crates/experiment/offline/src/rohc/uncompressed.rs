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

/// Reason of packets of whose headers the capture has a part.
const CUT: &str = "whose headers the capture cut";

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

/// Returns `true` if the capture has a part of the transport header alone.
fn is_cut(upper: &ip::Upper<'_>) -> bool {
    let needed = match upper.protocol {
        Protocol::UDP => udp::HEADER_LEN,
        Protocol::TCP => upper.bytes.get(12).map_or(tcp::HEADER_LEN, |offset| 4 * usize::from(offset >> 4)),
        _ => 0,
    };
    upper.elided > 0 && upper.bytes.len() < needed
}

/// Returns the reason for which a packet has no profile.
pub(super) fn reason(bytes: &[u8], len: usize) -> &'static str {
    let found = match ip::Packet::new_elided(bytes, len.saturating_sub(bytes.len())) {
        Ok(found) => found,
        Err(_) if len > bytes.len() => return CUT,
        Err(_) => return "that are not IP, or have a wrong length",
    };
    if found.total_len() != len {
        return "whose header has another length";
    }
    if let ip::Packet::V4(ip) = &found {
        if ip.header_len() > ipv4::HEADER_LEN {
            return "with IPv4 options, which no profile compresses";
        }
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
        Ok(upper) if is_cut(&upper) => CUT,
        Ok(_) => NO_PROFILE,
        Err(_) if len > bytes.len() => CUT,
        Err(_) => "with a malformed extension header",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Datagram of UDP with `options` in its IPv4 header.
    fn datagram(options: &[u8], payload_len: usize) -> Vec<u8> {
        let header_len = ipv4::HEADER_LEN + options.len();
        let len = header_len + udp::HEADER_LEN + payload_len;
        let first = 0x40 | (header_len / 4) as u8;
        let mut bytes = vec![first, 0, 0, len as u8, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend(options);
        bytes.resize(len, 0);
        ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
        bytes
    }

    #[test]
    fn the_reason_is_that_of_the_packet() {
        let (plain, options) = (datagram(&[], 40), datagram(&[148, 4, 0, 0], 40));
        assert_eq!(reason(&plain, plain.len()), NO_PROFILE);
        assert_eq!(reason(&options, options.len()), "with IPv4 options, which no profile compresses");
        assert_eq!([reason(&plain[..24], plain.len()), reason(&plain[..16], plain.len())], [CUT; 2]);
        assert_eq!(reason(&plain[..28], plain.len()), NO_PROFILE);
    }
}
