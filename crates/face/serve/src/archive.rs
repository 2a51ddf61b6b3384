//! Archives of jobs: their descriptions, and the reading of those that others made.
//!
//! An archive is a zip file with one folder. In it are the files of the results and [`NAME`], which lists them with their
//! hashes, and has the scenario and all settings. Nothing in an archive is believed before it was computed here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use bentpipe_emu::plain::is_unseen;
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_record::Summary;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use crate::clock::hex;
use crate::drafts;
use crate::inputs::{self, Inputs};
use crate::problem::{self, Problem};
use crate::store::files::Content;
use crate::store::jobs::{End, KindName, Question};
use crate::whole;

/// Name of the file that describes a job, in the folder of an archive.
pub(crate) const NAME: &str = "bentpipe-job.json";
/// Form of that file.
pub(crate) const FORMAT: u32 = 1;
/// Largest archive.
pub(crate) const MAX_PACKED: u64 = 256 << 20;
/// Most bytes of all files of an archive.
pub(crate) const MAX_UNPACKED: u64 = 1 << 30;
/// Most files of an archive.
pub(crate) const MAX_ENTRIES: usize = 20_000;
/// Most bytes of the description.
const MAX_DESCRIPTION: u64 = 16 << 20;
/// Most bytes of a zip file's directory.
const MAX_DIRECTORY: u32 = 16 << 20;
/// Most bytes and parts of a path.
const MAX_PATH: usize = 500;
const MAX_DEPTH: usize = 10;
/// Folder of an unpacked archive in the working folder.
pub(crate) const UNPACKED: &str = "archive";
/// File of a run's series.
const SERIES: &str = "series.parquet";
/// Most samples of a series that is imported: in memory they have 512 MiB.
const MAX_SAMPLES: u64 = 1 << 26;
/// Most bytes of the settings and fingerprints of all points.
const MAX_SETTINGS: usize = 16 << 20;
/// Largest file of results that is read to compare fingerprints.
const MAX_READ: u64 = 64 << 20;

/// Description of a job in its archive.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// Form, [`FORMAT`].
    pub(crate) format: u32,
    /// Version of the program that ran the job.
    pub(crate) program: String,
    /// Number of the job there.
    pub(crate) job: i64,
    pub(crate) kind: KindName,
    pub(crate) name: String,
    pub(crate) state: End,
    pub(crate) message: String,
    pub(crate) study: Option<String>,
    pub(crate) quick: bool,
    pub(crate) search: Option<Question>,
    /// Job file of a job on sites.
    pub(crate) sites: Option<String>,
    pub(crate) seeds: Option<u32>,
    pub(crate) duration: Option<String>,
    pub(crate) note: String,
    pub(crate) tags: Vec<String>,
    pub(crate) runs: i64,
    pub(crate) finished: i64,
    /// Times in milliseconds since 1970, UTC.
    pub(crate) created: i64,
    pub(crate) started: Option<i64>,
    pub(crate) ended: Option<i64>,
    /// Text of the scenario, unless it is a study.
    pub(crate) scenario: Option<String>,
    /// Files of users that the scenario names. Their content is in the folder `input`.
    pub(crate) inputs: Vec<Input>,
    /// Points with the fingerprints of their runs.
    pub(crate) points: Vec<Prints>,
    /// Other files of the archive.
    pub(crate) files: Vec<Entry>,
}

/// File that a scenario names.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// Fingerprints of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prints {
    /// Keys and values that the sweep set.
    pub(crate) settings: BTreeMap<String, String>,
    /// Fingerprints of the runs, in the order of the seeds.
    pub(crate) fingerprints: Vec<String>,
}

/// File of an archive.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Path in the folder of results.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// Archive that was read and found to be what it states.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) description: Description,
    /// Summary of its results.
    pub(crate) summary: Option<Summary>,
    /// Hash of the plan that its results state.
    pub(crate) plan: Option<String>,
}

/// Part of an outcome that is compared.
#[derive(Deserialize)]
struct Outcome {
    #[serde(default)]
    fingerprint: Option<String>,
}

/// Part of a manifest that is compared.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    hash: Option<String>,
}

