//! What is left out of captures and streams has its reason, whichever job reads them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bentpipe_testkit::{Folder, has, run, said};
use bentpipe_wire::pcap::{LinkType, Reader, Writer};
use bentpipe_wire::ts::{self, PACKET_LEN, Pid};
use bentpipe_wire::{ethernet::EtherType, ipv4};

const BENTPIPE: &str = env!("CARGO_BIN_EXE_bentpipe");

fn bentpipe(folder: &Folder, words: &str) -> Output {
    run(BENTPIPE, folder.path(), &words.split(' ').collect::<Vec<_>>())
}

/// Datagram of UDP over IPv4 to port 5004 with a number, an identification of 0 and a payload of zeros.
fn datagram(number: u8, payload_len: usize) -> Vec<u8> {
    let len = 28 + payload_len;
    let [high, low] = (len as u16).to_be_bytes();
    let mut bytes = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let [high, low] = (len as u16 - 20).to_be_bytes();
    bytes.extend([0x13, 0x88, 0x13, 0x8c, high, low, 0, 0]);
    bytes.resize(len, number);
    ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    bytes
}

/// Segment of IPv6 whose length is in a jumbo option (RFC 2675).
fn jumbogram() -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
    bytes.extend([[0xfd; 16], [0xfe; 16]].concat());
    let [a, b, c, d] = (100_000_u32 + 28 - 40).to_be_bytes();
    bytes.extend([6, 0, 0xc2, 4, a, b, c, d]);
    bytes.extend([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    bytes.resize(100_028, 5);
    bytes
}

/// Writes packets with their times in milliseconds.
fn capture(path: &Path, link_type: LinkType, packets: &[(u64, Vec<u8>)]) {
    let mut writer = Writer::new(fs::File::create(path).expect("a file"), link_type).expect("a capture");
    for (at_ms, packet) in packets {
        writer.write(at_ms * 1_000_000, packet, 0).expect("written");
    }
}

fn records(path: &Path) -> Vec<usize> {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let mut lens = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        lens.push(record.original_len);
    }
    lens
}

fn json(folder: &Folder, name: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(folder.file(name)).expect("a file")).expect("JSON")
}

const SCENARIO: &str = r#"
title = "replay"
duration = "5 s"
node.a = {}
node.b = {}
[link.l]
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
[flow.c]
from = "a"
to = "b"
traffic = { kind = "replay", file = "jumbo.pcap" }
"#;

#[test]
fn packets_over_65_535_bytes_are_left_out_by_each_job_in_the_same_words() {
    let folder = Folder::new();
    let long = || (0..10).map(|n| (20 * n, jumbogram()));
    capture(&folder.file("jumbo.pcap"), LinkType::RAW, &long().collect::<Vec<_>>());
    let mixed: Vec<_> = long().chain([(300, datagram(1, 60)), (500, datagram(2, 60))]).collect();
    capture(&folder.file("mixed.pcap"), LinkType::RAW, &mixed);
    let reason = "of packets over 65,535 bytes, as of BIG TCP and jumbograms";
    folder.write("jumbo.toml", SCENARIO);
    folder.write("mixed.toml", SCENARIO.replace("jumbo.pcap", "mixed.pcap"));
    for (job, code) in [
        ("ts encap mixed.pcap out.ts", 1),
        ("ts encap --format gse mixed.pcap out.pcap", 1),
        ("rohc stats mixed.pcap", 1),
        ("rohc compress mixed.pcap out.pcap", 1),
        ("traffic describe mixed.pcap", 1),
        ("run mixed.toml", 0),
    ] {
        let text = said(&bentpipe(&folder, job), code);
        assert!(text.contains(reason) && text.contains("12 records, 2 used"), "{job}: {text}");
        if code == 1 {
            said(&bentpipe(&folder, &format!("{job} --left-out rest.pcapng")), 1);
            assert_eq!(records(&folder.file("rest.pcapng")), [100_028; 10], "{job}");
        }
    }
    fs::remove_file(folder.file("out.ts")).and(fs::remove_file(folder.file("out.pcap"))).expect("written");
    for job in ["ts encap jumbo.pcap out.ts", "rohc compress jumbo.pcap out.pcap", "run jumbo.toml"] {
        let text = said(&bentpipe(&folder, job), 2);
        assert!(text.contains(reason) && text.contains("10 records, none used"), "{job}: {text}");
        assert!(!folder.file("out.ts").exists() && !folder.file("out.pcap").exists(), "{job}");
    }
}

