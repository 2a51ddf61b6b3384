//! Receiver of the bursts of a terminal.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port, Why, ledger};
use bentpipe_units::Time;

use super::burst::{self, Cells, Head};
use super::cells::{Encapsulation, Unpacker};
use crate::dama::metrics;

/// Receiver of the bursts of one terminal, at input 0. IP packets leave at output 0, requests at output 1.
#[derive(Debug)]
pub struct Receiver {
    unpacker: Unpacker,
    packets: Vec<(u16, Packet)>,
    bursts: u64,
    damaged_heads: u64,
}

impl Receiver {
    /// Creates a receiver.
    pub fn new(encapsulation: Encapsulation) -> Receiver {
        Receiver { unpacker: Unpacker::new(encapsulation), packets: Vec::new(), bursts: 0, damaged_heads: 0 }
    }

    /// Emits the packets that end in a burst.
    fn unpack(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        let sent = packet.created_at();
        let mut ends =
            packet.carried_mut::<Cells>().map(|cells| std::mem::take(&mut cells.ends)).unwrap_or_default();
        let (cells, stamps) = burst::parts(&packet);
        self.unpacker.burst(cells, |cell, packet| self.packets.push((cell, packet)));
        let mut packets = self.packets.drain(..).peekable();
        while let Some((cell, first)) = packets.next() {
            let mut of_cell = vec![first];
            while let Some((_, packet)) = packets.next_if(|(other, _)| *other == cell) {
                of_cell.push(packet);
            }
            // What was begun before a loss does not come out: of a cell's packets the last ones do.
            let created_at = burst::stamps(stamps, cell);
            let first = created_at.len().saturating_sub(of_cell.len());
            let mut created_at = created_at.into_iter().skip(first);
            let of_cell_or_before = ends.iter().take_while(|(other, _)| *other <= cell).count();
            let mut origins = ends.drain(..of_cell_or_before).rev().take(of_cell.len()).collect::<Vec<_>>();
            for mut packet in of_cell {
                packet.set_origin(origins.pop().map(|(_, origin)| origin).unwrap_or_default());
                packet.set_created_at(created_at.next().unwrap_or(sent));
                cx.emit(Port(0), packet);
            }
        }
    }
}

impl Element for Receiver {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let Some(head) = Head::parse(&packet) else {
            self.damaged_heads += 1;
            packet.lose(Why::Channel);
            return Time::NEVER;
        };
        let sent = packet.created_at();
        if head.cells > 0 {
            self.bursts += 1;
            // What does not come out now is lost: it ends in this burst.
            ledger::dropping(Why::Restoration, || self.unpack(packet, cx));
        }
        if !head.requests.is_empty() {
            cx.emit(Port(1), Head { cells: 0, ..head }.packet(None, sent));
        }
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::BURSTS, self.bursts);
        observer.counter(&metrics::DAMAGED_HEADS, self.damaged_heads);
        observer.counter(&metrics::DAMAGES, self.unpacker.damages());
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
