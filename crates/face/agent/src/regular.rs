//! Regular files that an operator names.
//!
//! Opening a pipe waits for a writer, and devices have no end: neither is read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading. Links lead to one.
///
/// # Errors
/// Returns an error if it cannot be opened, or is not regular.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags as i32).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Reads a regular file.
///
/// # Errors
/// Returns an error if it cannot be opened or read, is not regular, or has more than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// Reads a text from a regular file, as [`read`].
///
/// # Errors
/// Returns an error as [`read`] does, or if it is not UTF-8.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_and_folders_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("made");
        for path in [&pipe, folder.path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
            assert!(read(path, 10).is_err(), "{}", path.display());
        }
        let file = folder.path().join("file");
        std::fs::write(&file, "text").expect("written");
        assert_eq!(text(&file, 4).expect("read"), "text");
        assert_eq!(read(&file, 3).expect_err("longer").kind(), io::ErrorKind::FileTooLarge);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).expect("made");
        assert!(open(&link).is_ok());
    }
}
