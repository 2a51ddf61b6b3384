//! Series as Parquet: one row group, Snappy, doubles for values and 64-bit integers for totals.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, Repetition, Type as Physical};
use ::parquet::data_type::{DoubleType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;

use super::series::{Data, Series};

/// Writes a series: `time_s`, then a column for each name of each element. The same series gives the same bytes.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_parquet(series: &Series, out: impl Write + Send) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("bentpipe ", env!("CARGO_PKG_VERSION")).into())
        .build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema(series)?), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    let seconds = Data::Gauge(series.seconds());
    for data in std::iter::once(&seconds).chain(series.columns.iter().map(|column| &column.data)) {
        let mut column = group.next_column()?.expect("a column for each in the schema");
        write_column(data, &mut column)?;
        column.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn schema(series: &Series) -> Result<Type> {
    let field = |name: &str, physical| {
        let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        field.build().map(Arc::new)
    };
    let mut fields = vec![field("time_s", Physical::DOUBLE)?];
    for column in &series.columns {
        let physical = match column.data {
            Data::Counter(_) => Physical::INT64,
            Data::Gauge(_) => Physical::DOUBLE,
        };
        fields.push(field(&column.title(), physical)?);
    }
    Type::group_type_builder("series").with_fields(fields).build()
}

fn write_column(data: &Data, column: &mut SerializedColumnWriter<'_>) -> Result<()> {
    match data {
        Data::Counter(values) => {
            let signed: Vec<i64> =
                values.iter().map(|&total| i64::try_from(total).unwrap_or(i64::MAX)).collect();
            column.typed::<Int64Type>().write_batch(&signed, None, None)?;
        }
        Data::Gauge(values) => {
            column.typed::<DoubleType>().write_batch(values, None, None)?;
        }
    }
    Ok(())
}
