//! Receiver of a replayed capture.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bentpipe_net::{Cx, Element, Histogram, Observer, Packet, Port, Why};
use bentpipe_units::{Span, Time};

use super::place::{self, Sent};
use super::{Replay, Schedule};
use crate::app::payload::payload_len;
use crate::app::{FlowStats, delays, metrics};

/// Receiver of the packets of a [`Replay`](super::Replay) at port 0.
///
/// The packets have no numbers of their own. A packet keeps the time at which it was sent, and that is its place in the
/// capture. Packets that were sent at one time are known by their content; of equal ones the first that arrives is the
/// first. What comes from another machine's half of the network has no place: it is counted, and is neither missing nor expected.
///
/// A packet with a wrong checksum is dropped, if it was sent with a right one.
#[derive(Debug)]
pub struct ReplaySink {
    /// Packets that are sent, in order. A network that is only checked needs none of them.
    sent: Expected,
    /// Packets that have arrived, by their place.
    has_arrived: Vec<bool>,
    stats: FlowStats,
    /// The same at the end of the warm-up.
    warm: FlowStats,
    delays: Histogram,
    /// Packets without a place, and their bytes of payload.
    others: [u64; 2],
    bad_checksum: u64,
    /// Arrival and delay of the last packet.
    last: Option<(Time, Span)>,
}

/// Packets that are sent, once they are asked for.
#[derive(Debug)]
struct Expected {
    schedule: Option<Schedule>,
    sent: OnceLock<Arc<[Sent]>>,
}

impl Expected {
    fn get(&self) -> &[Sent] {
        self.sent
            .get_or_init(|| self.schedule.as_ref().map_or_else(|| Vec::<Sent>::new().into(), Schedule::sent))
    }
}

impl ReplaySink {
    /// Creates a receiver of packets that are sent so, in order.
    pub fn new(sent: Arc<[Sent]>) -> ReplaySink {
        let len = sent.len();
        ReplaySink::expecting(Expected { schedule: None, sent: OnceLock::from(sent) }, len)
    }

    /// Creates a receiver of what a replay sends.
    pub fn of(replay: &Replay) -> ReplaySink {
        let schedule = replay.schedule.clone();
        let len = schedule.len();
        ReplaySink::expecting(Expected { schedule: Some(schedule), sent: OnceLock::new() }, len)
    }

    fn expecting(sent: Expected, len: usize) -> ReplaySink {
        let has_arrived = vec![false; len];
        let (stats, warm) = (FlowStats::NONE, FlowStats::NONE);
        let delays = Histogram::default();
        ReplaySink { sent, has_arrived, stats, warm, delays, others: [0; 2], bad_checksum: 0, last: None }
    }

    /// Returns the statistics of the packets that have a place in the capture.
    pub fn stats(&self) -> &FlowStats {
        &self.stats
    }

    /// Returns the place of a packet, and `true` if it is a duplicate.
    ///
    /// `None` if no packet was sent at its time.
    fn find(&self, packet: &Packet) -> Option<(usize, bool)> {
        let sent = self.sent.get();
        let first = sent.partition_point(|sent| sent.at < packet.created_at());
        let alike = sent[first..].partition_point(|sent| sent.at == packet.created_at());
        let places = first..first + alike;
        if alike < 2 {
            return places.clone().next().map(|place| (place, self.has_arrived[place]));
        }
        let content = place::content(packet);
        let is_new = |place: &usize| !self.has_arrived[*place];
        let of_content = || places.clone().filter(|place| sent[*place].content == content);
        of_content()
            .find(is_new)
            .map(|place| (place, false))
            .or_else(|| of_content().next().map(|place| (place, true)))
            // Its content was altered.
            .or_else(|| Some((places.clone().find(is_new).unwrap_or(first), false)))
    }

    /// Returns `true` if a packet is taken. Damaged ones are not.
    pub fn take(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let (delay, payload) = (now.since(packet.created_at()), payload_len(packet));
        let Some((place, is_duplicate)) = self.find(packet) else {
            self.others[0] += 1;
            self.others[1] += payload as u64;
            self.delays.record(delay);
            self.last = Some((now, delay));
            return true;
        };
        if self.sent.get()[place].is_damaged(packet) {
            self.bad_checksum += 1;
            return false;
        }
        let number = (!is_duplicate).then_some(place as u64);
        self.has_arrived[place] = true;
        if self.stats.arrive(number, payload, (delay, now)) {
            self.delays.record(delay);
            self.last = Some((now, delay));
        } else {
            cx.note_duplicate(packet);
        }
        true
    }
}

