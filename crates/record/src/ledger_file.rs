//! Tables of accounts of packets: Parquet files and frames.

use std::io::Write;

use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::writer::SerializedRowGroupWriter;

use super::nullable::Kind::{self, Text, Whole};
use super::nullable::{column, writer};
use super::{Frame, FrameColumn, LedgerRow, RunResult, Summary};

/// Name of the file with the accounts of a run.
pub const LEDGER_FILE: &str = "ledger.parquet";

/// Name of the same as CSV.
pub const LEDGER_CSV: &str = "ledger.csv";

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 18;

/// Columns of the file.
const COLUMNS: &[(&str, Kind)] = &[
    ("sender", Text),
    ("column", Text),
    ("place", Text),
    ("reason", Text),
    ("packets", Whole),
    ("bytes", Whole),
];

/// Writes accounts as Parquet, a row for each of theirs.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write_ledger(rows: &[LedgerRow], out: impl Write + Send) -> Result<()> {
    let mut file = writer(out, "ledger", COLUMNS)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let mut group = file.next_row_group()?;
        write_group(rows, &mut group)?;
        group.close()?;
    }
    file.close()?;
    Ok(())
}

fn write_group<W: Write + Send>(
    rows: &[LedgerRow],
    group: &mut SerializedRowGroupWriter<'_, W>,
) -> Result<()> {
    let mut texts = |of: fn(&LedgerRow) -> &str| {
        let bytes = |row| Some(of(row)).filter(|text| !text.is_empty()).map(ByteArray::from);
        column::<ByteArrayType, _>(group, rows.iter().map(bytes))
    };
    texts(|row| &row.sender)?;
    texts(|row| row.column.name())?;
    texts(|row| &row.place)?;
    texts(|row| &row.reason)?;
    column::<Int64Type, _>(group, rows.iter().map(|row| Some(row.packets as i64)))?;
    column::<Int64Type, _>(group, rows.iter().map(|row| row.bytes.map(|bytes| bytes as i64)))
}

/// Returns the accounts of a run. Bytes are empty where they are not known.
pub fn ledger_frame<'a>(rows: impl Iterator<Item = &'a LedgerRow> + Clone) -> Frame {
    let bytes = |row: &LedgerRow| row.bytes.map_or(f64::NAN, |bytes| bytes as f64);
    Frame {
        columns: vec![
            FrameColumn::texts("sender", rows.clone().map(|row| &row.sender)),
            FrameColumn::texts("column", rows.clone().map(|row| row.column.name())),
            FrameColumn::texts("place", rows.clone().map(|row| &row.place)),
            FrameColumn::texts("reason", rows.clone().map(|row| &row.reason)),
            FrameColumn::integers("packets", rows.clone().map(|row| row.packets)),
            FrameColumn::numbers("bytes", "B", rows.map(bytes)),
        ],
    }
}

/// Returns the accounts of all runs, with point, settings and seed.
pub(super) fn all_ledgers(summary: &Summary, runs: &[RunResult]) -> Frame {
    let rows: Vec<(&RunResult, &LedgerRow)> =
        runs.iter().flat_map(|run| run.outcome.ledger.iter().map(move |row| (run, row))).collect();
    let mut columns = summary.front(rows.iter().map(|(run, _)| run.point));
    columns.push(FrameColumn::integers("seed", rows.iter().map(|(run, _)| run.outcome.seed)));
    columns.extend(ledger_frame(rows.iter().map(|(_, row)| *row)).columns);
    Frame { columns }
}

#[cfg(test)]
mod tests {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::LedgerColumn;

    fn rows() -> Vec<LedgerRow> {
        let row = |column, place: &str, reason: &str, bytes| LedgerRow {
            sender: "flow.a.sender".to_owned(),
            column,
            place: place.to_owned(),
            reason: reason.to_owned(),
            packets: 7,
            in_warm_up: 0,
            bytes,
        };
        vec![
            row(LedgerColumn::Sent, "", "", Some(10_500)),
            row(LedgerColumn::TakenOver, "role.proxy", "", None),
            row(LedgerColumn::Dropped, "link.l.forward", "queue", None),
        ]
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write_ledger(&rows(), &mut bytes).expect("memory takes it");
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("Parquet");
        let read: Vec<String> =
            file.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect();
        let of = |column: &str, place: &str, reason: &str, bytes: &str| {
            format!(
                "{{sender: \"flow.a.sender\", column: \"{column}\", place: {place}, reason: {reason}, packets: 7, bytes: {bytes}}}"
            )
        };
        let expected = [
            of("sent", "null", "null", "10500"),
            of("taken-over", "\"role.proxy\"", "null", "null"),
            of("dropped", "\"link.l.forward\"", "\"queue\"", "null"),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn csv_has_an_empty_field_for_what_is_not_known() {
        let mut csv = Vec::new();
        ledger_frame(rows().iter()).write_csv(&mut csv).expect("memory");
        let expected = "sender,column,place,reason,packets,bytes\nflow.a.sender,sent,,,7,10500\n\
                        flow.a.sender,taken-over,role.proxy,,7,\nflow.a.sender,dropped,link.l.forward,queue,7,\n";
        assert_eq!(String::from_utf8_lossy(&csv), expected);
    }
}