#[test]
fn what_a_job_refuses_is_left_out() {
    let folder = Folder::new();
    // The length of an SNDU has 15 bits (RFC 4326 4.2).
    let packets = |len| [(0, datagram(1, 60)), (10, datagram(2, len)), (20, datagram(3, 60))];
    capture(&folder.file("a.pcap"), LinkType::RAW, &packets(40_000));
    let job = "ts encap --json a.json --left-out rest.pcapng a.pcap out.ts";
    let text = said(&bentpipe(&folder, job), 1);
    assert!(text.contains("3 records, 2 used, 1 left out: 1 refused: "), "{text}");
    let all = json(&folder, "a.json");
    assert_eq!((&all["intake"]["used"]["records"], &all["refused"]), (&2.into(), &1.into()), "{all}");
    assert_eq!(all["intake"]["left_out"][0]["reason"], "refused", "{all}");
    assert_eq!(records(&folder.file("rest.pcapng")), [40_028]);
    // A stream of other contents is not written as a capture without packets.
    capture(&folder.file("b.pcap"), LinkType::RAW, &packets(9000));
    said(&bentpipe(&folder, "ts encap --rohc b.pcap rohc.ts"), 0);
    let text = said(&bentpipe(&folder, "ts decap rohc.ts none.pcap"), 2);
    assert!(text.contains("no packets: ") && text.contains("with --rohc, ROHC packets"), "{text}");
    assert!(!folder.file("none.pcap").exists());
    said(&bentpipe(&folder, "ts decap --rohc rohc.ts some.pcap"), 0);
    assert_eq!(records(&folder.file("some.pcap")), [88, 9028, 88]);
}

#[test]
fn a_clock_that_is_set_back_is_said() {
    let folder = Folder::new();
    let hour = 3_600_000;
    let packets: Vec<_> =
        (0..100_u64).map(|n| (if n < 60 { hour + 20 * n } else { 20 * n }, datagram(n as u8, 60))).collect();
    capture(&folder.file("jumbo.pcap"), LinkType::RAW, &packets);
    let text = said(&bentpipe(&folder, "traffic describe --json a.json jumbo.pcap"), 1);
    assert!(text.contains("100 records, 60 used, 40 left out: 40 stamped over a second before"), "{text}");
    assert_eq!(json(&folder, "a.json")["intake"]["left_out"][0]["reason"], "time");
    folder.write("a.toml", SCENARIO);
    let text = said(&bentpipe(&folder, "run a.toml"), 0);
    assert!(text.contains("packets of flow.c.sender: 100 sent"), "{text}");
    assert!(text.contains("its clock is set back once"), "{text}");
    // Forward by years.
    let late: Vec<_> = [(0, datagram(1, 60)), (315_360_000_000, datagram(2, 60))].into();
    capture(&folder.file("late.pcap"), LinkType::RAW, &late);
    let text = said(&bentpipe(&folder, "traffic describe late.pcap"), 2);
    assert!(text.contains("record 2 is 315360000 s behind the first packet"), "{text}");
}

#[test]
fn headers_that_a_snapshot_cut_are_said() {
    let folder = Folder::new();
    let packets: Vec<_> = (0..50_u64).map(|n| (20 * n, datagram(n as u8, 172))).collect();
    let mut writer = Writer::with_snap_len(Vec::new(), LinkType::RAW, 26).expect("a header");
    packets.iter().for_each(|(at, packet)| writer.write(at * 1_000_000, packet, 0).expect("written"));
    fs::write(folder.file("cut.pcap"), writer.into_inner()).expect("written");
    let text = said(&bentpipe(&folder, "rohc stats --rtp-ports 5004 --json a.json cut.pcap"), 0);
    assert!(
        text.contains("Headers behind a cut count as payload: 50 whose headers the capture cut"),
        "{text}"
    );
    assert_eq!(json(&folder, "a.json")["headers_as_payload"][0]["packets"], 50);
    fs::write(folder.file("head.pcap"), &fs::read(folder.file("cut.pcap")).expect("a file")[..24])
        .expect("ok");
    let text = said(&bentpipe(&folder, "rohc stats head.pcap"), 2);
    assert!(text.contains("no IP packets: 0 records"), "{text}");
}

