//! Packet rate through two gateways, with ROHC and ULE in a transport stream over UDP.
//!
//! Packets come from a TUN device and end in another one. The load is RTP of GSM, 73 bytes of IPv4, in 300
//! streams. Each gateway is one thread with the priority of `bentpipe gateway`, and its CPU time (the
//! kernel's for it included) is a separate figure: on a shared machine it is more meaningful than the rate.
//! The kernel's UDP, its forwarding and the load are part of the rate. `gateway rohc 150000` measures that
//! alone. Needs root.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that measures real time")]

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bentpipe_dvb::{self as dvb, Cid, Rohc, RohcMode};
use bentpipe_emu::datagrams::{BATCH, Outbox};
use bentpipe_emu::{Namespace, cpu_time, request_realtime_priority};
use bentpipe_gateway::{
    Carrier, Config, Framing, Gateway, Handle, InputConfig, Lan, LanKind, Listen, Nulls, OutputConfig,
    Remote, Send, Statistics,
};
use bentpipe_units::{Bytes, Span};
use serde_json::json;

const SECONDS: f64 = 4.0;
const STREAMS: usize = 300;
/// GSM: 33 bytes after RTP, UDP and IPv4 headers.
const PAYLOAD: usize = 12 + 33;
/// The first port of the streams.
const PORT: u16 = 20_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, rate] = &arguments[..] {
        println!("{:#}", measure(name, name == "rohc", Some(rate.parse()?))?);
        return Ok(());
    }
    for (name, rohc) in [("plain", false), ("rohc", true)] {
        for rate in [Some(50_000.0), Some(100_000.0), Some(150_000.0), None] {
            println!("{:#}", measure(name, rohc, rate)?);
        }
    }
    Ok(())
}

/// Two sites and a wire between them.
struct Sites {
    namespaces: [Namespace; 2],
    handles: [Handle; 2],
    threads: Vec<std::thread::JoinHandle<()>>,
}

fn ip(words: &str) -> Result<()> {
    let status = Command::new("ip").args(words.split(' ')).status()?;
    ensure!(status.success(), "ip {words}");
    Ok(())
}

impl Sites {
    fn start(rohc: bool) -> Result<Sites> {
        let namespaces = [Namespace::create("bench-a")?, Namespace::create("bench-b")?];
        let [a, b] = [namespaces[0].name(), namespaces[1].name()];
        ip(&format!("-n {a} link add name up0 type veth peer name up0 netns {b}"))?;
        let (mut handles, mut threads) = (Vec::new(), Vec::new());
        for (n, namespace) in namespaces.iter().enumerate() {
            ip(&format!("-n {} address add 192.168.78.{}/24 dev up0", namespace.name(), n + 1))?;
            ip(&format!("-n {} link set dev up0 up", namespace.name()))?;
            let config = config(n as u8 + 1, rohc);
            let gateway = namespace.within(|| Gateway::open(&config, n as u32, None))?;
            let mut gateway = gateway.context("a gateway")?;
            handles.push(gateway.handle());
            threads.push(std::thread::spawn(move || {
                let _ = request_realtime_priority();
                gateway.run();
            }));
        }
        let handles = handles.try_into().ok().context("two gateways")?;
        Ok(Sites { namespaces, handles, threads })
    }

