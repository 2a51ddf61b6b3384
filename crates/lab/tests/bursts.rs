//! Captures of a terminal's bursts: somebody else's decoder finds a transport stream in them.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::process::Command;

use bentpipe_lab::build::Built;
use bentpipe_lab::record::{Capture, Form};
use bentpipe_lab::scenario::Document;
use bentpipe_units::{Span, Time};

const SCENARIO: &str = r#"
title = "two terminals"
duration = "10 s"
node.pisa = {}
node.cnit = {}
carrier.skyplex = {}
link.satellite = { between = ["pisa", "cnit"], delay = "250 ms", dama = { carrier = "skyplex", cra = "440 kbit/s" } }
flow.data = { from = "pisa", to = "cnit", udp = { pattern = { kind = "constant", interval = "50 ms" }, payload = "900 B" } }
probe.capture = ["pisa:satellite"]
"#;

#[test]
fn tshark_finds_a_transport_stream_without_gaps() {
    let Ok(version) = Command::new("tshark").arg("--version").output() else {
        eprintln!("skipped: no tshark");
        return;
    };
    assert!(version.status.success());
    let document = Document::parse("bursts.toml", SCENARIO.as_bytes()).expect("a file");
    let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, std::path::Path::new(".")).expect("possible");
    let path = std::env::temp_dir().join(format!("bursts-{}.pcap", std::process::id()));
    let capture = Capture::start(&path, Form::Bursts, usize::MAX).expect("started");
    let (element, port) = built.captures[0].bursts.expect("a terminal");
    built.network.tap(element, port, capture.tap());
    built.network.run_until(Time::ZERO + Span::from_secs(10));
    let bursts = capture.finish().expect("written");
    let read = |fields: &[&str]| {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&path).args(["-T", "fields", "-E", "occurrence=a"]);
        for field in fields {
            tshark.args(["-e", field]);
        }
        String::from_utf8(tshark.output().expect("runs").stdout).expect("text")
    };
    let pids = read(&["mp2t.pid"]);
    let dropped = read(&["mp2t.cc.drop"]);
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(pids.lines().count() as u64, bursts);
    let all: Vec<&str> = pids.split(['\n', ',']).filter(|pid| !pid.is_empty()).collect();
    assert_eq!(all.len() as u64, bursts * 8);
    let data = all.iter().filter(|pid| **pid == "0x00000101" || **pid == "0x0101").count();
    // 928 bytes and ULE's 8, each 50 ms for nearly 10 s: five cells and some of each.
    assert!((195 * 5..200 * 7).contains(&data), "{data} of {}: {:?}", all.len(), all.first());
    assert!(dropped.split(['\n', ',']).all(|field| field.is_empty() || field == "0"), "{dropped}");
}
