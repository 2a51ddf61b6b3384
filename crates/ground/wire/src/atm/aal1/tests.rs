//! AAL1: published tables, what the code repairs and what not, and streams through loss and misinsertion.

use super::fec::{COLUMNS, MATRIX_DATA_LEN, deinterleave, interleave};
use super::reed_solomon::{CODE_LEN, checks, correct};
use super::sn::{Checker, SequenceNumber};
use super::*;
use crate::Kind;
use proptest::prelude::*;

#[test]
fn headers_are_those_of_the_published_table() {
    // MPC8260 manual, AAL1 sequence number protection: the low nibble for each sequence number.
    let table = [0x0, 0x7, 0xd, 0xa, 0xe, 0x9, 0x3, 0x4, 0xb, 0xc, 0x6, 0x1, 0x5, 0x2, 0x8, 0xf];
    for (number, low) in (0_u8..).zip(table) {
        let sn = SequenceNumber { csi: number & 8 != 0, count: number & 7 };
        assert_eq!(sn.header(), number << 4 | low);
    }
}

#[test]
fn one_wrong_bit_is_corrected_and_then_none() {
    for number in 0..16_u8 {
        let sn = SequenceNumber { csi: number & 8 != 0, count: number & 7 };
        for bit in 0..8 {
            let mut checker = Checker::default();
            assert_eq!(checker.check(sn.header() ^ 1 << bit), Some(sn));
            assert_eq!(checker.check(sn.header() ^ 1 << bit), None, "in detection mode");
            assert_eq!(checker.check(sn.header()), Some(sn));
            assert_eq!(checker.check(sn.header() ^ 1 << bit), Some(sn), "in correction mode again");
            let twice = sn.header() ^ 1 << bit ^ 1 << ((bit + 3) % 8);
            assert_eq!(Checker::default().check(twice), None);
        }
    }
}

#[test]
fn check_octets_are_those_computed_elsewhere() {
    let counting = std::array::from_fn(|i| i as u8);
    assert_eq!(checks(&counting), [0x3a, 0x68, 0x22, 0x56]);
    assert_eq!(checks(&[0; 124]), [0; 4]);
    // Data of zeros but for a last 1: the generator itself.
    let mut one = [0; 124];
    one[123] = 1;
    assert_eq!(checks(&one), [0xbd, 0xe8, 0xb4, 0xd2]);
}

fn word(seed: u8) -> [u8; CODE_LEN] {
    let data = std::array::from_fn(|i| (i as u8).wrapping_mul(seed) ^ seed.rotate_left(3));
    let mut word = [0; CODE_LEN];
    word[..124].copy_from_slice(&data);
    word[124..].copy_from_slice(&checks(&data));
    word
}

proptest! {
    #[test]
    fn what_is_within_reach_is_corrected(
        seed: u8,
        places in proptest::sample::subsequence((0..CODE_LEN).collect::<Vec<_>>(), 4).prop_shuffle(),
        changes: [u8; 4],
        erasures in 0_usize..=4,
    ) {
        let original = word(seed);
        let mut damaged = original;
        let wrong = erasures + (4 - erasures) / 2;
        for (place, change) in places[..wrong].iter().zip(changes) {
            damaged[*place] ^= change;
        }
        let changed = damaged.iter().zip(&original).filter(|(a, b)| a != b).count();
        prop_assert_eq!(correct(&mut damaged, &places[..erasures]), Some(changed));
        prop_assert_eq!(damaged, original);
    }

    #[test]
    fn a_word_is_right_or_left_alone(seed: u8, damage in proptest::collection::vec((0..CODE_LEN, any::<u8>()), 0..12), erased in proptest::collection::btree_set(0..CODE_LEN, 0..6)) {
        let mut damaged = word(seed);
        damage.iter().for_each(|(place, change)| damaged[*place] ^= change);
        let before = damaged;
        let erased: Vec<usize> = erased.into_iter().collect();
        match correct(&mut damaged, &erased) {
            None => prop_assert_eq!(damaged, before),
            Some(_) => {
                let data: &[u8; 124] = damaged.first_chunk().unwrap();
                prop_assert_eq!(&checks(data)[..], &damaged[124..]);
            }
        }
    }

    #[test]
    fn any_cells_are_taken(cells in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 40..50), 0..300), fec: bool) {
        let mut reassembler = Reassembler::new(if fec { Fec::Long } else { Fec::None });
        let mut octets = 0;
        for cell in &cells {
            let _ = reassembler.push(cell);
            octets += std::iter::from_fn(|| reassembler.pop()).count();
        }
        reassembler.finish();
        octets += std::iter::from_fn(|| reassembler.pop()).count();
        prop_assert!(octets <= cells.len() * 8 + 124 * 300);
    }
}

