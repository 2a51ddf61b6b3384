//! Tables with typed columns, for other programs: CSV, and the Python package.

use std::io::{self, Write};
use std::sync::Arc;

use super::quoted;

/// Table whose columns have a type and a unit each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Columns, all of one length.
    pub columns: Vec<FrameColumn>,
}

/// Column of a [`Frame`].
#[derive(Clone, Debug, PartialEq)]
pub struct FrameColumn {
    /// Title: "flow.cubic.sender.cwnd [B]".
    pub title: String,
    /// Symbol of the unit; empty for texts and for columns of several units.
    pub unit: String,
    /// Values.
    pub values: FrameValues,
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameValues {
    /// Texts.
    Texts(Vec<Arc<str>>),
    /// Whole numbers.
    Integers(Vec<u64>),
    /// Numbers; NaN where a value is missing.
    Numbers(Vec<f64>),
}

impl FrameColumn {
    /// Creates a column of texts.
    pub fn texts<T: AsRef<str>>(title: &str, values: impl IntoIterator<Item = T>) -> FrameColumn {
        let texts = values.into_iter().map(|text| Arc::from(text.as_ref()));
        FrameColumn::new(title, "", FrameValues::Texts(texts.collect()))
    }

    /// Creates a column of whole numbers.
    pub fn integers(title: &str, values: impl IntoIterator<Item = u64>) -> FrameColumn {
        FrameColumn::new(title, "", FrameValues::Integers(values.into_iter().collect()))
    }

    /// Creates a column of numbers with a unit; NaN stands for no value.
    pub fn numbers(title: &str, unit: &str, values: impl IntoIterator<Item = f64>) -> FrameColumn {
        FrameColumn::new(title, unit, FrameValues::Numbers(values.into_iter().collect()))
    }

    fn new(title: &str, unit: &str, values: FrameValues) -> FrameColumn {
        FrameColumn { title: title.to_owned(), unit: unit.to_owned(), values }
    }
}

impl FrameValues {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            FrameValues::Texts(values) => values.len(),
            FrameValues::Integers(values) => values.len(),
            FrameValues::Numbers(values) => values.len(),
        }
    }

    /// Returns `true` if it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a value with all its digits; empty if it is missing.
    ///
    /// # Panics
    /// Panics if the row does not exist.
    pub fn text(&self, row: usize) -> String {
        match self {
            FrameValues::Texts(values) => values[row].to_string(),
            FrameValues::Integers(values) => values[row].to_string(),
            FrameValues::Numbers(values) if values[row].is_nan() => String::new(),
            FrameValues::Numbers(values) => values[row].to_string(),
        }
    }
}

impl Frame {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// Returns a column by its title.
    pub fn column(&self, title: &str) -> Option<&FrameColumn> {
        self.columns.iter().find(|column| column.title == title)
    }

    /// Writes the table as CSV. Numbers have all their digits; NaN is an empty field.
    ///
    /// # Errors
    /// As `out` gives.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        let titles: Vec<String> = self.columns.iter().map(|column| quoted(&column.title)).collect();
        writeln!(out, "{}", titles.join(","))?;
        for row in 0..self.rows() {
            let cells: Vec<String> =
                self.columns.iter().map(|column| quoted(&column.values.text(row))).collect();
            writeln!(out, "{}", cells.join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_all_digits_and_an_empty_field_for_no_value() {
        let frame = Frame {
            columns: vec![
                FrameColumn::texts("rate, or so", ["1 Mbit/s", "a \"b\""]),
                FrameColumn::integers("seed", [1, u64::MAX]),
                FrameColumn::numbers("value [s]", "s", [0.1 + 0.2, f64::NAN]),
            ],
        };
        let mut csv = Vec::new();
        frame.write_csv(&mut csv).expect("memory");
        let expected = "\"rate, or so\",seed,value [s]\n1 Mbit/s,1,0.30000000000000004\n\"a \"\"b\"\"\",18446744073709551615,\n";
        assert_eq!(String::from_utf8_lossy(&csv), expected);
        assert_eq!((frame.rows(), frame.column("seed").map(|column| column.values.len())), (2, Some(2)));
    }
}
