//! Repair compared with theory, and with erasures alone.

use bentpipe_units::RandomStream;
use bentpipe_wire::rtp;
use bentpipe_wire::ts::RTP_PAYLOAD_TYPE;
use proptest::prelude::*;

use super::*;

/// A datagram that no other one is like, of a length of its own.
fn datagram(seq: u16) -> Vec<u8> {
    let mut bytes = vec![0; rtp::HEADER_LEN];
    rtp::Repr::new(RTP_PAYLOAD_TYPE, seq, u32::from(seq) * 77, 0x5eed).emit(&mut bytes);
    bytes.extend((0..188 + usize::from(seq) % 3).map(|at| (usize::from(seq) * 31 + at * 7) as u8));
    bytes
}

/// Datagrams and parity packets in the order in which they leave, with the sequence number of a datagram.
fn sent(matrix: Matrix, count: usize) -> Vec<(Option<u16>, Option<Direction>, Vec<u8>)> {
    let (mut encoder, mut sent) = (Encoder::new(matrix), Vec::new());
    for n in 0..count {
        let bytes = datagram(n as u16);
        sent.push((Some(n as u16), None, bytes.clone()));
        encoder.push(&bytes, |direction, packet| sent.push((None, Some(direction), packet.to_vec())));
    }
    sent
}

/// Number of datagrams that arrive or are repaired, of those sent, when the packets for which `lost` is set are lost.
fn delivered(matrix: Matrix, count: usize, mut lost: impl FnMut() -> bool) -> (usize, usize) {
    let (mut decoder, mut arrived, mut repaired) = (Decoder::default(), 0, 0);
    for (seq, _, bytes) in sent(matrix, count) {
        if lost() {
            continue;
        }
        let check = |recovered: &[u8]| {
            let seq = u16::from_be_bytes([recovered[2], recovered[3]]);
            assert_eq!(recovered, datagram(seq), "datagram {seq} is repaired wrong");
            repaired += 1;
        };
        match seq {
            Some(_) => {
                arrived += 1;
                decoder.push(&bytes, check);
            }
            None => decoder.push_parity(&bytes, check),
        }
    }
    assert_eq!(decoder.counts().malformed, 0);
    (arrived, repaired)
}

/// Number of datagrams that arrive or are repaired, by erasures in a grid alone: a row or column with one erasure is filled until
/// there is none. Parity of columns leaves after the first datagrams of the next grid.
fn peeled(matrix: Matrix, count: usize, mut lost: impl FnMut() -> bool) -> (usize, usize) {
    let (columns, rows) = (usize::from(matrix.columns()), usize::from(matrix.rows()));
    assert!(count.is_multiple_of(columns * rows), "whole grids");
    let grids = count / (columns * rows);
    let mut grid = vec![vec![false; columns * rows]; grids];
    let (mut row_parity, mut column_parity) =
        (vec![vec![false; rows]; grids], vec![vec![false; columns]; grids]);
    for n in 0..count {
        let (at, cell) = (n / (columns * rows), n % (columns * rows));
        grid[at][cell] = !lost();
        if cell < columns && at > 0 {
            column_parity[at - 1][cell] = !lost();
        }
        if matrix.has_row_parity() && cell % columns + 1 == columns {
            row_parity[at][cell / columns] = !lost();
        }
    }
    let arrived = grid.iter().flatten().filter(|cell| **cell).count();
    for at in 0..grids {
        let rows = (0..rows).filter(|row| row_parity[at][*row]);
        let rows = rows.map(|row| (row * columns..(row + 1) * columns).collect::<Vec<_>>());
        let lines = (0..columns).filter(|column| column_parity[at][*column]);
        let lines = lines.map(|column| (column..grid[at].len()).step_by(columns).collect::<Vec<_>>());
        let lines: Vec<_> = rows.chain(lines).collect();
        let only = |grid: &[bool], line: &Vec<usize>| {
            let mut erased = line.iter().filter(|cell| !grid[**cell]);
            erased.next().copied().filter(|_| erased.next().is_none())
        };
        while let Some(cell) = lines.iter().find_map(|line| only(&grid[at], line)) {
            grid[at][cell] = true;
        }
    }
    (arrived, grid.iter().flatten().filter(|cell| **cell).count() - arrived)
}

/// Losses at random, or in bursts of a mean length (Gilbert's model).
fn losses(ratio: f64, burst: f64, seed: u64) -> impl FnMut() -> bool {
    let mut random = RandomStream::new(seed, "losses");
    let (begin, end) = (ratio / (burst * (1.0 - ratio)), 1.0 / burst);
    let mut is_lost = false;
    move || {
        let draw = random.unit();
        is_lost = match (burst > 1.0, is_lost) {
            (false, _) => draw < ratio,
            (true, false) => draw < begin,
            (true, true) => draw >= end,
        };
        is_lost
    }
}

fn matrix(columns: u8, rows: u8, has_rows: bool) -> Matrix {
    Matrix::new(columns, rows, has_rows).expect("a matrix of the standard")
}