/// Unpacks the archive of a job into a new folder.
///
/// Its checks are those of an import.
///
/// # Errors
/// Returns what is wrong with it, in words. The folder may have some of its files then.
pub fn unpack_archive(archive: &mut File, into: &Path) -> Result<(), String> {
    fs::create_dir(into).map_err(|error| format!("its folder: {error}"))?;
    unpack(archive, into).map(drop)
}

/// Archive whose list was read and checked.
struct Listed<'a> {
    zip: ZipArchive<&'a mut File>,
    /// Place of each file by its path.
    entries: BTreeMap<String, usize>,
    description: Description,
}

/// Reads the list of an archive.
///
/// # Errors
/// Returns what is wrong with it, in words.
fn list(archive: &mut File) -> Result<Listed<'_>, String> {
    let stated = check_end(archive)?;
    let mut zip =
        ZipArchive::new(archive).map_err(|error| format!("not a zip file that can be read: {error}"))?;
    if zip.len() != stated {
        return Err(format!(
            "{stated} files in its directory, of which {} have names of their own",
            zip.len()
        ));
    }
    let (folder, entries) = entries(&mut zip)?;
    let description = describe(&mut zip, &entries)?;
    check_list(&description, &entries, &folder)?;
    Ok(Listed { zip, entries, description })
}

/// Reads an archive into a folder.
///
/// # Errors
/// Returns what is wrong with it, in words.
pub(crate) fn unpack(archive: &mut File, into: &Path) -> Result<Unpacked, String> {
    let Listed { mut zip, entries, description } = list(archive)?;
    for entry in &description.files {
        extract(&mut zip, entries[&entry.path], entry, into)?;
    }
    check_inputs(&description)?;
    check_sums(&description, into)?;
    let summary: Option<Summary> = json_of(into, "summary.json")?;
    check_fingerprints(&description, summary.as_ref(), into)?;
    let plan: Option<Manifest> = json_of(into, "manifest.json")?;
    let plan = plan.and_then(|plan| plan.hash);
    Ok(Unpacked { description, summary, plan })
}

/// Returns the number of files in a zip file, before its directory is read.
///
/// Its layout is that of APPNOTE.TXT 6.3.10, section 4.3.16.
fn check_end(archive: &mut File) -> Result<usize, String> {
    const LENGTH: usize = 22;
    let mut end = [0; LENGTH];
    let read = archive.seek(SeekFrom::End(-(LENGTH as i64))).and_then(|_| archive.read_exact(&mut end));
    if read.is_err() || !end.starts_with(b"PK\x05\x06") {
        return Err("not a whole zip file, or one with a comment at its end".to_owned());
    }
    let entries = u16::from_le_bytes([end[10], end[11]]);
    let directory = u32::from_le_bytes([end[12], end[13], end[14], end[15]]);
    if usize::from(entries) > MAX_ENTRIES + 1 || directory > MAX_DIRECTORY {
        return Err(format!(
            "a directory of {entries} files in {directory} bytes: expected at most {MAX_ENTRIES} files"
        ));
    }
    Ok(usize::from(entries))
}

/// Returns the archive's folder, and the place of each file by its path.
fn entries(zip: &mut ZipArchive<&mut File>) -> Result<(String, BTreeMap<String, usize>), String> {
    let (mut folder, mut all) = (None, BTreeMap::new());
    for number in 0..zip.len() {
        let file = zip.by_index_raw(number).map_err(|error| format!("file {number}: {error}"))?;
        let name = file.name().map_err(|error| format!("file {number}: {error}"))?.into_owned();
        let shown = || name.chars().take(80).collect::<String>();
        if file.is_dir() {
            continue;
        }
        if file.is_symlink() || file.encrypted() {
            return Err(format!("{:?}: expected a plain file, neither a link nor encrypted", shown()));
        }
        let (top, path) = name.split_once('/').unwrap_or(("", &name));
        if !is_path(top) || !is_path(path) {
            return Err(format!("{:?}: expected a path such as job-1/summary.json", shown()));
        }
        if *folder.get_or_insert_with(|| top.to_owned()) != top {
            return Err(format!("{:?}: expected all files in one folder", shown()));
        }
        all.insert(path.to_owned(), number);
    }
    Ok((folder.unwrap_or_default(), all))
}

