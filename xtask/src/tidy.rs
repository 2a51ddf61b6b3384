//! The project's own rules, as far as a program can check them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{files, output_of, root};

/// Which crates of the workspace a crate may depend on: DESIGN's one-way street.
const MAY_USE: &[(&str, &[&str])] = &[
    ("bentpipe-units", &[]),
    ("bentpipe-wire", &["units"]),
    ("bentpipe-rohc", &["wire", "units"]),
    ("bentpipe-cc", &["units"]),
    ("bentpipe-net", &["units", "wire", "rohc", "cc"]),
    ("bentpipe-sim", &["units", "net"]),
    ("bentpipe-emu", &["units", "net", "sim", "wire", "cc", "rohc"]),
    ("bentpipe-lab", &["units", "wire", "rohc", "cc", "net", "sim"]),
    ("bentpipe", &["units", "wire", "rohc", "cc", "net", "sim", "lab", "emu"]),
    ("bentpipe-bench", &["units", "wire", "rohc", "cc", "net", "sim", "emu", "lab"]),
    ("xtask", &[]),
];

/// No source file is longer than this, tests apart.
const MAX_LINES: usize = 800;

/// Checks all rules and lists every breach.
///
/// # Errors
/// If there is any.
pub(crate) fn run() -> Result<()> {
    let mut breaches = dependencies()?;
    breaches.extend(long_files());
    breaches.extend(model_pages());
    breaches.extend(architecture());
    if breaches.is_empty() {
        println!("tidy: all rules hold");
        return Ok(());
    }
    breaches.iter().for_each(|breach| println!("tidy: {breach}"));
    bail!("{} rules broken", breaches.len())
}

fn dependencies() -> Result<Vec<String>> {
    let text = output_of("cargo", &["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&text.context("cargo metadata failed")?)?;
    let packages = metadata["packages"].as_array().context("no packages in cargo metadata")?;
    Ok(packages.iter().flat_map(forbidden_dependencies).collect())
}

fn forbidden_dependencies(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{name} is not in the table of crates (xtask/src/tidy.rs)")];
    };
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
    normal
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|used| used.starts_with("bentpipe"))
        .filter(|used| !allowed.iter().any(|short| *used == format!("bentpipe-{short}")))
        .map(|used| format!("{name} must not depend on {used}"))
        .collect()
}

fn long_files() -> Vec<String> {
    let sources = files(&root().join("crates"), ".rs").into_iter().filter(|path| !is_test(path));
    sources
        .filter_map(|path| {
            let lines =
                std::fs::read_to_string(&path).ok()?.lines().take_while(|l| *l != "mod tests {").count();
            let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            (lines > MAX_LINES).then(|| format!("{shown} has {lines} lines, more than {MAX_LINES}"))
        })
        .collect()
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// Every model's page says what it leaves out and how it was checked.
fn model_pages() -> Vec<String> {
    let pages = files(&root().join("docs/models"), ".md");
    let wanted = ["Scope", "Limits", "Validation", "References"];
    let missing = |page: &Path| {
        let text = std::fs::read_to_string(page).unwrap_or_default();
        let has = |title: &str| text.lines().any(|line| line.starts_with('#') && line.contains(title));
        let lacking = wanted.iter().filter(|title| !has(title)).map(|title| title.to_string());
        lacking.collect::<Vec<_>>()
    };
    let shown = |page: &Path| page.strip_prefix(root()).unwrap_or(page).display().to_string();
    pages
        .iter()
        .flat_map(|page| {
            missing(page).into_iter().map(move |title| format!("{} has no {title}", shown(page)))
        })
        .collect()
}

fn architecture() -> Option<String> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).ok();
    match text.map(|text| text.lines().count()) {
        None => Some("there is no ARCHITECTURE.md".into()),
        Some(lines) if lines > 250 => Some(format!("ARCHITECTURE.md has {lines} lines, more than 250")),
        Some(_) => None,
    }
}
