//! Reading of long Parquet.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use bentpipe_net::metric::Kind;
use bentpipe_units::{Span, Time};

use crate::checksums::verify;
use crate::declared::{Catalogue, Declaration, Declared, Index};
use crate::series::{Column, Data, Series};

/// Rows that are read at a time.
const BATCH: usize = 1 << 14;

/// Most samples of a series that is read: columns times instants, each of 8 bytes.
///
/// A column that never changes has two rows in the file and one for each instant in memory, so that the size of the file says
/// little.
const MAX_SAMPLES: u64 = 1 << 30;

/// Error returned when a run has no series that can be read.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// A file cannot be read.
    #[error("{0}")]
    Io(String),
    /// `series.parquet` is not what a run leaves.
    #[error("series.parquet: {0}")]
    Parquet(#[from] ParquetError),
    /// The series has more samples than are read.
    #[error("series.parquet: {columns} columns of {rows} instants: expected at most {most} samples")]
    TooLarge {
        /// Number of columns.
        columns: u64,
        /// Number of instants, or of rows of the file.
        rows: u64,
        /// Most samples of all columns.
        most: u64,
    },
    /// A column has no declaration.
    #[error("metrics.json: missing the metric {1} of {0}")]
    Undeclared(String, String),
}

/// Reads the series in a run's folder, only those columns that `wanted` returns `true` for.
///
/// # Errors
/// Returns an error if files of a run are missing or do not fit each other.
pub fn read_series(
    folder: &Path,
    wanted: impl Fn(&str, &Declaration) -> bool,
) -> Result<Series, SeriesError> {
    read_series_within(folder, MAX_SAMPLES, wanted)
}

/// Reads the series in a run's folder, if it has at most `most` samples.
///
/// The rows that the file states are compared before any is decoded, and columns times instants before memory is taken.
///
/// # Errors
/// Returns an error if files of a run are missing or do not fit each other, and if the series has more samples.
pub fn read_series_within(
    folder: &Path,
    most: u64,
    wanted: impl Fn(&str, &Declaration) -> bool,
) -> Result<Series, SeriesError> {
    read_runs(folder, most, &wanted)?.series(most)
}

/// Checks that the series in a run's folder has at most `most` samples.
///
/// # Errors
/// Returns an error if it has more, or cannot be read.
pub fn check_series(folder: &Path, most: u64) -> Result<(), SeriesError> {
    let count = std::cell::Cell::new(0);
    // No column is kept: only the instants of one take memory.
    let none = |_: &str, _: &Declaration| {
        count.set(count.get() + 1);
        false
    };
    let runs = read_runs(folder, most, &none)?;
    fits(count.get(), runs.times.len() as u64, most)
}

/// Returns an error if columns times rows are more than `most` samples.
fn fits(columns: u64, rows: u64, most: u64) -> Result<(), SeriesError> {
    match columns.saturating_mul(rows) > most {
        true => Err(SeriesError::TooLarge { columns, rows, most }),
        false => Ok(()),
    }
}

/// Choice of columns. A type parameter would compile the decoders in each caller's crate.
type Wanted<'a> = &'a dyn Fn(&str, &Declaration) -> bool;

/// Reads the rows of the wanted columns.
fn read_runs<'a>(folder: &Path, most: u64, wanted: Wanted<'a>) -> Result<Runs<'a>, SeriesError> {
    let named =
        |path: &Path, error: &dyn std::fmt::Display| SeriesError::Io(format!("{}: {error}", path.display()));
    let (declared, samples) = (folder.join("metrics.json"), folder.join("series.parquet"));
    for path in [&declared, &samples] {
        verify(path).map_err(SeriesError::Io)?;
    }
    let catalogue = std::fs::read(&declared).map_err(|error| named(&declared, &error))?;
    let catalogue: Catalogue =
        serde_json::from_slice(&catalogue).map_err(|error| named(&declared, &error))?;
    let file = File::open(&samples).map_err(|error: io::Error| named(&samples, &error))?;
    let reader = SerializedFileReader::new(file)?;
    let rows = reader.metadata().file_metadata().num_rows();
    fits(1, u64::try_from(rows).unwrap_or(u64::MAX), most)?;
    let starts = catalogue.starts.clone();
    let index = catalogue.index();
    let mut runs = Runs { index, starts, wanted, found: Vec::new(), times: Vec::new(), of: None };
    for group in 0..reader.num_row_groups() {
        runs.group(&*reader.get_row_group(group)?)?;
    }
    runs.end();
    Ok(runs)
}

/// Columns of a file while its rows pass. A column is a run of rows.
struct Runs<'a> {
    index: Index,
    starts: Option<BTreeMap<String, Option<f64>>>,
    wanted: Wanted<'a>,
    found: Vec<Found>,
    /// Times of the longest run.
    times: Vec<f64>,
    of: Option<Run>,
}

/// The present run of rows.
struct Run {
    subject: ByteArray,
    metric: ByteArray,
    times: Vec<f64>,
    /// Column that the rows are kept in, if it is wanted.
    column: Option<usize>,
}

