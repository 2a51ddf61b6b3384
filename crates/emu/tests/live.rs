//! Real packets of the kernel through the emulator, in network namespaces. Needs root, `ip` and `ping`; without them the
//! tests say so and pass, but never in CI.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_emu::{Driver, Monotonic, Namespace, Setup};
use bentpipe_net::link::{self, Link};
use bentpipe_net::{Gate, Port};
use bentpipe_sim::{Builder, ElementId};
use bentpipe_units::{Span, Time};

/// Whether this machine can run live tests; says why not.
///
/// # Panics
/// In CI, if it cannot: there no test is skipped.
fn able() -> bool {
    let missing =
        ["ip", "ping"].into_iter().find(|program| Command::new(program).arg("-V").output().is_err());
    let reason = match missing {
        Some(program) => Some(format!("{program} is not installed")),
        None => Namespace::create("probe").err().map(|error| error.to_string()),
    };
    let Some(reason) = reason else { return true };
    assert!(std::env::var_os("CI").is_none(), "live tests cannot run in CI: {reason}");
    eprintln!("skipped: {reason}");
    false
}

/// Two real hosts at the ends of one link, and a thread that emulates it.
struct Bench {
    left: Namespace,
    _right: Namespace,
    stop: Arc<AtomicBool>,
    emulator: Option<std::thread::JoinHandle<Driver<Monotonic>>>,
}

fn door(builder: &mut Builder, name: &str) -> ElementId {
    builder.add(format!("node/{name}"), Gate::default())
}

impl Bench {
    fn start(name: &str, config: &link::Config) -> Bench {
        let hosts = [format!("{name}-l"), format!("{name}-r")];
        let [left, right] = hosts.map(|host| Namespace::create(&host).expect("able"));
        let device = |namespace: &Namespace, address: &str| {
            let addresses = vec![(address.parse().expect("an address"), 24)];
            namespace.attach("sat0", &Setup { addresses, mtu_bytes: 1500 }).expect("able")
        };
        let (left_tun, right_tun) = (device(&left, "10.77.0.1"), device(&right, "10.77.0.2"));
        let mut builder = Builder::new(1);
        let (left_gate, right_gate) = (door(&mut builder, "left"), door(&mut builder, "right"));
        for (path, from, to) in [("forward", left_gate, right_gate), ("return", right_gate, left_gate)] {
            let link = builder.add(format!("link/{path}"), Link::new(config).expect("a link"));
            builder.connect((from, Gate::NETWORK), (link, Port(0)));
            builder.connect((link, Port(0)), (to, Gate::NETWORK));
        }
        let network = builder.build().expect("a network");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let emulator = std::thread::spawn(move || {
            let mut driver = Driver::new(network, Monotonic::start());
            driver.open(left_gate, left_tun);
            driver.open(right_gate, right_tun);
            driver.run(Time::NEVER, &stopped);
            driver
        });
        Bench { left, _right: right, stop, emulator: Some(emulator) }
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let output = self.left.command(program).args(args).output().expect("starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn finish(mut self) -> Driver<Monotonic> {
        self.stop.store(true, Ordering::Relaxed);
        self.emulator.take().expect("running").join().expect("no panic")
    }
}

/// The median of the round trip times that ping printed, in seconds.
fn median_rtt(text: &str) -> f64 {
    let mut rtts: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("time="))
        .map(|ms| ms.parse::<f64>().expect("a number") / 1e3)
        .collect();
    assert!(rtts.len() >= 5, "too few answers: {text}");
    rtts.sort_by(f64::total_cmp);
    rtts[rtts.len() / 2]
}

#[test]
fn ping_takes_the_configured_time() {
    if !able() {
        return;
    }
    for one_way_ms in [0.5, 5.0, 50.0, 300.0] {
        let delay = Span::from_secs_f64(one_way_ms / 1e3);
        let bench = Bench::start("ping", &link::Config { delay, ..link::Config::default() });
        let text = bench.run("ping", &["-n", "-c", "12", "-i", "0.05", "-w", "5", "10.77.0.2"]);
        let (rtt, expected) = (median_rtt(&text), 2.0 * delay.as_secs_f64());
        let driver = bench.finish();
        assert!(
            (rtt - expected).abs() < 0.2e-3 + 0.01 * expected,
            "RTT {rtt} s where {expected} s is configured; lateness p99 {}",
            driver.lateness().quantile(0.99)
        );
    }
}
