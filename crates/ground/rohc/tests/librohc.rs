//! Decompresses what librohc compressed: an independent implementation is the oracle.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

use std::path::Path;

use crate::support::streams::{Tally, decompress_all};
use crate::support::{corpus, files, name, read_pcap};
use bentpipe_rohc::{Channel, CidSpace, Decompressor, DecompressorConfig, Mode};

fn config(name: &str) -> DecompressorConfig {
    let cids = if name.contains(".large16383") {
        CidSpace::Large { max_cid: 16_383 }
    } else {
        CidSpace::Small { max_cid: 15 }
    };
    DecompressorConfig { channel: Channel { cids, ..Channel::default() }, ..DecompressorConfig::default() }
}

#[test]
fn unidirectional_streams_are_restored_byte_for_byte() {
    decompress_all("v1", config);
}

#[test]
fn optimistic_streams_are_restored_byte_for_byte() {
    decompress_all("v1-omode", config);
}

#[test]
fn udp_lite_streams_are_restored_byte_for_byte() {
    decompress_all("v1lite-2.2.0", config);
}

/// The streams that are kept with the tests.
#[test]
fn kept_streams_are_restored_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut tally = Tally::default();
    files(&folder, ".rohc.pcap").iter().for_each(|stream| tally.decompress(stream, config(&name(stream))));
    assert!(tally.wrong.is_empty() && tally.right > 1500, "{tally:#?}");
}

/// RTP with padding and extension bits that change. Where the RFC clears them librohc keeps them (RFC 4815 6.4 and 6.5), which the
/// CRC shows, or the UDP checksum; without either the first packets after an IR-DYN follow the RFC.
#[test]
fn padding_and_extension_bits_are_read_as_librohc_sends_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/librohc");
    for (stream, most_wrong) in [
        ("made_rtp4_padding", 0),
        ("made_rtp4_padding_always", 0),
        ("made_rtp4_extension", 0),
        ("made_rtp4_extension_unchecked", 4),
    ] {
        let packets = read_pcap(&folder.join(format!("{stream}.pcap")));
        let records = read_pcap(&folder.join(format!("{stream}.rohc.pcap")));
        let mut decompressor = Decompressor::new(DecompressorConfig::default());
        let mut wrong = 0;
        for (number, (record, packet)) in records.iter().zip(&packets).enumerate() {
            let mut ip = Vec::new();
            let result = decompressor.decompress(record.at, &record.bytes, &mut ip);
            assert!(result.is_ok(), "{stream} {number}: {result:?}");
            wrong += usize::from(ip != packet.bytes);
        }
        assert!(packets.len() == records.len() && wrong <= most_wrong, "{stream}: {wrong} wrong");
    }
}

/// The IP-only stream of another vendor.
#[test]
fn another_vendors_stream_is_restored_byte_for_byte() {
    let Some(corpus) = corpus() else { return };
    let stream = "Effnet-IPonly-rnd-ip-id-without-nbo";
    let expected = read_pcap(&corpus.join(format!("interop/{stream}.ip.pcap")));
    let records = read_pcap(&corpus.join(format!("interop/{stream}.rohc.pcap")));
    let mut decompressor = Decompressor::new(config(stream));
    let mut restored = Vec::new();
    for record in &records {
        let mut ip = Vec::new();
        decompressor.decompress(record.at, &record.bytes, &mut ip).expect("decompresses");
        restored.push(ip);
    }
    assert!(!expected.is_empty());
    assert!(restored.iter().eq(expected.iter().map(|record| &record.bytes)));
}

/// Fuzzers' findings in librohc: nothing may panic, and nearly all must be refused. Every stream goes to both CID
/// spaces, with and without repair and verification.
#[test]
fn malformed_streams_are_survived() {
    let Some(corpus) = corpus() else { return };
    let (mut packets, mut delivered) = (0, 0);
    for stream in files(&corpus.join("malformed"), ".rohc.pcap") {
        for (cids, repair, verify) in [("", true, true), (".large16383", false, false), ("", false, true)] {
            let config = DecompressorConfig { repair, verify, mode: Mode::Optimistic, ..config(cids) };
            let mut decompressor = Decompressor::new(config);
            let mut ip = Vec::new();
            for record in read_pcap(&stream) {
                ip.clear();
                packets += 1;
                delivered += usize::from(matches!(
                    decompressor.decompress(record.at, &record.bytes, &mut ip),
                    Ok(Some(_))
                ));
            }
        }
    }
    println!("{packets} malformed packets, {delivered} delivered");
    assert!(packets > 300 && delivered * 4 < packets, "{delivered} of {packets} delivered");
}

/// librohc's own acknowledgements for the same streams (corpus README).
#[test]
fn acknowledgements_are_librohcs() {
    let Some(corpus) = corpus() else { return };
    for (stream, cids, expected) in [
        ("ack_smallcid_smallsn", "", &[0xf4, 0x20, 0x00, 0x11, 0xe9][..]),
        ("ack_smallcid_largesn", "", &[0xf4, 0x20, 0x00, 0x11, 0xe9]),
        ("ack_largecid_smallsn", ".large16383", &[0xf5, 0x00, 0x21, 0x00, 0x11, 0x72]),
        ("ack_largecid_largesn", ".large16383", &[0xf5, 0x00, 0x20, 0x00, 0x11, 0xfe]),
    ] {
        let config = DecompressorConfig { mode: Mode::Optimistic, ..config(cids) };
        let mut decompressor = Decompressor::new(config);
        let mut feedback = Vec::new();
        for record in read_pcap(&corpus.join(format!("malformed/feedback2_{stream}.rohc.pcap"))) {
            let _ = decompressor.decompress(record.at, &record.bytes, &mut Vec::new());
        }
        decompressor.take_feedback(&mut feedback);
        assert!(feedback.starts_with(expected), "{stream}: {feedback:02x?}");
    }
}
