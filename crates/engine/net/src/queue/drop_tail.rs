//! Drop tail: first in, first out, and what does not fit is dropped.

use std::collections::VecDeque;

use bentpipe_units::{Bytes, RandomStream, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tally::Tally;
use super::{Discipline, OTHER_KIND, Queue};
use crate::queue::metrics;
use crate::{InvalidConfig, Observer, Packet, Why, ledger};

/// Maximum number of packets in a queue, for any limits. That is a gigabyte of memory, and seconds of any
/// line.
pub(super) const MOST_PACKETS: usize = 1 << 22;

/// Default limit in packets, that of a Linux interface (`txqueuelen`).
pub const DEFAULT_PACKETS: u32 = 1000;

/// Limits of a drop-tail queue, without the packet in transmission.
///
/// Without both it holds 1000 packets, as a Linux interface does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Maximum number of waiting packets. Default: 1000, or 4194304 if `bytes` is given, which is also the most.
    pub packets: Option<u32>,
    /// Maximum number of waiting bytes, counted as IP packets. Default: no limit.
    pub bytes: Option<Bytes>,
}

/// Limits of what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    packets: usize,
    bytes: u64,
}

impl Limits {
    pub(super) fn new(packets: Option<u32>, bytes: Option<Bytes>) -> Limits {
        let default = if bytes.is_some() { MOST_PACKETS } else { DEFAULT_PACKETS as usize };
        let packets = packets.map_or(default, |packets| (packets as usize).min(MOST_PACKETS));
        Limits { packets, bytes: bytes.map_or(u64::MAX, Bytes::get) }
    }

    /// Returns `true` if a packet of `len` bytes may wait too.
    #[inline]
    pub(super) fn fits(self, waiting: &Backlog, len: usize) -> bool {
        waiting.packets() < self.packets && waiting.bytes() + len as u64 <= self.bytes
    }
}

/// A drop-tail queue.
#[derive(Debug)]
pub struct DropTail {
    waiting: Backlog,
    limits: Limits,
    dropped: u64,
}

impl DropTail {
    /// Creates an empty queue.
    pub fn new(config: &Config) -> DropTail {
        let limits = Limits::new(config.packets, config.bytes);
        DropTail { waiting: Backlog::default(), limits, dropped: 0 }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, packet: Packet, now: Time, _stream: &mut RandomStream) {
        if self.limits.fits(&self.waiting, packet.len()) {
            self.waiting.push(packet, now);
        } else {
            self.dropped += 1;
            packet.lose(Why::Queue);
        }
    }

    fn pass(&mut self, packet: Packet, _: Time, _: Time, _: &mut RandomStream) -> Option<Packet> {
        Some(packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        self.waiting.pop(now)
    }

    fn packets(&self) -> usize {
        self.waiting.packets()
    }

    fn bytes(&self) -> u64 {
        self.waiting.bytes()
    }

    fn set(&mut self, discipline: &Discipline, _now: Time) -> Result<(), InvalidConfig> {
        let Discipline::DropTail(config) = discipline else { return Err(OTHER_KIND) };
        self.limits = Limits::new(config.packets, config.bytes);
        Ok(())
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::DROPPED_QUEUE, self.dropped);
        self.waiting.tally().observe(now, observer);
    }
}

/// Packets in the order they came, their bytes counted.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    packets: VecDeque<Packet>,
    tally: Tally,
}

impl Drop for Backlog {
    fn drop(&mut self) {
        ledger::as_waiting(|| self.packets.clear());
    }
}

impl Backlog {
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet, now: Time) {
        self.tally.arrive(packet.len(), now);
        self.packets.push_back(packet);
    }

    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.tally.leave(packet.len(), now);
        Some(packet)
    }

    /// Returns the packet that is to leave next.
    pub(crate) fn first(&self) -> Option<&Packet> {
        self.packets.front()
    }

    #[inline]
    pub(crate) fn packets(&self) -> usize {
        self.tally.packets()
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.tally.bytes()
    }

    /// Returns what counts the packets and bytes.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Gauge, Of};

    fn fill(config: Config, lens: &[u32]) -> (usize, u64, u64) {
        let mut queue = DropTail::new(&config);
        let mut stream = RandomStream::new(1, "queue");
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
        let packets = |packets, bytes| DropTail::new(&Config { packets, bytes }).limits.packets;
        assert_eq!(packets(None, None), 1000, "a queue for which no limit is given has that of an interface");
        assert_eq!(packets(Some(u32::MAX), None), 4_194_304);
        assert_eq!(packets(None, Some(Bytes::new(1))), 4_194_304);
    }

    #[test]
    fn a_lower_limit_drops_nothing_that_waits() {
        let mut queue = DropTail::new(&Config::default());
        let mut stream = RandomStream::new(1, "queue");
        let mut arrive = |queue: &mut DropTail| queue.enqueue(Packet::new(20, 80), Time::ZERO, &mut stream);
        (0..3).for_each(|_| arrive(&mut queue));
        queue
            .set(&Discipline::DropTail(Config { packets: Some(2), bytes: None }), Time::ZERO)
            .expect("possible");
        assert_eq!((queue.packets(), queue.dropped), (3, 0));
        arrive(&mut queue);
        assert_eq!((queue.packets(), queue.dropped), (3, 1));
        (0..2).for_each(|_| assert!(queue.dequeue(Time::ZERO).is_some()));
        arrive(&mut queue);
        assert_eq!((queue.packets(), queue.dropped), (2, 1));
    }

    /// Observer that reads the mean queue, perhaps where the window starts.
    struct Seen([f64; 2], bool);

    impl Observer for Seen {
        fn counter(&mut self, _: &'static Of<crate::metric::Counter>, _: u64) {}
        fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
            match metric.name {
                "queue-mean" => self.0[0] = value,
                "queue-mean-bytes" => self.0[1] = value,
                _ => {}
            }
        }
        fn starts_window(&self) -> bool {
            self.1
        }
    }

    /// A packet of 100 B waits for 1 ms in each 100 ms, and no sample sees it. Samples each 100 ms had a mean of 0.
    #[test]
    fn the_mean_queue_is_exact_and_of_the_window() {
        let mut queue = DropTail::new(&Config::default());
        let mut stream = RandomStream::new(1, "queue");
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let seen = |queue: &DropTail, ms, starts_window| {
            let mut seen = Seen([f64::NAN; 2], starts_window);
            queue.observe(at(ms), &mut seen);
            seen.0
        };
        for n in 0..10 {
            queue.enqueue(Packet::new(20, 80), at(100 * n + 50), &mut stream);
            queue.dequeue(at(100 * n + 51));
        }
        assert_eq!(seen(&queue, 1000, true), [0.01, 1.0]);
        queue.enqueue(Packet::new(20, 80), at(1500), &mut stream);
        assert_eq!(seen(&queue, 2000, false), [0.5, 50.0]);
    }

    #[test]
    fn packets_leave_in_their_order() {
        let mut queue = DropTail::new(&Config::default());
        let mut stream = RandomStream::new(1, "queue");
        (20..30).for_each(|len| queue.enqueue(Packet::new(len, 0), Time::ZERO, &mut stream));
        let lens: Vec<usize> = std::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|p| p.len()).collect();
        assert_eq!(lens, (20..30).collect::<Vec<_>>());
        assert_eq!(queue.bytes(), 0);
    }
}
