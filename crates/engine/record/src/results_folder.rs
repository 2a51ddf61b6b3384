//! Folders of results, read back by their manifests.

use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::checksums::verify;
use super::{VERSION, quoted};

/// Contents of a manifest that say where runs are.
#[derive(Deserialize)]
pub(crate) struct Manifest {
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) commit: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) runs: Vec<Run>,
}

/// Run of a manifest.
#[derive(Deserialize)]
pub(crate) struct Run {
    pub(crate) folder: PathBuf,
    pub(crate) settings: IndexMap<String, String>,
    pub(crate) seed: u64,
}

/// Folder of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
    /// Number of its point.
    pub(crate) point: usize,
    /// Settings of its point.
    pub(crate) settings: IndexMap<String, String>,
    pub(crate) seed: u64,
}

impl RunFolder {
    /// Returns the first fields of its rows: point, settings and seed.
    pub(crate) fn front(&self) -> String {
        let settings: String = self.settings.values().map(|value| quoted(value) + ",").collect();
        format!("{},{settings}{},", self.point, self.seed)
    }
}

/// Reads a manifest.
pub(crate) fn manifest(folder: &Path) -> Result<Manifest, String> {
    read_json(&folder.join("manifest.json"))
}

/// Returns the runs of a folder of results, in the order of the plan.
pub(crate) fn runs(folder: &Path) -> Result<Vec<RunFolder>, String> {
    let mut points: Vec<IndexMap<String, String>> = Vec::new();
    let of = |run: Run| {
        let known = points.iter().position(|settings| *settings == run.settings);
        let point = known.unwrap_or_else(|| {
            points.push(run.settings.clone());
            points.len() - 1
        });
        RunFolder { path: folder.join(run.folder), point, settings: run.settings, seed: run.seed }
    };
    Ok(manifest(folder)?.runs.into_iter().map(of).collect())
}

/// Reads a file of JSON.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    verify(path)?;
    let bytes = fs::read(path).map_err(|error| named(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| match maker(path) {
        Some(maker) => named(&format!("{error}; {maker} made it, and this program is version {VERSION}")),
        None => named(&error),
    })
}

/// Returns the version that made a file of results, with its commit.
///
/// A newer one may have written what this one does not know.
fn maker(path: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Maker {
        version: String,
        #[serde(default)]
        commit: Option<String>,
    }
    // A run's folder is two below that of the manifest.
    let manifest = path.ancestors().skip(1).take(3).map(|folder| folder.join("manifest.json"));
    let found = manifest.filter_map(|path| fs::read(path).ok()).next()?;
    let Maker { version, commit } = serde_json::from_slice(&found).ok()?;
    let commit = commit.map(|commit| format!(" of commit {commit}")).unwrap_or_default();
    Some(format!("version {version}{commit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_has_the_version_that_made_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("points/p000-s1");
        fs::create_dir_all(&run).expect("created");
        let file = run.join("outcome.json");
        fs::write(&file, "{\"hash\": 7}").expect("written");
        let unknown = read_json::<super::super::Outcome>(&file).expect_err("no text");
        assert!(!unknown.contains("version"), "{unknown}");
        let manifest = "{\"version\": \"9.1.0\", \"commit\": \"abc\"}";
        fs::write(folder.path().join("manifest.json"), manifest).expect("written");
        let known = read_json::<super::super::Outcome>(&file).expect_err("no text");
        assert!(
            known.contains("; version 9.1.0 of commit abc made it, and this program is version "),
            "{known}"
        );
    }
}
