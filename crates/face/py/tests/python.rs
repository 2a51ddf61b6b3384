//! Drives pytest and mypy over the package with the extension that Cargo built.
//!
//! `cargo xtask python` makes the virtual environment with the tools. Without it the test is skipped.
#![expect(clippy::tests_outside_test_module, reason = "an integration test")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use bentpipe_testkit::{Folder, skip, succeed};

/// Returns the folder with the programs that Cargo built for this test.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("the test's path");
    program.ancestors().nth(2).expect("target/debug").to_owned()
}

/// Assembles the package as a wheel has it, of links to the sources and to the extension.
fn package(folder: &Folder) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/bentpipe");
    let package = folder.file("bentpipe");
    std::fs::create_dir(&package).expect("a new folder");
    for entry in std::fs::read_dir(sources).expect("sources").flatten() {
        if entry.path().is_file() {
            symlink(entry.path(), package.join(entry.file_name())).expect("a link");
        }
    }
    let extension = built().join("deps/libbentpipe_native.so");
    assert!(extension.is_file(), "{} is not built", extension.display());
    symlink(extension, package.join("_native.abi3.so")).expect("a link");
}

#[test]
fn the_package_passes_its_tests_and_its_types_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let programs =
        std::env::var_os("BENTPIPE_PYTHON").map_or_else(|| root.join("target/python/bin"), PathBuf::from);
    if !programs.join("pytest").is_file() {
        return skip("no virtual environment in target/python; `cargo xtask python` makes it");
    }
    let folder = Folder::new();
    package(&folder);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let command = &|program: &str, arguments: &[&str]| {
        let mut command = Command::new(programs.join(program));
        command.args(arguments).current_dir(&folder).env("PYTHONPATH", folder.path());
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("BENTPIPE_BUILT", built())
            .env("BENTPIPE_ROOT", &root);
        succeed(&mut command);
    };
    let settings = tests.join("../pyproject.toml");
    let settings = settings.to_str().expect("a path of text");
    let (tests, package) = (tests.to_str().expect("a path of text"), folder.file("bentpipe"));
    let package = package.to_str().expect("a path of text");
    let (pages, book) = (root.join("docs"), root.join("target/book"));
    let [pages, book] = [&pages, &book].map(|path| path.to_str().expect("a path of text"));
    std::thread::scope(|scope| {
        let apart = ["--rootdir", tests, "--confcutdir", tests];
        scope.spawn(move || {
            // Two at a time: most of them wait for a program, a cluster or a server.
            let first = ["-p", "no:cacheprovider", "-n", "2", "-c", settings];
            command("pytest", &[&first[..], &apart, &[tests, package]].concat());
        });
        command("mypy", &["--config-file", settings, "--cache-dir", "/dev/null", "-p", "bentpipe"]);
        command("stubtest", &["--mypy-config-file", settings, "bentpipe"]);
        // The book, with the reference of the package: a warning is an error.
        command("sphinx-build", &["-W", "--keep-going", "-q", "-d", "doctrees", "-b", "html", pages, book]);
    });
}
