//! SHA-256 of the files of a folder, as `sha256sum --check` reads them.
//!
//! The file lists what a program reads again: a flipped bit on a disk must not become a result. Pages for people are left out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::files::write_whole;

/// Name of the file with the checksums of its folder.
pub const CHECKSUMS_FILE: &str = "SHA256SUMS";

/// Checksums of a folder's files by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checksums(BTreeMap<String, String>);

/// Returns the SHA-256 of bytes in hexadecimal digits.
fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of a file in hexadecimal digits.
///
/// # Errors
/// As the file system gives.
pub fn file_hash(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            len => hasher.update(&buffer[..len]),
        }
    }
}

impl Checksums {
    /// Computes the checksums of files in a folder.
    ///
    /// # Errors
    /// As the file system gives, with the name of the file.
    pub fn of(folder: &Path, names: impl IntoIterator<Item = String>) -> io::Result<Checksums> {
        let mut sums = Checksums::default();
        names.into_iter().try_for_each(|name| sums.add_file(folder, name))?;
        Ok(sums)
    }

    fn add_file(&mut self, folder: &Path, name: String) -> io::Result<()> {
        let path = folder.join(&name);
        let hash = file_hash(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        self.0.insert(name, hash);
        Ok(())
    }

    /// Adds a file that is yet to be written.
    pub fn add_bytes(&mut self, name: &str, bytes: &[u8]) {
        self.0.insert(name.to_owned(), hex(&Sha256::digest(bytes)));
    }

    /// Reads the checksums of a folder. `None` if it has none, as folders of earlier versions.
    ///
    /// # Errors
    /// Returns the problem of a file that is damaged.
    pub fn read(folder: &Path) -> Result<Option<Checksums>, String> {
        let path = folder.join(CHECKSUMS_FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        Checksums::parse(&bytes)
            .map(Some)
            .ok_or_else(|| damaged(&path, "expected \"SHA-256  NAME\" in each line"))
    }

    /// Reads the checksums of a file with this content. `None` if a line has another form.
    pub fn parse(content: &[u8]) -> Option<Checksums> {
        std::str::from_utf8(content).ok().and_then(parse)
    }

    /// Returns the checksum of a file.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|hash| &hash[..])
    }

    /// Returns all files by name, with their checksums.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, hash)| (&name[..], &hash[..]))
    }

    /// Writes the checksums into their folder.
    ///
    /// # Errors
    /// As [`write_whole`].
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        write_whole(&folder.join(CHECKSUMS_FILE), |file| {
            self.0.iter().try_for_each(|(name, hash)| writeln!(file, "{hash}  {name}"))
        })
    }

    /// Compares a file with its checksum.
    ///
    /// # Errors
    /// Returns the problem of a file that is damaged, missing or not listed.
    pub fn check(&self, folder: &Path, name: &str) -> Result<(), String> {
        let path = folder.join(name);
        let found = file_hash(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        match self.0.get(name) {
            Some(hash) if *hash == found => Ok(()),
            Some(_) => Err(damaged(&path, &format!("its SHA-256 is not that in {CHECKSUMS_FILE}"))),
            None => Err(damaged(&path, &format!("it is not listed in {CHECKSUMS_FILE}"))),
        }
    }
}

fn damaged(path: &Path, why: &str) -> String {
    format!("{}: damaged: {why}; help: run it again, which replaces it", path.display())
}

/// Returns the checksums of a text. `None` if a line has another form.
fn parse(text: &str) -> Option<Checksums> {
    let is_hash =
        |hash: &str| hash.len() == 64 && hash.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    let line = |line: &str| {
        let (hash, name) = line.split_once("  ")?;
        (is_hash(hash) && !name.is_empty()).then(|| (name.to_owned(), hash.to_owned()))
    };
    let lines = text.strip_suffix('\n')?.split('\n');
    lines.map(line).collect::<Option<_>>().map(Checksums)
}

/// Returns the names of a folder's files with checksums: no pages, unfinished or hidden files.
///
/// # Errors
/// As the file system gives.
pub fn listed_files(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_left_out = name.starts_with('.') || name.ends_with(".html") || name == CHECKSUMS_FILE;
        if !is_left_out && !name.contains('\n') && entry.file_type()?.is_file() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Writes the checksums of files again, and keeps those of others.
///
/// # Errors
/// As the file system gives.
pub fn update_checksums(folder: &Path, names: &[&str]) -> io::Result<()> {
    let mut sums = Checksums::read(folder).ok().flatten().unwrap_or_default();
    names.iter().try_for_each(|name| sums.add_file(folder, (*name).to_owned()))?;
    sums.write(folder)
}

/// Compares a file with its checksum, if its folder has checksums.
///
/// # Errors
/// Returns the problem of a file that is damaged, missing or not listed.
pub fn verify(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    match (Checksums::read(folder)?, path.file_name().and_then(|name| name.to_str())) {
        (Some(sums), Some(name)) => sums.check(folder, name),
        _ => Ok(()),
    }
}

/// Compares all listed files of a folder with their checksums. Returns the problems.
pub fn verify_folder(folder: &Path) -> Vec<String> {
    match Checksums::read(folder) {
        Ok(Some(sums)) => sums.0.keys().filter_map(|name| sums.check(folder, name).err()).collect(),
        Ok(None) => vec![format!("{}: missing", PathBuf::from(folder).join(CHECKSUMS_FILE).display())],
        Err(problem) => vec![problem],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flipped_bit_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        for (name, text) in
            [("a.json", "{\"x\": 1}\n"), ("b c.csv", "1,2\n"), ("report.html", "<p>"), (".x.part", "")]
        {
            std::fs::write(path.join(name), text).expect("written");
        }
        assert_eq!(verify(&path.join("a.json")), Ok(()), "no checksums");
        Checksums::of(path, listed_files(path).expect("a folder"))
            .and_then(|sums| sums.write(path))
            .expect("written");
        assert_eq!(verify_folder(path), Vec::<String>::new());
        let text = std::fs::read_to_string(path.join(CHECKSUMS_FILE)).expect("there");
        assert_eq!(text.lines().count(), 2);
        for name in ["a.json", "b c.csv", CHECKSUMS_FILE] {
            let bytes = std::fs::read(path.join(name)).expect("there");
            for bit in 0..8 * bytes.len() {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(path.join(name), &flipped).expect("written");
                assert!(!verify_folder(path).is_empty(), "{name}, bit {bit}");
            }
            std::fs::write(path.join(name), &bytes).expect("written");
        }
        std::fs::write(path.join("a.json"), "{}").expect("written");
        update_checksums(path, &["a.json"]).expect("written");
        assert_eq!(verify_folder(path), Vec::<String>::new());
    }
}
