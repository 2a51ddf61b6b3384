//! SIP calls in a scenario: measures of the run, and messages in captures as tshark reads them.

use std::process::Command;

use bentpipe_testkit::{Folder, Tshark, run, said};

const SCENARIO: &str = r#"
title = "Calls over GEO"
duration = "200 s"
node.a = {}
node.b = {}
[link.sat]
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "270 ms"
[flow.calls]
from = "a"
to = "b"
traffic = { kind = "sip", interval = "5 s", hold = "20 s", ring = "2 s" }
"#;

#[test]
fn a_scenario_with_calls_reports_their_set_up() {
    let folder = Folder::new();
    folder.write("calls.toml", SCENARIO);
    let program = env!("CARGO_BIN_EXE_bentpipe");
    let printed = said(&run(program, &folder, &["run", "calls.toml", "--pcap", "b:sat"]), 0);
    let page = printed.lines().find_map(|line| line.strip_prefix("report: ")).expect("a report");
    let page = folder.file(page);
    let summary = std::fs::read_to_string(page.with_file_name("summary.json")).expect("a summary");
    let measure = |name: &str| {
        let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
        let text = summary.to_string();
        assert!(text.contains(name), "no {name} in {text}");
    };
    ["calls", "calls-established", "calls-timed-out", "post-dial-p50", "set-up-p95"]
        .into_iter()
        .for_each(measure);
    let capture = page.with_file_name("b-sat.pcap");
    let Some(tshark) = Tshark::on(&capture) else { return };
    let invites = tshark.count("sip.Method == \"INVITE\"");
    let malformed =
        Tshark::on(&capture).map_or(0, |tshark| tshark.count("_ws.malformed || udp.checksum.status == 0"));
    assert!(invites >= 40, "{invites} INVITEs of calls each 5 s in 200 s, each sent twice");
    assert_eq!(malformed, 0);
}

#[test]
fn impossible_settings_of_calls_are_refused_with_their_key() {
    let folder = Folder::new();
    folder.write("calls.toml", SCENARIO.replace("interval = \"5 s\"", "interval = \"0 s\""));
    let output = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["check", "calls.toml"])
        .current_dir(folder.path())
        .output()
        .expect("bentpipe starts");
    let printed = said(&output, 2);
    assert!(printed.contains("interval") && printed.contains("at least 1 ms"), "{printed}");
}
