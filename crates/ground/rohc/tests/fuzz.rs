//! Replays the fuzz targets over the kept vectors, and over a bounded number of mutations of them, without libFuzzer.
//!
//! What libFuzzer is to start from is written to `fuzz/corpus/` by
//! `cargo test -p bentpipe-rohc --test integration -- --ignored write_seeds`.

#[path = "../../../../fuzz/src/rohc.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use crate::sequences;
use crate::sequences::{replay, replay_mutated};
use crate::support;
use bentpipe_rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};
use targets::TARGETS;

const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");

/// Packets of the vectors whose names end so, those that fit the targets' length octet.
fn packets(suffix: &str) -> Vec<Vec<u8>> {
    let captures = support::files(&sequences::folder(MANIFEST, "vectors"), suffix);
    let records = captures.iter().flat_map(|path| support::read_pcap(path));
    records.map(|record| record.bytes).filter(|bytes| bytes.len() < 256).collect()
}

/// What decompressors say about the vectors.
fn feedback() -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let config = DecompressorConfig { mode: Mode::Reliable, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(config);
    let mut said = Vec::new();
    for packet in packets(".pcap") {
        let (mut rohc, mut feedback) = (Vec::new(), Vec::new());
        if compressor.compress(std::time::Duration::ZERO, &packet, &mut rohc).is_ok() {
            let _ = decompressor.decompress(std::time::Duration::ZERO, &rohc, &mut Vec::new());
        }
        if decompressor.take_feedback(&mut feedback) {
            said.push(feedback);
        }
    }
    said
}

/// TCP headers and payloads of the vectors, and ROHC packets made of them.
fn segments() -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let is_tcp = |packet: &Vec<u8>| packet.len() > 20 && packet[0] == 0x45 && packet[9] == 6;
    let both = packets(".pcap").into_iter().filter(is_tcp).flat_map(|packet| {
        let mut rohc = Vec::new();
        let _ = compressor.compress(std::time::Duration::ZERO, &packet, &mut rohc);
        [packet[20..].to_vec(), rohc]
    });
    both.filter(|packet| (1..256).contains(&packet.len())).collect()
}

fn inputs(name: &str) -> Vec<Vec<u8>> {
    let packets = match name {
        "decompress" => packets(".rohc.pcap"),
        "feedback" => feedback(),
        "tcp" => segments(),
        _ => packets(".pcap"),
    };
    sequences::inputs(MANIFEST, name, &packets)
}

#[test]
fn vectors_pass() {
    for target in TARGETS {
        replay(target, &inputs(target.0));
    }
}

#[test]
#[ignore = "writes seeds for libFuzzer"]
fn write_seeds() {
    for (name, _) in TARGETS {
        sequences::write_seeds(MANIFEST, &format!("rohc_{name}"), &inputs(name));
    }
}

#[test]
fn mutated_vectors_pass() {
    for target in TARGETS {
        replay_mutated(target, &inputs(target.0));
    }
}