/// Loss after repair at 1 % and 5 % loss. Run it with `--nocapture` for the table of docs/reference/gateway.md.
#[test]
#[allow(clippy::print_stdout, reason = "the table is for the documentation")]
fn losses_after_repair_are_those_of_theory() {
    let count = 100_000;
    for (columns, rows, has_rows) in [(10, 10, false), (10, 5, false), (10, 10, true), (5, 5, true)] {
        let matrix = matrix(columns, rows, has_rows);
        for ratio in [0.01, 0.05] {
            for burst in [1.0, 4.0] {
                let (arrived, repaired) = delivered(matrix, count, losses(ratio, burst, 7));
                assert_eq!((arrived, repaired), peeled(matrix, count, losses(ratio, burst, 7)), "{matrix}");
                let left = (count - arrived - repaired) as f64 / count as f64;
                let before = (count - arrived) as f64 / count as f64;
                println!(
                    "{matrix}; loss {:.2} %, bursts of {burst}: {:.4} % left",
                    100.0 * before,
                    100.0 * left
                );
                assert!((before / ratio - 1.0).abs() < 0.15, "{before} of {ratio}");
                if !has_rows && burst == 1.0 {
                    // A loss stays if another of its column, or the parity packet, is lost too.
                    let theory = ratio * (1.0 - (1.0 - ratio).powi(rows.into()));
                    assert!((left / theory - 1.0).abs() < 0.15, "{left} of {theory}");
                }
            }
        }
    }
}

#[test]
fn bursts_up_to_the_number_of_columns_are_repaired_anywhere() {
    let matrix = matrix(10, 10, false);
    // Three matrices and the parity between them; that of the last one never leaves.
    for start in 0..=200 {
        let mut n = 0;
        let lost = || {
            n += 1;
            (start..start + 10).contains(&(n - 1))
        };
        let (arrived, repaired) = delivered(matrix, 300, lost);
        assert_eq!(arrived + repaired, 300, "{start}");
        assert!(arrived <= 295, "{start}");
    }
}

#[test]
fn only_matrices_of_the_standard_are_made() {
    for (columns, rows, has_rows) in
        [(0, 5, false), (21, 4, false), (3, 5, true), (5, 3, false), (5, 21, false), (20, 6, true)]
    {
        assert!(Matrix::new(columns, rows, has_rows).is_err(), "{columns} x {rows}");
    }
    assert_eq!(matrix(10, 5, true).to_string(), "parity of columns and rows, 10 x 5 datagrams, 30.0 % more");
}

#[test]
fn a_new_sender_is_not_repaired_by_parity_of_the_old_one() {
    let (matrix, mut decoder, mut repaired) = (matrix(5, 4, true), Decoder::default(), 0);
    for (n, (seq, _, bytes)) in sent(matrix, 20).into_iter().enumerate() {
        match seq {
            Some(3) => {}
            Some(_) => decoder.push(&bytes, |_| repaired += 1),
            // Another sender, with the same numbers, comes between.
            None if n == 5 => {
                let mut other = datagram(4);
                other[8] ^= 1;
                decoder.push(&other, |_| repaired += 1);
            }
            None => {}
        }
    }
    assert_eq!(repaired, 0);
}

#[test]
fn parity_that_contradicts_its_datagrams_repairs_nothing() {
    let (matrix, mut decoder) = (matrix(5, 4, true), Decoder::default());
    for (seq, direction, mut bytes) in sent(matrix, 5) {
        if direction.is_some() {
            // The length: the sum does not end in zeros any more.
            bytes[rtp::HEADER_LEN + 3] ^= 0x40;
            decoder.push_parity(&bytes, |_| panic!("it is wrong"));
        } else if seq != Some(2) {
            decoder.push(&bytes, |_| panic!("nothing can be repaired"));
        }
    }
    assert_eq!(decoder.counts(), Counts { parity: 1, recovered: 0, malformed: 1 });
}

proptest! {
    /// Any order, loss and duplication of packets: what is repaired is right.
    #[test]
    fn whatever_arrives_repairs_are_right(
        columns in 4u8..11, rows in 4u8..10, has_rows: bool, picks in proptest::collection::vec(0usize..400, 0..600),
    ) {
        let (sent, mut decoder) = (sent(matrix(columns, rows, has_rows), 250), Decoder::default());
        for pick in picks {
            let Some((seq, _, bytes)) = sent.get(pick) else { continue };
            let check = |recovered: &[u8]| {
                let seq = u16::from_be_bytes([recovered[2], recovered[3]]);
                assert_eq!(recovered, datagram(seq));
            };
            match seq {
                Some(_) => decoder.push(bytes, check),
                None => decoder.push_parity(bytes, check),
            }
        }
        prop_assert_eq!(decoder.counts().malformed, 0);
    }

    #[test]
    fn headers_are_written_as_they_are_read(base: u16, len: u16, payload_type in 0u8..128, timestamp: u32, is_row: bool, offset in 1u8.., count in 1u8..) {
        let header = Header { base, len, payload_type, timestamp, is_row, offset, count };
        prop_assert_eq!(Header::parse(&header.to_bytes()), Some(header));
        let protected: Vec<u16> = header.protected().collect();
        prop_assert!(protected.iter().all(|seq| header.protects(*seq)));
        prop_assert!(!header.protects(base.wrapping_sub(1)) || protected.contains(&base.wrapping_sub(1)));
    }
}
