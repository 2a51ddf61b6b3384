//! `bentpipe rohc` as its users meet it: files in, files out, exit status.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

mod corpus;
mod files;
mod schemes;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Output;

use bentpipe_testkit::{Folder, run, said};
use bentpipe_wire::pcap::{LinkType, Reader, Writer};

/// Runs `bentpipe rohc` with these words and files.
fn rohc(words: &[&str], files: &[&Path]) -> Output {
    let files = files.iter().map(|file| file.as_os_str());
    let words = std::iter::once("rohc").chain(words.iter().copied()).map(OsStr::new);
    run(env!("CARGO_BIN_EXE_bentpipe"), ".", &words.chain(files).collect::<Vec<_>>())
}

/// The packets of a capture, and the link type of the first.
fn packets(path: &Path) -> (Option<LinkType>, Vec<Vec<u8>>) {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let (mut link_type, mut packets) = (None, Vec::new());
    while let Ok(Some(record)) = reader.next_record() {
        link_type = link_type.or(Some(record.link_type));
        packets.push(record.bytes.to_vec());
    }
    (link_type, packets)
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// A table of `--csv`: rows of columns.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).expect("a table");
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// Writes an Ethernet capture with a VLAN tag, `count` packets of two UDP flows, and an ARP frame.
fn udp_capture(path: &Path, count: u16, snap_len: usize) {
    let file = fs::File::create(path).expect("a file");
    let mut writer = Writer::with_snap_len(file, LinkType::ETHERNET, snap_len).expect("a capture");
    let address = [2; 12];
    writer.write(0, &[&address[..], &[0x08, 0x06], &[0; 28]].concat(), 0).expect("writes");
    for number in 0..count {
        let frame = [&address[..], &[0x81, 0, 0, 7, 8, 0], &udp(number), &[0; 3]].concat();
        writer.write(u64::from(number) * 20_000_000, &frame, 0).expect("writes");
    }
}

/// An IPv4 packet with 20 bytes in UDP, of one of two flows.
fn udp(number: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet[4..6].copy_from_slice(&number.to_be_bytes());
    packet[19] += (number % 2) as u8;
    let word = |at: usize| u32::from(packet[at]) << 8 | u32::from(packet[at + 1]);
    let sum: u32 = (0..20).step_by(2).map(word).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0x10, 0, 0x20, 0, 0, 28, 0, 0]);
    packet.extend([number as u8; 20]);
    packet
}

/// Writes a raw IP capture of RTP with a pause of a minute after every tenth packet.
fn rtp_capture(path: &Path, count: u16) {
    let file = fs::File::create(path).expect("a file");
    let mut writer = Writer::with_snap_len(file, LinkType::RAW, 65_535).expect("a capture");
    for number in 0..count {
        let ticks = u64::from(number) + u64::from(number) / 10 * 3000;
        let mut packet = udp(0);
        packet[28] = 0x80;
        packet[30..32].copy_from_slice(&number.to_be_bytes());
        packet[32..36].copy_from_slice(&(ticks as u32 * 160).to_be_bytes());
        writer.write(ticks * 20_000_000, &packet, 0).expect("writes");
    }
}
