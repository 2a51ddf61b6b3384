//! AAL5 (ITU-T I.363.5) in cells of the engine: segmentation counts, reassembly checks what a receiver would.
//!
//! The bytes of a PDU are made only where bits of it are wrong. A PDU that is made up of cells of several is taken as
//! damaged: its length or its CRC-32 says so, the CRC but for one in 2^32.

use std::collections::VecDeque;

use bentpipe_wire::aal5;

use super::cell::{Cell, Word};
use crate::Packet;

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
    max_cells: u64,
    limit: Option<u32>,
}

impl Segmenter {
    /// A segmenter with room for so many cells; without a number, for as many as come.
    pub(crate) fn new(limit: Option<u32>) -> Segmenter {
        Segmenter { limit, ..Segmenter::default() }
    }

    /// Takes a payload; refuses one that is too long or empty, or that there is no room for.
    pub(crate) fn push(&mut self, payload: Packet) -> bool {
        let len = payload.len();
        if len == 0 || len > aal5::MAX_PAYLOAD_LEN {
            return false;
        }
        let cells = aal5::cells(len) as u16;
        if self.limit.is_some_and(|limit| self.cells + u64::from(cells) > u64::from(limit)) {
            return false;
        }
        self.waiting.push_back((cells, payload));
        self.cells += u64::from(cells);
        self.max_cells = self.max_cells.max(self.cells);
        true
    }

    /// Whether a payload of at most `len` bytes is behind others once at most so many cells of these are `gone`, and there is room
    /// for it without more cells waiting then than ever did.
    #[inline]
    pub(crate) fn will_wait(&self, len: usize, gone: u64) -> bool {
        self.limit.is_none() && self.cells > gone && self.cells + aal5::cells(len) as u64 <= self.max_cells
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Cells that wait, and the most there ever were.
    pub(crate) fn cells(&self) -> [u64; 2] {
        [self.cells, self.max_cells]
    }

    /// How many packets wait, one that is partly out included.
    pub(crate) fn packets(&self) -> usize {
        self.waiting.len()
    }

    /// The next cell: its PDU's number, its own in it, and the payload if it is the last.
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

    /// How many cells come next in the middle of a PDU.
    #[inline]
    pub(crate) fn middles(&self) -> u16 {
        self.waiting.front().map_or(0, |(cells, _)| *cells - 1 - self.index)
    }

    /// The number of the PDU that comes next, and of its cell.
    #[inline]
    pub(crate) fn place(&self) -> (u32, u16) {
        (self.serial, self.index)
    }

    /// Passes over so many of [`Segmenter::middles`].
    #[inline]
    pub(crate) fn pass(&mut self, count: u16) {
        self.index += count;
        self.cells -= u64::from(count);
    }
}

/// What became of a PDU.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Its payload, as it was sent as far as the CRC can tell.
    Whole(Packet),
    /// The number of cells does not go with the length.
    WrongLength,
    /// The CRC-32 does not match.
    WrongCrc,
}

/// Puts PDUs together.
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    serial: u32,
    /// Cells since the last one that ended a PDU.
    received: usize,
    /// Whether any of them is not the one that should have been in its place.
    mixed: bool,
    /// Wrong bits, with the place of the cell.
    masks: Vec<(usize, Packet)>,
}

impl Reassembler {
    /// Takes a cell that does not end a PDU.
    #[inline]
    pub(crate) fn middle(&mut self, word: Word) {
        self.count(word);
        self.bound();
    }

    /// Longer than any PDU: nothing good can come of it, and the count is bounded.
    #[inline]
    fn bound(&mut self) {
        if self.received > MAX_CELLS {
            self.mixed = true;
            self.received = MAX_CELLS;
        }
    }

    /// Takes a cell that does not end a PDU, and those behind it that follow one another ([`Word::follows`]).
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

    /// Takes a cell that is of no PDU known here.
    pub(crate) fn foreign(&mut self) {
        self.mixed = true;
        self.received = (self.received + 1).min(MAX_CELLS);
    }

    /// Takes which bits of the next cell are wrong.
    pub(crate) fn damage(&mut self, mask: Packet) {
        if self.masks.len() < MAX_CELLS {
            self.masks.push((self.received, mask));
        }
    }

    /// Takes the cell that ends a PDU, and the payload of the PDU that it was made of.
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
            examine(&payload, &self.masks)
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

/// Makes the PDU with its wrong bits and reads it as a receiver does.
fn examine(payload: &Packet, masks: &[(usize, Packet)]) -> Outcome {
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
    packet.set_born(payload.born());
    Outcome::Whole(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atm::cell::Vc;

    /// The cells of PDUs of these lengths, with what travels with them.
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
        assert_eq!((taken, segmenter.cells()), ([true, true, false, true], [25, 25]));
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
