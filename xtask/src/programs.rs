//! Test programs: Cargo builds them, and two lanes run them side by side, each one program after another.
//!
//! Programs that measure real time or wait for real programs leave the processors idle for most of theirs. Meanwhile those
//! that only compute run at the lowest priority. A probe measures how late the machine wakes a sleeping thread next to each
//! program of the first lane.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::lateness::Probe;
use crate::results::{Counts, Suite, junit};
use crate::{lint, output_of, root, watch};

/// Packages, and modules of their `tests/main.rs`, that measure real time or wait for real programs.
const IN_REAL_TIME: &[&str] = &[
    "crates/face/bentpipe/tests/cfdp.rs",
    "crates/face/bentpipe/tests/documentation.rs",
    "crates/face/bentpipe/tests/dtn.rs",
    "crates/face/bentpipe/tests/emulate.rs",
    "crates/face/bentpipe/tests/gateway.rs",
    "crates/face/bentpipe/tests/rtp.rs",
    "crates/face/bentpipe/tests/serve.rs",
    "crates/face/bentpipe/tests/sip.rs",
    "crates/face/bentpipe/tests/ts.rs",
    "crates/live/bundles/",
    "crates/live/emu/",
    "crates/live/gateway/",
    "crates/live/pep/",
];

/// Those of them that wait most of their time for programs and judge no instant closely. They run side by side before the others.
const SIDE_BY_SIDE: &[&str] =
    &["crates/face/bentpipe/tests/documentation.rs", "crates/face/bentpipe/tests/serve.rs"];

/// Words of Cargo for all packages.
pub(crate) const ALL: &[&str] = &["--workspace"];

/// Lane of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lane {
    RealTime,
    Computing,
}

impl Lane {
    fn of(source: &str) -> Self {
        let is_in_real_time = IN_REAL_TIME.iter().any(|start| source.starts_with(start));
        if is_in_real_time { Self::RealTime } else { Self::Computing }
    }
}

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

/// Runs test programs, prints what each says when it ends, and leaves a report in `target/junit.xml`. The lane of programs
/// that compute begins with `runs`.
///
/// # Errors
/// Names those that fail.
pub(crate) fn run(programs: Vec<Program>, runs: impl FnOnce() -> Result<()> + Send) -> Result<Counts> {
    let _ = std::fs::remove_file(skipped());
    let parts = programs.into_iter().map(parts).collect::<Result<Vec<_>>>()?.concat();
    let of = |lane: Lane| parts.iter().filter(move |part| Lane::of(&part.source) == lane).collect::<Vec<_>>();
    let (in_real_time, computing) = (of(Lane::RealTime), of(Lane::Computing));
    let (held, suites) = std::thread::scope(|scope| {
        let computing = scope.spawn(move || {
            give_way();
            (runs(), one_by_one(&computing))
        });
        let measured = with_pairs(&in_real_time);
        let (held, computed) = computing.join().expect("a lane returns its results");
        (held, [measured, computed].into_iter().flatten().collect::<Vec<Suite>>())
    });
    std::fs::write(crate::target().join("junit.xml"), junit(&suites))?;
    let failed: Vec<&Suite> = suites.iter().filter(|suite| !suite.has_passed).collect();
    if !failed.is_empty() {
        // Once more at the end, which is all that a log may keep.
        failed.iter().for_each(|suite| println!("{}\n{}\n", suite.name, suite.failures()));
        let names: Vec<&str> = failed.iter().map(|suite| &*suite.name).collect();
        bail!("tests have failed: {}", names.join(", "));
    }
    held?;
    Ok(suites.iter().map(|suite| Counts::of(&suite.text)).fold(Counts::default(), |sum, counts| sum + counts))
}

fn one_by_one(programs: &[&Program]) -> Vec<Suite> {
    programs.iter().map(|program| suite(program)).collect()
}

/// Runs programs of real time: those that may be next to each other at once, then each of the others alone.
fn with_pairs(programs: &[&Program]) -> Vec<Suite> {
    let (pairs, alone): (Vec<&Program>, Vec<&Program>) =
        programs.iter().partition(|program| SIDE_BY_SIDE.contains(&&*program.source));
    let at_once = std::thread::scope(|scope| {
        let started: Vec<_> = pairs.iter().map(|program| scope.spawn(|| suite(program))).collect();
        let ended = started.into_iter().map(|suite| suite.join().expect("a program returns its results"));
        ended.collect::<Vec<Suite>>()
    });
    at_once.into_iter().chain(one_by_one(&alone)).collect()
}

/// Runs the test programs of real time whose sources contain a word a number of times, and states how often some failed.
///
/// # Errors
/// Returns an error if there are none, or a run had a failure.
pub(crate) fn repeat(programs: Vec<Program>, times: u32, word: &str) -> Result<()> {
    let mut programs = programs.into_iter().map(parts).collect::<Result<Vec<_>>>()?.concat();
    let is_meant = |source: &str| source.contains(word) && Lane::of(source) != Lane::Computing;
    programs.retain(|program| is_meant(&program.source));
    if programs.is_empty() {
        bail!("no tests of real time in {word:?}");
    }
    let run = |n: u32| {
        println!("run {n} of {times}");
        let suites = with_pairs(&programs.iter().collect::<Vec<_>>()).into_iter();
        let failed = suites.filter(|suite| !suite.has_passed).map(|suite| suite.name);
        failed.collect::<Vec<String>>()
    };
    let failed: Vec<String> =
        (1..=times).map(run).filter(|failed| !failed.is_empty()).map(|failed| failed.join(", ")).collect();
    println!("{times} runs of {} test programs, {} with failures", programs.len(), failed.len());
    if !failed.is_empty() {
        bail!("tests have failed: {}", failed.join("; "));
    }
    Ok(())
}

