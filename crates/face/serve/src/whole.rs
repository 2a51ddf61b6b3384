//! Results as they were written: files that are given away have their checksums.
//!
//! A run writes `SHA256SUMS` next to its files. Content is hashed once, as long as its file stays the same by its inode, size and times.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use bentpipe_record::{CHECKSUMS_FILE, Checksums};
use sha2::{Digest, Sha256};

use crate::clock::hex;
use crate::gone::Gone;
use crate::left;
use crate::log;
use crate::problem::Problem;

/// Most files whose hashes are remembered.
const MAX_KNOWN: usize = 50_000;
/// Largest file of checksums.
const MAX_SUMS: u64 = 16 << 20;
/// File that is written last: a run that was cut may lack it.
const LAST: &str = "outcome.json";
/// Bytes that are read at a time.
const BLOCK: usize = 64 << 10;

/// Identity of a file's content: device, inode, size, and times of changes.
type Identity = (u64, u64, u64, [i64; 4]);

/// Hashes of files that were read.
#[derive(Debug, Default)]
pub(crate) struct Hashes(Mutex<HashMap<Identity, String>>);

impl Hashes {
    /// Returns the SHA-256 of an open file in hexadecimal digits. Reading begins at its start again.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or its request is given up.
    pub(crate) fn of(&self, file: &mut File, gone: &Gone) -> io::Result<String> {
        let identity = identity(file)?;
        if let Some(known) = self.lock().get(&identity) {
            return Ok(known.clone());
        }
        let (mut hash, mut block) = (Sha256::new(), vec![0; BLOCK]);
        loop {
            gone.check()?;
            match file.read(&mut block)? {
                0 => break,
                read => hash.update(&block[..read]),
            }
        }
        file.seek(SeekFrom::Start(0))?;
        let hash = hex(&hash.finalize());
        self.note(identity, &hash);
        Ok(hash)
    }

    /// Remembers the hash of a file, whose identity was taken before it was read.
    pub(crate) fn note(&self, identity: Identity, hash: &str) {
        let mut all = self.lock();
        if all.len() >= MAX_KNOWN {
            all.clear();
        }
        all.insert(identity, hash.to_owned());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Identity, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the identity of an open file's content.
pub(crate) fn identity(file: &File) -> io::Result<Identity> {
    let found = file.metadata()?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    Ok((found.dev(), found.ino(), found.len(), times))
}

/// Checksums of the folders below one of results.
pub(crate) struct Sums<'a> {
    root: &'a File,
    /// Lists by folder; `None` for one without.
    known: HashMap<String, Option<Checksums>>,
}

impl<'a> Sums<'a> {
    pub(crate) fn new(root: &'a File) -> Sums<'a> {
        Sums { root, known: HashMap::new() }
    }

    /// Returns the SHA-256 that a file was written with, if its folder states one.
    ///
    /// # Errors
    /// Returns the damage of the list, in words.
    pub(crate) fn of(&mut self, path: &str) -> Result<Option<String>, String> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if !self.known.contains_key(folder) {
            let sums = self.read(folder)?;
            self.known.insert(folder.to_owned(), sums);
        }
        let sums = self.known.get(folder).and_then(Option::as_ref);
        Ok(sums.and_then(|sums| sums.get(name)).map(str::to_owned))
    }

    fn read(&self, folder: &str) -> Result<Option<Checksums>, String> {
        let path = joined(folder, CHECKSUMS_FILE);
        let mut file = match left::file_in(self.root, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| format!("{path}: {error}"))?.take(MAX_SUMS),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| format!("{path}: {error}"))?;
        let sums = Checksums::parse(&bytes).ok_or_else(|| damaged(&path, "expected a list of checksums"))?;
        // A name that is damaged leaves its file without a checksum.
        let is_lost = |name: &str| name != LAST && left::file_in(self.root, &joined(folder, name)).is_err();
        let lost = sums.iter().find(|(name, _)| is_lost(name));
        match lost {
            Some((name, _)) => Err(damaged(&path, &format!("it lists {name:?}, which is not there"))),
            None => Ok(Some(sums)),
        }
    }
}

fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn damaged(path: &str, why: &str) -> String {
    format!("{path}: damaged: {why}; run the job again")
}

/// Compares the hash of a file's content with the one that it was written with.
///
/// # Errors
/// Returns the damage in words, with the file.
pub(crate) fn compare(path: &str, stated: Option<&str>, found: &str) -> Result<(), String> {
    match stated {
        Some(stated) if stated != found => {
            Err(damaged(path, &format!("its SHA-256 is not that in {CHECKSUMS_FILE}")))
        }
        _ => Ok(()),
    }
}

/// Compares an open file below a folder of results with its checksum. It is for threads that may block.
///
/// # Errors
/// Returns the damage in words, with the file.
pub(crate) fn check(
    (hashes, gone): (&Hashes, &Gone),
    sums: &mut Sums<'_>,
    (path, file): (&str, &mut File),
) -> Result<(), String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name == CHECKSUMS_FILE {
        return check_list((hashes, gone), sums, folder);
    }
    let Some(stated) = sums.of(path)? else { return Ok(()) };
    let found = hashes.of(file, gone).map_err(|error| format!("{path}: {error}"))?;
    compare(path, Some(&stated), &found)
}

