//! Content of users' files by hash, and access to it by their names.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub(crate) use bentpipe_agent::files::is_name;
use bentpipe_scenario::Access;

use crate::clock::{hex, secret};
use crate::left;
use crate::store::files::Content;

/// Largest file, in bytes.
pub(crate) const MAX_FILE: u64 = 64 << 20;
/// Most bytes and files of a user, those that only jobs have still included.
pub(crate) const MAX_OWN: u64 = 1 << 30;
pub(crate) const MAX_FILES: u64 = 1000;
/// Ending of what is being received, and beginning of folders for checks.
const PART: &str = ".part";
const STAGING: &str = "view-";

/// Returns the folder of content in a data folder.
pub(crate) fn folder(data: &Path) -> PathBuf {
    data.join("files")
}

/// Returns the file of content.
pub(crate) fn path(data: &Path, sha256: &str) -> PathBuf {
    folder(data).join(sha256)
}

/// Removes what a server left that was killed: halves of files, and folders of checks.
pub(crate) fn clean(data: &Path) {
    for entry in fs::read_dir(folder(data)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let _ = match () {
            () if name.ends_with(PART) => fs::remove_file(entry.path()),
            () if name.starts_with(STAGING) => fs::remove_dir_all(entry.path()),
            () => Ok(()),
        };
    }
}

/// File that is being received. It is removed unless it is kept.
#[derive(Debug)]
pub(crate) struct Receiving {
    data: PathBuf,
    path: PathBuf,
    file: File,
    hash: Sha256,
    size: u64,
}

impl Receiving {
    /// Begins to receive a file.
    ///
    /// # Errors
    /// Returns an error if the data folder cannot be written.
    pub(crate) fn new(data: &Path) -> io::Result<Receiving> {
        fs::create_dir_all(folder(data))?;
        let path = folder(data).join(format!("{}{PART}", secret()));
        let file = File::create_new(&path)?;
        Ok(Receiving { data: data.to_owned(), path, file, hash: Sha256::new(), size: 0 })
    }

    /// Returns the number of bytes received.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds a block.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn add(&mut self, block: &[u8]) -> io::Result<()> {
        self.size += block.len() as u64;
        self.hash.update(block);
        self.file.write_all(block)
    }

    /// Waits until what was received is on disk.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Returns the SHA-256 of what was received, in hexadecimal digits.
    pub(crate) fn sha256(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    /// Returns the file of what was received.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the file by its hash, and returns it under a name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn keep(self, name: &str) -> io::Result<Content> {
        let sha256 = self.sha256();
        fs::rename(&self.path, path(&self.data, &sha256))?;
        Ok(Content { name: name.to_owned(), size: self.size as i64, sha256 })
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        // After `keep` there is none.
        let _ = fs::remove_file(&self.path);
    }
}

/// Bytes that each user is sending, which count before they are kept.
#[derive(Debug, Default)]
pub(crate) struct Arriving(Mutex<HashMap<i64, u64>>);

/// Bytes of one upload, until they are kept or dropped.
#[derive(Debug)]
pub(crate) struct Arrival {
    all: Arc<Arriving>,
    user: i64,
    bytes: u64,
}

impl Arrival {
    /// Begins an upload of a user.
    pub(crate) fn new(all: &Arc<Arriving>, user: i64) -> Arrival {
        Arrival { all: Arc::clone(all), user, bytes: 0 }
    }

    /// Counts bytes, and returns those of all uploads of the user.
    pub(crate) fn add(&mut self, bytes: u64) -> u64 {
        self.bytes += bytes;
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = all.entry(self.user).or_default();
        *sum += bytes;
        *sum
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = all.remove(&self.user).unwrap_or_default().saturating_sub(self.bytes);
        if left > 0 {
            all.insert(self.user, left);
        }
    }
}

/// Files that a user's scenarios can name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Inputs {
    folder: PathBuf,
    all: Vec<Content>,
    /// Set if they have their names in the folder, not those of their content.
    is_named: bool,
}

impl Inputs {
    pub(crate) fn new(data: &Path, all: Vec<Content>) -> Inputs {
        Inputs { folder: folder(data), all, is_named: false }
    }

