//! Everything that must hold before a change lands.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{files, golden, install, programs, python, root, sh, tidy};

/// A processor without an operating system: what builds for it needs no standard library.
const BARE_METAL: &str = "thumbv7em-none-eabi";

/// Format, lints, tidy, tests, the quick reproduction of every study, and the comparison of all results with `benches/golden`.
///
/// All of it runs what is built for tests: results are the same to the bit with each optimisation, arithmetic that overflows
/// ends a run here alone, and a second build of everything would take longer than the runs that it speeds up.
///
/// # Errors
/// The first thing that does not hold.
pub(crate) fn run() -> Result<()> {
    sh("cargo", &["fmt", "--all", "--check"])?;
    tidy::run()?;
    // Installation waits for the network, and lints for the processor.
    std::thread::scope(|scope| {
        let needs = scope.spawn(|| shown(needs()));
        let lints = shown(lints());
        lints.and(needs.join().expect("it returns its error"))
    })?;
    let programs = programs::build()?;
    reproduce()?;
    golden::hold(&crate::built("debug", "golden"), &[], false)?;
    programs::run(programs)?;
    // Last, so that the test runner's own count closes the output.
    sh("cargo", &["test", "--workspace", "--all-features", "--doc"])
}

/// Builds all tests and runs those of real time whose sources contain a word a number of times.
///
/// # Errors
/// Returns an error if the number is wrong, or a test fails.
pub(crate) fn repeat(times: &str, word: &str) -> Result<()> {
    let times = times.parse().with_context(|| format!("expected a number of runs, got {times:?}"))?;
    programs::repeat(programs::build()?, times, word)
}

/// Shows an error at once: what runs at the same time goes on for a while.
fn shown(result: Result<()>) -> Result<()> {
    result.inspect_err(|error| println!("error: {error:#}"))
}

fn lints() -> Result<()> {
    sh("cargo", &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])?;
    // The program of README's first command.
    sh("cargo", &["clippy", "--package", "bentpipe", "--no-default-features", "--", "-D", "warnings"])?;
    if install::target(BARE_METAL) {
        sh("cargo", &["check", "--package", "bentpipe-rohc", "--target", BARE_METAL])?;
    }
    Ok(())
}

/// Installs what tests need.
fn needs() -> Result<()> {
    install::tools()?;
    python::prepare()
}

/// Writes the generated pages of the reference: the test that compares them writes them when it is asked to.
///
/// # Errors
/// Returns an error if the program cannot be built or run.
pub(crate) fn reference() -> Result<()> {
    let words =
        ["test", "--package", "bentpipe", "--test", "integration", "--", "documentation::reference::"];
    let status = Command::new("cargo").args(words).env("WRITE_REFERENCE", "1").current_dir(root()).status();
    if !status.context("cargo does not start")?.success() {
        bail!("the reference cannot be written");
    }
    Ok(())
}

/// Reproduces every study quickly. A value may be missed only if its study says so and why, and one that is said to be
/// missed must be: a change of either is a change of what is known.
fn reproduce() -> Result<()> {
    let out = root().join("target/reproduce");
    let _ = std::fs::remove_dir_all(&out);
    let program = crate::built("debug", "bentpipe");
    let status =
        Command::new(program).args(["reproduce", "--quick", "--out"]).arg(&out).current_dir(root()).status();
    match status.context("bentpipe does not start")?.code() {
        Some(0 | 1) => {}
        code => bail!("`bentpipe reproduce --quick` ended with {code:?}"),
    }
    let tables = files(&out, "comparison.json");
    let surprises: Vec<String> =
        tables.iter().map(|path| surprises(path)).collect::<Result<Vec<_>>>()?.concat();
    if tables.is_empty() || !surprises.is_empty() {
        bail!("{} studies; not as known: {surprises:#?}", tables.len());
    }
    Ok(())
}

fn surprises(path: &std::path::Path) -> Result<Vec<String>> {
    let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let is_known = |row: &Value| row["known"].as_str().is_some_and(|why| !why.is_empty());
    let surprises = rows.iter().filter(|row| match row["verdict"].as_str() {
        Some("missed") => !is_known(row),
        Some("met") => is_known(row),
        _ => false,
    });
    Ok(surprises.map(|row| format!("{} {}: {}", row["id"], row["what"], row["verdict"])).collect())
}
