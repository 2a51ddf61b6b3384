//! External port: entry and exit of packets of the real world.

pub mod metrics;

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_units::Time;

use crate::{Cx, Element, Observer, Packet, Port};

/// External port: represents a real host outside the network, after a network interface.
///
/// Packets from the network wait, each with its arrival time, until the emulator takes them. Packets from
/// outside are injected at [`ExternalPort::OUTSIDE`] and enter the network immediately.
#[derive(Debug, Default)]
pub struct ExternalPort {
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

/// Maximum number of waiting packets; further ones are refused and counted.
const MAX_WAITING: usize = 1 << 16;

impl ExternalPort {
    /// The side towards the network.
    pub const NETWORK: Port = Port(0);
    /// The input at which packets from outside are injected.
    pub const OUTSIDE: Port = Port(1);

    /// Removes and returns the first waiting packet, with its arrival time.
    pub fn take(&mut self) -> Option<(Time, Packet)> {
        self.leaving.pop_front()
    }
}

impl Element for ExternalPort {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if port == ExternalPort::OUTSIDE {
            self.entered.add(&packet);
            cx.emit(ExternalPort::NETWORK, packet);
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
        from == ExternalPort::OUTSIDE
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::PACKETS_ENTERED, self.entered.packets);
        observer.counter(&metrics::BYTES_ENTERED, self.entered.bytes);
        observer.counter(&metrics::PACKETS_LEFT, self.left.packets);
        observer.counter(&metrics::BYTES_LEFT, self.left.bytes);
        observer.counter(&metrics::PACKETS_REFUSED, self.refused_packets);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
