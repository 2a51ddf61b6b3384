//! The archive: a static program, examples, manual pages, completions and licences in one folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{COMPLETIONS, EXAMPLES, VERSION, copy_folder, output};
use crate::{root, sh};

/// Files of the repository that go into the folder.
const FILES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md"];

/// Licence of the C library, as Debian installs it everywhere.
const LICENCE_OF_C: &str = "/usr/share/common-licenses/LGPL-2.1";

/// Seconds since 1970 of all files, so that equal content gives equal archives.
const TIME: &str = "@1767225600";

/// Builds the archive and returns its path.
pub(super) fn build(program: &Path, copyright: &str, dist: &Path) -> Result<PathBuf> {
    ensure!(is_static(&fs::read(program)?), "{}: expected a static program", program.display());
    let name = format!("bentpipe-{VERSION}-{}-linux", std::env::consts::ARCH);
    let place = root().join("target/archive");
    let _ = fs::remove_dir_all(&place);
    fill(&place.join(&name), program, copyright)?;
    let archive = dist.join(format!("{name}.tar.xz"));
    let (place, shown) = (place.display().to_string(), archive.display().to_string());
    let time = format!("--mtime={TIME}");
    let fixed = ["--create", "--xz", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", &time];
    sh("tar", &[&fixed[..], &["--file", &shown, "--directory", &place, &name]].concat())?;
    Ok(archive)
}

fn fill(folder: &Path, program: &Path, copyright: &str) -> Result<()> {
    for inside in ["man", "completions"] {
        fs::create_dir_all(folder.join(inside))?;
    }
    fs::copy(program, folder.join("bentpipe"))?;
    fs::write(folder.join("copyright"), copyright)?;
    let readme = fs::read_to_string(root().join("contrib/archive/README.md"))?;
    fs::write(folder.join("README.md"), readme.replace("@VERSION@", VERSION))?;
    for name in FILES {
        fs::copy(root().join(name), folder.join(name))?;
    }
    fs::copy(LICENCE_OF_C, folder.join("LICENSE-GLIBC")).context(LICENCE_OF_C)?;
    for name in EXAMPLES {
        copy_folder(&root().join(name), &folder.join(name))?;
    }
    let run = program.display().to_string();
    for (shell, path) in COMPLETIONS {
        let name = Path::new(path).file_name().context("a file")?;
        fs::write(folder.join("completions").join(name), output(&run, &["completions", shell])?)?;
    }
    output(&run, &["man", &folder.join("man").display().to_string()]).map(drop)
}

/// Returns `true` if a program of 64 bits names no loader (`PT_INTERP`), which is what loads shared libraries.
pub(super) fn is_static(program: &[u8]) -> bool {
    const PT_INTERP: &[u8] = &[3, 0, 0, 0];
    let number = |at: usize, length: usize| -> usize {
        let bytes = program.get(at..at + length).unwrap_or_default();
        bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | usize::from(*byte))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let kind = |index: usize| program.get(table.checked_add(index * size)?..)?.get(..4);
    program.starts_with(b"\x7fELF\x02\x01") && (0..count).all(|index| kind(index) != Some(PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::is_static;

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        let header = |kind: u8| {
            let mut program = vec![0; 64 + 56];
            program[..6].copy_from_slice(b"\x7fELF\x02\x01");
            (program[32], program[54], program[56], program[64]) = (64, 56, 1, kind);
            program
        };
        assert!(is_static(&header(1)) && !is_static(&header(3)));
        assert!(!is_static(b"#!/bin/sh"));
        let this = std::fs::read("/proc/self/exe").expect("this program");
        assert_eq!(is_static(&this), cfg!(target_feature = "crt-static"));
    }
}