/// Keeps the tests of the book, for a change that reaches nothing else of a package.
pub(crate) fn of_the_book(programs: Vec<Program>) -> Result<Vec<Program>> {
    let mut parts = programs.into_iter().map(parts).collect::<Result<Vec<_>>>()?.concat();
    parts.retain(|part| part.source.ends_with("tests/documentation.rs"));
    Ok(parts)
}

/// Builds all tests of packages and lints them, in one. `packages` are words for Cargo: [`ALL`], or `--package NAME ...`. Returns
/// Cargo's messages.
///
/// # Errors
/// Returns an error if they do not build, or a lint fires.
pub(crate) fn build(packages: &[&str]) -> Result<Vec<Value>> {
    messages(
        &mut lint::cargo(),
        &[&["test"], packages, &["--all-targets", "--all-features", "--no-run"]].concat(),
    )
}

/// Runs Cargo and returns its messages.
///
/// # Errors
/// Returns an error if it fails.
pub(crate) fn messages(cargo: &mut Command, words: &[&str]) -> Result<Vec<Value>> {
    println!("$ cargo {}", words.join(" "));
    let words = [words, &["--message-format=json-render-diagnostics"]].concat();
    let output = cargo.args(words).stderr(Stdio::inherit()).output().context("cargo does not start")?;
    if !output.status.success() {
        bail!("it does not build without warnings");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).context("a message of Cargo")).collect()
}

/// Returns the test programs that messages of Cargo name.
///
/// # Errors
/// Returns an error if a message is not as expected.
pub(crate) fn of(messages: &[Value]) -> Result<Vec<Program>> {
    messages.iter().filter_map(|message| program(message).transpose()).collect()
}

/// Returns the test program that a message of Cargo tells of, if it does. Benchmarks are built to be linted alone.
fn program(message: &Value) -> Result<Option<Program>> {
    let is_bench = message["target"]["kind"][0] == "bench";
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true && !is_bench;
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

/// Returns a program whose modules are not all of one lane as one part for each module in another lane, and one for the rest.
fn parts(program: Program) -> Result<Vec<Program>> {
    let Some(folder) = program.source.strip_suffix("main.rs") else { return Ok(vec![program]) };
    let source = |test: &str| format!("{folder}{}.rs", test.split("::").next().unwrap_or_default());
    let mut parts: Vec<Program> = Vec::new();
    for test in tests(&program)? {
        let of_module = source(&test);
        let source =
            if Lane::of(&of_module) == Lane::of(&program.source) { &program.source } else { &of_module };
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

/// Runs a program, and prints what it says.
#[allow(clippy::disallowed_methods, reason = "says how long a program took")]
fn suite(program: &Program) -> Suite {
    let (name, lane) = (format!("{} of {}", program.source, program.package), Lane::of(&program.source));
    println!("     Running {name}");
    let (start, probe) = (Instant::now(), (lane == Lane::RealTime).then(Probe::start));
    let ended = watch::run(&mut command(program));
    let seconds = start.elapsed().as_secs_f64();
    let lateness = probe.map_or_else(String::new, |probe| format!("; {}", probe.end()));
    let (has_passed, text) = match ended {
        Ok(ended) => (ended.status.success(), ended.text),
        Err(error) => (false, format!("{error:#}")),
    };
    println!("       Ended {name} after {seconds:.1} s{lateness}\n{text}");
    Suite { name, seconds, has_passed, text }
}

fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    if !program.tests.is_empty() {
        command.arg("--exact").args(&program.tests);
    }
    command.env("CARGO_MANIFEST_DIR", &program.folder).current_dir(&program.folder);
    command.env("BENTPIPE_SKIPPED", skipped());
    if SIDE_BY_SIDE.contains(&&*program.source) {
        // They wait most of their time: two a processor took two thirds of the time of one, at the same lateness.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        command.env("RUST_TEST_THREADS", (2 * processors).to_string());
    }
    // Programs under test and their peers are on loopback, whichever proxy leads elsewhere.
    command.env("NO_PROXY", "127.0.0.1,localhost,::1").env("no_proxy", "127.0.0.1,localhost,::1");
    command
}

/// Returns the path of the list of tests that were skipped.
pub(crate) fn skipped() -> PathBuf {
    crate::target().join("skipped.txt")
}

/// Gives this thread, and all that it starts, the lowest priority.
fn give_way() {
    let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let id = thread.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let _ = output_of("renice", &["--priority", "19", "--pid", &id]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_in_real_time_is_there() {
        for start in IN_REAL_TIME {
            assert!(root().join(start).exists(), "{start}");
        }
        assert!(SIDE_BY_SIDE.iter().all(|source| IN_REAL_TIME.contains(source)));
    }

    #[test]
    fn a_module_has_the_lane_of_its_file_or_of_its_package() {
        let lanes = [
            "crates/face/bentpipe/tests/serve.rs",
            "crates/live/emu/tests/main.rs",
            "crates/ground/cc/tests/main.rs",
        ];
        assert_eq!(lanes.map(Lane::of), [Lane::RealTime, Lane::RealTime, Lane::Computing]);
    }

    #[test]
    fn what_a_thread_starts_gives_way_as_it_does() {
        let of_started = std::thread::spawn(|| {
            give_way();
            output_of("nice", &[])
        });
        assert_eq!(of_started.join().expect("ends").as_deref(), Some("19\n"));
    }
}