    fn statistics(&self) -> Result<[Statistics; 2]> {
        let [a, b] = self.handles.each_ref().map(Handle::statistics);
        Ok([a.context("it runs")?, b.context("it runs")?])
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        self.handles.iter().for_each(Handle::end);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn config(n: u8, rohc: bool) -> Config {
    let other = 3 - n;
    let address = |n| SocketAddr::from(([192, 168, 78, n], 5004));
    let rohc = rohc.then(|| Rohc {
        mode: RohcMode::Optimistic,
        cid: Cid::Large,
        contexts: 512,
        rtp_ports: Some((0..STREAMS as u16).map(|stream| PORT + stream).collect()),
        ..Rohc::default()
    });
    Config {
        capture: None,
        lan: Lan {
            device: "bent0".to_owned(),
            kind: LanKind::Router,
            addresses: vec![([10, n, 0, 1].into(), 32)],
            mtu_bytes: 1500,
        },
        carrier: Carrier {
            rate: None,
            framing: Framing::Ts { packets: 7, nulls: Nulls::Never, tables: None },
            queue: Bytes::new(1_000_000),
        },
        outputs: vec![OutputConfig::Udp {
            send: Send { to: vec![address(other)], interface: None, ttl: 1, dscp: 0 },
            rtp: false,
            fec: None,
        }],
        inputs: vec![InputConfig::Udp {
            listen: Listen { at: address(n), interface: None, from: Vec::new() },
            rtp: false,
            reorder: Span::ZERO,
            fec: false,
        }],
        remotes: vec![Remote {
            name: "other".to_owned(),
            send: 0x100 + u16::from(n),
            receive: vec![0x100 + u16::from(other)],
            networks: vec![format!("10.{other}.0.0/24").parse().expect("a network")],
            stream: dvb::Config { packing: Some(Span::from_millis(1)), rohc, ..dvb::Config::default() },
            own_addresses: Vec::new(),
            udlr: None,
            device: None,
        }],
    }
}

fn measure(name: &str, rohc: bool, rate: Option<f64>) -> Result<serde_json::Value> {
    let sites = Sites::start(rohc)?;
    let bind = |n: usize, address: &str| sites.namespaces[n].within(|| UdpSocket::bind(address));
    let sockets = (0..STREAMS).map(|stream| Ok(bind(1, &format!("10.2.0.1:{}", PORT + stream as u16))??));
    let sinks = sockets.collect::<Result<Vec<UdpSocket>>>()?;
    let socket = bind(0, "10.1.0.1:5002")??;
    // The contexts are made before the measurement.
    load(&socket, Some(20_000.0), 0.2);
    std::thread::sleep(Duration::from_millis(200));
    let before = sites.statistics()?;
    let load_began = cpu_time();
    let (sent, seconds) = load(&socket, rate, SECONDS);
    let load_cpu = (cpu_time() - load_began).as_secs_f64();
    std::thread::sleep(Duration::from_millis(200));
    let after = sites.statistics()?;
    drop(sinks);
    let written = after[1].lan.written - before[1].lan.written;
    let cpu = [0, 1].map(|n| (after[n].cpu - before[n].cpu).as_secs_f64());
    let [sender, receiver] = [&after[0].remotes[0], &after[1].remotes[0]];
    let compression = sender.compression;
    Ok(json!({
        "headers": name,
        "offered_packets_per_s": (sent as f64 / seconds).round(),
        "delivered_packets_per_s": (written as f64 / seconds).round(),
        "lost_share": 1.0 - (written as f64 / sent as f64).min(1.0),
        "sender_cpu_us_a_packet": cpu[0] * 1e6 / (after[0].lan.read - before[0].lan.read).max(1) as f64,
        "receiver_cpu_us_a_packet": cpu[1] * 1e6 / written.max(1) as f64,
        "load_cpu_us_a_packet": load_cpu * 1e6 / sent.max(1) as f64,
        "cores_taken": (load_cpu + cpu[0] + cpu[1]) / seconds,
        "queue_dropped": sender.overflowed,
        "header_bytes_out_a_packet": compression.header_out as f64 / compression.packets.max(1) as f64,
        "ts_packets_per_data_packet": (after[0].carrier.data - before[0].carrier.data) as f64 / written.max(1) as f64,
        "crc_errors": receiver.received[0].1.crc_errors,
        "continuity_errors": receiver.received[0].1.continuity_errors,
    }))
}

/// Sends packets of all streams in turn and returns their number and the seconds.
///
/// The rate is the given one, or the maximum that the kernel accepts.
fn load(socket: &UdpSocket, rate: Option<f64>, seconds: f64) -> (u64, f64) {
    let (mut outbox, start, mut number, mut sent) = (Outbox::new(), Instant::now(), 0_u64, 0);
    loop {
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed > seconds {
            return (sent, elapsed);
        }
        if rate.is_some_and(|rate| number as f64 + BATCH as f64 > elapsed * rate) {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        for _ in 0..BATCH {
            let stream = (number % STREAMS as u64) as u16;
            let to = SocketAddr::from(([10, 2, 0, 1], PORT + stream));
            rtp(outbox.datagram(Some(to), PAYLOAD), stream, number / STREAMS as u64);
            number += 1;
        }
        sent += outbox.send(socket).sent as u64;
    }
}

fn rtp(bytes: &mut [u8], stream: u16, n: u64) {
    bytes[0] = 0x80;
    bytes[1] = 3;
    bytes[2..4].copy_from_slice(&(n as u16).to_be_bytes());
    bytes[4..8].copy_from_slice(&(n as u32 * 160).to_be_bytes());
    bytes[8..12].copy_from_slice(&u32::from(stream).to_be_bytes());
}
