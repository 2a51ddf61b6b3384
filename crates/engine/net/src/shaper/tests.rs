use proptest::prelude::*;

use super::*;
use crate::testing::{Harness, MS, packet};

fn rig(config: &Config) -> Harness<Shaper> {
    Harness::new(Shaper::new(config).expect("possible"))
}

/// 1 byte a microsecond, 3000 bytes at once.
fn config() -> Config {
    Config::new(Rate::from_bps(8_000_000), Bytes::new(3000), Bytes::new(4000))
}

#[test]
fn a_burst_passes_and_the_rest_follows_at_the_rate() {
    let mut rig = rig(&config());
    (0..9).for_each(|_| rig.receive(0, 0, packet(1000)));
    rig.run_until(100 * MS);
    let expected = [0, 0, 0, MS, 2 * MS, 3 * MS, 4 * MS];
    assert_eq!(rig.times(), expected.map(|at| (at, 1000)));
    assert_eq!(rig.value("dropped-queue"), 2.0);
    rig.receive(100 * MS, 0, packet(3001));
    assert_eq!(rig.value("dropped-too-big"), 1.0);
}

#[test]
fn a_peak_rate_spaces_the_burst() {
    let peak_rate = Some(Rate::from_bps(16_000_000));
    let mut rig = rig(&Config { peak_rate, mtu: Bytes::new(1000), ..config() });
    (0..5).for_each(|_| rig.receive(0, 0, packet(1000)));
    rig.run_until(100 * MS);
    // Half a millisecond apart until the bucket is empty, 2 (3000 - 1000)/2 bytes more having come in meanwhile.
    let times: Vec<u64> = rig.times().iter().map(|(at, _)| at / (MS / 2)).collect();
    assert_eq!(times, [0, 1, 2, 3, 4]);
}

#[test]
fn the_longest_burst_at_a_faster_line_is_bucket_times_peak_over_peak_less_rate() {
    // 125 kB, from 1 Gbit/s down to 100 Mbit/s: 139 kB leave before anything has to wait.
    let burst = Config::new(Rate::from_bps(100_000_000), Bytes::new(125_000), Bytes::new(1_000_000));
    let mut rig = rig(&burst);
    let spacing = 8000; // 1000 bytes at 1 Gbit/s, in ns
    (0..300).for_each(|i| rig.receive(i * spacing, 0, packet(1000)));
    let undelayed = (0..).zip(rig.times()).take_while(|(i, (at, _))| *at == i * spacing).count();
    let formula = 125_000.0 * 1e9 / (1e9 - 1e8) / 1000.0;
    assert!((undelayed as f64 - formula).abs() <= 1.0, "{undelayed} {formula}");
}

#[test]
fn a_coarse_timer_releases_what_a_bucket_holds_each_tick() {
    // 10 000 bytes come in a tick of 10 ms, but the bucket holds 3000: three packets a tick, and no more.
    let timer = Some(Span::from_millis(10));
    let mut rig = rig(&Config { timer, limit: Bytes::new(100_000), ..config() });
    (0..9).for_each(|_| rig.receive(1, 0, packet(1000)));
    rig.run_until(100 * MS);
    let times: Vec<u64> = rig.times().iter().map(|(at, _)| at / MS).collect();
    assert_eq!(times, [0, 0, 0, 10, 10, 10, 20, 20, 20]);
}

#[test]
fn between_ticks_an_arrival_releases_what_has_its_tokens() {
    let timer = Some(Span::from_millis(10));
    let mut rig = rig(&Config { timer, limit: Bytes::new(100_000), ..config() });
    (0..5).for_each(|_| rig.receive(0, 0, packet(1000)));
    rig.receive(MS + 1, 0, packet(1000));
    rig.run_until(9 * MS);
    let times: Vec<u64> = rig.times().iter().map(|(at, _)| at / MS).collect();
    assert_eq!(times, [0, 0, 0, 1]);
}

