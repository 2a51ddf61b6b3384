//! Nanoseconds a packet, beside librohc's on this kind of machine.
//!
//! `cargo bench -p bentpipe-rohc`. RTP over UDP over IPv4, 20 octets of payload, flows in turn, large CIDs, U-mode,
//! after initialization, without refreshes and confirmations. librohc's figures (revision 70589cc2, -O3): see the table below.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints what a clock says")]
#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Refresh,
};

/// Flows, and librohc's nanoseconds for compression and decompression.
const LIBROHC: [(usize, u32, u32); 3] = [(1, 450, 223), (300, 614, 386), (4000, 890, 632)];
/// Packets that are timed together; the best round counts, so that a busy machine does not.
const ROUND_PACKETS: usize = 4_000;
const ROUNDS: usize = 60;

fn packet(flow: usize, number: usize) -> [u8; 60] {
    let mut packet = [0u8; 60];
    packet[..2].copy_from_slice(&[0x45, 0]);
    packet[2..4].copy_from_slice(&60u16.to_be_bytes());
    packet[4..6].copy_from_slice(&(number as u16).to_be_bytes());
    packet[6..10].copy_from_slice(&[0x40, 0, 64, 17]);
    packet[12..16].copy_from_slice(&[10, 0, (flow >> 8) as u8, flow as u8]);
    packet[16..20].copy_from_slice(&[10, 1, 0, 1]);
    let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet[20..28].copy_from_slice(&[0x4e, 0x20, 0x4e, 0x22, 0, 40, 0x12, number as u8]);
    packet[28..30].copy_from_slice(&[0x80, 0]);
    packet[30..32].copy_from_slice(&(number as u16).to_be_bytes());
    packet[32..36].copy_from_slice(&(number as u32 * 160).to_be_bytes());
    packet[36..40].copy_from_slice(&(flow as u32).to_be_bytes());
    packet
}

/// Packets of `flows` flows in turn, from number `from` on.
fn packets(flows: usize, from: usize, count: usize) -> Vec<[u8; 60]> {
    (0..count).map(|index| packet(index % flows, from + index / flows)).collect()
}

fn measure(flows: usize, rounds: usize) -> (f64, f64) {
    let channel = Channel { cids: CidSpace::Large { max_cid: 16_383 }, ..Channel::default() };
    let never = CompressorConfig {
        ir_refresh: Refresh::NEVER,
        fo_refresh: Refresh::NEVER,
        confirm: 0,
        ..CompressorConfig::default()
    };
    let mut compressor = Compressor::new(CompressorConfig { channel, ..never });
    let mut decompressor = Decompressor::new(DecompressorConfig { channel, ..DecompressorConfig::default() });
    let mut out = Vec::with_capacity(256);
    let mut restored = Vec::with_capacity(256);
    let warm_up = packets(flows, 0, flows * 8);
    for packet in &warm_up {
        out.clear();
        restored.clear();
        compressor.compress(Duration::ZERO, packet, &mut out).expect("compresses");
        decompressor.decompress(Duration::ZERO, &out, &mut restored).expect("decompresses");
        assert_eq!(restored, packet);
    }
    let mut best = (f64::MAX, f64::MAX);
    let count = ROUND_PACKETS.next_multiple_of(flows);
    let mut stream = Vec::with_capacity(count * 64);
    let mut ends = Vec::with_capacity(count);
    for round in 0..rounds {
        let batch = packets(flows, 8 + round * count / flows, count);
        stream.clear();
        ends.clear();
        let start = Instant::now();
        for packet in &batch {
            compressor.compress(Duration::ZERO, black_box(packet), &mut stream).expect("compresses");
            ends.push(stream.len());
        }
        best.0 = best.0.min(start.elapsed().as_nanos() as f64 / count as f64);
        let mut from = 0;
        let start = Instant::now();
        for &end in &ends {
            restored.clear();
            decompressor
                .decompress(Duration::ZERO, black_box(&stream[from..end]), &mut restored)
                .expect("decompresses");
            black_box(&restored);
            from = end;
        }
        best.1 = best.1.min(start.elapsed().as_nanos() as f64 / count as f64);
        assert_eq!(restored, batch[count - 1]);
    }
    best
}

/// A scan of all contexts for every packet, as the gateway of the ROHC over ULE study did: what a linear search costs.
fn linear_scan(flows: usize) -> f64 {
    let keys: Vec<[u8; 20]> = (0..flows).map(|flow| key(&packet(flow, 0))).collect();
    let batch = packets(flows, 0, ROUND_PACKETS);
    let mut best = f64::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        for packet in &batch {
            let key = key(black_box(packet));
            black_box(keys.iter().position(|known| *known == key));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / batch.len() as f64);
    }
    best
}

fn key(packet: &[u8; 60]) -> [u8; 20] {
    let mut key = [0; 20];
    key[..8].copy_from_slice(&packet[12..20]);
    key[8..12].copy_from_slice(&packet[20..24]);
    key[12..16].copy_from_slice(&packet[36..40]);
    key
}

fn main() {
    // For an instruction counter: little, and always the same. `--once 311`, `--scan 311`.
    let arguments: Vec<String> = std::env::args().collect();
    let flows = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(at + 1).and_then(|count| count.parse().ok()).unwrap_or(1))
    };
    if let Some(flows) = flows("--once") {
        measure(flows, 1);
        return;
    }
    if let Some(flows) = flows("--scan") {
        linear_scan(flows);
        return;
    }
    println!("RTP/UDP/IPv4, ns a packet   compress (librohc)   decompress (librohc)");
    for (flows, their_compression, their_decompression) in LIBROHC {
        let (compression, decompression) = measure(flows, ROUNDS);
        println!(
            "{flows:>5} flows {compression:>24.0} ({their_compression}) {decompression:>18.0} ({their_decompression})"
        );
    }
    for flows in [1, 31, 311, 4000] {
        println!("a scan of {flows} contexts would add {:.0} ns a packet", linear_scan(flows));
    }
}
