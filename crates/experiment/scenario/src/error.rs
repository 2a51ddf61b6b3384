//! Errors of a scenario: file, line, column, key, and the expected value.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Byte range of the file.
    File(Range<usize>),
    /// Option (`--set key=value`) as it was given. Shared by all values in it.
    Override(Arc<str>),
}

pub use bentpipe_site::Problem;

/// Error in a scenario, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Dotted key ("link.satellite.rate"); empty where the file as a whole is meant.
    pub key: String,
    /// Problem and expected value.
    pub problem: String,
    /// Origin of the value.
    pub origin: Origin,
}

/// Errors of a rejected scenario, in the order of the file.
///
/// Displays as one paragraph per error, with the line of the file and the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    file: String,
    text: String,
    diagnostics: Vec<Diagnostic>,
}

/// Number of diagnostics that are shown; further ones are only counted.
const SHOWN: usize = 10;

/// The longest part of a line that is shown.
const SHOWN_CHARS: usize = 100;

/// The longest part of an option that is shown.
const SHOWN_OPTION: usize = SHOWN_CHARS + "--set ".len();

/// The longest part of a key that is shown: names have 60 characters at most.
const SHOWN_KEY: usize = 300;

impl ScenarioError {
    pub(crate) fn new(file: &str, text: &str, mut diagnostics: Vec<Diagnostic>) -> ScenarioError {
        diagnostics.sort_by_key(|diagnostic| match &diagnostic.origin {
            Origin::File(range) => (0, range.start),
            Origin::Override(_) => (1, 0),
        });
        diagnostics.dedup();
        ScenarioError { file: file.to_owned(), text: text.to_owned(), diagnostics }
    }

    /// Returns the diagnostics, of which there is at least one.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns line and column, from one, of a byte of the file.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
    }

    fn write_diagnostic(&self, f: &mut fmt::Formatter<'_>, diagnostic: &Diagnostic) -> fmt::Result {
        let (key, colon) =
            (shorten(&diagnostic.key, SHOWN_KEY), if diagnostic.key.is_empty() { "" } else { ": " });
        match &diagnostic.origin {
            Origin::Override(given) => {
                write!(f, "{}: {key}{colon}{}", shorten(given, SHOWN_OPTION), diagnostic.problem)
            }
            Origin::File(range) => {
                let (line, column) = self.position(range.start);
                write!(f, "{}:{line}:{column}: {key}{colon}{}", self.file, diagnostic.problem)?;
                self.write_excerpt(f, line, column, range)
            }
        }
    }

    /// Writes the line, with carets below the affected part.
    fn write_excerpt(
        &self,
        f: &mut fmt::Formatter<'_>,
        line: usize,
        column: usize,
        range: &Range<usize>,
    ) -> fmt::Result {
        let Some(text) = self.text.lines().nth(line - 1) else { return Ok(()) };
        let shown = shorten(text, SHOWN_CHARS);
        let (gutter, room) = (line.to_string().len(), shown.chars().count() + 1);
        if shown.trim().is_empty() || column > room {
            return Ok(());
        }
        let meant = self
            .text
            .get(range.clone())
            .map_or(1, |meant| meant.lines().next().unwrap_or("").chars().count());
        let carets = "^".repeat(meant.clamp(1, (room - column).max(1)));
        write!(f, "\n{:gutter$} |\n{line} | {shown}\n{:gutter$} | {:>column$}", "", "", "^")?;
        f.write_str(&carets[1..])
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.diagnostics.iter().take(SHOWN).enumerate() {
            f.write_str(if i == 0 { "" } else { "\n\n" })?;
            self.write_diagnostic(f, diagnostic)?;
        }
        match self.diagnostics.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// Returns the text's first characters, with control characters made visible.
fn shorten(text: &str, most: usize) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String =
        text.chars().take(most).map(|c| if c == '\t' { ' ' } else { visible(c) }).collect();
    if text.chars().nth(most).is_some() {
        shown.push_str("...");
    }
    shown
}
