//! Drop tail: first in, first out, and what does not fit is dropped.

use std::collections::VecDeque;

use bentpipe_units::{Bytes, Stream, Time};

use super::{Discipline, OTHER_KIND, Queue};
use crate::{Impossible, Observer, Packet, Unit};

/// The most packets that a queue holds, whatever its limits: a gigabyte of memory, and seconds of any line.
const MOST_PACKETS: usize = 1 << 22;

/// How much a drop-tail queue holds, the packet in transmission not counted: in any case no more than 4194304 packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Config {
    /// The most packets that wait. Default: no limit but 4194304.
    pub packets: Option<u32>,
    /// The most bytes that wait, counted as IP packets. Default: no limit.
    pub bytes: Option<Bytes>,
}

/// A drop-tail queue.
#[derive(Debug)]
pub struct DropTail {
    waiting: Backlog,
    limit_packets: usize,
    limit_bytes: u64,
    dropped: u64,
}

impl DropTail {
    /// An empty queue.
    pub fn new(config: &Config) -> DropTail {
        let mut queue =
            DropTail { waiting: Backlog::default(), limit_packets: 0, limit_bytes: 0, dropped: 0 };
        queue.limit(config);
        queue
    }

    fn limit(&mut self, config: &Config) {
        self.limit_packets =
            config.packets.map_or(MOST_PACKETS, |packets| (packets as usize).min(MOST_PACKETS));
        self.limit_bytes = config.bytes.map_or(u64::MAX, Bytes::get);
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, packet: Packet, _now: Time, _stream: &mut Stream) {
        let fits = self.waiting.packets() < self.limit_packets
            && self.waiting.bytes() + packet.len() as u64 <= self.limit_bytes;
        if fits {
            self.waiting.push(packet);
        } else {
            self.dropped += 1;
        }
    }

    fn pass(&mut self, packet: Packet, _: Time, _: Time, _: &mut Stream) -> Option<Packet> {
        Some(packet)
    }

    fn dequeue(&mut self, _now: Time) -> Option<Packet> {
        self.waiting.pop()
    }

    fn packets(&self) -> usize {
        self.waiting.packets()
    }

    fn bytes(&self) -> u64 {
        self.waiting.bytes()
    }

    fn set(&mut self, discipline: &Discipline) -> Result<(), Impossible> {
        let Discipline::DropTail(config) = discipline else { return Err(OTHER_KIND) };
        self.limit(config);
        Ok(())
    }

    fn observe(&self, observer: &mut dyn Observer) {
        observer.counter("dropped-queue", Unit::Packets, self.dropped);
        self.waiting.observe(observer);
    }
}

/// Packets in the order they came, their bytes counted.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    packets: VecDeque<Packet>,
    bytes: u64,
    max_packets: usize,
    max_bytes: u64,
}

impl Backlog {
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) {
        self.bytes += packet.len() as u64;
        self.packets.push_back(packet);
        self.max_packets = self.max_packets.max(self.packets.len());
        self.max_bytes = self.max_bytes.max(self.bytes);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len() as u64;
        Some(packet)
    }

    /// The packet that is to leave next.
    pub(crate) fn first(&self) -> Option<&Packet> {
        self.packets.front()
    }

    pub(crate) fn packets(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reports how much waits and how much ever did.
    pub(crate) fn observe(&self, observer: &mut dyn Observer) {
        observer.gauge("queue", Unit::Packets, self.packets.len() as f64);
        observer.gauge("queue-bytes", Unit::Bytes, self.bytes as f64);
        observer.gauge("queue-max", Unit::Packets, self.max_packets as f64);
        observer.gauge("queue-max-bytes", Unit::Bytes, self.max_bytes as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(config: Config, lens: &[u32]) -> (usize, u64, u64) {
        let mut queue = DropTail::new(&config);
        let mut stream = Stream::new(1, "queue");
        for &len in lens {
            queue.enqueue(Packet::new(20, len - 20), Time::ZERO, &mut stream);
        }
        (queue.packets(), queue.bytes(), queue.dropped)
    }

    #[test]
    fn limits_count_what_waits() {
        let lens = [1000, 500, 100, 1000];
        assert_eq!(fill(Config::default(), &lens), (4, 2600, 0));
        assert_eq!(fill(Config { packets: Some(2), bytes: None }, &lens), (2, 1500, 2));
        assert_eq!(fill(Config { packets: None, bytes: Some(Bytes::new(1100)) }, &lens), (2, 1100, 2));
        assert_eq!(fill(Config { packets: Some(0), bytes: None }, &lens), (0, 0, 4));
        for packets in [None, Some(u32::MAX)] {
            assert_eq!(DropTail::new(&Config { packets, bytes: None }).limit_packets, 4_194_304);
        }
    }

    #[test]
    fn a_lower_limit_drops_nothing_that_waits() {
        let mut queue = DropTail::new(&Config::default());
        let mut stream = Stream::new(1, "queue");
        let mut arrive = |queue: &mut DropTail| queue.enqueue(Packet::new(20, 80), Time::ZERO, &mut stream);
        (0..3).for_each(|_| arrive(&mut queue));
        queue.set(&Discipline::DropTail(Config { packets: Some(2), bytes: None })).expect("possible");
        assert_eq!((queue.packets(), queue.dropped), (3, 0));
        arrive(&mut queue);
        assert_eq!((queue.packets(), queue.dropped), (3, 1));
        (0..2).for_each(|_| assert!(queue.dequeue(Time::ZERO).is_some()));
        arrive(&mut queue);
        assert_eq!((queue.packets(), queue.dropped), (2, 1));
    }

    #[test]
    fn packets_leave_in_their_order() {
        let mut queue = DropTail::new(&Config::default());
        let mut stream = Stream::new(1, "queue");
        (20..30).for_each(|len| queue.enqueue(Packet::new(len, 0), Time::ZERO, &mut stream));
        let lens: Vec<usize> = std::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|p| p.len()).collect();
        assert_eq!(lens, (20..30).collect::<Vec<_>>());
        assert_eq!(queue.bytes(), 0);
    }
}
