//! Captures and streams as users have them: what is in them is found, and what is not used has its reason.

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Output;

use bentpipe_testkit::{Folder, run, said};
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize, Modcod};
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::gse::{self, Label};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::mpe;
use bentpipe_wire::pcap::{LinkType, Reader, Writer};
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::ts::{self, Method, PACKET_LEN, Pid};
use bentpipe_wire::ule::Type;
use bentpipe_wire::{ipv4, rtp, section, udp};

/// TS packet.
type Packet = [u8; PACKET_LEN];

/// PID of the programme map, and of the video.
const MAP: u16 = 0x1000;
const VIDEO: u16 = 0x100;

/// Runs bentpipe with these words.
fn bentpipe<W: AsRef<OsStr>>(folder: &Folder, words: &[W]) -> Output {
    run(env!("CARGO_BIN_EXE_bentpipe"), folder.path(), words)
}

fn pid(number: u16) -> Pid {
    Pid::new(number).expect("13 bits")
}

/// Packets of sections of a PID.
fn tables(pid: Pid, sections: &[Vec<u8>]) -> Vec<Packet> {
    let (mut encapsulator, mut bytes) = (section::Encapsulator::new(pid, Method::Padding), Vec::new());
    sections.iter().for_each(|section| encapsulator.push(section, &mut bytes));
    bytes.as_chunks().0.to_vec()
}

/// PAT and PMT of a programme with one stream.
fn programme(number: u16, stream: Elementary) -> Vec<Packet> {
    let pat = Pat { stream_id: 1, programmes: vec![Programme { number, map: pid(MAP) }], ..Pat::default() };
    let (clock, descriptors) = (stream.pid, Vec::new());
    let pmt = Pmt { number, version: 0, clock, descriptors, streams: vec![stream] };
    [tables(Pid::PAT, &[pat.to_section()]), tables(pid(MAP), &[pmt.to_section()])].concat()
}

/// Programme with this number of packets of video, each with its number in it.
fn film(number: u16, packets: u16) -> Vec<Packet> {
    let video = Elementary { kind: 2, pid: pid(VIDEO), descriptors: Vec::new() };
    let packet = |n: u16| {
        let mut packet = [0xaa; PACKET_LEN];
        ts::Repr::new(pid(VIDEO), n as u8 & 15).emit(&mut packet);
        packet[4..6].copy_from_slice(&n.to_be_bytes());
        packet
    };
    [programme(number, video), (0..packets).map(packet).collect()].concat()
}

/// The row of a PID in a description, split at blanks.
fn row(text: &str, pid: u16) -> Vec<String> {
    let start = format!("{pid:#06x} ");
    let line = text.lines().find(|line| line.trim_start().starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("no row of {pid:#06x}:\n{text}"));
    line.split_whitespace().map(str::to_owned).collect()
}

/// Source and destination of a datagram.
type Ends = [(Ipv4Addr, u16); 2];

/// Datagram of UDP over IPv4.
fn datagram([from, to]: Ends, payload: &[u8]) -> Vec<u8> {
    let ip = ipv4::Repr::new(from.0, to.0, Protocol::UDP, udp::HEADER_LEN + payload.len());
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
    ip.emit(&mut bytes);
    udp::Repr { src_port: from.1, dst_port: to.1, payload_len: payload.len() }
        .emit(&mut bytes[ip.buffer_len()..]);
    bytes.extend(payload);
    bytes
}

/// Writes packets a millisecond apart as a capture of raw IP.
fn capture(path: &Path, packets: &[Vec<u8>]) {
    let mut writer = Writer::new(fs::File::create(path).expect("a file"), LinkType::RAW).expect("a capture");
    for (packet, n) in packets.iter().zip(1..) {
        writer.write(n * 1_000_000, packet, 0).expect("writes");
    }
}

/// Number of records of a capture.
fn records(path: &Path) -> usize {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let mut count = 0;
    while let Ok(Some(_)) = reader.next_record() {
        count += 1;
    }
    count
}

/// Ends of a group of television, and of another one.
const TELEVISION: Ends = [(Ipv4Addr::new(10, 0, 0, 1), 5000), (Ipv4Addr::new(239, 1, 1, 1), 5004)];

/// Baseband frame with packets of GSE behind an adaptation header, in UDP.
fn frame(number: u8, input: Option<u8>, field: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; bbframe::ADAPTATION_LEN + bbframe::HEADER_LEN];
    let (modcod, size) = (Modcod::new(1), FrameSize::Short);
    Adaptation { modcod, size, has_pilots: false, carrier_to_noise: 0, number }.emit(&mut bytes);
    bbframe::Repr { input, ..bbframe::Repr::gse(field.len()) }.emit(&mut bytes[bbframe::ADAPTATION_LEN..]);
    bytes.extend(field);
    let modem = (Ipv4Addr::LOCALHOST, bbframe::CAPTURE_PORT);
    datagram([modem, modem], &bytes)
}

/// Fragments of a PDU of GSE, the first of which has `more` bytes added to its total length.
fn fragments(frag_id: u8, pdu: &[u8], more: usize) -> [Vec<u8>; 2] {
    let (kind, label) = (Type(0x0800), Some(Label::Broadcast));
    let (start, end) = pdu.split_at(pdu.len() / 2);
    let total_len = pdu.len() + 2 + more;
    let crc = crc32(&[&(total_len as u16).to_be_bytes(), &[8, 0], pdu].concat());
    let packets = [
        gse::Packet::First { frag_id, total_len, kind, label, body: start },
        gse::Packet::Last { frag_id, body: end, crc },
    ];
    packets.map(|packet| {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        bytes
    })
}

