//! Nanoseconds a packet, as a gateway spends them.
//!
//! `cargo bench -p bentpipe-rohc --bench speed`. Whole packets, whose payload is copied; the default settings, with their
//! refreshes and confirmations, and the same without confirmations. *Fresh* starts with new contexts, so that IR packets
//! and allocations are in; *warm* goes on with the same flows. Each figure is the median of the rounds.
//!
//! For an instruction counter, `--once KIND FLOWS` runs one round, with `--confirm 0` without confirmations;
//! `--v2` uses the profiles of version 2, `--warm` adds another round, `--linear` searches the contexts one by one. `--searches` prints the table of searches alone.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints what a clock says")]
#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Lookup, Profiles,
};

/// Packets of each flow in a round, at least.
const FLOW_PACKETS: usize = 40;
/// Packets of a round, at least.
const ROUND_PACKETS: usize = 4_000;
/// Packets that are timed together.
const TIMED: usize = 64;
/// Rounds of which the median is taken.
const ROUNDS: usize = 21;
/// Octets of payload of a TCP segment.
const SEGMENT: usize = 1448;

/// Traffic of a flow.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// RTP over UDP over IPv4, 20 octets of payload.
    Rtp,
    /// UDP over IPv4, 32 octets of payload.
    Udp,
    /// ESP over IPv4, 32 octets behind its sequence number.
    Esp,
    /// Segments of 1448 octets with timestamps, over IPv4.
    TcpData,
    /// Acknowledgements with timestamps, of two segments each, over IPv4.
    TcpAcks,
}

const KINDS: [(&str, Kind); 5] = [
    ("rtp", Kind::Rtp),
    ("udp", Kind::Udp),
    ("esp", Kind::Esp),
    ("tcp-data", Kind::TcpData),
    ("tcp-acks", Kind::TcpAcks),
];

/// Versions with their profiles. There is one of TCP.
const VERSIONS: [(&str, Profiles); 2] = [("v1", Profiles::V1), ("v2", Profiles::V2)];

fn packet(kind: Kind, flow: usize, number: usize) -> Vec<u8> {
    let (protocol, payload_len) = match kind {
        Kind::Rtp | Kind::Udp => (17, 40),
        Kind::Esp => (50, 40),
        Kind::TcpData => (6, 32 + SEGMENT),
        Kind::TcpAcks => (6, 32),
    };
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&(20 + payload_len as u16).to_be_bytes());
    packet.extend_from_slice(&(number as u16).to_be_bytes());
    packet.extend_from_slice(&[0x40, 0, 64, protocol, 0, 0]);
    packet.extend_from_slice(&[10, 0, (flow >> 8) as u8, flow as u8, 10, 1, 0, 1]);
    let sum: u32 = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    match kind {
        Kind::Rtp => rtp(flow, number, &mut packet),
        Kind::Udp => packet.extend_from_slice(&[0x4e, 0x21, 0, 53, 0, 40, 0x12, number as u8, 0]),
        Kind::Esp => {
            packet.extend_from_slice(&[1, 2, 3, 4]);
            packet.extend_from_slice(&(number as u32 + 1).to_be_bytes());
        }
        Kind::TcpData => tcp((number * SEGMENT) as u32, 1, number, &mut packet),
        Kind::TcpAcks => tcp(1, (number * 2 * SEGMENT) as u32, number, &mut packet),
    }
    packet.resize(20 + payload_len, number as u8);
    packet
}

fn rtp(flow: usize, number: usize, packet: &mut Vec<u8>) {
    packet.extend_from_slice(&[0x4e, 0x20, 0x4e, 0x22, 0, 40, 0x12, number as u8, 0x80, 0]);
    packet.extend_from_slice(&(number as u16).to_be_bytes());
    packet.extend_from_slice(&(number as u32 * 160).to_be_bytes());
    packet.extend_from_slice(&(flow as u32).to_be_bytes());
}

