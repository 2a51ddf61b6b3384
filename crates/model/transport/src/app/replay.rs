//! The replay of a capture: real packets with their real spacing.

mod both;
mod capture;
mod direction;
mod kind;
mod place;
mod sink;

use std::any::Any;
use std::sync::Arc;

use bentpipe_net::InvalidConfig;
use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_units::{Span, Time};

use crate::app::metrics;
pub use direction::Direction;
pub use kind::ReplayConfig;
pub use place::{Sent, verified};
pub use sink::ReplaySink;

/// Packets of a capture with their times, and the instant of the first.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    packets: Arc<[(Span, Vec<u8>)]>,
    start: Time,
}

impl Schedule {
    /// Returns what a receiver knows of the packets, in order.
    fn sent(&self) -> Arc<[Sent]> {
        let place =
            |(after, bytes): &(Span, Vec<u8>)| Sent::new(self.start + *after, &Packet::from_bytes(bytes));
        self.packets.iter().map(place).collect()
    }

    /// Returns the time of the last packet.
    fn end(&self) -> Time {
        self.start + self.packets.last().map_or(Span::ZERO, |(after, _)| *after)
    }

    fn len(&self) -> usize {
        self.packets.len()
    }
}

/// Replay of a capture at port 0, with received packets ignored.
///
/// The packets are the whole IP packets of a capture, addresses included: the nodes of the path need routes
/// for these. Each is sent at its time.
#[derive(Debug)]
pub struct Replay {
    schedule: Schedule,
    next: usize,
    sent_bytes: u64,
    /// Records of its file that are not sent.
    left_out: u64,
}

impl Replay {
    /// Sends `packets`, each that long after `start`, in this order.
    ///
    /// # Errors
    /// If the times are not in order.
    pub fn new(packets: Arc<[(Span, Vec<u8>)]>, start: Span) -> Result<Replay, InvalidConfig> {
        let in_order = packets.is_sorted_by_key(|(after, _)| *after);
        InvalidConfig::ensure(in_order, "capture", "packets in the order of their time")?;
        let schedule = Schedule { packets, start: Time::ZERO + start };
        Ok(Replay { schedule, next: 0, sent_bytes: 0, left_out: 0 })
    }

    /// Returns it with the number of records of its file that are not sent.
    #[must_use]
    pub fn leaving_out(self, left_out: u64) -> Replay {
        Replay { left_out, ..self }
    }

    /// Returns what a receiver knows of the packets that are sent, in order.
    pub fn sent(&self) -> Arc<[Sent]> {
        self.schedule.sent()
    }

    fn deadline(&self) -> Time {
        let Schedule { packets, start } = &self.schedule;
        packets.get(self.next).map_or(Time::NEVER, |(after, _)| *start + *after)
    }
}

impl Element for Replay {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while self.deadline() <= cx.now() {
            let Some((_, bytes)) = self.schedule.packets.get(self.next) else { break };
            let mut packet = Packet::from_bytes(bytes);
            packet.set_created_at(cx.now());
            self.sent_bytes += bytes.len() as u64;
            self.next += 1;
            cx.emit(Port(0), packet);
        }
        self.deadline()
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::SENT, self.next as u64);
        observer.counter(&metrics::SENT_BYTES, self.sent_bytes);
        if self.left_out > 0 {
            observer.counter(&metrics::LEFT_OUT, self.left_out);
        }
        if observer.counts_units() {
            observer.gauge(&metrics::UNSENT, (self.schedule.len() - self.next) as f64);
        }
        metrics::observe_end(self.deadline().is_never().then(|| self.schedule.end()), now, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_net::testing::{Harness, MS, ms};

    #[test]
    fn packets_leave_whole_and_with_their_spacing() {
        let packet = |len: usize| (0..len).map(|i| i as u8).collect::<Vec<u8>>();
        let capture = vec![(ms(0), packet(300)), (ms(3), packet(40)), (ms(3), packet(1500))];
        let mut rig = Harness::new(Replay::new(capture.into(), ms(7)).expect("in order"));
        rig.run_until(100 * MS);
        assert_eq!(rig.times(), [(7 * MS, 300), (10 * MS, 40), (10 * MS, 1500)]);
        assert_eq!(rig.out[2].2.to_vec(), packet(1500));
        assert_eq!((rig.value("sent"), rig.value("sent-bytes")), (3.0, 1840.0));
        assert!(Replay::new([(ms(2), vec![]), (ms(1), vec![])].into(), ms(0)).is_err());
    }
}
