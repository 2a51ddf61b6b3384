//! Room on the disk of the data folder, and removal of results from it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::StatusCode;

use crate::app::{Settings, job_folder};
use crate::clock::now_ms;
use crate::log;
use crate::problem::{Problem, Result};
use crate::promised::{Promise, Promised};
use crate::reserve;
pub(crate) use crate::reserve::free;
use crate::store::{self, Store, jobs, usage};

/// Ending of folders whose jobs are being removed.
const ASIDE: &str = ".removed";

/// Returns why nothing may be added, if the disk has less free than it keeps.
pub(crate) fn shortage(settings: &Settings) -> Option<String> {
    let free = free(&settings.folder).ok().filter(|free| *free < settings.keep_free)?;
    Some(format!(
        "the server's disk has {} free and keeps {}: remove jobs to make room",
        shown(free),
        shown(settings.keep_free)
    ))
}

/// Refuses what would take room on a full disk.
///
/// # Errors
/// Returns an error if the disk has less free than it keeps.
pub(crate) fn check(settings: &Settings) -> Result<()> {
    match shortage(settings) {
        Some(why) => Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, why)),
        None => Ok(()),
    }
}

/// Bytes after which an upload looks at the disk again.
const STEP: u64 = 4 << 20;

/// Refuses the rest of an upload once the disk has no room left, as [`check`].
///
/// # Errors
/// Returns an error if the disk has less free than it keeps.
pub(crate) fn check_growth(settings: &Settings, before: u64, added: u64) -> Result<()> {
    let is_time = before / STEP != (before + added) / STEP;
    if is_time { check(settings) } else { Ok(()) }
}

/// Promises room for what an archive has unpacked, before anything of it is written.
///
/// # Errors
/// Returns an error if the disk would have less free than it keeps.
pub(crate) fn promise(settings: &Settings, all: &Arc<Promised>, bytes: u64) -> Result<Promise> {
    let free = free(&settings.folder).map_err(|error| Problem::internal(&error))?;
    let refused = |left| {
        let (bytes, left) = (shown(bytes), shown(left));
        let detail = format!(
            "the archive has {bytes} unpacked, and the server's disk has room for {left}: remove jobs to make room"
        );
        Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail)
    };
    all.take(free.saturating_sub(settings.keep_free), bytes).map_err(refused)
}

/// Refuses texts that take the last room of the disk.
///
/// Log-ins and removals need it.
///
/// # Errors
/// Returns an error if disk and database together have less free than the reserve.
pub(crate) fn check_text(db: &rusqlite::Transaction<'_>, settings: &Settings) -> Result<()> {
    let wrong = |error: io::Error| Problem::internal(&error);
    let folder = &settings.folder;
    let free = free(folder).map_err(wrong)? + usage::left(db)?;
    let kept = reserve::size(folder).map_err(wrong)?.min(settings.keep_free);
    if free >= kept {
        return Ok(());
    }
    let detail = format!("the server's disk has {} free: remove jobs, files or old versions", shown(free));
    Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail))
}

/// Returns a number of bytes in MiB, the unit of limits on texts and files.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Returns a number of bytes in a unit that fits.
pub(crate) fn shown(bytes: u64) -> String {
    let all = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let bytes = bytes as f64;
    let found = all.iter().find(|(unit, _)| bytes >= *unit);
    found.map_or(format!("{bytes} B"), |(unit, name)| format!("{:.1} {name}", bytes / unit))
}

fn aside(data: &Path, job: i64) -> PathBuf {
    data.join("jobs").join(format!("{job}{ASIDE}"))
}

/// Renames the folder of a job that is being removed. A job that never ran has none.
///
/// # Errors
/// Returns an error if the folder cannot be moved.
pub(crate) fn put_aside(data: &Path, job: i64) -> io::Result<()> {
    match fs::rename(job_folder(data, job), aside(data, job)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Renames the folder of a job back, as the job was not removed.
pub(crate) fn put_back(data: &Path, job: i64) {
    let _ = fs::rename(aside(data, job), job_folder(data, job));
}

/// Renames a folder with results that is there before its job.
///
/// Numbers are used again after a backup was restored: the results are of a job that came after it, perhaps of another user. What else is there is
/// made again for each attempt.
///
/// # Errors
/// Returns an error if the folder cannot be moved.
pub(crate) fn put_lost_aside(data: &Path, job: i64) -> io::Result<()> {
    let folder = job_folder(data, job);
    // A link is none: it may lead to any place, and makes the attempt fail.
    if !fs::symlink_metadata(folder.join("results")).is_ok_and(|results| results.is_dir()) {
        return Ok(());
    }
    let lost = data.join("jobs").join(format!("{job}.lost-{}", now_ms()));
    fs::rename(folder, &lost)?;
    log::line(&format!("note: {}: results of a job that the database does not have", lost.display()));
    Ok(())
}

/// Removes the folder of a job that was put aside.
pub(crate) fn discard(data: &Path, job: i64) {
    match fs::remove_dir_all(aside(data, job)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            log::line(&format!("error: results of job {job}: {error}"));
        }
        _ => {}
    }
}

/// Finishes removals that a server began which was killed.
///
/// # Errors
/// Returns an error if the database cannot be read.
pub(crate) fn clean(data: &Path, store: &Store) -> store::Result<()> {
    for entry in fs::read_dir(data.join("jobs")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(job) = name.strip_suffix(ASIDE).and_then(|number| number.parse().ok()) else { continue };
        match store.read(|db| jobs::is_known(db, job))? {
            true => put_back(data, job),
            false => discard(data, job),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let all =
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_340_000, "2.3 MB"), (1 << 40, "1099.5 GB")];
        for (bytes, text) in all {
            assert_eq!(shown(bytes), text);
        }
    }

    #[test]
    fn removals_that_were_cut_off_are_finished_or_undone() {
        let data = tempfile::tempdir().expect("a folder");
        let store = Store::open(&data.path().join("data.sqlite")).expect("opens");
        let folder = data.path().join("jobs");
        for name in ["7", "8", "x.removed"] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        // Job 7 is not in the database; of job 8 the removal did not begin.
        put_aside(data.path(), 7).and_then(|()| put_aside(data.path(), 9)).expect("moved");
        clean(data.path(), &store).expect("cleaned");
        let mut left: Vec<_> = fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        assert_eq!(left, ["8", "x.removed"]);
    }
}
