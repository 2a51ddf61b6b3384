//! Committed snapshot of the RustSec database (`xtask/advisories.txt`): the advisories of crates in the lock files, without their prose.
//!
//! `cargo-deny` reads a repository of git alone, so [`repository`] makes one of the snapshot.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::WORKSPACES;
use crate::{output_of, root, target};

/// Line that begins each advisory, in front of its path.
const BEGIN: &str = "@@ ";

/// End of the table, and the heading. The table may have comments.
const HEADING: &str = "\n```\n\n# ";

fn file() -> PathBuf {
    root().join("xtask/advisories.txt")
}

/// Returns the folder of a repository with the snapshot, for `cargo-deny` to fetch.
///
/// # Errors
/// Returns an error if git fails, or the snapshot is not as expected.
pub(super) fn repository() -> Result<PathBuf> {
    let folder = target().join("advisories/repository");
    let _ = fs::remove_dir_all(&folder);
    let text = fs::read_to_string(file()).with_context(|| file().display().to_string())?;
    for (path, advisory) in advisories(&text) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().context("a path in a folder")?)?;
        fs::write(path, advisory)?;
    }
    git(&folder, &["init", "--quiet", "--initial-branch=main"])?;
    git(&folder, &["add", "--all"])?;
    let author =
        ["-c", "user.name=snapshot", "-c", "user.email=snapshot@localhost", "-c", "commit.gpgsign=false"];
    git(&folder, &[&author[..], &["commit", "--quiet", "--message=snapshot"]].concat())?;
    Ok(folder)
}

/// Returns the state of the database that the snapshot has: the date and the commit.
///
/// # Errors
/// Returns an error if there is no snapshot.
pub(super) fn state() -> Result<String> {
    let text = fs::read_to_string(file()).with_context(|| file().display().to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("State: "));
    Ok(line.with_context(|| format!("{}: missing line \"State: \"", file().display()))?.to_owned())
}

/// Writes the snapshot from a clone of the database.
///
/// # Errors
/// Returns an error if the folder is not a clone.
pub(crate) fn write(clone: &str) -> Result<()> {
    let clone = Path::new(clone);
    let crates = crates()?;
    let paths = git(clone, &["ls-tree", "-r", "--name-only", "HEAD", "crates/"])?;
    let mut text = format!("{HEAD}State: {}", git(clone, &["log", "-1", "--format=%cs %H"])?);
    let is_ours = |path: &&str| path.split('/').nth(1).is_some_and(|name| crates.contains(name));
    for path in paths.lines().filter(is_ours) {
        let advisory = git(clone, &["show", &format!("HEAD:{path}")])?;
        text += &format!("\n{BEGIN}{path}\n{}", without_prose(&advisory));
    }
    ensure!(text.contains(BEGIN), "{}: no advisory of our crates", clone.display());
    fs::write(file(), text).with_context(|| file().display().to_string())
}

/// Returns the names of all crates in the lock files.
fn crates() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for manifest in WORKSPACES {
        let path = root().join(manifest).with_extension("lock");
        let lock: toml::Table = toml::from_str(&fs::read_to_string(path)?)?;
        let packages = lock["package"].as_array().into_iter().flatten();
        names.extend(packages.filter_map(|package| package["name"].as_str()).map(str::to_owned));
    }
    Ok(names)
}

/// Returns the table of an advisory and its heading.
fn without_prose(advisory: &str) -> String {
    let end = advisory.find(HEADING).map_or(advisory.len(), |at| {
        let line = at + HEADING.len();
        advisory[line..].find('\n').map_or(advisory.len(), |length| line + length)
    });
    advisory[..end].trim_end().to_owned() + "\n"
}

/// Returns the advisories of a snapshot with their paths.
fn advisories(snapshot: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = snapshot.split(&format!("\n{BEGIN}")).skip(1).collect::<Vec<_>>();
    parts.into_iter().filter_map(|part| part.split_once('\n'))
}

fn git(folder: &Path, words: &[&str]) -> Result<String> {
    let folder = folder.display().to_string();
    let text = output_of("git", &[&["-C", &folder], words].concat());
    text.with_context(|| format!("`git -C {folder} {}` failed", words.join(" ")))
}

const HEAD: &str = "\
Advisories of the RustSec database (https://rustsec.org) for the crates in Cargo.lock and fuzz/Cargo.lock, without their prose. They are in
the public domain (CC0 1.0), but for those with a line `license`, of which `url` names the source. `cargo xtask deny` takes them where the
database is not reachable; `cargo xtask deny --snapshot CLONE` writes this file from a clone.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advisory_keeps_table_and_heading() {
        let kept = "```toml\n[advisory]\n\n# A comment.\nid = \"A\"\n```\n\n# Panic in `x`\n";
        assert_eq!(without_prose(&format!("{kept}\nLong prose.\n\n# More\n")), kept);
        assert_eq!(without_prose("```toml\n```"), "```toml\n```\n");
    }

    #[test]
    fn a_snapshot_has_advisories_with_their_paths() {
        let text = "Head\nState: 2026\n\n@@ crates/a/A.md\n```toml\n```\n\n@@ crates/b/B.md\n# B\n";
        let found: Vec<_> = advisories(text).collect();
        assert_eq!(found, [("crates/a/A.md", "```toml\n```\n"), ("crates/b/B.md", "# B\n")]);
    }

    #[test]
    fn the_committed_snapshot_names_its_state_and_crates_in_use() {
        assert!(state().expect("a snapshot").starts_with("20"));
        let text = fs::read_to_string(file()).expect("a snapshot");
        assert!(advisories(&text).count() > 50);
        assert!(advisories(&text).all(|(path, text)| path.starts_with("crates/") && text.contains("id = ")));
    }
}
