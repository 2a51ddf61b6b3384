//! AAL5 (ITU-T I.363.5) on the engine's cells: segmentation and reassembly.
//!
//! Segmentation only counts cells; reassembly performs the checks of a receiver. The bytes of a PDU are built
//! only if some of its bits are corrupted. A PDU assembled from the cells of several PDUs counts as corrupt:
//! its length or its CRC-32 reveals it, the CRC with a probability of 1 - 2^-32.

use std::collections::VecDeque;

use bentpipe_net::{Observer, Packet, Peak, Why};
use bentpipe_wire::aal5;

use super::cell::{Cell, Word};
use crate::metrics;

/// The most cells of a PDU: 65,535 bytes of payload.
const MAX_CELLS: usize = aal5::cells(aal5::MAX_PAYLOAD_LEN);

/// Packets that wait to be sent as cells.
#[derive(Debug, Default)]
pub(crate) struct Segmenter {
    waiting: VecDeque<(u16, Packet)>,
    /// Cells of the first that are out.
    index: u16,
    serial: u32,
    cells: u64,
    max_cells: Peak,
    limit: Option<u32>,
}

impl Segmenter {
    /// Creates a segmenter with room for `limit` cells, or without a limit.
    pub(crate) fn new(limit: Option<u32>) -> Segmenter {
        Segmenter { limit, ..Segmenter::default() }
    }

    /// Returns `true` if the payload was enqueued: it has a valid length and fits.
    pub(crate) fn push(&mut self, payload: Packet) -> bool {
        let len = payload.len();
        if len == 0 || len > aal5::MAX_PAYLOAD_LEN {
            payload.lose(Why::TooBig);
            return false;
        }
        let cells = aal5::cells(len) as u16;
        if self.limit.is_some_and(|limit| self.cells + u64::from(cells) > u64::from(limit)) {
            payload.lose(Why::Queue);
            return false;
        }
        self.waiting.push_back((cells, payload));
        self.cells += u64::from(cells);
        self.max_cells.note(self.cells);
        true
    }

    /// Returns `true` if enqueueing a payload of at most `len` bytes would change no maximum.
    ///
    /// At most `gone` of the waiting cells are sent by then. There must still be cells in front of the
    /// payload, and room for it, and the number of waiting cells must stay within its previous maximum.
    #[inline]
    pub(crate) fn will_wait(&self, len: usize, gone: u64) -> bool {
        self.limit.is_none()
            && self.cells > gone
            && self.cells + aal5::cells(len) as u64 <= self.max_cells.get()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Reports how many cells wait, and how many did at most.
    pub(crate) fn observe(&self, observer: &mut dyn Observer) {
        observer.gauge(&metrics::QUEUE, self.cells as f64);
        self.max_cells.observe(&metrics::QUEUE_MAX, self.cells, observer);
    }

    /// Returns the number of waiting packets, including a partly sent one.
    pub(crate) fn packets(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the next cell: PDU number, cell number, and the payload with the last cell.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u32, u16, Option<Packet>)> {
        let (cells, _) = self.waiting.front()?;
        let (serial, index) = (self.serial, self.index);
        self.cells -= 1;
        if index + 1 < *cells {
            self.index += 1;
            return Some((serial, index, None));
        }
        self.index = 0;
        self.serial = serial.wrapping_add(1);
        let payload = self.waiting.pop_front().map(|(_, payload)| payload);
        Some((serial, index, payload))
    }

    /// Returns the number of cells that come next in the middle of a PDU.
    #[inline]
    pub(crate) fn middles(&self) -> u16 {
        self.waiting.front().map_or(0, |(cells, _)| *cells - 1 - self.index)
    }

    /// Returns the number of the next PDU, and of its next cell.
    #[inline]
    pub(crate) fn place(&self) -> (u32, u16) {
        (self.serial, self.index)
    }

    /// Skips `count` of [`Segmenter::middles`].
    #[inline]
    pub(crate) fn pass(&mut self, count: u16) {
        self.index += count;
        self.cells -= u64::from(count);
    }
}

/// Result of the reassembly of a PDU.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Payload, as it was sent unless the CRC missed an error.
    Whole(Packet),
    /// The number of cells does not go with the length.
    WrongLength,
    /// The CRC-32 does not match.
    WrongCrc,
}

