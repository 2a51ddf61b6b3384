//! Replays the fuzz targets' corpora, and a bounded number of mutations of them.

#[path = "../../../fuzz/src/emu.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use std::panic::catch_unwind;
use std::path::Path;

use bentpipe_units::Stream;
use targets::TARGETS;

/// Mutations tried of each target's corpus.
const MUTATIONS: usize = 5000;

#[test]
fn corpora_and_their_mutations_pass() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
        let entries =
            std::fs::read_dir(folder).expect("the corpus").map(|entry| entry.expect("readable").path());
        let mut files: Vec<_> = entries.collect();
        files.sort();
        let corpus: Vec<_> = files.iter().map(|path| std::fs::read(path).expect("readable")).collect();
        assert!(corpus.len() > 1, "{name}");
        let run = |input: &[u8]| {
            assert!(catch_unwind(|| target(input)).is_ok(), "{name} fails on {input:02x?}");
        };
        corpus.iter().for_each(|input| run(input));
        let mut rng = Stream::new(7, "fuzz");
        for _ in 0..MUTATIONS {
            let mut input = corpus[below(&mut rng, corpus.len())].clone();
            for _ in 0..1 + below(&mut rng, 6) {
                let at = below(&mut rng, input.len());
                match below(&mut rng, 8) {
                    0 => input.truncate(at.max(2)),
                    1 => input[at] = below(&mut rng, 256) as u8,
                    _ => input[at] ^= 1 << below(&mut rng, 8),
                }
            }
            run(&input);
        }
    }
}

fn below(rng: &mut Stream, bound: usize) -> usize {
    ((rng.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
}