fn tcp(seq: u32, ack: u32, number: usize, packet: &mut Vec<u8>) {
    packet.extend_from_slice(&[0x9c, 0x40, 0, 80]);
    packet.extend_from_slice(&seq.to_be_bytes());
    packet.extend_from_slice(&ack.to_be_bytes());
    packet.extend_from_slice(&[0x80, 0x10, 0x10, 0, (number >> 8) as u8, number as u8, 0, 0, 1, 1, 8, 10]);
    packet.extend_from_slice(&(number as u32 / 3).to_be_bytes());
    packet.extend_from_slice(&(number as u32 / 4).to_be_bytes());
}

/// Settings of a channel.
#[derive(Clone, Copy)]
struct Settings {
    profiles: Profiles,
    confirm: u8,
    lookup: Lookup,
}

/// Both ends, and the octets between them.
struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
    stream: Vec<u8>,
    ends: Vec<usize>,
    restored: Vec<u8>,
}

impl Ends {
    fn new(settings: Settings) -> Self {
        let Settings { profiles, confirm, lookup } = settings;
        let channel = Channel { cids: CidSpace::LARGE, profiles, ..Channel::default() };
        let compressor = CompressorConfig { channel, confirm, lookup, ..CompressorConfig::default() };
        let decompressor =
            DecompressorConfig { channel, peer_confirms: confirm > 0, ..DecompressorConfig::default() };
        Self {
            compressor: Compressor::new(compressor),
            decompressor: Decompressor::new(decompressor),
            stream: Vec::with_capacity(TIMED * 2048),
            ends: Vec::with_capacity(TIMED),
            restored: Vec::with_capacity(2048),
        }
    }

    /// Carries packets `numbers` of `flows` flows in turn; returns nanoseconds a packet to compress and to decompress them,
    /// and octets of a header that was sent.
    ///
    /// A few packets at a time go through both ends, as through a gateway: all of them at once would measure the memory.
    fn carry(&mut self, kind: Kind, flows: usize, numbers: Range<usize>) -> [f64; 3] {
        let count = numbers.len() * flows;
        let (mut packets, mut spent, mut headers) = (Vec::new(), [Duration::ZERO; 2], 0);
        let mut rest = numbers.flat_map(|number| (0..flows).map(move |flow| (flow, number)));
        loop {
            packets.clear();
            packets.extend(rest.by_ref().take(TIMED).map(|(flow, number)| packet(kind, flow, number)));
            if packets.is_empty() {
                break;
            }
            self.stream.clear();
            self.ends.clear();
            let start = Instant::now();
            for packet in &packets {
                let packet = black_box(packet);
                let sent =
                    self.compressor.compress(Duration::ZERO, packet, &mut self.stream).expect("compresses");
                headers += sent.header_out;
                self.ends.push(self.stream.len());
            }
            spent[0] += start.elapsed();
            let mut from = 0;
            let start = Instant::now();
            for &end in &self.ends {
                self.restored.clear();
                let unit = black_box(&self.stream[from..end]);
                self.decompressor.decompress(Duration::ZERO, unit, &mut self.restored).expect("decompresses");
                black_box(&self.restored);
                from = end;
            }
            spent[1] += start.elapsed();
            assert_eq!(Some(&self.restored), packets.last(), "the last packet");
        }
        let each = |sum: f64| sum / count as f64;
        let [compress, decompress] = spent.map(|spent| each(spent.as_nanos() as f64));
        [compress, decompress, each(headers as f64)]
    }
}

