use bentpipe_wire::ip::{self, Ecn, Protocol};

use super::*;

fn pie(config: &Config) -> Pie {
    Pie::new(config).expect("possible")
}

fn millis(millis: u64) -> Span {
    Span::from_millis(millis)
}

fn packet(ecn: Ecn) -> Packet {
    let mut packet = Packet::new(20, 980);
    ip::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, 980).emit(packet.header_mut());
    let mut view = ip::Packet::new_elided(packet.header_mut(), 980).expect("IP");
    view.mark_ecn(ecn);
    packet
}

/// A state with this probability and these delays, now and at the last update, in milliseconds.
fn state(probability: f64, delay: u64, old: u64) -> State {
    State { probability, delay: millis(delay), old_delay: millis(old), burst: Span::ZERO }
}

#[test]
fn the_probability_follows_delay_and_its_growth() {
    let next = |of: State| of.updated(&Config::default()).probability;
    for (from, divisor) in
        [(0.0, 2048.0), (5e-6, 512.0), (5e-5, 128.0), (5e-4, 32.0), (5e-3, 8.0), (0.05, 2.0), (0.15, 1.0)]
    {
        // 0.125 Hz x (20 - 15) ms + 1.25 Hz x (20 - 18) ms.
        let step = (0.125 * 0.005 + 1.25 * 0.002) / divisor;
        assert!((next(state(from, 20, 18)) - (from + step)).abs() < 1e-15, "{from}");
    }
    assert!((next(state(0.5, 900, 100)) - 0.52).abs() < 1e-12, "a step is at most 0.02");
    assert_eq!(next(state(0.995, 900, 100)), 1.0);
    assert!(
        (next(state(0.5, 0, 0)) - (0.5 - 0.001_875) * 0.98).abs() < 1e-12,
        "it decays when nothing waits"
    );
    assert_eq!(next(state(1e-7, 0, 30)), 0.0);
}

#[test]
fn skipped_updates_change_nothing() {
    let config = Config::default();
    for start in [state(0.9, 0, 40), state(0.3, 50, 10), state(0.0, 0, 0), state(0.2, 15, 15)] {
        let (mut skipping, mut stepping) = (pie(&config), start);
        skipping.state = start;
        let end = Time::ZERO + Span::from_secs(3600) + millis(7);
        skipping.catch_up(end);
        (0..3_600_007 / 15).for_each(|_| stepping = stepping.updated(&config));
        assert_eq!(skipping.state, stepping);
        assert_eq!(skipping.next_update, Time::ZERO + millis(3_600_007 / 15 * 15 + 15));
    }
}

#[test]
fn a_burst_is_let_through() {
    let (mut queue, mut stream) = (pie(&Config::default()), RandomStream::new(1, "pie"));
    // Ten times the line's rate of a packet in a millisecond, for 150 ms.
    for tenth in 0..1400_u64 {
        let now = Time::from_nanos(100_000 * tenth);
        if tenth % 10 == 0 {
            queue.dequeue(now);
        }
        if queue.packets() < 900 {
            queue.enqueue(packet(Ecn::NotEct), now, &mut stream);
        }
    }
    assert_eq!(queue.counts.aqm, 0);
}

/// Load of twice the line's rate, a packet in a millisecond, from sources that do not answer. Returns the queue after it.
fn overloaded(config: &Config, ecn: Ecn) -> (Pie, f64) {
    let (mut queue, mut stream) = (pie(config), RandomStream::new(1, "pie"));
    let (mut waited, mut served) = (0.0, 0);
    for half in 0..240_000_u64 {
        let now = Time::from_nanos(500_000 * half);
        if half % 2 == 0 && queue.dequeue(now).is_some() && half > 120_000 {
            waited += queue.state.delay.as_secs_f64();
            served += 1;
        }
        queue.enqueue(packet(ecn), now, &mut stream);
    }
    (queue, waited / f64::from(served))
}

#[test]
fn half_of_twice_the_load_is_dropped_at_the_target() {
    let config = Config { packets: 100_000, ..Config::default() };
    let (queue, delay) = overloaded(&config, Ecn::NotEct);
    let share = queue.counts.aqm as f64 / 240_000.0;
    assert!((share - 0.5).abs() < 0.02, "{share}");
    assert!((delay - 0.015).abs() < 0.002, "mean delay {delay}");
    assert!(queue.state.probability > 0.4, "{}", queue.state.probability);
}

#[test]
fn marks_end_at_their_limit() {
    let config = Config { packets: 100_000, ecn: true, ..Config::default() };
    let (queue, _) = overloaded(&config, Ecn::Ect0);
    assert!(queue.counts.marked > 0, "marked while the probability was low");
    assert!(queue.counts.aqm > 80_000, "dropped above 0.1: {}", queue.counts.aqm);
    let (never, _) = overloaded(&Config { ecn_limit: 0.0, ..config }, Ecn::Ect0);
    assert_eq!(never.counts.marked, 0);
}

#[test]
fn drops_are_evened() {
    let mut queue = pie(&Config::default());
    queue.state = state(0.3, 30, 30);
    (0..10).for_each(|_| {
        queue.tally.arrive(1000, Time::ZERO);
        queue.waiting.push(packet(Ecn::NotEct), Time::ZERO);
    });
    let mut stream = RandomStream::new(2, "pie");
    let strikes: Vec<usize> = (0..40_000).filter(|_| queue.strikes(&mut stream)).collect();
    let least = strikes.windows(2).map(|pair| pair[1] - pair[0]).min();
    assert_eq!(least, Some(3), "three times 0.3 is the first sum above 0.85");
}

#[test]
fn impossible_values_are_refused() {
    let key = |config: Config| Pie::new(&config).err().map(|error| error.key);
    assert_eq!(key(Config { target: Span::ZERO, ..Config::default() }), Some("target"));
    assert_eq!(key(Config { update: Span::from_micros(999), ..Config::default() }), Some("update"));
    assert_eq!(key(Config { alpha: f64::NAN, ..Config::default() }), Some("alpha"));
    assert_eq!(key(Config { beta: -1.0, ..Config::default() }), Some("beta"));
    assert_eq!(key(Config { ecn_limit: 1.5, ..Config::default() }), Some("ecn_limit"));
    assert_eq!(key(Config::default()), None);
}
