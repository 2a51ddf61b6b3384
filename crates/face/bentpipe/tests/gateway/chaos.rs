//! Three sites under random faults: `cargo xtask chaos --for 10m`, which sets the seconds in `CHAOS_SECONDS`.
//!
//! Faults: `kill -9` of a gateway, which starts again as by its supervisor; a cable cut; floods of garbage and of TS packets with
//! another site's address. Meanwhile 10,000 flows go round the sites. After each fault all pairs of sites have traffic again within
//! 2 s, nothing is delivered wrong, and the memory of the gateways stays flat. Clocks are not stepped: no namespace has a realtime clock
//! of its own, and the gateways go by the monotonic one.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bentpipe_emu::Namespace;
use bentpipe_units::RandomStream;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::rig::{Running, Sky};

/// Flows from each site to the next.
const FLOWS: u16 = 10_000;
/// Packets per second of each pair of sites.
const RATE: u64 = 800;
/// First source port of the flows.
const FIRST_PORT: u16 = 20_000;
/// Port that all flows go to.
const PORT: u16 = 7000;
/// Longest time until traffic is back.
const BACK: Duration = Duration::from_secs(2);
/// Seconds of a run without `CHAOS_SECONDS`.
const SECONDS: u64 = 60;

fn site(n: usize) -> String {
    let others: Vec<usize> = (1..=3).filter(|&other| other != n).collect();
    let to: Vec<String> = others.iter().map(|other| format!("\"192.168.77.{other}:5004\"")).collect();
    let from: Vec<String> = others.iter().map(|other| format!("\"192.168.77.{other}\"")).collect();
    let remotes = others.iter().map(|other| {
        format!(
            "[remote.site-{other}]\nsend = \"0x1{n}{other}\"\nreceive = [\"0x1{other}{n}\"]\nnetworks = [\"10.{other}.0.0/24\"]\n\
             packing = \"1 ms\"\nrohc = {{ mode = \"optimistic\", cid = \"large\", contexts = 512 }}\n"
        )
    });
    format!(
        "title = \"site {n}\"\n[lan]\naddresses = [\"10.{n}.0.1/32\"]\n[carrier]\nrate = \"8 Mbit/s\"\nnulls = \"fill\"\n\
         [[output]]\nkind = \"udp\"\nto = [{}]\n[[input]]\nkind = \"udp\"\nlisten = \"192.168.77.{n}:5004\"\nfrom = [{}]\n{}",
        to.join(", "),
        from.join(", "),
        remotes.collect::<String>()
    )
}

