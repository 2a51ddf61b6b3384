//! Strict priority of two classes by DSCP: expedited packets leave before all others.

use std::borrow::Cow;

use bentpipe_units::{Bytes, RandomStream, Time};
use bentpipe_wire::ip;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::drop_tail::Limits;
use super::tally::observe_means;
use super::{Backlog, Discipline, OTHER_KIND, Queue};
use crate::queue::metrics;
use crate::{InvalidConfig, Observer, Packet, Peak, Why};

/// Two drop-tail queues, of which the expedited one is always served first (RFC 3246).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// DSCPs of the expedited class. Default: [46], expedited forwarding (EF).
    pub expedited: Dscps,
    /// Maximum number of waiting packets of each class. Default: 1000, or 4194304 if `bytes` is given, which is also the most.
    pub packets: Option<u32>,
    /// Maximum number of waiting bytes of each class, counted as IP packets. Default: no limit.
    pub bytes: Option<Bytes>,
}

impl Config {
    fn limits(&self) -> Limits {
        Limits::new(self.packets, self.bytes)
    }
}

/// Set of differentiated services codepoints, written as a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Dscps(u64);

impl Default for Dscps {
    fn default() -> Dscps {
        Dscps(1 << 46)
    }
}

impl Dscps {
    /// Returns `true` if the codepoint is in the set.
    #[inline]
    pub const fn contains(self, dscp: u8) -> bool {
        dscp < 64 && self.0 >> dscp & 1 == 1
    }
}

impl TryFrom<Vec<u8>> for Dscps {
    type Error = &'static str;

    fn try_from(dscps: Vec<u8>) -> Result<Dscps, &'static str> {
        let bit = |set: u64, dscp: &u8| 1_u64.checked_shl(u32::from(*dscp)).map(|bit| set | bit);
        dscps.iter().try_fold(0, bit).map(Dscps).ok_or("expected DSCPs from 0 to 63")
    }
}

impl From<Dscps> for Vec<u8> {
    fn from(dscps: Dscps) -> Vec<u8> {
        (0..64).filter(|dscp| dscps.contains(*dscp)).collect()
    }
}

impl JsonSchema for Dscps {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Dscps".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 63 }, "minItems": 1, "maxItems": 64
        })
    }
}

/// Two queues of strict priority.
#[derive(Debug)]
pub struct Priority {
    expedited: Dscps,
    limits: Limits,
    /// Expedited packets, then all others.
    waiting: [Backlog; 2],
    dropped: [u64; 2],
    most_packets: Peak,
    most_bytes: Peak,
}

impl Priority {
    /// Creates an empty queue.
    pub fn new(config: &Config) -> Priority {
        Priority {
            expedited: config.expedited,
            limits: config.limits(),
            waiting: [Backlog::default(), Backlog::default()],
            dropped: [0; 2],
            most_packets: Peak::default(),
            most_bytes: Peak::default(),
        }
    }

    /// Returns the number of the class that a packet belongs to.
    fn class(&self, packet: &Packet) -> usize {
        let elided = packet.len() - packet.header().len();
        let ip = ip::Packet::new_elided(packet.header(), elided);
        usize::from(!ip.is_ok_and(|ip| self.expedited.contains(ip.traffic_class().dscp())))
    }
}

impl Queue for Priority {
    fn enqueue(&mut self, packet: Packet, now: Time, _stream: &mut RandomStream) {
        let class = self.class(&packet);
        if !self.limits.fits(&self.waiting[class], packet.len()) {
            self.dropped[class] += 1;
            return packet.lose(Why::Queue);
        }
        self.waiting[class].push(packet, now);
        self.most_packets.note(self.packets() as u64);
        self.most_bytes.note(self.bytes());
    }

