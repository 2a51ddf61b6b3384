//! tshark (Debian's) reads every frame this crate builds: no malformed packet, no bad checksum, and the values meant.

use crate::frames;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::frames::Frame;
use bentpipe_testkit::{Folder, Tshark, has};
use bentpipe_wire::link;
use bentpipe_wire::pcap::{LinkType, Reader, Writer};

fn write(scratch: &Folder, name: &str, link_type: LinkType, frames: &[&Frame]) -> PathBuf {
    let mut writer = Writer::new(Vec::new(), link_type).unwrap();
    for (index, frame) in frames.iter().enumerate() {
        writer.write(1_000_000_000 + 7 * index as u64, &frame.bytes, frame.elided).unwrap();
    }
    scratch.write(name, writer.into_inner())
}

/// All checks on, and sequence numbers as they are in the packets: frames are not of one connection.
const PREFERENCES: [&str; 8] = [
    "ip.check_checksum:TRUE",
    "tcp.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
    "dccp.check_checksum:TRUE",
    "udplite.check_checksum:TRUE",
    "udplite.ignore_checksum_coverage:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
    "tcp.relative_sequence_numbers:FALSE",
];

/// tshark's account of each frame in a capture, everything it can check being checked.
fn dissect(path: &Path) -> Vec<String> {
    let tshark = Tshark::on(path).expect("asked for before");
    let text = tshark
        .preferences(&PREFERENCES)
        .decode_as("udp.port==5004,rtp")
        .decode_as("udp.port==5005,rtcp")
        .options(&["-V"])
        .text();
    text.split("\n\nFrame ").map(str::to_owned).filter(|part| !part.trim().is_empty()).collect()
}

/// Words tshark uses of what is wrong with a packet.
const COMPLAINTS: [&str; 8] = [
    "Malformed",
    "Bad",
    "incorrect",
    "should be",
    "[Expert Info (Error",
    "[Expert Info (Warning/Malformed",
    "Unreassembled",
    "invalid",
];

#[test]
fn every_frame_is_read_without_complaint() {
    if !has("tshark") {
        return;
    }
    let scratch = Folder::new();
    let all = frames::all();
    let mut by_link_type: BTreeMap<LinkType, Vec<&Frame>> = BTreeMap::new();
    for frame in &all {
        by_link_type.entry(frame.link_type).or_default().push(frame);
    }
    for (link_type, frames) in by_link_type {
        let path = write(&scratch, &format!("link{}.pcap", link_type.0), link_type, &frames);
        let accounts = dissect(&path);
        assert_eq!(accounts.len(), frames.len(), "{}", path.display());
        let wrong: Vec<String> =
            frames.iter().zip(&accounts).filter_map(|(frame, account)| judge(frame, account)).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// What is wrong with a frame by tshark's account, if anything is.
fn judge(frame: &Frame, account: &str) -> Option<String> {
    let said: Vec<_> = COMPLAINTS.iter().filter(|complaint| account.contains(**complaint)).collect();
    let unsaid: Vec<_> = frame.expected.iter().filter(|expected| !account.contains(**expected)).collect();
    let is_fine = said.is_empty() && unsaid.is_empty();
    (!is_fine).then(|| format!("{}: tshark says {said:?}, does not say {unsaid:?}\n{account}", frame.name))
}

#[test]
fn a_wrong_checksum_is_a_complaint() {
    if !has("tshark") {
        return;
    }
    let scratch = Folder::new();
    let mut all = frames::all();
    let frame = all.iter_mut().find(|frame| frame.name == "tcp_data").unwrap();
    frame.bytes[25] ^= 1;
    let account = &dissect(&write(&scratch, "wrong.pcap", LinkType::RAW, &[frame]))[0];
    assert!(COMPLAINTS.iter().any(|complaint| account.contains(complaint)), "{account}");
}

#[test]
fn captures_in_every_format_read_alike() {
    if !has("editcap") {
        return;
    }
    let scratch = Folder::new();
    let all = frames::all();
    let on_ethernet: Vec<_> = all.iter().filter(|frame| frame.link_type == LinkType::ETHERNET).collect();
    let path = write(&scratch, "formats.pcap", LinkType::ETHERNET, &on_ethernet);
    let expected = read(&path, 1);
    assert_eq!(expected.len(), on_ethernet.len());
    for (format, unit_ns) in [("pcapng", 1), ("nsecpcap", 1), ("pcap", 1000)] {
        let converted = scratch.file(format!("formats.{format}"));
        let status = Command::new("editcap").args(["-F", format]).args([&path, &converted]).status().unwrap();
        assert!(status.success());
        let truncated: Vec<_> =
            expected.iter().map(|(time, bytes)| (time / unit_ns * unit_ns, bytes.clone())).collect();
        assert_eq!(read(&converted, unit_ns), truncated, "{format}");
    }
}

fn read(path: &Path, unit_ns: u64) -> Vec<(u64, Vec<u8>)> {
    let file = fs::read(path).unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    let mut out = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        assert!(!record.is_cut());
        out.push((record.time_ns.unwrap() / unit_ns * unit_ns, record.bytes.to_vec()));
    }
    out
}

#[test]
fn every_frame_leads_to_its_ip_packet() {
    // ARP is no IP.
    for frame in frames::all().iter().filter(|frame| !frame.name.starts_with("arp")) {
        let mut bytes = frame.bytes.clone();
        bytes.resize(frame.bytes.len() + frame.elided, 0);
        let network =
            link::network(frame.link_type, &bytes).unwrap_or_else(|error| panic!("{}: {error}", frame.name));
        let packet = bentpipe_wire::ip::Packet::new_checked(network.bytes).unwrap();
        packet.upper().unwrap();
    }
}
