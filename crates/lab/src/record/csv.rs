//! Series as CSV (RFC 4180, with the line ends that Unix tools expect): a row for each instant.

use std::io::{self, BufRead, Write};

use bentpipe_net::Unit;
use bentpipe_units::{Span, Time};

use super::series::{Column, Data, Series};

/// Every unit a column can have.
pub(super) const UNITS: [Unit; 7] =
    [Unit::Bytes, Unit::Packets, Unit::Cells, Unit::Seconds, Unit::BitsPerSecond, Unit::Count, Unit::Ratio];

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

/// A field, in quotes where it needs them.
pub(crate) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.into()
    }
}

/// Why a file is not a series.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// It could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not what [`write_csv`] writes.
    #[error("line {line}: {problem}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Reads what [`write_csv`] wrote. All columns come back as gauges, as CSV does not tell; element paths come back
/// with dots for slashes.
///
/// # Errors
/// If it cannot be read, or is not such a file.
pub fn read_csv(input: impl BufRead) -> Result<Series, CsvError> {
    let mut series = Series::default();
    for (index, line) in input.lines().enumerate() {
        let fields = split(&line?);
        let malformed = |problem| CsvError::Malformed { line: index + 1, problem };
        if index == 0 {
            let columns: Option<Vec<Column>> = fields[1..].iter().map(|title| column(title)).collect();
            series.columns = columns.ok_or_else(|| malformed("a column title without name or unit"))?;
            continue;
        }
        if fields.len() != series.columns.len() + 1 {
            return Err(malformed("not as many fields as columns"));
        }
        let number = |field: &str| if field.is_empty() { Ok(f64::NAN) } else { field.parse::<f64>() };
        let time = number(&fields[0]).map_err(|_| malformed("not a number"))?;
        series.times.push(Time::ZERO + Span::from_secs_f64(time));
        for (column, field) in series.columns.iter_mut().zip(&fields[1..]) {
            let Data::Gauge(values) = &mut column.data else { unreachable!("columns are read as gauges") };
            values.push(number(field).map_err(|_| malformed("not a number"))?);
        }
    }
    Ok(series)
}

/// A column from its title, "flow.cubic.sender.cwnd [B]".
fn column(title: &str) -> Option<Column> {
    let (path, unit) = title.strip_suffix(']')?.rsplit_once(" [")?;
    let (element, name) = path.rsplit_once('.')?;
    let unit = UNITS.into_iter().find(|known| known.symbol() == unit)?;
    Some(Column { element: element.into(), name: name.into(), unit, data: Data::Gauge(Vec::new()) })
}

/// The fields of a line. Never empty.
fn split(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let field = fields.last_mut().expect("never empty");
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields
}
