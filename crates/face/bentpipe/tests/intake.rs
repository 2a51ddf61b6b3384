//! Captures and streams with faults of their own: bytes too many, clocks that step, links that have a stream twice, legs.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Output;

use bentpipe_testkit::{Folder, run, said};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::{LinkType, NgWriter, Options, Record, Writer};
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::ts::{self, Adaptation, Method, PACKET_LEN, Pcr, Pid, restamp};
use bentpipe_wire::{ipv4, rtp, section, udp};
use serde_json::Value;

type Packet = [u8; PACKET_LEN];

fn bentpipe(folder: &Folder, words: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_bentpipe"), folder.path(), words)
}

fn pid(number: u16) -> Pid {
    Pid::new(number).expect("13 bits")
}

/// Ticks of the clock in the time of a packet.
const TICKS: u64 = 8000;

/// Stream of constant rate: tables each 200 packets, clock references each 10th, and a second PID.
fn film(count: u64) -> Vec<Packet> {
    let (number, map, video) = (1, pid(0x1000), pid(0x100));
    let pat = Pat { stream_id: 1, programmes: vec![Programme { number, map }], ..Pat::default() };
    let streams = [0x100, 0x101].map(|of| Elementary { kind: 2, pid: pid(of), descriptors: Vec::new() });
    let pmt = Pmt { number, version: 0, clock: video, descriptors: Vec::new(), streams: streams.to_vec() };
    let mut tables = [
        (section::Encapsulator::new(Pid::PAT, Method::Padding), pat.to_section()),
        (section::Encapsulator::new(map, Method::Padding), pmt.to_section()),
    ];
    let mut continuity = [0, 0];
    let packet = |n: u64| {
        if let Some((encapsulator, section)) = tables.get_mut((n % 200) as usize) {
            let mut bytes = Vec::new();
            encapsulator.push(section, &mut bytes);
            return *bytes.first_chunk().expect("a packet");
        }
        let of = usize::from(n % 3 == 1 && n % 10 != 5);
        let pcr = (n % 10 == 5).then(|| Pcr::new(n * TICKS));
        let adaptation = pcr.map(|pcr| Adaptation { len_bytes: 7, pcr: Some(pcr), ..Adaptation::default() });
        let mut packet = [n as u8 | 0x80; PACKET_LEN];
        ts::Repr { adaptation, ..ts::Repr::new(pid(0x100 + of as u16), continuity[of]) }.emit(&mut packet);
        continuity[of] = (continuity[of] + 1) % 16;
        packet
    };
    (0..count).map(packet).collect()
}

fn datagram(to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let ip = ipv4::Repr::new(Ipv4Addr::new(10, 0, 0, 1), to, Protocol::UDP, udp::HEADER_LEN + payload.len());
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
    ip.emit(&mut bytes);
    udp::Repr { src_port: 5000, dst_port: 5004, payload_len: payload.len() }
        .emit(&mut bytes[ip.buffer_len()..]);
    bytes.extend(payload);
    bytes
}

const GROUPS: [Ipv4Addr; 2] = [Ipv4Addr::new(239, 1, 1, 1), Ipv4Addr::new(239, 1, 1, 2)];

/// Writes packets of raw IP at times in microseconds.
fn capture(path: &Path, packets: &[(u64, Vec<u8>)]) {
    let mut sorted: Vec<_> = packets.iter().collect();
    sorted.sort_by_key(|(at_us, _)| *at_us);
    let mut writer = Writer::new(fs::File::create(path).expect("a file"), LinkType::RAW).expect("a capture");
    sorted.iter().for_each(|(at_us, packet)| writer.write(at_us * 1000, packet, 0).expect("writes"));
}

fn json(folder: &Folder, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.file(name)).expect("a file")).expect("JSON")
}

/// Errors of these indicators of TR 101 290.
fn errors<const N: usize>(value: &Value, items: [&str; N]) -> [u64; N] {
    let all = value["tr_101_290"]["indicators"].as_array().expect("indicators");
    items.map(|item| {
        let found = all.iter().find(|of| of["item"] == item).unwrap_or_else(|| panic!("{item}"));
        found["errors"].as_u64().unwrap_or_else(|| panic!("{found}"))
    })
}

