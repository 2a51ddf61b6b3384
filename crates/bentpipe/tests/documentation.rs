//! The commands that README, the book and `--help` show, run as a reader would; and the generated reference.
//!
//! A `console` block holds commands behind a prompt, `$` for any user and `#` for root, each followed by lines that its
//! output must contain in this order. Comments in front of a block say what is special about it: see [`page::Mark`].
#![allow(clippy::print_stderr, reason = "says why a command is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for programs in real time")]

mod help;
mod page;
mod reference;
mod session;

use std::path::{Path, PathBuf};

use page::Page;

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Returns the Markdown pages of a folder, sorted.
fn pages(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder").flatten();
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    pages
}

fn run_all(folder: &str) {
    let pages = pages(folder);
    assert!(!pages.is_empty(), "no pages in {folder}");
    pages.iter().for_each(|path| session::run(&Page::read(path)));
}

#[test]
fn commands_of_the_readme_run() {
    for page in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        session::run(&Page::read(&root().join(page)));
    }
}

#[test]
fn commands_of_tutorials_run() {
    run_all("docs/tutorial");
}

#[test]
fn commands_of_how_to_pages_run() {
    run_all("docs/how-to");
}

#[test]
fn commands_of_the_reference_run() {
    ["docs/reference", "docs"].iter().for_each(|folder| run_all(folder));
}

#[test]
fn commands_of_explanations_and_models_run() {
    ["docs/explanation", "docs/models"].iter().for_each(|folder| run_all(folder));
}
