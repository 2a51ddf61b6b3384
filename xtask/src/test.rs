//! Everything that must hold before a change lands.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::programs::ALL;
use crate::results::Counts;
use crate::{
    deny, files, floors, golden, install, lint, programs, python, reach, results, root, sh, tidy, watch,
    weight,
};

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
    let messages = built(ALL)?;
    weight::of_tests(&messages)?;
    let counts = programs::run(programs::of(&messages)?, results)?;
    // Last, so that the test runner's own count closes the output.
    counted(counts, ALL)
}

/// Tests of the packages named: with or without `bentpipe-` in front.
///
/// # Errors
/// The first thing that does not hold.
pub(crate) fn of_packages(names: &[&str]) -> Result<()> {
    let names: Vec<String> = names.iter().map(|name| package(name)).collect::<Result<_>>()?;
    let words = words_of(names.iter().map(String::as_str));
    let counts = programs::run(programs::of(&built(&words)?)?, || Ok(()))?;
    counted(counts, &of_libraries(&words))
}

/// Tests of everything that the differences from the main branch reach.
///
/// # Errors
/// The first thing that does not hold.
pub(crate) fn of_change() -> Result<()> {
    let reach = reach::of_change()?;
    println!("they reach: {reach:?}");
    let has_book_alone = reach.has_pages && !reach.packages.contains("bentpipe");
    let words = words_of(reach.packages.iter().map(String::as_str));
    let mut programs = programs::of(&built(&words)?)?;
    if has_book_alone {
        let of_package = programs::of(&programs::build(&["--package", "bentpipe"])?)?;
        programs.extend(programs::of_the_book(of_package)?);
    }
    let runs = || if reach.has_results { results() } else { Ok(()) };
    counted(programs::run(programs, runs)?, &of_libraries(&words))
}

/// Checks the format and the project's rules, installs what tests need, and builds and lints packages. Returns Cargo's messages.
fn built(packages: &[&str]) -> Result<Vec<Value>> {
    sh("cargo", &["fmt", "--all", "--check"])?;
    tidy::run()?;
    if packages.is_empty() {
        return needs().map(|()| Vec::new());
    }
    // Installation waits for the network, and the build for the processor.
    std::thread::scope(|scope| {
        let needs = scope.spawn(|| shown(needs()));
        let messages = shown(programs::build(packages).and_then(|built| others(packages).map(|()| built)));
        needs.join().expect("it returns its error").and(messages)
    })
}

/// Reproduces the studies, and compares results with the baselines.
fn results() -> Result<()> {
    reproduce()?;
    golden::hold(&crate::built("debug", "golden"), &[], false)
}

/// Runs the examples of documentation comments, and closes the output with the count of all tests.
fn counted(counts: Counts, packages: &[&str]) -> Result<()> {
    let words = [&["test"], packages, &["--all-features", "--doc"]].concat();
    let ended = match packages {
        [] => None,
        _ => Some(watch::run(lint::cargo().args(&words))?),
    };
    let text = ended.as_ref().map_or("", |ended| &*ended.text);
    println!("$ cargo {}\n{text}", words.join(" "));
    if ended.as_ref().is_some_and(|ended| !ended.status.success()) {
        bail!("an example of a documentation comment has failed");
    }
    let counts = counts + Counts::of(text);
    let skipped = std::fs::read_to_string(programs::skipped()).unwrap_or_default();
    results::skipped(&skipped).into_iter().for_each(|line| println!("{line}"));
    println!("all tests: {counts}");
    Ok(())
}

/// Returns the full name of a package.
fn package(name: &str) -> Result<String> {
    let folder = name.strip_prefix("bentpipe-").unwrap_or(name);
    match folder {
        "bentpipe" | "xtask" => Ok(folder.to_owned()),
        "bench" | "benches" => Ok("bentpipe-bench".to_owned()),
        _ if floors::folder_of(folder).is_some() => Ok(format!("bentpipe-{folder}")),
        _ => bail!("unknown package \"{name}\"; expected a crate, \"benches\" or \"xtask\""),
    }
}

fn words_of<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.flat_map(|name| ["--package", name]).collect()
}

/// Keeps the packages that have a library, which alone have examples in comments.
fn of_libraries<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let has_library = |name: &str| {
        let Some(folder) = floors::folder_of(name.strip_prefix("bentpipe-").unwrap_or(name)) else {
            return false;
        };
        let folder = root().join(folder);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml"));
        let has_examples = manifest.is_ok_and(|text| !text.contains("doctest = false"));
        has_examples && folder.join("src/lib.rs").exists()
    };
    words_of(words.iter().skip(1).step_by(2).copied().filter(|name| has_library(name)))
}

/// Builds all tests and runs those of real time whose sources contain a word a number of times.
///
/// # Errors
/// Returns an error if the number is wrong, or a test fails.
pub(crate) fn repeat(times: &str, word: &str) -> Result<()> {
    let times = times.parse().with_context(|| format!("expected a number of runs, got {times:?}"))?;
    programs::repeat(programs::of(&programs::build(ALL)?)?, times, word)
}

/// Shows an error at once: what runs at the same time goes on for a while.
fn shown<T>(result: Result<T>) -> Result<T> {
    result.inspect_err(|error| println!("error: {error:#}"))
}

/// Checks the builds of packages that no test runs.
fn others(packages: &[&str]) -> Result<()> {
    if packages == ALL || packages.contains(&"bentpipe") {
        // The program of README's first command. Its libraries have been linted.
        let small = ["clippy", "--package", "bentpipe", "--no-default-features", "--no-deps"];
        sh("cargo", &[&small[..], &["--", "-D", "warnings"]].concat())?;
    }
    let has_bare = packages == ALL || packages.contains(&"bentpipe-rohc");
    if has_bare && install::target(BARE_METAL) {
        sh("cargo", &["check", "--package", "bentpipe-rohc", "--target", BARE_METAL])?;
    }
    Ok(())
}

/// Installs what tests need, and checks the dependencies: both wait for the network.
fn needs() -> Result<()> {
    install::tools()?;
    python::prepare()?;
    deny::run()
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