#[test]
fn a_fault_of_the_file_is_not_an_error_of_its_clock() {
    let folder = Folder::new();
    let whole = film(4000).concat();
    let measured = |bytes: &[u8]| {
        fs::write(folder.file("a.ts"), bytes).expect("a file");
        bentpipe(&folder, &["ts", "inspect", "--measure", "--json", "a.json", "a.ts"]);
        errors(&json(&folder, "a.json"), ["1.1", "1.2", "1.4", "2.3a", "2.3b", "2.4"])
    };
    assert_eq!(measured(&whole), [0; 6]);
    let at = 2003 * PACKET_LEN;
    let with = |at: usize| [&whole[..at], &[0x11], &whole[at..]].concat();
    let without = |at: usize, count: usize| [&whole[..at], &whole[at + count..]].concat();
    assert_eq!(measured(&with(at)), [1, 0, 0, 0, 0, 0], "a byte between packets");
    for (name, bytes) in
        [("more", with(at + 50)), ("less", without(at + 50, 1)), ("lost", without(at, PACKET_LEN))]
    {
        let [losses, sync_bytes, continuity, rest @ ..] = measured(&bytes);
        assert_eq!((losses, sync_bytes, rest), (u64::from(name != "lost"), 0, [0; 3]), "{name}");
        assert_eq!(continuity > 0, name != "more", "{name}");
    }
    let mut damaged = whole.clone();
    damaged.chunks_mut(PACKET_LEN).skip(2003).step_by(2).take(50).for_each(|packet| packet[0] = 0x46);
    let [losses, sync_bytes, _, rest @ ..] = measured(&damaged);
    assert_eq!((losses, sync_bytes, rest), (0, 50, [0; 3]));
    for (ticks, expected) in [(13_500_000, [1, 0]), (270_000_000, [1, 0]), (27_000, [0, 1]), (0, [0, 0])] {
        let mut step = film(4000);
        step[2000..].iter_mut().for_each(|packet| restamp(packet, ticks));
        let found = measured(&step.concat());
        assert_eq!(([found[4], found[5]], found[3]), (expected, 0), "{ticks}");
    }
}

#[test]
fn chosen_pids_are_described_alone() {
    let folder = Folder::new();
    let mut packets = film(3000);
    // An error of each PID.
    packets[1003][3] = packets[1003][3] & 0xf0 | (packets[1003][3] + 1) & 0x0f;
    packets[1502][3] = packets[1502][3] & 0xf0 | (packets[1502][3] + 1) & 0x0f;
    fs::write(folder.file("a.ts"), packets.concat()).expect("a file");
    let of = |words: &[&str]| {
        let all = [&["ts", "inspect", "--measure", "--json", "a.json", "a.ts"], words].concat();
        let text = said(&bentpipe(&folder, &all), 0);
        (text, json(&folder, "a.json"))
    };
    let (_, all) = of(&[]);
    let (text, one) = of(&["--pid", "0x101", "--pid", "0x777"]);
    assert!(text.contains("--pid 0x0777: no packets") && text.contains("programme 1: PMT 0x1000"), "{text}");
    let pids = |value: &Value| value["pids"].as_array().expect("PIDs").len();
    assert_eq!((pids(&all), pids(&one), one["pids"][0]["pid"].as_u64()), (4, 1, Some(0x101)));
    assert_eq!(
        one["packets_of_other_pids"].as_u64(),
        Some(3000 - one["pids"][0]["packets"].as_u64().expect("packets"))
    );
    let [both, alone] = [&all, &one].map(|value| errors(value, ["1.4"])[0]);
    assert!(alone > 0 && both > alone, "{both} {alone}");
}

