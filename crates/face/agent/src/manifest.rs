//! Description of the files that a task left: their sizes and hashes.
//!
//! A controller trusts none of it. Names are checked before a file is made, chunks before they are written, and the whole
//! before the file counts.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digits::{from_hex, hex};

/// Bytes of a chunk; the last one of a file is shorter.
pub const CHUNK: u64 = 4 << 20;
/// Most files of a task.
pub const MAX_FILES: usize = 2000;
/// Most bytes of all files of a task.
pub const MAX_BYTES: u64 = 4 << 30;
/// Most bytes of a path, and most folders in it.
const MAX_PATH: usize = 200;
const MAX_DEPTH: usize = 8;

/// File of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Path below the folder of the task.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the whole in hexadecimal digits.
    pub sha256: String,
    /// SHA-256 of each chunk, if there are several.
    pub chunks: Vec<String>,
}

impl Entry {
    /// Returns the number of chunks. An empty file has none.
    pub fn chunk_count(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(CHUNK)).unwrap_or(u32::MAX)
    }

    /// Returns the hash of a chunk.
    pub fn chunk_hash(&self, chunk: u32) -> Option<&str> {
        match self.chunk_count() {
            1 if chunk == 0 => Some(&self.sha256),
            _ => self.chunks.get(chunk as usize).map(|hash| &hash[..]),
        }
    }

    /// Returns the number of bytes of a chunk.
    pub fn chunk_bytes(&self, chunk: u32) -> u64 {
        self.bytes.saturating_sub(u64::from(chunk) * CHUNK).min(CHUNK)
    }
}

/// Returns the reason why a path of a manifest is refused.
pub fn path_refusal(path: &str) -> Option<&'static str> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if path.is_empty() || path.len() > MAX_PATH || path.split('/').count() > MAX_DEPTH {
        return Some("expected at most 200 bytes and 8 parts");
    }
    if path.contains(['\\', '\0']) || path.chars().any(char::is_control) {
        return Some("it has a backslash or a control character");
    }
    (!path.split('/').all(is_plain)).then_some("expected a path below the folder of the task")
}

/// Checks a manifest of a site.
///
/// # Errors
/// Returns what is wrong, with the path.
pub fn check(files: &[Entry]) -> Result<(), String> {
    if files.len() > MAX_FILES {
        return Err(format!("{} files: expected at most {MAX_FILES}", files.len()));
    }
    let (mut seen, mut whole) = (HashSet::new(), 0_u64);
    for file in files {
        let wrong = |why: &str| Err(format!("file {:?}: {why}", file.path));
        if let Some(why) = path_refusal(&file.path) {
            return wrong(why);
        }
        // Names that differ only by case are one file on some machines.
        if !seen.insert(file.path.to_lowercase()) {
            return wrong("it is there twice");
        }
        whole = whole.saturating_add(file.bytes);
        if whole > MAX_BYTES {
            return wrong("the files of the task have over 4 GiB");
        }
        let is_hash = |text: &String| text.len() == 64 && from_hex(text).is_some();
        if !is_hash(&file.sha256) || !file.chunks.iter().all(is_hash) {
            return wrong("expected hashes of 64 hexadecimal digits");
        }
        let wanted = if file.chunk_count() > 1 { file.chunk_count() as usize } else { 0 };
        if file.chunks.len() != wanted {
            return wrong("the number of hashes is not that of its chunks");
        }
    }
    let above = |path: &str| path.rsplit_once('/').map(|(above, _)| above.to_lowercase());
    let folders: HashSet<String> =
        files.iter().flat_map(|file| std::iter::successors(above(&file.path), |path| above(path))).collect();
    match files.iter().find(|file| folders.contains(&file.path.to_lowercase())) {
        Some(file) => Err(format!("file {:?}: it is a folder too", file.path)),
        None => Ok(()),
    }
}

/// Returns the SHA-256 of bytes in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, bytes: u64) -> Entry {
        let count = bytes.div_ceil(CHUNK) as usize;
        let chunks = if count > 1 { vec![sha256(b"x"); count] } else { Vec::new() };
        Entry { path: path.to_owned(), bytes, sha256: sha256(b""), chunks }
    }

    #[test]
    fn liars_are_found_out() {
        assert_eq!(check(&[entry("a/b.txt", 3), entry("c", CHUNK + 1), entry("d", 0)]), Ok(()));
        for path in ["", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a/.", "a\\b", "a\0", "a\nb", "a/"] {
            assert!(check(&[entry(path, 1)]).is_err(), "{path:?}");
        }
        assert!(check(&[entry(&"x".repeat(201), 1)]).is_err());
        assert!(check(&[entry("a", 1), entry("A", 1)]).is_err_and(|why| why.contains("twice")));
        assert!(check(&[entry("a", 1), entry("a/b", 1)]).is_err_and(|why| why.contains("folder too")));
        assert!(check(&[Entry { bytes: u64::MAX, ..entry("a", 1) }]).is_err_and(|why| why.contains("4 GiB")));
        assert!(check(&[Entry { bytes: CHUNK * 2, ..entry("a", 1) }]).is_err());
        assert!(check(&[Entry { sha256: "0".to_owned(), ..entry("a", 1) }]).is_err());
        assert!(check(&vec![entry("a", 1); MAX_FILES + 1]).is_err());
    }

    #[test]
    fn chunks_cover_a_file() {
        let file = entry("a", 2 * CHUNK + 5);
        assert_eq!(file.chunk_count(), 3);
        assert_eq!([0, 1, 2, 3].map(|chunk| file.chunk_bytes(chunk)), [CHUNK, CHUNK, 5, 0]);
        assert_eq!(entry("a", 5).chunk_hash(0), Some(&sha256(b"")[..]));
        assert_eq!((entry("a", 5).chunk_hash(1), entry("a", 0).chunk_hash(0)), (None, None));
    }
}
