//! ICMP errors about segments, for path MTU discovery (RFC 1191, RFC 8201).

use bentpipe_net::{Cx, Packet};
use bentpipe_wire::icmp::{HEADER_LEN, Message, v4, v6};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::SeqNumber;

use super::Connection;

/// Smallest path MTU that is accepted of IPv4 (Linux `min_pmtu`) and IPv6 (RFC 8200).
const LEAST: [u64; 2] = [552, 1280];

/// Report of a segment that was too long: next-hop MTU and sequence number.
struct TooBig {
    mtu: u64,
    seq: SeqNumber,
}

impl TooBig {
    /// Reads a message; `None` for other messages, and for quotes of no TCP segment.
    fn parse(packet: &Packet) -> Option<TooBig> {
        let bytes = packet.to_vec();
        let ip = ip::Packet::new_checked(&bytes[..]).ok()?;
        let upper = ip.upper().ok()?;
        let message = Message::new_checked(upper.bytes).ok()?;
        let mtu = if upper.protocol == Protocol::ICMP { mtu_v4(&message) } else { mtu_v6(&message) };
        let quoted = ip::Packet::new_elided(upper.bytes.get(HEADER_LEN..)?, usize::from(u16::MAX)).ok()?;
        let segment = quoted.upper().ok().filter(|quoted| quoted.protocol == Protocol::TCP)?;
        let seq = segment.bytes.get(4..8)?.try_into().ok()?;
        let least = LEAST[usize::from(ip.src().is_ipv6())];
        Some(TooBig { mtu: mtu?.max(least), seq: SeqNumber(u32::from_be_bytes(seq)) })
    }
}

fn mtu_v4(message: &Message<&[u8]>) -> Option<u64> {
    match v4::Repr::parse(message) {
        v4::Repr::DestinationUnreachable { code: v4::Repr::FRAGMENTATION_NEEDED, next_hop_mtu } => {
            Some(next_hop_mtu.into())
        }
        _ => None,
    }
}

fn mtu_v6(message: &Message<&[u8]>) -> Option<u64> {
    match v6::Repr::parse(message) {
        v6::Repr::PacketTooBig { mtu } => Some(mtu.into()),
        _ => None,
    }
}

/// Returns `true` for ICMP of either version.
pub(super) fn is_icmp(packet: &Packet) -> bool {
    let header = packet.header();
    let ip = ip::Packet::new_elided(header, packet.len() - header.len());
    let upper = ip.as_ref().ok().and_then(|ip| ip.upper().ok());
    upper.is_some_and(|upper| [Protocol::ICMP, Protocol::ICMPV6].contains(&upper.protocol))
}

impl Connection {
    /// Handles an ICMP error about a segment of this connection.
    ///
    /// Errors other than those of path MTU discovery change nothing.
    #[cold]
    pub(super) fn receive_icmp(&mut self, packet: &Packet, cx: &mut Cx<'_>) {
        let Some((too_big, template)) = TooBig::parse(packet).zip(self.template.as_ref()) else { return };
        let headers = template.header_len(self.sender.has_timestamps());
        // A forged message does not know what is in flight (RFC 5927, section 7).
        let board = &self.sender.board;
        let is_in_flight = |position: u64| (board.una()..board.high()).contains(&position);
        if self.own_position(too_big.seq).is_some_and(is_in_flight) {
            let smss = too_big.mtu.saturating_sub(headers).max(1) as u32;
            self.sender.on_packet_too_big(cx.now(), smss);
        }
    }
}
