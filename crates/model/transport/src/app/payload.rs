//! Payload of any IP packet.

use bentpipe_net::Packet;
use bentpipe_wire::ip::{self, Protocol, Upper};
use bentpipe_wire::{tcp, udp};

/// Returns the bytes of payload.
///
/// That is what is behind the headers of UDP and TCP, of other protocols all behind IP's.
/// Fragments after the first have no transport header. A malformed packet has no payload.
pub fn payload_len(packet: &Packet) -> usize {
    let header = packet.header();
    let ip = ip::Packet::new_elided(header, packet.len() - header.len());
    ip.as_ref().ok().and_then(|ip| ip.upper().ok()).map_or(0, |upper| behind_transport(&upper))
}

fn behind_transport(upper: &Upper<'_>) -> usize {
    let header_len = match upper.protocol {
        _ if upper.is_later_fragment => 0,
        Protocol::UDP => udp::HEADER_LEN,
        Protocol::TCP => {
            tcp::Segment::new_elided(upper.bytes, upper.elided).map_or(0, |tcp| tcp.header_len())
        }
        _ => 0,
    };
    upper.len().saturating_sub(header_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of a protocol with so many bytes behind its header.
    fn packet(protocol: u8, len: u16, offset: u16, content: &[u8]) -> Packet {
        let mut bytes = vec![0; usize::from(20 + len)];
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&(20 + len).to_be_bytes());
        bytes[6..8].copy_from_slice(&offset.to_be_bytes());
        bytes[9] = protocol;
        bytes[20..20 + content.len()].copy_from_slice(content);
        Packet::from_bytes(&bytes)
    }

    #[test]
    fn payload_is_behind_all_headers() {
        let tcp = [&[0; 12][..], &[0x80]].concat();
        assert_eq!(payload_len(&packet(17, 108, 0, &[])), 100);
        assert_eq!(payload_len(&packet(6, 132, 0, &tcp)), 100);
        assert_eq!(payload_len(&packet(1, 100, 0, &[])), 100);
        assert_eq!(payload_len(&packet(17, 100, 185, &[])), 100, "a later fragment");
        assert_eq!(payload_len(&Packet::from_bytes(&[0x45; 5])), 0);
    }
}