#[test]
fn blocks_with_two_lengths_are_damage_with_a_place() {
    let folder = Folder::new();
    let stream = film(70);
    let mut writer = NgWriter::new(Vec::new()).expect("written");
    for (payload, n) in stream.chunks(7).zip(1_u64..) {
        let bytes = datagram(GROUPS[0], payload.as_flattened());
        let (link_type, original_len, options) = (LinkType::RAW, bytes.len(), Options::default());
        let record = Record {
            time_ns: Some(n * 1_000_000),
            interface: 0,
            interface_name: None,
            link_type,
            original_len,
            bytes: &bytes,
            options,
        };
        writer.write(&record, "").expect("written");
    }
    let file = writer.into_inner();
    // The blocks of packets have one length, and are the last ones.
    let len = u32::from_le_bytes(*file.last_chunk().expect("a length")) as usize;
    let starts: Vec<usize> = (1..=10).map(|back| file.len() - back * len).collect();
    for (place, other) in [(len - 4, 0_u32), (4, len as u32 + 4), (4, 2 * len as u32), (4, 0x0001_0000)] {
        let mut damaged = file.clone();
        damaged[starts[4] + place..][..4].copy_from_slice(&other.to_le_bytes());
        fs::write(folder.file("a.pcapng"), damaged).expect("a file");
        for words in [
            &["ts", "inspect", "--json", "a.json", "a.pcapng"][..],
            &["traffic", "describe", "--interval", "1 ms", "--json", "a.json", "a.pcapng"],
        ] {
            let text = said(&bentpipe(&folder, words), 1);
            let intake = &json(&folder, "a.json")["intake"];
            assert_eq!(intake["used"]["records"], 9, "{place} {other}: {text}");
            assert_eq!(
                (&intake["damaged_blocks"], intake["damaged_at"].as_u64()),
                (&1.into(), Some(starts[4] as u64))
            );
            assert!(
                text.contains("blocks of pcapng with two lengths passed over: 1, the first at byte"),
                "{text}"
            );
        }
    }
}

#[test]
fn legs_are_merged_by_choice() {
    let folder = Folder::new();
    let stream = film(1400);
    let leg = |group: Ipv4Addr, late_us: u64, every: usize| {
        let datagrams = stream.chunks(7).enumerate().filter(move |(n, _)| n % every != 5);
        datagrams.map(move |(n, payload)| {
            let mut bytes = vec![0; rtp::HEADER_LEN];
            rtp::Repr::new(33, n as u16, 90 * n as u32, 7).emit(&mut bytes);
            bytes.extend(payload.as_flattened());
            (n as u64 * 2000 + late_us, datagram(group, &bytes))
        })
    };
    let both: Vec<_> = leg(GROUPS[0], 0, 10).chain(leg(GROUPS[1], 7000, 15)).collect();
    capture(&folder.file("a.pcap"), &both);
    let text = said(&bentpipe(&folder, &["ts", "inspect", "a.pcap"]), 0);
    assert!(text.contains("streams 1 and 2 have the same SSRC: --2022-7 merges them"), "{text}");
    let words = ["ts", "inspect", "--measure", "--2022-7", "--json", "a.json", "a.pcap"];
    let text = said(&bentpipe(&folder, &words), 0);
    // Datagrams 5, 35, 65 and so on are lost on both.
    assert!(text.contains("239.1.1.1:5004, SSRC 0x00000007: 180 RTP packets, 20 missing"), "{text}");
    assert!(text.contains("missing on all legs: 7 RTP packets"), "{text}");
    let value = json(&folder, "a.json");
    assert_eq!(
        (value["packets"].as_u64(), value["stream"]["rtp_missing"].as_u64()),
        (Some(7 * 193), Some(7))
    );
    assert_eq!(value["stream"]["legs"].as_array().expect("legs").len(), 2);
    assert_eq!(errors(&value, ["2.3b", "2.4"]), [0, 0]);
    let text = said(&bentpipe(&folder, &["rohc", "stats", "--2022-7", "a.pcap"]), 2);
    assert!(text.contains("unexpected argument '--2022-7'"), "{text}");
}

#[test]
fn streams_are_read_out_of_rohc() {
    let folder = Folder::new();
    let packets: Vec<_> = film(700)
        .chunks(7)
        .zip(0_u64..)
        .map(|(payload, n)| (n * 2000, datagram(GROUPS[n as usize % 2], payload.as_flattened())))
        .collect();
    capture(&folder.file("a.pcap"), &packets);
    said(&bentpipe(&folder, &["rohc", "compress", "a.pcap", "a.rohc.pcap"]), 0);
    let of = |words: &[&str]| {
        let words = [&["ts", "inspect", "--group", "239.1.1.1", "--json", "a.json"], words].concat();
        let status = bentpipe(&folder, &words).status.code();
        let mut value = json(&folder, "a.json");
        value["intake"].take();
        value["stream"].take();
        (status, value)
    };
    let (status, value) = of(&["a.pcap"]);
    assert_eq!(value["packets"], 350);
    assert_eq!(of(&["--from-rohc", "a.rohc.pcap"]), (status, value));
    fs::write(folder.file("a.ts"), film(70).concat()).expect("a file");
    let text = said(&bentpipe(&folder, &["ts", "inspect", "--from-rohc", "a.ts"]), 2);
    assert!(text.contains("a.ts: --from-rohc: expected a capture of ROHC packets"), "{text}");
}
