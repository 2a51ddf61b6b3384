//! Room on the disk of the data folder, and a reserve for full disks.
//!
//! The reserve is a file. It goes when the disk is nearly full, so that people can log in, remove what they have, and copy the
//! database; it comes back when there is room.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

/// Largest reserve in bytes, and its largest part of the disk.
const MOST: u64 = 16 << 20;
const PART: u64 = 8;

/// Returns the bytes of a folder's disk that this process may still use.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub(crate) fn free(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns the size of the reserve on a folder's disk.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub(crate) fn size(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(MOST.min(disk.f_blocks.saturating_mul(disk.f_frsize) / PART))
}

fn file(folder: &Path) -> PathBuf {
    folder.join("reserve")
}

/// Removes the reserve if the disk is nearly full.
pub(crate) fn release(folder: &Path) {
    let is_short = || Ok::<_, io::Error>(free(folder)? < size(folder)? / 4);
    if is_short().unwrap_or(false) {
        let _ = fs::remove_file(file(folder));
    }
}

/// Creates the reserve if it is missing and the disk has room for it twice.
///
/// # Errors
/// Returns an error if it cannot be made.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    let (path, size) = (file(folder), size(folder)?);
    if path.exists() || free(folder)? < 2 * size {
        return Ok(());
    }
    let made = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
    let reserved = made.and_then(|file| fill(&file, size));
    reserved.inspect_err(|_| drop(fs::remove_file(&path)))
}

fn fill(file: &File, size: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
        // Of a file system without such promises: what is written takes room as well.
        Err(rustix::io::Errno::OPNOTSUPP) => {
            io::copy(&mut io::Read::take(io::repeat(1), size), &mut &*file).map(drop)
        }
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_takes_room_once_and_stays_while_there_is_some() {
        let folder = tempfile::tempdir().expect("a folder");
        for _ in 0..2 {
            make(folder.path()).expect("made");
        }
        let length = || fs::metadata(file(folder.path())).map(|data| data.len()).ok();
        // On a disk that is full already there is none.
        let expected = (free(folder.path()).expect("read") > 2 * MOST).then_some(());
        assert_eq!(length().map(drop), expected);
        release(folder.path());
        assert_eq!(length().map(drop), expected);
    }
}
