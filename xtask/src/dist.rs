//! Packages for users, in `dist/`: program, Debian package, wheel, container file, software bill of materials, checksums.

mod container;
mod debian;
mod materials;
mod trial;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{built, files, output_of, python, root, sh};

/// Version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Oldest C library that program and wheel run with: that of manylinux 2014.
const GLIBC: &str = "2.17";

/// Packages of Python that link for an older C library than this machine's.
const ZIG: &[&str] = &["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// Builds all packages and installs each in a clean place.
///
/// # Errors
/// Returns the first error of a build or of an installation.
pub(crate) fn run(with_wheel: bool) -> Result<()> {
    let dist = root().join("dist");
    let _ = fs::remove_dir_all(&dist);
    fs::create_dir_all(&dist)?;
    let (program, zig) = program()?;
    fs::copy(&program, dist.join(format!("bentpipe-{VERSION}-{}-linux", std::env::consts::ARCH)))?;
    let package = debian::build(&program, &dist)?;
    let wheel = with_wheel.then(|| wheel::build(&program, zig, &dist)).transpose()?;
    materials::write(&dist.join(format!("bentpipe-{VERSION}.cdx.json")))?;
    wheel.map_or(Ok(()), |wheel| trial::wheel(&wheel))?;
    trial::package(&package, &dist)?;
    checksums(&dist)
}

/// Builds the program. Returns its path, and if Zig linked it, so that it runs with [`GLIBC`].
///
/// Without Zig, the program needs the C library of this machine.
fn program() -> Result<(PathBuf, bool)> {
    if let Err(error) = python::environment().and_then(|()| python::install(ZIG)) {
        println!("without Zig: program and wheel need the C library of this machine ({error:#})");
        sh("cargo", &["build", "--locked", "--profile=dist", "--package=bentpipe"])?;
        return Ok((built("dist", "bentpipe"), false));
    }
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let (path, to) = (python::search_path(), format!("--target={target}.{GLIBC}"));
    sh("env", &[&path, "cargo", "zigbuild", "--locked", "--profile=dist", "--package=bentpipe", &to])?;
    Ok((built(&format!("{target}/dist"), "bentpipe"), true))
}

/// Builds the Debian package and the container file of a program that is there, and installs them in a clean place.
///
/// # Errors
/// Returns the first error of a build or of an installation.
pub(crate) fn of_program(program: &str) -> Result<()> {
    let dist = root().join("dist");
    fs::create_dir_all(&dist)?;
    let package = debian::build(Path::new(program), &dist)?;
    trial::package(&package, &dist)?;
    checksums(&dist)
}

/// Installs the packages that are in `dist/` again, each in a clean place, and makes the container file.
///
/// # Errors
/// Returns the first error of an installation.
pub(crate) fn again() -> Result<()> {
    let dist = root().join("dist");
    let wheels = files(&dist, ".whl");
    wheels.iter().try_for_each(|wheel| trial::wheel(wheel))?;
    let packages = files(&dist, ".deb");
    trial::package(packages.first().context("no Debian package in dist/")?, &dist)?;
    checksums(&dist)
}

/// Writes `SHA256SUMS`, and prints the sizes.
fn checksums(dist: &Path) -> Result<()> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(dist)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "SHA256SUMS" {
            continue;
        }
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
