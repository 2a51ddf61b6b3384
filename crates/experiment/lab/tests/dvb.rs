//! Links of DVB as scenarios have them, and captures of what is on them, read by tshark.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::path::PathBuf;
use std::process::Command;

use bentpipe_assemble::{Built, checked};
use bentpipe_record::Capture;
use bentpipe_scenario::{Document, Scenario};
use bentpipe_units::{Span, Time};
use bentpipe_wire::pcap::Reader;

/// A line and a link with this in it, calls one way and a download the other.
fn text(line: &str, dvb: &str, more: &str) -> String {
    format!(
        r#"
title = "x"
duration = "5 s"
[node.a]
[node.b]
[dvb.carrier]
{line}
[link.sky]
between = ["a", "b"]
delay = "250 ms"
{more}
[link.sky.dvb]
line = "carrier"
{dvb}
[flow.calls]
from = "a"
to = "b"
count = 10
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "20 ms" }}, payload = "45 B", header = "rtp" }}
[flow.download]
from = "b"
to = "a"
traffic = "tcp"
[probe]
capture = ["a:sky"]
"#
    )
}

const TS: &str = "kind = \"transport-stream\"\nrate = \"2 Mbit/s\"";
const S2: &str = "kind = \"dvb-s2\"\nsymbol_rate = 2_000_000\nmodcod = \"8PSK 2/3\"\nframe = \"short\"";

fn scenario(text: &str) -> Scenario {
    let document = Document::parse("dvb.toml", text.as_bytes()).expect("a file");
    checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn mistake(text: &str) -> String {
    let document = Document::parse("dvb.toml", text.as_bytes()).expect("a file");
    match checked(&document) {
        Err(refusal) => refusal.to_string(),
        Ok(scenario) => Built::new(&scenario, 1, &bentpipe_scenario::Access::default())
            .err()
            .expect("a problem")
            .to_string(),
    }
}

/// Runs for 5 s with a capture of what is on the line; how many records there are, and the file.
fn capture(text: &str, name: &str) -> (u64, PathBuf) {
    let scenario = scenario(text);
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).expect("possible");
    let path = std::env::temp_dir().join(format!("{name}-{}.pcap", std::process::id()));
    let on_line = built.captures.remove(0).on_line.expect("a stream of DVB");
    let capture = Capture::start(&path, on_line.format, usize::MAX).expect("started");
    on_line.inputs.iter().for_each(|(element, port)| built.network.tap(*element, *port, capture.tap()));
    built.network.run_until(Time::ZERO + Span::from_secs(5));
    (capture.finish().expect("written"), path)
}