#[test]
fn rohc_in_ethernet_is_input() {
    let folder = Folder::new();
    let packets: Vec<_> = (0..30_u64).map(|n| (20 * n, datagram(n as u8, 172))).collect();
    capture(&folder.file("a.pcap"), LinkType::RAW, &packets);
    said(&bentpipe(&folder, "rohc compress a.pcap a.rohc.pcap"), 0);
    let file = fs::read(folder.file("a.rohc.pcap")).expect("a file");
    let (mut reader, mut frames) = (Reader::new(&file[..]).expect("a capture"), Vec::new());
    while let Some(record) = reader.next_record().expect("whole") {
        let head = [&[2; 12][..], &EtherType::ROHC.0.to_be_bytes()].concat();
        frames.push((record.time_ns.unwrap_or(0) / 1_000_000, [&head[..], record.bytes].concat()));
    }
    capture(&folder.file("eth.pcap"), LinkType::ETHERNET, &frames);
    let text = said(&bentpipe(&folder, "rohc decompress eth.pcap b.pcap"), 0);
    assert!(text.contains("30 records, all used"), "{text}");
    assert_eq!(records(&folder.file("b.pcap")), [200; 30]);
    said(&bentpipe(&folder, "rohc stats --from-rohc eth.pcap"), 0);
    for name in ["eth", "a.rohc"] {
        let text = said(&bentpipe(&folder, &format!("rohc stats {name}.pcap")), 2);
        assert!(text.contains("help: --from-rohc restores packets of ROHC"), "{name}: {text}");
    }
}

/// Transport stream of one PID.
fn stream(packets: u16) -> Vec<[u8; PACKET_LEN]> {
    let packet = |n: u16| {
        let mut packet = [0xaa; PACKET_LEN];
        ts::Repr::new(Pid::new(0x100).expect("13 bits"), n as u8 & 15).emit(&mut packet);
        packet[4..6].copy_from_slice(&n.to_be_bytes());
        packet
    };
    (0..packets).map(packet).collect()
}

#[test]
fn containers_that_are_not_read_are_no_bare_streams() {
    let folder = Folder::new();
    for start in [&b"RTSS\x01\x01"[..], b"GMBU\x00\x02\x01\x00", b"XCP\x00002.001", b"btsnoop\0\0\0\0\x01"] {
        folder.write("x", [start, &[7; 66], stream(50).concat().as_slice()].concat());
        for job in ["ts inspect x", "rohc stats x", "traffic describe x"] {
            let text = said(&bentpipe(&folder, job), 2);
            assert!(text.contains("x: a capture of ") && text.contains("`editcap -F pcap`"), "{job}: {text}");
        }
    }
    // Without a signature: headers of one length between pieces.
    let pieces: Vec<u8> =
        stream(210).chunks(7).flat_map(|piece| [&[9; 66][..], piece.concat().as_slice()].concat()).collect();
    folder.write("y", pieces);
    let text = said(&bentpipe(&folder, "ts inspect y"), 1);
    assert!(
        text.contains(" times 66 bytes between packets, as in a capture of a format that is not read"),
        "{text}"
    );
    // A pcap of an unknown version is not a stream either.
    let mut file = [&[0xd4, 0xc3, 0xb2, 0xa1, 9, 0, 4, 0][..], &[0; 12], &[1, 0, 0, 0]].concat();
    file.extend(stream(50).concat());
    folder.write("z", file);
    assert!(said(&bentpipe(&folder, "ts inspect z"), 2).contains("version other than 2"));
    folder.write("a.ts", stream(50).concat());
    let text = said(&bentpipe(&folder, "ts inspect --left-out rest.pcapng a.ts"), 2);
    assert!(
        text.contains("--left-out: expected a capture") && !folder.file("rest.pcapng").exists(),
        "{text}"
    );
    if has("editcap") {
        capture(&folder.file("a.pcap"), LinkType::RAW, &[(0, datagram(1, 60)), (1, datagram(2, 60))]);
        let convert = ["-F", "modpcap", "a.pcap", "mod.pcap"];
        said(&run("editcap", folder.path(), &convert), 0);
        let text = said(&bentpipe(&folder, "rohc stats mod.pcap"), 0);
        assert!(text.contains("2 records, all used"), "{text}");
    }
}

