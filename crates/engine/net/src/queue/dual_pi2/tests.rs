use std::collections::VecDeque;

use bentpipe_wire::ip::Protocol;

use super::*;

fn queue(config: &Config) -> DualPi2 {
    DualPi2::new(config).expect("possible")
}

fn millis(millis: u64) -> Span {
    Span::from_millis(millis)
}

fn micros(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn packet_of(ecn: Ecn, len: u32) -> Packet {
    let mut packet = Packet::new(20, len - 20);
    let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    ip::Repr::new(from, to, Protocol::UDP, len as usize - 20).emit(packet.header_mut());
    let mut view = ip::Packet::new_elided(packet.header_mut(), len as usize - 20).expect("IP");
    view.mark_ecn(ecn);
    packet
}

fn packet(ecn: Ecn) -> Packet {
    packet_of(ecn, 1000)
}

fn ecn_of(packet: &Packet) -> Ecn {
    let elided = packet.len() - packet.header().len();
    ip::Packet::new_elided(packet.header(), elided).expect("IP").traffic_class().ecn()
}

/// A queue at this base probability, with so much that the probability acts.
fn at(probability: f64, config: &Config) -> DualPi2 {
    let (mut queue, mut stream) = (queue(config), RandomStream::new(1, "dualpi2"));
    (0..4).for_each(|_| queue.enqueue(packet(Ecn::Ect0), Time::ZERO, &mut stream));
    queue.state.probability = probability;
    queue
}

/// Shares of 100,000 packets that are marked and dropped.
fn fates(queue: &mut DualPi2, side: Side, ecn: Ecn) -> [f64; 2] {
    let mut fates = [0, 0];
    for _ in 0..100_000 {
        let mut packet = packet(ecn);
        let stays = queue.judge(side, &mut packet, 0.0, true);
        fates[0] += u32::from(stays && ecn_of(&packet) == Ecn::Ce && ecn != Ecn::Ce);
        fates[1] += u32::from(!stays);
    }
    fates.map(|count| f64::from(count) / 100_000.0)
}

#[test]
fn marks_are_coupled() {
    for (probability, factor) in [(0.02, 2), (0.1, 2), (0.3, 2), (0.2, 3), (0.5, 1)] {
        let config = Config { coupling_factor: factor, ..Config::default() };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 2e-5, "{found} {expected}");
        let mut queue = at(probability, &config);
        let [l4s, none] = fates(&mut queue, Side::L4s, Ecn::Ect1);
        let [classic, no_drop] = fates(&mut queue, Side::Classic, Ecn::Ect0);
        let [no_mark, dropped] = fates(&mut queue, Side::Classic, Ecn::NotEct);
        assert_eq!([none, no_drop, no_mark], [0.0; 3]);
        near(l4s, f64::from(factor) * probability);
        // p_C = (p_CL / k)^2, by marks and drops alike (RFC 9332, 2.1).
        near(classic, (l4s / f64::from(factor)).powi(2));
        near(dropped, classic);
    }
}

#[test]
fn overload_drops_packets_of_both_queues_alike() {
    let mut queue = at(0.6, &Config::default());
    for (side, ecn) in [(Side::L4s, Ecn::Ect1), (Side::Classic, Ecn::Ect0), (Side::Classic, Ecn::NotEct)] {
        let [marked, dropped] = fates(&mut queue, side, ecn);
        assert!((dropped - 0.36).abs() < 2e-5, "{dropped}");
        // All L4S packets that are left are marked; of classic ones none is.
        assert_eq!(marked + dropped, if side == Side::L4s { 1.0 } else { dropped });
    }
    let capped = Config { drop_overload: false, coupling_factor: 4, ..Config::default() };
    let state = State { probability: 0.2, old_delay: Span::ZERO }.updated(Span::from_secs(1), &capped);
    assert_eq!(state.probability, 0.25);
    let mut queue = at(state.probability, &capped);
    assert_eq!(fates(&mut queue, Side::L4s, Ecn::Ect1), [1.0, 0.0]);
    assert_eq!(fates(&mut queue, Side::Classic, Ecn::Ect0), [0.0625, 0.0]);
}