/// A wanted column.
struct Found {
    subject: Arc<str>,
    declaration: Arc<Declaration>,
    values: Vec<f64>,
}

impl Runs<'_> {
    fn group(&mut self, group: &dyn RowGroupReader) -> Result<(), SeriesError> {
        let (mut times, mut values) = (numbers(group, 0)?, numbers(group, 4)?);
        let (mut subjects, mut metrics) = (texts(group, 1)?, texts(group, 2)?);
        loop {
            let times = batch(&mut times)?;
            if times.is_empty() {
                return Ok(());
            }
            let (subjects, metrics, values) =
                (batch(&mut subjects)?, batch(&mut metrics)?, batch(&mut values)?);
            if [subjects.len(), metrics.len(), values.len()] != [times.len(); 3] {
                return Err(ParquetError::General("columns of different lengths".into()).into());
            }
            for (row, time) in times.into_iter().enumerate() {
                self.row(time, &subjects[row], &metrics[row], values[row])?;
            }
        }
    }

    fn row(
        &mut self,
        time: f64,
        subject: &ByteArray,
        metric: &ByteArray,
        value: f64,
    ) -> Result<(), SeriesError> {
        let goes_on = |run: &Run| {
            run.times.last().is_some_and(|last| *last < time)
                && run.metric == *metric
                && run.subject == *subject
        };
        if !self.of.as_ref().is_some_and(goes_on) {
            self.begin(subject, metric)?;
        }
        let run = self.of.as_mut().expect("begun");
        run.times.push(time);
        if let Some(column) = run.column {
            self.found[column].values.push(value);
        }
        Ok(())
    }

    fn begin(&mut self, subject: &ByteArray, metric: &ByteArray) -> Result<(), SeriesError> {
        self.end();
        let (subject_text, name) = (subject.as_utf8()?, metric.as_utf8()?);
        let declaration = self
            .index
            .find(subject_text, name)
            .ok_or_else(|| SeriesError::Undeclared(subject_text.to_owned(), name.to_owned()))?;
        let column = (self.wanted)(subject_text, declaration).then_some(self.found.len());
        if column.is_some() {
            let same = self.found.last().filter(|last| &*last.subject == subject_text);
            let subject = same.map_or_else(|| subject_text.into(), |last| Arc::clone(&last.subject));
            self.found.push(Found { subject, declaration: Arc::clone(declaration), values: Vec::new() });
        }
        let (subject, metric) = (subject.clone(), metric.clone());
        self.of = Some(Run { subject, metric, times: Vec::new(), column });
        Ok(())
    }

    fn end(&mut self) {
        if let Some(run) = self.of.take().filter(|run| run.times.len() > self.times.len()) {
            self.times = run.times;
        }
    }

    fn series(self, most: u64) -> Result<Series, SeriesError> {
        let rows = self.times.len();
        fits(self.found.len() as u64, rows as u64, most)?;
        let times = self.times.iter().map(|time| Time::ZERO + Span::from_secs_f64(*time)).collect();
        let (mut part, mut last): (u32, Option<Arc<str>>) = (0, None);
        let column = |found: Found| {
            part += u32::from(last.as_ref().is_some_and(|last| *last != found.subject));
            last = Some(Arc::clone(&found.subject));
            found.column(part, rows)
        };
        Ok(Series { times, columns: self.found.into_iter().map(column).collect(), starts: self.starts })
    }
}

impl Found {
    /// Returns the column with a sample for each of `rows` instants.
    fn column(mut self, part: u32, rows: usize) -> Column {
        if let (true, Some(constant)) = (self.values.len() < rows, self.values.first().copied()) {
            self.values.resize(rows, constant);
        }
        let data = match self.declaration.kind {
            Kind::Counter => Data::Counter(self.values.into_iter().map(|value| value as u64).collect()),
            Kind::Gauge | Kind::Histogram => Data::Gauge(self.values),
        };
        Column { part, element: self.subject, metric: Declared::Read(self.declaration), data }
    }
}

fn numbers(group: &dyn RowGroupReader, column: usize) -> Result<ColumnReaderImpl<DoubleType>, ParquetError> {
    match group.get_column_reader(column)? {
        ColumnReader::DoubleColumnReader(reader) => Ok(reader),
        _ => Err(ParquetError::General(format!("column {column} is not of numbers"))),
    }
}

fn texts(group: &dyn RowGroupReader, column: usize) -> Result<ColumnReaderImpl<ByteArrayType>, ParquetError> {
    match group.get_column_reader(column)? {
        ColumnReader::ByteArrayColumnReader(reader) => Ok(reader),
        _ => Err(ParquetError::General(format!("column {column} is not of text"))),
    }
}

fn batch<T: DataType>(reader: &mut ColumnReaderImpl<T>) -> Result<Vec<T::T>, ParquetError> {
    let mut rows = Vec::with_capacity(BATCH);
    reader.read_records(BATCH, None, None, &mut rows)?;
    Ok(rows)
}
