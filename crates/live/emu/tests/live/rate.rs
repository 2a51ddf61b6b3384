//! The rate of a link, as a UDP receiver sees it, and the order of packets.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bentpipe_net::link;
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_testkit::Watch;
use bentpipe_units::{Rate, Span};

use super::bench::{Bench, able, on_time};

/// Sends numbered datagrams at `rate` bits per second of IP until told to stop.
fn send(socket: &UdpSocket, ip_len: usize, rate: f64, stop: &AtomicBool) {
    on_time();
    let (mut payload, start) = (vec![0; ip_len - 28], Instant::now());
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * rate / (8 * ip_len) as f64) as u64;
        while number < due {
            payload[..8].copy_from_slice(&number.to_be_bytes());
            let _ = socket.send(&payload);
            number += 1;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// For `seconds`, the numbers of datagrams that arrived and when, in seconds.
fn receive(socket: &UdpSocket, seconds: f64) -> Vec<(f64, u64)> {
    let (mut buffer, mut arrived, start) = ([0; 2048], Vec::new(), Instant::now());
    while start.elapsed().as_secs_f64() < seconds {
        if let Ok(8..) = socket.recv(&mut buffer) {
            let number = buffer.first_chunk().expect("more than eight bytes");
            arrived.push((start.elapsed().as_secs_f64(), u64::from_be_bytes(*number)));
        }
    }
    arrived
}

/// Packets a second: the slope of the arrivals' count over time, by least squares.
fn slope(arrived: &[(f64, u64)]) -> f64 {
    let n = arrived.len() as f64;
    let (mean_time, mean_count) = (arrived.iter().map(|(at, _)| at).sum::<f64>() / n, (n - 1.0) / 2.0);
    let (mut above, mut below) = (0.0, 0.0);
    for (count, (at, _)) in arrived.iter().enumerate() {
        above += (at - mean_time) * (count as f64 - mean_count);
        below += (at - mean_time).powi(2);
    }
    above / below
}

/// Seconds of a measurement.
const SECONDS: f64 = 2.0;

/// Measures a link of so many Mbit/s that is offered twice as much.
fn measure(mbps: f64) {
    // Full before measuring starts, and long enough that a pause of the sender leaves no gap.
    let packets = Some((mbps * 1e6 * 0.3 / 10_000.0) as u32);
    let queue = Discipline::DropTail(DropTailConfig { packets, bytes: None });
    let rate = Some(Rate::from_bps((mbps * 1e6) as u64));
    let bench =
        Bench::start(&link::Config { rate, delay: Span::from_millis(5), queue, ..link::Config::default() });
    let ([from, to], stop) = (bench.sockets(), AtomicBool::new(false));
    let watch = Watch::start();
    let arrived = std::thread::scope(|scope| {
        scope.spawn(|| send(&from, 1250, 2.0 * mbps * 1e6, &stop));
        let receiver = scope.spawn(|| {
            on_time();
            receive(&to, 0.5);
            receive(&to, SECONDS)
        });
        let arrived = receiver.join().expect("no panic");
        stop.store(true, Ordering::Relaxed);
        arrived
    });
    let measured = slope(&arrived) * 10_000.0;
    let machine = watch.end();
    let late = bench.finish().lateness().max();
    let found = format!("{measured:.0} bit/s of {mbps} Mbit/s; at most {late} late; {machine:?}");
    eprintln!("rate: {found}");
    assert!(arrived.is_sorted_by(|(_, a), (_, b)| a < b), "reordered at {mbps} Mbit/s");
    // A pause brings the arrivals in it to its end, and turns the slope by a part of its share of the time.
    let within = 0.005 + machine.worst().as_secs_f64() / SECONDS;
    assert!((measured / (mbps * 1e6) - 1.0).abs() < within, "{found}");
}

#[test]
fn a_link_has_its_rate_and_keeps_the_order() {
    let Some(_turn) = able() else { return };
    for mbps in [1.0, 10.0, 155.0] {
        measure(mbps);
    }
}
