//! Real packets of the kernel through the emulator, in network namespaces. Needs root, `ip`, `ping` and `iperf3`; without
//! them the tests say so and pass, but never in CI.
//!
//! One test runs at a time: they measure real time.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

mod anomalies;
mod bench;
mod channel;
mod rate;
mod tcp;

use bench::{Bench, able};
use bentpipe_net::link;
use bentpipe_testkit::Watch;
use bentpipe_units::Span;

/// The round-trip times that ping printed, in seconds, the shortest first.
///
/// # Panics
/// With less than fifteen answers.
fn round_trips(text: &str) -> Vec<f64> {
    let mut rtts: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("time="))
        .map(|ms| ms.parse::<f64>().expect("a number") / 1e3)
        .collect();
    assert!(rtts.len() >= 15, "too few answers: {text}");
    rtts.sort_by(f64::total_cmp);
    rtts
}

/// The median of the round-trip times that ping printed, in seconds.
fn median_rtt(text: &str) -> f64 {
    let rtts = round_trips(text);
    rtts[rtts.len() / 2]
}

/// By the shortest of 25 round trips: a machine that is slow to wake its programs only adds to them, on some days a millisecond to
/// most, while a delay that is not what it should be is in all. That none is shorter holds on any machine.
#[test]
fn ping_takes_the_configured_time() {
    let Some(_turn) = able() else { return };
    for rtt_ms in [1.0, 10.0, 100.0, 600.0] {
        let delay = Span::from_secs_f64(rtt_ms / 2e3);
        let bench = Bench::start(&link::Config { delay, ..link::Config::default() });
        let watch = Watch::start();
        let text = bench.run("ping", &["-n", "-c", "25", "-i", "0.04", "-w", "8", "10.77.0.2"]);
        let machine = watch.end();
        let (rtts, expected) = (round_trips(&text), rtt_ms / 1e3);
        let (least, median) = (rtts[0], rtts[rtts.len() / 2]);
        let late = bench.finish().lateness().quantile(0.5);
        let found =
            format!("{least:.6} s, median {median:.6} s, of {expected} s; p50 {late} late; {machine:?}");
        eprintln!("ping: {found}");
        // Ping writes three digits.
        assert!(least > 0.995 * expected, "{found}");
        // The emulator wakes twice in a round trip.
        let wake_ups = 2.0 * machine.quantile(0.5).as_secs_f64();
        assert!(least - expected < 0.2e-3 + 0.01 * expected + wake_ups, "{found}");
    }
}
