//! Packets as they are before a network card completes them.

use bentpipe_wire::ip::checksum;
use bentpipe_wire::ipv4;

/// Header of IPv6 in bytes.
const V6_LEN: usize = 40;
/// Longest packet of Ethernet in bytes.
const MTU: usize = 1500;
/// Shortest content of an Ethernet frame; shorter ones are padded.
const PADDED_LEN: usize = 46;
/// Next header of packets that end with their header.
const NO_NEXT: u8 = 59;
/// Next header in which a jumbogram has its length (RFC 2675).
const HOP_BY_HOP: u8 = 0;

/// Returns `true` if an IPv4 header has a checksum of 0 that is not right.
pub(crate) fn without_checksum(bytes: &[u8]) -> bool {
    let [first, _, _, _, _, _, _, _, _, _, 0, 0, ..] = *bytes else { return false };
    let header_len = 4 * usize::from(first & 0x0f);
    let Some(header) = bytes.get(..header_len).filter(|_| first >> 4 == 4 && header_len >= ipv4::HEADER_LEN)
    else {
        return false;
    };
    checksum::checksum(header) != 0
}

/// Returns `true` if TCP is longer than any Ethernet frame without jumbo frames.
pub(crate) fn is_segment(bytes: &[u8], len: usize) -> bool {
    const TCP: u8 = 6;
    let protocol = match bytes.first().map(|first| first >> 4) {
        Some(4) => bytes.get(9),
        Some(6) => bytes.get(6),
        _ => None,
    };
    len > MTU && protocol == Some(&TCP)
}

/// Returns the packet with its length in the header, if that is 0.
///
/// `len` is its length on the link. A longer one than the header can hold stays as it is.
pub(crate) fn with_length(bytes: &[u8], len: usize) -> Option<Vec<u8>> {
    let most = usize::from(u16::MAX);
    match *bytes {
        [first, _, 0, 0, ..] if first >> 4 == 4 => {
            let header_len = 4 * usize::from(first & 0x0f);
            let is_usable = header_len >= ipv4::HEADER_LEN && bytes.len() >= header_len;
            if !is_usable || len <= header_len.max(PADDED_LEN) || len > most {
                return None;
            }
            let mut packet = bytes.to_vec();
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            ipv4::Packet::new_unchecked(&mut packet[..]).fill_checksum();
            Some(packet)
        }
        [first, _, _, _, 0, 0, next, ..] if first >> 4 == 6 => {
            let is_usable = bytes.len() >= V6_LEN && ![NO_NEXT, HOP_BY_HOP].contains(&next);
            if !is_usable || len <= PADDED_LEN || len - V6_LEN > most {
                return None;
            }
            let mut packet = bytes.to_vec();
            packet[4..6].copy_from_slice(&((len - V6_LEN) as u16).to_be_bytes());
            Some(packet)
        }
        _ => None,
    }
}

/// Returns the length in an IP header, if `on_link` bytes suffice for it.
pub(crate) fn ip_len(bytes: &[u8], on_link: usize) -> usize {
    let field = |at: usize| Some(usize::from(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])));
    let len = match bytes.first().map(|first| first >> 4) {
        Some(4) => field(2).filter(|&len| len >= 20),
        // A jumbogram has zero (RFC 2675).
        Some(6) => field(4).filter(|&len| len > 0).map(|len| len + 40),
        _ => None,
    };
    len.unwrap_or(on_link).min(on_link)
}
