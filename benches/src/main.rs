//! Runs one benchmark workload five times and prints the median as JSON: `bentpipe-bench c`.
//!
//! `bentpipe-bench c 1` runs it once, for a profiler. Times are CPU times, where the system reports them, so
//! that other load disturbs them less.
//!
//! Other load still disturbs them if it has the other half of a core or the cache: then the same instructions
//! take twice as long from one hundredth of a second to the next. So a run is timed in pieces, each of which
//! does the same work in every run: `undisturbed_s` is the sum of each piece's minimum. With more runs it
//! approaches the time of an exclusive core.
//!
//! The workloads except `e` are those that `benches/peers` has for ns-2 and ns-3.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its result")]

use std::process::ExitCode;
use std::time::Instant;

use bentpipe_sim::Network;
use bentpipe_units::{Span, Time};

#[path = "../../crates/model/atm/tests/atm_path/mod.rs"]
mod atm_path;
mod bulk;
mod cells;
mod dama;
mod flows;
mod path;
mod voice;

/// A network and how long it is run.
struct Workload {
    network: Network,
    duration: Span,
}

/// Cost and work of a run.
struct Run {
    seconds: f64,
    /// Time of each of [`PIECES`], by the clock.
    pieces: Vec<f64>,
    simulated_s: f64,
    transmissions: u64,
    wakeups: u64,
    packets_received: f64,
    fingerprint: String,
}

const RUNS: usize = 5;

/// Pieces of one length in simulated time that a run is timed in.
const PIECES: u64 = 200;

/// A clock of the time this process had a processor, or of all time.
struct Stopwatch {
    begin: Instant,
    begin_cpu: Option<f64>,
}

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch { begin: Instant::now(), begin_cpu: cpu_seconds() }
    }

    fn seconds(&self) -> f64 {
        let cpu = cpu_seconds().zip(self.begin_cpu).map(|(now, then)| now - then);
        cpu.unwrap_or_else(|| self.begin.elapsed().as_secs_f64())
    }
}

/// Returns the CPU seconds of this process (Linux, sched-stats.rst).
fn cpu_seconds() -> Option<f64> {
    let stats = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanos: u64 = stats.split_whitespace().next()?.parse().ok()?;
    Some(nanos as f64 / 1e9)
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "g" {
        return many_flows();
    }
    let Some(build) = workload(&name) else {
        eprintln!("no workload \"{name}\": expected a, a-small, b, c, d, e, f or g");
        return ExitCode::from(2);
    };
    let count = std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(RUNS).max(1);
    let mut runs: Vec<Run> = (0..count).map(|_| time(build())).collect();
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let least = |piece: usize| runs.iter().map(|run| run.pieces[piece]).fold(f64::INFINITY, f64::min);
    let undisturbed_s: f64 = (0..PIECES as usize).map(least).sum();
    let Run { seconds, simulated_s, transmissions, wakeups, packets_received, fingerprint, .. } =
        &runs[count / 2];
    let result = serde_json::json!({
        "workload": name,
        "seconds": seconds,
        "simulated_per_s": simulated_s / seconds,
        "transmissions_per_s": *transmissions as f64 / seconds,
        "undisturbed_s": undisturbed_s,
        "transmissions_per_undisturbed_s": *transmissions as f64 / undisturbed_s,
        "wakeups_per_s": *wakeups as f64 / seconds,
        "transmissions": transmissions,
        "packets_received": packets_received,
        "fingerprint": fingerprint,
        "peak_mb": peak_mb(),
    });
    println!("{result}");
    ExitCode::SUCCESS
}

/// Runs workload G once, with its files, as it is more than a network.
fn many_flows() -> ExitCode {
    let count = std::env::args().nth(2).and_then(|count| count.parse().ok());
    match flows::run(count) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn workload(name: &str) -> Option<fn() -> Workload> {
    match name {
        "a" => Some(bulk::a),
        "a-small" => Some(bulk::a_small_segments),
        "b" => Some(bulk::b),
        "d" => Some(bulk::d),
        "c" => Some(voice::workload),
        "e" => Some(dama::workload),
        "f" => Some(cells::workload),
        _ => None,
    }
}

fn time(mut workload: Workload) -> Run {
    let clock = Stopwatch::start();
    let piece = |n: u64| {
        let begin = Instant::now();
        workload.network.run_until(Time::ZERO + workload.duration * n / PIECES);
        begin.elapsed().as_secs_f64()
    };
    let pieces = (1..=PIECES).map(piece).collect();
    let seconds = clock.seconds();
    let wakeups = workload.network.work().wakeups;
    let total = |name, network: &mut Network| path::total(network, name);
    // Over a line of cells, each cell is one.
    let kinds = ["link/delivered", "near/delivered", "far/delivered", "interface/delivered"];
    let transmissions = kinds.iter().map(|kind| total(kind, &mut workload.network)).sum::<f64>() as u64;
    let udp = total("sink/packets", &mut workload.network);
    let packets_received = udp + total("sink/data-segments-received", &mut workload.network);
    let fingerprint = workload.network.fingerprint().to_string();
    let simulated_s = workload.duration.as_secs_f64();
    Run { seconds, pieces, simulated_s, transmissions, wakeups, packets_received, fingerprint }
}

/// Returns the peak memory of this process in MB. NaN where the system does not report it.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1024.0 / 1e6
}
