//! The project's only automation: `cargo xtask test`, `tidy`, `reference`, `bench`, `golden`, `python`, `weight`, `deny`, `dist`, `debian`, `fuzz`, `chaos`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod bench;
mod chaos;
mod deny;
mod dist;
mod floors;
mod fuzz;
mod golden;
mod install;
mod lateness;
mod lint;
mod processes;
mod programs;
mod python;
mod reach;
mod results;
mod surroundings;
mod test;
mod tidy;
mod watch;
mod weight;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test             install what the tests need where that is possible, say what is not, and run everything:
                   format, lints, tidy, tests, the quick reproduction of every study
  test -p NAME...  the same for the packages named (a folder of crates, benches or xtask), without the studies
  test --changed   the same for all that the differences from the main branch reach: packages that are built with those
                   that changed, pages of the book, studies and baselines
  test --repeat TIMES [WORD]
                   run the tests of real time whose sources contain WORD a number of times, and state how often some failed
  tidy [--update | --list [RULE]]
                   check the project's own rules: crate dependencies, circles of modules, file lengths, pages of models,
                   words of the style guide; --update lowers the limits of xtask/ratchet.toml to the present counts,
                   --list shows the breaches of the rules on words whose name contains RULE
  reference        write the generated pages: cli.md, keys.md, metrics.md and study-results.md in docs/reference, and the table of validation.md
  bench [--peers] [WORKLOAD...]
                   time the benchmark workloads, all of them (a, a-small, b, c, d, e, f, grid, check) or those named; with
                   --peers ns-2 and ns-3 beside them, which for a-small takes ns-3 seven minutes
  golden [--update] [NAME...]
                   run every scenario and study, shortened, and compare all results with benches/golden/; with --update
                   write them there. NAME is the beginning of a run's name, as in scenarios/geo or koreasat
  python           make the virtual environment target/python and run the tests of the Python package; needs Python 3.11
  cargo WORDS...   run Cargo with lints, in the artefacts of `test`
  weight [--update]
                   build the program of README's first command and the tests, and compare the code that each package compiles
                   to with xtask/weights.toml; it stands for the time of the build. With --update write it there
  deny [--snapshot CLONE]
                   compare licences and sources of all dependencies with deny.toml, and their versions with published
                   advisories: of the RustSec database (fetched, or a clone that ADVISORY_DB names, or the snapshot in
                   xtask/advisories.txt) and of npm; with --snapshot write that file from a clone
  dist [--no-wheel | --program FILE | --try]
                   leave program, archive, Debian package, wheel, bill of materials and checksums in dist/, and try each in a
                   clean place: an empty root, a virtual environment, and with root and debootstrap a new Debian, which becomes
                   the root of a container file; --program makes Debian package, container file and, if it is static, archive
                   of a program that is there, and --try builds nothing and tries what is in dist/ again
  debian [COMMAND...]
                   make a new Debian 12 with a C compiler alone, and run Cargo's COMMAND in it, or xtask test if none is given, with
                   this machine's Rust and what is built here; needs root and debootstrap
  fuzz all|TARGET... [--for TIME]
                   run all targets of fuzz/fuzz_targets, or those named, under libFuzzer, each for a minute or for TIME (90s,
                   10m, 2h), several at a time; installs cargo-fuzz where it is missing
  chaos [--for TIME]
                   run three gateways under random faults for a minute or for TIME, and report figures; needs root
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Err(error) = surroundings::hear_interrupts(&args) {
        eprintln!("error: {error:#}");
    }
    let result = match words[..] {
        ["test"] => below_mount(&args, test::run),
        ["test", "--repeat", times] => test::repeat(times, ""),
        ["test", "--repeat", times, word] => test::repeat(times, word),
        ["test", "--changed"] => below_mount(&args, test::of_change),
        ["test", "-p", ref names @ ..] if !names.is_empty() => {
            below_mount(&args, || test::of_packages(names))
        }
        ["tidy"] => tidy::run(),
        ["tidy", "--update"] => tidy::update(),
        ["tidy", "--list"] => tidy::list(""),
        ["tidy", "--list", name] => tidy::list(name),
        ["cargo", ref words @ ..] => lint::run(words),
        ["weight"] => weight::run(false),
        ["weight", "--update"] => weight::run(true),
        ["deny"] => deny::run(),
        ["deny", "--snapshot", clone] => deny::write_snapshot(clone),
        ["dist"] => dist::run(true),
        ["dist", "--no-wheel"] => dist::run(false),
        ["dist", "--try"] => dist::again(),
        ["dist", "--program", program] => dist::of_program(program),
        ["python"] => python::run(),
        ["reference"] => test::reference(),
        ["golden", ref words @ ..] => {
            let names: Vec<&str> = words.iter().copied().filter(|word| *word != "--update").collect();
            golden::run(&names, words.contains(&"--update"))
        }
        ["debian"] => surroundings::new_debian(&["xtask", "test"]),
        ["debian", ref words @ ..] => surroundings::new_debian(words),
        ["fuzz", ref words @ ..] => fuzz::run(words),
        ["chaos"] => chaos::run("60s"),
        ["chaos", "--for", time] => chaos::run(time),
        ["bench", ref words @ ..] => {
            let names: Vec<&str> = words.iter().copied().filter(|word| *word != "--peers").collect();
            bench::run(&names, words.contains(&"--peers"))
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs tests, where needed below a root that is a mount point.
fn below_mount(args: &[String], test: impl FnOnce() -> Result<()>) -> Result<()> {
    match surroundings::mount_root(args)? {
        None => test(),
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("the tests below a mounted root failed ({status})"),
    }
}

/// Returns the repository's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository")
}

/// Runs a command in the root, showing it.
fn sh(program: &str, args: &[&str]) -> Result<()> {
    println!("$ {program} {}", args.join(" "));
    let status = Command::new(program).args(args).current_dir(root()).status();
    let status = status.with_context(|| format!("{program} does not start"))?;
    if !status.success() {
        bail!("`{program} {}` failed ({status})", args.join(" "));
    }
    Ok(())
}

/// Returns the path of a built program in cargo's target folder.
fn built(profile: &str, program: &str) -> PathBuf {
    target().join(profile).join(program)
}

/// Returns Cargo's target folder.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the output of a command, if it runs and succeeds.
fn output_of(program: &str, args: &[&str]) -> Option<String> {
    text_of(program, args).ok()
}

/// Returns the output of a command.
///
/// # Errors
/// Returns the command's own words if it does not start or fails.
fn text_of(program: &str, args: &[&str]) -> Result<String> {
    let (mut command, words) = (Command::new(program), args.join(" "));
    let output = command.args(args).current_dir(root()).output();
    let output = output.with_context(|| format!("`{program} {words}` does not start"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {words}` failed, {}: {}", output.status, errors.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns what Cargo says of the packages of the workspace.
fn metadata() -> Result<serde_json::Value> {
    let text = text_of("cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
    serde_json::from_str(&text).context("the metadata of Cargo")
}

/// Returns all files below `dir` with the given ending, in a fixed order.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
