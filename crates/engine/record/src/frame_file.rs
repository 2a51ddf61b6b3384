//! Parquet files of frames.
//!
//! A file has the columns of the frame, with their units in the titles.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::{LogicalType, Type as Physical};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::ColumnDescriptor;

use super::frame::{Frame, FrameColumn, FrameValues};
use super::nullable::{self, Kind};

/// Most values of a table that is read: columns times rows.
const MAX_VALUES: u64 = 1 << 30;

/// Type of the values of a column that is yet without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Texts; the empty one stands for no value.
    Texts,
    /// Whole numbers.
    Integers,
    /// Numbers; NaN stands for no value.
    Numbers,
}

impl FrameValues {
    /// Returns the type of the values.
    pub fn kind(&self) -> FrameKind {
        match self {
            FrameValues::Texts(_) => FrameKind::Texts,
            FrameValues::Integers(_) => FrameKind::Integers,
            FrameValues::Numbers(_) => FrameKind::Numbers,
        }
    }
}

/// Writer of a table as Parquet, some rows at a time. Values that are missing are null.
pub struct FrameWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<(String, FrameKind)>,
}

impl<W: Write + Send> FrameWriter<W> {
    /// Begins a file with these columns.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written to.
    pub fn new(out: W, name: &str, columns: Vec<(String, FrameKind)>) -> Result<FrameWriter<W>> {
        let kind = |kind: FrameKind| match kind {
            FrameKind::Texts => Kind::Text,
            FrameKind::Integers => Kind::Whole,
            FrameKind::Numbers => Kind::Number,
        };
        let schema: Vec<(&str, Kind)> = columns.iter().map(|(title, of)| (&title[..], kind(*of))).collect();
        Ok(FrameWriter { file: nullable::writer(out, name, &schema)?, columns })
    }

    /// Writes the rows of a frame as a row group. Columns that the frame lacks are null there; those that the file lacks are
    /// left out.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written to, or a column has another type there.
    pub fn write(&mut self, frame: &Frame) -> Result<()> {
        let rows = frame.rows();
        let mut group = self.file.next_row_group()?;
        for (title, kind) in &self.columns {
            match (kind, frame.column(title).map(|column| &column.values)) {
                (FrameKind::Texts, None) => {
                    nullable::column::<ByteArrayType, _>(&mut group, none(rows))?;
                }
                (FrameKind::Integers, None) => nullable::column::<Int64Type, _>(&mut group, none(rows))?,
                (FrameKind::Numbers, None) => nullable::column::<DoubleType, _>(&mut group, none(rows))?,
                (FrameKind::Texts, Some(FrameValues::Texts(values))) => {
                    let present = |text: &Arc<str>| {
                        (!text.is_empty()).then(|| ByteArray::from(text.as_bytes().to_vec()))
                    };
                    nullable::column::<ByteArrayType, _>(&mut group, values.iter().map(present))?;
                }
                (FrameKind::Integers, Some(FrameValues::Integers(values))) => {
                    let values = values.iter().map(|value| Some(value.cast_signed()));
                    nullable::column::<Int64Type, _>(&mut group, values)?;
                }
                (FrameKind::Numbers, Some(FrameValues::Numbers(values))) => {
                    let values = values.iter().map(|value| Some(*value).filter(|value| !value.is_nan()));
                    nullable::column::<DoubleType, _>(&mut group, values)?;
                }
                (_, Some(_)) => {
                    return Err(ParquetError::General(format!("column \"{title}\": another type")));
                }
            }
        }
        group.close()?;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Returns an error if it cannot be written to.
    pub fn close(self) -> Result<()> {
        self.file.close().map(drop)
    }
}

fn none<T>(rows: usize) -> impl Iterator<Item = Option<T>> {
    std::iter::repeat_with(|| None).take(rows)
}

/// Reads the columns of a file that `wanted` returns `true` for. The unit of a column is read from its title.
///
/// # Errors
/// Returns an error if the file is not Parquet with columns of texts, 64-bit whole numbers and doubles.
pub fn read_frame(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Frame> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut columns: Vec<(usize, FrameColumn)> = Vec::new();
    for (number, column) in schema.columns().iter().enumerate().filter(|(_, column)| wanted(column.name())) {
        columns.push((number, empty(column)?));
    }
    check_size(columns.len() as u64, reader.metadata().file_metadata().num_rows())?;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        for (number, column) in &mut columns {
            read_column(&*group, *number, &mut column.values)?;
        }
    }
    Ok(Frame { columns: columns.into_iter().map(|(_, column)| column).collect() })
}

/// Returns an error if a table has more values than are read.
fn check_size(columns: u64, rows: i64) -> Result<()> {
    let rows = u64::try_from(rows).unwrap_or(u64::MAX);
    match columns.saturating_mul(rows) > MAX_VALUES {
        true => Err(ParquetError::General(format!(
            "{columns} columns of {rows} rows: expected at most {MAX_VALUES} values"
        ))),
        false => Ok(()),
    }
}