/// Returns `true` if a path leads to a file below its folder.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.len() <= MAX_PATH
        && path.split('/').count() <= MAX_DEPTH
        && path.split('/').all(is_part)
        && !path.contains(|c: char| is_unseen(c) || matches!(c, '\\' | ':'))
}

fn describe(
    zip: &mut ZipArchive<&mut File>,
    entries: &BTreeMap<String, usize>,
) -> Result<Description, String> {
    let missing =
        || format!("no {NAME} in its folder: expected an archive of a job, as this server makes them");
    let mut text = Vec::new();
    let file = zip.by_index(*entries.get(NAME).ok_or_else(missing)?);
    let file = file.map_err(|error| format!("{NAME}: {error}"))?;
    file.take(MAX_DESCRIPTION + 1).read_to_end(&mut text).map_err(|error| format!("{NAME}: {error}"))?;
    if text.len() as u64 > MAX_DESCRIPTION {
        return Err(format!("{NAME}: expected at most {MAX_DESCRIPTION} bytes"));
    }
    let any: Value = serde_json::from_slice(&text).map_err(|error| format!("{NAME}: {error}"))?;
    let format = any["format"].as_u64();
    if format != Some(u64::from(FORMAT)) {
        let found = format.map_or("none".to_owned(), |format| format.to_string());
        return Err(format!(
            "{NAME}: format: expected {FORMAT}, found {found}: it may be of a later version"
        ));
    }
    serde_json::from_value(any).map_err(|error| format!("{NAME}: {error}"))
}

/// Checks that the archive has the files of its list, and no others.
fn check_list(
    description: &Description,
    entries: &BTreeMap<String, usize>,
    folder: &str,
) -> Result<(), String> {
    let listed: BTreeSet<&str> = description.files.iter().map(|entry| &entry.path[..]).collect();
    if listed.len() != description.files.len() {
        return Err(format!("{NAME}: a file is listed twice"));
    }
    if let Some(path) = listed.iter().find(|path| !entries.contains_key(**path) || **path == NAME) {
        return Err(format!("{folder}/{path}: listed in {NAME}, but not there"));
    }
    if let Some(path) = entries.keys().find(|path| *path != NAME && !listed.contains(&path[..])) {
        return Err(format!("{folder}/{path}: not listed in {NAME}"));
    }
    let bytes = description.files.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.bytes));
    if bytes > MAX_UNPACKED {
        return Err(format!("{} MiB of files: expected at most {} MiB", bytes >> 20, MAX_UNPACKED >> 20));
    }
    Ok(())
}

/// Extracts a file, never more of it than the list says.
fn extract(zip: &mut ZipArchive<&mut File>, number: usize, entry: &Entry, into: &Path) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", entry.path);
    let file = zip.by_index(number).map_err(|error| wrong(&error))?;
    let target = into.join(&entry.path);
    // The path was checked, and the folder is new: nothing in it is a link.
    fs::create_dir_all(target.parent().unwrap_or(into)).map_err(|error| wrong(&error))?;
    let mut target = File::create_new(&target).map_err(|error| wrong(&error))?;
    let (mut source, mut hash, mut bytes) = (file.take(entry.bytes.saturating_add(1)), Sha256::new(), 0);
    let mut block = vec![0; 64 << 10];
    loop {
        let read = source.read(&mut block).map_err(|error| wrong(&error))?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        hash.update(&block[..read]);
        target.write_all(&block[..read]).map_err(|error| wrong(&error))?;
    }
    if bytes != entry.bytes {
        let found = if bytes > entry.bytes { "more".to_owned() } else { bytes.to_string() };
        return Err(wrong(&format!("expected the {} bytes that {NAME} states, found {found}", entry.bytes)));
    }
    let found = hex(&hash.finalize());
    if !found.eq_ignore_ascii_case(&entry.sha256) {
        return Err(wrong(&format!("expected the SHA-256 that {NAME} states, found {found}")));
    }
    Ok(())
}

