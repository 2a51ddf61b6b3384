//! Keys of the site file in errors of the system.

use std::fmt;
use std::io;

/// Error returned when an input or output cannot be opened.
#[derive(Debug, thiserror::Error)]
pub struct OpenError {
    /// Key of the site file, such as `input.0.listen`.
    key: String,
    /// Value of the key.
    value: String,
    error: io::Error,
}

impl OpenError {
    /// Creates the error of a key with this value.
    pub(crate) fn new(key: String, value: String, error: io::Error) -> OpenError {
        OpenError { key, value, error }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenError { key, value, error } = self;
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                write!(f, "{key}: {value} is in use by another program: expected a free address and port")
            }
            io::ErrorKind::AddrNotAvailable => {
                write!(f, "{key}: {value} is not an address of this machine: expected one that it has")
            }
            _ => write!(f, "{key}: {value}: {error}"),
        }
    }
}
