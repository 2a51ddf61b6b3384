//! Lints of all that is built for tests, by that build itself.
//!
//! `clippy-driver` in the compiler's place reports lints and generates code. `cargo clippy` would read and check everything once more,
//! and metadata of all packages of others for it.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::root;

/// Options of Clippy's driver, in the form in which `cargo clippy -- -D warnings` passes them.
const OPTIONS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Returns a command of Cargo in the root that lints what it compiles of this workspace, and refuses warnings.
///
/// Cargo keeps what it builds apart from the artefacts of the plain compiler.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", OPTIONS).current_dir(root());
    command
}

/// Runs Cargo on the artefacts of the tests.
///
/// # Errors
/// Returns an error if it fails.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let status = cargo().args(words).status().context("cargo does not start")?;
    if !status.success() {
        bail!("`cargo {}` failed ({status})", words.join(" "));
    }
    Ok(())
}
