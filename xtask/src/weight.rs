//! Weights of packages: the code that each compiles to, which stands for the processor time of its build.
//!
//! Times of builds differ with the machine and its other load, and a bound on them would fail without a fault. The bytes of code
//! and constants in what a build leaves are the same each time, and in proportion to the time (decision 60).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::programs::ALL;
use crate::{output_of, programs, root};

/// Growth over the committed weight that a build may have, in per cent.
const GROWTH: u64 = 25;

/// Weight in kB below which growth does not count.
const LEAST: u64 = 200;

/// Row of all packages of others.
const OTHERS: &str = "others";

/// Row of the whole program, with all that it links.
const PROGRAM: &str = "program";

/// Words of Cargo for the program of README's first command.
const FIRST: &[&str] = &["build", "--release", "--package=bentpipe", "--no-default-features"];

/// Weights in kB by package, and rows for packages of others and for the program.
type Weights = BTreeMap<String, u64>;

/// Weights as committed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Release of README's first command.
    first: Weights,
    /// Build of the tests.
    tests: Weights,
}

/// Builds the program of README's first command and the tests, and compares the weights with those committed, or writes them.
///
/// # Errors
/// Returns an error if a build fails, or if a package has become too heavy.
pub(crate) fn run(update: bool) -> Result<()> {
    let first = weights(&programs::messages(Command::new("cargo").current_dir(root()), FIRST)?)?;
    let tests = programs::build(ALL)?;
    if update {
        let text = HEAD.to_owned() + &toml::to_string_pretty(&Table { first, tests: weights(&tests)? })?;
        return std::fs::write(file(), text).with_context(|| file().display().to_string());
    }
    judge(&growth(&read()?.first, &first))?;
    of_tests(&tests)
}

/// Compares the weights of what Cargo built for all tests with those committed. `messages` are Cargo's.
///
/// # Errors
/// Returns an error if a package has become too heavy.
pub(crate) fn of_tests(messages: &[Value]) -> Result<()> {
    judge(&growth(&read()?.tests, &weights(messages)?))
}

fn judge(heavy: &[String]) -> Result<()> {
    if heavy.is_empty() {
        println!("weight: no package is too heavy");
        return Ok(());
    }
    bail!(
        "packages compile to over {GROWTH} % more code than committed, and every build takes longer for it:\n{}\n\
         help: look for generic code, derives and new dependencies; `cargo xtask weight --update` accepts the weights",
        heavy.join("\n")
    )
}

fn file() -> PathBuf {
    root().join("xtask/weights.toml")
}

fn read() -> Result<Table> {
    let text = std::fs::read_to_string(file()).with_context(|| file().display().to_string())?;
    toml::from_str(&text).with_context(|| format!("{} is not as expected", file().display()))
}

/// Returns a line for each row that is too heavy. New packages count from nothing.
fn growth(old: &Weights, new: &Weights) -> Vec<String> {
    let before = |name: &str| old.get(name).copied().unwrap_or(0);
    let is_heavy = |name: &str, kb: u64| kb > LEAST.max(before(name) * (100 + GROWTH) / 100);
    let heavy = new.iter().filter(|(name, kb)| is_heavy(name, **kb));
    heavy.map(|(name, kb)| format!("  {name}: {kb} kB, {} committed", before(name))).collect()
}

/// Returns the weights of the libraries that messages of Cargo name, and of the program.
fn weights(messages: &[Value]) -> Result<Weights> {
    let mut bytes = Weights::new();
    for message in messages {
        if let Some((row, path)) = weighed(message) {
            *bytes.entry(row).or_default() += code(path)?;
        }
    }
    Ok(bytes.into_iter().map(|(row, bytes)| (row, bytes / 1000)).collect())
}

/// Returns the row of a message and the file to weigh, if it is about a library or the program.
fn weighed(message: &Value) -> Option<(String, &str)> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] == true {
        return None;
    }
    let name = message["target"]["name"].as_str()?;
    if let Some(program) = message["executable"].as_str() {
        return (name == "bentpipe").then(|| (PROGRAM.to_owned(), program));
    }
    let mut files = message["filenames"].as_array()?.iter().filter_map(Value::as_str);
    let library = files.find(|file| file.ends_with(".rlib"))?;
    let is_ours = message["package_id"].as_str()?.starts_with("path+file:");
    Some((if is_ours { name.replace('_', "-") } else { OTHERS.to_owned() }, library))
}

/// Returns the bytes of code and constants in a library or program.
fn code(path: &str) -> Result<u64> {
    let text = output_of("size", &["--totals", path]);
    let text = text.with_context(|| format!("`size {path}` failed (Debian package binutils)"))?;
    total(&text).with_context(|| format!("unexpected output of `size {path}`: {text}"))
}

/// Returns the first number of the last line, which sums the members of a library.
fn total(text: &str) -> Option<u64> {
    text.lines().last()?.split_whitespace().next()?.parse().ok()
}

const HEAD: &str = "\
# Code and constants that packages compile to, in kB. It stands for the processor time of their builds (decision 60).
# `cargo xtask weight` builds README's first command and the tests, and fails if a package has grown by more than a quarter; with
# --update it writes this file. `cargo xtask test` compares what it has built.

";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_package_that_grows_by_more_than_a_quarter_is_too_heavy() {
        let weights = |rows: &[(&str, u64)]| -> Weights {
            rows.iter().map(|(name, kb)| ((*name).to_owned(), *kb)).collect()
        };
        let old = weights(&[("a", 1000), ("b", 1000), ("small", 10), ("gone", 5000)]);
        let new = weights(&[("a", 1250), ("b", 1251), ("small", 200), ("new", 201)]);
        assert_eq!(growth(&old, &new), ["  b: 1251 kB, 1000 committed", "  new: 201 kB, 0 committed"]);
    }

    #[test]
    fn libraries_and_the_program_are_weighed_and_tests_are_not() {
        let message = |package: &str, name: &str, file: &str, executable: Value, test: bool| {
            json!({
                "reason": "compiler-artifact", "package_id": package, "target": { "name": name },
                "profile": { "test": test }, "filenames": [file], "executable": executable,
            })
        };
        let row = |message: Value| weighed(&message).map(|(row, file)| (row, file.to_owned()));
        let row_of = |name: &str, file: &str| Some((name.to_owned(), file.to_owned()));
        let (own, other) =
            ("path+file:///x/crates/ground/cc#bentpipe-cc@0.1.0", "registry+https://x#serde@1.0.0");
        let cc = message(own, "bentpipe_cc", "libcc.rlib", Value::Null, false);
        assert_eq!(row(cc), row_of("bentpipe-cc", "libcc.rlib"));
        let serde = message(other, "serde", "libserde.rlib", Value::Null, false);
        assert_eq!(row(serde), row_of(OTHERS, "libserde.rlib"));
        assert_eq!(row(message(own, "bentpipe", "bentpipe", json!("p"), false)), row_of(PROGRAM, "p"));
        assert_eq!(row(message(own, "bentpipe_cc", "cc", json!("t"), true)), None);
        assert_eq!(row(message(other, "derive", "libderive.so", Value::Null, false)), None);
    }

    #[test]
    fn the_last_line_of_size_has_the_sum() {
        let text = "   text\t   data\n    272\t      0\n 275038\t   5088\t (TOTALS)\n";
        assert_eq!(total(text), Some(275_038));
        assert_eq!(total(""), None);
    }
}
