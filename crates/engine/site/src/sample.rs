//! Packets that traffic sends, known before the run.

use bentpipe_net::{Cx, Element, Outbox, Packet, Port, Wire};
use bentpipe_units::{RandomStream, Time};

/// Packets of a source in the order of their times, for budgets.
///
/// It drives the element that would send them in a run, without a network.
pub struct Sample {
    source: Box<dyn Element>,
    stream: RandomStream,
    outbox: Outbox,
    due: Time,
    now: Time,
}

impl Sample {
    /// Creates the packets that a source emits at output 0 when it is only woken.
    pub fn new(source: impl Element + 'static) -> Sample {
        Sample {
            source: Box::new(source),
            stream: RandomStream::new(0, "sample"),
            outbox: Outbox::default(),
            due: Time::ZERO,
            now: Time::ZERO,
        }
    }
}

impl Iterator for Sample {
    type Item = (Time, Packet);

    fn next(&mut self) -> Option<(Time, Packet)> {
        loop {
            if let Some((_, packet)) = self.outbox.pop() {
                return Some((self.now, packet));
            }
            if self.due.is_never() {
                return None;
            }
            self.now = self.due;
            let wires = [Wire::new(0, Port(0))];
            let mut cx = Cx::new(self.now, &wires, &mut self.outbox, &mut self.stream);
            self.due = self.source.wake(&mut cx);
        }
    }
}
