//! Checks of large scenarios: terminals at a hub, ramps of thousands of steps, and programmes of video.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::fmt::Write;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::sh;

/// Most seconds and megabytes of a check.
const TARGET: (f64, f64) = (2.0, 500.0);

/// Builds `bentpipe`, writes the scenarios, checks each, and prints time and memory.
///
/// # Errors
/// Returns an error if it does not build, or refuses a scenario.
pub(super) fn run() -> Result<()> {
    sh("cargo", &["build", "--release", "--package", "bentpipe"])?;
    println!("\n| check | wall s | peak MB | at most |");
    println!("|---|---|---|---|");
    let abr = std::fs::read_to_string(crate::root().join("scenarios/atm-abr.toml"))?;
    let programmes = abr.replace("programmes = 3", "programmes = 65535");
    ensure!(programmes != abr, "scenarios/atm-abr.toml has no `programmes = 3`");
    for (name, text) in [
        ("10,000 terminals, each written out", terminals(10_000)),
        ("10,000 terminals as copies", copies(10_000)),
        ("10,000 steps of a ramp, 200 nodes", ramp(200, 10_000)),
        ("5,000 steps, a sweep of 100 points", format!("{}{}", ramp(3, 5000), sweep())),
        ("65,535 programmes of video", programmes),
    ] {
        let (seconds, megabytes) = measured(&text)?;
        let verdict =
            if seconds <= TARGET.0 && megabytes <= TARGET.1 { "reached" } else { "missed, here and now" };
        println!("| {name} | {seconds:.2} | {megabytes:.0} | {} s, {} MB: {verdict} |", TARGET.0, TARGET.1);
    }
    Ok(())
}

/// Returns the time of a check and its peak memory in megabytes.
fn measured(text: &str) -> Result<(f64, f64)> {
    let file = std::env::temp_dir().join(format!("bentpipe-check-{}.toml", std::process::id()));
    std::fs::write(&file, text)?;
    let program = crate::built("release", "bentpipe");
    let begin = Instant::now();
    // GNU time: its report is the last line of the error output.
    let output =
        Command::new("/usr/bin/time").args(["-f", "%M"]).arg(program).arg("check").arg(&file).output();
    let seconds = begin.elapsed().as_secs_f64();
    let _ = std::fs::remove_file(&file);
    let output = output.context("/usr/bin/time: expected the package `time`")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{said}");
    let kilobytes: f64 = said.lines().last().unwrap_or_default().trim().parse()?;
    Ok((seconds, kilobytes / 1e3))
}

const HUB: &str = "title = \"check\"\nduration = \"10 s\"\nnode.hub = { kind = \"router\" }\nnode.server = {}\n\
    link.up = { between = [\"server\", \"hub\"], rate = \"1 Gbit/s\", delay = \"1 ms\" }\n";

fn terminals(count: usize) -> String {
    (0..count).fold(HUB.to_owned(), |mut text, n| {
        let _ = write!(
            text,
            "[node.t{n}]\n[link.a{n}]\nbetween = [\"hub\", \"t{n}\"]\nrate = \"10 Mbit/s\"\ndelay = \"270 ms\"\n\
             [flow.f{n}]\nfrom = \"server\"\nto = \"t{n}\"\ntraffic = {{ kind = \"tcp\" }}\n"
        );
        text
    })
}

fn copies(count: usize) -> String {
    format!(
        "{HUB}node.t = {{ count = {count} }}\nflow.f = {{ from = \"server\", to = \"t\", traffic = \"tcp\" }}\n\
         link.a = {{ between = [\"hub\", \"t\"], rate = \"10 Mbit/s\", delay = \"270 ms\" }}\n"
    )
}

/// A chain of nodes, and a ramp of its first link's rate.
fn ramp(nodes: usize, steps: usize) -> String {
    let mut text = "title = \"check\"\nduration = \"1 s\"\n".to_owned();
    for n in 0..nodes {
        let _ = writeln!(text, "[node.n{n}]\nkind = \"router\"");
    }
    for n in 1..nodes {
        let between = format!("[\"n{}\", \"n{n}\"]", n - 1);
        let _ = writeln!(text, "[link.l{n}]\nbetween = {between}\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"");
    }
    let step_ns = 1_000_000_000 / steps;
    let set = "{ \"link.l1.rate\" = \"9 Mbit/s\" }";
    let _ = writeln!(text, "[[event]]\nat = \"0 s\"\nset = {set}\nover = \"1 s\"\nramp = \"{step_ns} ns\"");
    text
}

fn sweep() -> String {
    let rates: Vec<String> = (100..200).map(|rate| format!("\"{rate} kbit/s\"")).collect();
    format!("[sweep]\n\"link.l2.rate\" = [{}]\n", rates.join(", "))
}