/// As [`capture`], with what tshark finds in these fields of the records.
fn captured(text: &str, name: &str, options: &[&str], fields: &[&str]) -> Option<(u64, String)> {
    let (records, path) = capture(text, name);
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(options).args(["-T", "fields", "-E", "occurrence=a"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output();
    std::fs::remove_file(&path).expect("removed");
    let Ok(output) = output else {
        eprintln!("skipped: no tshark");
        return None;
    };
    Some((records, String::from_utf8(output.stdout).expect("text")))
}

#[test]
fn tshark_reads_the_transport_stream() {
    let dvb = "packing = \"1 ms\"\nrohc = { profiles = \"v2\", mode = \"optimistic\", contexts = 12 }";
    let text = text(TS, dvb, "");
    let built = Built::new(&scenario(&text), 1, &bentpipe_scenario::Access::default()).unwrap();
    assert_eq!(built.captures[0].on_line.as_ref().map(|point| point.suffix), Some("ts"));
    let Some((records, pids)) = captured(&text, "dvb-ts", &[], &["mp2t.pid"]) else { return };
    assert!(records > 500 && pids.lines().count() as u64 == records);
    assert!(pids.lines().all(|pid| pid == "0x00000201" || pid == "0x00001fff"), "{}", &pids[..100]);
    let (_, dropped) = captured(&text, "dvb-cc", &[], &["mp2t.cc.drop"]).expect("tshark is there");
    assert!(dropped.lines().all(|line| line.trim().is_empty()), "gaps in the continuity counter");
}

#[test]
fn tshark_reads_the_frames() {
    let text = text(S2, "encapsulation = \"gse\"\npacking = \"5 ms\"", "");
    let preferences = ["decode_df", "full_decode"].map(|name| format!("dvb-s2_modeadapt.{name}:TRUE"));
    let as_frames = "udp.port==7001,dvb-s2_modeadapt";
    let options =
        ["-d", as_frames, "-o", &preferences[0], "-o", &preferences[1], "-o", "ip.check_checksum:TRUE"];
    let fields = ["dvb-s2_modeadapt.acmcmd.modcod", "dvb-s2_bb.crc.status", "ip.src", "ip.checksum.status"];
    let Some((records, found)) = captured(&text, "dvb-frames", &options, &fields) else { return };
    assert!(records > 100 && found.lines().count() as u64 == records);
    // 8PSK 2/3 is number 13, and 1 is a good checksum: of the BBHEADER, and of each packet in its data field.
    for line in found.lines() {
        let values: Vec<&str> = line.split('\t').collect();
        let [modcod, header, sources, checksums] = values[..] else { panic!("{line}") };
        assert_eq!((modcod, header), ("13", "1"));
        assert!(
            sources.starts_with("127.0.0.1,10.0.0.1") && checksums.split(',').all(|status| status == "1")
        );
    }
}

/// Frames that two streams share: each PDU under the label of its stream, fragments under identifiers that differ.
#[test]
fn tshark_reads_shared_frames() {
    let other = "\n[node.c]\n[link.other]\nbetween = [\"a\", \"c\"]\ndelay = \"20 ms\"\n\
                 [link.other.forward.medium]\nkind = \"dvb\"\nline = \"carrier\"\nencapsulation = \"gse\"\npacking = \"5 ms\"\n\
                 [link.other.return]\nrate = \"1 Mbit/s\"\n[flow.more]\nfrom = \"a\"\nto = \"c\"\n\
                 traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"2 ms\" }, payload = \"700 B\" }\n";
    let text = text(S2, "encapsulation = \"gse\"\npacking = \"5 ms\"", "")
        .replace("[probe]", &format!("{other}[probe]"));
    let preferences = ["decode_df", "full_decode"].map(|name| format!("dvb-s2_modeadapt.{name}:TRUE"));
    let as_frames = "udp.port==7001,dvb-s2_modeadapt";
    let options =
        ["-d", as_frames, "-o", &preferences[0], "-o", &preferences[1], "-o", "ip.check_checksum:TRUE"];
    let fields = [
        "dvb-s2_bb.crc.status",
        "dvb-s2_gse.label",
        "dvb-s2_gse.fragid",
        "ip.checksum.status",
        "dvb-s2_gse.bad_checksum",
        "dvb-s2_gse.fragment.error",
        "dvb-s2_gse.hdr.length_invalid",
        "udp.length",
    ];
    let Some((records, found)) = captured(&text, "dvb-shared", &options, &fields) else { return };
    let rows: Vec<Vec<&str>> = found.lines().map(|line| line.split('\t').collect()).collect();
    let all = |column: usize| {
        rows.iter().flat_map(move |row| row[column].split(',').filter(|text| !text.is_empty()))
    };
    assert!(records > 200 && rows.len() as u64 == records && all(0).all(|status| status == "1"));
    let mut labels: Vec<&str> =
        all(1).map(|label| label.trim_start_matches("0x").trim_start_matches('0')).collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels, ["1", "2"]);
    // The capture has the frames with a part of one stream, so PDUs of the other one lack fragments; identifiers wrap later.
    let early = |column: usize| {
        rows[..60].iter().flat_map(move |row| row[column].split(',').filter(|text| !text.is_empty()))
    };
    assert!(early(2).count() > 20 && early(3).all(|status| status == "1"));
    assert_eq!([4, 5, 6].map(|column| early(column).count()), [0; 3]);
    // Ten calls of 45 bytes in UDP each 20 ms for 4.75 s, and acknowledgements in TCP.
    let calls = all(7).filter(|len| *len == "53").count();
    assert!((2250..=2380).contains(&calls), "{calls}");
}

#[test]
fn a_budget_names_the_flows_of_a_multiplex() {
    let text = r#"
title = "x"
duration = "10 s"
[node.hub]
[node.user]
count = 20
[node.home]
[dvb.down]
kind = "dvb-s2"
symbol_rate = 5_000_000
[link.sky]
between = ["hub", "user"]
forward.medium = { kind = "dvb", line = "down", encapsulation = "gse" }
return.rate = "1 Mbit/s"
[link.home]
between = ["hub", "home"]
forward.medium = { kind = "dvb", line = "down", encapsulation = "gse" }
return.rate = "1 Mbit/s"
[flow.call]
from = "hub"
to = "user"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "20 ms" }, payload = "45 B" }
[flow.download]
from = "hub"
to = "home"
traffic = "tcp"
"#;
    let budget = bentpipe_lab::budget::Budget::new(&scenario(text)).expect("a way");
    let download = &budget.flows[1];
    let note = "21 flows share carrier down of hub: call (20), download";
    assert!(download.warnings.iter().any(|warning| warning == note), "{:?}", download.warnings);
    // Calls take what they offer, and the download has the rest of the carrier.
    let call = &budget.flows[0];
    let taken = 20.0 * call.offered.expect("a pattern").as_bps() as f64 / call.ceiling.as_bps() as f64;
    let rest = download.ceiling.as_bps() as f64 * (1.0 - taken);
    assert!((download.fair_share.as_bps() as f64 / rest - 1.0).abs() < 1e-6, "{}", download.fair_share);
}

