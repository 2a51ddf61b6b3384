//! Receiver of a replayed capture.

use std::any::Any;
use std::sync::Arc;

use bentpipe_net::{Cx, Element, Histogram, Observer, Packet, Port};
use bentpipe_units::{Span, Time};

use crate::app::payload::payload_len;
use crate::app::{FlowStats, delays, metrics};

/// Receiver of the packets of a [`Replay`](super::Replay) at port 0.
///
/// The packets have no numbers of their own. A packet keeps the time at which it was sent, and that is its place in the
/// capture. Packets that were sent at one time are numbered in the order of their arrival. What comes from another
/// machine's half of the network has no place: it is counted, and is neither missing nor expected.
#[derive(Debug)]
pub struct ReplaySink {
    /// Times at which the packets are sent, in order.
    times: Arc<[Time]>,
    /// Number of arrivals of each time, at the place of its first packet.
    arrived: Vec<u32>,
    stats: FlowStats,
    /// The same at the end of the warm-up.
    warm: FlowStats,
    delays: Histogram,
    /// Packets without a place, and their bytes of payload.
    others: [u64; 2],
    /// Arrival and delay of the last packet.
    last: Option<(Time, Span)>,
}

impl ReplaySink {
    /// Creates a receiver of packets that are sent at these times, in order.
    pub fn new(times: Arc<[Time]>) -> ReplaySink {
        let arrived = vec![0; times.len()];
        let (stats, warm) = (FlowStats::NONE, FlowStats::NONE);
        ReplaySink { times, arrived, stats, warm, delays: Histogram::default(), others: [0; 2], last: None }
    }

    /// Returns the statistics of the packets that have a place in the capture.
    pub fn stats(&self) -> &FlowStats {
        &self.stats
    }

    /// Counts a packet that was sent at `created_at`.
    fn count(&mut self, created_at: Time, payload: usize, arrival: (Span, Time)) {
        let first = self.times.partition_point(|at| *at < created_at);
        let alike = self.times[first..].partition_point(|at| *at == created_at);
        if alike == 0 {
            self.others[0] += 1;
            self.others[1] += payload as u64;
            return;
        }
        let before = self.arrived[first] as usize;
        self.arrived[first] += 1;
        let number = (before < alike).then_some((first + before) as u64);
        self.stats.arrive(number, payload, arrival);
    }
}

impl Element for ReplaySink {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let delay = cx.now().since(packet.created_at());
        self.count(packet.created_at(), payload_len(&packet), (delay, cx.now()));
        self.delays.record(delay);
        self.last = Some((cx.now(), delay));
        packet.recycle();
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let [packets, bytes] = self.others;
        observer.counter(&metrics::PACKETS, self.stats.packets + packets);
        observer.counter(&metrics::DELIVERED_BYTES, self.stats.bytes + bytes);
        self.stats.observe(&self.warm, observer);
        observer.gauge(&metrics::DELAY, self.last.map_or(f64::NAN, |(_, delay)| delay.as_secs_f64()));
        delays::observe(&self.delays, observer);
        observer.gauge(&metrics::LAST_ARRIVAL, self.last.map_or(f64::NAN, |(at, _)| at.as_secs_f64()));
        if observer.starts_window() {
            self.warm = self.stats;
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_net::testing::{Harness, MS, packet};

    fn sent(at: u64) -> Packet {
        let mut packet = packet(100);
        packet.set_created_at(Time::from_nanos(at * MS));
        packet
    }

    #[test]
    fn packets_are_numbered_by_the_time_of_their_sending() {
        let times = [0, 10, 10, 10, 20, 30].map(|at| Time::from_nanos(at * MS));
        let mut rig = Harness::new(ReplaySink::new(times.into()));
        // Two of those sent at 10 ms arrive, one of them twice more; that of 20 ms comes behind that of 30 ms.
        for (at, of) in [(50, 0), (60, 10), (61, 10), (80, 30), (81, 20)] {
            rig.receive(at * MS, 0, sent(of));
        }
        let mut value = |name| rig.value(name);
        assert_eq!([value("packets"), value("expected-packets"), value("lost")], [5.0, 6.0, 1.0]);
        assert_eq!([value("duplicates"), value("reordered")], [0.0, 1.0]);
        assert_eq!((value("delay-min"), value("delay-max")), (0.05, 0.061));
        assert_eq!(value("loss-ratio"), 1.0 / 6.0);
    }

    #[test]
    fn repeated_packets_are_duplicates_and_packets_of_other_times_have_no_place() {
        let times = [0, 10].map(|at| Time::from_nanos(at * MS));
        let mut rig = Harness::new(ReplaySink::new(times.into()));
        for (at, of) in [(50, 0), (60, 10), (61, 0), (62, 10), (70, 33)] {
            rig.receive(at * MS, 0, sent(of));
        }
        let mut value = |name| rig.value(name);
        assert_eq!([value("packets"), value("expected-packets"), value("lost")], [5.0, 2.0, 0.0]);
        assert_eq!(value("duplicates"), 2.0);
    }
}
