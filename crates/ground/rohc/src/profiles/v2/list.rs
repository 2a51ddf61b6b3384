//! The list of CSRCs (RFC 5225 6.6.13). Indices refer to a table of items; unknown items go along.

use alloc::vec::Vec;

use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};

/// Maximum number of items (RFC 5225 6.6.13.4).
pub(super) const ITEMS: usize = 16;

const LARGE_INDICES: u8 = 0x10;
const PRESENT_4: u8 = 8;
const PRESENT_8: u8 = 0x80;

/// Items that the decompressor knows, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    items: [[u8; 4]; ITEMS],
    known: u16,
}

impl Table {
    /// Adds the items of `older` that this one lacks.
    pub(super) fn complete(&mut self, older: &Self) {
        for index in (0..ITEMS).filter(|&index| !self.known & older.known & 1 << index != 0) {
            self.items[index] = older.items[index];
        }
        self.known |= older.known;
    }
}

/// Reads a list into the RTP header at `at`, at the end of `headers`.
///
/// In a dynamic chain (`whole`) all items must be there. `table` is that of a draft, adopted with the packet.
pub(super) fn read(
    input: &mut Reader<'_>,
    headers: &mut Vec<u8>,
    at: usize,
    table: &mut Table,
    whole: bool,
) -> Result<(), DecompressError> {
    let first = input.u8()?;
    let count = usize::from(first & 0x0f);
    let large = first & LARGE_INDICES != 0;
    if first & 0xe0 != 0 {
        return Err(DecompressError::Malformed("reserved bits of a list"));
    }
    let octets = input.take(if large { count } else { count.div_ceil(2) })?;
    headers.truncate(at + 12);
    headers[at] = headers[at] & 0xf0 | count as u8;
    for position in 0..count {
        let (index, present) = entry(octets, position, large)?;
        if present {
            table.items[index] = input.array()?;
            table.known |= 1 << index;
        } else if whole || table.known >> index & 1 == 0 {
            return Err(DecompressError::Malformed("item of a list that is not there"));
        }
        headers.extend_from_slice(&table.items[index]);
    }
    let has_padding = !large && count % 2 == 1;
    if has_padding && octets.last().is_some_and(|last| last & 0x0f != 0) {
        return Err(DecompressError::Malformed("padding of a list"));
    }
    Ok(())
}

/// Returns index and presence of the item at `position`.
fn entry(octets: &[u8], position: usize, large: bool) -> Result<(usize, bool), DecompressError> {
    if large {
        let octet = octets[position];
        let is_sound = octet & 0x70 == 0;
        let entry = (usize::from(octet & 0x0f), octet & PRESENT_8 != 0);
        return if is_sound { Ok(entry) } else { Err(DecompressError::Malformed("reserved bits of a list")) };
    }
    let octet = octets[position / 2];
    let nibble = if position.is_multiple_of(2) { octet >> 4 } else { octet & 0x0f };
    Ok((usize::from(nibble & 7), nibble & PRESENT_4 != 0))
}

/// Items of the compressor, by index, and how often each was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Sender {
    items: Vec<([u8; 4], u8)>,
}

/// Indices of a list's items.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    indices: [u8; ITEMS],
    len: u8,
}

impl Sender {
    /// Forgets what the decompressor knows.
    pub(super) fn reset(&mut self) {
        self.items.iter_mut().for_each(|(_, sent)| *sent = 0);
    }

    /// Enters the items of a list in the table and returns their indices.
    pub(super) fn plan(&mut self, csrcs: &[u8]) -> Plan {
        let mut plan = Plan { indices: [0; ITEMS], len: (csrcs.len() / 4) as u8 };
        let items = || csrcs.as_chunks::<4>().0.iter();
        let mut used = 0u16;
        for item in items() {
            if let Some(index) = self.items.iter().position(|(known, _)| known == item) {
                used |= 1 << index;
            }
        }
        for (place, item) in plan.indices.iter_mut().zip(items()) {
            let index = self.index_of(*item, used);
            used |= 1 << index;
            *place = index as u8;
        }
        plan
    }