/// Two streams from one node, of different delay, on a line with tables.
fn two_streams(line: &str, probe: &str) -> String {
    let other = "\n[node.c]\n[link.other]\nbetween = [\"a\", \"c\"]\ndelay = \"20 ms\"\n\
                 [link.other.dvb]\nline = \"carrier\"\npid = \"0x333\"\nencapsulation = \"mpe\"\n\
                 [flow.more]\nfrom = \"a\"\nto = \"c\"\n\
                 traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"7 ms\" }, payload = \"200 B\" }\n";
    let text = text(&format!("{line}\ntables = \"100 ms\""), "packing = \"1 ms\"", "");
    text.replace("[probe]", &format!("{other}[probe]\n{probe}"))
}

#[test]
fn a_capture_has_the_whole_multiplex() {
    let fields = [
        "frame.time_epoch",
        "mp2t.pid",
        "mp2t.cc.drop",
        "mpeg_pat.prog_num",
        "mpeg_pmt.stream.elementary_pid",
    ];
    let Some((records, found)) = captured(&two_streams(TS, ""), "dvb-whole", &[], &fields) else { return };
    let rows: Vec<Vec<&str>> = found.lines().map(|line| line.split('\t').collect()).collect();
    let count = |pid: &str| rows.iter().filter(|row| row[1] == pid).count();
    // 0.752 ms a TS packet at 2 Mbit/s, the first one 250.752 ms after the start.
    for (slot, row) in rows.iter().enumerate() {
        let time: f64 = row[0].parse().expect("a time");
        assert!((time - (0.250_752 + slot as f64 * 0.000_752)).abs() < 2e-9, "{slot}: {time}");
    }
    assert!(rows.len() as u64 == records && (6300..=6316).contains(&records), "{records}");
    assert!(count("0x00000201") > 500 && count("0x00000333") > 600, "{}", count("0x00000333"));
    let others = ["0x00000000", "0x00000020", "0x00001fff"].map(count);
    assert_eq!(others[..2], [48, 48], "tables each 100 ms for 4.75 s");
    assert_eq!(count("0x00000201") + count("0x00000333") + others.iter().sum::<usize>(), rows.len());
    assert!(rows.iter().all(|row| row[2].is_empty()), "gaps in a continuity counter");
    // tshark numbers programmes in hexadecimal, and elementary streams.
    let named = |pid: &str, column: usize, as_: &str| {
        let (of_pid, first) =
            (rows.iter().filter(|row| row[1] == pid), rows.iter().find(|row| row[1] == pid));
        assert!(of_pid.clone().all(|row| row[column] == as_), "{:?}", first.map(|row| row[column]));
    };
    named("0x00000000", 3, "0x0001");
    named("0x00000020", 4, "0x0201,0x0333");
    let (few, found) =
        captured(&two_streams(TS, "nulls = false"), "dvb-few", &[], &["mp2t.pid"]).expect("tshark");
    assert_eq!(few, records - others[2] as u64);
    assert!(!found.contains("1fff"));
}

#[test]
fn ffprobe_finds_the_programme() {
    let (_, path) = capture(&two_streams(TS, ""), "dvb-probe");
    let file = std::fs::read(&path).expect("a capture");
    let (mut reader, mut stream) = (Reader::new(&file[..]).expect("a capture"), Vec::new());
    while let Ok(Some(record)) = reader.next_record() {
        stream.extend_from_slice(record.bytes);
    }
    std::fs::write(&path, stream).expect("written");
    let words =
        ["-v", "error", "-show_entries", "program=program_id,nb_streams,pmt_pid:stream=id", "-of", "compact"];
    let output = Command::new("ffprobe").args(words).arg(&path).output();
    std::fs::remove_file(&path).expect("removed");
    let Ok(output) = output else {
        eprintln!("skipped: no ffprobe");
        return;
    };
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("program_id=1|nb_streams=2|pmt_pid=32"), "{text}");
    assert!(text.contains("id=0x201") && text.contains("id=0x333"), "{text}");
}

