//! Shapes of the elements of flows, for networks that are checked and never run.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_site::{End, FlowEnds};
use bentpipe_units::{Span, Time};

/// Ports of an end of a flow whose ways through the element are kept.
const PORTS: usize = 8;

/// Shape of an element: all that a network is built by. A connection of TCP takes kilobytes, its shape a hundred bytes.
#[derive(Debug)]
pub(super) struct Shape {
    lookahead: Span,
    min_reaction_delay: Span,
    /// Outputs to which each input forwards, a bit each.
    forwards: [u8; PORTS],
    alike: [Port; PORTS],
}

impl Shape {
    fn of(element: &dyn Element) -> Shape {
        let ports = std::array::from_fn(|port| Port(port as u16));
        let outputs = |from: Port| (0..PORTS).filter(move |to| element.forwards(from, Port(*to as u16)));
        Shape {
            lookahead: element.lookahead(),
            min_reaction_delay: element.min_reaction_delay(),
            forwards: ports.map(|from| outputs(from).fold(0, |bits, to| bits | 1 << to)),
            alike: ports.map(|port| element.alike(port)),
        }
    }
}

impl Element for Shape {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        debug_assert!(false, "a network of shapes does not run");
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn lookahead(&self) -> Span {
        self.lookahead
    }

    fn min_reaction_delay(&self) -> Span {
        self.min_reaction_delay
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        let bits = self.forwards.get(usize::from(from.0));
        bits.is_none_or(|bits| usize::from(to.0) >= PORTS || bits >> to.0 & 1 == 1)
    }

    fn alike(&self, from: Port) -> Port {
        self.alike.get(usize::from(from.0)).copied().unwrap_or(Port(0))
    }

    fn observe(&mut self, _now: Time, _observer: &mut dyn Observer) {}

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Returns the ends of a flow with shapes in the place of their elements.
pub(super) fn of_ends(mut ends: FlowEnds) -> FlowEnds {
    let FlowEnds { sender, receivers, .. } = &mut ends;
    for mut end in receivers.iter_mut().chain([sender]).map(Some).collect::<Vec<_>>() {
        while let Some(End { element, between, .. }) = end {
            *element = Box::new(Shape::of(&**element));
            end = between.as_deref_mut();
        }
    }
    ends
}
