//! `bentpipe reproduce --emulate`: the kernel's TCP beside ours.

use std::path::Path;
use std::process::Output;

use bentpipe_testkit::Watch;
use serde_json::Value;

use super::rig::{bentpipe, files, go_apart, is_unable, skip};

const STUDY: &str = r#"
title = "The kernel beside ours"
source = "nobody"
row = []

[kernel]
flow = "bulk"
window = "524280 B"
duration = "60 s"
quick = "6 s"
tolerance = 0.05
set = ["flow.bulk.traffic.initial_window=10"]

[kernel.controller]
reno = '{ name = "newreno", counting = "segments" }'

[[kernel.path]]
id = "T1"
what = "one hop"
scenario = "hop.toml"
"#;

const SCENARIO: &str = r#"
title = "One hop"
duration = "10 s"
node.left = {}
node.right = {}

[link.hop]
between = ["left", "right"]
rate = "20 Mbit/s"
delay = "25 ms"
queue = { kind = "drop-tail", bytes = "1 MB" }

[flow.bulk]
from = "left"
to = "right"
traffic = { kind = "tcp", send_buffer = "10 MB" }
"#;

/// Seconds of the second half of a quick transfer, whose goodput is compared.
const HALF_S: f64 = 3.0;

/// Returns the only deviation in `kernel.json` of the study in `folder`.
fn deviation(folder: &Path) -> f64 {
    let file = files(folder, "json").into_iter().find(|path| path.ends_with("kernel.json"));
    let text = std::fs::read_to_string(file.expect("a comparison")).expect("there");
    let lines: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(lines.len(), 1, "{text}");
    lines[0]["deviation"].as_f64().expect("a number")
}

fn reproduce(folder: &Path) -> Output {
    let mut program = bentpipe();
    program.args(["reproduce", "test", "--quick", "--emulate", "--studies"]).arg(folder);
    program.arg("--out").arg(folder.join("runs")).output().expect("bentpipe starts")
}

#[test]
fn the_kernel_s_goodput_is_ours_and_the_report_shows_both_windows() {
    if !go_apart() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let study = folder.path().join("test");
    std::fs::create_dir(&study).expect("made");
    std::fs::write(study.join("study.toml"), STUDY).expect("written");
    std::fs::write(study.join("hop.toml"), SCENARIO).expect("written");
    let watch = Watch::start();
    let output = reproduce(folder.path());
    let machine = watch.end();
    let errors = String::from_utf8_lossy(&output.stderr);
    if is_unable(&errors) || errors.contains("error: iperf3") {
        return skip(&errors);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let deviation = deviation(folder.path());
    eprintln!("the kernel's goodput deviates by {deviation}; {machine:?}");
    let is_met = deviation.abs() <= 0.05;
    assert_eq!(output.status.code(), Some(if is_met { 0 } else { 1 }), "{text}{errors}");
    // A pause leaves undone what it would have carried, and what the congestion window takes to come back.
    let pause = machine.worst().as_secs_f64() / HALF_S;
    assert!(deviation.abs() <= 0.05 + 2.0 * pause, "{deviation}; {machine:?}");
    assert!(text.contains("reno") && text.contains(if is_met { "met" } else { "missed" }), "{text}");
    let page = text.lines().find_map(|line| line.strip_prefix("report: ")).expect("a report");
    let html = std::fs::read_to_string(page).expect("there");
    for part in ["Comparison with the kernel's TCP", "kernel, iperf3 over the emulated path", "simulated"] {
        assert!(html.contains(part) || html.contains(&part.replace('\'', "&#39;")), "{part}");
    }
}

#[test]
fn a_study_without_the_kernel_s_tcp_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let study = folder.path().join("test");
    std::fs::create_dir(&study).expect("made");
    let (own, _) = STUDY.split_once("[kernel]").expect("it has that");
    std::fs::write(study.join("study.toml"), own).expect("written");
    let output = reproduce(folder.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("none of these studies sends in real time"), "{errors}");
}

#[cfg(feature = "serve")]
#[test]
fn each_emulation_has_lines_off_a_terminal() {
    if !go_apart() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let study = folder.path().join("test");
    std::fs::create_dir(&study).expect("made");
    let (head, _) = STUDY.split_once("[kernel]").expect("it has that");
    let emulated = "[[emulated]]\nscenario = \"hop.toml\"\nflow = \"bulk\"\nduration = \"60 s\"\nquick = \"2 s\"\n\
        measures = [\"delay-mean\"]\nreal = [\"node.left.real=true\", \"node.right.real=true\"]\n\
        [emulated.way]\nshort = [\"flow.bulk.traffic.payload=40 B\"]\nlong = []\n";
    std::fs::write(study.join("study.toml"), format!("{head}{emulated}")).expect("written");
    let tcp = "kind = \"tcp\", send_buffer = \"10 MB\"";
    let voice = "kind = \"udp\", payload = \"52 B\", header = \"rtp\", pattern = { kind = \"constant\", interval = \"20 ms\" }";
    std::fs::write(study.join("hop.toml"), SCENARIO.replace(tcp, voice)).expect("written");
    let output = reproduce(folder.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    if is_unable(&errors) {
        return skip(&errors);
    }
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let lines: Vec<&str> = errors.lines().filter(|line| line.contains("/2  ")).collect();
    let is_there = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    for way in ["short", "long"] {
        assert_eq!(is_there(&format!("bulk, {way}, emulated: started, ")), 1, "{errors}");
        for how in ["simulated", "emulated"] {
            assert_eq!(
                lines.iter().filter(|line| line.ends_with(&format!("bulk, {way}, {how}"))).count(),
                1,
                "{errors}"
            );
        }
    }
    assert!(lines.contains(&"0/2  bulk, short, emulated: started, 4 s to go"), "{errors}");
    assert!(lines.contains(&"2/2  bulk, long, emulated"), "{errors}");
}