/// Compares the files of a folder with their list.
///
/// It has no checksum of its own: what is damaged in it is another hash than its file has.
fn check_list((hashes, gone): (&Hashes, &Gone), sums: &mut Sums<'_>, folder: &str) -> Result<(), String> {
    sums.of(&joined(folder, CHECKSUMS_FILE))?;
    let Some(list) = sums.known.get(folder).and_then(Option::as_ref) else { return Ok(()) };
    for (name, stated) in list.iter() {
        let path = joined(folder, name);
        match left::file_in(sums.root, &path) {
            Ok(mut file) => {
                let found = hashes.of(&mut file, gone).map_err(|error| format!("{path}: {error}"))?;
                compare(&path, Some(stated), &found)?;
            }
            // A run that was cut may lack it.
            Err(_) if name == LAST => {}
            Err(error) => return Err(format!("{path}: {error}")),
        }
    }
    Ok(())
}

/// Returns the answer to a request for a damaged file.
pub(crate) fn problem(why: String) -> Problem {
    log::often(&format!("error: results: {why}"));
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
}

/// Compares the hashes of files by their paths with the lists of checksums among them.
///
/// `content` returns that of a list.
///
/// # Errors
/// Returns the first damage, in words.
pub(crate) fn compare_all<'a>(
    hashes: &HashMap<&'a str, &'a str>,
    content: impl Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<(), String> {
    let paths: BTreeSet<&str> = hashes.keys().copied().collect();
    for path in paths {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name != CHECKSUMS_FILE {
            continue;
        }
        let bytes = content(path).map_err(|error| format!("{path}: {error}"))?;
        let sums = Checksums::parse(&bytes).ok_or_else(|| damaged(path, "expected a list of checksums"))?;
        for (name, stated) in sums.iter() {
            let of = joined(folder, name);
            match hashes.get(&of[..]) {
                Some(found) => compare(&of, Some(stated), &found.to_lowercase())?,
                None if name == LAST => {}
                None => return Err(damaged(path, &format!("it lists {name:?}, which is not there"))),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use bentpipe_record::listed_files;

    use super::*;

    fn checked(folder: &Path, path: &str) -> Result<(), String> {
        let (root, hashes) = (left::root(folder).expect("a folder"), Hashes::default());
        let mut file = left::file_in(&root, path).expect("a file");
        check((&hashes, &Gone::default()), &mut Sums::new(&root), (path, &mut file))
    }

    #[test]
    fn a_file_that_is_not_as_it_was_written_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("points/p000-s1");
        fs::create_dir_all(&run).expect("made");
        for name in ["a.json", "b.json"] {
            fs::write(run.join(name), "{}").expect("written");
        }
        fs::write(folder.path().join("report.html"), "<p>").expect("written");
        let files = ["points/p000-s1/a.json", "points/p000-s1/b.json", "points/p000-s1/SHA256SUMS"];
        let sums = Checksums::of(&run, listed_files(&run).expect("listed")).expect("read");
        sums.write(&run).expect("written");
        for path in files.iter().chain(&["report.html"]) {
            assert!(checked(folder.path(), path).is_ok(), "{path}");
        }
        let sums = run.join(CHECKSUMS_FILE);
        let whole = fs::read(&sums).expect("read");
        // Each bit of the list: of a hash, a space, a name, the end of a line.
        for bit in 0..8 * whole.len() {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&sums, flipped).expect("written");
            let refused: Vec<_> =
                files[..2].iter().filter_map(|path| checked(folder.path(), path).err()).collect();
            assert!(!refused.is_empty(), "bit {bit}: {}", String::from_utf8_lossy(&whole));
            assert!(checked(folder.path(), files[2]).is_err(), "bit {bit}: the list itself");
        }
        fs::write(&sums, &whole).expect("written");
        fs::write(run.join("a.json"), "{ }").expect("written");
        let refused = checked(folder.path(), files[0]).expect_err("damaged");
        assert!(refused.starts_with("points/p000-s1/a.json: damaged"), "{refused}");
        assert!(checked(folder.path(), files[1]).is_ok());
    }

    #[test]
    fn content_is_hashed_again_once_it_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, hashes) = (folder.path().join("a"), Hashes::default());
        let hash = |content: &str| {
            fs::write(&path, content).expect("written");
            let mut file = File::open(&path).expect("opens");
            let found = hashes.of(&mut file, &Gone::default()).expect("read");
            assert_eq!(hashes.of(&mut file, &Gone::default()).expect("known"), found);
            let mut text = String::new();
            file.read_to_string(&mut text).expect("from the start");
            assert_eq!(text, content);
            found
        };
        let first = hash("abc");
        assert_ne!(hash("abcd"), first);
        assert_eq!(first, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn lists_in_an_archive_are_compared_with_what_came() {
        let hash = "ab".repeat(32);
        let of = |name: &str, hash: &str| format!("{hash}  {name}\n").into_bytes();
        let all = |first: &str| {
            let hashes = HashMap::from([("r/SHA256SUMS", "-"), ("r/a", &hash[..]), ("b", "-")]);
            let list = of(first, &hash);
            compare_all(&hashes, |_| Ok(list.clone()))
        };
        assert_eq!(all("a"), Ok(()));
        assert!(all("c").expect_err("not there").contains("lists \"c\""));
        let hashes = HashMap::from([("SHA256SUMS", "-"), ("a", "00")]);
        let refused = compare_all(&hashes, |_| Ok(of("a", &hash))).expect_err("another");
        assert!(refused.starts_with("a: damaged"), "{refused}");
        assert!(compare_all(&hashes, |_| Ok(b"x".to_vec())).is_err());
    }
}
