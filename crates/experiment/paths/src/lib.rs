//! Files of this machine by any path.
//!
//! A command opens what its user names: the user could read it anyway. The controller and the agent open files for
//! others, and do not have this crate: `xtask tidy` refuses it to them and to all that they use.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bentpipe_scenario::catalogue::{Line, Listing, listing};
use bentpipe_scenario::files::{Access, Resolver};
use bentpipe_scenario::{Document, Error, MAX_FILE_BYTES, Settings, files};
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// Resolver of any path. A relative one starts at a folder.
#[derive(Clone, Debug)]
struct AnyFile(PathBuf);

impl Resolver for AnyFile {
    fn open(&self, name: &Path) -> io::Result<File> {
        open(&self.0.join(name))
    }

    fn folder(&self) -> &Path {
        &self.0
    }
}

/// Returns access to any file. A relative path starts at `folder`.
pub fn any_file(folder: &Path) -> Access {
    Access::new(AnyFile(folder.to_owned()))
}

/// Opens a file for reading, without waiting for the writer of a pipe.
///
/// A pipe that no program writes to is empty.
///
/// # Errors
/// Returns the file system's error.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Returns the bytes of a file of at most `most` bytes. It may be a device without end. A byte order mark is left out.
///
/// # Errors
/// Returns the file system's error, or an error if the file is longer, which is found without reading all of it, or is a
/// pipe that no program writes to.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    files::read_at_most(open(path)?, most)
}

/// Reads a scenario file, which may name any file. Relative paths in it start at its folder.
///
/// # Errors
/// Returns an error if the file cannot be read, or is not TOML of at most [`MAX_FILE_BYTES`].
pub fn document(path: &Path) -> Result<Document, Error> {
    let document = Document::parse(&path.display().to_string(), &scenario_bytes(path)?)?;
    Ok(document.with_access(any_file(path.parent().unwrap_or(Path::new("")))))
}

/// Reads a scenario file, which may name the files of a folder alone.
///
/// # Errors
/// Returns an error if the file cannot be read, is not TOML of at most [`MAX_FILE_BYTES`], or if the folder is missing.
pub fn document_with_inputs(path: &Path, inputs: &Path) -> Result<Document, Error> {
    let document = Document::parse(&path.display().to_string(), &scenario_bytes(path)?)?;
    let unreadable = |source| Error::Unreadable { path: inputs.to_owned(), source };
    Ok(document.with_access(Access::beneath(inputs).map_err(unreadable)?))
}

fn scenario_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    open(path).and_then(|file| files::read_beyond(file, MAX_FILE_BYTES)).map_err(unreadable)
}

/// Reads a file of settings.
///
/// # Errors
/// Returns all errors of the file: it cannot be read, is not TOML of at most [`MAX_FILE_BYTES`], or is invalid.
pub fn settings<T: DeserializeOwned + JsonSchema>(path: &Path) -> Result<Settings<T>, Error> {
    Settings::of_file(path, &scenario_bytes(path)?)
}

/// Lists scenarios, studies, elements and controllers.
///
/// Scenarios and studies are those in the folders `scenarios` and `studies` of `root`; missing folders list nothing.
pub fn list(root: &Path) -> Listing {
    listing(scenarios(&root.join("scenarios")), studies(&root.join("studies")))
}

/// Returns the files in a folder, by name. A missing folder has none.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn scenarios(folder: &Path) -> Vec<Line> {
    let files =
        entries(folder).into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let line = |path: PathBuf| {
        let title = document(&path).ok().and_then(|document| document.title());
        let about = title.unwrap_or_else(|| "cannot be read; `bentpipe check` says why".to_owned());
        Line { name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), about }
    };
    files.map(line).collect()
}

fn studies(folder: &Path) -> Vec<Line> {
    let folders = entries(folder).into_iter().filter(|path| path.is_dir());
    let line = |path: PathBuf| {
        let readme = std::fs::read_to_string(path.join("README.md")).unwrap_or_default();
        let about = readme.lines().next().unwrap_or("").trim_start_matches('#').trim().to_owned();
        Line { name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(), about }
    };
    folders.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_writer_is_refused_and_one_with_a_writer_is_read_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("made");
        let error = read_at_most(&path, 9).expect_err("nobody writes");
        assert_eq!(error.to_string(), "a pipe that no program writes to");
        let writer = OpenOptions::new().read(true).write(true).open(&path).expect("opened");
        let reader = open(&path).expect("somebody writes");
        io::Write::write_all(&mut &writer, b"title").expect("written");
        drop(writer);
        assert_eq!(io::read_to_string(reader).expect("read"), "title");
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_without_reading_all_of_it() {
        assert_eq!(read_at_most(Path::new("/dev/null"), 4).expect("empty"), b"");
        let error = read_at_most(Path::new("/dev/zero"), 4).expect_err("no end");
        assert_eq!(error.to_string(), "longer than 4 bytes");
    }

    #[test]
    fn a_relative_path_starts_at_the_folder_of_the_scenario() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.csv"), "1").expect("written");
        let access = any_file(folder.path());
        assert_eq!(access.read_at_most(Path::new("a.csv"), 9).expect("read"), b"1");
        let path = folder.path().join("a.csv");
        assert_eq!(any_file(Path::new("/nowhere")).read_at_most(&path, 9).expect("read"), b"1");
        assert_eq!(access.shown(Path::new("a.csv")), path.display().to_string());
    }
}
