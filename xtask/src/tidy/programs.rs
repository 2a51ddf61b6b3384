//! Test programs: one for each crate, as each is compiled apart and linked with everything.

use std::path::{Path, PathBuf};

use crate::floors;

/// Words of the head of a test that has a program to itself.
const REASON: &str = "A program of its own, because";

/// Returns a message for each file of a `tests` folder that no program contains, and each program more than one.
pub(super) fn breaches(root: &Path) -> Vec<String> {
    floors::folders().iter().flat_map(|folder| of_crate(root, folder)).collect()
}

fn of_crate(root: &Path, folder: &Path) -> Vec<String> {
    let tests = std::fs::read_dir(folder.join("tests")).into_iter().flatten().flatten();
    let mut sources: Vec<PathBuf> = tests.map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
    sources.sort();
    if sources.len() < 2 {
        return Vec::new();
    }
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let (main, manifest) = (read(&folder.join("tests/main.rs")), read(&folder.join("Cargo.toml")));
    let found = sources.iter().filter_map(|path| {
        let what = breach(&read(path), path.file_stem()?.to_str()?, &main, &manifest)?;
        Some(format!("{}: {what}", path.strip_prefix(root).unwrap_or(path).display()))
    });
    found.collect()
}

/// Returns the fault of one file, whose name and text are given, of a crate with several.
fn breach(text: &str, name: &str, main: &str, manifest: &str) -> Option<&'static str> {
    let is_module = name == "main" || main.lines().any(|line| line == format!("mod {name};"));
    let is_program = manifest.contains(&format!("path = \"tests/{name}.rs\""));
    match (is_module, is_program) {
        (false, false) => Some("no test program contains it; add it to tests/main.rs"),
        (false, true) if !text.lines().any(|line| line.starts_with(&format!("//! {REASON}"))) => {
            Some("a second test program whose head does not say \"A program of its own, because ...\"")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_module_or_says_why_it_is_alone() {
        let (main, manifest) = ("mod links;\n", "path = \"tests/main.rs\"\npath = \"tests/counted.rs\"\n");
        let breach = |name, text| breach(text, name, main, manifest);
        assert_eq!(breach("main", ""), None);
        assert_eq!(breach("links", ""), None);
        assert!(breach("forgotten", "").expect("a breach").contains("tests/main.rs"));
        assert!(breach("counted", "//! Counts.\n").expect("a breach").contains("because"));
        assert_eq!(breach("counted", "//! A program of its own, because its allocator counts.\n"), None);
    }
}