#[test]
fn the_probability_follows_the_longer_delay_and_its_growth() {
    let state = |delay, old| {
        State { probability: 0.1, old_delay: millis(old) }.updated(millis(delay), &Config::default())
    };
    assert!((state(20, 18).probability - (0.1 + 0.16 * 0.005 + 3.2 * 0.002)).abs() < 1e-15);
    assert!((state(10, 12).probability - (0.1 - 0.16 * 0.005 - 3.2 * 0.002)).abs() < 1e-15);
    assert_eq!(state(0, 100).probability, 0.0);
    assert_eq!(state(2000, 0).probability, 1.0);
    let (mut queue, mut stream) = (queue(&Config::default()), RandomStream::new(1, "dualpi2"));
    queue.enqueue(packet(Ecn::Ect1), micros(1_000), &mut stream);
    queue.enqueue(packet(Ecn::Ect0), micros(6_000), &mut stream);
    assert_eq!(queue.delay(micros(16_000)), millis(15));
    queue.dequeue(micros(16_000));
    assert_eq!(queue.delay(micros(16_000)), millis(10), "the L4S packet has left");
}

#[test]
fn skipped_updates_change_nothing() {
    for (waits, probability) in [(false, 0.7), (false, 0.0), (true, 0.0), (true, 0.4)] {
        let (mut skipping, mut stream) = (queue(&Config::default()), RandomStream::new(1, "dualpi2"));
        skipping.state.probability = probability;
        if waits {
            skipping.enqueue(packet(Ecn::NotEct), Time::ZERO, &mut stream);
        }
        let mut state = skipping.state;
        for tick in 1..=225_000 {
            let age = if waits { millis(16 * tick) } else { Span::ZERO };
            state = state.updated(age, &skipping.config);
        }
        skipping.catch_up(Time::ZERO + millis(16 * 225_000 + 15));
        assert_eq!((skipping.state, skipping.next_update), (state, Time::ZERO + millis(16 * 225_001)));
    }
}

#[test]
fn l4s_packets_are_marked_above_a_step_or_within_a_ramp() {
    let micros = Span::from_micros;
    let step = Config::default();
    assert_eq!([999, 1000, 1001].map(|us| step.native(micros(us))), [0.0, 0.0, 1.0]);
    let ramp = Config { step_thresh: micros(800), step_range: micros(400), ..step };
    assert_eq!([800, 900, 1000, 1200, 5000].map(|us| ramp.native(micros(us))), [0.0, 0.25, 0.5, 1.0, 1.0]);
}

#[test]
fn few_packets_that_wait_keep_the_step_from_marking() {
    let marks = |min_qlen_step| {
        let (mut queue, mut stream) =
            (queue(&Config { min_qlen_step, ..Config::default() }), RandomStream::new(1, "dualpi2"));
        (0..4).for_each(|_| queue.enqueue(packet(Ecn::Ect1), Time::ZERO, &mut stream));
        let left = |_| ecn_of(&queue.dequeue(micros(2000)).expect("a packet")) == Ecn::Ce;
        (0..4).map(left).collect::<Vec<_>>()
    };
    assert_eq!(marks(0), [true; 4]);
    assert_eq!(marks(2), [false, false, true, true]);
}

#[test]
fn classic_packets_keep_their_share_of_the_line() {
    for percent in [0, 10, 50] {
        let config = Config { alpha: 0.0, beta: 0.0, c_protection: percent, ..Config::default() };
        let (mut queue, mut stream) = (queue(&config), RandomStream::new(1, "dualpi2"));
        for _ in 0..4000 {
            queue.enqueue(packet_of(Ecn::Ect1, 1500), Time::ZERO, &mut stream);
            queue.enqueue(packet_of(Ecn::NotEct, 300), Time::ZERO, &mut stream);
        }
        let mut bytes = [0_u64; 2];
        for _ in 0..2000 {
            let packet = queue.dequeue(Time::ZERO).expect("a packet");
            bytes[Side::of(&packet) as usize] += packet.len() as u64;
        }
        let share = bytes[1] as f64 / (bytes[0] + bytes[1]) as f64;
        assert!((share - f64::from(percent) / 100.0).abs() < 0.005, "{share} of {percent} %");
    }
}

/// The pseudocode of RFC 9332, figures 3, 4, 5, 7 and 8, in seconds and bytes, with Linux's round robin.
struct Pseudocode {
    queues: [VecDeque<(f64, u32)>; 2],
    sums: [f64; 2],
    base: f64,
    last: f64,
    credits: f64,
    next: f64,
}

