//! Comparison of all results with the committed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{install, root, sh};

/// Most differences shown of a file.
const SHOWN: usize = 20;

/// Compares the results of scenarios and studies with `benches/golden/`, or updates them.
///
/// `names` are the beginnings of their names; without any, all run.
///
/// # Errors
/// Returns an error if a program does not build or run, or if a result differs.
pub(crate) fn run(names: &[&str], update: bool) -> Result<()> {
    install::tools()?;
    build()?;
    hold(&crate::built("release", "golden"), names, update)
}

/// Compares the results that a built runner prints, or updates what is committed.
///
/// # Errors
/// Returns an error if the runner fails, or if a result differs.
pub(crate) fn hold(program: &Path, names: &[&str], update: bool) -> Result<()> {
    let text = results(program, names)?;
    let mut differences = 0;
    for (name, new) in by_folder(&text) {
        let path = folder().join(format!("{name}.txt"));
        if update {
            let kept = if names.is_empty() { String::new() } else { others(&path, &new) };
            std::fs::write(&path, kept + &new)?;
        } else {
            let old = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            differences += compare(&name, &only(&old, names), &new);
        }
    }
    match differences {
        0 => println!("golden: {}", if update { "written" } else { "all results are as they were" }),
        n => bail!("{n} results differ from benches/golden"),
    }
    Ok(())
}

/// Builds the product and its runner together.
///
/// Built one by one, their dependencies differ in features and everything is compiled twice.
///
/// # Errors
/// Returns an error if it does not build.
fn build() -> Result<()> {
    sh(
        "cargo",
        &[
            "build",
            "--release",
            "--package=bentpipe",
            "--package=bentpipe-bench",
            "--bin=bentpipe",
            "--bin=golden",
        ],
    )
}

/// Runs the program, passing its error output through.
fn results(program: &Path, names: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    let output = command.args(names).current_dir(root()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| program.display().to_string())?;
    if !output.status.success() {
        bail!("{} failed ({})", program.display(), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn folder() -> PathBuf {
    root().join("benches/golden")
}

/// Returns the lines of each folder of scenarios, the part before the first slash.
fn by_folder(text: &str) -> BTreeMap<String, String> {
    let mut parts: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let folder = line.split('/').next().unwrap_or_default();
        let part = parts.entry(folder.to_owned()).or_default();
        part.push_str(line);
        part.push('\n');
    }
    parts
}

/// Returns the name of a line's run, without the number of its point.
fn run_of(line: &str) -> &str {
    line.split([' ', '#']).next().unwrap_or_default()
}

/// Returns the lines of a file that are of runs other than those in `new`.
fn others(path: &Path, new: &str) -> String {
    let old = std::fs::read_to_string(path).unwrap_or_default();
    let renewed: BTreeSet<&str> = new.lines().map(run_of).collect();
    old.lines().filter(|line| !renewed.contains(run_of(line))).map(|line| format!("{line}\n")).collect()
}

/// Returns the lines of the given runs.
fn only(text: &str, names: &[&str]) -> String {
    let is_asked = |line: &&str| names.is_empty() || names.iter().any(|name| line.starts_with(name));
    text.lines().filter(is_asked).map(|line| format!("{line}\n")).collect()
}

/// Returns a line's key and value. The key is the name of a measure or total, or else the first two words.
fn keyed(line: &str) -> (String, &str) {
    let words: Vec<&str> = line.splitn(4, ' ').collect();
    match words[..] {
        [run, kind @ ("measure" | "total" | "measures" | "totals"), name, value] => {
            (format!("{run} {kind} {name}"), value)
        }
        [run, kind, ..] => (format!("{run} {kind}"), &line[(run.len() + kind.len() + 2).min(line.len())..]),
        _ => (line.to_owned(), ""),
    }
}

/// Prints the first differences, and returns how many there are.
fn compare(name: &str, old: &str, new: &str) -> usize {
    let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (old.lines().map(keyed).collect(), new.lines().map(keyed).collect());
    let changed = old.iter().filter_map(|(key, was)| match new.get(key) {
        Some(is) if is == was => None,
        Some(is) => Some(format!("{key}: {was} -> {is}")),
        None => Some(format!("{key}: {was} -> gone")),
    });
    let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
    let all: Vec<String> = changed.chain(added.map(|(key, is)| format!("{key}: new, {is}"))).collect();
    all.iter().take(SHOWN).for_each(|line| println!("golden: {line}"));
    if all.len() > SHOWN {
        println!("golden: {name}: and {} more", all.len() - SHOWN);
    }
    all.len()
}
