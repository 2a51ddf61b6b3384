//! Streams for the decompressor of librohc ([`Compatibility::Librohc`]).

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{Record, corpus, crc32, files, name, read_pcap};
use bentpipe_rohc::{
    Channel, Compatibility, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, PacketType,
    Profile, Profiles, RtpRule,
};

/// UDP ports of RTP in the corpus.
const RTP_PORTS: [u16; 6] = [1234, 36780, 33238, 5020, 5002, 5006];

/// Profiles of version 2 that librohc has, and those of which there is one version.
fn v2_of_librohc() -> Profiles {
    let lite = Profiles::V2.without(Profile::RtpUdpLiteV2).without(Profile::UdpLiteV2);
    lite.without(Profile::RtpV2)
}

fn compress(records: &[Record], compatibility: Compatibility) -> Vec<Vec<u8>> {
    compress_with(records, compatibility, Profiles::V1)
}

fn compress_with(records: &[Record], compatibility: Compatibility, profiles: Profiles) -> Vec<Vec<u8>> {
    let rtp = RtpRule::Ports(RTP_PORTS.to_vec());
    let channel = Channel { profiles, ..Channel::default() };
    let mut compressor =
        Compressor::new(CompressorConfig { channel, rtp, compatibility, ..CompressorConfig::default() });
    let one = |record: &Record| {
        let mut rohc = Vec::new();
        compressor.compress(record.at, &record.bytes, &mut rohc).expect("compresses");
        rohc
    };
    records.iter().map(one).collect()
}

fn vectors() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    files(&folder, ".pcap").into_iter().filter(|path| !name(path).contains(".rohc.")).collect()
}

/// Captures of the corpus, or those kept with the tests.
fn captures() -> Vec<PathBuf> {
    let Some(corpus) = corpus() else { return vectors() };
    ["ip", "synthetic/inputs"].iter().flat_map(|folder| files(&corpus.join(folder), ".pcap")).collect()
}

/// Octets and CRC-32 of the streams of the kept captures, each of which librohc 70589cc2 restored byte for byte.
const PINNED: [(&str, usize, u32); 18] = [
    ("synth_esp4_gaps.pcap", 22919, 0x5705_0609),
    ("synth_ip4_fragments.pcap", 82772, 0x1cd2_033b),
    ("synth_ip_icmp_ping_both.pcap", 19180, 0xa5cf_236a),
    ("synth_ip_other_protocols.pcap", 7910, 0xe8dd_04a2),
    ("synth_malformed_ip.pcap", 6166, 0x1ac0_76cb),
    ("synth_rtp4_csrc_mixer.pcap", 19189, 0x4d91_d9f7),
    ("synth_rtp4_ipid_behaviours.pcap", 13441, 0x1e7c_6d6d),
    ("synth_rtp4_upstream_loss_reorder_dup.pcap", 18453, 0xfce5_1b68),
    ("synth_rtp4_video_swapped_ipid.pcap", 66779, 0xdb39_7582),
    ("synth_rtp4_voice_csum0_one_way_gsm.pcap", 13849, 0x72ef_6485),
    ("synth_rtp4_voice_talkspurts.pcap", 11995, 0x5fb8_e487),
    ("synth_rtp6_g711_wraps.pcap", 49361, 0x9a34_a83e),
    ("synth_rtp_tunnel_4in4.pcap", 7900, 0xe567_aad9),
    ("synth_rtp_tunnel_6in6.pcap", 7689, 0x0750_cf4f),
    ("synth_tcp4_interactive.pcap", 10104, 0xa75f_db67),
    ("synth_udp4_many_short_flows.pcap", 47485, 0xfb8d_df10),
    ("synth_udp6_ext_headers.pcap", 12220, 0x3ca8_3fbf),
    ("synth_udplite4_and_6.pcap", 20098, 0x38db_e44b),
];

#[test]
fn streams_are_those_that_librohc_restored() {
    let streams = vectors().into_iter().map(|path| {
        let stream = compress(&read_pcap(&path), Compatibility::Librohc).concat();
        (name(&path), stream.len(), crc32(&stream))
    });
    let streams: Vec<_> = streams.collect();
    let pinned: Vec<_> = PINNED.map(|(name, len, crc)| (name.to_owned(), len, crc)).into();
    assert!(streams == pinned, "{streams:#010x?}");
}