/// Checks that files which the scenario names are in the archive.
fn check_inputs(description: &Description) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for Input { name, bytes, sha256 } in &description.inputs {
        let is_there = description.files.iter().any(|entry| {
            entry.path == format!("input/{name}") && entry.bytes == *bytes && entry.sha256 == *sha256
        });
        let is_hash =
            sha256.len() == 64 && sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !inputs::is_name(name) || !names.insert(name) || *bytes > inputs::MAX_FILE || !is_hash || !is_there
        {
            let name: String = name.chars().take(80).collect();
            return Err(format!(
                "{NAME}: inputs: {name:?}: expected the name of a file in the folder input, as it is there"
            ));
        }
    }
    Ok(())
}

/// Compares files with the lists of checksums among them.
fn check_sums(description: &Description, folder: &Path) -> Result<(), String> {
    let hashes = description.files.iter().map(|entry| (&entry.path[..], &entry.sha256[..])).collect();
    whole::compare_all(&hashes, |path| {
        let mut bytes = Vec::new();
        File::open(folder.join(path))?.take(MAX_READ).read_to_end(&mut bytes).map(|_| bytes)
    })
}

/// Reads a file of results, if it is there.
fn json_of<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, String> {
    let Ok(file) = File::open(folder.join(name)) else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(MAX_READ).read_to_end(&mut bytes).map_err(|error| format!("{name}: {error}"))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("{name}: {error}"))
}

/// Returns the fingerprints of a summary.
pub(crate) fn prints(summary: &Summary) -> Vec<Prints> {
    let prints = |point: &bentpipe_record::PointSummary| Prints {
        settings: point.settings.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        fingerprints: point.fingerprints.clone(),
    };
    summary.points.iter().map(prints).collect()
}

/// Archive that is unpacked and was found to be what it states. Its points were left in a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Arrived {
    pub(crate) description: Description,
    /// Set if its results have a summary.
    pub(crate) has_summary: bool,
}

/// Returns the bytes that an archive has unpacked. More of them are never written.
///
/// # Errors
/// Returns what is wrong with it.
pub(crate) fn weigh(archive: &Path) -> problem::Result<u64> {
    let mut file = File::open(archive).map_err(|error| Problem::internal(&error))?;
    let listed = list(&mut file).map_err(|why| Problem::bad(format!("archive: {why}")))?;
    Ok(listed.description.files.iter().map(|entry| entry.bytes).sum())
}

/// Unpacks an archive into [`UNPACKED`] in the working folder, and checks its files.
///
/// # Errors
/// Returns what is wrong with it.
pub(crate) fn arrive(archive: &Path) -> problem::Result<(Arrived, Option<Summary>)> {
    let wrong = |why: String| Problem::bad(format!("archive: {why}"));
    let folder = std::env::current_dir().map_err(|error| Problem::internal(&error))?.join(UNPACKED);
    let mut file = File::open(archive).map_err(|error| Problem::internal(&error))?;
    fs::create_dir(&folder).map_err(|error| Problem::internal(&error))?;
    let unpacked = unpack(&mut file, &folder).map_err(wrong)?;
    check_tables(&unpacked.description, &folder).map_err(wrong)?;
    unpacked.summary.as_ref().map_or(Ok(()), check_summary).map_err(wrong)?;
    check_plan(&unpacked, &folder)?;
    let Unpacked { mut description, summary, .. } = unpacked;
    // The summary has them too.
    description.points.clear();
    Ok((Arrived { description, has_summary: summary.is_some() }, summary))
}

/// Refuses texts of points and names of measures that pages could not show.
fn check_summary(summary: &Summary) -> Result<(), String> {
    let settings = summary.points.iter().flat_map(|point| &point.settings);
    let prints = summary.points.iter().flat_map(|point| &point.fingerprints);
    let bytes = settings.map(|(key, value)| key.len() + value.len()).sum::<usize>()
        + prints.map(String::len).sum::<usize>();
    let mut measures = summary.points.iter().flat_map(|point| &point.measures);
    let is_long =
        |(name, of): (&String, &bentpipe_record::Averaged)| name.len().max(of.unit.len()) > MAX_PATH;
    match (bytes > MAX_SETTINGS, measures.any(is_long)) {
        (false, false) => Ok(()),
        (true, _) => Err(format!(
            "summary.json: settings and fingerprints of {bytes} bytes: expected at most {MAX_SETTINGS}"
        )),
        (_, true) => Err(format!("summary.json: expected names of measures of at most {MAX_PATH} bytes")),
    }
}

