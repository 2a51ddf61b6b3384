//! Files that a scenario names.

use std::any::Any;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use bentpipe_net::channel::{ContactFile, Outage, Trace, TraceConfig, table_values};
use bentpipe_net::link::DelayChange;
use bentpipe_units::Span;

use crate::line_keys::DelayChanges;

/// File that is open.
pub struct Opened {
    /// Path for messages.
    pub shown: String,
    /// Content.
    pub bytes: Box<dyn io::Read>,
}

/// Maximum length of a table's file: 16,384 numbers with a comment on each.
const MAX_TABLE: u64 = 1 << 20;

/// Returns the numbers of a table of delays ([`table_values`]).
///
/// # Errors
/// Returns an error if it cannot be read, is not a table, or is longer than 1 MiB.
pub fn jitter_table(bytes: impl io::Read) -> Result<Vec<i16>, String> {
    let mut text = Vec::new();
    bytes.take(MAX_TABLE + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_TABLE {
        return Err(format!("longer than {MAX_TABLE} bytes"));
    }
    let text = String::from_utf8(text).map_err(|_| "not text in UTF-8")?;
    table_values(&text)
}

/// Content of files that several configurations have in common.
pub type FileContent = Arc<dyn Any + Send + Sync>;

/// Loads what configurations name.
pub trait Files {
    /// Returns a trace that is read, made or fitted. `path` seeds the draws.
    ///
    /// # Errors
    /// Returns the key of the fault and its problem.
    fn trace(
        &self,
        config: &TraceConfig,
        seed: u64,
        path: &str,
    ) -> Result<Arc<Trace>, (&'static str, String)>;

    /// Returns the outages that contacts of a plan leave.
    ///
    /// # Errors
    /// Returns the key of the fault's `contacts` and its problem.
    fn outages(&self, contacts: &ContactFile) -> Result<Vec<Outage>, (&'static str, String)>;

    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error that begins with the path if it cannot be read.
    fn open(&self, path: &Path) -> Result<Opened, String>;

    /// Returns content made of files, by the key of configurations that share it.
    ///
    /// The latest is kept: of many flows with one capture the first one reads it.
    ///
    /// # Errors
    /// Returns the error of `make`.
    fn common(
        &self,
        key: &str,
        make: &mut dyn FnMut() -> Result<FileContent, String>,
    ) -> Result<FileContent, String> {
        let _ = key;
        make()
    }

    /// Returns the numbers of a table of delays in a file.
    ///
    /// # Errors
    /// Returns an error that begins with the path if it cannot be read, or is not a table.
    fn table(&self, path: &Path) -> Result<Vec<i16>, String> {
        let opened = self.open(path)?;
        jitter_table(opened.bytes).map_err(|problem| format!("{}: {problem}", opened.shown))
    }

    /// Returns files that a program produces to order, such as a test card of video.
    ///
    /// Returns an empty list where nothing is sent, as in a check.
    ///
    /// # Errors
    /// Returns an error if the program is missing or fails.
    fn make(&self, what: &str, order: &serde_json::Value) -> Result<Vec<Vec<u8>>, String>;

    /// Returns the changes of a line's delay, which is `delay` at first. Lines with the same have them in common.
    ///
    /// # Errors
    /// Returns the key of the changes and the problem.
    fn delay_changes(
        &self,
        changes: &DelayChanges,
        delay: Span,
    ) -> Result<Arc<[DelayChange]>, (&'static str, String)>;
}