/// Linux 2.4 counts tokens in jiffies: 10 000 bytes come at each tick of 10 ms and none between, capped at the bucket of 3000.
#[test]
fn tokens_of_a_clock_of_jiffies_come_at_ticks_alone() {
    let timer = Some(Span::from_millis(10));
    let slow = Config { timer, clock: Clock::Jiffies, limit: Bytes::new(100_000), ..config() };
    let mut rig = rig(&slow);
    (0..5).for_each(|_| rig.receive(0, 0, packet(1000)));
    rig.receive(9 * MS, 0, packet(1000));
    rig.run_until(100 * MS);
    let times: Vec<u64> = rig.times().iter().map(|(at, _)| at / MS).collect();
    assert_eq!(times, [0, 0, 0, 10, 10, 10]);
    assert_eq!(slow.long_run(), Rate::from_bps(3000 * 8 * 100));
    let error = Config { timer: None, ..slow }.check().expect_err("no tick");
    assert!(error.to_string().contains("jiffies"), "{error}");
}

#[test]
fn another_rate_holds_from_now_on_and_no_token_is_made_or_lost() {
    let mut rig = rig(&config());
    (0..7).for_each(|_| rig.receive(0, 0, packet(1000)));
    rig.run_until(MS / 2);
    let faster = Config { rate: Rate::from_bps(80_000_000), limit: Bytes::new(1000), ..config() };
    rig.element.set(Time::from_nanos(MS / 2), &faster).expect("possible");
    rig.poke();
    // Half of the fourth packet's tokens are there; the other half comes ten times as fast.
    rig.run_until(100 * MS);
    let times: Vec<u64> = rig.times().iter().skip(3).map(|(at, _)| at / (MS / 20)).collect();
    assert_eq!(times, [11, 13, 15, 17]);
    assert_eq!(rig.value("dropped-queue"), 0.0, "what waits stays, beyond the lower limit too");
}

#[test]
fn what_waits_and_does_not_fit_a_smaller_bucket_is_dropped_and_the_rest_goes_on() {
    let mut rig = rig(&config());
    (0..3).for_each(|_| rig.receive(0, 0, packet(1000)));
    rig.receive(0, 0, packet(1000));
    rig.receive(0, 0, packet(400));
    rig.element.set(Time::ZERO, &Config { burst: Bytes::new(500), ..config() }).expect("possible");
    rig.poke();
    rig.run_until(100 * MS);
    assert_eq!(rig.times().len(), 4);
    assert_eq!((rig.value("dropped-too-big"), rig.value("queue")), (1.0, 0.0));
    assert!(rig.element.set(Time::ZERO, &Config { burst: Bytes::ZERO, ..config() }).is_err());
}

#[test]
fn impossible_values_are_refused() {
    let key = |config: Config| Shaper::new(&config).err().map(|error| error.key);
    assert_eq!(key(Config { rate: Rate::from_bps(0), ..config() }), Some("rate"));
    assert_eq!(key(Config { burst: Bytes::ZERO, ..config() }), Some("burst"));
    assert_eq!(key(Config { peak_rate: Some(Rate::from_bps(1)), ..config() }), Some("peak_rate"));
}

proptest! {
    /// In any time t at most burst + rate * t leaves, to the bit.
    #[test]
    fn no_time_sees_more_than_burst_and_rate(
        rate in 1_000_u64..50_000_000,
        burst in 100_u64..5000,
        arrivals in prop::collection::vec((0_u64..3_000_000, 40_usize..1500), 1..60),
    ) {
        let mut rig = rig(&Config::new(Rate::from_bps(rate), Bytes::new(burst), Bytes::new(100_000)));
        let mut at = 0;
        for (gap, len) in arrivals {
            at += gap;
            rig.receive(at, 0, packet(len));
        }
        rig.run_until(3_600_000_000_000);
        let out = rig.times();
        for from in 0..out.len() {
            let mut left = 0;
            for &(at, len) in &out[from..] {
                left += tokens(len as u64);
                let allowed = tokens(burst) + u128::from(rate) * u128::from(at - out[from].0);
                prop_assert!(left <= allowed);
            }
        }
        prop_assert_eq!(rig.value("queue"), 0.0);
    }
}
