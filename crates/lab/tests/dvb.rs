//! Links of DVB as scenarios have them, and captures of what is on them, read by tshark.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::path::Path;
use std::process::Command;

use bentpipe_lab::build::Built;
use bentpipe_lab::record::{Capture, Form};
use bentpipe_lab::scenario::{Document, Scenario};
use bentpipe_units::{Span, Time};

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
udp = {{ pattern = {{ kind = "constant", interval = "20 ms" }}, payload = "45 B", header = "rtp" }}
[flow.download]
from = "b"
to = "a"
tcp = {{}}
[probe]
capture = ["a:sky"]
"#
    )
}

const TS: &str = "kind = \"transport-stream\"\nrate = \"2 Mbit/s\"";
const S2: &str = "kind = \"dvb-s2\"\nsymbol_rate = 2_000_000\nmodcod = \"8PSK 2/3\"\nframe = \"short\"";

fn scenario(text: &str) -> Scenario {
    let document = Document::parse("dvb.toml", text.as_bytes()).expect("a file");
    document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn mistake(text: &str) -> String {
    let document = Document::parse("dvb.toml", text.as_bytes()).expect("a file");
    match document.scenario() {
        Err(refusal) => refusal.to_string(),
        Ok(scenario) => Built::new(&scenario, 1, Path::new(".")).err().expect("a problem").to_string(),
    }
}

/// Runs for 5 s with a capture of what is on the line, and gives what tshark finds in these fields of its records.
fn captured(text: &str, name: &str, options: &[&str], fields: &[&str]) -> Option<(u64, String)> {
    let scenario = scenario(text);
    let mut built = Built::new(&scenario, 1, Path::new(".")).expect("possible");
    let path = std::env::temp_dir().join(format!("{name}-{}.pcap", std::process::id()));
    let ((element, port), form) = built.captures[0].on_line.expect("a stream of DVB");
    let capture = Capture::start(&path, form, usize::MAX).expect("started");
    built.network.tap(element, port, capture.tap());
    built.network.run_until(Time::ZERO + Span::from_secs(5));
    let records = capture.finish().expect("written");
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
    let dvb = "packing = \"1 ms\"\nrohc = { mode = \"optimistic\", contexts = 12 }";
    let text = text(TS, dvb, "");
    assert_eq!(
        Built::new(&scenario(&text), 1, Path::new(".")).unwrap().links[0].form,
        Some(Form::TransportStream)
    );
    let Some((records, pids)) = captured(&text, "dvb-ts", &[], &["mp2t.pid"]) else { return };
    assert!(records > 500 && pids.lines().count() as u64 == records);
    assert!(pids.lines().all(|pid| pid == "0x00000201"), "{}", &pids[..100]);
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

#[test]
fn mistakes_say_what_would_be_right() {
    let has = |text: &str, parts: &[&str]| {
        let said = mistake(text);
        parts.iter().for_each(|part| assert!(said.contains(part), "{part:?} is not in: {said}"));
    };
    has(&text(TS, "pid = \"8191\"", ""), &["link.sky.dvb", "0x1ffe"]);
    has(&text(TS, "encapsulation = \"gse\"", ""), &["dvb.carrier.kind", "dvb-s2"]);
    has(&text(TS, "", "rate = \"1 Mbit/s\""), &["link.sky.dvb", "a rate besides"]);
    has(&text(TS, "rohc = { contexts = 17 }", ""), &["contexts", "large"]);
    has(&text(TS, "filter = [{ action = \"plain\", dst = \"10.1\" }]", ""), &["addresses such as"]);
    has(&text(&S2.replace("8PSK 2/3", "8PSK 9/10"), "encapsulation = \"gse\"", ""), &["dvb.carrier.frame"]);
    has(&text(TS, "", "").replace("line = \"carrier\"", "line = \"carier\""), &["carier", "carrier"]);
    let alone = text(TS, "rohc = { mode = \"reliable\" }", "")
        .replace("[link.sky.dvb]", "return.rate = \"1 Mbit/s\"\n[link.sky.forward.dvb]");
    has(&alone, &["rohc.mode", "no way back"]);
    let other = "[link.other]\nbetween = [\"a\", \"b\"]\ndvb = { line = \"carrier\" }\n";
    has(&(text(TS, "", "") + other), &["link.other.dvb.pid", "another one"]);
}
