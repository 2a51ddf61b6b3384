//! Checks on `bentpipe-hc`: no octets make an end panic, and what a compressor makes of any packet comes back.

use std::time::Duration;

use bentpipe_hc::{Compressor, Config, Decompressor, Kind, Scheme};

/// An end under test.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Target); 2] = [("decompress", fuzz_decompress), ("round_trip", fuzz_round_trip)];

const SCHEMES: [Scheme; 3] = [Scheme::VanJacobson, Scheme::Iphc, Scheme::Crtp];

/// Packets: each behind an octet with its length, the rest of `data` the last one.
fn packets(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&len, rest) = data.split_first()?;
        let (packet, rest) = rest.split_at(usize::from(len).min(rest.len()));
        data = rest;
        Some(packet)
    })
}

/// Frames, each behind an octet with its kind, into decompressors with identifiers of 8 and of 16 bits.
pub fn fuzz_decompress(data: &[u8]) {
    for contexts in [16, 1000] {
        let config = Config { contexts, ..Config::new(Scheme::Crtp) };
        let (mut decompressor, mut compressor) = (Decompressor::new(config), Compressor::new(config));
        let mut out = Vec::new();
        for (number, frame) in packets(data).enumerate() {
            let now = Duration::from_millis(number as u64 * 50);
            let Some((kind, frame)) = frame.split_first() else { continue };
            let kind = Kind::ALL[usize::from(*kind) % Kind::ALL.len()];
            if decompressor.decompress(kind, frame, &mut out).is_ok() {
                assert!(out.len() <= frame.len() + 65_535);
            }
            let len = frame.len() + usize::from(frame.first().copied().unwrap_or(0));
            if decompressor.decompress_cut(kind, frame, len, &mut out).is_ok() {
                assert!(out.len() <= frame.len() + 65_535);
            }
            compressor.context_state(frame);
            decompressor.take_context_states(now).iter().for_each(|state| compressor.context_state(state));
        }
    }
}

/// Packets through both ends, some of them cut by a capture.
pub fn fuzz_round_trip(data: &[u8]) {
    for scheme in SCHEMES {
        let config = Config { contexts: 3, tcp_contexts: 3, max_period: 8, ..Config::new(scheme) };
        let (mut compressor, mut decompressor) = (Compressor::new(config), Decompressor::new(config));
        let (mut cut, mut cut_end) = (Compressor::new(config), Decompressor::new(config));
        let (mut frame, mut restored) = (Vec::new(), Vec::new());
        for (number, packet) in packets(data).enumerate() {
            let now = Duration::from_millis(number as u64 * 50);
            let sent = compressor.compress(now, packet, &mut frame);
            assert_eq!(packet.len() + sent.header_out, frame.len() + sent.header_in);
            decompressor.decompress(sent.kind, &frame, &mut restored).expect("nothing is lost");
            assert_eq!(restored, packet);
            let sent = cut.compress_cut(now, packet, packet.len() + 100, &mut frame);
            let lengths = cut_end.decompress_cut(sent.kind, &frame, frame.len() + 100, &mut restored);
            assert!(lengths.is_ok(), "nothing is lost: {lengths:?} of {:?}", sent.kind);
            assert_eq!(restored, packet);
        }
    }
}