    /// Returns files that a folder has under their names.
    pub(crate) fn in_folder(folder: &Path, all: Vec<Content>) -> Inputs {
        Inputs { folder: folder.to_owned(), all, is_named: true }
    }

    /// Returns the content that a name stands for.
    pub(crate) fn find(&self, name: &str) -> Option<&Content> {
        self.all.iter().find(|content| content.name == name)
    }

    /// Returns all names.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.all.iter().map(|content| &content.name[..]).collect()
    }

    /// Returns the files of the contents.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.all.iter().map(|content| self.folder.join(self.file_of(content))).collect()
    }

    /// Returns access to the files of these names.
    ///
    /// # Errors
    /// Returns an error if their folder cannot be opened.
    pub(crate) fn access(&self, names: &[String]) -> io::Result<Access> {
        let found = names.iter().filter_map(|name| self.find(name));
        let files = found.map(|content| (content.name.clone(), self.file_of(content).to_owned()));
        Access::named(&self.folder, files)
    }

    fn file_of<'a>(&self, content: &'a Content) -> &'a str {
        if self.is_named { &content.name } else { &content.sha256 }
    }
}

/// Opens content by its hash.
///
/// # Errors
/// Returns an error if it is not there.
pub(crate) fn open(data: &Path, sha256: &str) -> io::Result<File> {
    left::file_in(&File::open(folder(data))?, sha256)
}

/// Creates an empty folder in the data folder, for a child of a user. It goes when the result is dropped.
///
/// # Errors
/// Returns an error if the data folder cannot be written.
pub(crate) fn staging(data: &Path, user: Option<(u32, u32)>) -> io::Result<Staging> {
    let staging = Staging::new(&folder(data))?;
    user.map_or(Ok(()), |user| left::give(&staging.0, user))?;
    Ok(staging)
}

/// Keeps content, which a folder has under its name, by its hash too.
///
/// # Errors
/// Returns an error if it cannot be linked, or is not a file.
pub(crate) fn adopt(data: &Path, content: &Content, from: &Path) -> io::Result<()> {
    left::file(from, &content.name)?;
    match fs::hard_link(from.join(&content.name), path(data, &content.sha256)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Links content under its name into a folder of the data folder.
///
/// # Errors
/// Returns an error if the folder cannot be written.
pub(crate) fn place(data: &Path, content: &Content, into: &Path) -> io::Result<()> {
    match fs::hard_link(path(data, &content.sha256), into.join(&content.name)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Folder of a child's work. It goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Staging(PathBuf);

impl Staging {
    fn new(below: &Path) -> io::Result<Staging> {
        let staging = Staging(below.join(format!("{STAGING}{}", secret())));
        fs::create_dir_all(&staging.0)?;
        Ok(staging)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["fade.csv", "a", "call-2.pcap", "A_1.ts"] {
            assert!(is_name(name), "{name}");
        }
        for name in
            ["", ".", "..", "../x", "/etc/passwd", "a/b", ".x", "a b", "a\0", "é", "-x", "Scenario.toml"]
        {
            assert!(!is_name(name), "{name}");
        }
        assert!(!is_name(&"a".repeat(101)));
    }

    #[test]
    fn content_is_kept_by_its_hash_and_seen_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut receiving = Receiving::new(folder.path()).expect("a file");
        receiving.add(b"ab").and_then(|()| receiving.add(b"c")).expect("written");
        let content = receiving.keep("x.csv").expect("kept");
        // FIPS 180-2, appendix B.1.
        assert_eq!(content.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        drop(Receiving::new(folder.path()).expect("a file"));
        let inputs = Inputs::new(folder.path(), vec![content]);
        let access = inputs.access(&["x.csv".to_owned(), "no.csv".to_owned()]).expect("a folder");
        assert_eq!(access.read_at_most(Path::new("x.csv"), 9).expect("read"), b"abc");
        assert_eq!(inputs.paths().len(), 1);
        for name in ["no.csv", "y.csv", &inputs.all[0].sha256] {
            assert!(access.open(Path::new(name)).is_err(), "{name}");
        }
        let staging = staging(folder.path(), None).expect("a folder");
        let seen = staging.path().to_owned();
        assert!(seen.is_dir());
        drop(staging);
        assert!(!seen.exists());
        assert_eq!(fs::read_dir(super::folder(folder.path())).expect("a folder").count(), 1);
    }
}
