//! Captures and streams as users have them: what is in them is found, and what is not used has its reason.

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Output;

use bentpipe_testkit::{Folder, has, run, said};
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize, Modcod};
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::gse::{self, Label};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::ip::fragments::split_at_source;
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
    let text = said(&bentpipe(&folder, &["ts", "inspect", "a.pcap"]), 1);
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

/// JSON that a description has written.
fn json(folder: &Folder, name: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(folder.file(name)).expect("a file")).expect("JSON")
}

#[test]
fn each_job_has_its_counts_and_its_account_as_json() {
    let folder = Folder::new();
    let mut packets: Vec<Vec<u8>> = (0..20).map(|n| datagram(TELEVISION, &[n; 40])).collect();
    capture(&folder.file("x.pcap"), &packets);
    fs::write(folder.file("a.ts"), film(1, 50).concat()).expect("a stream");
    packets.extend((0..3).map(|n| segment(false, n, 1000)));
    capture(&folder.file("y.pcap"), &packets);
    for (command, counts, records) in [
        ("ts encap x.pcap out.ts", vec![("/packets", 20), ("/refused", 0)], 20),
        ("ts decap out.ts out.pcap", vec![("/packets", 20), ("/errors", 0)], 0),
        ("ts mux --rate 1Mbit/s a.ts out.ts", vec![("/inputs/0/sent", 50), ("/inputs/0/dropped", 0)], 0),
        ("rohc stats x.pcap", vec![("/results/ok", 20), ("/sizes/packets", 20)], 20),
        ("rohc compress x.pcap out.pcap", vec![("/results/ok", 20)], 20),
        ("traffic sequence y.pcap", vec![("/directions/0/bytes", 3000)], 3),
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--json", "out.json"]).collect();
        said(&bentpipe(&folder, &words), 0);
        let value = json(&folder, "out.json");
        for (place, count) in counts {
            assert_eq!(value.pointer(place), Some(&count.into()), "{command}: {value}");
        }
        let account = value["intake"].get(0).unwrap_or(&value["intake"]);
        assert_eq!(account["used"]["records"], records, "{command}: {value}");
        assert!(account["input"].is_string() && account["left_out"].is_array(), "{command}: {value}");
    }
}

