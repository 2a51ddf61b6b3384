//! Parquet files of records, whose columns may be empty in any row.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::DataType;
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;

/// Type of a column's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Number,
    Whole,
    Text,
}

/// Returns the writer of a file.
pub(super) fn writer<W: Write + Send>(
    out: W,
    name: &str,
    columns: &[(&str, Kind)],
) -> Result<SerializedFileWriter<W>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("bentpipe ", env!("CARGO_PKG_VERSION")).into());
    SerializedFileWriter::new(out, Arc::new(schema(name, columns)?), Arc::new(properties.build()))
}

fn schema(name: &str, columns: &[(&str, Kind)]) -> Result<Type> {
    let column = |(name, kind): &(&str, Kind)| {
        let (physical, logical) = match kind {
            Kind::Number => (Physical::DOUBLE, None),
            Kind::Whole => (Physical::INT64, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let builder = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        builder.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let columns = columns.iter().map(column).collect::<Result<_>>()?;
    Type::group_type_builder(name).with_fields(columns).build()
}

/// Writes a column of values, of which some may be missing.
pub(super) fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<()> {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let present: Vec<T::T> = values.into_iter().flatten().collect();
    let mut out = group.next_column()?.expect("a column for each in the schema");
    out.typed::<T>().write_batch(&present, Some(&levels), None)?;
    out.close()
}
