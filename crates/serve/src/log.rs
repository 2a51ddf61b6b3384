//! Log lines on standard error.

use std::io::Write;

use crate::clock::{now_ms, shown};

/// Writes a line with the time. Control characters are replaced, so that one event is one line.
pub(crate) fn line(text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let _ = writeln!(std::io::stderr(), "{} {text}", shown(now_ms()));
}
