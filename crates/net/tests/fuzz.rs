//! Replays the fuzz targets' corpora, and a bounded number of mutations of them.

#[path = "../../../fuzz/src/net.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use std::path::Path;

use bentpipe_units::Stream;
use targets::{fuzz_dvb, fuzz_trace};

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let entries = std::fs::read_dir(folder).expect("the corpus").map(|entry| entry.expect("readable").path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[test]
fn traces_and_their_mutations_pass() {
    let corpus = corpus("trace");
    assert!(corpus.len() >= 5);
    let mut rng = Stream::new(7, "fuzz");
    for _ in 0..20_000 {
        let mut input = corpus[below(&mut rng, corpus.len())].clone();
        fuzz_trace(&input);
        for _ in 0..1 + below(&mut rng, 4) {
            let at = below(&mut rng, input.len() + 1);
            match below(&mut rng, 3) {
                0 => input.insert(at, b"01#\n\r 2\xff"[below(&mut rng, 8)]),
                1 => input.truncate(at),
                _ => {
                    input.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << below(&mut rng, 8));
                }
            }
        }
        fuzz_trace(&input);
    }
}

#[test]
fn dvb_streams_and_their_mutations_pass() {
    let corpus = corpus("dvb");
    assert!(corpus.len() >= 6);
    let mut rng = Stream::new(7, "fuzz-dvb");
    for _ in 0..20_000 {
        let mut input = corpus[below(&mut rng, corpus.len())].clone();
        fuzz_dvb(&input);
        for _ in 0..1 + below(&mut rng, 6) {
            let at = below(&mut rng, input.len());
            match below(&mut rng, 8) {
                0 => input.truncate(at.max(2)),
                1 => input[0] = below(&mut rng, 64) as u8,
                _ => input[at] ^= 1 << below(&mut rng, 8),
            }
        }
        fuzz_dvb(&input);
    }
}

fn below(rng: &mut Stream, bound: usize) -> usize {
    ((rng.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
}
