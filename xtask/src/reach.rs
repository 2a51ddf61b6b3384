//! Reach of a change: the packages whose tests it may fail, by the edges between packages and by the files that tests read.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{floors, output_of, text_of};

/// Folders with files that tests read, and the lowest package whose tests do.
const READ_BY: &[(&str, &str)] = &[
    ("contrib/", "bentpipe-wire"),
    ("docs/", "bentpipe-py"),
    ("gateway/", "bentpipe-gateway"),
    ("notebooks/", "bentpipe-py"),
    ("scenarios/", "bentpipe-assemble"),
    ("sites/", "bentpipe-serve"),
    ("studies/", "bentpipe-scenario"),
];
/// Files that every build depends on.
const OF_EVERY_BUILD: &[&str] =
    &["Cargo.toml", "Cargo.lock", "clippy.toml", "rust-toolchain.toml", ".cargo/"];
/// Package whose results the baselines and the published values are compared with.
const OF_RESULTS: &str = "bentpipe-study";

/// Parts of the project that a change reaches.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reach {
    /// Packages whose tests it may fail.
    pub(crate) packages: BTreeSet<String>,
    /// Set if a page of the book changed.
    pub(crate) has_pages: bool,
    /// Set if results of simulations may change.
    pub(crate) has_results: bool,
}

/// A package with its folder and what it depends on.
struct Package {
    name: String,
    /// Folder from the root, with a slash at its end.
    folder: String,
    /// Packages that its library or program is built with.
    uses: Vec<String>,
    /// Packages that only its tests are built with.
    tests_use: Vec<String>,
}

/// Returns the reach of the files that differ from the branch `main` of `origin`, with those that are not committed.
///
/// # Errors
/// Returns an error outside a repository of Git.
pub(crate) fn of_change() -> Result<Reach> {
    let packages = packages()?;
    let files = changed()?;
    println!("{} files differ from the main branch", files.len());
    Ok(reach(&packages, &files))
}

fn changed() -> Result<Vec<String>> {
    let bases = ["origin/main", "main"].map(|branch| output_of("git", &["merge-base", "HEAD", branch]));
    let base = bases.into_iter().flatten().next().unwrap_or_else(|| "HEAD".to_owned());
    let differing = text_of("git", &["diff", "--name-only", base.trim()])?;
    let new = output_of("git", &["ls-files", "--others", "--exclude-standard"]).unwrap_or_default();
    Ok(differing.lines().chain(new.lines()).map(str::to_owned).collect())
}

fn reach(packages: &[Package], files: &[String]) -> Reach {
    let starts = |file: &str, list: &[&str]| list.iter().any(|start| file.starts_with(start));
    let any = |list: &[&str]| files.iter().any(|file| starts(file, list));
    if any(OF_EVERY_BUILD) {
        let all = packages.iter().map(|package| package.name.clone()).collect();
        return Reach { packages: all, has_pages: true, has_results: true };
    }
    let read = READ_BY.iter().filter(|(folder, _)| any(&[folder])).map(|(_, package)| *package);
    let changed: BTreeSet<&str> = files.iter().filter_map(|file| owner(packages, file)).chain(read).collect();
    let built = built_with(packages, changed);
    let has_pages = any(&["docs/"]) || files.iter().any(|file| !file.contains('/') && file.ends_with(".md"));
    let has_results = built.contains(OF_RESULTS) || any(&["benches/golden/"]);
    let mut reached = tested_with(packages, built);
    if has_results {
        // Their programs run studies and baselines.
        reached.extend(["bentpipe", "bentpipe-bench"].map(str::to_owned));
    }
    Reach { has_pages, has_results, packages: reached }
}

/// Returns the package that a file belongs to. A fuzz target belongs to the package whose decoder it calls.
fn owner<'a>(packages: &'a [Package], file: &str) -> Option<&'a str> {
    let target = file.strip_prefix("fuzz/src/").and_then(|file| file.strip_suffix(".rs"));
    let folder = target.and_then(floors::folder_of).map_or_else(|| file.to_owned(), |folder| folder + "/");
    packages.iter().find(|package| folder.starts_with(&package.folder)).map(|package| &*package.name)
}

