//! Replays the fuzz targets' corpora, and a bounded number of mutations of them.

#[path = "../../../../fuzz/src/replay.rs"]
#[allow(unreachable_pub, reason = "shared between test files")]
mod replay;
#[path = "../../../../fuzz/src/net.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use bentpipe_units::RandomStream;
use replay::{below, corpus, damage, replay};
use targets::TARGETS;

/// Replays a target's corpus, of `least` inputs, with `count` mutations of 1 to `most` changes.
fn check(name: &str, least: usize, [count, most]: [usize; 2], change: fn(&mut Vec<u8>, &mut RandomStream)) {
    let target = TARGETS.iter().find(|target| target.0 == name).expect("a target");
    let inputs = corpus(env!("CARGO_MANIFEST_DIR"), name);
    assert!(inputs.len() >= least, "{name}: {} inputs", inputs.len());
    replay(*target, &inputs, (count, most), change);
}

#[test]
fn traces_and_their_mutations_pass() {
    check("trace", 5, [20_000, 4], |input, rng| {
        let at = below(rng, input.len() + 1);
        match below(rng, 3) {
            0 => input.insert(at, b"01#\n\r 2\xff"[below(rng, 8)]),
            1 => input.truncate(at),
            _ => input.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << below(rng, 8)),
        }
    });
}

#[test]
fn attacks_on_nodes_pass() {
    check("node", 6, [1000, 6], damage);
}
