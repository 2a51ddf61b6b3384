//! The compressor's side of list compression (RFC 3095 5.8).

use alloc::vec::Vec;

use super::repeat::Repeat;
use crate::octets::Writer;
use crate::profile::Mode;
use crate::rfc3095::header::changes_every_packet;
use crate::rfc3095::list::{self, List, same_but_counters};

/// Entries of the translation table: as many as a list can have, so that a new list always finds room.
const TABLE: usize = 15;

/// Generations that a decompressor is trusted to keep as references.
const KEPT_GENERATIONS: u8 = 6;

#[derive(Clone, Debug, Default)]
struct Entry {
    item: Vec<u8>,
    /// The pair of index and item is still to be sent.
    pair: Repeat,
    /// It was in the last packet that had the list. A list by difference leaves out what the reference has, and packets
    /// without an item say nothing of it: neither they nor their acknowledgements count.
    is_told: bool,
}

impl Entry {
    /// The pair is to be sent from `sn` on, `times` times in a row.
    fn start(&mut self, times: u8, sn: u32) {
        self.pair.start(times, sn);
        self.is_told = false;
    }

    /// The list was sent in the packet with `sn`, this item in it or not.
    fn sent(&mut self, is_told: bool, mode: Mode, times: u8, sn: u32) {
        if self.pair.is_active() && is_told {
            if !self.is_told {
                self.pair.start(times, sn);
            }
            self.pair.sent(mode, sn);
        }
        self.is_told = is_told;
    }
}

/// One list: extension headers of one IP header, or CSRCs.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoder {
    /// Items are CSRCs: nothing in them counts.
    csrc: bool,
    /// As of the last packet.
    current: List,
    table: Vec<Entry>,
    /// Index in the table of every item of `current`.
    indices: [u8; TABLE],
    /// The list is still to be sent.
    change: Repeat,
    generation: u8,
    /// A list that the decompressor has for sure, and its identifier.
    reference: Option<(u8, List)>,
    /// How often a pair is sent.
    times: u8,
}

impl Encoder {
    pub(super) fn of_csrcs() -> Self {
        Self { csrc: true, ..Self::default() }
    }

    fn same(&self, one: &[u8], two: &[u8]) -> bool {
        if self.csrc { one == two } else { same_but_counters(one, two) }
    }

    fn counts(&self, item: &[u8]) -> bool {
        !self.csrc && changes_every_packet(item[0])
    }

    pub(super) fn has_counters(&self) -> bool {
        self.current.items().any(|item| self.counts(item))
    }

    /// Takes the list of the present packet. `distance` is how far the sequence number moved.
    pub(super) fn observe(&mut self, list: &List, distance: i32, repeats: u8, sn: u32) {
        self.times = repeats;
        if !self.is_same(list) {
            self.generation = self.generation.wrapping_add(1);
            self.index(list, repeats, sn);
            self.change.start(repeats, sn);
        } else if !self.csrc && !counts_on(&self.current, list, distance) {
            // Counters that did not count with the packets: sent whole again, until the new offset is known.
            self.change.ensure(repeats, sn);
        }
        self.current.copy_from(list);
    }

    pub(super) fn is_same(&self, list: &List) -> bool {
        self.current.len() == list.len()
            && self.current.items().zip(list.items()).all(|(one, two)| self.same(one, two))
    }

    /// Finds or makes table entries for the items of `list`.
    fn index(&mut self, list: &List, repeats: u8, sn: u32) {
        let mut used = 0u16;
        for (position, item) in list.items().enumerate() {
            let known =
                self.table.iter().position(|entry| !entry.item.is_empty() && self.same(&entry.item, item));
            if let Some(at) = known {
                used |= 1 << at;
                self.indices[position] = at as u8;
                if self.table[at].pair.is_active() {
                    self.table[at].start(repeats, sn);
                }
            } else {
                self.indices[position] = u8::MAX;
            }
        }
        for (position, item) in list.items().enumerate() {
            if self.indices[position] == u8::MAX {
                // The same item may come twice (RFC 4815 5.6): the second time it has an entry already.
                let again = list.items().take(position).position(|earlier| self.same(earlier, item));
                self.indices[position] = match again {
                    Some(earlier) => self.indices[earlier],
                    None => self.enter(item, &mut used, repeats, sn),
                };
            }
        }
    }

    fn enter(&mut self, item: &[u8], used: &mut u16, repeats: u8, sn: u32) -> u8 {
        let at = (0..TABLE).find(|at| *used >> at & 1 == 0).unwrap_or(0);
        *used |= 1 << at;
        if self.table.len() <= at {
            self.table.resize(at + 1, Entry::default());
        }
        let entry = &mut self.table[at];
        entry.item.clear();
        entry.item.extend_from_slice(item);
        entry.start(repeats, sn);
        at as u8
    }