impl Pseudocode {
    fn backlog(&self) -> u32 {
        self.queues.iter().flatten().map(|(_, len)| len).sum()
    }

    fn update(&mut self, now: f64) {
        while self.next <= now {
            let age = |queue: &VecDeque<(f64, u32)>| queue.front().map_or(0.0, |(at, _)| self.next - at);
            let delay = age(&self.queues[0]).max(age(&self.queues[1]));
            self.base += 0.16 * (delay - 0.015) + 3.2 * (delay - self.last);
            self.base = self.base.clamp(0.0, 1.0);
            (self.last, self.next) = (delay, self.next + 0.016);
        }
    }

    fn recur(&mut self, lane: usize, likelihood: f64) -> bool {
        self.sums[lane] += likelihood;
        let strikes = self.sums[lane] >= 1.0;
        self.sums[lane] -= f64::from(u8::from(strikes));
        strikes
    }

    /// Returns the lane, length and mark of the packet that leaves.
    fn dequeue(&mut self, now: f64) -> Option<(usize, u32, bool)> {
        self.update(now);
        while self.backlog() > 0 {
            let both = !self.queues[0].is_empty() && !self.queues[1].is_empty();
            let lane =
                if both { usize::from(self.credits > 0.0) } else { usize::from(self.queues[0].is_empty()) };
            let (at, len) = self.queues[lane].pop_front().expect("a packet");
            let base = if self.backlog() < 3000 { 0.0 } else { self.base };
            let is_overload = base * 2.0 > 1.0;
            let mut marked = false;
            if lane == 0 && !is_overload {
                let native = f64::from(u8::from(now - at > 0.001));
                marked = self.recur(0, native.max(base * 2.0));
            } else if lane == 0 {
                if self.recur(0, base * base) {
                    continue;
                }
                marked = true;
            } else if self.recur(1, base * base) {
                continue;
            }
            if both {
                self.credits += f64::from(len) * if lane == 0 { 10.0 } else { -90.0 };
            }
            return Some((lane, len, marked));
        }
        self.credits = 1500.0 * (10.0 - 90.0);
        None
    }
}

#[test]
fn packets_fare_as_in_the_pseudocode() {
    let (mut queue, mut stream) = (queue(&Config::default()), RandomStream::new(1, "dualpi2"));
    let mut oracle = Pseudocode {
        queues: Default::default(),
        sums: [0.0; 2],
        base: 0.0,
        last: 0.0,
        credits: -120_000.0,
        next: 0.016,
    };
    let mut draws = RandomStream::new(2, "load");
    let (mut marks, mut sent) = (0, 0);
    // A packet each 100 us, of 12 lengths, by a line of one in 120 us on average: a load that swings about it.
    for n in 0..200_000_u64 {
        // An odd number of nanoseconds keeps instants apart from updates and thresholds.
        let now = Time::from_nanos(100_000 * n + 7 * (n % 9) + 1);
        let load = if n / 20_000 % 2 == 0 { 0.95 } else { 0.6 };
        if draws.chance(load) && queue.packets() < 5000 {
            let (lane, len) = (usize::from(draws.chance(0.4)), 100 * (1 + (draws.unit() * 12.0) as u32));
            queue.enqueue(packet_of([Ecn::Ect1, Ecn::NotEct][lane], len), now, &mut stream);
            oracle.update(now.as_secs_f64());
            oracle.queues[lane].push_back((now.as_secs_f64(), len));
        }
        if n % 6 != 0 {
            let found = queue.dequeue(now).map(|packet| {
                let is_marked = ecn_of(&packet) == Ecn::Ce;
                (usize::from(ecn_of(&packet) == Ecn::NotEct), packet.len() as u32, is_marked)
            });
            assert_eq!(found, oracle.dequeue(now.as_secs_f64()), "at {now}");
            (sent, marks) =
                (sent + u32::from(found.is_some()), marks + u32::from(found.is_some_and(|it| it.2)));
        }
    }
    let [l4s, classic] = [0, 1].map(|lane: usize| queue.lanes[lane].counts);
    assert!(sent > 100_000 && marks > 10_000 && classic.aqm > 1000, "{sent} {marks} {l4s:?} {classic:?}");
}

/// Sender of full packets with a congestion window, as long as the line's other end acknowledges each.
struct Saw {
    ecn: Ecn,
    window: f64,
    in_flight: f64,
    /// Packets sent, and those sent when the window was cut last.
    sent: u64,
    recover: u64,
    acked: u64,
    marked: u64,
    /// Share of marks, averaged (DCTCP).
    alpha: f64,
    delivered: u64,
}