    fn pass(&mut self, packet: Packet, _: Time, _: Time, _: &mut RandomStream) -> Option<Packet> {
        Some(packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        self.waiting.iter_mut().find_map(|waiting| waiting.pop(now))
    }

    fn packets(&self) -> usize {
        self.waiting.iter().map(Backlog::packets).sum()
    }

    fn bytes(&self) -> u64 {
        self.waiting.iter().map(Backlog::bytes).sum()
    }

    fn set(&mut self, discipline: &Discipline, _now: Time) -> Result<(), InvalidConfig> {
        let Discipline::Priority(config) = discipline else { return Err(OTHER_KIND) };
        (self.expedited, self.limits) = (config.expedited, config.limits());
        Ok(())
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::DROPPED_QUEUE, self.dropped.iter().sum());
        observer.counter(&metrics::DROPPED_EXPEDITED, self.dropped[0]);
        observer.gauge(&metrics::QUEUE, self.packets() as f64);
        observer.gauge(&metrics::QUEUE_BYTES, self.bytes() as f64);
        let [expedited, others] = [0, 1].map(|class| self.waiting[class].tally().means(now, observer));
        observe_means([expedited[0] + others[0], expedited[1] + others[1]], observer);
        self.most_packets.observe(&metrics::QUEUE_MAX, self.packets() as u64, observer);
        self.most_bytes.observe(&metrics::QUEUE_MAX_BYTES, self.bytes(), observer);
        observer.gauge(&metrics::EXPEDITED_BYTES, self.waiting[0].bytes() as f64);
        self.waiting[0].tally().observe_most_bytes(&metrics::EXPEDITED_MAX_BYTES, observer);
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::ip::{Ecn, Protocol, TrafficClass};

    use super::*;

    /// An IPv6 packet with this DSCP and so much payload.
    fn packet(dscp: u8, payload: u32) -> Packet {
        let [from, to] = ["2001:db8::1", "2001:db8::2"].map(|address| address.parse().expect("an address"));
        let mut repr = ip::Repr::new(from, to, Protocol::UDP, payload as usize);
        if let ip::Repr::V6(repr) = &mut repr {
            repr.traffic_class = TrafficClass::new(dscp, Ecn::Ect0);
        }
        let mut packet = Packet::new(repr.buffer_len(), payload);
        repr.emit(packet.header_mut());
        packet
    }

    fn fill(queue: &mut Priority, packets: &[(u8, u32)]) {
        let mut stream = RandomStream::new(1, "queue");
        packets.iter().for_each(|(dscp, len)| queue.enqueue(packet(*dscp, *len), Time::ZERO, &mut stream));
    }

    fn lens(queue: &mut Priority) -> Vec<usize> {
        std::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|packet| packet.len() - 40).collect()
    }

    #[test]
    fn expedited_packets_leave_first_each_class_in_its_order() {
        let mut queue = Priority::new(&Config::default());
        fill(&mut queue, &[(0, 1), (46, 2), (8, 3), (46, 4), (0, 5)]);
        queue.enqueue(Packet::new(0, 46), Time::ZERO, &mut RandomStream::new(1, "queue"));
        assert_eq!((queue.packets(), queue.bytes()), (6, 5 * 40 + 15 + 46));
        assert_eq!(lens(&mut queue), [2, 4, 1, 3, 5, 6]);
        assert_eq!((queue.packets(), queue.bytes()), (0, 0));
    }

    #[test]
    fn each_class_has_limits_of_its_own() {
        let mut queue = Priority::new(&Config { packets: Some(2), ..Config::default() });
        fill(&mut queue, &[(0, 1), (0, 2), (0, 3), (46, 4), (46, 5), (46, 6), (46, 7)]);
        assert_eq!(queue.dropped, [2, 1]);
        assert_eq!((queue.most_packets.get(), queue.most_bytes.get()), (4, 4 * 40 + 12));
        let wider = Config { expedited: Dscps::try_from(vec![0, 46]).expect("DSCPs"), ..Config::default() };
        queue.set(&Discipline::Priority(wider), Time::ZERO).expect("the same discipline");
        fill(&mut queue, &[(0, 8)]);
        assert_eq!(lens(&mut queue), [4, 5, 8, 1, 2]);
        assert!(queue.set(&Discipline::default(), Time::ZERO).is_err());
    }

    #[test]
    fn sets_of_codepoints_are_read_back_and_have_six_bits() {
        let dscps: Dscps = serde_json::from_str("[46, 0, 34]").expect("DSCPs");
        assert_eq!(serde_json::to_string(&dscps).expect("text"), "[0,34,46]");
        assert!(dscps.contains(34) && !dscps.contains(10) && !dscps.contains(64));
        assert!(serde_json::from_str::<Dscps>("[64]").is_err());
    }
}
