//! The project's own rules, as far as a program can check them.

mod book;
mod doors;
mod modules;
mod programs;
mod ratchet;
mod source;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{files, floors, root};
use modules::Circle;
use ratchet::Ratchet;
use source::sources;
use words::{Hit, Rules};

/// Allowed dependencies between the crates of the workspace: one way only.
const MAY_USE: &[(&str, &[&str])] = &[
    ("bentpipe-units", &[]),
    ("bentpipe-testkit", &[]),
    ("bentpipe-wire", &["units"]),
    ("bentpipe-intake", &["units", "wire", "rohc", "hc"]),
    ("bentpipe-rohc", &[]),
    ("bentpipe-hc", &[]),
    ("bentpipe-cc", &["units"]),
    ("bentpipe-signalling", &["units"]),
    ("bentpipe-net", &["units", "wire"]),
    ("bentpipe-sim", &["units", "net"]),
    ("bentpipe-site", &["units", "wire", "net", "sim"]),
    ("bentpipe-transport", &["units", "wire", "intake", "cc", "net", "site", "dvb"]),
    ("bentpipe-mpeg", &["units", "wire", "net", "site", "transport", "dvb"]),
    ("bentpipe-dtn", &["units", "wire", "net", "site", "transport"]),
    ("bentpipe-dvb", &["units", "wire", "rohc", "net", "sim", "site"]),
    ("bentpipe-atm", &["units", "wire", "net", "sim", "site", "mpeg"]),
    ("bentpipe-wireless", &["units", "wire", "rohc", "net", "sim", "site"]),
    ("bentpipe-space", &["units", "wire", "net", "site"]),
    ("bentpipe-sensor", &["units", "wire", "net", "site", "wireless", "dtn"]),
    ("bentpipe-voice", &["units", "wire", "rohc", "hc", "net", "site", "transport"]),
    ("bentpipe-telephony", &["units", "wire", "net", "site", "signalling", "voice"]),
    ("bentpipe-emu", &["units", "net", "sim", "wire"]),
    (
        "bentpipe-scenario",
        &[
            "units",
            "cc",
            "net",
            "transport",
            "dvb",
            "dtn",
            "atm",
            "wireless",
            "sensor",
            "space",
            "voice",
            "telephony",
            "mpeg",
            "site",
        ],
    ),
    ("bentpipe-paths", &["scenario"]),
    ("bentpipe-record", &["units", "wire", "net", "sim", "site"]),
    (
        "bentpipe-assemble",
        &["units", "wire", "net", "transport", "dvb", "atm", "mpeg", "sim", "site", "scenario", "record"],
    ),
    (
        "bentpipe-lab",
        &[
            "units",
            "wire",
            "net",
            "transport",
            "dvb",
            "voice",
            "telephony",
            "mpeg",
            "dtn",
            "sim",
            "site",
            "scenario",
            "record",
            "assemble",
        ],
    ),
    ("bentpipe-campaign", &["units", "scenario", "record", "lab", "paths"]),
    ("bentpipe-report", &["units", "net", "record"]),
    (
        "bentpipe-study",
        &["units", "wire", "rohc", "net", "dvb", "scenario", "record", "assemble", "lab", "report", "paths"],
    ),
    ("bentpipe-gateway", &["units", "wire", "rohc", "net", "dvb", "emu", "scenario", "record", "paths"]),
    ("bentpipe-rtp", &["units", "wire", "transport", "emu", "record"]),
    ("bentpipe-phone", &["units", "wire", "net", "signalling", "voice", "telephony", "emu", "rtp"]),
    ("bentpipe-bundles", &["units", "wire", "dtn", "emu"]),
    ("bentpipe-pep", &["units", "net", "transport", "cc", "sim", "emu"]),
    (
        "bentpipe-emulation",
        &["units", "net", "atm", "sim", "scenario", "record", "assemble", "lab", "report", "study", "emu"],
    ),
    (
        "bentpipe-offline",
        &[
            "units", "wire", "intake", "rohc", "hc", "net", "site", "dvb", "mpeg", "voice", "scenario",
            "record", "assemble", "lab", "report", "paths",
        ],
    ),
    (
        "bentpipe",
        &[
            "paths",
            "units",
            "wire",
            "rohc",
            "net",
            "dvb",
            "dtn",
            "scenario",
            "record",
            "lab",
            "campaign",
            "report",
            "study",
            "emu",
            "gateway",
            "rtp",
            "signalling",
            "phone",
            "pep",
            "bundles",
            "emulation",
            "offline",
            "agent",
            "serve",
        ],
    ),
    ("bentpipe-rohc-c", &["rohc"]),
    (
        "bentpipe-py",
        &[
            "paths",
            "units",
            "wire",
            "cc",
            "rohc",
            "net",
            "transport",
            "dvb",
            "scenario",
            "record",
            "lab",
            "campaign",
            "report",
            "offline",
        ],
    ),
    ("bentpipe-agent", &["units", "scenario"]),
    ("bentpipe-serve", &["units", "wire", "scenario", "record", "lab", "report", "emu", "agent"]),
    (
        "bentpipe-bench",
        &[
            "paths",
            "units",
            "net",
            "transport",
            "dvb",
            "atm",
            "sim",
            "scenario",
            "record",
            "assemble",
            "lab",
            "report",
            "study",
            "emu",
            "gateway",
        ],
    ),
    ("xtask", &[]),
];

