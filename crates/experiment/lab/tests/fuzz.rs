//! Replays the fuzz targets' corpora, of scenarios the examples, and a bounded number of mutations of them.

#[path = "../../../../fuzz/src/replay.rs"]
#[allow(unreachable_pub, dead_code, reason = "shared between test files")]
mod replay;
#[path = "../../../../fuzz/src/lab.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use bentpipe_units::RandomStream;
use replay::{below, corpus, files, replay};
use targets::{TARGETS, fuzz_run, fuzz_scenario};

fn examples() -> Vec<Vec<u8>> {
    files(env!("CARGO_MANIFEST_DIR"), "../../../scenarios", ".toml")
}

#[test]
fn examples_and_their_beginnings_pass() {
    for example in examples() {
        let beginnings: Vec<_> = (0..=example.len()).step_by(7).map(|len| example[..len].to_vec()).collect();
        replay(("scenario", fuzz_scenario), &beginnings, (0, 1), mutate);
    }
}

/// Each is read up to a network.
#[test]
fn mutated_examples_pass() {
    replay(("scenario", fuzz_scenario), &examples(), (3000, 3), mutate);
}

#[test]
fn examples_run() {
    examples().iter().for_each(|example| fuzz_run(example));
}

#[test]
fn other_corpora_and_their_mutations_pass() {
    for &(name, target) in TARGETS.iter().filter(|(name, _)| !["scenario", "run"].contains(name)) {
        replay((name, target), &corpus(env!("CARGO_MANIFEST_DIR"), name), (500, 3), mutate);
    }
}

/// Changes, takes out or puts in a few bytes; what is put in means something in TOML.
fn mutate(input: &mut Vec<u8>, rng: &mut RandomStream) {
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