#[test]
fn a_mirrored_pipe_counts_each_packet_once() {
    let folder = Folder::new();
    let packets: Vec<_> = (0..40_u64).flat_map(|n| vec![(20 * n, datagram(n as u8, 60)); 2]).collect();
    capture(&folder.file("a.pcap"), LinkType::RAW, &packets);
    let piped = |words: &str| {
        let mut command = Command::new(BENTPIPE);
        command
            .args(words.split(' '))
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = fs::File::open(folder.file("a.pcap")).expect("a file");
        let mut cat = Command::new("cat").stdin(input).stdout(Stdio::piped()).spawn().expect("a program");
        command.stdin(cat.stdout.take().expect("a pipe"));
        let output = command.output().expect("the program");
        cat.wait().expect("ended");
        said(&output, 0)
    };
    for job in ["rohc stats -", "traffic describe -", "ts encap - out.ts"] {
        assert!(piped(job).contains("80 records, 40 used"), "{job}: {}", piped(job));
    }
    // Written as they come, those in front of the first that was known are used.
    let text = piped("ts encap - -");
    assert!(text.contains("copies at the start of a pipe are used"), "{text}");
}

#[test]
fn counters_of_several_ports_are_not_one_and_a_host_s_counter_is() {
    let folder = Folder::new();
    let packet = |port: u16, ident: u16| {
        let mut bytes = datagram(0, 60);
        bytes[4..6].copy_from_slice(&ident.to_be_bytes());
        bytes[22..24].copy_from_slice(&port.to_be_bytes());
        bytes[10..12].fill(0);
        ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
        bytes
    };
    let two = (0..500_u16).flat_map(|n| [packet(5004, 1000 + n), packet(6004, 30_000 + n)]);
    let two: Vec<_> = (0..).step_by(10).zip(two).filter(|(at, _)| *at != 4000).collect();
    capture(&folder.file("two.pcap"), LinkType::RAW, &two);
    let text = said(&bentpipe(&folder, "channel fit --sequence ip-id two.pcap"), 2);
    assert!(text.contains("2 streams") && text.contains("port 5004") && text.contains("port 6004"), "{text}");
    let text = said(&bentpipe(&folder, "channel fit --sequence ip-id --port 5004 two.pcap"), 0);
    assert!(text.contains("500 frames, 1 lost") && text.contains("over all of its ports"), "{text}");
    let host = (0..1000_u16).map(|n| packet(if n % 2 == 0 { 5004 } else { 6004 }, n + 1));
    let host: Vec<_> = (0..).step_by(10).zip(host).filter(|(at, _)| ![4000, 4010].contains(at)).collect();
    capture(&folder.file("host.pcap"), LinkType::RAW, &host);
    let text = said(&bentpipe(&folder, "channel fit --sequence ip-id host.pcap"), 0);
    assert!(text.contains("1000 frames, 2 lost"), "{text}");
}

#[test]
fn a_stream_is_chosen_where_there_are_addresses() {
    let folder = Folder::new();
    folder.write("a.ts", stream(50).concat());
    for flag in ["--port 99", "--src 10.0.0.1", "--ssrc 7", "--vlan 5", "--interface eth0"] {
        let text = said(&bentpipe(&folder, &format!("ts inspect {flag} a.ts")), 2);
        assert!(text.contains("expected a capture: this file has packets alone"), "{flag}: {text}");
    }
    // Jobs on video name what the intake found.
    capture(&folder.file("b.pcap"), LinkType::RAW, &[(0, datagram(1, 60)), (10, datagram(2, 60))]);
    let text = said(&bentpipe(&folder, "video carry b.pcap out.ts"), 2);
    assert!(text.contains("neither TS packets nor baseband frames: 2 records, none used"), "{text}");
}

