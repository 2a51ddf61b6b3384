//! The commands that README, the book and `--help` show, run as a reader would; and the generated reference.
//!
//! A `console` block holds commands behind a prompt, `$` for any user and `#` for root, each followed by lines that its
//! output must contain in this order. Comments in front of a block say what is special about it: see [`page::Mark`].
#![allow(clippy::print_stderr, reason = "says why a command is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for programs in real time")]

mod help;
mod page;
mod reference;
mod security;
mod session;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use bentpipe_testkit::Apart;
use page::Page;

/// Pages of a test that are followed at a time.
const AT_A_TIME: usize = 2;

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the repository")
}

/// Returns the Markdown pages of a folder, sorted.
fn pages(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder").flatten();
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    pages
}

/// Follows the pages of folders, some at a time: most of their time they wait for a program.
fn run_all(folders: &[&str]) {
    let pages: Vec<Vec<PathBuf>> = folders.iter().map(|folder| pages(folder)).collect();
    assert!(pages.iter().all(|pages| !pages.is_empty()), "no pages in one of {folders:?}");
    side_by_side(&pages.concat());
}

/// Follows pages, some at a time where each can have namespaces of its own.
fn side_by_side(pages: &[PathBuf]) {
    let (next, is_apart) = (AtomicUsize::new(0), Apart::make().is_some());
    std::thread::scope(|scope| {
        for _ in 0..if is_apart { AT_A_TIME } else { 1 } {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    session::run(&Page::read(page));
                }
            });
        }
    });
}

#[test]
fn commands_of_the_readme_run() {
    side_by_side(&["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|page| root().join(page)));
}

#[test]
fn commands_of_tutorials_run() {
    run_all(&["docs/tutorial"]);
}

#[test]
fn commands_of_how_to_pages_run() {
    run_all(&["docs/how-to"]);
}

#[test]
fn commands_of_the_reference_run() {
    run_all(&["docs/reference", "docs"]);
}

#[test]
fn commands_of_explanations_and_models_run() {
    run_all(&["docs/explanation", "docs/models"]);
}
