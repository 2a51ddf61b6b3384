//! Packages for users, in `dist/`: program, archive, Debian package, wheel, container file, software bill of materials, checksums.

mod archive;
mod container;
mod debian;
mod linked;
mod materials;
mod notices;
mod trial;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::text_of as output;
use crate::{built, files, python, root, sh};

/// Version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Oldest C library that program and wheel run with: that of manylinux 2014.
const GLIBC: &str = "2.17";

/// Folders of examples in archive and Debian package.
const EXAMPLES: &[&str] = &["scenarios", "studies", "gateway", "sites", "contrib/wireshark"];

/// Completions: shell, and the file that it reads in an installed package.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/bentpipe"),
    ("zsh", "usr/share/zsh/vendor-completions/_bentpipe"),
    ("fish", "usr/share/fish/vendor_completions.d/bentpipe.fish"),
];

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
    if zig {
        suits(&program)?;
    }
    fs::copy(&program, dist.join(format!("bentpipe-{VERSION}-{}-linux", std::env::consts::ARCH)))?;
    let crates = linked::crates()?;
    let copyright = notices::write(&crates)?;
    let package = debian::build(&program, &copyright, &dist)?;
    let wheel = with_wheel.then(|| wheel::build(&program, zig, &dist)).transpose()?;
    let archive = archive::build(&static_program()?, &copyright, &dist)?;
    materials::write(&crates, &dist.join(format!("bentpipe-{VERSION}.cdx.json")))?;
    wheel.map_or(Ok(()), |wheel| trial::wheel(&wheel))?;
    trial::archive(&archive)?;
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

/// Fails if a program or library names symbols of a later C library than [`GLIBC`].
fn suits(path: &Path) -> Result<()> {
    let minor = |version: &str| version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    let found = debian::glibc(&fs::read(path)?);
    ensure!(minor(&found) <= minor(GLIBC), "{}: needs glibc {found}, expected {GLIBC}", path.display());
    println!("{}: needs glibc {found}, at most {GLIBC}", path.display());
    Ok(())
}

/// Builds the program of the archive, with glibc linked in: it runs where there is no C library, or another one.
fn static_program() -> Result<PathBuf> {
    let target = format!("--target={}-unknown-linux-gnu", std::env::consts::ARCH);
    let (folder, name) = (built("static", ""), "bentpipe");
    let to = format!("--target-dir={}", folder.display());
    // A static program finds no `getrandom` at run time, and an empty root has no /dev/urandom: it is linked by its name.
    let flags = "RUSTFLAGS=-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"";
    sh("env", &[flags, "cargo", "build", "--locked", "--profile=dist", "--package=bentpipe", &target, &to])?;
    Ok(folder.join(&target["--target=".len()..]).join("dist").join(name))
}

/// Returns the version of the C library that static programs are linked with.
fn c_library() -> Result<String> {
    let text = output("getconf", &["GNU_LIBC_VERSION"])?;
    Ok(text.trim().trim_start_matches("glibc ").to_owned())
}

/// Builds the Debian package and the container file of a program that is there, and installs them in a clean place.
///
/// # Errors
/// Returns the first error of a build or of an installation.
pub(crate) fn of_program(program: &str) -> Result<()> {
    let dist = root().join("dist");
    fs::create_dir_all(&dist)?;
    let crates = linked::crates()?;
    let copyright = notices::write(&crates)?;
    materials::write(&crates, &dist.join(format!("bentpipe-{VERSION}.cdx.json")))?;
    if archive::is_static(&fs::read(program)?) {
        trial::archive(&archive::build(Path::new(program), &copyright, &dist)?)?;
    } else {
        println!("no archive is made: {program} is linked dynamically");
    }
    let package = debian::build(Path::new(program), &copyright, &dist)?;
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
    let archives = files(&dist, "-linux.tar.xz");
    archives.iter().try_for_each(|archive| trial::archive(archive))?;
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
