//! Test programs: Cargo builds them, and two lanes run them.
//!
//! Cargo runs them one by one. Those that measure real time leave the processors idle for most of theirs, so here the
//! others run meanwhile, at the lowest priority: nothing that is measured notices.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::root;

/// Packages, and modules of their `tests/main.rs`, whose tests have real hosts, real time and programs that wait for each other.
const IN_REAL_TIME: &[&str] = &[
    "crates/bentpipe/tests/cfdp.rs",
    "crates/bentpipe/tests/documentation.rs",
    "crates/bentpipe/tests/dtn.rs",
    "crates/bentpipe/tests/emulate.rs",
    "crates/bentpipe/tests/gateway.rs",
    "crates/bentpipe/tests/rtp.rs",
    "crates/bentpipe/tests/serve.rs",
    "crates/bentpipe/tests/sip.rs",
    "crates/bentpipe/tests/ts.rs",
    "crates/bundles/",
    "crates/emu/",
    "crates/gateway/",
    "crates/pep/",
];

/// A test program, or the tests of some of its modules.
#[derive(Clone)]
pub(crate) struct Program {
    package: String,
    /// Its source, from the root: of one module, if the tests are that module's.
    source: String,
    path: PathBuf,
    /// Folder of its package, in which it runs.
    folder: PathBuf,
    /// Names of its tests; all if there are none.
    tests: Vec<String>,
}

/// Runs test programs, and prints what each says when it ends.
///
/// # Errors
/// Names those that fail.
pub(crate) fn run(programs: Vec<Program>) -> Result<()> {
    let parts = programs.into_iter().map(parts).collect::<Result<Vec<_>>>()?.concat();
    let is_waiting = |program: &Program| IN_REAL_TIME.iter().any(|start| program.source.starts_with(start));
    let (waiting, busy): (Vec<Program>, Vec<Program>) = parts.into_iter().partition(is_waiting);
    let failed = std::thread::scope(|scope| {
        let busy = scope.spawn(|| lane(&busy, true));
        let failed = lane(&waiting, false);
        [failed, busy.join().expect("it returns what failed")].concat()
    });
    if !failed.is_empty() {
        bail!("tests have failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs the test programs of real time whose sources contain a word a number of times, and states how often some failed.
///
/// # Errors
/// Returns an error if there are none, or a run had a failure.
pub(crate) fn repeat(programs: Vec<Program>, times: u32, word: &str) -> Result<()> {
    let mut programs = programs.into_iter().map(parts).collect::<Result<Vec<_>>>()?.concat();
    let is_meant =
        |source: &str| source.contains(word) && IN_REAL_TIME.iter().any(|start| source.starts_with(start));
    programs.retain(|program| is_meant(&program.source));
    if programs.is_empty() {
        bail!("no tests of real time in {word:?}");
    }
    let run = |n: u32| {
        println!("run {n} of {times}");
        lane(&programs, false)
    };
    let failed: Vec<String> =
        (1..=times).map(run).filter(|failed| !failed.is_empty()).map(|failed| failed.join(", ")).collect();
    println!("{times} runs of {} test programs, {} with failures", programs.len(), failed.len());
    if !failed.is_empty() {
        bail!("tests have failed: {}", failed.join("; "));
    }
    Ok(())
}

/// Returns the test programs of all packages, built.
///
/// # Errors
/// Returns an error if they do not build.
pub(crate) fn build() -> Result<Vec<Program>> {
    let words =
        ["test", "--workspace", "--all-features", "--no-run", "--message-format=json-render-diagnostics"];
    println!("$ cargo {}", words.join(" "));
    let mut command = Command::new("cargo");
    let output = command.args(words).current_dir(root()).stderr(Stdio::inherit()).output();
    let output = output.context("cargo does not start")?;
    if !output.status.success() {
        bail!("the tests do not build");
    }
    String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| program(line).transpose()).collect()
}

/// Returns the test program that a message of Cargo tells of, if it does.
fn program(message: &str) -> Result<Option<Program>> {
    let message: Value = serde_json::from_str(message).context("a message of Cargo")?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let (Some(path), true) = (message["executable"].as_str(), is_test) else { return Ok(None) };
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text in a message of Cargo");
    let (manifest, source) = (text(&message["manifest_path"])?, text(&message["target"]["src_path"])?);
    let folder = PathBuf::from(&manifest).parent().context("a manifest is in a folder")?.to_owned();
    let manifest: toml::Table = toml::from_str(&std::fs::read_to_string(&manifest)?)?;
    let package = manifest["package"]["name"].as_str().context("a package has a name")?.to_owned();
    let source = source.strip_prefix(&*root().to_string_lossy()).unwrap_or(&source);
    let source = source.trim_start_matches('/').to_owned();
    Ok(Some(Program { package, source, path: path.into(), folder, tests: Vec::new() }))
}

/// Returns a program whose modules are not all of one lane as one part for each module in real time, and one for the rest.
fn parts(program: Program) -> Result<Vec<Program>> {
    let Some(folder) = program.source.strip_suffix("main.rs") else { return Ok(vec![program]) };
    let source = |test: &str| format!("{folder}{}.rs", test.split("::").next().unwrap_or_default());
    let mut parts: Vec<Program> = Vec::new();
    for test in tests(&program)? {
        let of_module = source(&test);
        let source = if IN_REAL_TIME.contains(&&*of_module) { &of_module } else { &program.source };
        match parts.iter_mut().find(|part| part.source == *source) {
            Some(part) => part.tests.push(test),
            None => parts.push(Program { source: source.clone(), tests: vec![test], ..program.clone() }),
        }
    }
    Ok(parts)
}

/// Returns the names of a program's tests.
fn tests(program: &Program) -> Result<Vec<String>> {
    let mut command = Command::new(&program.path);
    let output = command.args(["--list", "--format", "terse"]).output().context("a test program")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs programs one by one. Returns those that failed.
#[allow(clippy::disallowed_methods, reason = "says how long a program took")]
fn lane(programs: &[Program], behind: bool) -> Vec<String> {
    let failed = programs.iter().filter_map(|program| {
        let name = format!("{} of {}", program.source, program.package);
        println!("     Running {name}");
        let start = Instant::now();
        let output = output(program, behind);
        let took = start.elapsed().as_secs_f64();
        let (is_ok, text) = match &output {
            Ok(output) => (output.status.success(), said(output)),
            Err(error) => (false, format!("{error:#}")),
        };
        println!("       Ended {name} after {took:.1} s\n{text}");
        (!is_ok).then_some(name)
    });
    failed.collect()
}

fn output(program: &Program, behind: bool) -> Result<Output> {
    let mut command = Command::new(if behind { OsString::from("nice") } else { program.path.clone().into() });
    if behind {
        command.args(["-n", "19"]).arg(&program.path);
    }
    if !program.tests.is_empty() {
        command.arg("--exact").args(&program.tests);
    }
    command.env("CARGO_MANIFEST_DIR", &program.folder).current_dir(&program.folder);
    command.stdin(Stdio::null()).output().with_context(|| program.path.display().to_string())
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_in_real_time_is_there() {
        for start in IN_REAL_TIME {
            assert!(root().join(start).exists(), "{start}");
        }
    }
}
