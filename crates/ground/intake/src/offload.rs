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
/// Type of the option with that length.
const JUMBO: u8 = 0xc2;
/// Longest packet of IPv4, and longest content of one of IPv6.
const MOST: usize = u16::MAX as usize;

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

/// Returns `true` if an IPv6 packet has its length in a hop-by-hop option.
///
/// A packet that the capture cut in front of its options counts as one.
fn is_jumbogram(bytes: &[u8]) -> bool {
    let [_, _, _, _, 0, 0, HOP_BY_HOP, ..] = *bytes else { return false };
    let Some(&[_, len]) = bytes.get(V6_LEN..).and_then(<[u8]>::first_chunk) else { return true };
    let end = V6_LEN + 8 * (1 + usize::from(len));
    let mut options = bytes.get(V6_LEN + 2..end.min(bytes.len())).unwrap_or_default();
    loop {
        match *options {
            // Pad1 has no length.
            [0, ref rest @ ..] => options = rest,
            [JUMBO, ..] => return true,
            [_, len, ref rest @ ..] => options = rest.get(usize::from(len)..).unwrap_or_default(),
            _ => return bytes.len() < end,
        }
    }
}

/// Returns `true` if the length of a packet is not one of its header.
///
/// It is too long, or has its length in an option.
///
/// `len` is its length on the link.
pub(crate) fn is_over(bytes: &[u8], len: usize) -> bool {
    match *bytes {
        [first, _, 0, 0, ..] if first >> 4 == 4 => len > MOST,
        [first, _, _, _, 0, 0, next, ..] if first >> 4 == 6 => {
            next != NO_NEXT && (len > V6_LEN + MOST || len > V6_LEN && is_jumbogram(bytes))
        }
        _ => false,
    }
}

/// Returns the packet with its length in the header, if that is 0.
///
/// `len` is its length on the link. A longer one than the header can hold stays as it is.
pub(crate) fn with_length(bytes: &[u8], len: usize) -> Option<Vec<u8>> {
    match *bytes {
        [first, _, 0, 0, ..] if first >> 4 == 4 => {
            let header_len = 4 * usize::from(first & 0x0f);
            let is_usable = header_len >= ipv4::HEADER_LEN && bytes.len() >= header_len;
            if !is_usable || len <= header_len.max(PADDED_LEN) || len > MOST {
                return None;
            }
            let mut packet = bytes.to_vec();
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            ipv4::Packet::new_unchecked(&mut packet[..]).fill_checksum();
            Some(packet)
        }
        [first, _, _, _, 0, 0, next, ..] if first >> 4 == 6 => {
            let is_usable = bytes.len() >= V6_LEN && next != NO_NEXT && !is_jumbogram(bytes);
            if !is_usable || len <= PADDED_LEN || len - V6_LEN > MOST {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Packet of IPv6 with payload length 0, and options in front of `payload_len` bytes.
    fn v6(options: &[u8], payload_len: usize) -> Vec<u8> {
        let mut bytes = vec![0; V6_LEN];
        (bytes[0], bytes[6]) = (0x60, if options.is_empty() { 6 } else { HOP_BY_HOP });
        bytes.extend(options);
        bytes.resize(bytes.len() + payload_len, 1);
        bytes
    }

    #[test]
    fn lengths_in_options_are_not_those_of_offload() {
        let jumbo = [6, 0, JUMBO, 4, 0, 1, 0x86, 0xa0];
        let padded = [6, 0, 0, 0, JUMBO, 2, 1, 1];
        let alert = [6, 0, 5, 2, 0, 0, 1, 0];
        for (options, payload_len, is_long) in [
            (&jumbo[..], 1000, true),
            (&padded, 1000, true),
            (&alert, 1000, false),
            (&[], 1000, false),
            (&[], 65_535, false),
            (&[], 65_536, true),
            (&alert, 65_528, true),
        ] {
            let packet = v6(options, payload_len);
            let repaired = with_length(&packet, packet.len());
            assert_eq!(
                (is_over(&packet, packet.len()), repaired.is_none()),
                (is_long, is_long),
                "{options:?}"
            );
        }
        let cut = &v6(&jumbo, 1000)[..41];
        assert!(is_over(cut, 100_000) && is_jumbogram(cut));
        // A header alone, with what pads its frame.
        let mut last = v6(&[], 6);
        last[6] = NO_NEXT;
        assert!(!is_over(&last, last.len()) && with_length(&last, last.len()).is_none());
    }
}
