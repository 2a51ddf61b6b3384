//! Replays the fuzz targets over the kept vectors, and over a bounded number of mutations of them, without libFuzzer.
//!
//! `FUZZ_MUTATIONS` and `FUZZ_SEED` (a number up to 255) try more of them, and others.
//! An input that once broke something is kept in `tests/corpus/<target>/`. What libFuzzer is to start from is written to
//! `fuzz/corpus/` by `cargo test -p bentpipe-rohc --test fuzz -- --ignored write_seeds`.

#[allow(unreachable_pub, clippy::print_stdout, reason = "shared between test files")]
mod support;
#[path = "../../../fuzz/src/rohc.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use bentpipe_rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use targets::{TARGETS, Target};

/// Mutations tried of each target's inputs.
const MUTATIONS: usize = 3_000;
/// Packets in one input.
const PACKETS: usize = 12;

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Packets of the vectors whose names end so, those that fit the targets' length octet.
fn packets(suffix: &str) -> Vec<Vec<u8>> {
    let captures = support::files(&folder("vectors"), suffix);
    let records = captures.iter().flat_map(|path| support::read_pcap(path));
    records.map(|record| record.bytes).filter(|bytes| bytes.len() < 256).collect()
}

/// What decompressors say about the vectors.
fn feedback() -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let config = DecompressorConfig { mode: Mode::Reliable, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(config);
    let mut said = Vec::new();
    for packet in packets(".pcap") {
        let (mut rohc, mut feedback) = (Vec::new(), Vec::new());
        if compressor.compress(std::time::Duration::ZERO, &packet, &mut rohc).is_ok() {
            let _ = decompressor.decompress(std::time::Duration::ZERO, &rohc, &mut Vec::new());
        }
        if decompressor.take_feedback(&mut feedback) {
            said.push(feedback);
        }
    }
    said
}

/// TCP headers and payloads of the vectors, and ROHC packets made of them.
fn segments() -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let is_tcp = |packet: &Vec<u8>| packet.len() > 20 && packet[0] == 0x45 && packet[9] == 6;
    let both = packets(".pcap").into_iter().filter(is_tcp).flat_map(|packet| {
        let mut rohc = Vec::new();
        let _ = compressor.compress(std::time::Duration::ZERO, &packet, &mut rohc);
        [packet[20..].to_vec(), rohc]
    });
    both.filter(|packet| (1..256).contains(&packet.len())).collect()
}

fn inputs(name: &str) -> Vec<Vec<u8>> {
    let packets = match name {
        "decompress" => packets(".rohc.pcap"),
        "feedback" => feedback(),
        "tcp" => segments(),
        _ => packets(".pcap"),
    };
    let join = |packets: &[Vec<u8>]| {
        packets.iter().flat_map(|packet| [&[packet.len() as u8][..], packet].concat()).collect()
    };
    let mut inputs: Vec<Vec<u8>> = packets.chunks(PACKETS).map(join).collect();
    if let Ok(kept) = fs::read_dir(folder("corpus").join(name)) {
        inputs.extend(kept.filter_map(|entry| fs::read(entry.ok()?.path()).ok()));
    }
    assert!(inputs.len() > 10, "{name}: {} inputs", inputs.len());
    inputs
}

fn run(name: &str, target: Target, input: &[u8]) {
    assert!(catch_unwind(|| target(input)).is_ok(), "{name} fails on {input:02x?}");
}

#[test]
fn vectors_pass() {
    for (name, target) in TARGETS {
        inputs(name).iter().for_each(|input| run(name, target, input));
    }
}

#[test]
#[ignore = "writes seeds for libFuzzer"]
fn write_seeds() {
    for (name, _) in TARGETS {
        let corpus = folder(&format!("../../../fuzz/corpus/rohc_{name}"));
        fs::create_dir_all(&corpus).expect("a folder");
        for (number, input) in inputs(name).iter().enumerate() {
            fs::write(corpus.join(format!("seed-{number}")), input).expect("written");
        }
    }
}

#[test]
fn mutated_vectors_pass() {
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        let told = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[told("FUZZ_SEED").unwrap_or(7) as u8; 32]);
        for _ in 0..told("FUZZ_MUTATIONS").unwrap_or(MUTATIONS) {
            run(name, target, &mutate(&inputs, &mut rng));
        }
    }
}

/// One input with a few octets changed, or continued with the end of another one.
fn mutate(inputs: &[Vec<u8>], rng: &mut TestRng) -> Vec<u8> {
    let pick = |rng: &mut TestRng| &inputs[rng.next_u32() as usize % inputs.len()];
    let mut input = pick(rng).clone();
    if rng.next_u32().is_multiple_of(4) {
        let other = pick(rng);
        input.truncate(rng.next_u32() as usize % (input.len() + 1));
        input.extend_from_slice(&other[rng.next_u32() as usize % other.len()..]);
    }
    for _ in 0..rng.next_u32() % 6 {
        if !input.is_empty() {
            let at = rng.next_u32() as usize % input.len();
            input[at] = rng.next_u32() as u8;
        }
    }
    input
}
