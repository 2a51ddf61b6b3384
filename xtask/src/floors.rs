//! The floors of the house: the folders of `crates`, each of which uses itself and those below it.

use std::path::PathBuf;

use serde_json::Value;

use crate::root;

/// From the lowest floor to the highest.
pub(crate) const FLOORS: [&str; 6] = ["ground", "engine", "model", "experiment", "live", "face"];

/// Returns the folder of a crate, below the root of the repository.
pub(crate) fn folder_of(name: &str) -> Option<String> {
    let folders = FLOORS.iter().map(|floor| format!("crates/{floor}/{name}"));
    folders.into_iter().find(|folder| root().join(folder).join("Cargo.toml").exists())
}

/// Returns the folders of all crates, in a fixed order.
pub(crate) fn folders() -> Vec<PathBuf> {
    let floors = FLOORS.iter().map(|floor| root().join("crates").join(floor));
    let mut folders: Vec<PathBuf> = floors
        .flat_map(|floor| std::fs::read_dir(floor).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    folders
}

/// Returns a message for each crate that stands on no floor, or uses a crate of a higher one.
pub(crate) fn breaches(packages: &[Value]) -> Vec<String> {
    packages.iter().flat_map(|package| breaches_of(package, packages)).collect()
}

fn breaches_of(package: &Value, packages: &[Value]) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some(own) = floor(package) else {
        let is_outside = ["xtask", "bentpipe-bench"].contains(&name);
        return if is_outside { Vec::new() } else { vec![format!("{name} stands on none of {FLOORS:?}")] };
    };
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
    let used =
        normal.filter_map(|dependency| packages.iter().find(|other| other["name"] == dependency["name"]));
    used.filter(|used| floor(used).is_some_and(|floor| floor > own))
        .map(|used| {
            format!("{name} must not use {} of a higher floor", used["name"].as_str().unwrap_or_default())
        })
        .collect()
}

/// Returns the number of a package's floor, 0 for the lowest.
fn floor(package: &Value) -> Option<usize> {
    let manifest = package["manifest_path"].as_str()?;
    FLOORS.iter().position(|floor| manifest.contains(&format!("/crates/{floor}/")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_floor_uses_itself_and_lower_ones() {
        let package = |name: &str, folder: &str, uses: &[&str]| {
            let uses: Vec<Value> = uses.iter().map(|used| json!({ "name": used, "kind": null })).collect();
            json!({ "name": name, "manifest_path": format!("/x/{folder}/Cargo.toml"), "dependencies": uses })
        };
        let packages = [
            package("a", "crates/ground/a", &["b"]),
            package("b", "crates/ground/b", &["c", "serde"]),
            package("c", "crates/engine/c", &["a"]),
            package("d", "crates/d", &[]),
        ];
        assert_eq!(
            breaches(&packages),
            ["b must not use c of a higher floor".to_owned(), format!("d stands on none of {FLOORS:?}"),]
        );
    }

    #[test]
    fn crates_are_found_by_name() {
        assert_eq!(folder_of("wire").as_deref(), Some("crates/ground/wire"));
        assert_eq!(folder_of("no"), None);
        assert!(folders().contains(&root().join("crates/ground/wire")));
    }
}
