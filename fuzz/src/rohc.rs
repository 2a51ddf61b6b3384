//! Checks on `bentpipe-rohc`: no octets make an end panic, and what a compressor makes of any packet comes back.

use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profiles,
    ReorderRatio,
};

/// An end under test.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Target); 5] = [
    ("decompress", fuzz_decompress),
    ("feedback", fuzz_feedback),
    ("round_trip", fuzz_round_trip),
    ("tcp", fuzz_tcp),
    ("v2", fuzz_v2),
];

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

/// Any packets there and back, with their feedback, in every mode; times and checksums may say what they like.
pub fn fuzz_round_trip(data: &[u8]) {
    for mode in [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable] {
        round_trip(data, mode, 0);
        round_trip(data, mode, 20);
    }
}

/// Packets that come as many times `unit_ms` after one another as they are octets long: each comes back.
fn round_trip(data: &[u8], mode: Mode, unit_ms: u64) {
    let mut compressor =
        Compressor::new(CompressorConfig { channel: channel(), ..CompressorConfig::default() });
    let config = DecompressorConfig { channel: channel(), mode, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(config);
    let mut now = Duration::ZERO;
    for packet in packets(data).filter(|packet| !packet.is_empty()) {
        now += Duration::from_millis(u64::from(packet.len() as u8) * unit_ms);
        let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        compressor.compress(now, packet, &mut rohc).expect("anything goes");
        decompressor.decompress(now, &rohc, &mut ip).expect("what was compressed");
        assert_eq!(ip, packet);
        decompressor.take_feedback(&mut feedback);
        compressor.feedback(&feedback);
    }
}

/// TCP flows: each packet of `data` is the TCP header and payload of a segment, which must come back from one pair of
/// ends, and behind a first octet of its own a ROHC packet and a feedback for a pair that has a context of it.
pub fn fuzz_tcp(data: &[u8]) {
    for mode in [Mode::Unidirectional, Mode::Optimistic] {
        tcp(data, mode);
    }
}

fn tcp(data: &[u8], mode: Mode) {
    let config = DecompressorConfig { mode, ..DecompressorConfig::default() };
    let pair = || (Compressor::new(CompressorConfig::default()), Decompressor::new(config));
    let (mut sound, mut attacked) = (pair(), pair());
    for (number, segment) in packets(data).filter(|segment| !segment.is_empty()).enumerate() {
        let packet = tcp_packet(number as u16, segment);
        for (index, (compressor, decompressor)) in [&mut sound, &mut attacked].into_iter().enumerate() {
            let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
            compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("anything goes");
            let restored = decompressor.decompress(Duration::ZERO, &rohc, &mut ip);
            decompressor.take_feedback(&mut feedback);
            compressor.feedback(&feedback);
            if index == 0 {
                assert!(matches!(restored, Ok(Some(_))), "{restored:?}");
                assert_eq!(ip, packet);
            }
        }
        let (compressor, decompressor) = &mut attacked;
        let _ = decompressor.decompress(Duration::ZERO, segment, &mut Vec::new());
        compressor.feedback_data(segment);
    }
}

/// Profiles of version 2. Each packet of `data` comes back from one pair of ends. Another pair, which has contexts of
/// them, gets the packets as ROHC packets and as feedback, and its ROHC packets with octets of the next one over theirs.
pub fn fuzz_v2(data: &[u8]) {
    for (mode, reorder) in [
        (Mode::Unidirectional, ReorderRatio::Half),
        (Mode::Optimistic, ReorderRatio::None),
        (Mode::Optimistic, ReorderRatio::Quarter),
        (Mode::Unidirectional, ReorderRatio::ThreeQuarters),
    ] {
        v2(data, mode, reorder);
    }
}

fn v2(data: &[u8], mode: Mode, reorder: ReorderRatio) {
    let channel = Channel { profiles: Profiles::V2, cids: CidSpace::SMALL, mrru_bytes: 0 };
    let config = DecompressorConfig { channel, mode, ..DecompressorConfig::default() };
    let sender = CompressorConfig { channel, reorder, ..CompressorConfig::default() };
    let pair = || (Compressor::new(sender.clone()), Decompressor::new(config));
    let (mut sound, mut attacked) = (pair(), pair());
    let mut before: &[u8] = &[];
    for packet in packets(data).filter(|packet| !packet.is_empty()) {
        for (index, (compressor, decompressor)) in [&mut sound, &mut attacked].into_iter().enumerate() {
            let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
            compressor.compress(Duration::ZERO, packet, &mut rohc).expect("anything goes");
            if index == 1 {
                rohc.iter_mut().skip(2).zip(before).for_each(|(octet, other)| *octet ^= other & 0x11);
            }
            let restored = decompressor.decompress(Duration::ZERO, &rohc, &mut ip);
            decompressor.take_feedback(&mut feedback);
            compressor.feedback(&feedback);
            if index == 0 {
                assert!(matches!(restored, Ok(Some(_))), "{restored:?}");
                assert_eq!(ip, packet);
            }
        }
        let (compressor, decompressor) = &mut attacked;
        let _ = decompressor.decompress(Duration::ZERO, packet, &mut Vec::new());
        compressor.feedback_data(packet);
        before = packet;
    }
}

/// An IPv4 packet with `segment` behind its header.
fn tcp_packet(id: u16, segment: &[u8]) -> Vec<u8> {
    let len = (segment.len() as u16 + 20).to_be_bytes();
    let id = id.to_be_bytes();
    let mut packet =
        vec![0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum: u32 = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(segment);
    packet
}