#[test]
fn the_same_counter_with_another_payload_is_a_loss() {
    let folder = Folder::new();
    let mut packets = film(1, 60);
    // 15 lost packets leave the counter as it was.
    packets.drain(20..35);
    // A duplicate is legal, and one more is not.
    let twice = packets[40];
    packets.insert(41, twice);
    let thrice = packets[45];
    packets.splice(46..46, [thrice; 2]);
    fs::write(folder.file("a.ts"), packets.concat()).expect("writes");
    let text = said(&bentpipe(&folder, &["ts", "inspect", "--measure", "a.ts"]), 0);
    assert_eq!(row(&text, VIDEO)[7], "2", "{text}");
    let errors = text.lines().find(|line| line.contains("Continuity_count_error")).expect("a row");
    assert_eq!(errors.split_whitespace().last(), Some("2"), "{text}");
    let words = ["ts", "inspect", "a.ts", "--json", "a.json"];
    said(&bentpipe(&folder, &words), 0);
    let all: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.file("a.json")).expect("a file")).expect("JSON");
    let video = all["pids"].as_array().expect("a list").iter().find(|of| of["pid"] == VIDEO).expect("a PID");
    assert_eq!((&video["continuity_errors"], &video["duplicates"]), (&2.into(), &2.into()));
}

#[test]
fn scrambled_packets_are_not_damaged() {
    let folder = Folder::new();
    let mut packets = film(1, 50);
    packets[2..].iter_mut().for_each(|packet| packet[3] |= 0xc0);
    fs::write(folder.file("a.ts"), packets.concat()).expect("writes");
    let text = said(&bentpipe(&folder, &["ts", "inspect", "a.ts"]), 0);
    let head: Vec<&str> = text.lines().next().expect("a table").split_whitespace().collect();
    assert_eq!(head[6..8], ["damaged", "scrambled"], "{text}");
    // The name of the stream has two words.
    assert_eq!(row(&text, VIDEO)[7..10], ["0", "0", "50"], "{text}");
}

#[test]
fn sections_of_other_tables_are_left_out() {
    let folder = Folder::new();
    let (data, dst) = (pid(0x201), MacAddr([2; 6]));
    let dsm_cc = Pat { stream_id: 7, ..Pat::default() }.to_section();
    let mut dsm_cc = [&[0x3b], &dsm_cc[1..dsm_cc.len() - 4]].concat();
    dsm_cc.extend(crc32(&dsm_cc).to_be_bytes());
    let mut stream = Vec::new();
    let packet = datagram(TELEVISION, &[5; 20]);
    let mut encapsulator = mpe::Encapsulator::new(data, Method::Padding);
    encapsulator.push(&mpe::Repr::new(dst), &packet, &mut stream).expect("short");
    let (mut receiver, mut sections) = (section::Receiver::new(data), Vec::new());
    stream
        .as_chunks()
        .0
        .iter()
        .for_each(|packet| receiver.push(packet, |bytes| sections.push(bytes.to_vec())));
    sections.push(dsm_cc);
    let sections: Vec<Vec<u8>> = (0..30).flat_map(|_| sections.clone()).collect();
    fs::write(folder.file("a.ts"), tables(data, &sections).concat()).expect("writes");
    let words = ["ts", "decap", "--pid", "0x201", "--format", "mpe", "a.ts", "out.pcap"];
    let text = said(&bentpipe(&folder, &words), 0);
    assert!(text.contains("30 left out: sections of other tables"), "{text}");
    assert_eq!(records(&folder.file("out.pcap")), 30);
}

#[test]
fn the_cause_of_a_refused_pdu_is_shown() {
    let folder = Folder::new();
    let packet = datagram(TELEVISION, &[5; 300]);
    let field = [fragments(1, &packet, 2).concat(), fragments(2, &packet, 0).concat()].concat();
    capture(&folder.file("a.pcap"), &[frame(0, None, &field)]);
    let text = said(&bentpipe(&folder, &["ts", "decap", "a.pcap", "out.pcap"]), 1);
    assert!(text.contains("1 errors (total length 1)"), "{text}");
    assert_eq!(records(&folder.file("out.pcap")), 1);
    let text = said(&bentpipe(&folder, &["ts", "inspect", "a.pcap"]), 0);
    assert!(text.contains("GSE: wrong by total length 1"), "{text}");
}

#[test]
fn a_sender_of_rtp_that_restarts_has_lost_nothing() {
    let folder = Folder::new();
    let packet = |seq: u16| {
        let mut bytes = [0; rtp::HEADER_LEN + 160];
        rtp::Repr::new(0, seq, 0, 7).emit(&mut bytes);
        datagram(TELEVISION, &bytes)
    };
    let numbers = (100..120).chain(10_100..10_110).chain(10_111..10_121);
    capture(&folder.file("a.pcap"), &numbers.map(packet).collect::<Vec<_>>());
    let text = said(&bentpipe(&folder, &["channel", "fit", "--sequence", "rtp", "a.pcap"]), 0);
    assert!(text.contains("41 frames, 1 lost") && text.contains("1 restarts of the sender"), "{text}");
}

/// CRC-32 of sections (ISO/IEC 13818-1, annex A), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |register: u32, bit: bool| {
        let feedback = (register >> 31 == 1) != bit;
        register << 1 ^ if feedback { 0x04c1_1db7 } else { 0 }
    };
    let byte =
        |register, byte: &u8| (0..8).rev().fold(register, |register, n| bit(register, byte >> n & 1 == 1));
    bytes.iter().fold(u32::MAX, byte)
}
