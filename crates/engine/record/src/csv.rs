//! Series as CSV (RFC 4180, with Unix line ends): a row for each instant.

use std::io::{self, Write};

use super::series::{Data, Series};

/// Writes a series: `time_s`, then a column for each name of each element. Numbers are written in full, so reading
/// them back gives the same ones; NaN is an empty field.
///
/// # Errors
/// As `out` gives.
pub fn write_csv(series: &Series, out: &mut impl Write) -> io::Result<()> {
    write!(out, "time_s")?;
    for column in &series.columns {
        write!(out, ",{}", quoted(&column.title()))?;
    }
    writeln!(out)?;
    for (row, time) in series.times.iter().enumerate() {
        write!(out, "{}", time.as_secs_f64())?;
        series.columns.iter().try_for_each(|column| write_cell(&column.data, row, out))?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_cell(data: &Data, row: usize, out: &mut impl Write) -> io::Result<()> {
    match data {
        Data::Counter(values) => write!(out, ",{}", values[row]),
        Data::Gauge(values) if values[row].is_nan() => write!(out, ","),
        Data::Gauge(values) => write!(out, ",{}", values[row]),
    }
}

/// Returns a field of CSV, quoted if necessary.
pub fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.into()
    }
}
