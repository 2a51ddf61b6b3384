//! Long interleaver of I.363.1: 47 code words, written as rows, sent as 128 columns. Section 2.5.2.4.1.
//!
//! Each column is the payload of one SAR-PDU, so a lost cell is one erasure in every code word: four of 128 are repaired.
//! A matrix holds 124 * 47 octets of data, which are exactly 31 MPEG-2 TS packets.

use super::PAYLOAD_LEN;
use super::reed_solomon::{CODE_LEN, DATA_LEN, checks, correct};

/// Number of code words of a matrix.
pub const ROWS: usize = PAYLOAD_LEN;
/// Number of SAR-PDUs in a matrix.
pub const COLUMNS: usize = CODE_LEN;
/// Length in bytes of the data in a matrix.
pub const MATRIX_DATA_LEN: usize = ROWS * DATA_LEN;

/// Returns the columns that carry `data`.
pub fn interleave(data: &[u8; MATRIX_DATA_LEN]) -> Vec<[u8; ROWS]> {
    let mut columns = vec![[0; ROWS]; COLUMNS];
    for (row, data) in data.chunks_exact(DATA_LEN).enumerate() {
        let data: &[u8; DATA_LEN] = data.first_chunk().expect("a whole row");
        let word = data.iter().chain(checks(data).iter()).copied().collect::<Vec<u8>>();
        columns.iter_mut().zip(word).for_each(|(column, octet)| column[row] = octet);
    }
    columns
}

/// Decoded matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Data, 5828 octets. Those of a bad row are as received, lost ones are zero.
    pub data: Vec<u8>,
    /// Flags of the rows whose octets are correct, as far as the code can judge.
    pub good: [bool; ROWS],
    /// Number of octets that were corrected.
    pub corrected: usize,
}

/// Returns the data of a matrix from its columns, `None` for missing ones.
///
/// # Panics
/// Panics unless there are 128 columns.
pub fn deinterleave(columns: &[Option<[u8; ROWS]>]) -> Matrix {
    assert_eq!(columns.len(), COLUMNS, "columns of a matrix");
    let erased: Vec<usize> = (0..COLUMNS).filter(|column| columns[*column].is_none()).collect();
    let mut matrix = Matrix { data: Vec::with_capacity(MATRIX_DATA_LEN), good: [false; ROWS], corrected: 0 };
    for row in 0..ROWS {
        let mut word = std::array::from_fn(|n| columns[n].map_or(0, |column| column[row]));
        // With more erasures than checks even a word that looks right is one of many.
        let corrected = if erased.len() > CODE_LEN - DATA_LEN { None } else { correct(&mut word, &erased) };
        matrix.good[row] = corrected.is_some();
        matrix.corrected += corrected.unwrap_or(0);
        matrix.data.extend(&word[..DATA_LEN]);
    }
    matrix
}
