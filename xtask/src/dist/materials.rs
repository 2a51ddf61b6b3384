//! Software bill of materials (CycloneDX 1.5).

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::linked::Crate;
use super::{VERSION, output};

/// Identifier of the whole in the bill.
const WHOLE: &str = "bentpipe";

/// Writes all crates of the lock file with versions, licences and checksums, and what is linked but is not a crate.
///
/// Crates of tests, builds and other platforms have the scope `excluded`.
pub(super) fn write(crates: &[Crate], path: &Path) -> Result<()> {
    let mut components: Vec<Value> = crates.iter().map(component).collect();
    components.extend(others(crates)?);
    let materials = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "lifecycles": [{ "phase": "build" }],
            "component": { "type": "application", "bom-ref": WHOLE, "name": "bentpipe", "version": VERSION },
        },
        "components": components,
        "dependencies": dependencies(crates),
    });
    Ok(std::fs::write(path, serde_json::to_string_pretty(&materials)? + "\n")?)
}

fn component(part: &Crate) -> Value {
    let scope = if part.is_linked { "required" } else { "excluded" };
    let mut component = json!({
        "type": "library",
        "bom-ref": part.url(),
        "name": part.name,
        "version": part.version,
        "scope": scope,
        "licenses": [{ "expression": part.licence }],
        "purl": part.url(),
    });
    if let Some(checksum) = &part.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

/// Returns what is linked next to crates: SQLite, inside one of them, and the libraries of Rust and C.
fn others(crates: &[Crate]) -> Result<Vec<Value>> {
    let other = |name: &str, version: &str, licence: Value| json!({ "type": "library", "bom-ref": name, "name": name, "version": version, "scope": "required", "licenses": [licence] });
    let rust = output("rustc", &["--version"])?;
    let rust = rust.split(' ').nth(1).context("rustc names no version")?;
    Ok(vec![
        other("sqlite", &sqlite(crates)?, json!({ "license": { "id": "blessing" } })),
        other("rust-std", rust, json!({ "expression": "MIT OR Apache-2.0" })),
        other("glibc", &super::c_library()?, json!({ "license": { "id": "LGPL-2.1-or-later" } })),
    ])
}

/// Returns the version of SQLite in the sources of its crate.
fn sqlite(crates: &[Crate]) -> Result<String> {
    let part = crates.iter().find(|part| part.name == "libsqlite3-sys").context("no crate of SQLite")?;
    let header = std::fs::read_to_string(part.folder.join("sqlite3/sqlite3.h"))?;
    let version = header.split("#define SQLITE_VERSION ").nth(1).and_then(|rest| rest.split('"').nth(1));
    Ok(version.context("sqlite3.h names no version")?.to_owned())
}

fn dependencies(crates: &[Crate]) -> Vec<Value> {
    let url = |id: &String| crates.iter().find(|part| part.id == *id).map(Crate::url);
    let of_crate = |part: &Crate| {
        let uses: Vec<String> = part.uses.iter().filter_map(url).collect();
        json!({ "ref": part.url(), "dependsOn": uses })
    };
    let mut all: Vec<Value> = crates.iter().map(of_crate).collect();
    let shipped: Vec<String> = crates
        .iter()
        .filter(|part| super::linked::SHIPPED.contains(&part.name.as_str()))
        .map(Crate::url)
        .collect();
    all.push(json!({ "ref": WHOLE, "dependsOn": shipped }));
    all
}