/// Refuses series that are too large for those who look at them. A table that cannot be read is not shown.
fn check_tables(description: &Description, folder: &Path) -> Result<(), String> {
    let is_series = |path: &str| path == SERIES || path.ends_with(&format!("/{SERIES}"));
    for entry in description.files.iter().filter(|entry| is_series(&entry.path)) {
        let path = folder.join(&entry.path);
        let checked = bentpipe_record::check_series(path.parent().unwrap_or(folder), MAX_SAMPLES);
        if let Err(error @ bentpipe_record::SeriesError::TooLarge { .. }) = checked {
            // The error begins with the name of the file.
            return Err(format!("{}{error}", entry.path.trim_end_matches(SERIES)));
        }
    }
    Ok(())
}

/// Checks that the results are those of the plan which this scenario has here.
fn check_plan(unpacked: &Unpacked, folder: &Path) -> problem::Result<()> {
    let job = &unpacked.description;
    let Some(text) = &job.scenario else { return Ok(()) };
    // Another version may neither know the keys nor compute the same.
    if job.program != bentpipe_record::VERSION || job.kind != KindName::Simulate {
        return Ok(());
    }
    let inputs = Inputs::in_folder(&folder.join("input"), contents(job));
    let drafts::Draft { mut document, .. } = drafts::checked(text, &inputs)?;
    let refused = |why: &dyn std::fmt::Display| Problem::bad(format!("archive: {}: {why}", NAME));
    if let Some(duration) = &job.duration {
        let assignment = format!("duration={}", serde_json::Value::from(duration.as_str()));
        document.set(&assignment).map_err(|error| refused(&error))?;
    }
    let seeds = Seeds { first: None, count: job.seeds };
    let plan = Plan::new(&document, seeds).map_err(|error| refused(&error))?.hash().to_hex();
    match &unpacked.plan {
        // A job that was cancelled or failed may have none.
        None if job.state != End::Done => Ok(()),
        Some(stated) if *stated == plan => Ok(()),
        stated => Err(Problem::bad(format!(
            "archive: manifest.json: hash: expected that of its scenario with its settings, {plan}, found {}: its results \
             are of another scenario, or of another build of bentpipe",
            stated.as_deref().unwrap_or("none").chars().take(64).collect::<String>()
        ))),
    }
}

/// Returns the files that a job's scenario names.
pub(crate) fn contents(job: &Description) -> Vec<Content> {
    let content = |Input { name, bytes, sha256 }: &Input| Content {
        name: name.clone(),
        size: *bytes as i64,
        sha256: sha256.clone(),
    };
    job.inputs.iter().map(content).collect()
}

/// Compares the fingerprints of the description, of the summary, and of each run.
fn check_fingerprints(
    description: &Description,
    summary: Option<&Summary>,
    folder: &Path,
) -> Result<(), String> {
    if summary.map(prints).unwrap_or_default() != description.points {
        return Err(format!("summary.json: its fingerprints are not those of {NAME}"));
    }
    let known: BTreeSet<&str> = description
        .points
        .iter()
        .flat_map(|point| point.fingerprints.iter().map(|print| &print[..]))
        .collect();
    let is_outcome = |path: &str| path == "outcome.json" || path.ends_with("/outcome.json");
    let mut found = BTreeSet::new();
    for entry in description.files.iter().filter(|entry| is_outcome(&entry.path)) {
        // Of a large file nothing else is kept.
        let outcome: Option<Outcome> = json_of(folder, &entry.path)?;
        found.extend(outcome.and_then(|outcome| outcome.fingerprint));
    }
    // Runs of a campaign are in a table; a study has several summaries.
    let has_all = description.kind != KindName::Simulate || known.iter().all(|print| found.contains(*print));
    let has_others =
        description.kind == KindName::Simulate && found.iter().any(|print| !known.contains(&print[..]));
    if !has_all || has_others {
        return Err("outcome.json: the fingerprints of the runs are not those of summary.json".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
