//! The wheel: the extension, the package around it, and the program.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::VERSION;
use crate::{files, install, output_of, python, root, sh};

/// Builds the wheel and returns its path.
///
/// The program goes in afterwards, so that `pip install` from the sources does not need it. With `zig`, the wheel is one of
/// manylinux 2014, as the C library that it needs is that old.
pub(super) fn build(program: &Path, zig: bool, dist: &Path) -> Result<PathBuf> {
    python::environment()?;
    let folder = root().join("target/wheel");
    let _ = fs::remove_dir_all(&folder);
    let (shown, to) = (folder.display().to_string(), dist.display().to_string());
    let tool = |name: &str| python::folder().join("bin").join(name).display().to_string();
    let (path, maturin) = (python::search_path(), tool("maturin"));
    let mut words = vec![path.as_str(), &maturin, "build", "--locked", "--profile=dist", "--out", &shown];
    words.push("--manifest-path=crates/face/py/Cargo.toml");
    if zig {
        words.extend(["--zig", "--compatibility=manylinux2014"]);
    }
    sh("env", &words)?;
    let wheels = files(&folder, ".whl");
    let made = wheels.first().context("maturin left no wheel")?.display().to_string();
    sh(&tool("python"), &["-m", "wheel", "unpack", "--dest", &shown, &made])?;
    let unpacked = folder.join(format!("bentpipe-{VERSION}"));
    if zig {
        files(&unpacked, ".so").iter().try_for_each(|library| super::suits(library))?;
    }
    let scripts = unpacked.join(format!("bentpipe-{VERSION}.data/scripts"));
    fs::create_dir_all(&scripts)?;
    fs::copy(program, scripts.join("bentpipe"))?;
    sh(&tool("python"), &["-m", "wheel", "pack", "--dest-dir", &to, &unpacked.display().to_string()])?;
    let wheel = files(dist, ".whl").into_iter().next().context("no wheel was packed")?;
    shrink(&wheel);
    Ok(wheel)
}

/// Compresses a wheel again, by 7-Zip's search for shorter codes: 4 % less. Without the program the wheel stays as it is.
fn shrink(wheel: &Path) {
    let is_there = output_of("advzip", &["--version"]).is_some();
    let shrunk = if is_there { Ok(()) } else { install::install(&["advancecomp"]) }
        .and_then(|()| sh("advzip", &["--recompress", "--shrink-extra", &wheel.display().to_string()]));
    if let Err(error) = shrunk {
        println!("the wheel is not compressed again ({error:#})");
    }
}
