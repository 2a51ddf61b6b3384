//! Replays the fuzz targets' corpora, of scenarios the examples, and a bounded number of mutations of them.

#[path = "../../../fuzz/src/lab.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use std::panic::catch_unwind;
use std::path::Path;

use bentpipe_units::Stream;
use targets::{TARGETS, fuzz_run, fuzz_scenario};

/// Mutations tried; each is read up to a network.
const MUTATIONS: usize = 3000;

fn examples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

fn run(input: &[u8]) {
    assert!(catch_unwind(|| fuzz_scenario(input)).is_ok(), "fails on\n{}", String::from_utf8_lossy(input));
}

#[test]
fn examples_and_their_beginnings_pass() {
    for example in examples() {
        (0..=example.len()).step_by(7).for_each(|len| run(&example[..len]));
    }
}

#[test]
fn mutated_examples_pass() {
    let examples = examples();
    let mut rng = Stream::new(7, "fuzz");
    for _ in 0..MUTATIONS {
        let mut input = examples[below(&mut rng, examples.len())].clone();
        for _ in 0..1 + below(&mut rng, 3) {
            mutate(&mut input, &mut rng);
        }
        run(&input);
    }
}

#[test]
fn examples_run() {
    examples().iter().for_each(|example| fuzz_run(example));
}

#[test]
fn other_corpora_and_their_mutations_pass() {
    for (name, target) in TARGETS.iter().filter(|(name, _)| !["scenario", "run"].contains(name)) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .expect("the corpus")
            .map(|entry| entry.expect("readable").path())
            .collect();
        files.sort();
        let corpus: Vec<_> = files.iter().map(|path| std::fs::read(path).expect("readable")).collect();
        let run = |input: &[u8]| {
            assert!(catch_unwind(|| target(input)).is_ok(), "{name} fails on {input:02x?}");
        };
        corpus.iter().for_each(|input| run(input));
        let mut rng = Stream::new(7, "fuzz");
        for _ in 0..500 {
            let mut input = corpus[below(&mut rng, corpus.len())].clone();
            for _ in 0..1 + below(&mut rng, 3) {
                mutate(&mut input, &mut rng);
            }
            run(&input);
        }
    }
}

/// Changes, takes out or puts in a few bytes; what is put in means something in TOML.
fn mutate(input: &mut Vec<u8>, rng: &mut Stream) {
    if input.is_empty() {
        return;
    }
    let at = below(rng, input.len());
    match below(rng, 4) {
        0 => input[at] = below(rng, 256) as u8,
        1 => drop(input.drain(at..input.len().min(at + 1 + below(rng, 19)))),
        2 => input.insert(at, b"\"[]{}.,=-09eEn#\n"[below(rng, 15)]),
        _ => {
            let from = below(rng, input.len());
            let piece = input[from..input.len().min(from + 30)].to_vec();
            input.splice(at..at, piece);
        }
    }
}

fn below(rng: &mut Stream, bound: usize) -> usize {
    ((rng.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
}
