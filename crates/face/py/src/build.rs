//! Identity of the extension's build.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sha2::{Digest, Sha256};

/// Commit of the sources, with "-modified" if they differed from it. `None` if the build knew none.
pub(crate) const COMMIT: Option<&str> = option_env!("BENTPIPE_COMMIT");

static IDENTITY: PyOnceLock<String> = PyOnceLock::new();

/// Returns twelve digits that change with the extension: a hash of its file.
///
/// A finished run counts only for the build that made it, as another may give another result.
pub(crate) fn identity(py: Python<'_>) -> PyResult<&str> {
    let identity = IDENTITY.get_or_try_init(py, || -> PyResult<String> {
        let path: PathBuf = py.import("bentpipe._native")?.getattr("__file__")?.extract()?;
        let hash = py.detach(|| -> io::Result<_> {
            let mut hasher = Sha256::new();
            io::copy(&mut File::open(&path)?, &mut hasher)?;
            Ok(hasher.finalize())
        })?;
        Ok(hash.iter().take(6).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }))
    });
    identity.map(String::as_str)
}