/// Returns packages with all that are built with them.
fn built_with(packages: &[Package], changed: BTreeSet<&str>) -> BTreeSet<String> {
    let mut built: BTreeSet<String> = changed.into_iter().map(str::to_owned).collect();
    loop {
        let more = packages.iter().filter(|package| package.uses.iter().any(|used| built.contains(used)));
        let more: Vec<String> = more.map(|package| package.name.clone()).collect();
        let before = built.len();
        built.extend(more);
        if built.len() == before {
            return built;
        }
    }
}

/// Returns packages with those whose tests are built with them.
fn tested_with(packages: &[Package], mut built: BTreeSet<String>) -> BTreeSet<String> {
    let tested = packages.iter().filter(|package| package.tests_use.iter().any(|used| built.contains(used)));
    let tested: Vec<String> = tested.map(|package| package.name.clone()).collect();
    built.extend(tested);
    built
}

fn packages() -> Result<Vec<Package>> {
    let metadata = crate::metadata()?;
    let root = metadata["workspace_root"].as_str().context("a workspace has a root")?;
    let packages = metadata["packages"].as_array().context("a workspace has packages")?;
    packages.iter().map(|value| package(value, root).context("a package of cargo metadata")).collect()
}

fn package(value: &Value, root: &str) -> Option<Package> {
    let folder = value["manifest_path"].as_str()?.strip_prefix(root)?.trim_start_matches('/');
    let folder = folder.strip_suffix("Cargo.toml")?.to_owned();
    let of_kind = |is_test: bool| {
        let all = value["dependencies"].as_array().into_iter().flatten();
        let some = all.filter(move |dependency| (dependency["kind"] == "dev") == is_test);
        some.filter_map(|dependency| dependency["name"].as_str()).map(str::to_owned).collect()
    };
    Some(Package {
        name: value["name"].as_str()?.to_owned(),
        folder,
        uses: of_kind(false),
        tests_use: of_kind(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach_of(files: &[&str]) -> Reach {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        reach(&packages().expect("packages"), &files)
    }

    #[test]
    fn a_leaf_reaches_those_that_are_built_with_it() {
        let reach = reach_of(&["crates/ground/hc/src/lib.rs"]);
        assert!(
            ["bentpipe-hc", "bentpipe-voice", "bentpipe"].iter().all(|name| reach.packages.contains(*name))
        );
        assert!(!reach.packages.contains("bentpipe-cc") && !reach.has_pages);
    }

    #[test]
    fn a_dependency_of_tests_reaches_the_tests_alone() {
        let reach = reach_of(&["crates/ground/testkit/src/lib.rs"]);
        assert!(reach.packages.contains("bentpipe-wire") && !reach.packages.contains("bentpipe-units"));
        assert!(!reach.has_results);
    }

    #[test]
    fn pages_examples_and_manifests_reach_what_reads_them() {
        assert!(reach_of(&["README.md"]) == Reach { has_pages: true, ..Reach::default() });
        let examples = reach_of(&["scenarios/geo.toml"]);
        assert!(examples.has_results && examples.packages.contains("bentpipe"));
        assert!(!examples.packages.contains("bentpipe-scenario"));
        let all = reach_of(&["Cargo.lock"]);
        assert!(all.packages.contains("bentpipe-units") && all.packages.contains("xtask") && all.has_results);
    }

    #[test]
    fn a_fuzz_target_belongs_to_its_decoder() {
        assert_eq!(owner(&packages().expect("packages"), "fuzz/src/rohc.rs"), Some("bentpipe-rohc"));
    }

    #[test]
    fn a_failure_has_the_words_of_the_command() {
        let failure =
            text_of("cargo", &["metadata", "--manifest-path", "none/Cargo.toml"]).expect_err("none");
        let failure = format!("{failure:#}");
        assert!(failure.contains("`cargo metadata") && failure.contains("does not exist"), "{failure}");
        let failure = text_of("no-such-program", &["word"]).expect_err("none");
        assert!(format!("{failure:#}").starts_with("`no-such-program word` does not start: No such file"));
    }
}
