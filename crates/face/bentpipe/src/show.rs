//! Tables and messages on the terminal.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::Path;

use bentpipe_emu::plain;
use bentpipe_net::metric::UnitColumn;
use bentpipe_record::{LedgerRow, LedgerText, PointSummary, UnitRow, UnitText, write_whole};
use bentpipe_report::Table;
use bentpipe_units::Bytes;

/// Prints to standard output. A reader that closes the pipe (`| head`) is not an error.
///
/// Characters that control a terminal are replaced, but for the colours of tables.
pub(crate) fn out(text: &str) {
    let _ = std::io::stdout().lock().write_all(plain::text(text).as_bytes());
}

/// Writes a file whole, or prints where there is none.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn write(
    file: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), String> {
    match file {
        Some(path) => write_whole(path, |file| write(file)).map_err(|error| error.to_string()),
        None => {
            let mut text = Vec::new();
            write(&mut text).map_err(|error| error.to_string())?;
            out(&String::from_utf8_lossy(&text));
            Ok(())
        }
    }
}

/// Prints something to know.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "note: {}", plain::text(text));
}

/// Prints a line of the log of a program that runs for long.
///
/// It may name what others sent, which begins no line of its own.
#[cfg(feature = "tools")]
pub(crate) fn log(text: &str) {
    let _ = writeln!(std::io::stderr(), "note: {}", plain::line(text));
}

/// Prints an error.
pub(crate) fn error(text: &str) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let label = if colour { "\u{1b}[1;31merror:\u{1b}[0m" } else { "error:" };
    let _ = writeln!(std::io::stderr(), "{label} {}{}", plain::text(text), exceeded(text));
}

/// Words of the system for a write beyond the limit of file sizes: EFBIG.
const TOO_LARGE: &str = "(os error 27)";

/// Returns the limit of file sizes for an error that is of it, in words.
fn exceeded(text: &str) -> String {
    let limit = bentpipe_emu::file_size::limit().filter(|_| text.contains(TOO_LARGE));
    limit.map_or(String::new(), |limit| {
        format!("; help: a file of this process has at most {} (RLIMIT_FSIZE)", Bytes::new(limit))
    })
}

/// Returns `true` if standard output takes colours.
pub(crate) fn coloured() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Returns a line for each end of a flow with drops.
///
/// It has the sums over all seeds of a point.
pub(crate) fn lost(point: &PointSummary) -> String {
    let (rows, runs) = (&LedgerRow::lossy(&point.ledger), point.seeds.len());
    LedgerText { rows, runs, has_warm_up: !point.warm_up.is_zero() }.to_string() + &lost_units(point)
}

/// Returns a line for each flow with units that were refused or lost.
///
/// Packets have the lines of their senders, but for those that were never sent, or whose account does not close.
pub(crate) fn lost_units(point: &PointSummary) -> String {
    let mut rows = UnitRow::with_losses(&point.units);
    let refused = rows.iter().filter(|row| row.column == UnitColumn::Refused || row.is_open());
    let refused: HashSet<String> = refused.map(|row| row.flow.clone()).collect();
    rows.retain(|row| row.unit != "packets" || refused.contains(&row.flow));
    UnitText { rows: &rows, runs: point.seeds.len() }.to_string()
}

/// Formats a table for standard output.
pub(crate) fn table(table: &Table) -> String {
    table.to_text(coloured())
}
