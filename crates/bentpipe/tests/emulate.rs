//! `bentpipe emulate` as a user runs it. Needs root, `ip` and `ping`; without them the tests say so and pass, but never
//! in CI.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]

use std::path::PathBuf;
use std::process::{Command, Output};

/// A GEO hop of 200 ms between two hosts.
const SCENARIO: &str = r#"
title = "One hop"
duration = "10 s"

[node.left]
[node.pinged]

[link.hop]
between = ["left", "pinged"]
rate = "10 Mbit/s"
delay = "200 ms"
queue = { kind = "drop-tail", bytes = "1 MB" }
"#;

/// Runs `command` inside; none where this machine cannot.
fn emulate(name: &str, command: &[&str]) -> Option<(Output, PathBuf)> {
    let folder = tempfile::tempdir().expect("a folder").keep();
    let scenario = folder.join(format!("{name}.toml"));
    // The host's name is in its namespace's, and tests run side by side.
    std::fs::write(&scenario, SCENARIO.replace("pinged", name)).expect("written");
    let mut program = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    program.arg("emulate").arg(&scenario).arg("--out").arg(&folder).arg("--").args(command);
    let output = program.output().expect("bentpipe starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let unable = ["CAP_", "no TUN device", "`ip "].iter().any(|reason| errors.contains(reason));
    if !unable {
        return Some((output, folder));
    }
    assert!(std::env::var_os("CI").is_none(), "cannot emulate in CI: {errors}");
    eprintln!("skipped: {errors}");
    None
}

fn namespaces() -> Vec<String> {
    let output = Command::new("ip").args(["netns", "list"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_command_runs_inside_from_its_first_packet_and_nothing_is_left_but_the_report() {
    let before = namespaces();
    let Some((output, folder)) = emulate("pinged", &["ping", "-n", "-c", "2", "-i", "0.2", "10.0.0.2"])
    else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let rtts = text.split_whitespace().filter_map(|word| word.strip_prefix("time="));
    let rtts: Vec<f64> = rtts.map(|ms| ms.parse().expect("a number")).collect();
    assert_eq!(rtts.len(), 2, "{text}");
    assert!(rtts.iter().all(|ms| (400.0..410.0).contains(ms)), "{rtts:?} ms over 400 ms");
    let report =
        std::fs::read_dir(&folder).expect("there").flatten().map(|entry| entry.path().join("report.html"));
    assert_eq!(report.filter(|path| path.is_file()).count(), 1);
    let left: Vec<String> = namespaces().into_iter().filter(|name| !before.contains(name)).collect();
    assert!(left.iter().all(|name| !name.ends_with("-pinged")), "{left:?}");
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn the_exit_code_is_the_command_s() {
    let Some((output, folder)) = emulate("exited", &["sh", "-c", "exit 7"]) else { return };
    assert_eq!(output.status.code(), Some(7));
    std::fs::remove_dir_all(folder).expect("removed");
}
