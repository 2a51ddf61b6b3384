//! End of a capture that is replayed in both directions.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port, Why};
use bentpipe_units::Time;

use super::{Replay, ReplaySink};

/// End that sends one direction of a capture and receives the other one.
///
/// Its packets come and go at port 0.
#[derive(Debug)]
pub(super) struct Both {
    replay: Replay,
    sink: ReplaySink,
}

impl Both {
    pub(super) fn new(replay: Replay, sink: ReplaySink) -> Both {
        Both { replay, sink }
    }
}

impl Element for Both {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        match self.sink.take(&packet, cx) {
            true => packet.recycle(),
            false => cx.refuse(packet, Why::Checksum),
        }
        self.replay.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.replay.wake(cx)
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.replay.observe(now, observer);
        self.sink.observe(now, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
