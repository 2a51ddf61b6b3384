//! Decompresses what librohc compressed: an independent implementation is the oracle.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

#[allow(unreachable_pub, reason = "shared between test files")]
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use bentpipe_rohc::{Channel, CidSpace, Decompressor, DecompressorConfig, Mode};
use support::{corpus, crc32, files, name, read_pcap, read_rows};

fn config(name: &str) -> DecompressorConfig {
    let cids = if name.contains(".large16383") {
        CidSpace::Large { max_cid: 16_383 }
    } else {
        CidSpace::Small { max_cid: 15 }
    };
    DecompressorConfig { channel: Channel { cids, ..Channel::default() }, ..DecompressorConfig::default() }
}

/// Packets restored, and a description of each that was not.
fn decompress(stream: &Path, wrong: &mut BTreeMap<String, usize>, examples: &mut Vec<String>) -> usize {
    let table = stream.with_file_name(name(stream).replace(".rohc.pcap", ".csv"));
    let records = read_pcap(stream);
    let mut decompressor = Decompressor::new(config(&name(stream)));
    let mut right = 0;
    let mut ip = Vec::new();
    for row in read_rows(&table) {
        let Some(record) = row.record else { continue };
        let record = &records[record - 1];
        ip.clear();
        let result = decompressor.decompress(record.at, &record.bytes, &mut ip);
        if matches!(result, Ok(Some(_))) && ip.len() == row.ip_len && crc32(&ip) == row.ip_crc32 {
            right += 1;
            continue;
        }
        let what = match result {
            Ok(Some(_)) => "wrong packet".to_owned(),
            Ok(None) => "no packet".to_owned(),
            Err(error) => error.to_string(),
        };
        *wrong.entry(format!("{} {}: {what}", row.profile, row.packet_type)).or_default() += 1;
        if std::env::var_os("ROHC_VERBOSE").is_some() || examples.len() < 20 {
            examples.push(format!("{} record {:?} {}: {what}", name(stream), row.record, row.packet_type));
        }
    }
    right
}

fn decompress_all(set: &str) {
    let Some(corpus) = corpus() else { return };
    let (mut right, mut streams) = (0, 0);
    let (mut wrong, mut examples) = (BTreeMap::new(), Vec::new());
    for folder in ["librohc", "synthetic/librohc"] {
        for stream in files(&corpus.join(folder), ".rohc.pcap") {
            if name(&stream).contains(&format!(".{set}.")) {
                right += decompress(&stream, &mut wrong, &mut examples);
                streams += 1;
            }
        }
    }
    println!("{set}: {right} packets of {streams} streams byte-exact");
    assert!(streams > 0, "no stream of set {set}");
    assert!(wrong.is_empty(), "{set}: {right} right, wrong: {wrong:#?}\n{}", examples.join("\n"));
}

#[test]
fn unidirectional_streams_are_restored_byte_for_byte() {
    decompress_all("v1");
}

#[test]
fn optimistic_streams_are_restored_byte_for_byte() {
    decompress_all("v1-omode");
}

#[test]
fn udp_lite_streams_are_restored_byte_for_byte() {
    decompress_all("v1lite-2.2.0");
}

/// The streams that are kept with the tests.
#[test]
fn kept_streams_are_restored_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let (mut wrong, mut examples) = (BTreeMap::new(), Vec::new());
    let streams = files(&folder, ".rohc.pcap");
    let right: usize = streams.iter().map(|stream| decompress(stream, &mut wrong, &mut examples)).sum();
    assert!(wrong.is_empty() && right > 1500, "{right} right, wrong: {wrong:#?}");
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
