//! Software bill of materials (CycloneDX 1.5).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{VERSION, output};

/// Packages that are shipped.
const SHIPPED: &[&str] = &["bentpipe", "bentpipe-py"];

/// Writes the crates that the shipped packages are linked from, with versions and licences.
pub(super) fn write(path: &Path) -> Result<()> {
    let text = output(
        "cargo",
        &["metadata", "--locked", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"],
    )?;
    let metadata: Value = serde_json::from_str(&text)?;
    let linked = linked(&metadata).context("unknown form of cargo metadata")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let is_linked = |package: &&Value| package["id"].as_str().is_some_and(|id| linked.contains(id));
    let components: Vec<Value> = packages.iter().filter(is_linked).map(component).collect();
    let materials = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "bentpipe", "version": VERSION } },
        "components": components,
    });
    Ok(std::fs::write(path, serde_json::to_string_pretty(&materials)? + "\n")?)
}

fn component(package: &Value) -> Value {
    let (name, version) = (&package["name"], &package["version"]);
    let url =
        format!("pkg:cargo/{}@{}", name.as_str().unwrap_or_default(), version.as_str().unwrap_or_default());
    let licences: Vec<Value> =
        package["license"].as_str().into_iter().map(|licence| json!({ "expression": licence })).collect();
    json!({ "type": "library", "name": name, "version": version, "purl": url, "licenses": licences })
}

/// Returns the identifiers of all packages that the shipped ones depend on, tests and builds left out.
fn linked(metadata: &Value) -> Option<BTreeSet<&str>> {
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let uses: BTreeMap<&str, Vec<&str>> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, normal(node)))).collect();
    let is_shipped = |package: &&Value| package["name"].as_str().is_some_and(|name| SHIPPED.contains(&name));
    let shipped = metadata["packages"].as_array()?.iter().filter(is_shipped);
    let mut open: Vec<&str> = shipped.filter_map(|package| package["id"].as_str()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(uses.get(id).into_iter().flatten());
        }
    }
    Some(found)
}

fn normal(node: &Value) -> Vec<&str> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let is_normal = |dependency: &&Value| {
        dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
    };
    dependencies.filter(is_normal).filter_map(|dependency| dependency["pkg"].as_str()).collect()
}
