//! Replays the fuzz targets over packets, frames and a bounded number of mutations of them, without libFuzzer.
//!
//! What libFuzzer is to start from is written to `fuzz/corpus/` by
//! `cargo test -p bentpipe-hc --test integration -- --ignored write_seeds`.

#[path = "../../../../fuzz/src/hc.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use crate::sequences;
use std::time::Duration;

use crate::sequences::{replay, replay_mutated};
use crate::support::{Segment, rtp, transfer, udp};
use bentpipe_hc::{Compressor, Config, Kind, Scheme};
use targets::TARGETS;

const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");

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
    sequences::inputs(MANIFEST, name, &packets)
}

#[test]
fn inputs_pass() {
    for target in TARGETS {
        replay(target, &inputs(target.0));
    }
}

#[test]
#[ignore = "writes seeds for libFuzzer"]
fn write_seeds() {
    for (name, _) in TARGETS {
        sequences::write_seeds(MANIFEST, &format!("hc_{name}"), &inputs(name));
    }
}

#[test]
fn mutated_inputs_pass() {
    for target in TARGETS {
        replay_mutated(target, &inputs(target.0));
    }
}
