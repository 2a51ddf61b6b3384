//! Diversion of packets in transit to endpoints of the node.

use std::collections::VecDeque;

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
    /// Returns `true` if some packet may meet both conditions.
    pub fn overlaps(&self, other: &Divert) -> bool {
        fn alike<T: Copy>(one: Option<T>, other: Option<T>, may_be: impl Fn(T, T) -> bool) -> bool {
            one.zip(other).is_none_or(|(one, other)| may_be(one, other))
        }
        alike(self.protocol, other.protocol, |one, other| one == other)
            && alike(self.ports, other.ports, Ports::overlaps)
            && alike(self.to, other.to, Prefix::overlaps)
            && alike(self.from, other.from, |one, other| one == other)
            && alike(self.into, other.into, |one, other| one == other)
            && alike(self.dscp, other.dscp, |one, other| one == other)
    }

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

/// Condition, and the endpoint that gets what meets it.
#[derive(Debug)]
struct Diverted {
    what: Divert,
    endpoint: Port,
    /// Stage of an endpoint that returns each packet at once, in order.
    passes: Option<Stage>,
}

/// Packets on their way through an endpoint that returns them.
#[derive(Debug)]
struct Stage {
    number: usize,
    /// Origins of those that it has not returned yet.
    origins: VecDeque<Origin>,
}

/// Conditions in the order that they are asked, with the endpoints that get what matches.
#[derive(Debug, Default)]
pub(super) struct Diverts {
    diverted: Vec<Diverted>,
    /// Stage and origin of the packet that an endpoint has just returned.
    returned: Option<(usize, Origin)>,
}

impl Diverts {
    pub(super) fn add(&mut self, what: Divert, endpoint: Port, stage: Option<usize>) {
        let passes = stage.map(|number| Stage { number, origins: VecDeque::new() });
        self.diverted.push(Diverted { what, endpoint, passes });
    }

    /// Returns the endpoint of the first condition that a packet meets.
    pub(super) fn find(&mut self, packet: &Packet, way: (Origin, Via)) -> Option<Port> {
        self.find_behind(None, packet, way)
    }

    /// Returns the next endpoint of a packet that one of an earlier stage has returned.
    pub(super) fn find_next(&mut self, packet: &Packet, via: Via) -> Option<Port> {
        let (stage, origin) = self.returned.take()?;
        self.find_behind(Some(stage), packet, (origin, via))
    }

    fn find_behind(&mut self, stage: Option<usize>, packet: &Packet, way: (Origin, Via)) -> Option<Port> {
        let is_of_stage = |diverted: &Diverted| diverted.passes.as_ref().map(|passes| passes.number) == stage;
        let behind = match stage {
            Some(_) => self.diverted.iter().rposition(is_of_stage).map_or(0, |last| last + 1),
            None => 0,
        };
        let found = self.diverted[behind..].iter_mut().find(|diverted| diverted.what.matches(packet, way))?;
        if let Some(passes) = &mut found.passes {
            passes.origins.push_back(way.0);
        }
        Some(found.endpoint)
    }

    /// Notes that a packet comes from an endpoint.
    pub(super) fn comes_from(&mut self, endpoint: Port) {
        let from = self.diverted.iter_mut().find(|diverted| diverted.endpoint == endpoint);
        self.returned = from
            .and_then(|from| from.passes.as_mut())
            .and_then(|passes| Some((passes.number, passes.origins.pop_front()?)));
    }
}
