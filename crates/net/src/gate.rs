//! A gate: where packets of the real world enter and leave the network.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_units::Time;

use crate::{Cx, Element, Observer, Packet, Port, Unit};

/// Stands in the place of a host that is outside: a real one, behind a network interface.
///
/// Packets from the network wait, each with the instant it arrived at, until whoever runs the network takes them.
/// Packets from outside are injected at [`Gate::OUTSIDE`] and go on into the network at once.
#[derive(Debug, Default)]
pub struct Gate {
    leaving: VecDeque<(Time, Packet)>,
    entered: Tally,
    left: Tally,
    refused_packets: u64,
}

#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
    }
}

/// More packets than this waiting means that nobody takes them; further ones are refused and counted.
const MAX_WAITING: usize = 1 << 16;

impl Gate {
    /// The side towards the network.
    pub const NETWORK: Port = Port(0);
    /// The input at which packets from outside are injected.
    pub const OUTSIDE: Port = Port(1);

    /// The packet that left the network first of those that wait, and when it did.
    pub fn take(&mut self) -> Option<(Time, Packet)> {
        self.leaving.pop_front()
    }
}

impl Element for Gate {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if port == Gate::OUTSIDE {
            self.entered.add(&packet);
            cx.emit(Gate::NETWORK, packet);
        } else if self.leaving.len() < MAX_WAITING {
            self.left.add(&packet);
            self.leaving.push_back((cx.now(), packet));
        } else {
            self.refused_packets += 1;
        }
        Time::NEVER
    }

    fn wake(&mut self, _: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, from: Port, _: Port) -> bool {
        from == Gate::OUTSIDE
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        observer.counter("packets_entered", Unit::Packets, self.entered.packets);
        observer.counter("bytes_entered", Unit::Bytes, self.entered.bytes);
        observer.counter("packets_left", Unit::Packets, self.left.packets);
        observer.counter("bytes_left", Unit::Bytes, self.left.bytes);
        observer.counter("packets_refused", Unit::Packets, self.refused_packets);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