/// Numbers of the packets of a flow in the first round, and in the one that goes on from there.
fn rounds(flows: usize) -> [Range<usize>; 2] {
    let each = (ROUND_PACKETS / flows).max(FLOW_PACKETS);
    [0..each, each..2 * each]
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn measure(name: &str, kind: Kind, version: (&str, Profiles), flows: usize) {
    let [first, second] = rounds(flows);
    let (version, profiles) = version;
    for confirm in [CompressorConfig::default().confirm, 0] {
        // Fresh and warm, each compress, decompress and octets.
        let mut figures: [Vec<f64>; 6] = Default::default();
        for _ in 0..ROUNDS {
            let mut ends = Ends::new(Settings { profiles, confirm, lookup: Lookup::Hashed });
            let [fresh, warm] = [&first, &second].map(|numbers| ends.carry(kind, flows, numbers.clone()));
            figures
                .iter_mut()
                .zip(fresh.into_iter().chain(warm))
                .for_each(|(figures, figure)| figures.push(figure));
        }
        let [fresh_in, fresh_out, fresh_octets, warm_in, warm_out, warm_octets] = figures.map(median);
        println!(
            "{name:8} {version} {flows:>6} {confirm:>8} {fresh_in:>9.0} {fresh_out:>9.0} {fresh_octets:>7.2} \
             {warm_in:>9.0} {warm_out:>9.0} {warm_octets:>7.2}"
        );
    }
}

/// Nanoseconds a packet of RTP takes to compress in the steady state, without confirmations.
fn searched(lookup: Lookup, flows: usize) -> f64 {
    let [first, second] = rounds(flows);
    let mut ends = Ends::new(Settings { profiles: Profiles::V1, confirm: 0, lookup });
    ends.carry(Kind::Rtp, flows, first);
    ends.carry(Kind::Rtp, flows, second)[0]
}

/// Prints the time with contexts found by hash and searched one by one, in rounds that take turns.
fn measure_searches(flows: usize) {
    let rounds = if flows > 1000 { 3 } else { ROUNDS };
    let pairs: Vec<[f64; 2]> =
        (0..rounds).map(|_| [Lookup::Hashed, Lookup::Linear].map(|lookup| searched(lookup, flows))).collect();
    let [hashed, linear] = [0, 1].map(|of| median(pairs.iter().map(|pair| pair[of]).collect()));
    println!("{flows:>8} {hashed:>9.0} {linear:>9.0} {:>7.2}", hashed / linear);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str, step: usize| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(at + step).map_or("", String::as_str))
    };
    let number = |text: &str| text.parse::<usize>().unwrap_or(1);
    if after("--searches", 0).is_some() {
        print_searches();
        return;
    }
    if let (Some(name), Some(flows)) = (after("--once", 1), after("--once", 2)) {
        let (_, kind) =
            *KINDS.iter().find(|kind| kind.0 == name).expect("rtp, udp, esp, tcp-data or tcp-acks");
        let default = CompressorConfig::default().confirm;
        let confirm = after("--confirm", 1).and_then(|value| value.parse().ok()).unwrap_or(default);
        let lookup = if after("--linear", 0).is_some() { Lookup::Linear } else { Lookup::Hashed };
        let profiles = if after("--v2", 0).is_some() { Profiles::V2 } else { Profiles::V1 };
        let mut ends = Ends::new(Settings { profiles, confirm, lookup });
        let [first, second] = rounds(number(flows));
        ends.carry(kind, number(flows), first);
        if after("--warm", 0).is_some() {
            ends.carry(kind, number(flows), second);
        }
        return;
    }
    println!("ns a packet                        fresh                         warm");
    println!("traffic     flows  confirm  compress  decompr.  octets  compress  decompr.  octets");
    for (name, kind) in KINDS {
        let counts: &[usize] = if matches!(kind, Kind::Rtp) { &[1, 300, 4000] } else { &[1, 300] };
        let versions = if matches!(kind, Kind::TcpData | Kind::TcpAcks) { &VERSIONS[..1] } else { &VERSIONS };
        for &version in versions {
            counts.iter().for_each(|&flows| measure(name, kind, version, flows));
        }
    }
    print_searches();
}

fn print_searches() {
    println!("ns to compress a packet of RTP, warm, without confirmations");
    println!("contexts   by hash  searched   ratio");
    [1, 31, 311, 4000].into_iter().for_each(measure_searches);
}
