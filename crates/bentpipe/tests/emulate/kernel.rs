//! `bentpipe reproduce --emulate`: the kernel's TCP beside ours.

use std::path::Path;
use std::process::Output;

use crate::rig::{bentpipe, is_unable, skip};

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

fn reproduce(folder: &Path) -> Output {
    let mut program = bentpipe();
    program.args(["reproduce", "test", "--quick", "--emulate", "--studies"]).arg(folder);
    program.arg("--out").arg(folder.join("runs")).output().expect("bentpipe starts")
}

#[test]
fn the_kernel_s_goodput_is_ours_and_the_report_shows_both_windows() {
    let folder = tempfile::tempdir().expect("a folder");
    let study = folder.path().join("test");
    std::fs::create_dir(&study).expect("made");
    std::fs::write(study.join("study.toml"), STUDY).expect("written");
    std::fs::write(study.join("hop.toml"), SCENARIO).expect("written");
    let mut output = reproduce(folder.path());
    // A transfer that a pause of the machine disturbed is worth another; an error of ours is in all of them.
    for _ in 0..3 {
        if output.status.code() == Some(1) || String::from_utf8_lossy(&output.stderr).contains("LATE") {
            output = reproduce(folder.path());
        }
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    if is_unable(&errors) || errors.contains("error: iperf3") {
        return skip(&errors);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    assert!(text.contains("reno") && text.contains("met"), "{text}");
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
