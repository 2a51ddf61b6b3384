//! Places of packets in a capture, by which their receiver knows them again.

use std::hash::{DefaultHasher, Hash, Hasher};

use bentpipe_net::Packet;
use bentpipe_units::Time;
use bentpipe_wire::icmp::Message;
use bentpipe_wire::ip::{self, Protocol, Upper};
use bentpipe_wire::{tcp, udp};

use crate::checksum;

/// Packet of a capture as its receiver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time at which it is sent.
    pub(super) at: Time,
    /// Protocol of its content, and a digest of what translators leave as it is.
    pub(super) content: (Option<Protocol>, u64),
    /// Set if it has a checksum that is right. Captured packets may have none, or one that the interface would have filled in.
    pub(super) is_sound: bool,
}

impl Sent {
    /// Returns the place of a packet that is sent at `at`.
    pub(super) fn new(at: Time, packet: &Packet) -> Sent {
        Sent { at, content: content(packet), is_sound: verified(packet) == Some(true) }
    }

    /// Returns `true` if a packet that was sent so is damaged.
    pub(super) fn is_damaged(&self, packet: &Packet) -> bool {
        self.is_sound && (verified(packet) != Some(true) || content(packet).0 != self.content.0)
    }
}

/// Returns the protocol of a packet, and a digest behind its transport header.
pub(super) fn content(packet: &Packet) -> (Option<Protocol>, u64) {
    let bytes = packet.to_vec();
    let mut hasher = DefaultHasher::new();
    let Ok(ip) = ip::Packet::new_checked(&bytes[..]) else { return (None, 0) };
    let Ok(upper) = ip.upper() else { return (None, 0) };
    let behind = if upper.is_later_fragment { 0 } else { transport_len(&upper) };
    upper.bytes.get(behind..).hash(&mut hasher);
    (Some(upper.protocol), hasher.finish())
}

/// Returns the length of the header that a translator may change.
fn transport_len(upper: &Upper<'_>) -> usize {
    match upper.protocol {
        Protocol::UDP => udp::HEADER_LEN,
        Protocol::TCP => {
            tcp::Segment::new_elided(upper.bytes, upper.elided).map_or(0, |segment| segment.header_len())
        }
        // Identifier and checksum of ICMP are in its first word but one.
        _ => 8,
    }
}

/// Returns `true` if the checksum of a packet's content is right. `None` if it has none that can be checked.
pub fn verified(packet: &Packet) -> Option<bool> {
    let header = packet.header();
    let ip = ip::Packet::new_elided(header, packet.len() - header.len()).ok()?;
    let upper = ip.upper().ok().filter(|upper| !upper.is_fragment)?;
    if matches!(upper.protocol, Protocol::ICMP | Protocol::ICMPV6) {
        let pseudo = (upper.protocol == Protocol::ICMPV6).then_some(&upper.pseudo);
        let bytes = packet.to_vec();
        let message = bytes.get(upper.offset..).and_then(|bytes| Message::new_checked(bytes).ok());
        return Some(message.is_some_and(|message| message.verify_checksum(pseudo).is_ok()));
    }
    let is_summed = match upper.protocol {
        Protocol::UDP => match udp::Datagram::new_elided(upper.bytes, upper.elided) {
            Ok(datagram) => datagram.checksum() != 0,
            Err(_) => return Some(false),
        },
        Protocol::TCP => true,
        _ => false,
    };
    is_summed.then(|| checksum::sum(packet, upper.offset, upper.len(), &upper.pseudo).is_valid())
}
