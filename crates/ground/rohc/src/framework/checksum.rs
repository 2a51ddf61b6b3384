//! Transport checksums, which verify more than the CRC of a compressed header.

use crate::framework::packet::{Level, protocol};
use crate::framework::profile::Profile;

/// Returns `true` unless the transport checksum of `header` is wrong. It may be absent or beyond checking. The
/// payload is `payload` and zeros up to `payload_len`.
pub(crate) fn transport_is_right(
    header: &[u8],
    payload: &[u8],
    payload_len: usize,
    levels: &[Level],
    profile: Profile,
) -> bool {
    transport_sum(header, payload, payload_len, levels, profile).is_none_or(|sum| sum == 0xffff)
}

/// Returns `true` if there is a transport checksum and it is right.
pub(crate) fn transport_vouches(
    header: &[u8],
    payload: &[u8],
    payload_len: usize,
    levels: &[Level],
    profile: Profile,
) -> bool {
    transport_sum(header, payload, payload_len, levels, profile) == Some(0xffff)
}

/// Returns the sum that is all ones where the checksum is right. `None` if there is no checksum, or it cannot be
/// checked.
fn transport_sum(
    header: &[u8],
    payload: &[u8],
    payload_len: usize,
    levels: &[Level],
    profile: Profile,
) -> Option<u16> {
    let level = levels.last()?;
    let transport = &header[level.end()..];
    let length = transport.len() + payload_len;
    match profile.headers() {
        Profile::Rtp | Profile::Udp if transport.get(6..8) != Some(&[0, 0]) => {
            sum(header, level, protocol::UDP, length, &[transport, payload])
        }
        Profile::Tcp => sum(header, level, protocol::TCP, length, &[transport, payload]),
        Profile::RtpUdpLite | Profile::UdpLite => {
            let coverage = transport
                .get(4..6)
                .map_or(0, |octets| usize::from(u16::from_be_bytes([octets[0], octets[1]])));
            let coverage = if coverage == 0 { length } else { coverage.min(length) };
            let (transport, payload) = covered(transport, payload, coverage);
            sum(header, level, protocol::UDP_LITE, length, &[transport, payload])
        }
        _ => None,
    }
}

fn covered<'a>(transport: &'a [u8], payload: &'a [u8], coverage: usize) -> (&'a [u8], &'a [u8]) {
    let head = coverage.min(transport.len());
    (&transport[..head], &payload[..(coverage - head).min(payload.len())])
}

/// Returns the ones' complement sum over pseudo header and `parts`. `None` if the addresses of the pseudo header are
/// not those of the IP header (routing header, minimal encapsulation).
fn sum(header: &[u8], level: &Level, protocol: u8, length: usize, parts: &[&[u8]]) -> Option<u16> {
    let mut kind = level.first;
    let mut at = level.extensions_at;
    while at < level.end() {
        if matches!(kind, protocol::ROUTING | protocol::MINIMAL) {
            return None;
        }
        let (len, next) = crate::framework::packet::extension(kind, &header[at..level.end()]).ok()??;
        (at, kind) = (at + len, next);
    }
    let addresses =
        if level.version == 6 { level.at + 8..level.at + 40 } else { level.at + 12..level.at + 20 };
    let mut total = words(&header[addresses]) + length as u64 + u64::from(protocol);
    let mut odd = false;
    for part in parts {
        let part_sum = words(part);
        // A part that starts at an odd octet contributes its octets swapped.
        total += if odd { u64::from(fold(part_sum).swap_bytes()) } else { part_sum };
        odd ^= part.len() % 2 == 1;
    }
    Some(fold(total))
}

fn words(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(2);
    let sum: u64 = chunks.by_ref().map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    sum + chunks.remainder().first().map_or(0, |&last| u64::from(last) << 8)
}

const fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
