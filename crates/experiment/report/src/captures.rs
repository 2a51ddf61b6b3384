//! Captures of a result with the commands that open them.

use bentpipe_record::{CaptureFile, Cell, ResultSet, RunResult, Table};

/// Metrics that ends of calls and exchanges report.
const OF_RTP: [&str; 2] = ["mouth-to-ear", "calls-to-extensions"];

/// Returns the captures of the first run, or `None` without captures.
pub(crate) fn capture_table(results: &ResultSet<'_>) -> Option<Table> {
    let captures = results.runs.first().map(|run: &RunResult| &run.outcome.captures)?;
    let totals = &results.runs.first()?.outcome.totals;
    let has_rtp = totals.iter().any(|(_, metric, ..)| OF_RTP.contains(&metric));
    let row = |capture: &CaptureFile| {
        vec![
            Cell::Text(capture.file.clone()),
            Cell::Number(capture.packets.to_string()),
            Cell::Text(capture.command(has_rtp)),
        ]
    };
    let head = ["capture", "packets", "command that opens it"].map(String::from).to_vec();
    let rows: Vec<_> = captures.iter().map(row).collect();
    (!rows.is_empty()).then_some(Table { caption: String::new(), head, rows })
}
