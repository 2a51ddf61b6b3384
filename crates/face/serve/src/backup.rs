//! Backups of the database, each with its SHA-256 at its end and in a file.
//!
//! They are verified when they are made, proposed and restored.
//!
//! The last line of a backup is its seal, the hash of all before it. SQLite reads as many pages as its header has, and no seal.
//! `NAME.sha256` is what `sha256sum --check` reads: the hash of the whole.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bentpipe_agent::regular;
use bentpipe_record::file_hash;
use sha2::{Digest, Sha256};

use crate::store::{self, Result, StoreError};

/// Largest file of a hash: the longest name of a file, escaped, and remarks.
const MAX_SUM: u64 = 4096;
/// Beginning of a seal, in front of 64 digits and the end of the line.
const SEAL: &str = "\nbentpipe backup, SHA-256 of all before this line: ";
/// Length of a seal.
const SEAL_LEN: u64 = SEAL.len() as u64 + 65;

/// Need of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A backup without any hash is refused.
    Required,
    /// The structure of a backup without any hash suffices.
    ///
    /// Those of an older bentpipe have none.
    Waived,
}

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
    seal(unfinished)?;
    let name = backup.file_name().unwrap_or_default().to_string_lossy();
    let mut sum = File::create(sum_of(backup))?;
    writeln!(sum, "{}  {name}", file_hash(unfinished)?)?;
    sum.sync_all()?;
    Ok(fs::rename(unfinished, backup)?)
}

/// Appends the seal.
fn seal(backup: &Path) -> io::Result<()> {
    let hash = file_hash(backup)?;
    let mut file = OpenOptions::new().append(true).open(backup)?;
    file.write_all(format!("{SEAL}{hash}\n").as_bytes())?;
    file.sync_all()
}

/// Returns the hash in the seal, and that of all before it.
fn sealed(file: &mut File) -> io::Result<Option<(String, String)>> {
    let Some(len) = file.metadata()?.len().checked_sub(SEAL_LEN) else { return Ok(None) };
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(len))?;
    file.read_to_end(&mut end)?;
    let digits = end.strip_prefix(SEAL.as_bytes()).and_then(|rest| rest.strip_suffix(b"\n"));
    let Some(stated) = digits.and_then(|digits| std::str::from_utf8(digits).ok()) else { return Ok(None) };
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha256::new();
    io::copy(&mut file.take(len), &mut hasher)?;
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some((stated.to_owned(), found)))
}

/// Removes the seal, so that a database is left.
///
/// # Errors
/// Returns an error if the file cannot be read or cut.
pub(crate) fn unseal(copy: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(copy)?;
    if sealed(&mut file)?.is_some() {
        let len = file.metadata()?.len();
        file.set_len(len - SEAL_LEN)?;
    }
    Ok(())
}

/// Checks that a backup is as it was made, and changes nothing of it.
///
/// # Errors
/// Returns an error with the first fault. Without any hash it is one, unless the proof is waived.
pub(crate) fn check(backup: &Path, proof: Proof) -> Result<()> {
    // Reading a pipe or a device may have no end.
    let mut file = regular::open(backup)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", backup.display())))?;
    let sum = sum_of(backup);
    let damaged = |why: String| Err(StoreError::Damaged(why));
    let has_sum = match regular::read(&sum, MAX_SUM) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return damaged(format!("no SHA-256 can be read ({error}) in {}", sum.display())),
        Ok(bytes) => {
            let name = backup.file_name().unwrap_or_default().to_string_lossy();
            match stated(&bytes, &name) {
                Some(stated) if stated == file_hash(backup)? => true,
                Some(_) => return damaged(format!("its SHA-256 is not that in {}", sum.display())),
                // A list of another file says nothing of this one, and of several lines none is the one.
                None => {
                    return damaged(format!("no SHA-256 of {name}, as the one line, in {}", sum.display()));
                }
            }
        }
    };
    match sealed(&mut file)? {
        Some((stated, found)) if stated != found => {
            return damaged("its SHA-256 is not that at its end".to_owned());
        }
        None if !has_sum && proof == Proof::Required => {
            return damaged(format!("no hash is at its end, and {} is missing", sum.display()));
        }
        _ => {}
    }
    store::check_backup(backup)
}

