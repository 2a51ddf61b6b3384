use bentpipe_net::channel::Config as Fault;
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::queue::DropTailConfig;
use bentpipe_net::testing::{Harness, packet};

use super::*;

fn path(station: usize, wifi: Config) -> PathConfig {
    PathConfig {
        name: format!("link/{station}"),
        station,
        wifi,
        queue: Discipline::default(),
        errors: None,
        delay: Span::ZERO,
        mtu: Bytes::new(1500),
    }
}

/// Two stations that send to each other.
fn pair(wifi: &Config, errors: Option<Fault>) -> Harness<Wifi> {
    let errors = errors.map(Into::into);
    let paths = [PathConfig { errors, ..path(0, wifi.clone()) }, path(1, wifi.clone())];
    Harness::new(Wifi::new(&paths).expect("possible"))
}

const US: u64 = 1000;

#[test]
fn exchanges_take_the_standard_s_times() {
    let us = |exchange: Exchange| {
        [exchange.lead, exchange.first, exchange.data, exchange.ack].map(|span| span.as_nanos() / US)
    };
    let mbit = |n: u64| Rate::from_bps(n * 1_000_000);
    let of = |standard, preamble, rate, len, rts| us(Exchange::of(standard, preamble, mbit(rate), len, rts));
    // 1036 bytes at 11 Mbit/s take 753.5 us, rounded up, behind 192 or 96; an ACK at 2 Mbit/s 56.
    assert_eq!(of(Standard::B, Preamble::Long, 11, 1000, false), [0, 946, 946, 10 + 248]);
    assert_eq!(of(Standard::B, Preamble::Short, 11, 1000, false), [0, 850, 850, 10 + 152]);
    // At 1 Mbit/s everything is long: the data, and an ACK of 112 us.
    assert_eq!(of(Standard::B, Preamble::Short, 1, 100, false), [0, 1280, 1280, 10 + 304]);
    // RTS 192 + 80, CTS as an ACK, a gap behind each.
    assert_eq!(of(Standard::B, Preamble::Long, 11, 1000, true), [272 + 10 + 248 + 10, 272, 946, 258]);
    // 1536 bytes are 22 + 12288 bits: 57 symbols of 216 at 54 Mbit/s, 513 of 24 at 6; an ACK at 24 two symbols.
    assert_eq!(of(Standard::G, Preamble::Long, 54, 1500, false), [0, 254, 254, 10 + 34]);
    assert_eq!(of(Standard::G, Preamble::Long, 6, 1500, false), [0, 2078, 2078, 10 + 50]);
    assert_eq!(of(Standard::GMixed, Preamble::Long, 54, 1500, false), [258, 512, 254, 44]);
    let timing = Timing::of(Standard::B);
    let spans = [timing.difs, timing.eifs, timing.ack_timeout].map(|span| span.as_nanos() / US);
    assert_eq!(spans, [50, 364, 222]);
    assert_eq!(Timing::of(Standard::G).eifs.as_nanos() / US, 88);
}

#[test]
fn a_first_frame_waits_for_difs_and_the_next_for_a_backoff_too() {
    let mut rig = pair(&Config::default(), None);
    rig.receive(0, 0, packet(1000));
    (0..200).for_each(|_| rig.receive(0, 0, packet(1000)));
    rig.run_until(2_000_000 * US);
    let times: Vec<u64> = rig.times().iter().map(|(at, _)| at / US).collect();
    assert_eq!((times[0], times.len()), (50 + 946, 201));
    // From one arrival to the next: ACK 258, DIFS 50, 0 to 31 slots, frame 946.
    let slots: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0] - (258 + 50 + 946)).collect();
    assert!(slots.iter().all(|us| us.is_multiple_of(20) && *us <= 31 * 20));
    let mean = slots.iter().sum::<u64>() as f64 / 200.0 / 20.0;
    assert!((mean - 15.5).abs() < 4.0 * 9.2 / 200_f64.sqrt(), "{mean}");
    // Long after the last frame the backoff is over and the medium idle: the next goes at once.
    rig.receive(2_000_500 * US, 0, packet(1000));
    rig.run_until(3_000_000 * US);
    assert_eq!(rig.times().last().map(|(at, _)| at / US), Some(2_000_500 + 946));
}

