//! Way back from a leaf of a point-to-multipoint channel: there is none.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port, Why};
use bentpipe_units::Time;

/// Direction from a leaf to the root, which no route leads over. It drops all packets.
#[derive(Debug)]
pub(super) struct NoReturn;

impl Element for NoReturn {
    fn receive(&mut self, _: Port, packet: Packet, _: &mut Cx<'_>) -> Time {
        packet.lose(Why::NoRoute);
        Time::NEVER
    }

    fn wake(&mut self, _: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, _: Port, _: Port) -> bool {
        false
    }

    fn observe(&mut self, _: Time, _: &mut dyn Observer) {}

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
