//! Tables of accounts of units: Parquet files and frames.

use std::io::Write;

use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::writer::SerializedRowGroupWriter;

use super::nullable::Kind::{self, Text, Whole};
use super::nullable::{column, writer};
use super::{Frame, FrameColumn, RunResult, Summary, UnitRow};

/// Name of the file with the accounts of units of a run.
pub const UNITS_FILE: &str = "units.parquet";

/// Name of the same as CSV.
pub const UNITS_CSV: &str = "units.csv";

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 18;

/// Columns of the file.
const COLUMNS: &[(&str, Kind)] =
    &[("flow", Text), ("unit", Text), ("column", Text), ("place", Text), ("reason", Text), ("count", Whole)];

/// Writes accounts of units as Parquet, a row for each of theirs.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write_units(rows: &[UnitRow], out: impl Write + Send) -> Result<()> {
    let mut file = writer(out, "units", COLUMNS)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let mut group = file.next_row_group()?;
        write_group(rows, &mut group)?;
        group.close()?;
    }
    file.close()?;
    Ok(())
}

fn write_group<W: Write + Send>(rows: &[UnitRow], group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
    let mut texts = |of: fn(&UnitRow) -> &str| {
        let bytes = |row| Some(of(row)).filter(|text| !text.is_empty()).map(ByteArray::from);
        column::<ByteArrayType, _>(group, rows.iter().map(bytes))
    };
    texts(|row| &row.flow)?;
    texts(|row| &row.unit)?;
    texts(|row| row.column.name())?;
    texts(|row| &row.place)?;
    texts(|row| &row.reason)?;
    column::<Int64Type, _>(group, rows.iter().map(|row| Some(row.count as i64)))
}

/// Returns the accounts of units of a run.
pub fn units_frame<'a>(rows: impl Iterator<Item = &'a UnitRow> + Clone) -> Frame {
    Frame {
        columns: vec![
            FrameColumn::texts("flow", rows.clone().map(|row| &row.flow)),
            FrameColumn::texts("unit", rows.clone().map(|row| &row.unit)),
            FrameColumn::texts("column", rows.clone().map(|row| row.column.name())),
            FrameColumn::texts("place", rows.clone().map(|row| &row.place)),
            FrameColumn::texts("reason", rows.clone().map(|row| &row.reason)),
            FrameColumn::integers("count", rows.map(|row| row.count)),
        ],
    }
}

/// Returns the accounts of all runs, with point, settings and seed.
pub(super) fn all_units(summary: &Summary, runs: &[RunResult]) -> Frame {
    let rows: Vec<(&RunResult, &UnitRow)> =
        runs.iter().flat_map(|run| run.outcome.units.iter().map(move |row| (run, row))).collect();
    let mut columns = summary.front(rows.iter().map(|(run, _)| run.point));
    columns.push(FrameColumn::integers("seed", rows.iter().map(|(run, _)| run.outcome.seed)));
    columns.extend(units_frame(rows.iter().map(|(_, row)| *row)).columns);
    Frame { columns }
}

#[cfg(test)]
mod tests {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use bentpipe_net::metric::UnitColumn;

    use super::*;

    fn rows() -> Vec<UnitRow> {
        let row = |column, reason: &str| UnitRow {
            flow: "flow.a".to_owned(),
            unit: "calls".to_owned(),
            column,
            place: String::new(),
            reason: reason.to_owned(),
            count: 7,
        };
        vec![row(UnitColumn::Offered, ""), row(UnitColumn::Refused, "all-lines-busy")]
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write_units(&rows(), &mut bytes).expect("memory takes it");
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("Parquet");
        let read: Vec<String> =
            file.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect();
        let of = |column: &str, reason: &str| {
            format!(
                "{{flow: \"flow.a\", unit: \"calls\", column: \"{column}\", place: null, reason: {reason}, count: 7}}"
            )
        };
        assert_eq!(read, [of("offered", "null"), of("refused", "\"all-lines-busy\"")]);
        let mut csv = Vec::new();
        units_frame(rows().iter()).write_csv(&mut csv).expect("memory");
        let expected = "flow,unit,column,place,reason,count\nflow.a,calls,offered,,,7\nflow.a,calls,refused,,all-lines-busy,7\n";
        assert_eq!(String::from_utf8_lossy(&csv), expected);
    }
}
