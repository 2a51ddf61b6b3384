//! Three gateways under random faults, for as long as one likes.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{fuzz, root};

/// Runs the ignored test of the gateway for a time such as `90s`, `10m` or `1h`.
///
/// # Errors
/// Returns an error if the time is wrong, or the test fails.
pub(crate) fn run(time: &str) -> Result<()> {
    let seconds = fuzz::seconds(time)?;
    let words = [
        "test",
        "-p",
        "bentpipe",
        "--test",
        "integration",
        "--",
        "--ignored",
        "--nocapture",
        "gateway::chaos::three_sites_survive_random_faults",
    ];
    let status = Command::new("cargo")
        .args(words)
        .env("CHAOS_SECONDS", seconds.to_string())
        .current_dir(root())
        .status();
    let status = status.context("cargo does not start")?;
    if !status.success() {
        bail!("the sites did not survive ({status})");
    }
    Ok(())
}
