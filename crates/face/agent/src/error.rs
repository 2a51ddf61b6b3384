//! Error of a site.

use std::io;
use std::path::Path;

/// Error returned by a site.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be used.
    #[error("{path}: {source}")]
    File {
        /// Path.
        path: String,
        /// Reason.
        source: io::Error,
    },
    /// A file of the site, an address or an argument is wrong.
    #[error("{0}")]
    Settings(String),
    /// The controller cannot be reached, or the connection ended.
    #[error("{0}")]
    Connection(String),
    /// The controller refuses the site, or the site the controller.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn file(path: &Path, source: io::Error) -> Error {
        Error::File { path: path.display().to_string(), source }
    }

    pub(crate) fn settings(path: &Path, why: impl std::fmt::Display) -> Error {
        Error::Settings(format!("{}: {why}", path.display()))
    }
}
