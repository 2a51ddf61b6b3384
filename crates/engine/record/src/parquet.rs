//! Series as long Parquet: a row for each sample of each column.
//!
//! Rows are `time_s`, `subject`, `metric`, `unit`, `value`, column after column, each in rising order of time. A column that
//! never changes has its first and its last sample only. So the width of the file does not depend on the network, a filter on
//! `subject` or `metric` reads little, and `pivot` makes the wide form. Text is dictionary encoded (categories in pandas);
//! bytes of values are split by their place, which compresses counters well.

mod read;

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{ColumnPath, Type};

pub use read::{SeriesError, check_series, read_series, read_series_within};

use super::series::{Column, Series};

/// Rows of a row group: memory while writing and reading is in proportion.
const GROUP_ROWS: usize = 1 << 20;

/// Most bytes of a dictionary: the subjects of a row group fit.
const DICTIONARY_BYTES: usize = 8 << 20;

/// Names of the columns of text.
const TEXTS: [&str; 3] = ["subject", "metric", "unit"];

/// Writes a series as long Parquet. The same series gives the same bytes.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write_parquet(series: &Series, mut out: impl Write + Send) -> Result<()> {
    write_to(series, &mut out)
}

/// Writer of a file. A type parameter would compile the encoders in each caller's crate.
pub(crate) type Out<'a> = &'a mut (dyn Write + Send);

fn write_to(series: &Series, out: Out<'_>) -> Result<()> {
    let value = || ColumnPath::from("value");
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_column_dictionary_enabled(value(), false)
        .set_column_encoding(value(), Encoding::BYTE_STREAM_SPLIT)
        .set_created_by(concat!("bentpipe ", env!("CARGO_PKG_VERSION")).into())
        .build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema()?), Arc::new(properties))?;
    let columns: Vec<Kept<'_>> = series.columns.iter().map(Kept::of).collect();
    let seconds = series.seconds();
    for group in groups(&columns) {
        let mut writer = file.next_row_group()?;
        write_numbers(&mut writer, group, |kept, out| out.extend(kept.rows().map(|row| seconds[row])))?;
        write_texts(&mut writer, group, |column| column.element.as_bytes())?;
        write_texts(&mut writer, group, |column| column.name().as_bytes())?;
        write_texts(&mut writer, group, |column| column.unit().symbol().as_bytes())?;
        write_numbers(&mut writer, group, |kept, out| {
            out.extend(kept.rows().map(|row| kept.column.data.at(row).as_f64()));
        })?;
        writer.close()?;
    }
    file.close()?;
    Ok(())
}

/// A column and which of its samples are written.
struct Kept<'a> {
    column: &'a Column,
    is_constant: bool,
}

impl<'a> Kept<'a> {
    fn of(column: &'a Column) -> Kept<'a> {
        Kept { column, is_constant: column.data.is_constant() }
    }

    fn rows(&self) -> impl Iterator<Item = usize> {
        let len = self.column.data.len();
        let step = if self.is_constant { len.saturating_sub(1).max(1) } else { 1 };
        (0..len).step_by(step)
    }
}

/// Cuts the columns into row groups.
fn groups<'a, 'b>(mut columns: &'b [Kept<'a>]) -> impl Iterator<Item = &'b [Kept<'a>]> {
    std::iter::from_fn(move || {
        let mut rows = 0;
        let mut fits = |kept: &Kept<'_>| {
            rows += kept.rows().count();
            rows <= GROUP_ROWS
        };
        let count = columns.iter().take_while(|kept| fits(kept)).count().max(1).min(columns.len());
        let (group, rest) = columns.split_at(count);
        columns = rest;
        (!group.is_empty()).then_some(group)
    })
}

type GroupWriter<'a, 'b> = ::parquet::file::writer::SerializedRowGroupWriter<'a, Out<'b>>;

fn write_numbers(
    writer: &mut GroupWriter<'_, '_>,
    group: &[Kept<'_>],
    numbers: impl Fn(&Kept<'_>, &mut Vec<f64>),
) -> Result<()> {
    let mut out = writer.next_column()?.expect("a column for each in the schema");
    let mut buffer = Vec::new();
    for kept in group {
        buffer.clear();
        numbers(kept, &mut buffer);
        out.typed::<DoubleType>().write_batch(&buffer, None, None)?;
    }
    out.close()
}

fn write_texts(
    writer: &mut GroupWriter<'_, '_>,
    group: &[Kept<'_>],
    text: impl Fn(&Column) -> &[u8],
) -> Result<()> {
    let mut out = writer.next_column()?.expect("a column for each in the schema");
    for kept in group {
        let text = ByteArray::from(text(kept.column).to_vec());
        let rows = vec![text; kept.rows().count()];
        out.typed::<ByteArrayType>().write_batch(&rows, None, None)?;
    }
    out.close()
}

fn schema() -> Result<Type> {
    let number = |name: &'static str| Type::primitive_type_builder(name, Physical::DOUBLE);
    let text = |name: &'static str| {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY).with_logical_type(Some(LogicalType::String))
    };
    let columns = [number("time_s")].into_iter().chain(TEXTS.map(text)).chain([number("value")]);
    let columns = columns.map(|column| column.with_repetition(Repetition::REQUIRED).build().map(Arc::new));
    Type::group_type_builder("series").with_fields(columns.collect::<Result<_>>()?).build()
}

#[cfg(test)]
mod tests;
