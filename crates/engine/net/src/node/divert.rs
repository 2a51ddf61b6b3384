//! Diversion of packets in transit to endpoints of the node.

use bentpipe_wire::ip::Protocol;

use super::{Origin, Prefix, Via, demux, view};
use crate::text::Ports;
use crate::{Packet, Port};

/// Condition on packets in transit that a node hands to an endpoint. A packet must meet every part that is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Divert {
    /// Protocol of the content, behind extension headers.
    pub protocol: Option<Protocol>,
    /// Source or destination port. Later fragments have neither.
    pub ports: Option<Ports>,
    /// Destination.
    pub to: Option<Prefix>,
    /// Interface that the packet came from.
    pub from: Option<Port>,
    /// Interface that the packet would leave by.
    pub into: Option<Port>,
    /// Differentiated services codepoint.
    pub dscp: Option<u8>,
}

impl Divert {
    /// Returns `true` if a packet meets the condition.
    fn matches(&self, packet: &Packet, (origin, via): (Origin, Via)) -> bool {
        let Ok(ip) = view(packet) else { return false };
        self.from.is_none_or(|port| origin == Origin::Elsewhere(Via::Interface(port)))
            && self.into.is_none_or(|port| via == Via::Interface(port))
            && self.to.is_none_or(|prefix| prefix.contains(ip.dst()))
            && self.dscp.is_none_or(|dscp| ip.traffic_class().dscp() == dscp)
            && (self.protocol.is_none() && self.ports.is_none()
                || ip.upper().is_ok_and(|upper| self.matches_content(&upper)))
    }

    fn matches_content(&self, upper: &bentpipe_wire::ip::Upper<'_>) -> bool {
        let has_port = |ports: Ports| {
            let (from, to) = demux::ports(upper.protocol, upper.bytes, upper.is_later_fragment);
            (from, to) != (0, 0) && (ports.contains(from) || ports.contains(to))
        };
        self.protocol.is_none_or(|protocol| protocol == upper.protocol) && self.ports.is_none_or(has_port)
    }
}

/// Conditions in the order that they are asked, with the endpoints that get what matches.
#[derive(Debug, Default)]
pub(super) struct Diverts(Vec<(Divert, Port)>);

impl Diverts {
    pub(super) fn add(&mut self, what: Divert, endpoint: Port) {
        self.0.push((what, endpoint));
    }

    /// Returns the endpoint of the first condition that a packet meets.
    pub(super) fn find(&self, packet: &Packet, way: (Origin, Via)) -> Option<Port> {
        self.0.iter().find(|(what, _)| what.matches(packet, way)).map(|(_, endpoint)| *endpoint)
    }
}
