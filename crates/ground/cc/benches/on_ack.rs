//! What an ACK costs in each law: nanoseconds for `on_ack`, `window` and `pacing_rate` in congestion avoidance, at a
//! small and a large window. `cargo bench -p bentpipe-cc`.

#![allow(clippy::print_stdout, clippy::disallowed_methods)] // A benchmark prints, and reads the clock.

use std::hint::black_box;
use std::time::Instant;

use bentpipe_cc::{Ack, Connection, Controller, ControllerConfig, Loss, NAMES};
use bentpipe_units::{Span, Time};

const SMSS: u32 = 1448;
const ACKS: u32 = 2_000_000;
const REPEATS: usize = 5;

fn main() {
    println!("{:<12}{:>14}{:>14}", "law", "W 100, ns", "W 10000, ns");
    for (name, _) in NAMES {
        println!("{name:<12}{:>14.1}{:>14.1}", median_ns(name, 100), median_ns(name, 10_000));
    }
}

fn median_ns(name: &str, window_segments: u32) -> f64 {
    let mut runs: Vec<f64> = (0..REPEATS).map(|_| run_ns(name, window_segments)).collect();
    runs.sort_by(f64::total_cmp);
    runs[REPEATS / 2]
}

/// A window in congestion avoidance with a loss in each hundred windows, so that epochs begin and end too.
fn run_ns(name: &str, window_segments: u32) -> f64 {
    let choice: ControllerConfig = name.parse().expect("a name of NAMES");
    let mut cc = choice.build(&connection(window_segments));
    let gap = Span::from_millis(550) / u64::from(window_segments);
    let mut now = Time::ZERO;
    let start = Instant::now();
    for i in 1..=ACKS {
        now += gap;
        cc.on_ack(black_box(&ack(now, window_segments)));
        if i % (100 * window_segments) == 0 {
            lose(cc.as_mut(), now);
        }
        black_box((cc.window(), cc.pacing_rate()));
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(ACKS)
}

fn connection(window_segments: u32) -> Connection {
    let window = u64::from(window_segments) * u64::from(SMSS);
    let (initial_ssthresh, max_window) = (window, 2 * window);
    Connection { smss: SMSS, initial_window_segments: window_segments, initial_ssthresh, max_window }
}

fn ack(now: Time, window_segments: u32) -> Ack {
    let rtt = Some(Span::from_millis(550));
    let bytes = u64::from(SMSS);
    Ack {
        now,
        acked: bytes,
        delivered: bytes,
        flight: u64::from(window_segments) * bytes,
        pipe: u64::from(window_segments) * bytes,
        rtt,
        srtt: rtt,
        min_rtt: rtt,
        cwnd_limited: true,
        in_recovery: false,
    }
}

fn lose(cc: &mut dyn Controller, now: Time) {
    cc.on_loss(&Loss { now, flight: cc.window(), pipe: cc.window(), min_rtt: None });
}
