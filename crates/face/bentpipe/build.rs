//! The commit that the program is built from, for manifests of results.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=BENTPIPE_COMMIT");
    let given = std::env::var("BENTPIPE_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(checked_out) {
        println!("cargo::rustc-env=BENTPIPE_COMMIT={commit}");
    }
}

/// Returns the commit of the working tree, with a mark if sources differ from it. `None` outside of a repository.
fn checked_out() -> Option<String> {
    let root = Path::new("../../..");
    // Only that of bentpipe itself: sources may be unpacked inside of another repository.
    if !root.join(".git").exists() {
        return None;
    }
    for path in ["HEAD", "logs/HEAD"] {
        println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", path])?);
    }
    ["crates", "Cargo.toml", "Cargo.lock"]
        .iter()
        .for_each(|path| println!("cargo::rerun-if-changed=../../../{path}"));
    let is_modified = !git(&[
        "status",
        "--porcelain",
        "--",
        "../../../crates",
        "../../../Cargo.toml",
        "../../../Cargo.lock",
    ])?
    .is_empty();
    let commit = git(&["rev-parse", "HEAD"])?;
    Some(if is_modified { format!("{commit}-modified") } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
