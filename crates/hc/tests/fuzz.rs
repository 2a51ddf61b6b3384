//! Replays the fuzz targets over packets, frames and a bounded number of mutations of them, without libFuzzer.
//!
//! `FUZZ_MUTATIONS` and `FUZZ_SEED` (a number up to 255) try more of them, and others.
//! An input that once broke something is kept in `tests/corpus/<target>/`. What libFuzzer is to start from is written to
//! `fuzz/corpus/` by `cargo test -p bentpipe-hc --test fuzz -- --ignored write_seeds`.

#[allow(unreachable_pub, dead_code, reason = "shared between test files")]
mod support;
#[path = "../../../fuzz/src/hc.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bentpipe_hc::{Compressor, Config, Kind, Scheme};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use support::{Segment, rtp, transfer, udp};
use targets::{TARGETS, Target};

/// Mutations tried of each target's inputs.
const MUTATIONS: usize = 3_000;
/// Packets in one input.
const PACKETS: usize = 12;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Packets of transfers and calls, short enough for the octet of a length.
fn packets() -> Vec<Vec<u8>> {
    let flow = |version: u8| {
        let segments = (0..40).map(move |n: u32| {
            let segment =
                Segment { sequence: 5000 + 90 * n, data: 90, ..transfer(version, n, n.is_multiple_of(3)) };
            Segment { class: (n % 4) as u8, ack: 9 * (n / 5), ..segment }.packet()
        });
        let calls = (0..40).map(move |n: u16| {
            let sources = vec![3; usize::from(n / 20)];
            let payload = rtp(n, 160 * u32::from(n), n == 8, (n / 30) as u8, &sources);
            udp(version, 1, n, 5004 + n % 2, version == 6, &payload)
        });
        segments.chain(calls)
    };
    [4, 6].into_iter().flat_map(flow).collect()
}

/// Frames of these packets, each behind its kind.
fn frames() -> Vec<Vec<u8>> {
    let of_scheme = |scheme| {
        let mut compressor = Compressor::new(Config::new(scheme));
        let frame = move |packet: Vec<u8>| {
            let mut frame = Vec::new();
            let sent = compressor.compress(Duration::ZERO, &packet, &mut frame);
            let kind = Kind::ALL.iter().position(|kind| *kind == sent.kind).expect("a kind");
            [vec![kind as u8], frame].concat()
        };
        packets().into_iter().map(frame)
    };
    [Scheme::VanJacobson, Scheme::Iphc, Scheme::Crtp].into_iter().flat_map(of_scheme).collect()
}

fn inputs(name: &str) -> Vec<Vec<u8>> {
    let packets = if name == "decompress" { frames() } else { packets() };
    let join = |packets: &[Vec<u8>]| -> Vec<u8> {
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
fn inputs_pass() {
    for (name, target) in TARGETS {
        inputs(name).iter().for_each(|input| run(name, target, input));
    }
}

#[test]
#[ignore = "writes seeds for libFuzzer"]
fn write_seeds() {
    for (name, _) in TARGETS {
        let corpus = folder(&format!("../../../fuzz/corpus/hc_{name}"));
        fs::create_dir_all(&corpus).expect("a folder");
        for (number, input) in inputs(name).iter().enumerate() {
            fs::write(corpus.join(format!("seed-{number}")), input).expect("written");
        }
    }
}

#[test]
fn mutated_inputs_pass() {
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