    pub(super) fn is_pending(&self) -> bool {
        self.change.is_active()
    }

    pub(super) fn len(&self) -> usize {
        self.current.len()
    }

    /// The list was sent in an updating packet with `sn`, whole or short.
    pub(super) fn sent(&mut self, mode: Mode, is_whole: bool, sn: u32) {
        let difference = if is_whole { None } else { self.shortest_difference(mode) };
        let inserted = difference.map_or(u16::MAX, |(_, difference)| difference.inserted);
        let indices = self.indices[..self.current.len()].iter().enumerate();
        let told = indices.fold(0, |told, (position, index)| told | (inserted >> position & 1) << index);
        for (index, entry) in self.table.iter_mut().enumerate() {
            entry.sent(told >> index & 1 == 1, mode, self.times, sn);
        }
        self.change.sent(mode, sn);
        if mode != Mode::Reliable && !self.change.is_active() {
            self.refer(self.generation);
        }
    }

    fn refer(&mut self, id: u8) {
        let (known, list) = self.reference.get_or_insert_default();
        *known = id;
        list.copy_from(&self.current);
    }

    /// As [`Repeat::acknowledged`].
    pub(super) fn acknowledged(&mut self, mode: Mode, distance: impl Fn(u32) -> i32) -> bool {
        let was_pending = self.change.is_active();
        let is_lost = self.change.acknowledged(&distance);
        for entry in self.table.iter_mut().filter(|entry| entry.is_told) {
            entry.pair.acknowledged(&distance);
        }
        if was_pending && !self.change.is_active() && mode != Mode::Reliable {
            self.refer(self.generation);
        }
        is_lost
    }

    /// The mode changed: identifiers of reference lists mean something else.
    pub(super) fn forget_reference(&mut self) {
        self.reference = None;
    }

    /// Nothing that was sent may be relied on.
    pub(super) fn restart(&mut self, repeats: u8, sn: u32) {
        self.reference = None;
        self.change.start(repeats, sn);
        for entry in &mut self.table {
            entry.start(repeats, sn);
        }
    }

    /// Writes the list whole, all items with it: in IR and IR-DYN packets (5.7.7).
    pub(super) fn write_whole(&self, writer: &mut Writer<'_>, mode: Mode) {
        if self.current.is_empty() && self.generation == 0 {
            list::write_empty(writer);
        } else {
            self.write_generic(writer, mode, |_, _| true);
        }
    }

    /// Writes the list as short as possible: by difference to the reference list or by indices.
    pub(super) fn write_short(&self, writer: &mut Writer<'_>, mode: Mode) {
        match self.shortest_difference(mode) {
            Some((id, difference)) => self.write_difference(writer, mode, id, &difference),
            None => self.write_generic(writer, mode, |encoder, position| encoder.must_send(position)),
        }
    }

    /// The difference to the reference list and its identifier, if that is how the list is sent.
    fn shortest_difference(&self, mode: Mode) -> Option<(u8, Difference)> {
        // In R-mode every packet with a list is another reference, and the decompressor cannot keep all of a round
        // trip; there lists are generic. Elsewhere it keeps some generations.
        let kept = |id: u8| mode != Mode::Reliable && self.generation.wrapping_sub(id) < KEPT_GENERATIONS;
        let (id, list) = self.reference.as_ref().filter(|(id, list)| kept(*id) && !list.is_empty())?;
        Some((*id, self.difference(list)?))
    }

    /// Whether item and index go together: not known yet, or with counters that are not where they were.
    fn must_send(&self, position: usize) -> bool {
        let entry = &self.table[usize::from(self.indices[position])];
        entry.pair.is_active() || self.counts(&entry.item) || entry.item != self.current.item(position)
    }

    fn write_generic(&self, writer: &mut Writer<'_>, mode: Mode, whole: impl Fn(&Self, usize) -> bool) {
        let count = self.current.len();
        let large = self.indices[..count].iter().any(|&index| index > 7);
        // An empty list without a name says that nothing changed, in IR-DYN packets.
        let named = mode != Mode::Reliable || count == 0;
        writer.u8(u8::from(named) << 5 | u8::from(large) << 4 | count as u8);
        if named {
            writer.u8(self.generation);
        }
        let entries = (0..count).map(|position| (position, whole(self, position)));
        self.write_entries(writer, large, false, entries.clone());
        for (position, _) in entries.filter(|(_, whole)| *whole) {
            writer.bytes(self.current.item(position));
        }
    }

