//! `bentpipe call` and `bentpipe answer` with each other and with other people's programs, on loopback.
#![allow(clippy::disallowed_methods, reason = "waits for programs in real time")]

mod registrar;
mod sipp;

use std::io::Read;
use std::process::{Command, Stdio};

use bentpipe_testkit::{Process, until};

fn bentpipe(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command
        .args(words)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits until a socket of loopback is at a port.
fn wait_for(protocol: &str, port: u16) {
    let local = format!("0100007F:{port:04X} ");
    until(&format!("socket at {port}"), || {
        let table = std::fs::read_to_string(format!("/proc/net/{protocol}")).unwrap_or_default();
        table.lines().any(|line| line.split_once(": ").is_some_and(|(_, rest)| rest.starts_with(&local)))
    });
}

/// Returns what a program has printed when it ends by itself with success.
fn printed_by(process: &mut Process) -> String {
    let (mut printed, stdout) = (String::new(), process.stdout.take());
    let (code, errors) = process.finish();
    stdout.map(|mut pipe| pipe.read_to_string(&mut printed));
    assert_eq!(code, Some(0), "{printed}{errors}");
    printed
}
