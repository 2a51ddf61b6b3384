use bentpipe_wire::ip::{self, Ecn, Protocol};

use super::*;

/// An IPv4 packet of `len` bytes.
fn packet(len: u32, ecn: Ecn) -> Packet {
    let payload = len - 20;
    let mut packet = Packet::new(20, payload);
    let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    ip::Repr::new(from, to, Protocol::UDP, payload as usize).emit(packet.header_mut());
    let mut view = ip::Packet::new_elided(packet.header_mut(), payload as usize).expect("IP");
    view.mark_ecn(ecn);
    packet
}

fn micros(micros: u64) -> Time {
    Time::from_nanos(1000 * micros)
}

/// Runs a line that serves a packet each millisecond while two arrive. Returns the instants of drops and marks in microseconds.
fn struck(config: &Config, ecn: Ecn, millis: u64) -> Vec<u64> {
    let mut queue = CoDel::new(config).expect("possible");
    let mut stream = RandomStream::new(1, "codel");
    let (mut instants, mut before) = (Vec::new(), 0);
    for half in 0..2 * millis {
        let now = micros(500 * half);
        if half % 2 == 0 {
            queue.dequeue(now);
            let all = queue.counts.aqm + queue.counts.marked;
            instants.extend((before..all).map(|_| 500 * half));
            before = all;
        }
        queue.enqueue(packet(1000, ecn), now, &mut stream);
    }
    instants
}

/// The law's closed form: the first drop an interval after the sojourn time reached the target, then steps of interval/sqrt(n).
#[test]
fn drops_come_at_intervals_over_roots() {
    // The packet that is served at t came at (t - 1 ms)/2: the first sojourn time of 5 ms is at 9 ms.
    let (first, mut at) = (109_000.0, 109_000.0);
    let mut expected = vec![first];
    for n in 1..60 {
        at += 100_000.0 / f64::from(n).sqrt();
        expected.push(at);
    }
    let served = |at: &f64| (at / 1000.0).ceil() as u64 * 1000;
    let found = struck(&Config { packets: 100_000, ..Config::default() }, Ecn::NotEct, 900);
    // A drop removes a packet, so that later ones wait a little less; the schedule does not depend on it.
    let count = found.len();
    assert!(count > 14, "{found:?}");
    assert_eq!(found, expected[..count].iter().map(served).collect::<Vec<_>>());
}

#[test]
fn capable_transports_are_marked_at_the_same_instants() {
    let config = Config { packets: 100_000, ecn: true, ..Config::default() };
    let marked = struck(&config, Ecn::Ect0, 900);
    assert_eq!(marked, struck(&config, Ecn::NotEct, 900));
    let mut queue = CoDel::new(&config).expect("possible");
    let mut stream = RandomStream::new(1, "codel");
    (0..400).for_each(|_| queue.enqueue(packet(1000, Ecn::Ect0), Time::ZERO, &mut stream));
    let served = (0..300).filter_map(|n| queue.dequeue(micros(1000 * n)));
    let is_ce = |packet: &Packet| {
        let elided = packet.len() - packet.header().len();
        let ip = ip::Packet::new_elided(packet.header(), elided).expect("IP");
        ip.traffic_class().ecn() == Ecn::Ce
    };
    let (all, with_ce) = served.fold((0, 0), |(all, ce), packet| (all + 1, ce + u64::from(is_ce(&packet))));
    assert_eq!((all, queue.counts.aqm), (300, 0));
    // At 105 ms, 100 ms later, and 100/sqrt 2 ms later.
    assert_eq!((with_ce, queue.counts.marked), (3, 3));
}

#[test]
fn one_packet_may_always_wait() {
    let mut queue = CoDel::new(&Config::default()).expect("possible");
    let mut stream = RandomStream::new(1, "codel");
    // A line of 24 kbit/s: each packet waits 500 ms behind the one that is sent.
    for n in 0..40 {
        queue.enqueue(packet(1500, Ecn::NotEct), micros(500_000 * n), &mut stream);
        assert!(queue.dequeue(micros(500_000 * (n + 1))).is_some());
    }
    assert_eq!(queue.counts.aqm, 0);
}

