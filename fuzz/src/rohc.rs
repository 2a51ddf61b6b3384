//! Checks on `bentpipe-rohc`: no octets make an end panic, and what a compressor makes of any packet comes back.

use std::time::Duration;

use bentpipe_rohc::{Channel, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};

/// An end under test.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Target); 3] =
    [("decompress", fuzz_decompress), ("feedback", fuzz_feedback), ("round_trip", fuzz_round_trip)];

/// Packets: each behind an octet with its length, the rest of `data` the last one.
fn packets(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&len, rest) = data.split_first()?;
        let (packet, rest) = rest.split_at(usize::from(len).min(rest.len()));
        data = rest;
        Some(packet)
    })
}

fn channel() -> Channel {
    Channel { mrru_bytes: 500, ..Channel::default() }
}

/// ROHC packets into a decompressor in every mode, verifying and repairing.
pub fn fuzz_decompress(data: &[u8]) {
    for mode in [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable] {
        let config =
            DecompressorConfig { channel: channel(), mode, verify: true, ..DecompressorConfig::default() };
        let mut decompressor = Decompressor::new(config);
        let (mut ip, mut feedback) = (Vec::new(), Vec::new());
        for (number, packet) in packets(data).enumerate() {
            ip.clear();
            let result = decompressor.decompress(Duration::from_millis(number as u64 * 20), packet, &mut ip);
            assert_eq!(ip.is_empty(), !matches!(result, Ok(Some(_))), "an error or nothing appends nothing");
            decompressor.take_feedback(&mut feedback);
            decompressor.take_received_feedback(&mut feedback);
        }
    }
}

/// Feedback into a compressor between packets, which must go on to be understood by a fresh decompressor's IR.
pub fn fuzz_feedback(data: &[u8]) {
    let mut compressor =
        Compressor::new(CompressorConfig { channel: channel(), ..CompressorConfig::default() });
    let ip =
        [0x45, 0, 0, 24, 0, 1, 0, 0, 64, 253, 0xf9, 0xeb, 10, 0, 0, 1, 10, 0, 0, 2, b'd', b'a', b't', b'a'];
    let mut rohc = Vec::new();
    for feedback in packets(data) {
        rohc.clear();
        compressor.compress(Duration::ZERO, &ip, &mut rohc).expect("an IP packet");
        compressor.feedback(feedback);
        compressor.feedback_data(feedback);
    }
}

/// Any packets there and back, with their feedback.
pub fn fuzz_round_trip(data: &[u8]) {
    let mut compressor =
        Compressor::new(CompressorConfig { channel: channel(), ..CompressorConfig::default() });
    let config =
        DecompressorConfig { channel: channel(), mode: Mode::Reliable, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(config);
    for packet in packets(data).filter(|packet| !packet.is_empty()) {
        let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        compressor.compress(Duration::ZERO, packet, &mut rohc).expect("anything goes");
        decompressor.decompress(Duration::ZERO, &rohc, &mut ip).expect("what was compressed");
        assert_eq!(ip, packet);
        decompressor.take_feedback(&mut feedback);
        compressor.feedback(&feedback);
    }
}