/// RTP of a TS packet to the last octet of an address, with its own time stamp.
fn rtp(to: u8, seq: u16, packet: &[u8; PACKET_LEN]) -> Vec<u8> {
    let mut bytes = datagram(0, 12 + PACKET_LEN);
    bytes[19] = to;
    bytes[10..12].fill(0);
    ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    bytes[28..32].copy_from_slice(&[&[0x80, 33][..], &seq.to_be_bytes()].concat());
    bytes[32..36].copy_from_slice(&(u32::from(seq) * 90).to_be_bytes());
    bytes[36..40].copy_from_slice(&7_u32.to_be_bytes());
    bytes[40..].copy_from_slice(packet);
    bytes
}

#[test]
fn an_outage_of_rtp_is_loss_and_a_leg_comes_back() {
    let folder = Folder::new();
    let all: Vec<_> = (0..).zip(stream(6000)).collect();
    let leg = |to: u8, lost: std::ops::Range<u16>, skew: u64| {
        let of = all.iter().filter(move |(n, _)| !lost.contains(n));
        of.map(move |(n, packet)| (u64::from(*n) + skew, rtp(to, *n, packet)))
    };
    let one: Vec<_> = leg(2, 1000..5000, 0).collect();
    capture(&folder.file("one.pcap"), LinkType::RAW, &one);
    let mut both: Vec<_> = one.into_iter().chain(leg(3, 5500..5510, 4)).collect();
    both.sort_by_key(|(at, _)| *at);
    capture(&folder.file("both.pcap"), LinkType::RAW, &both);
    let text = said(&bentpipe(&folder, "ts inspect one.pcap"), 0);
    assert!(text.contains("4000 RTP packets missing by their numbers"), "{text}");
    let text = said(&bentpipe(&folder, "channel fit --sequence rtp one.pcap"), 0);
    assert!(
        text.contains("6000 frames, 4000 lost") && text.contains(" 0 restarts") == text.contains("restarts"),
        "{text}"
    );
    let text = said(&bentpipe(&folder, "ts inspect --2022-7 both.pcap"), 0);
    let has = |words: &str| assert!(text.contains(words), "{words}: {text}");
    has("2000 RTP packets, 4000 missing");
    has("5990 RTP packets, 10 missing");
    has("missing on all legs: 0");
    let row: Vec<&str> =
        text.lines().find(|line| line.contains("0x0100 ")).expect("a row").split_whitespace().collect();
    assert!(row.contains(&"6000"), "{text}");
    // Name servers between the packets are no further streams.
    let names = (0..40_u64).map(|n| {
        let mut bytes = datagram(n as u8, 40);
        bytes[28..30].copy_from_slice(&[0x80, n as u8]);
        bytes[30..32].copy_from_slice(&((n * 1777) as u16).to_be_bytes());
        bytes[36..40].copy_from_slice(&(n as u32 + 100).to_be_bytes());
        (100 * n, bytes)
    });
    let mut mixed: Vec<_> = leg(2, 10..12, 0).take(500).chain(names).collect();
    mixed.sort_by_key(|(at, _)| *at);
    capture(&folder.file("mixed.pcap"), LinkType::RAW, &mixed);
    let text = said(&bentpipe(&folder, "channel fit --sequence rtp mixed.pcap"), 0);
    assert!(text.contains("502 frames, 2 lost"), "{text}");
    assert!(text.contains("40 packets are of sources without two numbers in sequence"), "{text}");
}

#[test]
fn results_that_cannot_be_printed_are_no_success() {
    let folder = Folder::new();
    folder.write("a.ts", stream(50).concat());
    folder.write("a.toml", SCENARIO.replace("{ kind = \"replay\", file = \"jumbo.pcap\" }", "\"tcp\""));
    for job in ["ts inspect a.ts", "check a.toml", "run a.toml"] {
        let full = fs::File::options().write(true).open("/dev/full").expect("a device");
        let mut command = Command::new(BENTPIPE);
        command.args(job.split(' ')).current_dir(folder.path()).stdout(full).stderr(Stdio::piped());
        let output = command.output().expect("the program");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{job}: {errors}");
        assert!(errors.contains("standard output: No space left on device"), "{job}: {errors}");
    }
}
