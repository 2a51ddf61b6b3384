//! Files in folders that children write to: of jobs, and of work on requests.
//!
//! A child that was taken over leaves there what it likes: links to files of the server, or pipes without a writer. So
//! they are opened below a folder that the server alone makes, without links, and only if they are regular.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Most files of a job that are listed.
const MAX_FILES: usize = 20_000;

/// Deepest folder whose files are listed.
const MAX_DEPTH: usize = 8;

fn open(root: &File, path: &str, flags: OFlags) -> io::Result<File> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(File::from(rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), beneath)?))
}

/// Returns the last text of a file that a child wrote.
///
/// It is of `most` bytes at most, and empty if it cannot be read.
pub(crate) fn end(folder: &Path, name: &str, most: u64) -> String {
    let mut bytes = Vec::new();
    let _ = file(folder, name).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        file.take(most).read_to_end(&mut bytes)
    });
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Opens a folder whose parent is the server's. A link is refused.
///
/// # Errors
/// Returns an error if it is a link, or not there.
pub(crate) fn root(folder: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(folder, flags, Mode::empty())?))
}

/// Opens a folder below a folder of the server. No link is followed.
///
/// # Errors
/// Returns an error if there is a link on the way, or it is not there.
pub(crate) fn folder(below: &Path, path: &str) -> io::Result<File> {
    open(&root(below)?, path, OFlags::PATH | OFlags::DIRECTORY)
}

/// Opens a regular file below an open folder. No link is followed.
///
/// # Errors
/// Returns an error if there is a link on the way, it is not there, or not a regular file.
pub(crate) fn file_in(root: &File, path: &str) -> io::Result<File> {
    let file = open(root, path, OFlags::RDONLY | OFlags::NONBLOCK)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Opens a regular file below a folder of the server, as [`file_in`].
///
/// # Errors
/// Returns an error if there is a link on the way, it is not there, or not a regular file.
pub(crate) fn file(below: &Path, path: &str) -> io::Result<File> {
    file_in(&root(below)?, path)
}

/// Returns the bytes of a file below a folder of the server.
///
/// # Errors
/// Returns an error if it cannot be opened or read, or has more than `most` bytes.
pub(crate) fn read(below: &Path, path: &str, most: u64) -> io::Result<Vec<u8>> {
    let (file, mut bytes) = (file(below, path)?, Vec::new());
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// Returns the regular files below a folder with their sizes. Links are left out.
pub(crate) fn list(folder: &Path) -> Vec<(String, u64)> {
    let mut files = Vec::new();
    if root(folder).is_ok() {
        list_into(folder, "", &mut files);
    }
    files
}

fn list_into(folder: &Path, prefix: &str, into: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        if into.len() >= MAX_FILES {
            return;
        }
        if kind.is_dir() && path.matches('/').count() < MAX_DEPTH {
            list_into(&entry.path(), &path, into);
        } else if kind.is_file() {
            into.push((path, entry.metadata().map_or(0, |data| data.len())));
        }
    }
}

/// Creates a folder below one of the server, and returns its path.
///
/// It may be there. No link is followed.
///
/// # Errors
/// Returns an error if there is a link on the way, or it cannot be made.
pub(crate) fn make(below: &Path, path: &str, name: &str) -> io::Result<PathBuf> {
    let parent = folder(below, path)?;
    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    open(&parent, name, OFlags::PATH | OFlags::DIRECTORY)?;
    Ok(below.join(path).join(name))
}

/// Changes the owner of a folder and of all below it.
///
/// Files with further names stay as they are: those are the content of users.
///
/// # Errors
/// Returns an error if the server may not.
pub(crate) fn give(path: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() || found.nlink() == 1 {
        std::os::unix::fs::lchown(path, Some(uid), Some(gid))?;
    }
    match found.is_dir() {
        true => fs::read_dir(path)?.try_for_each(|entry| give(&entry?.path(), (uid, gid))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_pipes_and_folders_are_no_files() {
        let parent = tempfile::tempdir().expect("a folder");
        let job = parent.path().join("7");
        fs::create_dir_all(job.join("results/run")).expect("made");
        fs::write(parent.path().join("secret"), "not for you").expect("written");
        fs::write(job.join("results/run/outcome.json"), "{}").expect("written");
        for (to, link) in [("../secret", "errors.txt"), ("results/run", "run"), ("..", "up"), ("/etc", "etc")]
        {
            symlink(to, job.join(link)).expect("linked");
        }
        rustix::fs::mknodat(rustix::fs::CWD, job.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("made");
        for path in [
            "errors.txt",
            "run/outcome.json",
            "up/secret",
            "etc/passwd",
            "/etc/passwd",
            "../secret",
            "pipe",
            "results",
            "",
            "none",
        ] {
            assert!(read(&job, path, 100).is_err(), "{path}");
        }
        assert_eq!(read(&job, "results/run/outcome.json", 2).expect("read"), b"{}");
        assert!(read(&job, "results/run/outcome.json", 1).is_err());
        assert!(folder(&job, "results/run").is_ok() && folder(&job, "run").is_err());
        assert_eq!(list(&job), [("results/run/outcome.json".to_owned(), 2)]);
        assert_eq!((list(&job.join("run")), list(&job.join("etc"))), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_folder_is_not_made_behind_a_link() {
        let parent = tempfile::tempdir().expect("a folder");
        let job = parent.path().join("7");
        fs::create_dir_all(job.join("results/run")).expect("made");
        fs::create_dir(job.join("results/other")).expect("made");
        symlink("../../..", job.join("results/other/input")).expect("linked");
        symlink("../..", job.join("results/out")).expect("linked");
        let made = make(&job, "results/run", "input").expect("made");
        assert!(made.is_dir());
        assert_eq!(make(&job, "results/run", "input").expect("there"), made);
        assert!(make(&job, "results/other", "input").is_err());
        assert!(make(&job, "results/out", "input").is_err());
        assert_eq!(fs::read_dir(parent.path()).expect("read").count(), 1);
    }
}