#[test]
fn tshark_reads_the_transport_stream_in_frames() {
    let preferences = ["decode_df", "full_decode"].map(|name| format!("dvb-s2_modeadapt.{name}:TRUE"));
    let options = [
        "-d",
        "udp.port==7001,dvb-s2_modeadapt",
        "-o",
        &preferences[0],
        "-o",
        &preferences[1],
        "-o",
        "mpeg_sect.verify_crc:TRUE",
    ];
    let fields = [
        "dvb-s2_bb.crc.status",
        "dvb-s2_bb.up.crc.status",
        "mp2t.pid",
        "mpeg_sect.crc.status",
        "dvb-s2_bb.syncd_invalid",
        "dvb-s2_bb.up_reassembly_invalid",
        "mp2t.cc.drop",
    ];
    let s2 = two_streams(S2, "");
    let Some((records, found)) = captured(&s2, "dvb-s2-ts", &options, &fields) else { return };
    // 8PSK 2/3 in short frames, 1319 bytes in 5490 symbols: 364.3 frames a second for 4.75 s.
    assert!((1726..=1731).contains(&records), "{records}");
    let rows: Vec<Vec<&str>> = found.lines().map(|line| line.split('\t').collect()).collect();
    let all = |column: usize| {
        rows.iter().flat_map(move |row| row[column].split(',').filter(|text| !text.is_empty()))
    };
    assert!(all(0).eq(rows.iter().map(|_| "1")), "CRC-8 of each header");
    assert!(
        all(1).filter(|&status| status == "1").count() > 6 * rows.len() && all(1).all(|status| status != "0")
    );
    assert!(all(3).count() > 600 && all(3).all(|status| status == "1"), "sections of MPE and tables");
    assert_eq!([4, 5, 6].map(|column| all(column).count()), [0; 3]);
    let mut pids: Vec<&str> = all(2).collect();
    assert_eq!(pids.len(), rows.len() * 1319 / 188);
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids, ["0x00000000", "0x00000020", "0x00000201", "0x00000333", "0x00001fff"]);
}

#[test]
fn mistakes_say_what_would_be_right() {
    let has = |text: &str, parts: &[&str]| {
        let said = mistake(text);
        parts.iter().for_each(|part| assert!(said.contains(part), "{part:?} is not in: {said}"));
    };
    has(&text(TS, "pid = \"8191\"", ""), &["link.sky.medium", "0x1ffe"]);
    has(&text(TS, "encapsulation = \"gse\"", ""), &["dvb.carrier.kind", "dvb-s2"]);
    has(
        &text(TS, "", "rate = \"1 Mbit/s\""),
        &["link.sky.medium", "conflicts with the medium: the line has a rate"],
    );
    has(&text(TS, "rohc = { contexts = 17 }", ""), &["contexts", "large"]);
    has(&text(TS, "rohc = { profiles = \"v3\" }", ""), &["rohc.profiles", "v1", "v2"]);
    has(&text(TS, "filter = [{ action = \"plain\", dst = \"10.1\" }]", ""), &["addresses such as"]);
    has(&text(&S2.replace("8PSK 2/3", "8PSK 9/10"), "encapsulation = \"gse\"", ""), &["dvb.carrier.frame"]);
    has(&text(TS, "", "").replace("line = \"carrier\"", "line = \"carier\""), &["carier", "carrier"]);
    let alone = text(TS, "rohc = { mode = \"reliable\" }", "")
        .replace("[link.sky.dvb]", "return.rate = \"1 Mbit/s\"\n[link.sky.forward.dvb]");
    has(&alone, &["rohc.mode", "no way back"]);
    let other = "[node.c]\n[link.other]\nbetween = [\"a\", \"c\"]\ndvb = { line = \"carrier\" }\n";
    has(&(text(TS, "", "") + other), &["link.other.medium.pid", "another one"]);
}

#[test]
fn a_nested_value_is_shown_in_its_place() {
    let said = |from: &str, to: &str| {
        let faults = "channel = [{ kind = \"bit-errors\", ber = 0.0 }]";
        let file = text(TS, "rohc = { cid = \"small\", contexts = 16 }", faults);
        assert!(file.contains(from), "{from}");
        mistake(&file.replace(from, to)).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = said("contexts = 16", "contexts = 17");
    let expected = "dvb.toml:15:36: link.sky.medium.rohc.contexts: expected 1 to 16 with small CIDs";
    assert!(lines[0].starts_with(expected), "{lines:?}");
    assert_eq!(lines[3], "   |                                    ^^");
    let lines = said("ber = 0.0", "ber = 2.0");
    assert!(
        lines[0].contains("link.sky.channel.0.ber: 2 is out of range: expected from 0 to 1"),
        "{lines:?}"
    );
}