fn stream(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * i / 7 + i) as u8).collect()
}

fn cells(fec: Fec, octets: &[u8]) -> Vec<[u8; SAR_PDU_LEN]> {
    let mut segmenter = Segmenter::new(fec);
    octets.chunks(188).for_each(|part| segmenter.push(part));
    segmenter.finish();
    std::iter::from_fn(|| segmenter.pop()).collect()
}

fn received(fec: Fec, cells: &[[u8; SAR_PDU_LEN]]) -> (Vec<u8>, Vec<bool>, Stats) {
    let mut reassembler = Reassembler::new(fec);
    cells.iter().for_each(|cell| reassembler.push(cell).expect("48 bytes"));
    reassembler.finish();
    let payloads: Vec<Payload> = std::iter::from_fn(|| reassembler.pop()).collect();
    let octets = payloads.iter().flat_map(|payload| payload.octets).collect();
    (octets, payloads.iter().map(|payload| payload.good).collect(), reassembler.stats())
}

#[test]
fn a_clean_stream_comes_out_as_it_went_in() {
    for fec in [Fec::None, Fec::Long] {
        let octets = stream(31 * 188 * 3);
        let cells = cells(fec, &octets);
        assert_eq!(cells.len(), if fec == Fec::None { 31 * 4 * 3 } else { 128 * 3 });
        let (out, good, stats) = received(fec, &cells);
        assert_eq!(out, octets);
        assert!(good.iter().all(|good| *good));
        assert_eq!(stats, Stats { received: cells.len() as u64, ..Stats::default() });
    }
}

#[test]
fn cells_are_whole_ts_packets_and_a_matrix_too() {
    assert_eq!(188 % PAYLOAD_LEN, 0);
    assert_eq!(MATRIX_DATA_LEN, 31 * 188);
    assert_eq!(cells(Fec::Long, &[1]).len(), 128);
    assert_eq!(cells(Fec::None, &[1]).len(), 1);
}

#[test]
fn lost_cells_are_counted_and_replaced() {
    let octets = stream(47 * 40);
    for missing in 1..=6 {
        let mut cells = cells(Fec::None, &octets);
        cells.drain(10..10 + missing);
        let (out, good, stats) = received(Fec::None, &cells);
        assert_eq!(stats.lost, missing as u64);
        assert_eq!(good.iter().filter(|good| !**good).count(), missing);
        let mut expected = octets.clone();
        expected[470..470 + 47 * missing].fill(0);
        assert_eq!(out, expected);
    }
}

#[test]
fn a_misinserted_cell_is_found() {
    let octets = stream(47 * 40);
    for number in 0..8 {
        let mut cells = cells(Fec::None, &octets);
        let mut stranger = [0x99; SAR_PDU_LEN];
        stranger[0] = SequenceNumber { csi: false, count: number }.header();
        cells.insert(16, stranger);
        let (out, _, stats) = received(Fec::None, &cells);
        if number == 0 {
            // It has just the number expected: nobody can tell, and the right one behind it looks like the stranger.
            assert_eq!(out.len(), octets.len());
        } else {
            assert_eq!((out, stats.misinserted, stats.lost), (octets.clone(), 1, 0), "number {number}");
        }
    }
}

#[test]
fn a_bad_header_is_a_lost_cell() {
    let octets = stream(47 * 40);
    let mut cells = cells(Fec::None, &octets);
    cells[9][0] ^= 0x41;
    let (out, good, stats) = received(Fec::None, &cells);
    assert_eq!((stats.bad_headers, stats.lost, out.len()), (1, 1, octets.len()));
    assert!(!good[9]);
}

