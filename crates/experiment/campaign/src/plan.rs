//! Planning: a folder from a scenario.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use bentpipe_lab::plan::{Points, Seeds};
use bentpipe_record::{VERSION, update_checksums, write_json, write_whole};
use bentpipe_scenario::{Access, Document};
use sha2::{Digest, Sha256};

use crate::manifest::{FORMAT, MANIFEST_FILE, Manifest, SCENARIO_FILE};
use crate::{CampaignError, Result, at, named};

/// The most points that are read while planning, without the values of the axes.
const MAX_READ: usize = 1000;

/// A campaign that was planned.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Contents of its manifest.
    pub manifest: Manifest,
    /// Number of points that were read and checked.
    pub checked: u64,
}

/// Writes the folder of a campaign. A sample of the points is read and checked; all, if there are at most 1000.
///
/// Files that the scenario names by a path within its folder are copied. Others stay where they are, and every machine needs
/// them there.
///
/// # Errors
/// Returns an error if a point is invalid, the seeds are swept, a file cannot be read or written, or the folder has another
/// campaign.
pub fn plan(
    document: &Document,
    settings: &[String],
    seeds: Seeds,
    folder: &Path,
    build: &str,
) -> Result<Planned> {
    let refused = |error: &dyn std::fmt::Display| CampaignError::File(error.to_string());
    let mut points = Points::new(document, seeds);
    let count = points.len();
    let lengths: Vec<usize> = document.axes().map(|(_, length)| length).collect();
    let first = points.at(0).map_err(|error| refused(&error))?;
    let keys: Vec<String> = first.settings.iter().map(|setting| setting.key.clone()).collect();
    if let Some(key) = keys.iter().find(|key| ["seed", "seeds"].contains(&&key[..])) {
        let problem = format!("\"{key}\" is swept: expected the seeds of every point to be the same");
        return Err(refused(&document.refusal("sweep", problem)));
    }
    let sample = sample(&lengths, count);
    for &index in &sample {
        points.at(index).map_err(|error| refused(&error))?;
    }
    let known = points.into_inputs();
    let text = document.text().as_bytes();
    let mut inputs: BTreeMap<String, String> = BTreeMap::new();
    inputs.insert(SCENARIO_FILE.into(), hex(&Sha256::digest(text)));
    fs::create_dir_all(folder.join("parts")).map_err(at(folder))?;
    for (path, hash) in &known {
        inputs.insert(carried(document.access(), path, folder)?, hash.to_hex());
    }
    let first_seed = first.seeds.first().copied().unwrap_or(first.scenario.seed);
    let manifest = Manifest {
        format: FORMAT,
        title: first.scenario.title.clone(),
        version: VERSION.to_owned(),
        build: build.to_owned(),
        scenario: document.name().to_owned(),
        settings: settings.to_vec(),
        axes: document.axes().map(|(name, length)| (name.to_owned(), length as u64)).collect(),
        keys,
        points: count as u64,
        first_seed,
        seeds: u32::try_from(first.seeds.len()).unwrap_or(u32::MAX),
        hash: hash(&inputs, settings, (first_seed, first.seeds.len())),
        inputs,
    };
    let path = folder.join(MANIFEST_FILE);
    if let Ok(bytes) = fs::read(&path) {
        let old: Manifest = serde_json::from_slice(&bytes).map_err(at(&path))?;
        if old.hash != manifest.hash || old.build != manifest.build {
            return Err(refused(&format!(
                "{}: has another campaign (\"{}\" by build {}): expected an empty folder",
                folder.display(),
                old.title,
                old.build
            )));
        }
    }
    write_whole(&folder.join(SCENARIO_FILE), |file| std::io::Write::write_all(file, text)).map_err(named)?;
    write_json(&path, &manifest).map_err(named)?;
    update_checksums(folder, &[MANIFEST_FILE]).map_err(named)?;
    Ok(Planned { manifest, checked: sample.len() as u64 })
}

/// Returns the numbers of the points to read.
///
/// They are all, or some evenly spread with every value of each axis.
fn sample(lengths: &[usize], count: usize) -> Vec<usize> {
    if count <= MAX_READ {
        return (0..count).collect();
    }
    let spread = (0..MAX_READ).map(|n| n * (count - 1) / (MAX_READ - 1));
    let steps = (0..lengths.len()).map(|axis| lengths[axis + 1..].iter().product::<usize>());
    let along = lengths.iter().zip(steps).flat_map(|(&length, step)| {
        // Of an axis of many values the ends and some between.
        let values = length.min(MAX_READ);
        (0..values).map(move |n| n * (length - 1) / (values - 1).max(1) * step)
    });
    let mut all: Vec<usize> = spread.chain(along).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Copies a file of the scenario's folder into that of the campaign. Returns its path for the manifest.
fn carried(from: &Access, path: &Path, to: &Path) -> Result<String> {
    let inner = path.strip_prefix(from.folder()).ok().filter(|inner| is_inside(inner));
    let Some(inner) = inner else {
        // Where names alone are known, none leads elsewhere.
        let is_path = !from.folder().as_os_str().is_empty() || from.open(path).is_ok();
        let whole = if is_path { path.canonicalize().ok() } else { None };
        return Ok(whole.unwrap_or_else(|| path.to_owned()).to_string_lossy().into_owned());
    };
    let copy: PathBuf = to.join(inner);
    let source = from.open(inner).ok().filter(|file| is_other_file(file, &copy));
    if let Some(mut source) = source {
        copy.parent().map_or(Ok(()), fs::create_dir_all).map_err(at(&copy))?;
        write_whole(&copy, |file| std::io::copy(&mut source, file).map(drop)).map_err(named)?;
    }
    Ok(inner.to_string_lossy().into_owned())
}

/// Returns `true` if a file is regular, and another one than at a path.
fn is_other_file(file: &fs::File, path: &Path) -> bool {
    let Ok(own) = file.metadata() else { return false };
    let is_same = |other: fs::Metadata| (other.dev(), other.ino()) == (own.dev(), own.ino());
    own.is_file() && !path.metadata().is_ok_and(is_same)
}

fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn hash(inputs: &BTreeMap<String, String>, settings: &[String], seeds: (u64, usize)) -> String {
    let text = serde_json::json!([VERSION, inputs, settings, seeds]).to_string();
    hex(&Sha256::digest(text))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_ends_of_every_axis() {
        assert_eq!(sample(&[], 1), [0]);
        assert_eq!(sample(&[3, 4], 12), (0..12).collect::<Vec<_>>());
        let sample = sample(&[5, 100, 2000], 1_000_000);
        assert!(sample.len() <= 3 * MAX_READ && sample.iter().all(|index| *index < 1_000_000));
        for index in [0, 999_999, 1999, 99 * 2000, 4 * 200_000] {
            assert!(sample.contains(&index), "{index}");
        }
    }

    #[test]
    fn only_paths_below_the_folder_are_inside() {
        assert!(is_inside(Path::new("traces/a.txt")) && is_inside(Path::new("./a")));
        assert!(!is_inside(Path::new("../a")) && !is_inside(Path::new("/a")));
    }
}
