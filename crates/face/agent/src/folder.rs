//! Files of a site: whole or absent, for their owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FlockOperation;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::manifest::sha256;

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

/// Replaces a file by a value as JSON, with its hash in a second line.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::file(path, error.into()))?;
    let hash = sha256(&bytes);
    write(path, &[&bytes[..], b"\n", hash.as_bytes(), b"\n"].concat())
}

/// Returns the text in front of its hash. Files of an earlier version have none.
///
/// # Errors
/// Returns an error if the hash is not that of the text.
fn unsealed(bytes: &[u8]) -> Result<&[u8], &'static str> {
    let mut lines = bytes.splitn(2, |byte| *byte == b'\n');
    let (text, rest) = (lines.next().unwrap_or_default(), lines.next());
    match rest {
        None => Ok(text),
        Some(rest) if rest.strip_suffix(b"\n") == Some(sha256(text).as_bytes()) => Ok(text),
        Some(_) => Err("damaged: its SHA-256 is not that in its last line"),
    }
}

/// Reads a value from a file; `None` if it is missing.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match fs::read(path) {
        Ok(bytes) => {
            let text = unsealed(&bytes).map_err(|why| Error::settings(path, why))?;
            serde_json::from_slice(text).map(Some).map_err(|error| Error::settings(path, error))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flipped_bit_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        write_json(&path, &(17, "b")).expect("written");
        let whole = fs::read(&path).expect("read");
        for bit in 0..8 * whole.len() {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &flipped).expect("written");
            let why = read_json::<(i32, String)>(&path).expect_err("damaged").to_string();
            assert!(why.contains("a.json: "), "{bit}: {why}");
        }
        fs::write(&path, b"[17,\"b\"]").expect("written");
        let read = read_json::<(i32, String)>(&path).expect("of an earlier version");
        assert_eq!(read, Some((17, "b".to_owned())));
    }
}
