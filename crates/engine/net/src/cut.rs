//! Cut through a link: the place where a network continues on another machine.
//!
//! Modelled: packets of the outgoing direction leave some time before their arrival at the far end, each with that instant;
//! packets of the incoming direction come with the instant of their arrival at this end, and wait for it. Not modelled: what is
//! on the other side.

pub mod metrics;

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;

use bentpipe_units::{Span, Time};

use crate::{Cx, Element, Observer, Packet, Port, Why};

/// Maximum number of packets that wait in each direction; further ones are dropped and counted.
const MAX_WAITING: usize = 1 << 16;

/// Cut through a link of a network that is emulated in parts.
#[derive(Debug)]
pub struct Cut {
    /// Time before their arrival at the far end that packets leave.
    ahead: Span,
    leaving: VecDeque<(Time, Packet)>,
    coming: VecDeque<Coming>,
    sent: u64,
    received: u64,
    late: u64,
    max_lateness: Span,
    dropped: u64,
    /// Number of the account of packets that come from the other side.
    account: u32,
}

/// Packet that came from the other side.
#[derive(Debug)]
struct Coming {
    number: u64,
    due: Time,
    packet: Packet,
}

impl Cut {
    /// Input of the outgoing direction.
    pub const LINE: Port = Port(0);
    /// Input of the idle copy of the incoming direction. Its packets are discarded.
    pub const COPY: Port = Port(1);
    /// Output to the end of the link here.
    pub const END: Port = Port(0);

    /// Creates a cut whose outgoing packets arrive at the far end `ahead` after they leave.
    pub fn new(ahead: Span) -> Cut {
        Cut {
            ahead,
            leaving: VecDeque::new(),
            coming: VecDeque::new(),
            sent: 0,
            received: 0,
            late: 0,
            max_lateness: Span::ZERO,
            dropped: 0,
            account: 0,
        }
    }

    /// Removes and returns the next packet for the other side, with its due time there.
    pub fn take(&mut self) -> Option<(Time, Packet)> {
        self.leaving.pop_front()
    }

    /// Records a packet from the other side, which is due at `due`. Poke the cut afterwards.
    ///
    /// `number` is its place in the order of the sender, which is kept. One that is late is due now, and counted.
    pub fn schedule(&mut self, now: Time, number: u64, due: Time, packet: Packet) {
        if self.coming.len() >= MAX_WAITING {
            self.dropped += 1;
            return packet.lose(Why::Queue);
        }
        self.received += 1;
        if due < now {
            self.late += 1;
            self.max_lateness = self.max_lateness.max(now - due);
        }
        let before = self.coming.iter().rposition(|other| other.number < number);
        let at = before.map_or(0, |before| before + 1);
        let due = before.map_or(due, |before| due.max(self.coming[before].due));
        self.coming.insert(at, Coming { number, due, packet });
    }

    /// Returns the number of late packets, and the maximum lateness.
    pub fn lateness(&self) -> (u64, Span) {
        (self.late, self.max_lateness)
    }
}

impl Element for Cut {
    fn receive(&mut self, port: Port, mut packet: Packet, cx: &mut Cx<'_>) -> Time {
        if port == Cut::LINE {
            if self.leaving.len() < MAX_WAITING {
                self.sent += 1;
                // It goes on in the other part, which has an account of its own.
                cx.accept(&mut packet);
                self.leaving.push_back((cx.now() + self.ahead, packet));
            } else {
                self.dropped += 1;
                packet.lose(Why::Queue);
            }
        }
        self.coming.front().map_or(Time::NEVER, |first| first.due)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while self.coming.front().is_some_and(|first| first.due <= cx.now()) {
            let Some(mut first) = self.coming.pop_front() else { break };
            cx.offer(&mut first.packet, self.account);
            cx.emit(Cut::END, first.packet);
        }
        self.coming.front().map_or(Time::NEVER, |first| first.due)
    }

    fn forwards(&self, _: Port, _: Port) -> bool {
        false
    }

    fn open_accounts(&mut self, first: u32) -> Option<Range<u16>> {
        self.account = first;
        Some(0..0)
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::SENT, self.sent);
        observer.counter(&metrics::RECEIVED, self.received);
        observer.counter(&metrics::LATE, self.late);
        observer.counter(&metrics::DROPPED, self.dropped);
        observer.gauge(&metrics::MAX_LATENESS, self.max_lateness.as_secs_f64());
        observer.gauge(&metrics::WAITING, self.coming.len() as f64);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_units::RandomStream;

    use super::*;
    use crate::{Outbox, Wire};

    fn packet(byte: u8) -> Packet {
        Packet::from_bytes(&[0x45, byte, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2])
    }

    /// Wakes a cut and returns its next wake-up, and the second bytes of the packets it sent.
    fn wake(cut: &mut Cut, now: Time) -> (Time, Vec<u8>) {
        let (mut outbox, mut stream) = (Outbox::default(), RandomStream::new(1, "cut"));
        let wires = [Wire::new(0, Port(0))];
        let next = cut.wake(&mut Cx::new(now, &wires, &mut outbox, &mut stream));
        let bytes = |packet: Packet| {
            let mut bytes = Vec::new();
            packet.write_to(&mut bytes);
            bytes[1]
        };
        (next, std::iter::from_fn(|| outbox.pop()).map(|(_, packet)| bytes(packet)).collect())
    }

    #[test]
    fn packets_leave_with_their_instant() {
        let mut cut = Cut::new(Span::from_millis(20));
        let (mut outbox, mut stream) = (Outbox::default(), RandomStream::new(1, "cut"));
        let mut cx = Cx::new(Time::from_nanos(5), &[], &mut outbox, &mut stream);
        cut.receive(Cut::LINE, packet(1), &mut cx);
        cut.receive(Cut::COPY, packet(2), &mut cx);
        let (due, _) = cut.take().expect("one left");
        assert_eq!((due, cut.take().is_none()), (Time::from_nanos(20_000_005), true));
    }

    #[test]
    fn packets_come_at_their_instants_in_the_order_of_the_sender() {
        let mut cut = Cut::new(Span::ZERO);
        let at = Time::from_nanos;
        // The second overtook the first on the way, and the clocks' difference was measured again between them.
        cut.schedule(at(0), 2, at(99), packet(2));
        cut.schedule(at(0), 1, at(100), packet(1));
        cut.schedule(at(0), 3, at(300), packet(3));
        assert_eq!(wake(&mut cut, at(99)), (at(100), vec![]));
        assert_eq!(wake(&mut cut, at(100)), (at(300), vec![1, 2]));
        cut.schedule(at(400), 4, at(350), packet(4));
        assert_eq!(wake(&mut cut, at(400)), (Time::NEVER, vec![3, 4]));
        assert_eq!(cut.lateness(), (1, Span::from_nanos(50)));
    }

    #[test]
    fn what_waits_has_a_limit() {
        let mut cut = Cut::new(Span::ZERO);
        (0..MAX_WAITING as u64 + 7).for_each(|n| cut.schedule(Time::ZERO, n, Time::NEVER, packet(0)));
        assert_eq!((cut.coming.len(), cut.dropped), (MAX_WAITING, 7));
    }
}
