//! Tables of accounts: Parquet files and frames, of packets and of units alike.

use std::io::Write;

use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::errors::Result;

use super::nullable::{Kind, column, writer};
use super::{Frame, FrameColumn, Outcome, RunResult, Summary};

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 18;

/// Field of a row.
pub(super) enum Field<R> {
    /// Text, which is missing if it is empty.
    Text(fn(&R) -> &str),
    /// Whole number.
    Whole(fn(&R) -> u64),
    /// Whole number, if it is known.
    Known(fn(&R) -> Option<u64>),
}

/// Row of an account.
pub(super) trait AccountRow: Sized + 'static {
    /// Name of the table.
    const NAME: &'static str;
    /// Columns.
    const FIELDS: &'static [(&'static str, Field<Self>)];

    /// Returns the rows of a run.
    fn of(outcome: &Outcome) -> &[Self];
}

/// Writes accounts as Parquet, a row for each of theirs.
pub(super) fn write<R: AccountRow>(rows: &[R], out: impl Write + Send) -> Result<()> {
    let kind = |field: &Field<R>| if matches!(field, Field::Text(_)) { Kind::Text } else { Kind::Whole };
    let columns: Vec<(&str, Kind)> = R::FIELDS.iter().map(|(name, field)| (*name, kind(field))).collect();
    let mut file = writer(out, R::NAME, &columns)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let mut group = file.next_row_group()?;
        for (_, field) in R::FIELDS {
            let rows = rows.iter();
            match field {
                Field::Text(of) => {
                    let bytes = |row| Some(of(row)).filter(|text| !text.is_empty()).map(ByteArray::from);
                    column::<ByteArrayType, _>(&mut group, rows.map(bytes))?;
                }
                Field::Whole(of) => {
                    column::<Int64Type, _>(&mut group, rows.map(|row| Some(of(row) as i64)))?;
                }
                Field::Known(of) => {
                    let bytes = |row| of(row).map(|bytes| bytes as i64);
                    column::<Int64Type, _>(&mut group, rows.map(bytes))?;
                }
            }
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}

/// Returns accounts as a table. Bytes are empty where they are not known.
pub(super) fn frame<'a, R: AccountRow>(rows: impl Iterator<Item = &'a R> + Clone) -> Frame {
    let column = |(name, field): &(&'static str, Field<R>)| match field {
        Field::Text(of) => FrameColumn::texts(name, rows.clone().map(of)),
        Field::Whole(of) => FrameColumn::integers(name, rows.clone().map(of)),
        Field::Known(of) => {
            let bytes = |row| of(row).map_or(f64::NAN, |bytes| bytes as f64);
            FrameColumn::numbers(name, "B", rows.clone().map(bytes))
        }
    };
    Frame { columns: R::FIELDS.iter().map(column).collect() }
}

/// Returns the accounts of all runs, with point, settings and seed.
pub(super) fn of_runs<R: AccountRow>(summary: &Summary, runs: &[RunResult]) -> Frame {
    let rows: Vec<(&RunResult, &R)> =
        runs.iter().flat_map(|run| R::of(&run.outcome).iter().map(move |row| (run, row))).collect();
    let mut columns = summary.front(rows.iter().map(|(run, _)| run.point));
    columns.push(FrameColumn::integers("seed", rows.iter().map(|(run, _)| run.outcome.seed)));
    columns.extend(frame(rows.iter().map(|(_, row)| *row)).columns);
    Frame { columns }
}

/// Returns the rows of a Parquet file as texts.
#[cfg(test)]
pub(super) fn read_back(bytes: Vec<u8>) -> Vec<String> {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("Parquet");
    file.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect()
}
