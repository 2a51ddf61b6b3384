//! Tests that the tables of "Security of the test controller" and of "Test controller" name.

use std::collections::BTreeSet;
use std::path::Path;

use super::root;

/// Reads the sources of the workspace.
fn sources(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// Returns the names of all tests.
fn tests() -> BTreeSet<String> {
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    let name = |rest: &str| rest.split_once('(').map(|(name, _)| name.trim().to_owned());
    let of = |source: &String| -> Vec<String> {
        let marks = ["#[test]", "#[tokio::test"].into_iter();
        let starts = marks.flat_map(|mark| source.match_indices(mark));
        starts.filter_map(|(at, _)| name(source[at..].split_once("fn ")?.1)).collect()
    };
    all.iter().flat_map(of).collect()
}

/// Returns the rows of tables with a column of tests: the cell of tests, and the whole row.
fn rows(page: &str) -> Vec<(String, &str)> {
    let (mut found, mut column) = (Vec::new(), None);
    let mut is_head = true;
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            (column, is_head) = (None, true);
        } else if std::mem::take(&mut is_head) {
            column = cells.iter().position(|cell| matches!(*cell, "test" | "tested by"));
        } else if let Some(at) = column.filter(|_| !line.starts_with("|--")) {
            found.push((cells.get(at).copied().unwrap_or_default().to_owned(), line));
        }
    }
    found
}

/// Returns `true` if a name in the cell of tests is there.
fn exists(name: &str, tests: &BTreeSet<String>) -> bool {
    let at = |path: String| root().join(path).exists();
    let is_test = match name.strip_suffix("...") {
        Some(start) => tests.range(start.to_owned()..).next().is_some_and(|name| name.starts_with(start)),
        None => tests.contains(name),
    };
    // A program with its arguments is run elsewhere.
    is_test
        || name.contains(' ')
        || at(format!("fuzz/fuzz_targets/{name}.rs"))
        || name.ends_with(".rs")
            && (at(format!("crates/face/bentpipe/tests/serve/{name}"))
                || at(format!("crates/face/serve/src/{name}")))
        || name.contains('/') && at(name.to_owned())
}

#[test]
fn each_row_of_the_tables_on_security_names_tests_that_exist() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a page");
    let pages = ["docs/explanation/security.md", "docs/serve.md"].map(read);
    let (tests, rows) = (tests(), pages.iter().flat_map(|page| rows(page)).collect::<Vec<_>>());
    assert!(rows.len() > 115 && tests.len() > 1000, "{} rows, {} tests", rows.len(), tests.len());
    for (cell, row) in rows {
        let is_left_out =
            row.trim_end_matches('|').rsplit('|').next().is_some_and(|last| !last.trim().is_empty());
        assert!(!cell.is_empty() || is_left_out, "neither a test nor a reason: {row}");
        assert!(!matches!(&cell[..], "unit" | "fuzz targets"), "no test by its name: {row}");
        for name in cell.split('`').skip(1).step_by(2) {
            assert!(exists(name, &tests), "no test `{name}`: {row}");
        }
    }
}
