//! The container file, and the archive of the root that it adds to an empty base.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{VERSION, output};
use crate::{root, sh};

/// What a root does not need: caches, and pages of packages other than bentpipe.
const LEFT_OUT: &[&str] = &[
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./usr/share/locale/*",
    "./usr/share/info/*",
    "./dev/*",
    "./tmp/*",
];

/// Seconds since 1970 of all files in the archive, so that equal roots give equal archives.
const TIME: &str = "@1767225600";

/// Archives a root in which the package is installed, and leaves a container file next to the archive.
pub(super) fn build(from: &Path, dist: &Path) -> Result<()> {
    let archive = dist.join(format!("bentpipe-{VERSION}-root.tar.xz"));
    let (from, shown) = (from.display().to_string(), archive.display().to_string());
    let time = format!("--mtime={TIME}");
    let mut words = vec!["--create", "--xz", "--sort=name", "--numeric-owner", &time];
    let left_out: Vec<String> = LEFT_OUT.iter().map(|path| format!("--exclude={path}")).collect();
    words.extend(left_out.iter().map(String::as_str));
    words.extend(["--file", &shown, "--directory", &from, "."]);
    sh("tar", &words)?;
    let text = fs::read_to_string(root().join("contrib/container/Containerfile"))?;
    Ok(fs::write(dist.join("Containerfile"), text.replace("@VERSION@", VERSION))?)
}

/// Does what an engine does with the container file, by `chroot`: unpacks the archive and runs the entry point.
pub(super) fn try_out(dist: &Path, folder: &Path, scenario: &str) -> Result<()> {
    let text = fs::read_to_string(dist.join("Containerfile"))?;
    let value = |word: &str| -> Result<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(word));
        Ok(line.with_context(|| format!("Containerfile: no {word}"))?.trim().to_owned())
    };
    ensure!(value("FROM")? == "scratch", "Containerfile: expected an empty base");
    let added = value("ADD")?;
    let (archive, to) = added.split_once(' ').context("Containerfile: expected ADD ARCHIVE /")?;
    ensure!(to == "/", "Containerfile: expected ADD ARCHIVE /");
    let (shown, archive) = (folder.display().to_string(), dist.join(archive).display().to_string());
    let entry: Vec<String> = serde_json::from_str(&value("ENTRYPOINT")?)?;
    let place = value("WORKDIR")?;
    fs::create_dir_all(folder)?;
    sh("tar", &["--extract", "--numeric-owner", "--file", &archive, "--directory", &shown])?;
    let inside = folder.join(place.trim_start_matches('/'));
    fs::create_dir_all(&inside)?;
    fs::copy(root().join(scenario), inside.join("scenario.toml"))?;
    // `chroot` starts in the root, and engines in the working folder.
    let shell = format!("cd {place} && exec \"$@\"");
    let mut words: Vec<&str> = vec![&shown, "/bin/sh", "-c", &shell, "sh"];
    words.extend(entry.iter().map(String::as_str));
    let default: Vec<String> = serde_json::from_str(&value("CMD")?)?;
    let help: Vec<&str> = words.iter().copied().chain(default.iter().map(String::as_str)).collect();
    ensure!(output("chroot", &help)?.contains("bentpipe"), "the image does not show its help");
    words.extend(["run", "scenario.toml"]);
    let said = output("chroot", &words)?;
    print!("the image is tried by chroot: {said}");
    Ok(())
}
