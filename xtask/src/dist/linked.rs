//! All crates of the lock file, and those of them that the shipped packages are linked from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::output;
use crate::root;

/// Packages that are shipped.
pub(super) const SHIPPED: &[&str] = &["bentpipe", "bentpipe-py"];

/// Crate of the lock file.
pub(super) struct Crate {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    /// Licence as an expression of SPDX.
    pub(super) licence: String,
    pub(super) authors: Vec<String>,
    /// Folder of its sources.
    pub(super) folder: PathBuf,
    /// SHA-256 of its archive on crates.io. Crates of the workspace have none.
    pub(super) checksum: Option<String>,
    /// Identifiers of the crates that it is linked with.
    pub(super) uses: Vec<String>,
    /// Set while a shipped package is linked from it. Others serve tests, builds and other platforms.
    pub(super) is_linked: bool,
}

impl Crate {
    /// Returns `true` if other people wrote it.
    pub(super) fn is_foreign(&self) -> bool {
        self.checksum.is_some()
    }

    /// Returns its name in bills of materials.
    pub(super) fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// Returns all crates of the lock file, by name and version.
pub(super) fn crates() -> Result<Vec<Crate>> {
    let metadata = metadata(&[])?;
    let target = "--filter-platform=x86_64-unknown-linux-gnu";
    let linked = linked(&self::metadata(&[target])?).context("unknown form of cargo metadata")?;
    let lock: toml::Value = toml::from_str(&std::fs::read_to_string(root().join("Cargo.lock"))?)?;
    let checksums = checksums(&lock);
    let uses = uses(&metadata).context("unknown form of cargo metadata")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut found: Vec<Crate> =
        packages.iter().filter_map(|package| read(package, &linked, &uses, &checksums)).collect();
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(found)
}

fn metadata(words: &[&str]) -> Result<Value> {
    let text = output("cargo", &[&["metadata", "--locked", "--format-version=1"], words].concat())?;
    Ok(serde_json::from_str(&text)?)
}

fn read(
    package: &Value,
    linked: &BTreeSet<String>,
    uses: &BTreeMap<String, Vec<String>>,
    checksums: &BTreeMap<(String, String), String>,
) -> Option<Crate> {
    let text = |key: &str| Some(package[key].as_str()?.to_owned());
    let (id, name, version) = (text("id")?, text("name")?, text("version")?);
    let authors = package["authors"].as_array()?.iter().filter_map(Value::as_str);
    Some(Crate {
        licence: text("license").unwrap_or_default().replace('/', " OR "),
        authors: authors.map(|author| author.split(" <").next().unwrap_or_default().to_owned()).collect(),
        folder: Path::new(&text("manifest_path")?).parent()?.to_owned(),
        checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
        uses: uses.get(&id).cloned().unwrap_or_default(),
        is_linked: linked.contains(&id),
        id,
        name,
        version,
    })
}

/// Returns the checksums of the lock file, by name and version.
fn checksums(lock: &toml::Value) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let read = |package: &toml::Value| {
        let text = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    packages.filter_map(read).collect()
}

/// Returns the identifiers of all crates that the shipped ones depend on, tests and builds left out.
fn linked(metadata: &Value) -> Option<BTreeSet<String>> {
    let uses = uses(metadata)?;
    let is_shipped = |package: &&Value| package["name"].as_str().is_some_and(|name| SHIPPED.contains(&name));
    let shipped = metadata["packages"].as_array()?.iter().filter(is_shipped);
    let mut open: Vec<String> = shipped.filter_map(|package| Some(package["id"].as_str()?.into())).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id.clone()) {
            open.extend(uses.get(&id).into_iter().flatten().cloned());
        }
    }
    Some(found)
}

/// Returns the crates that each crate is linked with.
fn uses(metadata: &Value) -> Option<BTreeMap<String, Vec<String>>> {
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    Some(nodes.iter().filter_map(|node| Some((node["id"].as_str()?.to_owned(), normal(node)))).collect())
}

fn normal(node: &Value) -> Vec<String> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let is_normal = |dependency: &&Value| {
        dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
    };
    dependencies.filter(is_normal).filter_map(|dependency| Some(dependency["pkg"].as_str()?.into())).collect()
}
