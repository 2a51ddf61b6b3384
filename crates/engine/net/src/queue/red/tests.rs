use std::net::IpAddr;

use bentpipe_units::Span;
use bentpipe_wire::ip::{self, Ecn, Protocol};

use super::*;

const KB: u64 = 1000;

fn config() -> Config {
    let (min, max, limit) = (Bytes::new(7500), Bytes::new(22_500), Bytes::new(60 * KB));
    Config {
        probability: 0.1,
        average_packet: Bytes::new(1500),
        burst: Some(12),
        ..Config::new(min, max, limit)
    }
}

fn red(config: &Config) -> Red {
    Red::new(config).expect("possible")
}

fn packet(ecn: Ecn) -> Packet {
    let (from, to): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut packet = Packet::new(20, 480);
    ip::Repr::new(from, to, Protocol::UDP, 480).emit(packet.header_mut());
    let mut view = ip::Packet::new_elided(packet.header_mut(), 480).expect("IP");
    view.mark_ecn(ecn);
    packet
}

#[test]
fn weight_and_slope_as_tc_rounded_them() {
    let tc = Config { rounding: Rounding::Tc, ..config() };
    assert_eq!(tc.weight(), Ok(1.0 / 16.0));
    assert_eq!(tc.slope(), libm::ldexp(1.0, -18));
    // The probability that comes out at max.
    assert!((tc.slope() * 15_000.0 - 0.0572).abs() < 1e-4);
    let w = config().weight().expect("possible");
    assert!(w > 1.0 / 16.0 && w < 1.0 / 8.0);
    assert!(((1.0 - (1.0 - w).powi(12)) / w - 8.0).abs() < 1e-9);
    assert!((config().slope() * 15_000.0 - 0.1).abs() < 1e-12);
}

#[test]
fn the_average_follows_its_recursion_and_decays_when_idle() {
    let mut red = red(&Config { bandwidth: Rate::from_bps(12_000_000), ..config() });
    let mut stream = RandomStream::new(1, "red");
    let (w, mut expected) = (red.law.weight, 0.0);
    for arrived in 0..10 {
        expected += w * (f64::from(arrived) * 500.0 - expected);
        red.enqueue(packet(Ecn::NotEct), Time::ZERO, &mut stream);
        assert!((red.average() - expected).abs() < 1e-9);
    }
    while red.dequeue(Time::ZERO).is_some() {}
    // 1500 bytes take 1 ms: ten slots.
    let idle = Span::from_millis(10);
    red.pass(packet(Ecn::NotEct), Time::ZERO + idle, Time::ZERO, &mut stream);
    assert!((red.average() - expected * (1.0 - w).powi(10)).abs() < 1e-9);
}

/// Holds the average at `average` for `count` arrivals; returns their fates, true for marked or dropped.
fn fates(red: &mut Red, average: f64, count: usize) -> Vec<bool> {
    let mut stream = RandomStream::new(5, "red");
    red.average = average;
    (0..count).map(|_| !matches!(red.answer(&mut stream), Answer::Take)).collect()
}

#[test]
fn distances_between_marks_are_uniform() {
    let mut red = red(&config());
    // Half way: a base probability of 0.05, distances of 1 to 20.
    let fates = fates(&mut red, 15_000.0, 400_000);
    let marks: Vec<usize> = (0..fates.len()).filter(|&i| fates[i]).collect();
    let mut histogram = [0_u32; 21];
    marks.windows(2).for_each(|pair| histogram[pair[1] - pair[0]] += 1);
    let expected = f64::from(histogram.iter().sum::<u32>()) / 20.0;
    let chi2: f64 = histogram[1..].iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    // 19 degrees of freedom: 43.8 is passed by one in a thousand.
    assert!(chi2 < 43.8, "chi squared {chi2}, {histogram:?}");
}

#[test]
fn the_share_marked_is_that_of_uniform_distances() {
    let mut red = red(&config());
    for average in [9000.0, 12_000.0, 20_000.0] {
        let base = (average - 7500.0) * 0.1 / 15_000.0;
        let share = fates(&mut red, average, 400_000).iter().filter(|&&fate| fate).count() as f64 / 4e5;
        let expected = 2.0 * base / (1.0 + base);
        assert!((share / expected - 1.0).abs() < 0.02, "{average}: {share} {expected}");
    }
    assert_eq!(fates(&mut red, 7499.0, 1000).iter().filter(|&&fate| fate).count(), 0);
    assert!(fates(&mut red, 22_500.0, 1000).iter().all(|&fate| fate));
}

#[test]
fn the_gentle_region_rises_to_one_at_twice_max() {
    let law = red(&Config { gentle: true, ..config() }).law;
    assert!((law.probability(22_500.0).expect("in range") - 0.1).abs() < 1e-12);
    assert!((law.probability(33_750.0).expect("in range") - 0.55).abs() < 1e-12);
    assert_eq!(law.probability(45_000.0), None);
}

#[test]
fn capable_transports_are_marked_and_others_dropped() {
    for (ecn, harddrop, average, survives) in [
        (Ecn::Ect0, false, 22_000.0, true),
        (Ecn::NotEct, false, 22_000.0, false),
        (Ecn::Ect1, false, 30_000.0, true),
        (Ecn::Ect1, true, 30_000.0, false),
    ] {
        let mut red = red(&Config { ecn: true, harddrop, probability: 1.0, ..config() });
        (red.average, red.since) = (average, 10);
        let out = red.judge(packet(ecn), &mut RandomStream::new(1, "red"));
        assert_eq!(out.is_some(), survives);
        if let Some(mut out) = out {
            let ip::Packet::V4(ip) = ip::Packet::new_elided(out.header_mut(), 480).expect("IP") else {
                panic!("IPv4")
            };
            assert_eq!(ip.traffic_class().ecn(), Ecn::Ce);
            ip.verify_checksum().expect("a checksum");
        }
    }
}

#[test]
fn impossible_values_are_refused() {
    let key = |config: Config| Red::new(&config).err().map(|error| error.key);
    assert_eq!(key(Config { probability: 1.5, ..config() }), Some("probability"));
    assert_eq!(key(Config { max: Bytes::new(7500), ..config() }), Some("max"));
    assert_eq!(key(Config { limit: Bytes::new(20 * KB), ..config() }), Some("limit"));
    assert_eq!(key(Config { burst: Some(4), ..config() }), Some("burst"));
    assert_eq!(key(Config { average_packet: Bytes::ZERO, ..config() }), Some("average_packet"));
    assert_eq!(key(Config { burst: None, ..config() }), None);
}
