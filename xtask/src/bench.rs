//! Timing of the workloads of `benches/`, and of their peers.

mod checks;
mod grid;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{output_of, sh};

/// Benchmark workload: its name, description, and the options of its peers.
///
/// The options are those of `ns2bench.tcl` for ns-2 and of `satbench` for ns-3.
struct Workload {
    name: &'static str,
    ns2: &'static str,
    ns3: &'static str,
}

const WORKLOADS: &[Workload] = &[
    Workload { name: "a", ns2: "a 16000000 200 cubic 0 1", ns3: "--w=a --buf=16000000 --sim=200" },
    Workload {
        name: "a-small",
        ns2: "a 16000000 60 cubic 0 1 1448",
        ns3: "--w=a --buf=16000000 --sim=60 --mss=1448",
    },
    Workload {
        name: "b",
        ns2: "b 16000000 30 Sack1",
        ns3: "--w=b --buf=16000000 --sim=30 --cc=ns3::TcpNewReno",
    },
    Workload { name: "c", ns2: "c 0 100", ns3: "--w=c --sim=100" },
    Workload {
        name: "d",
        ns2: "d 16000000 2000 cubic 0.001 1",
        ns3: "--w=d --buf=16000000 --sim=2000 --loss=0.001",
    },
    // The peers lack this one.
    Workload { name: "e", ns2: "", ns3: "" },
    Workload { name: "f", ns2: "", ns3: "" },
    Workload { name: "g", ns2: "", ns3: "" },
];

/// Name of row S7's grid, which is not a workload of one network.
const GRID: &str = "grid";

/// Name of the checks of large scenarios.
const CHECK: &str = "check";

/// Times bentpipe, five runs each, with `peers` also the peers, and prints a table.
///
/// The times are the median of the runs, and the sum of each piece's minimum. Peers run once, for the
/// workloads named, or all. Then, or if they are named, the grid and checks are timed.
///
/// # Errors
/// Returns an error if a workload is unknown, or a program does not build or run.
pub(crate) fn run(names: &[&str], peers: bool) -> Result<()> {
    let is_known =
        |name: &str| [GRID, CHECK].contains(&name) || WORKLOADS.iter().any(|workload| workload.name == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        bail!("no workload \"{unknown}\": expected a, a-small, b, c, d, e, f, g, grid or check");
    }
    if names.is_empty() || !names.iter().all(|name| [GRID, CHECK].contains(name)) {
        workloads(names, peers)?;
    }
    let is_meant = |name: &str| names.is_empty() || names.contains(&name);
    if is_meant(GRID) {
        grid::run()?;
    }
    if is_meant(CHECK) { checks::run() } else { Ok(()) }
}

fn workloads(names: &[&str], peers: bool) -> Result<()> {
    sh("cargo", &["build", "--release", "--package", "bentpipe-bench"])?;
    let ns3 = if peers { build_peers()? } else { None };
    println!(
        "| workload | bentpipe s | transmissions/s | undisturbed s | transmissions/s | wake-ups/s | peak MB | ns-2 s (ratio) | \
         ns-3 s (ratio) |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for workload in WORKLOADS.iter().filter(|workload| names.is_empty() || names.contains(&workload.name)) {
        let ours = ours(workload)?;
        let seconds = ours["seconds"].as_f64().context("no seconds")?;
        let ns2 = if peers && !workload.ns2.is_empty() { ns2(workload) } else { None };
        let ns3 = ns3.as_ref().filter(|_| !workload.ns3.is_empty());
        let ns3 = ns3.and_then(|program| peer_seconds(&program.to_string_lossy(), workload.ns3));
        let number = |key: &str| ours[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "| {} | {seconds:.3} | {:.2e} | {:.3} | {:.2e} | {:.2e} | {:.1} | {} | {} |",
            workload.name,
            number("transmissions_per_s"),
            number("undisturbed_s"),
            number("transmissions_per_undisturbed_s"),
            number("wakeups_per_s"),
            number("peak_mb"),
            beside(ns2, seconds),
            beside(ns3, seconds),
        );
    }
    Ok(())
}

fn ours(workload: &Workload) -> Result<Value> {
    let text = output_of(&crate::built("release", "bentpipe-bench").to_string_lossy(), &[workload.name]);
    let text = text.with_context(|| format!("workload {} failed", workload.name))?;
    Ok(serde_json::from_str(&text)?)
}

fn beside(theirs: Option<f64>, ours: f64) -> String {
    theirs.map_or_else(|| "-".into(), |theirs| format!("{theirs:.2} ({:.1})", theirs / ours))
}

fn ns2(workload: &Workload) -> Option<f64> {
    peer_seconds("ns", &format!("benches/peers/ns2bench.tcl {}", workload.ns2))
}

/// Runs a peer and returns the CPU seconds that it reports for the run alone.
fn peer_seconds(program: &str, options: &str) -> Option<f64> {
    eprintln!("$ {program} {options}");
    let words: Vec<&str> = options.split(' ').collect();
    let text = output_of(program, &words)?;
    let line = text.lines().rev().find(|line| line.starts_with('{'))?;
    serde_json::from_str::<Value>(line).ok()?["cpu_s"].as_f64()
}

/// Installs ns-2 and ns-3 if need be, and builds the ns-3 program.
fn build_peers() -> Result<Option<PathBuf>> {
    let missing = output_of("dpkg", &["-s", "ns2", "libns3-dev"]).is_none();
    if missing {
        sh("apt-get", &["install", "-y", "-qq", "ns2", "libns3-dev", "g++"])?;
    }
    let program = crate::built("release", "satbench");
    if !program.exists() {
        let target = program.to_string_lossy().into_owned();
        let modules =
            "applications internet traffic-control point-to-point bridge mobility network stats antenna core";
        let libraries: Vec<String> = modules.split(' ').map(|module| format!("-lns3-{module}")).collect();
        let mut words = vec!["-O3", "-DNDEBUG", "-std=c++17", "benches/peers/satbench.cc", "-o", &target];
        words.extend(libraries.iter().map(String::as_str));
        sh("g++", &words)?;
    }
    Ok(Some(program))
}
