//! Forward error correction of RTP streams by parity of rows and columns (SMPTE 2022-1).
//!
//! Datagrams are numbered row by row into matrices of L columns and D rows. The XOR of each column, and if asked for of each row,
//! is sent as a stream of RTP of its own. A receiver repairs what is the only loss of a row or column, again and again.
//!
//! *Models*: level A (columns) and level B (columns and rows), matrices aligned to blocks, parity of columns sent between the
//! datagrams of the next matrix. *Does not model*: staggered matrices, other codes than XOR.
//!
//! References: SMPTE 2022-1; Pro-MPEG Code of Practice 3 release 2; RFC 5109 for parity of RTP and its recovery procedure.

mod decoder;
mod encoder;
mod header;

use std::fmt;

pub use decoder::{Counts, Decoder};
pub use encoder::Encoder;
pub use header::{HEADER_LEN, Header};

/// Direction of a parity packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Every L-th datagram of a matrix.
    Column,
    /// L datagrams in a row.
    Row,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Column, Direction::Row];

    /// Returns the distance of its UDP port from that of the datagrams that it protects.
    pub const fn port_offset(self) -> u16 {
        match self {
            Direction::Column => 2,
            Direction::Row => 4,
        }
    }
}

/// Size of the matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    columns: u8,
    rows: u8,
    has_row_parity: bool,
}

/// Error returned when a matrix is not one of the standard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMatrix {
    /// The number of columns is out of range.
    #[error("{0} columns: expected 1 to 20, and 4 or more with parity of rows")]
    Columns(u8),
    /// The number of rows is out of range.
    #[error("{0} rows: expected 4 to 20")]
    Rows(u8),
    /// There are too many datagrams.
    #[error("{0} datagrams: expected 100 or fewer in a matrix")]
    Datagrams(u16),
}

impl Matrix {
    /// Creates a matrix of `columns` and `rows`. Columns have parity, and rows if asked for.
    ///
    /// # Errors
    /// Returns an error if the standard has no such matrix.
    pub fn new(columns: u8, rows: u8, has_row_parity: bool) -> Result<Matrix, InvalidMatrix> {
        if !(if has_row_parity { 4..=20 } else { 1..=20 }).contains(&columns) {
            return Err(InvalidMatrix::Columns(columns));
        }
        if !(4..=20).contains(&rows) {
            return Err(InvalidMatrix::Rows(rows));
        }
        let datagrams = u16::from(columns) * u16::from(rows);
        if datagrams > 100 {
            return Err(InvalidMatrix::Datagrams(datagrams));
        }
        Ok(Matrix { columns, rows, has_row_parity })
    }

    /// Returns the number of columns, L.
    pub fn columns(self) -> u8 {
        self.columns
    }

    /// Returns the number of rows, D.
    pub fn rows(self) -> u8 {
        self.rows
    }

    /// Returns `true` if rows have parity.
    pub fn has_row_parity(self) -> bool {
        self.has_row_parity
    }

    /// Returns the number of parity packets per datagram.
    pub fn overhead(self) -> f64 {
        let of_rows = if self.has_row_parity { 1.0 / f64::from(self.columns) } else { 0.0 };
        1.0 / f64::from(self.rows) + of_rows
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directions = if self.has_row_parity { "columns and rows" } else { "columns" };
        let percent = 100.0 * self.overhead();
        write!(f, "parity of {directions}, {} x {} datagrams, {percent:.1} % more", self.columns, self.rows)
    }
}

#[cfg(test)]
mod tests;
