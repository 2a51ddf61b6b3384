//! Carriers on which packets are lost and damaged, and sites that start anew.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bentpipe_testkit::{Watch, until};

use super::rig::{Running, Sky, bind, site_of_two};

/// Brings datagrams from one site to the other, with some of their TS packets lost and some with a flipped bit.
struct Relay {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// One TS packet in so many is lost, and one has a flipped bit.
const ONE_IN: u64 = 60;

impl Relay {
    /// Site 1 sends to the sky's port 5001, which goes to site 2, and the other way round.
    fn start(sky: &Sky) -> Relay {
        let stop = Arc::new(AtomicBool::new(false));
        let way = |port: u16, to: &str| {
            let (socket, stop) = (bind(&sky.sky, &format!("192.168.77.9:{port}")), Arc::clone(&stop));
            let to: SocketAddr = to.parse().expect("an address");
            std::thread::spawn(move || relay(&socket, to, &stop))
        };
        let threads = vec![way(5001, "192.168.77.2:5004"), way(5002, "192.168.77.1:5004")];
        Relay { stop, threads }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn relay(socket: &UdpSocket, to: SocketAddr, stop: &AtomicBool) {
    let (mut buffer, mut random) = ([0; 2000], 0x9e37_79b9_7f4a_7c15_u64);
    let mut next = move || {
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    while !stop.load(Ordering::Relaxed) {
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let mut out = Vec::new();
        for packet in buffer[..len].chunks_exact_mut(188) {
            if next() % ONE_IN == 0 {
                continue;
            }
            if next() % ONE_IN == 0 {
                // Not in the sync byte, whose damage loses the whole datagram.
                packet[1 + (next() % 187) as usize] ^= 1 << (next() % 8);
            }
            out.extend_from_slice(packet);
        }
        if !out.is_empty() {
            let _ = socket.send_to(&out, to);
        }
    }
}

fn through_relay(n: usize) -> String {
    format!(
        "[[output]]\nkind = \"udp\"\nto = [\"192.168.77.9:500{n}\"]\n[[input]]\nkind = \"udp\"\nlisten = \"192.168.77.{n}:5004\"\n"
    )
}

/// An RTP packet that no other one is like.
fn packet(n: u16) -> Vec<u8> {
    let mut bytes = vec![0x80, 3];
    bytes.extend(n.to_be_bytes());
    bytes.extend((u32::from(n) * 160).to_be_bytes());
    bytes.extend([1, 2, 3, 4]);
    bytes.extend((0..33).map(|at| (usize::from(n) * 31 + at * 7) as u8));
    bytes
}

#[test]
fn loss_and_damage_are_survived_and_nothing_wrong_is_delivered() {
    let Some(sky) = Sky::new(2) else { return };
    let _relay = Relay::start(&sky);
    let site = |n| {
        site_of_two(
            n,
            "rate = \"8 Mbit/s\"",
            &through_relay(n),
            "packing = \"1 ms\"\nrohc = { mode = \"optimistic\" }",
        )
    };
    let (mut one, mut two) = (sky.start(1, &site(1)), sky.start(2, &site(2)));
    until("an answer over the lossy carrier", || sky.pings(1, "10.2.0.1") >= 1);
    let (from, to) = (sky.socket(1, "10.1.0.1:0"), sky.socket(2, "10.2.0.1:6000"));
    let receiver = std::thread::spawn(move || {
        let (mut buffer, mut received) = ([0; 2000], Vec::new());
        while let Ok(len) = to.recv(&mut buffer) {
            received.push(buffer[..len].to_vec());
        }
        received
    });
    let count = 3000;
    for n in 0..count {
        from.send_to(&packet(n), "10.2.0.1:6000").expect("sent");
        std::thread::sleep(Duration::from_millis(1));
    }
    let received = receiver.join().expect("no panic");
    let sent: BTreeSet<Vec<u8>> = (0..count).map(packet).collect();
    assert!(received.iter().all(|bytes| sent.contains(bytes)), "a packet came that nobody sent");
    let figures = two.statistics();
    let got = &figures["remote"]["other"]["pid"]["0x101"];
    let share = received.len() as f64 / f64::from(count);
    eprintln!("{share:.3} of the packets arrived; {got:#}");
    // With about two packets in a TS packet, one TS packet in 30 harmed, and packets that straddle two of them.
    assert!(share > 0.8, "{share}");
    for anomaly in ["received_continuity_errors", "received_crc_errors"] {
        assert!(got[anomaly].as_u64() > Some(5), "{anomaly}: {got:#}");
    }
    assert_eq!((one.end(), two.end()), (Some(0), Some(0)));
}

/// A site that starts anew knows no contexts. In unidirectional mode the next refresh brings them, in optimistic mode what it
/// asks for.
#[test]
fn a_site_that_starts_anew_recovers_within_one_refresh() {
    let Some(sky) = Sky::new(2) else { return };
    for (rohc, limit) in [
        (
            "rohc = { refresh = 0, dynamic_refresh = 0, refresh_interval = \"1 s\" }",
            Duration::from_millis(1100),
        ),
        ("rohc = { mode = \"optimistic\", refresh = 0 }", Duration::from_millis(500)),
    ] {
        let ends = |n: usize| {
            through_relay(n)
                .replace("192.168.77.9:500", "192.168.77.")
                .replace(&format!("77.{n}\"]"), &format!("77.{}:5004\"]", 3 - n))
        };
        let site = |n| site_of_two(n, "rate = \"8 Mbit/s\"", &ends(n), rohc);
        let (_one, two) = (sky.start(1, &site(1)), sky.start(2, &site(2)));
        let watch = Watch::start();
        let recovered = recovery(&sky, two, &site(2));
        let machine = watch.end();
        eprintln!("recovered {recovered:?} after the restart with {rohc}; {machine:?}");
        // Sender, both gateways and receiver may each pause.
        assert!(recovered < limit + 4 * machine.worst(), "{recovered:?} with {rohc}; {machine:?}");
    }
}

/// How long after site 2 is ready again the first packet of a stream from site 1 arrives there.
fn recovery(sky: &Sky, mut two: Running, site_2: &str) -> Duration {
    sky.expect_pings(1, "10.2.0.1");
    let stop = Arc::new(AtomicBool::new(false));
    let from = sky.socket(1, "10.1.0.1:0");
    let sender = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            for n in (0..u16::MAX).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let _ = from.send_to(&packet(n), "10.2.0.1:6000");
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    };
    {
        let to = sky.socket(2, "10.2.0.1:6000");
        let mut buffer = [0; 100];
        for _ in 0..50 {
            to.recv(&mut buffer).expect("the stream flows");
        }
    }
    two.end();
    let _two = sky.start(2, site_2);
    let ready = Instant::now();
    let to = sky.socket(2, "0.0.0.0:6000");
    to.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    let arrived = to.recv(&mut [0; 100]);
    let recovered = ready.elapsed();
    stop.store(true, Ordering::Relaxed);
    sender.join().expect("no panic");
    arrived.expect("the stream flows again");
    recovered
}