/// Returns a column without values for one of a file.
fn empty(column: &ColumnDescriptor) -> Result<FrameColumn> {
    let title = column.name();
    let is_text = matches!(column.logical_type_ref(), Some(LogicalType::String));
    let values = match column.physical_type() {
        Physical::BYTE_ARRAY if is_text => FrameValues::Texts(Vec::new()),
        Physical::INT64 => FrameValues::Integers(Vec::new()),
        Physical::DOUBLE => FrameValues::Numbers(Vec::new()),
        other => return Err(ParquetError::General(format!("column \"{title}\": unexpected type {other}"))),
    };
    if column.max_def_level() > 1 || column.max_rep_level() > 0 {
        return Err(ParquetError::General(format!("column \"{title}\" is nested")));
    }
    let unit = title.strip_suffix(']').and_then(|title| title.rsplit_once(" [")).map_or("", |(_, unit)| unit);
    Ok(FrameColumn { title: title.to_owned(), unit: unit.to_owned(), values })
}

fn read_column(group: &dyn RowGroupReader, number: usize, into: &mut FrameValues) -> Result<()> {
    let rows = usize::try_from(group.metadata().num_rows())
        .map_err(|_| ParquetError::General("a negative number of rows".into()))?;
    match (group.get_column_reader(number)?, into) {
        (ColumnReader::ByteArrayColumnReader(reader), FrameValues::Texts(values)) => {
            let mut known: Arc<str> = "".into();
            for text in read(reader, rows)? {
                let text = text.as_ref().map_or(Ok(""), ByteArray::as_utf8)?;
                // Most columns of text repeat the text above.
                if *known != *text {
                    known = text.into();
                }
                values.push(Arc::clone(&known));
            }
        }
        (ColumnReader::Int64ColumnReader(reader), FrameValues::Integers(values)) => {
            values.extend(read(reader, rows)?.into_iter().map(|value| value.unwrap_or(0).cast_unsigned()));
        }
        (ColumnReader::DoubleColumnReader(reader), FrameValues::Numbers(values)) => {
            values.extend(read(reader, rows)?.into_iter().map(|value| value.unwrap_or(f64::NAN)));
        }
        _ => return Err(ParquetError::General(format!("column {number}: another type"))),
    }
    Ok(())
}

/// Reads the values of a column, of which some may be missing.
fn read<T: DataType>(mut reader: ColumnReaderImpl<T>, rows: usize) -> Result<Vec<Option<T::T>>> {
    let mut all = Vec::new();
    loop {
        let (mut levels, mut present) = (Vec::new(), Vec::new());
        let (records, values, _) = reader.read_records(1 << 14, Some(&mut levels), None, &mut present)?;
        // A page may have more than the file states.
        if (records == 0 && values == 0) || all.len() > rows {
            break;
        }
        if levels.is_empty() {
            // A column that is required has no levels.
            all.extend(present.into_iter().map(Some));
            continue;
        }
        let mut present = present.into_iter();
        all.extend(levels.iter().map(|&level| if level > 0 { present.next() } else { None }));
    }
    if all.len() == rows {
        Ok(all)
    } else {
        Err(ParquetError::General(format!("{} values in {rows} rows", all.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame {
            columns: vec![
                FrameColumn::texts("error", ["", "a reason", ""]),
                FrameColumn::integers("run", [0, 7, u64::MAX]),
                FrameColumn::numbers("flow.x.goodput [bit/s]", "bit/s", [1.5, f64::NAN, -0.0]),
            ],
        }
    }

    fn columns(frame: &Frame) -> Vec<(String, FrameKind)> {
        frame.columns.iter().map(|column| (column.title.clone(), column.values.kind())).collect()
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("frame.parquet");
        let frame = frame();
        let mut all = columns(&frame);
        all.push(("absent [s]".into(), FrameKind::Numbers));
        let mut writer = FrameWriter::new(File::create(&path).expect("it"), "runs", all).expect("begun");
        writer.write(&frame).expect("written");
        writer.write(&frame).expect("written");
        writer.close().expect("closed");
        let read = read_frame(&path, |_| true).expect("Parquet");
        assert_eq!((read.rows(), read.columns.len()), (6, 4));
        for (column, own) in read.columns.iter().zip(&frame.columns) {
            assert_eq!((&column.title, &column.unit), (&own.title, &own.unit));
            let texts = |values: &FrameValues, rows: std::ops::Range<usize>| {
                rows.map(|row| values.text(row)).collect::<Vec<_>>()
            };
            assert_eq!(texts(&column.values, 3..6), texts(&own.values, 0..3));
        }
        assert_eq!(read.columns[3].values.text(5), "");
        let one = read_frame(&path, |title| title == "run").expect("Parquet");
        assert_eq!(one.columns.len(), 1);
    }

    #[test]
    fn a_table_is_refused_by_its_stated_size() {
        assert!(check_size(3, 1 << 20).is_ok() && check_size(0, i64::MAX).is_ok());
        for (columns, rows) in [(1, i64::MAX), (1 << 11, 1 << 20), (2, -1)] {
            assert!(check_size(columns, rows).is_err(), "{columns} {rows}");
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("frame.parquet");
        let frame = frame();
        let mut bytes = Vec::new();
        let mut writer = FrameWriter::new(&mut bytes, "runs", columns(&frame)).expect("begun");
        writer.write(&frame).expect("written");
        writer.close().expect("closed");
        for cut in [0, 3, 7, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..cut]).expect("written");
            assert!(read_frame(&path, |_| true).is_err(), "cut at {cut}");
        }
        assert!(read_frame(&folder.path().join("absent"), |_| true).is_err());
    }
}
