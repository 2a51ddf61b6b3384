//! The virtual environment of the Python tests.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{install, output_of, root, sh};

/// Python versions whose wheels the tests' packages have.
const INTERPRETERS: &[&str] = &["python3", "python3.13", "python3.12", "python3.11"];

/// List of the packages that the tests use.
const REQUIREMENTS: &str = "crates/face/py/tests/requirements.txt";

/// Makes the environment in `target/python`, and runs the tests of the Python package.
///
/// # Errors
/// Returns an error if the environment cannot be made or a test fails.
pub(crate) fn run() -> Result<()> {
    environment()?;
    sh("cargo", &["test", "--package", "bentpipe-py"])
}

/// Makes the environment, if it is missing or its list has changed. Without it the tests are skipped.
///
/// # Errors
/// In CI (`CI` set), if it cannot be made.
pub(crate) fn prepare() -> Result<()> {
    match environment() {
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("without Python packages: tests of the Python package are skipped ({error:#})");
            Ok(())
        }
        result => result,
    }
}

/// Makes the environment, if it is missing or its list has changed.
///
/// # Errors
/// Returns an error if Python or a package cannot be had.
pub(crate) fn environment() -> Result<()> {
    let folder = folder();
    let (list, made) = (root().join(REQUIREMENTS), folder.join("requirements.txt"));
    let wanted = std::fs::read_to_string(&list)?;
    if std::fs::read_to_string(&made).is_ok_and(|present| present == wanted) {
        return Ok(());
    }
    let python = interpreter()?;
    if !has_compiler(python) {
        install::install(&["gcc", "libc6-dev", "python3-dev"])?;
    }
    let (shown, list) = (folder.display().to_string(), list.display().to_string());
    sh(python, &["-m", "venv", "--clear", &shown])?;
    let pip = folder.join("bin/pip").display().to_string();
    sh(&pip, &["install", "--quiet", "--disable-pip-version-check", "--requirement", &list])?;
    // Last, as it marks the environment as complete.
    Ok(std::fs::write(made, wanted)?)
}

/// Installs more packages into the environment.
///
/// # Errors
/// Returns an error if a package cannot be had.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let pip = folder().join("bin/pip").display().to_string();
    sh(&pip, &[&["install", "--quiet", "--disable-pip-version-check"], packages].concat())
}

/// Returns the setting of `PATH`, for `env`, that finds the environment's programs first.
pub(crate) fn search_path() -> String {
    format!("PATH={}:{}", folder().join("bin").display(), std::env::var("PATH").unwrap_or_default())
}

/// Returns an interpreter that makes environments. Installs Debian's if there is none.
fn interpreter() -> Result<&'static str> {
    let find = || INTERPRETERS.iter().find(|python| is_recent(python));
    if find().is_none() {
        install::install(&["python3-venv"])?;
    }
    find().copied().context("no Python of at least 3.11")
}

/// Returns the environment's folder.
pub(crate) fn folder() -> PathBuf {
    root().join("target/python")
}

/// Returns `true` if packages without a wheel, such as `pesq`, can be built.
fn has_compiler(python: &str) -> bool {
    let header = "import pathlib, sys, sysconfig\n\
                  sys.exit(not pathlib.Path(sysconfig.get_path('include'), 'Python.h').exists())";
    output_of("cc", &["--version"]).is_some() && output_of(python, &["-c", header]).is_some()
}

fn is_recent(python: &str) -> bool {
    output_of(python, &["-c", "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"]).is_some()
}
