//! Files that users name: opened without waiting, read up to a limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use bentpipe_net::channel::{ContactFile, Outage};
use rustix::fs::OFlags;

/// Opens a file for reading, without waiting for the writer of a pipe.
///
/// A pipe that no program writes to is empty.
///
/// # Errors
/// As the file system gives.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Byte order mark of UTF-8, which spreadsheets write in front of text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns the bytes of a file of at most `most` bytes. It may be a device without end. A byte order mark is left out.
///
/// # Errors
/// As the file system gives; if the file is longer, which is found without reading all of it; if it is a pipe that no
/// program writes to.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let bytes = read_beyond(path, most)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Returns the bytes of a file, one more than `most` if it has more.
pub(crate) fn read_beyond(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if is_pipe && bytes.is_empty() {
        return Err(io::Error::other("a pipe that no program writes to"));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// Maximum length of a contact plan's file.
const MAX_PLAN_BYTES: u64 = 1 << 24;

/// Returns the outages that the contacts of a file leave. A relative path starts at `folder`.
///
/// # Errors
/// Returns the key of the channel's `contacts` and its problem.
pub fn outages(contacts: &ContactFile, folder: &Path) -> Result<Vec<Outage>, (&'static str, String)> {
    let path = folder.join(&contacts.file);
    let wrong = |problem: &dyn std::fmt::Display| ("file", format!("{}: {problem}", path.display()));
    let bytes = read_at_most(&path, MAX_PLAN_BYTES).map_err(|error| wrong(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(&"not text in UTF-8"))?;
    bentpipe_dtn::outages(&text, &contacts.from, &contacts.to)
        .map_err(|(part, problem)| if part == "file" { wrong(&problem) } else { (part, problem) })
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
    fn a_byte_order_mark_is_no_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("delays.csv");
        std::fs::write(&path, "\u{feff}time_s,delay_ms\n").expect("written");
        assert_eq!(read_at_most(&path, 100).expect("read"), b"time_s,delay_ms\n");
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_without_reading_all_of_it() {
        assert_eq!(read_at_most(Path::new("/dev/null"), 4).expect("empty"), b"");
        let error = read_at_most(Path::new("/dev/zero"), 4).expect_err("no end");
        assert_eq!(error.to_string(), "longer than 4 bytes");
    }
}
