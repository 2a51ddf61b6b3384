//! Time and memory of the TCP profile. `cargo bench -p bentpipe-rohc --bench tcp`. Without confirmations, which librohc has
//! no equivalent of, but where it says so (`--once --confirm`).
//!
//! librohc (70589cc2, -O3) takes 499 ns to compress and 452 ns to decompress a packet of one TCP flow on this kind of
//! machine.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bentpipe_rohc::{Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig};

const PACKETS: u32 = 4000;
const PAYLOAD_LEN: usize = 1448;

/// What a flow does.
#[derive(Clone, Copy)]
enum Shape {
    /// Data with timestamps, an IP-ID that counts.
    Data,
    /// Acknowledgements with timestamps, every other segment.
    Acks,
}

/// The headers of packet `n` of a flow; the payload is elided.
fn packet(shape: Shape, flow: u32, n: u32) -> (Vec<u8>, usize) {
    let payload_len = if matches!(shape, Shape::Data) { PAYLOAD_LEN } else { 0 };
    let len = 52 + payload_len;
    let [f0, f1, f2, f3] = flow.to_be_bytes();
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, f1, f2, f3, 192, 168, f0, 1];
    ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&(n as u16).to_be_bytes());
    let sum: u32 = ip.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    let (seq, ack) = match shape {
        Shape::Data => (n * PAYLOAD_LEN as u32, 1),
        Shape::Acks => (1, n * 2 * PAYLOAD_LEN as u32),
    };
    ip.extend_from_slice(&[0x9c, 0x40, 0, 80]);
    ip.extend_from_slice(&seq.to_be_bytes());
    ip.extend_from_slice(&ack.to_be_bytes());
    ip.extend_from_slice(&[0x80, 0x10, 0x10, 0, (n >> 8) as u8, n as u8, 0, 0, 1, 1, 8, 10]);
    ip.extend_from_slice(&(n / 3).to_be_bytes());
    ip.extend_from_slice(&(n / 4).to_be_bytes());
    (ip, len)
}

fn run(name: &str, shape: Shape, flows: u32, rounds: u32, confirm: u8) {
    let cids = if flows > 16 { CidSpace::Large { max_cid: 16_383 } } else { CidSpace::Small { max_cid: 15 } };
    let channel = Channel { cids, ..Channel::default() };
    let each = (PACKETS / flows).max(20);
    let packets: Vec<_> =
        (0..each).flat_map(|n| (0..flows).map(move |flow| packet(shape, flow, n))).collect();
    let config = CompressorConfig { channel, confirm, ..CompressorConfig::default() };
    let mut compressor = Compressor::new(config);
    let mut decompressor = Decompressor::new(DecompressorConfig { channel, ..DecompressorConfig::default() });
    let (mut best_in, mut best_out, mut headers) = (f64::MAX, f64::MAX, 0);
    for _ in 0..rounds {
        let mut stream = Vec::with_capacity(packets.len() * 64);
        let mut ends = Vec::with_capacity(packets.len());
        let start = Instant::now();
        for (header, len) in &packets {
            let done = compressor.compress_header(Duration::ZERO, header, *len, &mut stream);
            assert!(done.is_ok_and(|done| done.header_in == header.len()));
            ends.push((stream.len(), len - header.len()));
        }
        best_in = best_in.min(start.elapsed().as_nanos() as f64 / packets.len() as f64);
        headers = stream.len();
        let mut out = Vec::with_capacity(128);
        let (mut at, start) = (0, Instant::now());
        for &(end, payload_len) in &ends {
            out.clear();
            let done = decompressor.decompress_header(
                Duration::ZERO,
                &stream[at..end],
                end - at + payload_len,
                &mut out,
            );
            assert!(done.is_ok());
            black_box(&out);
            at = end;
        }
        best_out = best_out.min(start.elapsed().as_nanos() as f64 / packets.len() as f64);
    }
    let mean = headers as f64 / packets.len() as f64;
    println!(
        "{name:5} {flows:5} flows: compress {best_in:4.0} ns, decompress {best_out:4.0} ns, {mean:.2} octets of 52"
    );
}

fn default_confirm() -> u8 {
    CompressorConfig::default().confirm
}

fn main() {
    // For an instruction counter: little, and always the same.
    if std::env::args().any(|argument| argument == "--once") {
        let confirm =
            if std::env::args().any(|argument| argument == "--confirm") { default_confirm() } else { 0 };
        run("data", Shape::Data, 1, 1, confirm);
        return run("acks", Shape::Acks, 1, 1, confirm);
    }
    for (name, shape) in [("data", Shape::Data), ("acks", Shape::Acks)] {
        for flows in [1, 16, 300, 4000] {
            run(name, shape, flows, 20, 0);
        }
        println!("with confirmations:");
        run(name, shape, 1, 20, default_confirm());
    }
    println!("librohc, one flow: compress 499 ns, decompress 452 ns");
}
