//! Tables and messages on the terminal.

use std::io::{IsTerminal, Write};

use bentpipe_lab::published::{Comparison, Verdict};
use bentpipe_lab::report::{Cell, Table};

/// Prints to standard output. A reader who has heard enough (`| head`) is no error.
pub(crate) fn out(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Prints something to know.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "note: {text}");
}

/// Prints an error.
pub(crate) fn error(text: &str) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let label = if colour { "\u{1b}[1;31merror:\u{1b}[0m" } else { "error:" };
    let _ = writeln!(std::io::stderr(), "{label} {text}");
}

/// Whether standard output takes colours.
fn coloured() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A table in columns, numbers to the right.
pub(crate) fn table(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column)).map(Cell::text);
        cells.chain([&table.head[column][..]]).map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let right = |column: usize| table.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number(_))));
    let mut text = String::new();
    let head: Vec<String> =
        table.head.iter().enumerate().map(|(i, title)| padded(title, widths[i], right(i))).collect();
    text.push_str(&line(&head));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().enumerate().map(|(i, cell)| shown(cell, widths[i])).collect();
        text.push_str(&line(&cells));
    }
    text
}

fn line(cells: &[String]) -> String {
    format!("  {}\n", cells.join("   ").trim_end())
}

fn shown(cell: &Cell, width: usize) -> String {
    let text = padded(cell.text(), width, matches!(cell, Cell::Number(_)));
    match cell {
        Cell::Good(_) if coloured() => format!("\u{1b}[32m{text}\u{1b}[0m"),
        Cell::Bad(_) if coloured() => format!("\u{1b}[1;31m{text}\u{1b}[0m"),
        _ => text,
    }
}

fn padded(text: &str, width: usize, right: bool) -> String {
    // Terminals do not all know the narrow spaces of the report.
    let text = text.replace(['\u{202f}', '\u{a0}'], " ");
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

/// The rows of a study for the terminal.
pub(crate) fn comparisons(comparisons: &[Comparison]) -> String {
    let head = ["", "what", "published", "ours", "deviation", "verdict", "kind"];
    let row = |comparison: &Comparison| {
        let verdict = comparison.verdict.to_string();
        vec![
            Cell::Text(comparison.row.id.clone()),
            Cell::Text(comparison.row.what.clone()),
            Cell::Number(comparison.published_text()),
            Cell::Number(comparison.ours_text()),
            Cell::Number(comparison.deviation_text()),
            match comparison.verdict {
                Verdict::Met => Cell::Good(verdict),
                Verdict::Missed => Cell::Bad(verdict),
                Verdict::NotJudged => Cell::Text(verdict),
            },
            Cell::Text(comparison.row.kind.to_string()),
        ]
    };
    let rows = comparisons.iter().map(row).collect();
    table(&Table { caption: String::new(), head: head.map(String::from).to_vec(), rows })
}