/// AAL5 reassembler of one virtual channel.
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    serial: u32,
    /// Cells since the last one that ended a PDU.
    received: usize,
    /// Set if one of the cells is not the one expected in its place.
    mixed: bool,
    /// Wrong bits, with the place of the cell.
    masks: Vec<(usize, Packet)>,
}

impl Reassembler {
    /// Accepts a cell that does not end a PDU.
    #[inline]
    pub(crate) fn middle(&mut self, word: Word) {
        self.count(word);
        self.bound();
    }

    /// Bounds the cell count: a PDU longer than the maximum is invalid anyway.
    #[inline]
    fn bound(&mut self) {
        if self.received > MAX_CELLS {
            self.mixed = true;
            self.received = MAX_CELLS;
        }
    }

    /// Accepts a cell that does not end a PDU, and its successors ([`Word::follows`]).
    #[inline]
    pub(crate) fn middles(&mut self, first: Word, behind: &[Cell]) {
        self.middle(first);
        if let Some(last) = behind.last() {
            // None goes further than to the next place, so if the last one is where it should be, all are.
            self.mixed |= last.word.place() != first.place() + behind.len() as u64;
            self.received += behind.len();
            self.bound();
        }
    }

    #[inline]
    fn count(&mut self, word: Word) {
        if self.received == 0 {
            self.serial = word.serial();
        }
        self.mixed |= word.serial() != self.serial || usize::from(word.index()) != self.received;
        self.received += 1;
    }

    /// Accepts a cell that belongs to an unknown PDU.
    pub(crate) fn foreign(&mut self) {
        self.mixed = true;
        self.received = (self.received + 1).min(MAX_CELLS);
    }

    /// Records the corrupted bits of the next cell.
    pub(crate) fn damage(&mut self, mask: Packet) {
        if self.masks.len() < MAX_CELLS {
            self.masks.push((self.received, mask));
        }
    }

    /// Accepts the cell that ends a PDU, with the PDU's payload as sent.
    #[inline]
    pub(crate) fn last(&mut self, word: Word, payload: Packet) -> Outcome {
        self.count(word);
        let (received, mixed) = (std::mem::take(&mut self.received), std::mem::take(&mut self.mixed));
        let outcome = if received != aal5::cells(payload.len()) {
            Outcome::WrongLength
        } else if mixed {
            Outcome::WrongCrc
        } else if self.masks.is_empty() {
            return Outcome::Whole(payload);
        } else {
            examine(payload, &self.masks)
        };
        self.masks.clear();
        outcome
    }

    /// Ends a PDU with a cell of which nothing is known.
    pub(crate) fn end_foreign(&mut self) -> Outcome {
        *self = Reassembler::default();
        Outcome::WrongCrc
    }
}