/// No source file is longer than this, tests apart.
const MAX_LINES: usize = 800;

/// Checks all rules and lists every breach.
///
/// # Errors
/// Returns an error if there is any.
pub(crate) fn run() -> Result<()> {
    let packages = packages()?;
    let hits = Rules::new()?.hits(root())?;
    let mut breaches: Vec<String> = packages.iter().flat_map(forbidden_dependencies).collect();
    breaches.extend(floors::breaches(&packages));
    breaches.extend(long_files());
    breaches.extend(model_pages());
    breaches.extend(architecture());
    breaches.extend(doors::breaches());
    breaches.extend(book::breaches(root()));
    breaches.extend(programs::breaches(root()));
    breaches.extend(limits(&packages, &hits)?);
    if breaches.is_empty() {
        println!("tidy: all rules hold");
        return Ok(());
    }
    breaches.iter().for_each(|breach| println!("tidy: {breach}"));
    bail!("rules are broken")
}

/// Lists the breaches of rules on words whose name contains `name`.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub(crate) fn list(name: &str) -> Result<()> {
    let hits = Rules::new()?.hits(root())?;
    let wanted = hits.iter().filter(|hit| hit.rule.contains(name));
    wanted.for_each(|hit| println!("{}: {}", ratchet::shown_place(hit).trim_start(), hit.rule));
    Ok(())
}

/// Lowers the committed limits to the present counts.
///
/// # Errors
/// Returns an error if a file cannot be read or written.
pub(crate) fn update() -> Result<()> {
    let rules = Rules::new()?;
    let counts = words::counts(&rules, &rules.hits(root())?);
    Ratchet::read()?.update(&circles(&packages()?), &counts)
}

fn limits(packages: &[Value], hits: &[Hit]) -> Result<Vec<String>> {
    let (ratchet, counts) = (Ratchet::read()?, words::counts(&Rules::new()?, hits));
    let slack = ratchet.slack(&counts);
    if slack > 0 {
        println!("tidy: {slack} limits can be lowered: cargo xtask tidy --update");
    }
    Ok([ratchet.new_circles(&circles(packages)), ratchet.new_words(&counts, hits)].concat())
}

/// Finds the circles of crates, and of modules in each crate.
fn circles(packages: &[Value]) -> Vec<Circle> {
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let uses = |package: &Value| -> BTreeMap<String, String> {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let used = dependencies.filter_map(|dependency| dependency["name"].as_str());
        // A crate's tests may switch features of the crate itself on.
        let others = used.filter(|used| names.contains(used) && package["name"] != *used);
        others.map(|used| (short(used), used.to_string())).collect()
    };
    let edges =
        packages.iter().map(|package| (short(package["name"].as_str().unwrap_or_default()), uses(package)));
    let mut found = modules::circles_of("crates", &edges.collect());
    for package in packages {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().unwrap_or(manifest).join("src");
        found.extend(modules::circles(&short(package["name"].as_str().unwrap_or_default()), &folder));
    }
    found
}

fn short(package: &str) -> String {
    package.strip_prefix("bentpipe-").unwrap_or(package).to_string()
}

fn packages() -> Result<Vec<Value>> {
    let metadata = crate::metadata()?;
    Ok(metadata["packages"].as_array().context("no packages in cargo metadata")?.clone())
}

fn forbidden_dependencies(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{name} is not in the table of crates (xtask/src/tidy.rs)")];
    };
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
    let used: BTreeSet<&str> =
        normal.filter_map(|dependency| dependency["name"].as_str()?.strip_prefix("bentpipe-")).collect();
    let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
    let forbidden =
        used.difference(&allowed).map(|used| format!("{name} must not depend on bentpipe-{used}"));
    let absent = allowed.difference(&used).map(|used| {
        format!(
            "{name} may use {used} by the table of crates (xtask/src/tidy.rs), and does not: leave it out"
        )
    });
    forbidden.chain(absent).collect()
}

fn long_files() -> Vec<String> {
    let sources = sources(root());
    sources
        .into_iter()
        .filter_map(|path| {
            let lines =
                std::fs::read_to_string(&path).ok()?.lines().take_while(|l| *l != "mod tests {").count();
            let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            (lines > MAX_LINES).then(|| format!("{shown} has {lines} lines, more than {MAX_LINES}"))
        })
        .collect()
}

/// Checks that every model's page has its limits and its validation.
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