impl Saw {
    fn new(ecn: Ecn, more: f64) -> Saw {
        let (window, in_flight) = (10.0 + more, 0.0);
        let (sent, recover, acked, marked, delivered) = (0, 0, 0, 0, 0);
        Saw { ecn, window, in_flight, sent, recover, acked, marked, alpha: 1.0, delivered }
    }

    /// Handles the acknowledgement of packet `number`.
    ///
    /// Reno halves its window once a round trip with a mark (RFC 3168), DCTCP reduces it by half the share of marks (RFC 8257).
    fn acknowledge(&mut self, number: u64, is_marked: bool) {
        (self.in_flight, self.acked) = (self.in_flight - 1.0, self.acked + 1);
        (self.delivered, self.marked) = (self.delivered + 1, self.marked + u64::from(is_marked));
        self.window += 1.0 / self.window;
        let is_scalable = self.ecn == Ecn::Ect1;
        if number < self.recover {
            return;
        }
        if is_scalable {
            self.alpha += (self.marked as f64 / self.acked as f64 - self.alpha) / 16.0;
            if self.marked > 0 {
                self.window *= 1.0 - self.alpha / 2.0;
            }
            (self.marked, self.acked, self.recover) = (0, 0, self.sent);
        } else if is_marked {
            (self.window, self.recover) = (self.window / 2.0, self.sent);
        }
        self.window = self.window.max(2.0);
    }
}

/// Returns packets delivered to ten scalable and ten classic senders, and mean delays in seconds.
///
/// They share 40 Mbit/s; those from the 20th to the 60th second count.
fn shares(round_trip: Span) -> ([u64; 2], [f64; 2]) {
    let (mut queue, mut stream) = (queue(&Config::default()), RandomStream::new(1, "dualpi2"));
    let mut saws: Vec<Saw> =
        (0..20).map(|n| Saw::new([Ecn::Ect1, Ecn::Ect0][n / 10], (n % 10) as f64)).collect();
    let takes = Span::from_micros(300);
    let mut acks: VecDeque<(Time, usize, u64, bool)> = VecDeque::new();
    let (mut numbers, mut before) = ([VecDeque::new(), VecDeque::new()], [0; 2]);
    let delivered =
        |saws: &[Saw]| [0, 10].map(|n| saws[n..n + 10].iter().map(|saw| saw.delivered).sum::<u64>());
    for slot in 0..200_000_u64 {
        let now = Time::ZERO + takes * slot;
        while let Some((_, n, number, is_marked)) = acks.front().copied().filter(|ack| ack.0 <= now) {
            saws[n].acknowledge(number, is_marked);
            acks.pop_front();
        }
        for (n, saw) in saws.iter_mut().enumerate() {
            while saw.in_flight + 1.0 <= saw.window {
                queue.enqueue(packet_of(saw.ecn, 1500), now, &mut stream);
                numbers[n / 10].push_back((n, saw.sent));
                (saw.in_flight, saw.sent) = (saw.in_flight + 1.0, saw.sent + 1);
            }
        }
        let l4s = queue.lanes[0].delays.len();
        if let Some(packet) = queue.dequeue(now) {
            // A mark hides the codepoint, but not the queue.
            let lane = usize::from(queue.lanes[0].delays.len() == l4s);
            let (n, number) = numbers[lane].pop_front().expect("none is dropped");
            acks.push_back((now + takes + round_trip, n, number, ecn_of(&packet) == Ecn::Ce));
        }
        if slot == 66_667 {
            before = delivered(&saws);
        }
    }
    let delays = [0, 1].map(|n: usize| queue.lanes[n].delays.mean().map_or(0.0, Span::as_secs_f64));
    let after = delivered(&saws);
    ([after[0] - before[0], after[1] - before[1]], delays)
}