    /// Returns the index of `item`. A new one is a free one, or one that is not `used`.
    fn index_of(&mut self, item: [u8; 4], used: u16) -> usize {
        if let Some(index) = self.items.iter().position(|(known, _)| *known == item) {
            return index;
        }
        if self.items.len() < ITEMS {
            self.items.push((item, 0));
            return self.items.len() - 1;
        }
        let index = (0..ITEMS).find(|index| used >> index & 1 == 0).unwrap_or_default();
        self.items[index] = (item, 0);
        index
    }

    /// Writes a list; items sent less than `repeats` times are in it, or all (`whole`).
    pub(super) fn write(&self, plan: &Plan, whole: bool, repeats: u8, out: &mut Writer<'_>) {
        let indices = plan.indices.get(..usize::from(plan.len)).unwrap_or_default();
        let present = |index: u8| whole || self.items[usize::from(index)].1 < repeats;
        let large = indices.iter().any(|&index| index >= 8);
        out.u8(if large { LARGE_INDICES } else { 0 } | plan.len);
        if large {
            indices.iter().for_each(|&index| out.u8(u8::from(present(index)) << 7 | index));
        } else {
            let nibble = |index: u8| u8::from(present(index)) << 3 | index;
            indices.chunks(2).for_each(|pair| {
                out.u8(nibble(pair[0]) << 4 | pair.get(1).map_or(0, |&index| nibble(index)));
            });
        }
        for &index in indices.iter().filter(|&&index| present(index)) {
            out.bytes(&self.items[usize::from(index)].0);
        }
    }

    /// Forgets the items that are not in a list.
    ///
    /// An IR packet may leave the decompressor with those of its own list alone.
    pub(super) fn keep(&mut self, plan: &Plan) {
        let kept =
            plan.indices.iter().take(usize::from(plan.len)).fold(0u16, |kept, &index| kept | 1 << index);
        let others = self.items.iter_mut().enumerate().filter(|(index, _)| kept >> index & 1 == 0);
        others.for_each(|(_, (_, sent))| *sent = 0);
    }

    /// Counts a list that was sent.
    pub(super) fn sent(&mut self, plan: &Plan) {
        for &index in plan.indices.iter().take(usize::from(plan.len)) {
            let sent = &mut self.items[usize::from(index)].1;
            *sent = sent.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csrcs(numbers: &[u8]) -> Vec<u8> {
        numbers.iter().flat_map(|&number| [number, 1, 2, 3]).collect()
    }

    #[test]
    fn lists_come_back_and_known_items_are_not_sent_again() {
        let (mut sender, mut table) = (Sender::default(), Table::default());
        let mut lens = Vec::new();
        for numbers in
            [&[1u8, 2, 3][..], &[1, 2, 3], &[3, 1], &[], &[4, 4, 1], &[9, 10, 11, 12, 13, 14], &[13]]
        {
            let mut out = Vec::new();
            let plan = sender.plan(&csrcs(numbers));
            sender.write(&plan, false, 1, &mut Writer::new(&mut out));
            sender.sent(&plan);
            let mut headers = Vec::from([0x8f; 12]);
            read(&mut Reader::new(&out), &mut headers, 0, &mut table, false).expect("reads");
            assert_eq!((headers[0] & 0x0f, &headers[12..]), (numbers.len() as u8, &csrcs(numbers)[..]));
            lens.push(out.len());
        }
        assert_eq!(lens, [15, 3, 2, 1, 11, 31, 2]);
    }

    #[test]
    fn what_is_reserved_or_unknown_is_refused() {
        let refused = |octets: &[u8], whole: bool| {
            let mut headers = Vec::from([0x80; 12]);
            read(&mut Reader::new(octets), &mut headers, 0, &mut Table::default(), whole).is_err()
        };
        assert!(refused(&[0x20], false), "reserved bits");
        assert!(refused(&[0x01, 0x00], false), "an unknown index");
        assert!(refused(&[0x01, 0x81, 1, 2, 3, 4], false), "padding");
        assert!(refused(&[0x11, 0x90, 1, 2, 3, 4], false), "a reserved bit of a large index");
        assert!(refused(&[0x02, 0x80, 1, 2, 3, 4], true), "an item missing in a dynamic chain");
        assert!(!refused(&[0x01, 0x80, 1, 2, 3, 4], true));
        assert!(refused(&[0x01, 0x80, 1, 2, 3], true), "cut off");
    }
}
