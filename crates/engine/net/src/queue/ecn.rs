//! Explicit congestion notification by queues (RFC 3168, 5).

use bentpipe_wire::ip::{self, Ecn};

use crate::Packet;

/// Returns `true` if the packet, of an ECN-capable transport, is marked.
pub(super) fn mark(packet: &mut Packet) -> bool {
    let elided = packet.len() - packet.header().len();
    let Ok(mut ip) = ip::Packet::new_elided(packet.header_mut(), elided) else { return false };
    let is_capable = ip.traffic_class().ecn() != Ecn::NotEct;
    if is_capable {
        ip.mark_ecn(Ecn::Ce);
    }
    is_capable
}