/// Traffic from one site to another.
struct Pair {
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    wrong: Arc<AtomicU64>,
    twice: Arc<AtomicU64>,
    flows: Arc<Mutex<HashSet<u16>>>,
    /// Number of the latest packet that arrived, counted from one.
    latest: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

fn sum(flow: u16, number: u64, filling: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (flow, number, filling).hash(&mut hasher);
    hasher.finish()
}

/// Returns a UDP datagram of a flow, with its own header, for a raw socket.
fn datagram(flow: u16, number: u64) -> Vec<u8> {
    let filling: Vec<u8> = (0..number % 90).map(|n| (n * 7 + number) as u8).collect();
    let mut bytes = vec![0; 8];
    bytes.extend(number.to_be_bytes());
    bytes.extend(sum(flow, number, &filling).to_be_bytes());
    bytes.extend(&filling);
    let len = bytes.len() as u16;
    bytes[..2].copy_from_slice(&(FIRST_PORT + flow).to_be_bytes());
    bytes[2..4].copy_from_slice(&PORT.to_be_bytes());
    bytes[4..6].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// Returns the number of a payload, if it is as it was sent.
fn number(bytes: &[u8], from: SocketAddr) -> Option<(u16, u64)> {
    let flow = from.port().checked_sub(FIRST_PORT)?;
    let (number, rest) = bytes.split_first_chunk()?;
    let (checked, filling) = rest.split_first_chunk()?;
    let number = u64::from_be_bytes(*number);
    (u64::from_be_bytes(*checked) == sum(flow, number, filling)).then_some((flow, number))
}

impl Pair {
    fn start(from: &Namespace, to: &Namespace, addresses: [IpAddr; 2], end: &Arc<AtomicBool>) -> Pair {
        let raw = from.within(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))).expect("inside");
        let raw = raw.expect("root may");
        let listener = to.within(|| UdpSocket::bind((addresses[1], PORT))).expect("inside").expect("free");
        listener.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        let mut pair = Pair {
            sent: Arc::default(),
            received: Arc::default(),
            wrong: Arc::default(),
            twice: Arc::default(),
            flows: Arc::default(),
            latest: Arc::default(),
            threads: Vec::new(),
        };
        let (sent, until) = (Arc::clone(&pair.sent), Arc::clone(end));
        let to = SockAddr::from(SocketAddr::new(addresses[1], 0));
        pair.threads.push(std::thread::spawn(move || {
            let begin = Instant::now();
            while !until.load(Ordering::Relaxed) {
                let due = begin.elapsed().as_millis() as u64 * RATE / 1000;
                while sent.load(Ordering::Relaxed) < due {
                    let number = sent.fetch_add(1, Ordering::SeqCst) + 1;
                    // While the site has no gateway there is no route.
                    let _ = raw.send_to(&datagram((number * 7919 % u64::from(FLOWS)) as u16, number), &to);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }));
        let (received, wrong, twice) =
            (Arc::clone(&pair.received), Arc::clone(&pair.wrong), Arc::clone(&pair.twice));
        let (flows, latest, until) = (Arc::clone(&pair.flows), Arc::clone(&pair.latest), Arc::clone(end));
        pair.threads.push(std::thread::spawn(move || {
            let (mut bytes, mut seen, mut flows_seen) = ([0; 2048], HashSet::new(), HashSet::new());
            while !until.load(Ordering::Relaxed) {
                let Ok((len, source)) = listener.recv_from(&mut bytes) else { continue };
                match number(&bytes[..len], source).filter(|_| source.ip() == addresses[0]) {
                    None => drop(wrong.fetch_add(1, Ordering::SeqCst)),
                    Some((flow, number)) => {
                        received.fetch_add(1, Ordering::SeqCst);
                        if seen.len() > 100_000 {
                            seen.clear();
                        }
                        if !seen.insert(number) {
                            twice.fetch_add(1, Ordering::SeqCst);
                        }
                        if flows_seen.insert(flow) {
                            flows.lock().expect("no panic").insert(flow);
                        }
                        latest.fetch_max(number, Ordering::SeqCst);
                    }
                }
            }
        }));
        pair
    }

    /// Returns `true` if a packet arrived that was sent after number `mark`.
    fn is_back(&self, mark: u64) -> bool {
        self.latest.load(Ordering::SeqCst) > mark
    }
}

/// Waits until all pairs have traffic again, and returns the time it took since `begin`.
fn back(pairs: &[Pair], begin: Instant) -> Option<Duration> {
    let marks: Vec<u64> = pairs.iter().map(|pair| pair.sent.load(Ordering::SeqCst)).collect();
    while begin.elapsed() < BACK * 5 {
        if pairs.iter().zip(&marks).all(|(pair, mark)| pair.is_back(*mark)) {
            return Some(begin.elapsed());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Returns the resident memory of a process and its children in kilobytes.
fn memory_kb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Returns a random number below `end`.
fn below(random: &mut RandomStream, end: u64) -> u64 {
    (random.unit() * end as f64) as u64
}

/// Sends datagrams from the sky to a site for two seconds, and returns their number.
fn flood(sky: &Namespace, target: usize, random: &mut RandomStream, is_forged: bool) -> u64 {
    let raw = sky.within(|| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))?;
        socket.set_header_included_v4(true).map(|()| socket)
    });
    let raw = raw.expect("inside").expect("root may");
    let to = SockAddr::from(SocketAddr::from(([192, 168, 77, target as u8], 0)));
    let begin = Instant::now();
    let mut sent = 0;
    while begin.elapsed() < Duration::from_secs(2) {
        for _ in 0..40 {
            let source = if is_forged { (target % 3 + 1) as u8 } else { 9 };
            let mut payload: Vec<u8> = (0..1316).map(|_| below(random, 256) as u8).collect();
            if is_forged {
                // TS packets of a PID that the site takes from that one, with random contents.
                let pid = 0x100 + u16::from(source) * 16 + target as u16;
                for packet in payload.chunks_exact_mut(188) {
                    packet[0] = 0x47;
                    packet[1..3].copy_from_slice(&(pid | 0x4000).to_be_bytes());
                    packet[3] = 0x10 | packet[3] & 15;
                }
            }
            let packet = ip_udp([192, 168, 77, source], [192, 168, 77, target as u8], &payload);
            sent += u64::from(raw.send_to(&packet, &to).is_ok());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    sent
}

fn ip_udp(from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let len = 28 + payload.len() as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet.extend(from);
    packet.extend(to);
    packet.extend([5004u16, 5004, len - 20, 0].map(u16::to_be_bytes).concat());
    packet.extend(payload);
    packet
}

#[test]
#[ignore = "minutes to an hour: `cargo xtask chaos`"]
fn three_sites_survive_random_faults() {
    let seconds = std::env::var("CHAOS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let seed = std::env::var("CHAOS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let Some(sky) = Sky::new(3) else { return };
    let mut random = RandomStream::new(seed, "chaos");
    let mut sites: Vec<Option<Running>> = (1..=3).map(|n| Some(sky.start(n, &site(n)))).collect();
    for (from, to) in [(1, 2), (2, 3), (3, 1)] {
        sky.expect_pings(from, &format!("10.{to}.0.1"));
    }
    let end = Arc::new(AtomicBool::new(false));
    let address = |n: usize| IpAddr::from([10, n as u8, 0, 1]);
    let pairs: Vec<Pair> = [(1, 2), (2, 3), (3, 1)]
        .map(|(from, to)| {
            let ends = [address(from), address(to)];
            Pair::start(&sky.sites[from - 1], &sky.sites[to - 1], ends, &end)
        })
        .into();
    std::thread::sleep(Duration::from_secs(15));
    let memory = |sites: &[Option<Running>]| {
        sites.iter().flatten().map(|site| memory_kb(site.id())).collect::<Vec<u64>>()
    };
    let first = memory(&sites);
    let (begin, mut counts, mut longest, mut most) =
        (Instant::now(), [0u32; 4], [Duration::ZERO; 4], first.iter().copied().max().unwrap_or_default());
    let mut flooded = 0;
    while begin.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(2000 + below(&mut random, 4000)));
        let (kind, n) = (below(&mut random, 4) as usize, below(&mut random, 3) as usize + 1);
        let mut over = Instant::now();
        match kind {
            0 => {
                if let Some(running) = sites[n - 1].take() {
                    running.signal("-KILL");
                    drop(running);
                }
                sites[n - 1] = Some(sky.start(n, &site(n)));
            }
            1 => {
                let cable = |state: &str| {
                    bentpipe_testkit::ip(&format!("-n {} link set dev down{n} {state}", sky.sky.name()))
                };
                cable("down");
                std::thread::sleep(Duration::from_millis(500 + below(&mut random, 2500)));
                cable("up");
                over = Instant::now();
            }
            _ => {
                flooded += flood(&sky.sky, n, &mut random, kind == 3);
                over = Instant::now();
            }
        }
        // The start of a gateway is part of it.
        let took = back(&pairs, over);
        let names = ["kill -9", "cable cut", "garbage", "forged"];
        let took =
            took.unwrap_or_else(|| panic!("no traffic for {:?} after {} at site {n}", BACK * 5, names[kind]));
        counts[kind] += 1;
        longest[kind] = longest[kind].max(took);
        most = most.max(memory(&sites).into_iter().max().unwrap_or_default());
        eprintln!(
            "{:6.1} s  {:9} site {n}: back after {took:?}; {:?} kB",
            begin.elapsed().as_secs_f64(),
            names[kind],
            memory(&sites)
        );
    }
    std::thread::sleep(Duration::from_secs(3));
    end.store(true, Ordering::SeqCst);
    let total = |of: fn(&Pair) -> &Arc<AtomicU64>| {
        pairs.iter().map(|pair| of(pair).load(Ordering::SeqCst)).sum::<u64>()
    };
    let flows: Vec<usize> = pairs.iter().map(|pair| pair.flows.lock().expect("no panic").len()).collect();
    let (sent, received) = (total(|pair| &pair.sent), total(|pair| &pair.received));
    let (wrong, twice) = (total(|pair| &pair.wrong), total(|pair| &pair.twice));
    eprintln!(
        "{seconds} s, seed {seed}: {counts:?} faults (kill -9, cable cut, garbage, forged), {flooded} datagrams of floods; traffic back after \
         at most {longest:?}; {sent} packets of {flows:?} flows sent, {received} received, {wrong} wrong, {twice} twice; memory at first \
         {first:?} kB, at last {:?} kB, at most {most} kB",
        memory(&sites)
    );
    pairs.into_iter().flat_map(|pair| pair.threads).for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(wrong, 0, "delivered wrong");
    assert!(longest.iter().all(|took| *took < BACK), "{longest:?}");
    let allowed = first.iter().copied().max().unwrap_or_default() * 3 / 2 + 4096;
    assert!(most < allowed, "{most} kB of {allowed}");
    assert!(flows.iter().all(|flows| *flows == usize::from(FLOWS)) || seconds < 60, "{flows:?}");
    assert!(sites.iter_mut().flatten().all(|site| site.end() == Some(0)));
}
