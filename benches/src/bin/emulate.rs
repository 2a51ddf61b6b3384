//! Forwarding rate of the emulator on one link, and lateness at half that load.
//!
//! A bare loop that reads one TUN device and writes the other is the reference. The load comes from a UDP
//! socket in one network namespace and goes to one in another; the kernel's forwarding is part of both
//! figures. Needs root.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that measures real time")]

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bentpipe_emu::{Driver, Lateness, Monotonic, Namespace, Port as _, Setup, Tun};
use bentpipe_net::link::{self, Link};
use bentpipe_net::{ExternalPort, Port};
use bentpipe_sim::Builder;
use bentpipe_units::{Span, Time};
use serde_json::json;

const SECONDS: f64 = 3.0;

fn main() -> Result<()> {
    for size in [64, 1500] {
        let bare = measure(size, None, bare_loop)?;
        let apart = measure(size, None, |mut left, mut right, stop, written| {
            left.disable_datagram_trains();
            right.disable_datagram_trains();
            emulator(left, right, stop, written)
        })?;
        let ours = measure(size, None, emulator)?;
        let half = measure(size, Some(ours.packets_per_s / 2.0), emulator)?;
        let late = half.lateness.as_ref().context("the emulator records lateness")?;
        let report = json!({
            "ip_packet_bytes": size,
            "bare_packets_per_s": bare.packets_per_s.round(),
            "without_datagram_trains_packets_per_s": apart.packets_per_s.round(),
            "without_datagram_trains_cpu_ns": apart.cpu_ns.round(),
            "packets_per_s": ours.packets_per_s.round(),
            "cpu_ns": ours.cpu_ns.round(),
            "share_of_bare": ours.packets_per_s / bare.packets_per_s,
            "half_load_packets_per_s": half.packets_per_s.round(),
            "half_load_lost_share": half.lost_share,
            "half_load_lateness_p50_us": late.quantile(0.5).as_secs_f64() * 1e6,
            "half_load_lateness_p99_us": late.quantile(0.99).as_secs_f64() * 1e6,
            "half_load_lateness_max_us": late.max().as_secs_f64() * 1e6,
        });
        println!("{report:#}");
    }
    println!("{:#}", iperf3()?);
    Ok(())
}

struct Measured {
    packets_per_s: f64,
    lost_share: f64,
    lateness: Option<Lateness>,
    /// CPU time of the carrier for each packet that arrived.
    cpu_ns: f64,
}

/// Two namespaces, each with a TUN device.
struct Hosts {
    from: Namespace,
    to: Namespace,
}

fn hosts() -> Result<(Hosts, Tun, Tun)> {
    let (from, to) = (Namespace::create("bench-from")?, Namespace::create("bench-to")?);
    let device = |host: &Namespace, address: &str| -> Result<Tun> {
        let addresses = vec![(address.parse()?, 24)];
        Ok(host.attach("sat0", &Setup { addresses, mtu_bytes: 1500 })?)
    };
    let (left, right) = (device(&from, "10.78.0.1")?, device(&to, "10.78.0.2")?);
    Ok((Hosts { from, to }, left, right))
}

/// Carrier of packets until it is stopped. It counts those written on the right.
type Carrier = fn(Tun, Tun, Arc<AtomicBool>, Arc<AtomicU64>) -> Option<Lateness>;

