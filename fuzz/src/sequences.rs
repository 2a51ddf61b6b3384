//! What `cargo test` does with targets whose input is a sequence of packets, each behind an octet of its length: kept ones, packets
//! that the crate makes, and mutations of both. For the tests of crates that do not know `units`.
//!
//! `FUZZ_MUTATIONS` and `FUZZ_SEED` (a number up to 255) try more mutations, and others. An input that once broke something is kept in
//! `tests/corpus/<target>/`.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Mutations tried of each target's inputs.
const MUTATIONS: usize = 3_000;
/// Packets in one input.
const PACKETS: usize = 12;

/// A name, and what runs an input.
type Target = (&'static str, fn(&[u8]));

/// The folder `name` of the tests of the crate at `manifest`.
pub fn folder(manifest: &str, name: &str) -> PathBuf {
    Path::new(manifest).join("tests").join(name)
}

/// The inputs of the target `name`: sequences of `packets`, and those that the crate at `manifest` keeps.
pub fn inputs(manifest: &str, name: &str, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let join = |packets: &[Vec<u8>]| -> Vec<u8> {
        packets.iter().flat_map(|packet| [&[packet.len() as u8][..], packet].concat()).collect()
    };
    let mut inputs: Vec<Vec<u8>> = packets.chunks(PACKETS).map(join).collect();
    if let Ok(kept) = fs::read_dir(folder(manifest, "corpus").join(name)) {
        inputs.extend(kept.filter_map(|entry| fs::read(entry.ok()?.path()).ok()));
    }
    assert!(inputs.len() > 10, "{name}: {} inputs", inputs.len());
    inputs
}

fn run((name, target): Target, input: &[u8]) {
    assert!(catch_unwind(|| target(input)).is_ok(), "{name} fails on {input:02x?}");
}

/// Runs a target on each of its inputs.
pub fn replay(target: Target, inputs: &[Vec<u8>]) {
    inputs.iter().for_each(|input| run(target, input));
}

/// Runs a target on mutations of its inputs.
pub fn replay_mutated(target: Target, inputs: &[Vec<u8>]) {
    let told = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[told("FUZZ_SEED").unwrap_or(7) as u8; 32]);
    for _ in 0..told("FUZZ_MUTATIONS").unwrap_or(MUTATIONS) {
        run(target, &mutate(inputs, &mut rng));
    }
}

/// Writes inputs as seeds of the target `name` of libFuzzer, which has the crate's name in front.
pub fn write_seeds(manifest: &str, name: &str, inputs: &[Vec<u8>]) {
    let corpus = folder(manifest, &format!("../../../../fuzz/corpus/{name}"));
    fs::create_dir_all(&corpus).expect("a folder");
    for (number, input) in inputs.iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number}")), input).expect("written");
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
