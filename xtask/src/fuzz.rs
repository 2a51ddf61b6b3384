//! Fuzz targets under libFuzzer, from the inputs that their crates keep.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

use super::{files, floors, output_of, root, sh};

/// Seconds that each target is run for by default.
const SECONDS: u64 = 60;

/// Runs a target, or all of them, several at a time: `all | TARGET... [--for TIME]`. New inputs go to `fuzz/corpus/` and failing
/// ones to `fuzz/artifacts/`; git ignores both.
///
/// # Errors
/// Returns an error if a word is unknown, if something does not build, or if a target fails.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (names, seconds) = arguments(words)?;
    if output_of("cargo", &["fuzz", "--version"]).is_none() {
        sh("cargo", &["install", "--locked", "cargo-fuzz"])?;
    }
    match &names[..] {
        [name] => sh("cargo", &["fuzz", "build", "-s", "none", name])?,
        _ => sh("cargo", &["fuzz", "build", "-s", "none"])?,
    }
    if names.iter().any(|name| name.starts_with("rohc_")) {
        write_rohc_inputs()?;
    }
    let failed = run_all(&names, seconds)?;
    if failed.is_empty() {
        println!("fuzz: {} targets ran for {seconds} s each, no finding", names.len());
        return Ok(());
    }
    bail!("inputs in fuzz/artifacts break {}", failed.join(", "))
}

/// Writes the inputs of ROHC, which are made from captures, to `fuzz/corpus/`.
///
/// # Errors
/// Returns an error if the test that writes them fails.
fn write_rohc_inputs() -> Result<()> {
    let words = ["test", "--package", "bentpipe-rohc", "--test", "fuzz", "--", "--ignored", "write_seeds"];
    sh("cargo", &words)
}

/// Returns the targets, and the seconds that each is to be run for.
fn arguments(words: &[&str]) -> Result<(Vec<String>, u64)> {
    let (names, time) = match words {
        [names @ .., "--for", time] => (names, Some(*time)),
        [_, time] if time.parse::<u64>().is_ok() => (&words[..1], Some(*time)),
        names => (names, None),
    };
    let seconds = time.map_or(Ok(SECONDS), seconds)?;
    let known = targets();
    if names == ["all"] {
        return Ok((known, seconds));
    }
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|known| known == *name)) {
        bail!("unknown target {unknown}: expected `all` or one of {}", known.join(", "));
    }
    if names.is_empty() {
        bail!("missing target: expected `all` or some of {}", known.join(", "));
    }
    Ok((names.iter().map(|name| (*name).to_owned()).collect(), seconds))
}

/// Seconds in a time such as `90`, `90s`, `10m` or `2h`.
pub(crate) fn seconds(text: &str) -> Result<u64> {
    let (number, factor) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60),
        Some(number) if text.ends_with('h') => (number, 3600),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    let number: u64 =
        number.parse().with_context(|| format!("expected a time such as 10m, got \"{text}\""))?;
    Ok(number * factor)
}

fn targets() -> Vec<String> {
    let sources = files(&root().join("fuzz/fuzz_targets"), ".rs");
    sources.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
}

/// Returns the folder of inputs kept for a target. Scenarios have their own.
fn kept(target: &str) -> Option<PathBuf> {
    let (krate, name) = target.split_once('_')?;
    let own = root().join(floors::folder_of(krate)?).join("tests/corpus").join(name);
    let is_scenario = target.ends_with("_scenario") || target.ends_with("_run");
    let folder = if is_scenario { root().join("scenarios") } else { own };
    folder.is_dir().then_some(folder)
}

/// Runs one target per processor at a time, and returns the names of failed ones.
fn run_all(names: &[String], seconds: u64) -> Result<Vec<String>> {
    let (queue, failed) = (Mutex::new(names.iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().expect("no thread panics").next();
    let work = || -> Result<()> {
        while let Some(name) = next() {
            if !is_fine(name, seconds)? {
                failed.lock().expect("no thread panics").push(name.clone());
            }
        }
        Ok(())
    };
    let jobs = thread::available_parallelism().map_or(1, usize::from).min(names.len());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    Ok(failed.into_inner().expect("no thread panics"))
}

/// Runs one target; its output is shown only if it fails.
fn is_fine(target: &str, seconds: u64) -> Result<bool> {
    let corpus = root().join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&corpus)?;
    let mut command = Command::new("cargo");
    command.args(["fuzz", "run", "-s", "none", target]).arg(&corpus).args(kept(target));
    command.args(["--", "-timeout=10", "-rss_limit_mb=2048", &format!("-max_total_time={seconds}")]);
    let output = command.current_dir(root()).output().context("cargo does not start")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| line.starts_with('#')).unwrap_or_default();
    println!("fuzz: {target}: {}", if output.status.success() { last } else { &text });
    Ok(output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Tests of a crate replay the corpora of its `TARGETS`. A target that is missing there has no replay.
    #[test]
    fn every_target_is_built_and_its_corpus_replayed() {
        let manifest = text("fuzz/Cargo.toml");
        for target in targets() {
            let (krate, name) = target.split_once('_').expect("a crate and a name");
            let source = text(&format!("fuzz/fuzz_targets/{target}.rs"));
            let call =
                source.split(&format!("bentpipe_fuzz::{krate}::")).nth(1).expect("a call of the target");
            let function = call.split('(').next().expect("a name");
            let entry = format!("(\"{name}\", {function})");
            assert!(text(&format!("fuzz/src/{krate}.rs")).contains(&entry), "{target}: not in TARGETS");
            assert!(
                text(&format!("{}/tests/fuzz.rs", floors::folder_of(krate).expect("a crate")))
                    .contains("TARGETS"),
                "{target}: no replay"
            );
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}: not in fuzz/Cargo.toml");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(
            ["90", "90s", "10m", "2h"].map(|text| seconds(text).expect("a time")),
            [90, 90, 600, 7200]
        );
        assert!(seconds("10 min").is_err());
        let (names, each) = arguments(&["all", "--for", "10m"]).expect("words");
        assert!(names.len() > 40 && each == 600);
        assert_eq!(arguments(&["wire_udp"]).expect("words"), (vec!["wire_udp".to_owned()], SECONDS));
        assert!(arguments(&["wire_upd"]).is_err() && arguments(&[]).is_err());
    }
}
