//! Installation of the packages in clean places.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{VERSION, container, output};
use crate::{output_of, python, root, sh};

/// Debian release of the clean root.
const RELEASE: &str = "bookworm";

/// Scenario that both the program and the package run.
const SCENARIO: &str = "scenarios/quick-start.toml";

/// Installs the wheel without any index, and compares fingerprints of its package and its program.
pub(super) fn wheel(wheel: &Path) -> Result<()> {
    let folder = root().join("target/trial");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let path = |name: &str| folder.join(name).display().to_string();
    output(&python::folder().join("bin/python").display().to_string(), &["-m", "venv", &path("venv")])?;
    sh(&path("venv/bin/pip"), &["install", "--quiet", "--no-index", &wheel.display().to_string()])?;
    let code = format!(
        "import bentpipe; print(bentpipe.load('{SCENARIO}').run(out='{}').fingerprints[0])",
        path("package")
    );
    let of_package = output(&path("venv/bin/python"), &["-c", &code])?;
    let of_program = output(&path("venv/bin/bentpipe"), &["run", SCENARIO, "--out", &path("program")])?;
    ensure!(of_program.contains(of_package.trim()), "{of_program}\nexpected the fingerprint {of_package}");
    println!("the wheel is installed in a clean environment: fingerprint {}", of_package.trim());
    Ok(())
}

/// Unpacks the archive in an empty root, and runs its program there: without a shell, a C library, `/proc` and `/tmp`.
pub(super) fn archive(archive: &Path) -> Result<()> {
    let folder = root().join("target/trial/empty");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let shown = folder.display().to_string();
    sh("tar", &["--extract", "--file", &archive.display().to_string(), "--directory", &shown])?;
    let name = format!("/bentpipe-{VERSION}-{}-linux", std::env::consts::ARCH);
    let (program, scenario) = (format!("{name}/bentpipe"), format!("{name}/{SCENARIO}"));
    // Without root a namespace of users has a root of its own.
    let enter = ["--map-root-user", "chroot", &shown, &program, "run", &scenario, "--out", "/runs"];
    let words = if is_root() { &enter[2..] } else { &enter[..] };
    let said = output(if is_root() { "chroot" } else { "unshare" }, words)?;
    fs::remove_dir_all(&folder)?;
    print!("the archive is tried in an empty root: {said}");
    Ok(())
}

fn is_root() -> bool {
    output_of("id", &["-u"]).is_some_and(|id| id.trim() == "0")
}

/// Installs the Debian package in a new root and runs its example there. The root is that of the container file, which is tried too.
pub(super) fn package(package: &Path, dist: &Path) -> Result<()> {
    if !is_root() || output_of("debootstrap", &["--version"]).is_none() {
        println!(
            "the Debian package is not tried, and no container file is made: that needs root and debootstrap"
        );
        return Ok(());
    }
    let folder = root().join("target/trial/root");
    let shown = folder.display().to_string();
    let made = sh("debootstrap", &["--variant=minbase", RELEASE, &shown])
        .and_then(|()| installed(package, &folder))
        .and_then(|()| container::build(&folder, dist))
        .and_then(|()| purged(&folder));
    // It has devices and files of root, which a later `cargo clean` would stumble over.
    fs::remove_dir_all(&folder).context(shown)?;
    made?;
    let image = root().join("target/trial/image");
    let tried = container::try_out(dist, &image, SCENARIO);
    fs::remove_dir_all(&image)?;
    tried
}

fn installed(package: &Path, folder: &Path) -> Result<()> {
    let shown = folder.display().to_string();
    fs::copy(package, folder.join("bentpipe.deb"))?;
    sh("chroot", &[&shown, "dpkg", "--install", "/bentpipe.deb"])?;
    let example = format!("/usr/share/doc/bentpipe/examples/{SCENARIO}");
    sh("chroot", &[&shown, "bentpipe", "run", &example, "--out", "/tmp/runs"])?;
    sh("chroot", &[&shown, "test", "-s", "/usr/share/man/man1/bentpipe-run.1.gz"])?;
    fs::remove_file(folder.join("bentpipe.deb"))?;
    Ok(fs::remove_dir_all(folder.join("tmp/runs"))?)
}

fn purged(folder: &Path) -> Result<()> {
    let shown = folder.display().to_string();
    sh("chroot", &[&shown, "dpkg", "--purge", "bentpipe"])?;
    sh("chroot", &[&shown, "test", "!", "-e", "/usr/bin/bentpipe"])
}