impl Element for ReplaySink {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        match self.take(&packet, cx) {
            true => packet.recycle(),
            false => cx.refuse(packet, Why::Checksum),
        }
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
        observer.counter(&metrics::ARRIVED_BYTES, self.stats.arrived_bytes + bytes);
        observer.counter(&metrics::DROPPED_BAD_CHECKSUM, self.bad_checksum);
        self.stats.observe(&self.warm, observer);
        observer.gauge(&metrics::DELAY, self.last.map_or(f64::NAN, |(_, delay)| delay.as_secs_f64()));
        delays::observe(&self.delays, observer);
        observer.last_arrival(self.last.map(|(at, _)| at));
        observer.gauge(&metrics::LAST_ARRIVAL, self.last.map_or(f64::NAN, |(at, _)| at.as_secs_f64()));
        if observer.starts_window() {
            self.warm = self.stats.clone();
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_net::testing::{Harness, MS};

    /// A datagram to port 9 of `payload`, with its checksum.
    fn datagram(payload: &[u8]) -> Packet {
        let ends = crate::app::Endpoints {
            source: "10.0.0.1:5000".parse().expect("an end"),
            destination: "10.0.0.2:9".parse().expect("an end"),
        };
        Packet::from_bytes(&crate::app::datagram(ends, payload))
    }

    fn sent(at: u64, payload: &[u8]) -> Packet {
        let mut packet = datagram(payload);
        packet.set_created_at(Time::from_nanos(at * MS));
        packet
    }

    fn rig(packets: &[(u64, &[u8])]) -> Harness<ReplaySink> {
        let places =
            packets.iter().map(|(at, payload)| Sent::new(Time::from_nanos(at * MS), &datagram(payload)));
        Harness::new(ReplaySink::new(places.collect()))
    }

    #[test]
    fn packets_are_numbered_by_the_time_of_their_sending() {
        let mut rig = rig(&[(0, b"a"), (10, b"b"), (10, b"c"), (10, b"d"), (20, b"e"), (30, b"f")]);
        // Two of those sent at 10 ms arrive; that of 20 ms comes behind that of 30 ms.
        for (at, of, payload) in
            [(50, 0, b"a"), (60, 10, b"b"), (61, 10, b"d"), (80, 30, b"f"), (81, 20, b"e")]
        {
            rig.receive(at * MS, 0, sent(of, payload));
        }
        let mut value = |name| rig.value(name);
        assert_eq!([value("packets"), value("expected-packets"), value("lost")], [5.0, 6.0, 1.0]);
        assert_eq!([value("duplicates"), value("reordered")], [0.0, 1.0]);
        assert_eq!((value("delay-min"), value("delay-max")), (0.05, 0.061));
        assert_eq!(value("loss-ratio"), 1.0 / 6.0);
    }

    #[test]
    fn a_copy_of_one_packet_does_not_stand_for_another_of_its_time() {
        let mut rig = rig(&[(0, b"one"), (0, b"two"), (0, b"two"), (10, b"end")]);
        for (of, payload) in [(0, b"one"), (0, b"one"), (0, b"two"), (10, b"end")] {
            rig.receive(50 * MS, 0, sent(of, payload));
        }
        let mut value = |name| rig.value(name);
        assert_eq!([value("packets"), value("duplicates"), value("lost")], [4.0, 1.0, 1.0]);
        assert_eq!([value("delivered-bytes"), value("arrived-bytes")], [12.0, 9.0]);
    }

    #[test]
    fn repeated_packets_are_duplicates_and_packets_of_other_times_have_no_place() {
        let mut rig = rig(&[(0, b"a"), (10, b"b")]);
        for (at, of, payload) in
            [(50, 0, b"a"), (60, 10, b"b"), (61, 0, b"a"), (62, 10, b"b"), (70, 33, b"x")]
        {
            rig.receive(at * MS, 0, sent(of, payload));
        }
        let mut value = |name| rig.value(name);
        assert_eq!([value("packets"), value("expected-packets"), value("lost")], [5.0, 2.0, 0.0]);
        assert_eq!([value("duplicates"), value("delivered-bytes"), value("arrived-bytes")], [2.0, 5.0, 3.0]);
    }

    #[test]
    fn damaged_packets_are_dropped_for_their_checksum_if_it_was_right() {
        let mut rig = rig(&[(0, b"whole"), (10, b"hole!"), (20, b"third")]);
        let mut damaged = sent(0, b"whole");
        damaged.flip_bit(8 * 30);
        rig.receive(50 * MS, 0, damaged);
        rig.receive(60 * MS, 0, sent(10, b"hole!"));
        let mut value = |name| rig.value(name);
        assert_eq!([value("packets"), value("dropped-bad-checksum"), value("lost")], [1.0, 1.0, 1.0]);
        // Without a checksum it is not seen.
        let mut unsummed = datagram(b"plain");
        unsummed.header_mut()[26..28].fill(0);
        let place = Sent::new(Time::ZERO, &unsummed);
        let mut rig = Harness::new(ReplaySink::new([place].into()));
        unsummed.flip_bit(8 * 30);
        rig.receive(50 * MS, 0, unsummed);
        assert_eq!((rig.value("packets"), rig.value("dropped-bad-checksum")), (1.0, 0.0));
    }
}