/// Builds the PDU with its corrupted bits and checks it as a receiver does.
fn examine(payload: Packet, masks: &[(usize, Packet)]) -> Outcome {
    let mut bytes = payload.to_vec();
    let repr = aal5::Repr::new(bytes.len());
    bytes.resize(repr.buffer_len(), 0);
    repr.emit(&mut bytes);
    for (index, mask) in masks {
        let cell = bytes.chunks_mut(aal5::CELL_PAYLOAD_LEN).nth(*index).into_iter().flatten();
        cell.zip(mask.to_vec()).for_each(|(byte, wrong)| *byte ^= wrong);
    }
    let Ok(pdu) = aal5::Pdu::new_checked(&bytes[..]) else { return Outcome::WrongLength };
    if pdu.verify_crc().is_err() {
        return Outcome::WrongCrc;
    }
    let mut packet = Packet::from_bytes(pdu.payload());
    packet.set_origin(payload.into_origin());
    Outcome::Whole(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Vc;

    /// Returns the cells of PDUs of the given lengths, with their packets.
    fn cells(lens: &[usize]) -> Vec<(Word, Option<Packet>)> {
        let mut segmenter = Segmenter::default();
        lens.iter().for_each(|len| assert!(segmenter.push(Packet::new(8, *len as u32 - 8))));
        let next = std::iter::from_fn(|| segmenter.next());
        next.map(|(serial, index, payload)| {
            (Word::data(Vc::FIRST, serial, index, payload.is_some()), payload)
        })
        .collect()
    }

    fn outcomes(cells: impl IntoIterator<Item = (Word, Option<Packet>)>) -> Vec<String> {
        let mut reassembler = Reassembler::default();
        let take = |(word, payload): (Word, Option<Packet>)| match payload {
            None => {
                reassembler.middle(word);
                None
            }
            Some(payload) => Some(match reassembler.last(word, payload) {
                Outcome::Whole(packet) => packet.len().to_string(),
                other => format!("{other:?}"),
            }),
        };
        cells.into_iter().filter_map(take).collect()
    }

    #[test]
    fn whole_pdus_come_out_as_they_went_in() {
        assert_eq!(outcomes(cells(&[560, 48, 9188, 40, 65_535])), ["560", "48", "9188", "40", "65535"]);
        assert_eq!(cells(&[560, 48]).len(), 14);
        assert!(
            !Segmenter::default().push(Packet::new(0, 65_536))
                && !Segmenter::default().push(Packet::new(0, 0))
        );
    }

    #[test]
    fn a_segmenter_takes_what_it_has_room_for() {
        let mut segmenter = Segmenter::new(Some(25));
        let taken = [560, 560, 48, 40].map(|len| segmenter.push(Packet::new(0, len)));
        // 12 and 12 cells; two are too many, one is not.
        assert_eq!(
            (taken, [segmenter.cells, segmenter.max_cells.get()]),
            ([true, true, false, true], [25, 25])
        );
        segmenter.next();
        assert!(segmenter.push(Packet::new(0, 40)) && !segmenter.push(Packet::new(0, 40)));
    }

    #[test]
    fn any_lost_cell_costs_its_pdu_and_a_lost_last_cell_the_next_too() {
        for lost in 0..24 {
            let mut sent = cells(&[560, 560, 560]);
            sent.remove(lost);
            let expected: &[&str] = match lost {
                11 => &["WrongLength", "560"],
                23 => &["560", "WrongLength"],
                0..11 => &["WrongLength", "560", "560"],
                _ => &["560", "WrongLength", "560"],
            };
            assert_eq!(outcomes(sent), expected, "cell {lost}");
        }
    }

    #[test]
    fn a_pdu_of_two_halves_fails_its_crc() {
        let sent = cells(&[560, 560]);
        let joined = sent[..6].iter().chain(&sent[18..]).cloned();
        assert_eq!(outcomes(joined), ["WrongCrc"]);
    }

    #[test]
    fn wrong_bits_are_found_and_a_mask_of_nothing_changes_nothing() {
        for (wrong, expected) in [(0_u8, "560"), (1, "WrongCrc")] {
            let mut reassembler = Reassembler::default();
            let mut end = None;
            for (n, (word, payload)) in cells(&[560]).into_iter().enumerate() {
                if n == 3 {
                    let mut mask = Packet::new(48, 0);
                    mask.header_mut()[20] = wrong;
                    reassembler.damage(mask);
                }
                match payload {
                    None => reassembler.middle(word),
                    Some(payload) => end = Some(reassembler.last(word, payload)),
                }
            }
            let said = match end.unwrap() {
                Outcome::Whole(packet) => packet.len().to_string(),
                other => format!("{other:?}"),
            };
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn a_row_is_as_its_cells_one_by_one() {
        let sent: Vec<Cell> = cells(&[560, 560])
            .into_iter()
            .filter(|(_, payload)| payload.is_none())
            .map(|(word, _)| Cell { at: bentpipe_units::Time::ZERO, word })
            .collect();
        for (from, to) in (0..sent.len()).flat_map(|from| (from..=sent.len()).map(move |to| (from, to))) {
            for skipped in from..=to {
                let row: Vec<Cell> = sent[from..to]
                    .iter()
                    .copied()
                    .filter(|cell| *cell != sent[skipped.min(sent.len() - 1)])
                    .collect();
                let (mut one, mut many) = (Reassembler::default(), Reassembler::default());
                row.iter().for_each(|cell| one.middle(cell.word));
                if let [first, behind @ ..] = &row[..] {
                    many.middles(first.word, behind);
                }
                assert_eq!((one.serial, one.received, one.mixed), (many.serial, many.received, many.mixed));
            }
        }
    }

    #[test]
    fn an_endless_pdu_is_bounded() {
        let mut reassembler = Reassembler::default();
        (0..100_000).for_each(|_| reassembler.middle(Word::data(Vc::FIRST, 0, 0, false)));
        assert_eq!(reassembler.received, MAX_CELLS);
    }
}