/// Windows are 2 / p_L (DCTCP) and sqrt(3/2) / sqrt(p_C) (Reno), and p_C = (p_L / 2)^2.
///
/// So classic windows are sqrt(3/2) times the others, and rates are windows over round trips. That is of a steady probability, and so of
/// several senders: one that halves its window moves it too far.
#[test]
fn scalable_and_classic_senders_share_a_line_as_their_laws_say() {
    for base in [20, 60, 100] {
        let ([scalable, classic], delays) = shares(millis(base));
        let round_trips = delays.map(|delay| delay + base as f64 / 1000.0);
        let ratio = classic as f64 / scalable as f64;
        let expected = 1.5_f64.sqrt() * round_trips[0] / round_trips[1];
        assert!((ratio / expected - 1.0).abs() < 0.2, "{base} ms: {ratio} {expected} {delays:?}");
        assert!((0.66..1.5).contains(&ratio), "{base} ms: {ratio}");
        let used = (scalable + classic) as f64 / 133_333.0;
        assert!(used > 0.99 && delays[0] < 0.001 && delays[1] < 0.018, "{base} ms: {used} {delays:?}");
    }
}

/// L4S packets at twice the line's rate, from a source that does not answer: half are dropped, at the classic target.
#[test]
fn overload_by_l4s_is_kept_to_the_target() {
    let config = Config { packets: 100_000, ..Config::default() };
    let (mut queue, mut stream) = (queue(&config), RandomStream::new(1, "dualpi2"));
    let (mut waited, mut sent) = (0.0, 0.0);
    for half in 0..240_000_u64 {
        let now = Time::from_nanos(500_000 * half);
        let age = queue.delay(now);
        if half % 2 == 0 && queue.dequeue(now).is_some() && half > 120_000 {
            (waited, sent) = (waited + age.as_secs_f64(), sent + 1.0);
        }
        queue.enqueue(packet(Ecn::Ect1), now, &mut stream);
    }
    let share = queue.lanes[0].counts.aqm as f64 / 240_000.0;
    assert!((share - 0.5).abs() < 0.02, "{share}");
    assert!((waited / sent - 0.015_f64).abs() < 0.002, "mean delay {}", waited / sent);
}

#[test]
fn arrivals_are_judged_where_it_is_asked_for() {
    let mut queue = at(0.4, &Config { drop_early: true, alpha: 0.0, beta: 0.0, ..Config::default() });
    let mut stream = RandomStream::new(1, "dualpi2");
    (0..1000).for_each(|_| queue.enqueue(packet(Ecn::NotEct), Time::ZERO, &mut stream));
    // 0.16 of 1000, less one for the rest of a sum.
    assert_eq!((queue.lanes[1].counts.aqm, queue.packets()), (160, 844));
    while queue.dequeue(Time::ZERO).is_some() {}
    assert_eq!(queue.lanes[1].counts.aqm, 160, "departures are not");
}

#[test]
fn limits_hold_for_both_queues_together() {
    let mut queue = queue(&Config { packets: 3, bytes: Some(Bytes::new(2500)), ..Config::default() });
    let mut stream = RandomStream::new(1, "dualpi2");
    for ecn in [Ecn::Ect1, Ecn::NotEct, Ecn::Ect1] {
        queue.enqueue(packet(ecn), Time::ZERO, &mut stream);
    }
    assert_eq!((queue.packets(), queue.bytes(), queue.lanes[0].counts.limit), (2, 2000, 1));
    (0..2).for_each(|_| queue.enqueue(packet_of(Ecn::Ce, 100), Time::ZERO, &mut stream));
    assert_eq!((queue.packets(), queue.lanes[0].counts.limit, queue.l4s_tally.packets()), (3, 2, 2));
}

#[test]
fn impossible_values_are_refused() {
    let key = |config: Config| DualPi2::new(&config).err().map(|error| error.key);
    assert_eq!(key(Config { target: Span::ZERO, ..Config::default() }), Some("target"));
    assert_eq!(key(Config { tupdate: Span::from_micros(999), ..Config::default() }), Some("tupdate"));
    assert_eq!(key(Config { alpha: -1.0, ..Config::default() }), Some("alpha"));
    assert_eq!(key(Config { beta: f64::NAN, ..Config::default() }), Some("beta"));
    assert_eq!(key(Config { coupling_factor: 0, ..Config::default() }), Some("coupling_factor"));
    assert_eq!(key(Config { c_protection: 101, ..Config::default() }), Some("c_protection"));
    assert_eq!(key(Config::default()), None);
    let mut queue = queue(&Config::default());
    assert!(queue.set(&Discipline::default(), Time::ZERO).is_err());
    let other = Config { c_protection: 50, ..Config::default() };
    queue.set(&Discipline::DualPi2(other), Time::ZERO).expect("the same discipline");
}