#[test]
fn a_frame_is_sent_again_until_the_limit() {
    let wifi = Config { attempts: 4, runs: true, ..Config::default() };
    let mut rig = pair(&wifi, Some(Fault::PacketErrors { loss: 1.0 }));
    rig.receive(0, 0, packet(1000));
    rig.run_until(1_000_000 * US);
    assert!(rig.out.is_empty());
    let mut rig = pair(&wifi, Some(Fault::PacketErrors { loss: 0.3 }));
    // Slowly enough that each is done with before the next.
    (0..20_000).for_each(|n| rig.receive(n * 100_000 * US, 0, packet(1000)));
    rig.run_until(20_000 * 100_000 * US);
    let (dropped, sent) = (first(&mut rig, "dropped-retries"), first(&mut rig, "frames-sent"));
    // Of n packets n p^4 are lost; a packet takes (1 - p^4) / (1 - p) transmissions.
    assert!((dropped - 20_000.0 * 0.3_f64.powi(4)).abs() < 4.0 * 12.7, "{dropped}");
    assert!((sent / 20_000.0 - (1.0 - 0.3_f64.powi(4)) / 0.7).abs() < 0.025, "{sent}");
    assert_eq!(rig.out.len() as f64, 20_000.0 - dropped);
    assert!((first(&mut rig, "burst-mean") - 1.0 / 0.7).abs() < 0.04);
    assert!((first(&mut rig, "gap-mean") - 1.0 / 0.3).abs() < 0.1);
}

#[test]
fn a_look_sees_the_exchanges_until_then() {
    let wifi = Config { attempts: 1, ..Config::default() };
    let lossy = PathConfig { errors: Some(Fault::PacketErrors { loss: 0.5 }.into()), ..path(0, wifi) };
    let mut rig = Harness::new(Wifi::new(&[lossy]).expect("possible"));
    (0..20).for_each(|_| rig.receive(0, 0, packet(1000)));
    let mut before = [0.0; 2];
    for step in 1..10_000 {
        rig.run_until(step * 10 * US);
        let seconds = step as f64 * 1e-5;
        // A packet that left before the last look would take its time in the queue back.
        let seen = [rig.value("queue-mean") * seconds, rig.value("medium-busy")];
        assert!(seen[0] >= before[0] - 1e-12, "{seconds} s: {seen:?}, {before:?}");
        assert!((-1e-12..1e-5 + 1e-12).contains(&(seen[1] - before[1])), "{seconds} s: {seen:?}, {before:?}");
        before = seen;
    }
    assert_eq!(rig.value("queue"), 0.0);
}

#[test]
fn a_queue_and_an_mtu_are_kept() {
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(2), bytes: None });
    let wifi = Config::default();
    let paths = [PathConfig { queue, ..path(0, wifi.clone()) }, path(1, wifi)];
    let mut rig = Harness::new(Wifi::new(&paths).expect("possible"));
    rig.receive(0, 0, packet(1501));
    (0..5).for_each(|_| rig.receive(0, 0, packet(1000)));
    rig.run_until(100_000 * US);
    // One in hand and two waiting.
    assert_eq!(rig.out.len(), 3);
    assert_eq!((first(&mut rig, "dropped-too-big"), first(&mut rig, "dropped-queue")), (1.0, 2.0));
}

#[test]
fn a_packet_to_a_group_is_sent_once_at_the_lowest_rate() {
    let mut bytes = [0; 100];
    (bytes[0], bytes[16]) = (0x45, 239);
    let group = Packet::from_bytes(&bytes);
    let mut rig = pair(&Config::default(), None);
    rig.receive(0, 0, group.clone());
    rig.run_until(100_000 * US);
    assert_eq!(rig.times(), [((50 + 192 + 136 * 8) * US, 100)]);
    let mut rig = pair(&Config::default(), Some(Fault::PacketErrors { loss: 1.0 }));
    rig.receive(0, 0, group);
    rig.run_until(100_000 * US);
    assert_eq!((first(&mut rig, "frames-sent"), rig.out.len()), (1.0, 0));
}

#[test]
fn impossible_values_are_refused() {
    let refused = |paths: &[PathConfig]| {
        let refusal = Wifi::new(paths).err().expect("impossible");
        (refusal.path, refusal.part, refusal.impossible.key)
    };
    let wifi = Config::default();
    let slow = Config { rate: Some(Rate::from_bps(3_000_000)), ..wifi.clone() };
    assert_eq!(refused(&[path(0, wifi.clone()), path(1, slow)]), (1, "wifi", "rate"));
    let g = Config { standard: Standard::G, ..wifi.clone() };
    assert_eq!(refused(&[path(0, wifi.clone()), path(1, g)]), (1, "wifi", "standard"));
    let far = PathConfig { delay: Span::from_micros(21), ..path(0, wifi.clone()) };
    assert_eq!(refused(&[far]), (0, "", "delay"));
    let twice = Some(Fault::Duplication { probability: 0.1 }.into());
    assert_eq!(refused(&[PathConfig { errors: twice, ..path(0, wifi.clone()) }]), (0, "channel", "kind"));
    assert_eq!(refused(&[path(0, Config { attempts: 0, ..wifi })]), (0, "wifi", "attempts"));
}

