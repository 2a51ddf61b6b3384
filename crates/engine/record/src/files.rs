//! Files that are whole or absent, and reading of files of bounded length.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Temporary files that exist, for a program that exits without dropping its values.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of every unfinished [`WholeFile`].
///
/// For a program that exits immediately, as by `std::process::exit`. Later writes to them are lost.
pub fn remove_unfinished() {
    for temporary in std::mem::take(&mut *unfinished()) {
        let _ = fs::remove_file(temporary);
    }
}

/// File that appears complete or not at all, as a temporary one is renamed.
///
/// The temporary file is in the same folder. Dropped before it is finished, it leaves nothing, and a previous
/// file unchanged. A device or a pipe, which cannot be replaced, is written directly, and so is standard output, "-".
#[derive(Debug)]
pub struct WholeFile {
    file: BufWriter<File>,
    temporary: Option<PathBuf>,
    path: PathBuf,
}

impl WholeFile {
    /// Begins a file.
    ///
    /// # Errors
    /// As the file system gives; if there is a folder of this name.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        if path == Path::new("-") {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(WholeFile { file: BufWriter::new(file), temporary: None, path: path.to_owned() });
        }
        // A symbolic link stays: its target is written.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_replaced = path.metadata().map_or(true, |metadata| metadata.is_file());
        let temporary = is_replaced.then(|| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.with_file_name(format!(".{name}.{}.part", std::process::id()))
        });
        // What is salvaged of it is read; a device or pipe may be for writing only.
        let file = match &temporary {
            Some(temporary) => {
                File::options().read(true).write(true).create(true).truncate(true).open(temporary)?
            }
            None => File::create(&path)?,
        };
        unfinished().extend(temporary.clone());
        Ok(WholeFile { file: BufWriter::with_capacity(1 << 16, file), temporary, path })
    }

    /// Keeps the beginning of a file whose writing has failed. What waits to be written is dropped.
    ///
    /// `valid` gets what is on disk, and returns the length to keep.
    ///
    /// # Errors
    /// Returns the error of the file system; the temporary file is then removed.
    pub fn salvage(mut self, valid: impl FnOnce(&File) -> io::Result<u64>) -> io::Result<()> {
        let file = self.file.get_ref().try_clone()?;
        file.set_len(valid(&file)?)?;
        // A dropped writer would write what it has.
        let _ = std::mem::replace(&mut self.file, BufWriter::new(file)).into_parts();
        self.finish()
    }

    /// Renames the temporary file to the final name.
    ///
    /// # Errors
    /// Returns the error of the file system; the temporary file is then removed.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            unfinished().remove(temporary);
        }
        self.temporary = None;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
            unfinished().remove(temporary);
        }
    }
}

/// Writes a [`WholeFile`].
///
/// # Errors
/// As the file system or `write` gives, in words that begin with the file's path.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let written = WholeFile::create(path).and_then(|mut whole| {
        write(&mut whole.file)?;
        whole.finish()
    });
    written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Writes a value as JSON for people and programs, all of it or nothing.
///
/// # Errors
/// As [`write_whole`].
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_whole(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })
}

/// Writes a value as JSON without spaces, all of it or nothing.
///
/// # Errors
/// As [`write_whole`].
pub fn write_compact(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_whole(path, |file| {
        serde_json::to_writer(&mut *file, value)?;
        file.write_all(b"\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let mut file = WholeFile::create(&path).expect("created");
        file.write_all(b"half").expect("written");
        assert!(!path.exists());
        drop(file);
        assert!(names(folder.path()).is_empty());
        write_whole(&path, |file| file.write_all(b"old")).expect("written");
        let failed = write_whole(&path, |file| {
            file.write_all(b"half of the new")?;
            Err(io::Error::other("no"))
        });
        assert_eq!(failed.expect_err("no").to_string(), format!("{}: no", path.display()));
        assert_eq!(
            (fs::read(&path).expect("there"), names(folder.path())),
            (b"old".to_vec(), vec!["out".into()])
        );
    }

    #[test]
    fn devices_stay_and_links_lead_on() {
        let folder = tempfile::tempdir().expect("a folder");
        write_whole(Path::new("/dev/null"), |file| file.write_all(b"x")).expect("written");
        assert!(!Path::new("/dev/null").metadata().expect("there").is_file());
        let (link, path) = (folder.path().join("link"), folder.path().join("file"));
        fs::write(&path, b"old").expect("written");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        write_whole(&link, |file| file.write_all(b"new")).expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        assert!(WholeFile::create(folder.path()).is_err());
    }
}
