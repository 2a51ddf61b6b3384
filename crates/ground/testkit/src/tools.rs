//! Tools that tests need, and what happens where they are missing.

use std::process::{Command, Stdio};

/// Reports that a test is skipped.
///
/// # Panics
/// In CI, where no test may be skipped.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "no test may be skipped in CI: {reason}");
    eprintln!("skipped: {reason}");
}

/// Returns `true` if a tool is installed. Without it a test has nothing to compare with.
///
/// # Panics
/// In CI, if it is not installed.
pub fn has(tool: &str) -> bool {
    let mut command = Command::new(tool);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok();
    if !found {
        skip(&format!("{tool} is not installed"));
    }
    found
}
