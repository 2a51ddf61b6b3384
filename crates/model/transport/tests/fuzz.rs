//! Replays the fuzz targets' corpora, and a bounded number of mutations of them.

#[path = "../../../../fuzz/src/replay.rs"]
#[allow(unreachable_pub, reason = "shared between test files")]
mod replay;
#[path = "../../../../fuzz/src/transport.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use replay::{corpus, damage, replay};
use targets::TARGETS;

#[test]
fn attacks_on_ends_pass() {
    for name in ["tcp_end", "tfrc", "pep"] {
        let target = TARGETS.iter().find(|target| target.0 == name).expect("a target");
        let inputs = corpus(env!("CARGO_MANIFEST_DIR"), name);
        assert!(inputs.len() >= 6, "{name}: {} inputs", inputs.len());
        replay(*target, &inputs, (1000, 6), damage);
    }
}
