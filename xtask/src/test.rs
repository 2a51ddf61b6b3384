//! Everything that must hold before a change lands.

use anyhow::Result;

use crate::{install, sh, tidy};

/// Format, lints, tidy, tests, and the quick reproduction of every study.
///
/// # Errors
/// The first thing that does not hold.
pub(crate) fn run() -> Result<()> {
    install::tools()?;
    sh("cargo", &["fmt", "--all", "--check"])?;
    tidy::run()?;
    sh("cargo", &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])?;
    sh("cargo", &["build", "--release", "--package", "bentpipe"])?;
    sh("target/release/bentpipe", &["reproduce", "--quick"])?;
    // Last, so that the test runner's own count closes the output.
    sh("cargo", &["test", "--workspace", "--all-features"])
}
