//! Grid of figure 11 of `studies/wichmo`: 400 runs of 2000 s on two threads. It runs as for any user.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::sh;

/// Target time of row S7's grid on two cores.
const TARGET_S: f64 = 180.0;
/// Ticks of /proc/self/stat in a second (proc(5), `USER_HZ`).
const TICKS: f64 = 100.0;

/// Builds `bentpipe`, runs the grid into a new folder, and prints its times.
///
/// # Errors
/// Returns an error if it does not build or run.
pub(super) fn run() -> Result<()> {
    sh("cargo", &["build", "--release", "--package", "bentpipe"])?;
    let program = crate::built("release", "bentpipe");
    let folder = std::env::temp_dir().join(format!("bentpipe-grid-{}", std::process::id()));
    let out = folder.to_string_lossy().into_owned();
    let (begin, before) = (Instant::now(), children_s());
    let scenario = "studies/wichmo/hybrid.toml";
    let done = sh(&program.to_string_lossy(), &["run", "--jobs", "2", "--quiet", "--out", &out, scenario]);
    let (wall, processor) = (begin.elapsed().as_secs_f64(), children_s() - before);
    let runs = runs_in(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    done?;
    ensure!(runs == 400, "{runs} runs instead of 5 models, 8 rates of loss and 10 seeds");
    println!("\n| grid | wall s | processor s | target s | |");
    println!("|---|---|---|---|---|");
    let verdict = if wall <= TARGET_S { "reached" } else { "missed, here and now" };
    println!("| {runs} runs of 2000 s, two threads | {wall:.1} | {processor:.1} | {TARGET_S} | {verdict} |");
    Ok(())
}

/// Returns the CPU seconds of all child processes, or 0 if they are unknown.
fn children_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 16 and 17; the name, the second, may have spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Returns the number of finished runs below the results' folder.
fn runs_in(folder: &std::path::Path) -> usize {
    let is_run = |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name == "outcome.json");
    crate::files(folder, ".json").into_iter().filter(is_run).count()
}