#[test]
fn impossible_values_are_refused() {
    let key = |config: Config| CoDel::new(&config).err().map(|error| error.key);
    assert_eq!(key(Config { target: Span::ZERO, ..Config::default() }), Some("target"));
    assert_eq!(key(Config { interval: Span::from_millis(5), ..Config::default() }), Some("interval"));
    assert_eq!(key(Config::default()), None);
}

/// The pseudocode of RFC 8289, 5.5 and 5.6, on packets that are lengths and arrivals in microseconds.
#[derive(Default)]
struct Pseudocode {
    queue: std::collections::VecDeque<(u64, u64)>,
    max_packet: u64,
    first_above: f64,
    drop_next: f64,
    count: u64,
    last_count: u64,
    dropping: bool,
    dropped: u64,
}

impl Pseudocode {
    const TARGET: f64 = 5000.0;
    const INTERVAL: f64 = 100_000.0;

    fn dodequeue(&mut self, now: f64) -> (Option<(u64, u64)>, bool) {
        let Some((came, len)) = self.queue.pop_front() else {
            self.first_above = 0.0;
            return (None, false);
        };
        let bytes: u64 = self.queue.iter().map(|(_, len)| len).sum();
        let mut ok = false;
        if now - (came as f64) < Self::TARGET || bytes <= self.max_packet {
            self.first_above = 0.0;
        } else if self.first_above == 0.0 {
            self.first_above = now + Self::INTERVAL;
        } else if now >= self.first_above {
            ok = true;
        }
        (Some((came, len)), ok)
    }

    fn dequeue(&mut self, now: f64) -> Option<(u64, u64)> {
        let law = |t: f64, count: u64| t + Self::INTERVAL / (count as f64).sqrt();
        let (mut packet, mut ok) = self.dodequeue(now);
        if self.dropping {
            self.dropping &= ok;
            while now >= self.drop_next && self.dropping {
                self.dropped += 1;
                self.count += 1;
                (packet, ok) = self.dodequeue(now);
                if ok {
                    self.drop_next = law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            self.dropped += 1;
            (packet, _) = self.dodequeue(now);
            self.dropping = true;
            let delta = self.count - self.last_count;
            self.count = if delta > 1 && now - self.drop_next < 16.0 * Self::INTERVAL { delta } else { 1 };
            self.drop_next = law(now, self.count);
            self.last_count = self.count;
        }
        packet
    }
}

#[test]
fn packets_leave_as_in_the_pseudocode() {
    let mut stream = RandomStream::new(3, "codel");
    let mut queue = CoDel::new(&Config { packets: 100_000, ..Config::default() }).expect("possible");
    let (mut oracle, mut now, mut line) = (Pseudocode::default(), 0, 0);
    for n in 0..200_000_u64 {
        // Load that swings about the line's rate, so that cycles of drops begin and end.
        let is_busy = n / 10_000 % 2 == 0;
        now += 1 + stream.exponential(if is_busy { 800.0 } else { 1100.0 }) as u64;
        while line < now && queue.packets() > 0 {
            let found = queue.dequeue(micros(line)).map(|packet| packet.len() as u64);
            let expected = oracle.dequeue(line as f64).map(|(_, len)| len);
            assert_eq!((found, queue.counts.aqm), (expected, oracle.dropped), "at {line} us");
            // A megabyte a second.
            line += found.unwrap_or(0);
        }
        line = line.max(now);
        let len = 40 + (stream.unit() * 1460.0) as u64;
        oracle.max_packet = oracle.max_packet.max(len);
        oracle.queue.push_back((now, len));
        queue.enqueue(packet(len as u32, Ecn::NotEct), micros(now), &mut stream);
    }
    assert!(oracle.dropped > 500, "{}", oracle.dropped);
}