/// What the first direction reports under a name.
fn first(rig: &mut Harness<Wifi>, name: &str) -> f64 {
    struct First<'a>(&'a str, Option<f64>);
    impl Observer for First<'_> {
        fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
            if metric.name == self.0 {
                self.1.get_or_insert(total as f64);
            }
        }
        fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
            if metric.name == self.0 {
                self.1.get_or_insert(value);
            }
        }
    }
    let mut found = First(name, None);
    rig.element.observe(Time::from_nanos(1_000_000_000), &mut found);
    found.1.expect("a value of that name")
}

/// Bianchi's model ("Performance analysis of the IEEE 802.11 distributed coordination function", JSAC 2000, equations 7, 9
/// and 13): the share of time in which payload is sent.
fn bianchi(n: usize, window: f64, doublings: i32, [payload, slot, success, collision]: [f64; 4]) -> f64 {
    let tau_of = |p: f64| {
        2.0 * (1.0 - 2.0 * p)
            / ((1.0 - 2.0 * p) * (window + 1.0) + p * window * (1.0 - (2.0 * p).powi(doublings)))
    };
    let p_of = |tau: f64| 1.0 - (1.0 - tau).powi(n as i32 - 1);
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..200 {
        let tau = (low + high) / 2.0;
        // tau_of falls with p, which grows with tau.
        if tau_of(p_of(tau)) > tau { low = tau } else { high = tau }
    }
    let tau: f64 = low;
    let some = 1.0 - (1.0 - tau).powi(n as i32);
    let one = n as f64 * tau * (1.0 - tau).powi(n as i32 - 1) / some;
    one * some * payload / ((1.0 - some) * slot + some * one * success + some * (1.0 - one) * collision)
}

#[test]
fn the_formula_gives_the_published_figures() {
    // His parameters, in us at 1 Mbit/s: payload 8184, headers 272 + 128, ACK 240, SIFS 28, DIFS 128, slot 50, delay 1.
    let (header, ack, sifs, difs, delay) = (400.0, 240.0, 28.0, 128.0, 1.0);
    let success = header + 8184.0 + sifs + delay + ack + difs + delay;
    let collision = header + 8184.0 + difs + delay;
    for (n, window, doublings, expected) in
        [(5, 32.0, 3, 0.810), (20, 32.0, 3, 0.679), (50, 32.0, 5, 0.611), (50, 128.0, 3, 0.725)]
    {
        let share = bianchi(n, window, doublings, [8184.0, 50.0, success, collision]);
        assert!((share - expected).abs() < 0.001, "{n} {window}: {share}");
    }
}

/// Saturated stations that send to one other: delivered bits a second.
fn saturated(n: usize, wifi: &Config, timing: Timing, seconds: u64) -> f64 {
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(1), bytes: None });
    let paths: Vec<PathConfig> =
        (0..n).map(|station| PathConfig { queue: queue.clone(), ..path(station, wifi.clone()) }).collect();
    let mut rig = Harness::new(Wifi::new(&paths).expect("possible").with_timing(timing));
    // Each gets a packet more often than it can send one, and drops what it has no room for.
    let every = 400 * n.max(3) as u64 * US / 3;
    for at in (0..seconds * 1_000_000 * US).step_by(every as usize) {
        (0..n).for_each(|port| rig.receive(at, port as u16, packet(1500)));
    }
    rig.out.len() as f64 * 12_000.0 / seconds as f64
}

#[test]
fn saturated_stations_share_as_bianchi_says() {
    let us = |span: Span| span.as_nanos() as f64 / 1e3;
    let wifi = Config { attempts: u32::MAX, ..Config::default() };
    let standard = Timing::of(Standard::B);
    // In the model a collision costs the frame and DIFS to everybody.
    let timing = Timing { eifs: standard.difs, ack_timeout: standard.difs, ..standard };
    let exchange = wifi.exchange(1500);
    let times =
        [12_000.0, us(timing.slot), us(exchange.total() + timing.difs), us(exchange.data + timing.difs)];
    for n in [1, 2, 5, 10, 20] {
        let expected = bianchi(n, 32.0, 5, times) * 1e6;
        let measured = saturated(n, &wifi, timing, 40);
        assert!((measured / expected - 1.0).abs() < 0.03, "{n} stations: {measured} {expected}");
    }
}