#[test]
fn four_lost_cells_of_a_matrix_are_repaired_and_five_are_not() {
    let octets = stream(MATRIX_DATA_LEN * 3);
    for lost in [[130, 131, 132, 133].as_slice(), &[128, 200, 254, 255]] {
        let mut cells = cells(Fec::Long, &octets);
        lost.iter().rev().for_each(|cell| _ = cells.remove(*cell));
        let (out, good, stats) = received(Fec::Long, &cells);
        assert_eq!(out, octets);
        assert!(good.iter().all(|good| *good) && stats.lost == 4);
    }
    let mut cells = cells(Fec::Long, &octets);
    cells.drain(140..145);
    let (out, good, stats) = received(Fec::Long, &cells);
    assert_eq!((out.len(), stats.failed_rows), (octets.len(), 47));
    assert_eq!(good.iter().filter(|good| !**good).count(), 124);
    assert_eq!(out[..MATRIX_DATA_LEN], octets[..MATRIX_DATA_LEN]);
    assert_eq!(out[2 * MATRIX_DATA_LEN..], octets[2 * MATRIX_DATA_LEN..]);
}

#[test]
fn two_wrong_octets_of_a_row_are_repaired() {
    let octets = stream(MATRIX_DATA_LEN);
    let mut cells = cells(Fec::Long, &octets);
    cells[3][1..].fill(0xa5);
    cells[77][10] ^= 4;
    let (out, _, stats) = received(Fec::Long, &cells);
    assert_eq!((out, stats.failed_rows), (octets, 0));
}

#[test]
fn a_long_burst_spoils_its_matrix_only() {
    let octets = stream(MATRIX_DATA_LEN * 3);
    let mut cells = cells(Fec::Long, &octets);
    // 40 cells: five times around the sequence count, so the numbers show nothing.
    cells.drain(100..140);
    let (out, good, _) = received(Fec::Long, &cells);
    assert_eq!(out[out.len() - MATRIX_DATA_LEN..], octets[2 * MATRIX_DATA_LEN..]);
    assert!(good[good.len() - 124..].iter().all(|good| *good));
}

#[test]
fn a_strangers_mark_begins_no_matrix() {
    let octets = stream(MATRIX_DATA_LEN * 3);
    for count in 1..8 {
        let mut cells = cells(Fec::Long, &octets);
        // It has just the number expected, and the mark: it passes as the cell that comes behind it, a wrong column.
        let mut stranger = [0x99; SAR_PDU_LEN];
        stranger[0] = SequenceNumber { csi: true, count }.header();
        cells.insert(136 + usize::from(count), stranger);
        let (out, good, stats) = received(Fec::Long, &cells);
        assert!(out == octets && good.iter().all(|good| *good), "count {count}: {stats:?}");
    }
}

#[test]
fn a_receiver_that_joins_waits_for_a_matrix() {
    let octets = stream(MATRIX_DATA_LEN * 2);
    let (out, ..) = received(Fec::Long, &cells(Fec::Long, &octets)[5..]);
    assert_eq!(out, octets[MATRIX_DATA_LEN..]);
}

#[test]
fn columns_are_rows_read_the_other_way() {
    let data: [u8; MATRIX_DATA_LEN] = std::array::from_fn(|i| (i / 124) as u8);
    let columns = interleave(&data);
    let counting: Vec<u8> = (0..47).collect();
    assert!(columns[..124].iter().all(|column| column[..] == counting[..]));
    let all: Vec<_> = columns.into_iter().map(Some).collect();
    assert_eq!((deinterleave(&all).data, all.len()), (data.to_vec(), COLUMNS));
}

#[test]
fn pointers_have_parity() {
    let mut pdu = [0; SAR_PDU_LEN];
    for offset in (0..=MAX_POINTER).map(Some).chain([None]) {
        pdu[1] = pointer_octet(offset);
        assert_eq!(SarPdu::new_checked(&pdu).expect("48 bytes").pointer(), Ok(offset));
        pdu[1] ^= 1;
        let error = SarPdu::new_checked(&pdu).expect("48 bytes").pointer().expect_err("wrong parity");
        assert_eq!(error.kind, Kind::Checksum);
    }
    pdu[1] = 94 | 0x80;
    assert!(SarPdu::new_checked(&pdu).expect("48 bytes").pointer().is_err());
    assert_eq!(SarPdu::new_checked(&[0; 47]).unwrap_err().kind, Kind::Truncated { needed: 48, have: 47 });
    assert!(SarPdu::new_checked(&[0; 49]).is_err());
}
