//! Backups of the database, each with a file of its SHA-256.
//!
//! They are verified when they are made, proposed and restored.
//!
//! `NAME.sha256` is what `sha256sum --check` reads.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bentpipe_agent::regular;
use bentpipe_record::{Checksums, file_hash};

use crate::store::{self, Result, StoreError};

/// Largest file of a hash: the longest name of a file, escaped.
const MAX_SUM: u64 = 4096;

/// Returns the file with the hash of a backup.
pub(crate) fn sum_of(backup: &Path) -> PathBuf {
    let mut name = backup.as_os_str().to_owned();
    name.push(".sha256");
    name.into()
}

/// Copies a database with its hash, and verifies the copy.
///
/// Its name is there once all is whole.
///
/// # Errors
/// Returns an error if the copy cannot be made, or is damaged.
pub(crate) fn make(database: &Path, backup: &Path) -> Result<()> {
    // Under another name until it is verified, so that a crash leaves no half of one.
    let unfinished = unfinished(backup);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let made = store::back_up(database, &unfinished).and_then(|()| finish(&unfinished, backup));
    made.inspect_err(|_| drop(fs::remove_file(&unfinished)))
}

fn unfinished(backup: &Path) -> PathBuf {
    backup.with_file_name(".unfinished")
}

fn finish(unfinished: &Path, backup: &Path) -> Result<()> {
    fs::set_permissions(unfinished, Permissions::from_mode(0o600))?;
    let name = backup.file_name().unwrap_or_default().to_string_lossy();
    let mut sum = File::create(sum_of(backup))?;
    writeln!(sum, "{}  {name}", file_hash(unfinished)?)?;
    sum.sync_all()?;
    Ok(fs::rename(unfinished, backup)?)
}

/// Checks that a backup is as it was made, and changes nothing of it. Those of an older bentpipe have no hash.
///
/// # Errors
/// Returns an error with the first fault.
pub(crate) fn check(backup: &Path) -> Result<()> {
    // Reading a pipe or a device may have no end.
    regular::open(backup)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", backup.display())))?;
    let sum = sum_of(backup);
    let damaged = |why: &str| Err(StoreError::Damaged(format!("{why} in {}", sum.display())));
    match regular::read(&sum, MAX_SUM) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return damaged(&format!("no SHA-256 can be read ({error})")),
        Ok(bytes) => {
            let name = backup.file_name().unwrap_or_default().to_string_lossy();
            match stated(&bytes, &name) {
                Some(stated) if stated == file_hash(backup)? => {}
                Some(_) => return damaged("its SHA-256 is not that"),
                // A list of another file says nothing of this one, and of several lines none is the one.
                None => return damaged(&format!("no SHA-256 of {name}, as the one line,")),
            }
        }
    }
    store::check_backup(backup)
}

/// Returns the hash that a file of one line states for a backup.
fn stated(bytes: &[u8], name: &str) -> Option<String> {
    let is_one = bytes.iter().filter(|byte| **byte == b'\n').count() == 1 && bytes.ends_with(b"\n");
    let sums = Checksums::parse(bytes).filter(|_| is_one)?;
    sums.get(name).map(str::to_owned)
}

/// Returns the backups of a folder, the oldest first.
pub(crate) fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "sqlite")).collect();
    all.sort();
    all
}

/// Removes a backup and its hash.
///
/// # Errors
/// Returns an error if the backup cannot be removed.
pub(crate) fn remove(backup: &Path) -> io::Result<()> {
    let _ = fs::remove_file(sum_of(backup));
    fs::remove_file(backup)
}