#[test]
fn results_may_be_standard_output() {
    let folder = Folder::new();
    let mut packets: Vec<Vec<u8>> = (0..20).map(|n| datagram(TELEVISION, &[n; 40])).collect();
    packets.extend((0..3).map(|n| segment(false, n, 1000)));
    capture(&folder.file("x.pcap"), &packets);
    fs::write(folder.file("a.ts"), film(1, 50).concat()).expect("a stream");
    for (command, place, text) in [
        ("ts inspect a.ts", "/packets", "programme 1"),
        ("ts encap x.pcap out.ts", "/packets", "packets of"),
        ("rohc stats x.pcap", "/results/ok", "Headers"),
        ("traffic sequence x.pcap", "/directions/0/bytes", "bytes"),
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--json", "-"]).collect();
        let output = bentpipe(&folder, &words);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
        assert!(value.pointer(place).is_some_and(|count| count.as_u64() > Some(0)), "{command}: {value}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains(text), "{command}: {said}");
    }
    assert!(!folder.file("-").exists());
    let text = said(&bentpipe(&folder, &["ts", "decap", "out.ts", "-", "--json", "-"]), 2);
    assert!(text.contains("standard output is to be written twice"), "{text}");
}

#[test]
fn jobs_on_video_choose_one_of_several_streams() {
    let folder = Folder::new();
    let pieces = |ends: Ends, number: u16| -> Vec<Vec<u8>> {
        film(number, 138).chunks(7).map(|packets| datagram(ends, &packets.concat())).collect()
    };
    let both = pieces(TELEVISION, 1).into_iter().zip(pieces(RADIO, 2));
    capture(&folder.file("a.pcap"), &both.flat_map(|(one, other)| [one, other]).collect::<Vec<_>>());
    let text = said(&bentpipe(&folder, &["video", "demux", "a.pcap", "out.ts"]), 2);
    assert!(text.contains("2 streams: choose one by --src, --dst"), "{text}");
    let row = |group: &str| text.lines().find(|line| line.contains(group)).map(|line| line.contains(" 140 "));
    assert_eq!((row("to 239.1.1.1:5004"), row("to 239.1.1.2:5004")), (Some(true), Some(true)), "{text}");
    let words = ["video", "demux", "--group", "239.1.1.2", "--left-out", "rest.pcapng", "a.pcap", "out.ts"];
    said(&bentpipe(&folder, &words), 0);
    let text = said(&bentpipe(&folder, &["ts", "inspect", "out.ts"]), 0);
    assert!(text.contains("programme 2") && !text.contains("programme 1"), "{text}");
    assert_eq!(records(&folder.file("rest.pcapng")), 20);
}

/// Another group of the same sender, and a name server.
const RADIO: Ends = [TELEVISION[0], (Ipv4Addr::new(239, 1, 1, 2), 5004)];
const NAMES: Ends = [(Ipv4Addr::new(10, 0, 0, 1), 3333), (Ipv4Addr::new(10, 0, 0, 2), 53)];

#[test]
fn datagrams_that_cut_packets_lose_nothing() {
    let folder = Folder::new();
    let stream = film(1, 200).concat();
    let datagrams: Vec<_> = stream.chunks(1472).map(|piece| datagram(TELEVISION, piece)).collect();
    capture(&folder.file("a.pcap"), &datagrams);
    let text = said(&bentpipe(&folder, &["ts", "inspect", "--measure", "a.pcap", "--json", "a.json"]), 0);
    assert_eq!(
        (&row(&text, VIDEO)[3], &row(&text, VIDEO)[7]),
        (&"200".to_owned(), &"0".to_owned()),
        "{text}"
    );
    let all = json(&folder, "a.json");
    assert_eq!((&all["skipped_bytes"], &all["intake"]["outside_bytes"]), (&0.into(), &0.into()));
    assert_eq!(all["intake"]["used"]["records"], datagrams.len());
    assert!(text.contains(&format!("a.pcap: {} records, all used", datagrams.len())), "{text}");
}

#[test]
fn groups_are_streams_of_their_own() {
    let folder = Folder::new();
    let (television, radio) = (film(1, 140).concat(), film(2, 140).concat());
    let pieces = television.chunks(1316).zip(radio.chunks(1316));
    let mut datagrams: Vec<_> =
        pieces.flat_map(|(one, other)| [datagram(TELEVISION, one), datagram(RADIO, other)]).collect();
    datagrams.insert(3, datagram(NAMES, &[7; 40]));
    datagrams.insert(9, datagram(NAMES, &[7; 700]));
    capture(&folder.file("a.pcap"), &datagrams);
    let words = [
        "ts",
        "inspect",
        "--measure",
        "a.pcap",
        "--json",
        "a.json",
        "--csv",
        "a.csv",
        "--left-out",
        "b.pcapng",
    ];
    let text = said(&bentpipe(&folder, &words), 0);
    let names: Vec<String> =
        ["239.1.1.1", "239.1.1.2"].map(|group| format!("10.0.0.1:5000 to {group}:5004")).into();
    let all = json(&folder, "a.json");
    for (stream, name) in all["streams"].as_array().expect("a list").iter().zip(&names) {
        assert_eq!(stream["stream"]["name"], **name);
        assert!(text.contains(name), "{text}");
        let errors = |of: &serde_json::Value| of["errors"].as_u64().filter(|_| of["item"] != "1.6");
        let indicators = stream["tr_101_290"]["indicators"].as_array().expect("a list");
        let continuity = indicators.iter().find(|of| of["item"] == "1.4").and_then(errors);
        assert_eq!((continuity, &stream["packets"]), (Some(0), &142.into()), "{stream}");
    }
    assert!(text.contains("programme 1") && text.contains("programme 2"), "{text}");
    assert!(text.contains("2 left out: 2 of UDP without TS packets, the first 4"), "{text}");
    let csv = fs::read_to_string(folder.file("a.csv")).expect("a table");
    assert!(csv.starts_with("stream,pid,") && csv.contains(&names[1]), "{csv}");
    let text = said(&bentpipe(&folder, &["ts", "inspect", "--interface", "nope", "a.pcap"]), 2);
    assert!(text.contains("not selected by --interface nope; help: interfaces of the capture: 0"), "{text}");
    let text = said(&bentpipe(&folder, &["ts", "inspect", "--group", "239.1.1.2", "a.pcap"]), 0);
    assert!(!text.contains("programme 1") && text.contains("programme 2"), "{text}");
    let text = said(&bentpipe(&folder, &["ts", "mux", "--rate", "3 Mbit/s", "a.pcap", "out.ts"]), 2);
    assert!(text.contains("2 streams: choose one by --src, --dst") && text.contains(&names[1]), "{text}");
    assert!(!folder.file("out.ts").exists());
    let words = ["ts", "mux", "--rate", "3 Mbit/s", "--dst", "239.1.1.1", "a.pcap", "out.ts"];
    said(&bentpipe(&folder, &words), 0);
    assert_eq!(records(&folder.file("b.pcapng")), 2);
    if has("tshark") {
        let words = ["-r", "b.pcapng", "-T", "fields", "-e", "frame.comment", "-e", "udp.length"];
        let comments = said(&run("tshark", folder.path(), &words), 0);
        let lines: Vec<&str> = comments.lines().filter(|line| line.contains("record")).collect();
        let has_comment = |comment: &str| lines.iter().any(|line| line.trim() == comment);
        assert!(has_comment("record 4: of UDP without TS packets\t48"), "{comments}");
        assert!(has_comment("record 10: of UDP without TS packets\t708"), "{comments}");
    }
}

#[test]
fn input_streams_are_kept_apart() {
    let folder = Folder::new();
    let packet = datagram(TELEVISION, &[5; 300]);
    let frames: Vec<Vec<u8>> = (0..10)
        .flat_map(|n| {
            // Both input streams have the same fragment identifier, one behind the other.
            let [first, last] = fragments(n, &packet, 0);
            [(1, &first), (2, &first), (1, &last), (2, &last)].map(|(isi, field)| frame(n, Some(isi), field))
        })
        .collect();
    capture(&folder.file("a.pcap"), &frames);
    said(&bentpipe(&folder, &["ts", "decap", "a.pcap", "out.pcap"]), 0);
    assert_eq!(records(&folder.file("out.pcap")), 20);
    let text = said(&bentpipe(&folder, &["ts", "inspect", "a.pcap"]), 0);
    assert!(text.contains("ISI 1") && text.contains("ISI 2"), "{text}");
    said(&bentpipe(&folder, &["ts", "decap", "--isi", "2", "a.pcap", "out.pcap"]), 0);
    assert_eq!(records(&folder.file("out.pcap")), 10);
    let text = said(&bentpipe(&folder, &["ts", "decap", "--isi", "3", "a.pcap", "other.pcap"]), 2);
    assert!(text.contains("40 records, none used, 40 left out: not selected by --isi 3"), "{text}");
    assert!(!folder.file("other.pcap").exists());
}

#[test]
fn layouts_are_found_by_all_commands() {
    let folder = Folder::new();
    let packets = film(1, 300);
    let m2ts: Vec<u8> = packets.iter().flat_map(|packet| [&[1, 2, 3, 4][..], packet].concat()).collect();
    let parity: Vec<u8> = packets.iter().flat_map(|packet| [&packet[..], &[9; 16]].concat()).collect();
    fs::write(folder.file("a.m2ts"), m2ts).expect("writes");
    fs::write(folder.file("a.ts"), parity).expect("writes");
    for name in ["a.m2ts", "a.ts"] {
        let text = said(&bentpipe(&folder, &["ts", "inspect", name]), 0);
        assert_eq!(row(&text, VIDEO)[3], "300", "{text}");
        assert!(text.contains("bytes, all used"), "{text}");
        said(&bentpipe(&folder, &["ts", "mux", "--rate", "3 Mbit/s", name, "out.ts"]), 0);
        let bytes = fs::metadata(folder.file("out.ts")).expect("a file").len();
        assert!(bytes >= 300 * 188, "{bytes}");
    }
}

#[test]
fn an_input_without_packets_leaves_no_file() {
    let folder = Folder::new();
    fs::write(folder.file("a.ts"), [7; 5000]).expect("writes");
    for words in [&["ts", "inspect", "a.ts"][..], &["ts", "decap", "a.ts", "out.pcap"]] {
        let text = said(&bentpipe(&folder, words), 2);
        assert!(text.contains("5,000 left out: bytes outside packets"), "{text}");
    }
    assert!(!folder.file("out.pcap").exists());
}

/// TCP segment of the download of another test, without a length in its header as offload leaves it.
fn segment(is_v6: bool, ident: u16, payload_len: usize) -> Vec<u8> {
    let mut tcp = vec![0x78; 20 + payload_len];
    tcp[..20].fill(0);
    tcp[..4].copy_from_slice(&[0, 1, 0, 2]);
    tcp[4..8].copy_from_slice(&(u32::from(ident) * payload_len as u32 + 1).to_be_bytes());
    (tcp[12], tcp[13]) = (0x50, 0x10);
    if is_v6 {
        let mut header = [0; 40];
        (header[0], header[6], header[7], header[23], header[39]) = (0x60, 6, 64, 1, 2);
        return [&header[..], &tcp].concat();
    }
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let ip = ipv4::Repr { ident, ..ipv4::Repr::new(src, dst, Protocol::TCP, tcp.len()) };
    let mut header = vec![0; ip.buffer_len()];
    ip.emit(&mut header);
    header[2..4].fill(0);
    header[10..12].fill(0);
    [header, tcp].concat()
}

#[test]
fn lengths_that_offload_leaves_out_are_taken_from_the_record() {
    let folder = Folder::new();
    capture(&folder.file("a.pcap"), &(0..6).map(|n| segment(false, n, 3000)).collect::<Vec<_>>());
    let text = said(&bentpipe(&folder, &["traffic", "sequence", "a.pcap"]), 0);
    assert!(text.contains("18000") && text.contains("6 of length 0, taken from the record"), "{text}");
    let text = said(&bentpipe(&folder, &["rohc", "stats", "a.pcap"]), 0);
    assert!(!text.contains("Uncompressed") && text.contains("6 of length 0"), "{text}");
    let six = segment(true, 0, 1000);
    capture(&folder.file("six.pcap"), std::slice::from_ref(&six));
    for format in ["ule", "mpe", "gse"] {
        let name = if format == "gse" { "out.pcap" } else { "out.ts" };
        let text = said(&bentpipe(&folder, &["ts", "encap", "--format", format, "six.pcap", name]), 0);
        assert!(text.contains("1 of length 0, taken from the record"), "{text}");
        said(&bentpipe(&folder, &["ts", "decap", name, "back.pcap"]), 0);
        let file = fs::read(folder.file("back.pcap")).expect("a file");
        let mut reader = Reader::new(&file[..]).expect("a capture");
        let record = reader.next_record().expect("a record").expect("one");
        assert_eq!((record.bytes.len(), &record.bytes[40..]), (1060, &six[40..]), "{format}");
    }
}

#[test]
fn headers_without_a_checksum_count_as_headers() {
    let folder = Folder::new();
    let packet = |n: u16| {
        let mut bytes = [0x55; rtp::HEADER_LEN + 160];
        rtp::Repr::new(0, n, 160 * u32::from(n), 7).emit(&mut bytes);
        let mut bytes = datagram(TELEVISION, &bytes);
        if n % 2 == 1 {
            bytes[10..12].fill(0);
        }
        bytes
    };
    capture(&folder.file("a.pcap"), &(0..1000).map(packet).collect::<Vec<_>>());
    let text = said(&bentpipe(&folder, &["rohc", "stats", "--rtp-ports", "5004", "a.pcap"]), 0);
    assert!(text.contains("Not compressed: 500 without an IPv4 header checksum"), "{text}");
    assert!(text.contains("500 without a header checksum"), "{text}");
    let flow = "  10.0.0.1 5000 > 239.1.1.1 5004: 500 without an IPv4 header checksum, as offload leaves it";
    assert!(text.lines().any(|line| line == flow), "{text}");
    assert!(text.contains("VJ, RFC 1144 sends whole: 1000 that are not TCP."), "{text}");
    assert!(text.contains("CRTP, RFC 2508 sends whole: 500 without an IPv4 header checksum"), "{text}");
    let text = said(&bentpipe(&folder, &["rohc", "stats", "--ssrc", "8", "a.pcap"]), 2);
    assert!(text.contains("1,000 left out: not selected by --ssrc 0x00000008"), "{text}");
    let words = ["rohc", "stats", "--ssrc", "7", "--port", "5004", "--rtp-ports", "5004", "a.pcap"];
    let text = said(&bentpipe(&folder, &words), 0);
    // Half of the headers stay as they are.
    let all = text.lines().find(|line| line.starts_with("all ")).expect("a sum");
    let cells: Vec<&str> = all.split_whitespace().collect();
    let gain: f64 = cells[cells.len() - 2].parse().expect("a share");
    assert!(cells[4] == "40.0" && (40.0..50.0).contains(&gain), "{text}");
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

/// Each file that a command writes beside its text is checked against the input and the others before anything is written.
#[test]
fn nothing_that_is_written_replaces_what_is_read_or_another_file() {
    let folder = Folder::new();
    let packets: Vec<Vec<u8>> = (0..20).map(|n| datagram(TELEVISION, &[n; 40])).collect();
    capture(&folder.file("x.pcap"), &packets);
    let before = fs::read(folder.file("x.pcap")).expect("a capture");
    for (command, options) in [
        ("ts inspect", &["--csv", "--json", "--rates", "--report", "--left-out"][..]),
        ("channel fit --sequence 0:4", &["--json", "--plot", "--report", "--trace-out", "--left-out"]),
        ("rohc stats", &["--csv", "--plot", "--left-out", "--json"]),
        ("traffic describe", &["--json", "--report", "--left-out"]),
    ] {
        let words = |more: &[&str]| {
            let words = command.split(' ').chain(more.iter().copied()).map(str::to_owned);
            words.chain(["x.pcap".to_owned()]).collect::<Vec<_>>()
        };
        for option in options {
            let refused = bentpipe(&folder, &words(&[option, "./x.pcap"]));
            let text = String::from_utf8_lossy(&refused.stderr);
            assert!(text.contains("would overwrite what is read"), "{command} {option}: {text}");
            assert_eq!(refused.status.code(), Some(2), "{command} {option}");
            assert_eq!(fs::read(folder.file("x.pcap")).expect("a capture"), before, "{command} {option}");
        }
        let twice = bentpipe(&folder, &words(&[options[0], "out", options[1], "./out"]));
        let text = String::from_utf8_lossy(&twice.stderr);
        assert!(text.contains("is to be written twice"), "{command}: {text}");
        assert_eq!(twice.status.code(), Some(2), "{command}");
        assert!(!folder.file("out").exists(), "{command}");
    }
}

/// Opening a named pipe waits for its reader, and no signal ends that.
#[test]
fn a_named_pipe_or_folder_to_write_is_refused_before_anything_is() {
    let folder = Folder::new();
    let packets: Vec<Vec<u8>> = (0..20).map(|n| datagram(TELEVISION, &[n; 40])).collect();
    capture(&folder.file("x.pcap"), &packets);
    fs::write(folder.file("a.ts"), film(1, 50).concat()).expect("a stream");
    fs::create_dir(folder.file("folder")).expect("a folder");
    assert!(run("mkfifo", folder.path(), &["pipe"]).status.success());
    let names = folder.names();
    for command in [
        "ts inspect --left-out OUT x.pcap",
        "ts inspect --rates OUT a.ts",
        "ts decap a.ts OUT",
        "ts encap x.pcap OUT",
        "ts encap --left-out OUT x.pcap out.ts",
        "ts mux --rate 1Mbit/s a.ts OUT",
        "rohc stats --csv OUT x.pcap",
        "rohc compress x.pcap OUT",
        "rohc compress --scheme crtp x.pcap OUT",
        "channel fit --sequence 0:4 --plot OUT x.pcap",
        "channel generate synthetic --loss 0.05 OUT",
        "traffic describe --json OUT x.pcap",
        "traffic sequence --report OUT x.pcap",
        "video mux a.ts OUT",
        "video demux a.ts OUT",
        "rtp send --packets 1 --json OUT 127.0.0.1:9",
    ] {
        for (output, expected) in [("pipe", "pipe is a named pipe"), ("folder", "folder is a folder")] {
            let words: Vec<&str> =
                command.split(' ').map(|word| if word == "OUT" { output } else { word }).collect();
            let text = said(&bentpipe(&folder, &words), 2);
            assert!(text.contains(expected), "{command}: {text}");
            assert_eq!(folder.names(), names, "{command}");
        }
    }
    let text =
        said(&bentpipe(&folder, &["ts", "mux", "--rate", "1 Mbit/s", "a.ts", "x.pcap", "./x.pcap"]), 2);
    assert!(text.contains("x.pcap would overwrite what is read"), "{text}");
}

#[test]
fn pids_beyond_the_room_are_counted() {
    let folder = Folder::new();
    let stream: Vec<Packet> = (0..8190)
        .map(|number| {
            let mut packet = [0; PACKET_LEN];
            ts::Repr::new(pid(number), 0).emit(&mut packet);
            packet
        })
        .collect();
    let to = |group: u8| [TELEVISION[0], (Ipv4Addr::new(239, 1, 1, group), 5004)];
    let packets = |group| stream.chunks(7).map(move |packets| datagram(to(group), &packets.concat()));
    capture(&folder.file("x.pcap"), &(1..4).flat_map(packets).collect::<Vec<_>>());
    for words in [&["ts", "inspect", "x.pcap"][..], &["ts", "inspect", "--measure", "x.pcap"]] {
        let text = said(&bentpipe(&folder, words), 1);
        assert!(text.contains("8186 TS packets of more than 16384 PIDs are not described"), "{text}");
    }
}

#[test]
fn what_the_end_cuts_is_counted() {
    let folder = Folder::new();
    let packets: Vec<Vec<u8>> = (0..3).map(|n| datagram(TELEVISION, &[n; 1000])).collect();
    capture(&folder.file("x.pcap"), &packets);
    for format in ["ule", "mpe"] {
        said(&bentpipe(&folder, &["ts", "encap", "--format", format, "x.pcap", "x.ts"]), 0);
        said(&bentpipe(&folder, &["ts", "decap", "x.ts", "out.pcap"]), 0);
        let stream = fs::read(folder.file("x.ts")).expect("a stream");
        fs::write(folder.file("x.ts"), &stream[..stream.len() - 2 * PACKET_LEN]).expect("a stream");
        let text = said(&bentpipe(&folder, &["ts", "decap", "x.ts", "out.pcap"]), 1);
        assert!(text.contains("2 packets written") && text.contains("(cut by the end 1)"), "{text}");
        let text = said(&bentpipe(&folder, &["ts", "inspect", "x.ts"]), 1);
        assert!(text.contains("wrong by cut by the end 1"), "{text}");
    }
    let [first, _] = fragments(1, &packets[0], 0);
    capture(&folder.file("gse.pcap"), &[frame(0, None, &first)]);
    let text = said(&bentpipe(&folder, &["ts", "decap", "gse.pcap", "out.pcap"]), 2);
    assert!(text.contains("no packets: 1 errors: cut by the end 1"), "{text}");
}

#[test]
fn a_damaged_length_ends_a_capture_whose_records_before_it_are_used() {
    let folder = Folder::new();
    let stream: Vec<Vec<u8>> =
        film(1, 70).chunks(7).map(|packets| datagram(TELEVISION, &packets.concat())).collect();
    capture(&folder.file("x.pcap"), &stream);
    let mut bytes = fs::read(folder.file("x.pcap")).expect("a capture");
    let place: usize = 24 + stream[..5].iter().map(|packet| 16 + packet.len()).sum::<usize>() + 8;
    bytes[place..place + 4].copy_from_slice(&[0xff; 4]);
    fs::write(folder.file("x.pcap"), bytes).expect("a capture");
    for words in [&["ts", "inspect", "x.pcap"][..], &["rohc", "stats", "x.pcap"]] {
        let text = said(&bentpipe(&folder, words), 1);
        let expected = "5 records, all used, not read on from record 6: ";
        assert!(text.contains(expected) && text.contains("record over 262144 bytes"), "{text}");
    }
}

#[test]
fn packets_without_such_a_number_are_left_out() {
    let folder = Folder::new();
    let packets: Vec<Vec<u8>> = (0..3).map(|n| datagram(NAMES, &[n; 40])).collect();
    capture(&folder.file("x.pcap"), &packets);
    let words = ["channel", "fit", "--sequence", "rtp", "--left-out", "rest.pcapng", "x.pcap"];
    let text = said(&bentpipe(&folder, &words), 2);
    let expected = "no packet has such a number: 3 records, none used, 3 left out: without RTP";
    assert!(text.contains(expected), "{text}");
    assert_eq!(records(&folder.file("rest.pcapng")), 3);
    let text = said(&bentpipe(&folder, &["traffic", "sequence", "x.pcap"]), 2);
    assert!(text.contains("3 records, none used, 3 left out: of UDP, not TCP"), "{text}");
}

#[test]
fn rohc_is_read_where_ip_is() {
    let folder = Folder::new();
    let packet = |n: u16| {
        let mut bytes = [0x55; rtp::HEADER_LEN + 160];
        rtp::Repr::new(0, n, 160 * u32::from(n), 7).emit(&mut bytes);
        datagram(if n.is_multiple_of(2) { TELEVISION } else { NAMES }, &bytes)
    };
    capture(&folder.file("x.pcap"), &(0..1000).filter(|n| n % 50 > 3).map(packet).collect::<Vec<_>>());
    said(&bentpipe(&folder, &["rohc", "compress", "x.pcap", "x.rohc.pcap"]), 0);
    for words in [
        &["channel", "fit", "--sequence", "rtp", "--dst", "10.0.0.2"][..],
        &["traffic", "describe", "--interval", "10 ms"],
        &["rohc", "stats"],
    ] {
        let with = |more: &[&str]| {
            let done = bentpipe(&folder, &[words, more].concat());
            assert_eq!(done.status.code(), Some(0), "{more:?}: {}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).replace("x.rohc.pcap", "x.pcap")
        };
        assert_eq!(with(&["--from-rohc", "x.rohc.pcap"]), with(&["x.pcap"]));
    }
    let text = said(&bentpipe(&folder, &["ts", "encap", "--from-rohc", "x.rohc.pcap", "x.ts"]), 0);
    assert!(text.contains("920 packets of"), "{text}");
    let text = said(&bentpipe(&folder, &["traffic", "describe", "--from-rohc", "x.pcap"]), 2);
    assert!(text.contains("920 left out: of link type 101"), "{text}");
}

#[test]
fn packets_on_a_boundary_are_the_first_of_their_interval() {
    let folder = Folder::new();
    let packets: Vec<_> = (0..20_000).map(|_| datagram(TELEVISION, &[7; 172])).collect();
    capture(&folder.file("a.pcap"), &packets);
    let words = ["traffic", "describe", "a.pcap", "--interval", "1 ms", "--json", "out.json"];
    said(&bentpipe(&folder, &words), 0);
    let value = json(&folder, "out.json");
    let rates = value["rates"].as_array().expect("rates");
    assert_eq!((rates.len(), value["deviation"].as_f64()), (19_999, Some(0.0)));
    assert!(rates.iter().all(|rate| *rate == rates[0]));
}

#[test]
fn fragments_are_put_together_for_numbers_and_graphs() {
    let folder = Folder::new();
    let fragments: Vec<_> = (0..200_u16)
        .map(|n| {
            let mut packet = vec![0; rtp::HEADER_LEN];
            rtp::Repr::new(96, n, 0, 7).emit(&mut packet);
            packet.extend([n as u8; 160]);
            split_at_source(&datagram(TELEVISION, &packet), 100, n.into()).expect("fragments")
        })
        .collect();
    let lost = |n: usize| n % 10 == 3;
    let sent = fragments.iter().enumerate();
    let all = sent.flat_map(|(n, all)| all[..all.len() - usize::from(lost(n))].to_vec());
    capture(&folder.file("a.pcap"), &all.collect::<Vec<_>>());
    let output = bentpipe(&folder, &["channel", "fit", "--sequence", "rtp", "a.pcap"]);
    let text = said(&output, 1);
    assert!(text.contains("200 frames, 20 lost"), "{text}");
    assert!(text.contains("of incomplete fragments"), "{text}");
}

#[test]
fn a_compressed_or_empty_file_is_named_so() {
    let folder = Folder::new();
    fs::write(folder.file("a.pcap.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]).expect("writes");
    capture(&folder.file("none.pcap"), &[]);
    for words in [
        &["rohc", "stats"][..],
        &["ts", "inspect"],
        &["traffic", "describe"],
        &["traffic", "sequence"],
        &["channel", "fit", "--sequence", "rtp"],
    ] {
        let text = said(&bentpipe(&folder, &[words, &["a.pcap.gz"]].concat()), 2);
        assert!(text.contains("a.pcap.gz: compressed: decompress first with `gzip -d`"), "{text}");
        let text = said(&bentpipe(&folder, &[words, &["none.pcap"]].concat()), 2);
        assert!(text.contains("none.pcap: "), "{text}");
    }
}

#[test]
fn a_damaged_sync_byte_is_an_error_of_its_own() {
    let folder = Folder::new();
    let mut packets = film(1, 60);
    packets[20][0] = 0x46;
    fs::write(folder.file("one.ts"), packets.concat()).expect("writes");
    packets[30][0] = 0x46;
    packets[31][0] = 0x46;
    fs::write(folder.file("three.ts"), packets.concat()).expect("writes");
    for (name, losses, sync_bytes) in [("one.ts", 0, 1), ("three.ts", 1, 3)] {
        said(&bentpipe(&folder, &["ts", "inspect", "--measure", "--json", "out.json", name]), 1);
        let value = json(&folder, "out.json");
        let indicators = value["tr_101_290"]["indicators"].as_array().expect("indicators");
        let errors =
            |item: &str| indicators.iter().find(|of| of["item"] == item).map(|of| of["errors"].clone());
        let expected = [losses, sync_bytes].map(|count| Some(serde_json::json!(count)));
        assert_eq!([errors("1.1"), errors("1.2")], expected, "{name}: {value}");
    }
}

#[test]
fn jobs_of_one_stream_read_what_ts_inspect_reads() {
    let folder = Folder::new();
    let packets = film(1, 60);
    let stream = packets.concat();
    let pieces: Vec<_> = stream.chunks(1472).map(|piece| datagram(TELEVISION, piece)).collect();
    capture(&folder.file("plain.pcap"), &pieces);
    let mut damaged = packets.clone();
    damaged[20][0] = 0;
    fs::write(folder.file("damaged.ts"), damaged.concat()).expect("writes");
    let other = [TELEVISION[0], (Ipv4Addr::new(239, 1, 1, 2), 5004)];
    let second: Vec<_> = stream.chunks(1316).map(|piece| datagram(other, piece)).collect();
    capture(&folder.file("two.pcap"), &[pieces, second].concat());
    for (name, code, text) in [
        ("plain.pcap", 2, "no two clock references"),
        ("damaged.ts", 2, "188 left out"),
        ("two.pcap", 2, "two.pcap: 2 streams: choose one by"),
    ] {
        let shown = said(&bentpipe(&folder, &["video", "mux", name, "out.ts"]), code);
        assert!(shown.contains(text), "{shown}");
    }
}
