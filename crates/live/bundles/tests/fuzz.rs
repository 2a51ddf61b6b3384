//! Replays the fuzz targets' corpora, and a bounded number of mutations of them.

#[path = "../../../../fuzz/src/replay.rs"]
#[allow(unreachable_pub, reason = "shared between test files")]
mod replay;
#[path = "../../../../fuzz/src/bundles.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use replay::{corpus, damage, replay};
use targets::TARGETS;

#[test]
fn hostile_input_passes() {
    for target in TARGETS {
        let inputs = corpus(env!("CARGO_MANIFEST_DIR"), target.0);
        replay(*target, &inputs, (500, 6), damage);
    }
}
