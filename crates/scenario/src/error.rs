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

/// Error in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
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
pub struct Refusal {
    file: String,
    text: String,
    mistakes: Vec<Mistake>,
}

/// More mistakes than this are only counted.
const SHOWN: usize = 10;

/// The longest part of a line that is shown.
const SHOWN_CHARS: usize = 100;

/// The longest part of an option that is shown.
const SHOWN_OPTION: usize = SHOWN_CHARS + "--set ".len();

/// The longest part of a key that is shown: names have 60 characters at most.
const SHOWN_KEY: usize = 300;

impl Refusal {
    pub(crate) fn new(file: &str, text: &str, mut mistakes: Vec<Mistake>) -> Refusal {
        mistakes.sort_by_key(|mistake| match &mistake.origin {
            Origin::File(range) => (0, range.start),
            Origin::Override(_) => (1, 0),
        });
        mistakes.dedup();
        Refusal { file: file.to_owned(), text: text.to_owned(), mistakes }
    }

    /// Returns the errors, at least one.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    /// Returns line and column, from one, of a byte of the file.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
    }

    fn write_diagnostic(&self, f: &mut fmt::Formatter<'_>, mistake: &Mistake) -> fmt::Result {
        let (key, colon) = (shorten(&mistake.key, SHOWN_KEY), if mistake.key.is_empty() { "" } else { ": " });
        match &mistake.origin {
            Origin::Override(given) => {
                write!(f, "{}: {key}{colon}{}", shorten(given, SHOWN_OPTION), mistake.problem)
            }
            Origin::File(range) => {
                let (line, column) = self.position(range.start);
                write!(f, "{}:{line}:{column}: {key}{colon}{}", self.file, mistake.problem)?;
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.mistakes.iter().take(SHOWN).enumerate() {
            f.write_str(if i == 0 { "" } else { "\n\n" })?;
            self.write_diagnostic(f, mistake)?;
        }
        match self.mistakes.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

impl std::error::Error for Refusal {}

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
