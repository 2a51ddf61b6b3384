//! Replays the fuzz targets' corpora, and a bounded number of mutations of them.

#[path = "../../../../fuzz/src/replay.rs"]
#[allow(unreachable_pub, dead_code, reason = "shared between test files")]
mod replay;
#[path = "../../../../fuzz/src/rtp.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use replay::{corpus, damage, replay};
use targets::TARGETS;

#[test]
fn corpora_and_their_mutations_pass() {
    for &(name, target) in TARGETS {
        replay((name, target), &corpus(env!("CARGO_MANIFEST_DIR"), name), (5000, 6), damage);
    }
}
