//! Files of a site: whole or absent, for their owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FlockOperation;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// Creates a folder and those above it.
pub(crate) fn make(path: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Error::file(path, error))
}

/// Returns the bytes of the files below a folder.
pub(crate) fn size(path: &Path) -> u64 {
    below(path, 0)
}

/// Deepest folder whose files are counted one by one.
const MAX_DEPTH: u32 = 16;

fn below(path: &Path, depth: u32) -> u64 {
    let mut whole = 0;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(data) = entry.path().symlink_metadata() else { continue };
        whole +=
            if data.is_dir() && depth < MAX_DEPTH { below(&entry.path(), depth + 1) } else { data.len() };
    }
    whole
}

/// Replaces a file; it is on disk when this returns.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let replace = || {
        let new = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    replace().map_err(|error: io::Error| Error::file(path, error))
}

/// Replaces a file by a value as JSON.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::file(path, error.into()))?;
    write(path, &bytes)
}

/// Reads a value from a file; `None` if it is missing.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| Error::settings(path, error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(path, error)),
    }
}

/// Locks a file as long as it is open; `None` if another process holds it.
pub(crate) fn lock(path: &Path) -> Result<Option<File>, Error> {
    let open = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path);
    let file = open.map_err(|error| Error::file(path, error))?;
    Ok(rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(file))
}

/// Returns `true` if a process holds a file's lock.
pub(crate) fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
}
