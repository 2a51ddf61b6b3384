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

/// Reason of datagrams of which it has UDP's header alone, or little more.
const CUT_RTP: &str = "in which the capture may have cut a header of RTP";

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

/// Returns the reason for which a part of a compressed packet's headers counts as payload.
///
/// The capture has only the start of the packet then.
pub(super) fn uncounted(bytes: &[u8], len: usize) -> Option<&'static str> {
    (len > bytes.len()).then(|| cut_within(bytes, len, DEPTH)).flatten()
}

fn cut_within(bytes: &[u8], len: usize, depth: u8) -> Option<&'static str> {
    let packet = ip::Packet::new_elided(bytes, len.saturating_sub(bytes.len())).ok();
    let Some(upper) = packet.as_ref().and_then(|packet| packet.upper().ok()) else { return Some(CUT) };
    match upper.protocol {
        _ if upper.is_later_fragment => None,
        Protocol(4 | 41) if depth > 0 => cut_within(upper.bytes, upper.bytes.len() + upper.elided, depth - 1),
        _ if is_cut(&upper) => Some(CUT),
        Protocol::UDP if may_cut_rtp(&upper) => Some(CUT_RTP),
        _ => None,
    }
}

/// Returns `true` if the capture may have cut a header of RTP.
fn may_cut_rtp(upper: &ip::Upper<'_>) -> bool {
    let [_, _, high, low, ..] = *upper.bytes else { return false };
    let port = u16::from_be_bytes([high, low]);
    let needed = udp::HEADER_LEN + rtp::HEADER_LEN;
    let is_possible = port >= FIRST_PORT && port.is_multiple_of(2);
    let is_long = upper.bytes.len() + upper.elided >= needed;
    is_possible && is_long && upper.elided > 0 && upper.bytes.len() < needed
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

    #[test]
    fn headers_behind_a_cut_are_not_counted() {
        let mut plain = datagram(&[], 40);
        let of = |bytes: &[u8], kept: usize| uncounted(&bytes[..kept], bytes.len());
        assert_eq!(
            [of(&plain, 20), of(&plain, 27), of(&plain, 28), of(&plain, 68)],
            [Some(CUT), Some(CUT), None, None]
        );
        // RTP has even ports.
        plain[22..24].copy_from_slice(&5004_u16.to_be_bytes());
        assert_eq!([of(&plain, 28), of(&plain, 39), of(&plain, 40)], [Some(CUT_RTP), Some(CUT_RTP), None]);
        let mut tunnelled = vec![0x45, 0, 0, 88, 0, 1, 0, 0, 64, 4, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ipv4::Packet::new_unchecked(&mut tunnelled[..]).fill_checksum();
        tunnelled.extend(&plain);
        assert_eq!(
            [of(&tunnelled, 30), of(&tunnelled, 44), of(&tunnelled, 60)],
            [Some(CUT), Some(CUT), None]
        );
    }
}