    /// XI fields: with four bits each, the first one may already be in the list's first octet.
    fn write_entries(
        &self,
        writer: &mut Writer<'_>,
        large: bool,
        first_is_written: bool,
        entries: impl Iterator<Item = (usize, bool)>,
    ) {
        let (bits, skip) = if large { (8, 0) } else { (4, usize::from(first_is_written)) };
        let mut odd = false;
        for (position, whole) in entries.skip(skip) {
            let index = u32::from(self.indices[position]);
            writer.bits(u32::from(whole) << (bits - 1) | index, bits);
            odd = !odd;
        }
        if odd && !large {
            writer.bits(0, 4);
        }
    }

    fn write_difference(&self, writer: &mut Writer<'_>, mode: Mode, id: u8, difference: &Difference) {
        let inserted = || {
            (0..self.current.len())
                .filter(|at| difference.inserted >> at & 1 == 1)
                .map(|at| (at, self.must_send(at)))
        };
        let large = inserted().any(|(position, _)| self.indices[position] > 7);
        let encoding = u8::from(difference.removed != 0) << 1 | u8::from(difference.inserted != 0);
        let named = mode != Mode::Reliable;
        let mut head = encoding << 6 | u8::from(named) << 5 | u8::from(large && encoding != 2) << 4;
        match (encoding, inserted().next()) {
            (2, _) => head |= difference.reference_len,
            (_, Some((position, whole))) if !large => head |= u8::from(whole) << 3 | self.indices[position],
            _ => {}
        }
        writer.u8(head);
        if named {
            writer.u8(self.generation);
        }
        writer.u8(id);
        if encoding & 2 != 0 {
            write_mask(writer, difference.removed);
        }
        if encoding & 1 != 0 {
            write_mask(writer, difference.inserted);
            self.write_entries(writer, large, true, inserted());
            for (position, _) in inserted().filter(|(_, whole)| *whole) {
                writer.bytes(self.current.item(position));
            }
        }
    }

    /// Writes what changes in every packet and is sent as it is: ICV of AH, checksum of GRE.
    pub(super) fn write_irregular(&self, writer: &mut Writer<'_>) {
        debug_assert!(!self.csrc, "CSRCs have no irregular part");
        for item in self.current.items() {
            writer.bytes(&item[list::irregular(item)]);
        }
    }
}

/// Whether sequence numbers in `new` are `distance` after those in `old`.
fn counts_on(old: &List, new: &List, distance: i32) -> bool {
    old.items().zip(new.items()).all(|(old, new)| {
        let Some(at) = list::sequence_at(old) else { return true };
        let sequence = |item: &[u8]| {
            item.get(at..at + 4)
                .map_or(0, |octets| u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]))
        };
        sequence(old).wrapping_add_signed(distance) == sequence(new)
    })
}

/// A list without table: every item, for IP headers beyond the second (RFC 3843 3.2).
pub(super) fn write_plain(writer: &mut Writer<'_>, list: &List) {
    let large = list.len() > 8;
    writer.u8(u8::from(large) << 4 | list.len() as u8);
    for position in 0..list.len() as u32 {
        if large { writer.bits(0x80 | position, 8) } else { writer.bits(8 | position, 4) }
    }
    if !large && list.len() % 2 == 1 {
        writer.bits(0, 4);
    }
    writer.bytes(list.bytes());
}

/// Bit `i` set: item `i` of the reference is removed, item `i` of the new list is inserted.
struct Difference {
    removed: u16,
    inserted: u16,
    reference_len: u8,
}

impl Encoder {
    /// What leads from `reference` to the current list; `None` when nothing does, or nothing is kept.
    fn difference(&self, reference: &List) -> Option<Difference> {
        let list = &self.current;
        let mut difference = Difference { removed: 0, inserted: 0, reference_len: reference.len() as u8 };
        let mut position = 0;
        for (at, old) in reference.items().enumerate() {
            // Items with counters are always sent whole: those of the reference are out of date.
            let found = (position..list.len()).find(|&new| list.item(new) == old && !self.counts(old));
            match found {
                Some(new) => {
                    (position..new).for_each(|skipped| difference.inserted |= 1 << skipped);
                    position = new + 1;
                }
                None => difference.removed |= 1 << at,
            }
        }
        (position..list.len()).for_each(|rest| difference.inserted |= 1 << rest);
        let keeps_some = usize::from(difference.reference_len) > difference.removed.count_ones() as usize;
        (keeps_some && (difference.removed | difference.inserted) != 0).then_some(difference)
    }
}

/// Writes a mask whose bit `i` is for item `i`, in 7 or 15 bits.
fn write_mask(writer: &mut Writer<'_>, mask: u16) {
    let reversed = mask.reverse_bits();
    if mask < 1 << 7 {
        writer.u8((reversed >> 9) as u8);
    } else {
        writer.u16(0x8000 | reversed >> 1);
    }
}
