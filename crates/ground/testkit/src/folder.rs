//! Temporary folders.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest path of a temporary folder in bytes below which a socket's path fits.
const MAX_SHORT: usize = 40;

/// Temporary folder of one test. It is removed at its end, and kept with a message if the test fails.
#[derive(Debug)]
pub struct Folder(Option<tempfile::TempDir>);

impl Folder {
    /// Creates an empty folder.
    ///
    /// # Panics
    /// If the system has no room for it.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Folder {
        Folder(Some(tempfile::tempdir().expect("a temporary folder")))
    }

    /// Creates an empty folder in `parent`.
    ///
    /// For programs that a test makes, `env!("CARGO_TARGET_TMPDIR")`: from there programs run, and a temporary folder may be on a mount
    /// of which none do (`noexec`).
    ///
    /// # Panics
    /// If it cannot be made there.
    pub fn within(parent: impl AsRef<Path>) -> Folder {
        let parent = parent.as_ref();
        let made = tempfile::tempdir_in(parent);
        Folder(Some(made.unwrap_or_else(|error| panic!("{}: {error}", parent.display()))))
    }

    /// Creates an empty folder with a short path.
    ///
    /// It is for programs that name sockets or files below it. A socket's path has 107 bytes (unix(7)), and programs cut theirs or end
    /// without a word.
    ///
    /// # Panics
    /// If the system has no room for it.
    pub fn short() -> Folder {
        let usual = std::env::temp_dir();
        let is_short = usual.as_os_str().len() <= MAX_SHORT;
        Folder::within(if is_short { &*usual } else { Path::new("/tmp") })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("open until dropped").path()
    }

    /// Returns the path of a file in it, which need not exist.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file, with the folders above it, and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders are made");
        fs::write(&path, contents).expect("the file is written");
        path
    }

    /// Returns the names of the files and folders in it, sorted.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("the folder is read").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl AsRef<OsStr> for Folder {
    fn as_ref(&self) -> &OsStr {
        self.path().as_os_str()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take().filter(|_| std::thread::panicking()) {
            eprintln!("kept: {}", folder.keep().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Folder;

    #[test]
    fn a_folder_is_where_it_is_wanted() {
        let outer = Folder::new();
        let inner = Folder::within(&outer);
        assert_eq!(inner.path().parent(), Some(outer.path()));
        assert!(Folder::short().path().as_os_str().len() < 60);
    }

    #[test]
    fn a_folder_goes_with_its_value_and_stays_after_a_failure() {
        let folder = Folder::new();
        let path = folder.write("a/b.txt", "text");
        assert_eq!((folder.names(), std::fs::read(&path).unwrap()), (vec!["a".to_owned()], b"text".to_vec()));
        drop(folder);
        assert!(!path.exists());
        let failed = std::thread::spawn(|| {
            let folder = Folder::new();
            std::panic::panic_any(folder.path().to_owned());
        });
        let kept = *failed.join().unwrap_err().downcast::<std::path::PathBuf>().unwrap();
        assert!(kept.exists());
        std::fs::remove_dir_all(kept).unwrap();
    }
}