fn measure(size: usize, rate: Option<f64>, carry: Carrier) -> Result<Measured> {
    let (hosts, left, right) = hosts()?;
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    // A listener prevents the kernel's errors in answer to each packet.
    let _sink = hosts.to.within(|| UdpSocket::bind("10.78.0.2:9"))??;
    let carrier = {
        let (stop, written) = (Arc::clone(&stop), Arc::clone(&written));
        std::thread::spawn(move || (carry(left, right, stop, written), bentpipe_emu::cpu_time()))
    };
    let socket = hosts.from.within(|| UdpSocket::bind("10.78.0.1:0"))??;
    socket.connect("10.78.0.2:9")?;
    let (sent, seconds) = load(&socket, size - 28, rate);
    std::thread::sleep(Duration::from_millis(100));
    let arrived = written.load(Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    let (lateness, cpu) = carrier.join().unwrap_or_default();
    let lost_share = 1.0 - (arrived as f64 / sent as f64).min(1.0);
    let cpu_ns = cpu.as_secs_f64() * 1e9 / arrived.max(1) as f64;
    Ok(Measured { packets_per_s: arrived as f64 / seconds, lost_share, lateness, cpu_ns })
}

/// Sends at full speed, or at `rate` packets per second, and returns count and time.
fn load(socket: &UdpSocket, payload_len: usize, rate: Option<f64>) -> (u64, f64) {
    let (payload, start, mut sent) = (vec![0; payload_len], Instant::now(), 0);
    loop {
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed > SECONDS {
            return (sent, elapsed);
        }
        if rate.is_some_and(|rate| sent as f64 > elapsed * rate) {
            std::hint::spin_loop();
            continue;
        }
        sent += u64::from(socket.send(&payload).is_ok());
    }
}

fn bare_loop(
    mut left: Tun,
    mut right: Tun,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
) -> Option<Lateness> {
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        while let Ok(Some(len)) = left.read(&mut buffer) {
            let done = right.write(&buffer[..len]).and_then(|()| right.flush());
            written.fetch_add(u64::from(done.is_ok()), Ordering::Relaxed);
        }
    }
    None
}

/// Device with a count of the bytes or packets sent.
struct Counted(Tun, Arc<AtomicU64>);

impl bentpipe_emu::Port for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
        self.0.read(buffer)
    }
    fn write(&mut self, packet: &[u8]) -> std::io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.write(packet)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.0.fd()
    }
}

fn emulator(left: Tun, right: Tun, stop: Arc<AtomicBool>, written: Arc<AtomicU64>) -> Option<Lateness> {
    let mut builder = Builder::new(1);
    let gates = ["left", "right"].map(|name| builder.add(name, ExternalPort::default()));
    for (name, from, to) in [("forward", 0, 1), ("return", 1, 0)] {
        let config = link::Config { delay: Span::from_millis(1), ..link::Config::default() };
        let link = builder.add(name, Link::new(&config).ok()?);
        builder.connect((gates[from], ExternalPort::NETWORK), (link, Port(0)));
        builder.connect((link, Port(0)), (gates[to], ExternalPort::NETWORK));
    }
    let mut driver = Driver::new(builder.build().ok()?, Monotonic::start());
    driver.open(gates[0], left);
    driver.open(gates[1], Counted(right, written));
    // As `bentpipe emulate` does. The bare loop, which never rests, would only be stopped by the kernel.
    if let Err(error) = driver.request_realtime_priority() {
        println!("no real-time priority: {error}");
    }
    driver.run(Time::NEVER, &stop);
    Some(driver.lateness().clone())
}

/// Measures the kernel's TCP through the emulator by iperf3.
fn iperf3() -> Result<serde_json::Value> {
    let (hosts, left, right) = hosts()?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let carrier = std::thread::spawn(move || emulator(left, right, stopped, Arc::default()));
    let mut server =
        hosts.to.command("iperf3").args(["-s", "-1"]).stdout(std::process::Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_millis(500));
    let output =
        hosts.from.command("iperf3").args(["-c", "10.78.0.2", "-J", "-t", "5", "-C", "cubic"]).output()?;
    server.wait()?;
    stop.store(true, Ordering::Relaxed);
    let _ = carrier.join();
    let result: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let bits = result["end"]["sum_received"]["bits_per_second"].as_f64().context("iperf3 gave no figure")?;
    Ok(json!({ "tcp_1500_gbit_s": bits / 1e9 }))
}
