//! Packages for users, in `dist/`: program, Debian package, wheel, software bill of materials, checksums.

mod debian;
mod materials;
mod trial;
mod wheel;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{built, output_of, root, sh};

/// Version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds all packages and installs each in a clean place.
///
/// # Errors
/// Returns the first error of a build or of an installation.
pub(crate) fn run(with_wheel: bool) -> Result<()> {
    let dist = root().join("dist");
    let _ = fs::remove_dir_all(&dist);
    fs::create_dir_all(&dist)?;
    sh("cargo", &["build", "--locked", "--profile=dist", "--package=bentpipe"])?;
    let program = built("dist", "bentpipe");
    fs::copy(&program, dist.join(format!("bentpipe-{VERSION}-{}-linux", std::env::consts::ARCH)))?;
    let package = debian::build(&program, &dist)?;
    let wheel = with_wheel.then(|| wheel::build(&program, &dist)).transpose()?;
    materials::write(&dist.join(format!("bentpipe-{VERSION}.cdx.json")))?;
    checksums(&dist)?;
    wheel.map_or(Ok(()), |wheel| trial::wheel(&wheel))?;
    trial::package(&package)
}

/// Writes `SHA256SUMS`, and prints the sizes.
fn checksums(dist: &Path) -> Result<()> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(dist)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        println!("{:>9} {name}", entry.metadata()?.len());
        names.push(name);
    }
    names.sort();
    let output = std::process::Command::new("sha256sum").args(&names).current_dir(dist).output();
    Ok(fs::write(dist.join("SHA256SUMS"), output.context("sha256sum does not start")?.stdout)?)
}

/// Copies a folder with everything in it.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Returns the output of a command that has to succeed.
fn output(program: &str, words: &[&str]) -> Result<String> {
    output_of(program, words).with_context(|| format!("`{program} {}` failed", words.join(" ")))
}
