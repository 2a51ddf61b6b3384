//! Tables and messages on the terminal.

use std::collections::HashSet;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_emu::plain;
use bentpipe_net::metric::UnitColumn;
use bentpipe_record::{LedgerRow, LedgerText, PointSummary, UnitRow, UnitText, write_whole};
use bentpipe_report::Table;
use bentpipe_units::Bytes;

/// Set once standard output could not be written.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Set if standard output has a file of results.
static HAS_RESULTS: AtomicBool = AtomicBool::new(false);

/// Prints texts to standard error from now on.
pub(crate) fn leave_stdout_to_results() {
    HAS_RESULTS.store(true, Ordering::Relaxed);
}

/// Prints to standard output. A reader that closes the pipe (`| head`) is not an error.
///
/// Characters that control a terminal are replaced, but for the colours of tables. The first error of the device, such as a full disk, is
/// printed.
pub(crate) fn out(text: &str) {
    if HAS_RESULTS.load(Ordering::Relaxed) {
        return drop(std::io::stderr().write_all(plain::text(text).as_bytes()));
    }
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(plain::text(text).as_bytes()).and_then(|()| stdout.flush());
    let failed = written.err().filter(|problem| problem.kind() != ErrorKind::BrokenPipe);
    if let Some(problem) = failed
        && !HAS_FAILED.swap(true, Ordering::Relaxed)
    {
        error(&format!("standard output: {problem}"));
    }
}

/// Returns `true` if standard output could not be written.
pub(crate) fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
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
        format!("; help: a file of this process has at most {} (RLIMIT_FSIZE; `file_size` in limits.toml of a server): shorten what is written", Bytes::new(limit))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Returns the sources of a folder.
    fn sources(folder: &Path) -> Vec<PathBuf> {
        let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let found = paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
        found.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
    }

    /// Places that write to a terminal what others do not choose, or what their own writer cleans.
    const OTHERS: [(&str, &str); 9] = [
        ("emulate.rs", "terminal_size(std::io::stderr().as_fd())"),
        ("emulate.rs", "output: Box::new(std::io::stderr())"),
        ("tools.rs", "clap_complete::generate("),
        ("gateway.rs", "output: Box::new(std::io::stdout())"),
        ("gateway.rs", "messages: Box::new(std::io::stderr())"),
        ("monitor.rs", "{finished} finished before, {runs} to run"),
        ("monitor.rs", "write_all(shown.as_bytes())"),
        ("progress.rs", "{packets} packets"),
        // It is not a terminal: a program gets the bytes of the answer.
        ("remote.rs", "None => Box::new(io::stdout().lock()),"),
    ];

    #[test]
    fn all_printing_is_cleaned_of_what_a_terminal_obeys() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut places = 0;
        for path in sources(&folder) {
            let text = fs::read_to_string(&path).expect("a text");
            let lines: Vec<&str> = text.lines().collect();
            for (n, line) in lines.iter().enumerate() {
                let writes = ["io::stdout()", "io::stderr()", "println!(", "print!("]
                    .iter()
                    .any(|word| line.contains(word));
                if !writes || line.contains("is_terminal()") || path.ends_with("show.rs") && n > 100 {
                    continue;
                }
                places += 1;
                let statement = format!("{line}{}", lines.get(n + 1).unwrap_or(&""));
                let is_other = |(file, part): &(&str, &str)| path.ends_with(file) && line.contains(part);
                let is_clean = statement.contains("plain::") || OTHERS.iter().any(is_other);
                assert!(is_clean, "{}:{}: {line}", path.display(), n + 1);
            }
        }
        assert!(places > 10, "{places} places");
    }
}
