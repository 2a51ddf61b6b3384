//! Files that a scenario names.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bentpipe_net::channel::{ContactFile, Outage, Trace, TraceConfig};
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