/// With feedback, no flow over IPv6 begins with an IR-CR, whose flow label librohc misreads.
#[test]
fn tcp_over_ipv6_is_not_replicated() {
    for (compatibility, replicated) in [(Compatibility::Standard, true), (Compatibility::Librohc, false)] {
        let config = CompressorConfig { compatibility, ..CompressorConfig::default() };
        let to = DecompressorConfig { mode: Mode::Optimistic, ..DecompressorConfig::default() };
        let (mut compressor, mut decompressor) = (Compressor::new(config), Decompressor::new(to));
        let mut kinds = Vec::new();
        for number in 0..40 {
            let [mut rohc, mut ip, mut feedback] = [const { Vec::new() }; 3];
            let packet = segment6(number / 20, number);
            let now = Duration::from_millis(20 * u64::from(number));
            kinds.push(compressor.compress(now, &packet, &mut rohc).expect("compresses").packet_type);
            decompressor.decompress(now, &rohc, &mut ip).expect("restored");
            decompressor.take_feedback(&mut feedback);
            compressor.feedback(&feedback);
        }
        assert_eq!(kinds.contains(&PacketType::IrCr), replicated, "{kinds:?}");
    }
}

/// A segment of one of some connections between two hosts over IPv6.
fn segment6(connection: u8, number: u8) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 24, 6, 64];
    packet.extend([0xfd; 32]);
    packet.extend([0x20, connection, 0, 80, 0, 0, 0, number * 4, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 5, 5, 0, 0]);
    packet.extend([number; 4]);
    packet
}

/// What compatibility costs: octets of all captures, packets included.
#[test]
fn compatibility_costs_little() {
    let Some(corpus) = corpus() else { return };
    let (mut plain, mut compatible) = (0, 0);
    for folder in ["ip", "synthetic/inputs"] {
        for capture in files(&corpus.join(folder), ".pcap") {
            let records = read_pcap(&capture);
            let octets = |compatibility| compress(&records, compatibility).concat().len();
            plain += octets(Compatibility::Standard);
            compatible += octets(Compatibility::Librohc);
        }
    }
    println!("{plain} octets, {compatible} for librohc");
    assert!(compatible > plain && compatible * 1000 < plain * 1030, "{plain} {compatible}");
}

/// Has librohc decompress the streams where `BENTPIPE_LIBROHC` names `tests/librohc/driver.c`, compiled.
#[test]
fn librohc_restores_what_is_made_for_it() {
    let outcome = restores(Profiles::V1, &[]);
    assert!(outcome.is_none_or(|outcome| outcome == (0, 0)), "{outcome:?}");
}

/// What librohc refuses are packets of ESP behind gaps, extension headers, and three and more IP headers. Of one capture with
/// extension headers that change it delivers wrong packets.
#[test]
fn librohc_restores_version_2_that_is_made_for_it() {
    let outcome = restores(v2_of_librohc(), &["v2"]);
    assert!(outcome.is_none_or(|(refused, wrong)| refused <= 774 && wrong <= 1), "{outcome:?}");
}

/// Returns how many packets librohc refused, and of how many captures it delivered wrong ones.
fn restores(profiles: Profiles, words: &[&str]) -> Option<(usize, usize)> {
    let Some(driver) = std::env::var_os("BENTPIPE_LIBROHC") else {
        println!("skipped: BENTPIPE_LIBROHC does not name a driver of librohc");
        return None;
    };
    let folder =
        std::env::temp_dir().join(format!("bentpipe-librohc-{}{}", std::process::id(), words.concat()));
    fs::create_dir_all(&folder).expect("a folder");
    let [stream, restored] = ["rohc.pcap", "ip.pcap"].map(|file| folder.join(file));
    let (mut packets, mut refused, mut wrong) = (0, 0, 0);
    for capture in captures() {
        let records = read_pcap(&capture);
        write_pcap(&stream, &records, &compress_with(&records, Compatibility::Librohc, profiles));
        let status = Command::new(&driver).args([&stream, &restored]).args(words).status();
        assert!(status.expect("the driver runs").success(), "{}", name(&capture));
        let restored = read_pcap(&restored);
        let mut sent = records.iter();
        let is_sent = |found: &Record| sent.any(|record| record.bytes == found.bytes);
        wrong += usize::from(!restored.iter().all(is_sent));
        packets += records.len();
        refused += records.len() - restored.len().min(records.len());
    }
    println!(
        "{packets} packets of {profiles}: librohc refused {refused}; {wrong} captures with wrong packets"
    );
    fs::remove_dir_all(&folder).expect("removes");
    Some((refused, wrong))
}

/// Writes ROHC packets with the times of `records` as link type 147 (USER0).
fn write_pcap(path: &Path, records: &[Record], packets: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 0xffff, 147] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (record, packet) in records.iter().zip(packets) {
        let (seconds, micros) = (record.at.as_secs() as u32, record.at.subsec_micros());
        for word in [seconds, micros, packet.len() as u32, packet.len() as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(packet);
    }
    fs::write(path, file).expect("writes");
}