/// Returns `true` if a backup has no hash.
///
/// It has none at its end, and no file of one.
pub(crate) fn is_without_hash(backup: &Path) -> bool {
    let is_sealed = regular::open(backup).and_then(|mut file| sealed(&mut file));
    is_sealed.is_ok_and(|seal| seal.is_none()) && !sum_of(backup).exists()
}

/// Returns the hash that a file of one line states for a backup.
///
/// It has a form that `sha256sum --check` accepts:
/// that of `sha256sum`, with or without a carriage return, of `sha256sum --tag` and of `openssl`. Remarks are passed over.
fn stated(bytes: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.strip_suffix('\n').unwrap_or(text).split('\n').filter(|line| !line.starts_with('#'));
    let line = lines.next().filter(|_| lines.next().is_none())?;
    let line = line.strip_suffix('\r').unwrap_or(line).trim_start_matches([' ', '\t']);
    let (is_escaped, line) = line.strip_prefix('\\').map_or((false, line), |rest| (true, rest));
    let (hash, names) = tagged(line).or_else(|| untagged(line))?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_this = |found: &str| {
        let found = if is_escaped { unescaped(found) } else { found.to_owned() };
        found.strip_prefix("./").unwrap_or(&found) == name
    };
    (is_hash && names.iter().any(|name| is_this(name))).then(|| hash.to_ascii_lowercase())
}

/// Returns hash and name of `SHA256 (NAME) = HASH`.
fn tagged(line: &str) -> Option<(&str, Vec<&str>)> {
    let rest = line.strip_prefix("SHA256")?.trim_start().strip_prefix('(')?;
    let (name, hash) = rest.rsplit_once(')')?;
    Some((hash.trim_start().strip_prefix('=')?.trim_start(), vec![name]))
}

/// Returns hash and name of `HASH  NAME`. The second blank, or a star, may be the first character of the name.
fn untagged(line: &str) -> Option<(&str, Vec<&str>)> {
    let (hash, name) = line.split_once([' ', '\t'])?;
    Some((hash, std::iter::once(name).chain(name.strip_prefix([' ', '*'])).collect()))
}

/// Returns the name that `sha256sum` writes with a backslash in front of the line.
fn unescaped(name: &str) -> String {
    name.replace("\\\\", "\0").replace("\\n", "\n").replace("\\r", "\r").replace('\0', "\\")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_each_form_that_sha256sum_accepts() {
        let hash = "0123456789abcdef".repeat(4);
        let large = hash.to_ascii_uppercase();
        for line in [
            format!("{hash}  a.sqlite\n"),
            format!("{hash}  a.sqlite\r\n"),
            format!("{large}  a.sqlite\n"),
            format!("{hash} *a.sqlite"),
            format!("{hash} a.sqlite\n"),
            format!("{hash}\ta.sqlite\n"),
            format!("  {hash}  ./a.sqlite\n"),
            format!("\\{hash}  a.sqlite\n"),
            format!("# of Monday\n{hash}  a.sqlite\n"),
            format!("SHA256 (a.sqlite) = {hash}\n"),
            format!("SHA256(a.sqlite)= {large}\r\n"),
        ] {
            assert_eq!(stated(line.as_bytes(), "a.sqlite"), Some(hash.clone()), "{line:?}");
        }
        for line in [
            format!("{hash}  b.sqlite\n"),
            format!("{hash}  a.sqlite \n"),
            format!("{}  a.sqlite\n", &hash[1..]),
            format!("{hash}  a.sqlite\r\r\n"),
            format!("\u{feff}{hash}  a.sqlite\n"),
            format!("sha256 (a.sqlite) = {hash}\n"),
            format!("{hash}\n"),
            String::new(),
        ] {
            assert_eq!(stated(line.as_bytes(), "a.sqlite"), None, "{line:?}");
        }
        assert_eq!(stated(format!("\\{hash}  a\\\\b\\nc\n").as_bytes(), "a\\b\nc"), Some(hash));
    }
}
