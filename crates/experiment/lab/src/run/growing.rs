//! Files of flows that others read while a run lasts.

use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_record::WholeFile;
use bentpipe_site::Growth;

/// Files of a run that grow. They are temporary ones: what is judged after the run takes their place.
pub(super) struct Growing {
    files: Vec<(PathBuf, Growth, Option<WholeFile>)>,
}

impl Growing {
    /// Begins without files.
    pub(super) fn new(folder: &Path, growing: Vec<(String, Growth)>) -> Growing {
        let files = growing.into_iter().map(|(name, growth)| (folder.join(name), growth, None));
        Growing { files: files.collect() }
    }

    /// Writes what is new. A file that cannot be written ends, as the results do not need it.
    pub(super) fn grow(&mut self) {
        self.files.retain_mut(|(path, growth, file)| {
            let more = (growth.more)();
            if more.is_empty() {
                return true;
            }
            if file.is_none() {
                *file = WholeFile::create(path).ok();
            }
            file.as_mut().is_some_and(|file| file.write_all(&more).and_then(|()| file.flush()).is_ok())
        });
    }
}
