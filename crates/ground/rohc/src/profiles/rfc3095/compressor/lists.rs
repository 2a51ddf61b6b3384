//! The compressor's side of list compression (RFC 3095 5.8).

use alloc::boxed::Box;

use super::repeat::Repeat;
use crate::framework::octets::Writer;
use crate::framework::profile::Mode;
use crate::profiles::rfc3095::list::{self, Ids, Kind, List, NOWHERE, Pool};

/// Size of the translation table: that of the longest list.
const TABLE: u8 = 15;

/// Generations that a decompressor is trusted to keep as references.
const KEPT_GENERATIONS: u8 = 6;

/// The lists of a context: those it ever had any item of.
#[derive(Debug, Default)]
pub(super) struct Lists {
    extensions: [Option<Box<Encoder>>; 2],
    csrcs: Option<Box<Encoder>>,
}

impl Lists {
    pub(super) fn extension(&self, index: usize) -> Option<&Encoder> {
        self.extensions[index].as_deref()
    }

    pub(super) fn csrcs(&self) -> Option<&Encoder> {
        self.csrcs.as_deref()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Encoder> {
        self.extensions.iter_mut().chain([&mut self.csrcs]).filter_map(|list| list.as_deref_mut())
    }

    /// Extension headers of outer and inner IP header that are to be sent.
    pub(super) fn pending_extensions(&self) -> [bool; 2] {
        [0, 1].map(|index| self.extension(index).is_some_and(Encoder::is_pending))
    }

    /// Returns `true` if CSRCs are to be sent.
    pub(super) fn has_pending_csrcs(&self) -> bool {
        self.csrcs().is_some_and(Encoder::is_pending)
    }

    /// Returns `true` if anything is to be sent.
    pub(super) fn is_pending(&self) -> bool {
        self.has_pending_csrcs() || self.pending_extensions().contains(&true)
    }

    /// Extension 3 with the packet's `extensions`, and with its RTP part or not, was sent.
    pub(super) fn short_sent(&mut self, mode: Mode, extensions: [bool; 2], with_rtp: bool, sn: u32) {
        for (list, sent) in self.extensions.iter_mut().zip(extensions) {
            list.iter_mut().filter(|_| sent).for_each(|list| list.sent(mode, false, sn));
        }
        let csrcs = self.csrcs.iter_mut().filter(|csrcs| with_rtp && csrcs.is_pending());
        csrcs.for_each(|csrcs| csrcs.sent(mode, false, sn));
    }

    /// Returns `true` if an item changes in every packet.
    pub(super) fn has_counters(&self) -> bool {
        self.extensions.iter().flatten().any(|list| list.has_counters())
    }

    /// Returns `true` if the list of the present packet changed, after recording it. It is one of extension headers, or
    /// of CSRCs without `index`. `distance` is how far the sequence number moved.
    pub(super) fn observe(
        &mut self,
        index: Option<usize>,
        list: &List,
        distance: i32,
        repeats: u8,
        sn: u32,
    ) -> bool {
        let (place, kind) = match index {
            Some(index) => (&mut self.extensions[index], Kind::Extension),
            None => (&mut self.csrcs, Kind::Csrc),
        };
        if place.is_none() && list.is_empty() {
            return false;
        }
        place.get_or_insert_with(|| Encoder::new(kind)).observe(list, distance, repeats, sn)
    }
}

/// State of an index and its item at the decompressor.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// Packets left, as in [`Repeat`], of which this is the part that pairs need.
    left: u8,
    /// Set if the pair was in the last packet that had the list. A list by difference leaves out what the reference
    /// has, and packets without an item say nothing of it: neither they nor their acknowledgements count.
    was_listed: bool,
    since: u32,
}

impl Pair {
    /// The pair is to be sent from `sn` on, `times` times in a row.
    fn start(&mut self, times: u8, sn: u32) {
        *self = Self { left: times.max(1), was_listed: false, since: sn };
    }

    const fn is_active(self) -> bool {
        self.left > 0
    }

    /// The list was sent in the packet with `sn`, this item in it or not.
    fn sent(&mut self, was_listed: bool, mode: Mode, times: u8, sn: u32) {
        if self.is_active() && was_listed {
            if !self.was_listed {
                self.start(times, sn);
            }
            if mode != Mode::Reliable {
                self.left -= 1;
            }
        }
        self.was_listed = was_listed;
    }

    /// A packet was acknowledged; `distance` is its sn's distance from another one.
    fn acknowledged(&mut self, distance: impl Fn(u32) -> i32) {
        if self.was_listed && distance(self.since) >= 0 {
            self.left = 0;
        }
    }
}

/// A list that the decompressor has for sure, and its identifier.
#[derive(Clone, Copy, Debug)]
struct Reference {
    id: u8,
    items: Ids,
}

/// List encoder: extension headers of one IP header, or CSRCs.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoder {
    kind: Kind,
    /// The translation table. Items that count (AH, GRE) are as in the last packet.
    table: Pool<Pair>,
    /// The list of the last packet, by indices in the table.
    current: Ids,
    reference: Option<Reference>,
    /// The list is still to be sent.
    change: Repeat,
    generation: u8,
    /// Returns the number of times a pair is sent.
    times: u8,
}

impl Encoder {
    fn new(kind: Kind) -> Box<Self> {
        Box::new(Self { kind, ..Self::default() })
    }

    fn has_counters(&self) -> bool {
        self.items().any(|item| self.kind.counts(item))
    }

    fn items(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.current.as_slice().iter().map(|&index| self.table.item(index))
    }

    /// Returns `true` if the list of the present packet changed, after recording it. `distance` is how far the sequence
    /// number moved.
    fn observe(&mut self, list: &List, distance: i32, repeats: u8, sn: u32) -> bool {
        self.times = repeats;
        let is_same = self.is_same(list);
        if !is_same {
            self.generation = self.generation.wrapping_add(1);
            self.index(list, repeats, sn);
            self.change.start(repeats, sn);
        } else if self.kind == Kind::Extension && !self.counts_on(list, distance) {
            // Counters that did not count with the packets: sent whole again, until the new offset is known.
            self.change.ensure(repeats, sn);
        }
        for (&index, item) in self.current.as_slice().iter().zip(list.items()) {
            if self.kind.counts(item) {
                self.table.set(index, item);
            }
        }
        !is_same
    }

    fn is_same(&self, list: &List) -> bool {
        self.len() == list.len() && self.items().zip(list.items()).all(|(one, two)| self.kind.same(one, two))
    }

    /// Returns `true` if sequence numbers in `list` are `distance` after those in the last packet.
    fn counts_on(&self, list: &List, distance: i32) -> bool {
        self.items().zip(list.items()).all(|(old, new)| {
            let Some(at) = list::sequence_at(old) else { return true };
            let sequence = |item: &[u8]| {
                item.get(at..at + 4)
                    .map_or(0, |octets| u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]))
            };
            sequence(old).wrapping_add_signed(distance) == sequence(new)
        })
    }

    /// Finds or makes places in the table for the items of `list`.
    fn index(&mut self, list: &List, repeats: u8, sn: u32) {
        let mut indices = Ids::unknown(list.len());
        for (position, item) in list.items().enumerate() {
            let Some(at) = self.find(item, &indices) else { continue };
            indices.as_mut_slice()[position] = at;
            let pair = self.table.notes_mut().nth(usize::from(at));
            pair.into_iter().filter(|pair| pair.is_active()).for_each(|pair| pair.start(repeats, sn));
        }
        for (position, item) in list.items().enumerate() {
            if indices.as_slice()[position] == NOWHERE {
                // The same item may come twice (RFC 4815 5.6): the second time it has a place already.
                let at = self.find(item, &indices).unwrap_or_else(|| self.enter(item, &indices, repeats, sn));
                indices.as_mut_slice()[position] = at;
            }
        }
        self.current = indices;
    }

    /// The place of an item. Of two in one list that differ in their counters each has its own.
    fn find(&self, item: &[u8], taken: &Ids) -> Option<u8> {
        let is_item = |(at, known): &(usize, &[u8])| {
            !known.is_empty()
                && self.kind.same(known, item)
                && !(self.kind.counts(item) && taken.as_slice().contains(&(*at as u8)))
        };
        self.table.items().enumerate().find(is_item).map(|(at, _)| at as u8)
    }

    /// Stores an item in the first place that no item of the list has.
    fn enter(&mut self, item: &[u8], taken: &Ids, repeats: u8, sn: u32) -> u8 {
        let at = (0..TABLE).find(|at| !taken.as_slice().contains(at)).unwrap_or(0);
        self.table.set(at, item);
        self.table.notes_mut().skip(usize::from(at)).take(1).for_each(|pair| pair.start(repeats, sn));
        if let Some(reference) = &mut self.reference {
            reference.items.forget(at);
        }
        at
    }

    pub(super) fn is_pending(&self) -> bool {
        self.change.is_active()
    }

    pub(super) fn len(&self) -> usize {
        self.current.as_slice().len()
    }

    /// The list was sent in an updating packet with `sn`, whole or short.
    pub(super) fn sent(&mut self, mode: Mode, is_whole: bool, sn: u32) {
        let difference = if is_whole { None } else { self.shortest_difference(mode) };
        let inserted = difference.map_or(u16::MAX, |(_, difference)| difference.inserted);
        let indices = self.current.as_slice().iter().enumerate();
        let listed =
            indices.fold(0, |listed, (position, index)| listed | (inserted >> position & 1) << index);
        for (index, pair) in self.table.notes_mut().enumerate() {
            pair.sent(listed >> index & 1 == 1, mode, self.times, sn);
        }
        self.change.sent(mode, sn);
        if mode != Mode::Reliable && !self.change.is_active() {
            self.refer();
        }
    }

    fn refer(&mut self) {
        self.reference = Some(Reference { id: self.generation, items: self.current });
    }

    /// Returns `true` if the list seems lost, as [`Repeat::acknowledged`] does.
    pub(super) fn acknowledged(&mut self, mode: Mode, distance: impl Fn(u32) -> i32) -> bool {
        let was_pending = self.change.is_active();
        let is_lost = self.change.acknowledged(&distance);
        self.table.notes_mut().for_each(|pair| pair.acknowledged(&distance));
        if was_pending && !self.change.is_active() && mode != Mode::Reliable {
            self.refer();
        }
        is_lost
    }

    /// The mode changed: identifiers of reference lists mean something else.
    pub(super) fn forget_reference(&mut self) {
        self.reference = None;
    }

    /// Starts the list again with all items if it was not acknowledged, see [`Repeat::resume`].
    pub(super) fn resume(&mut self, sn: u32) {
        if self.change.resume(sn) {
            self.table.notes_mut().for_each(|pair| pair.start(1, sn));
        }
    }

    /// Discards all that was sent, as none of it may be relied on.
    pub(super) fn restart(&mut self, repeats: u8, sn: u32) {
        self.reference = None;
        self.change.start(repeats, sn);
        self.table.notes_mut().for_each(|pair| pair.start(repeats, sn));
    }

    /// Writes the list whole, all items with it: in IR and IR-DYN packets (5.7.7).
    pub(super) fn write_whole(&self, writer: &mut Writer<'_>, mode: Mode) {
        self.write_generic(writer, mode, |_, _| true);
    }

    /// Writes the list by difference to the reference list or by indices.
    pub(super) fn write_short(&self, writer: &mut Writer<'_>, mode: Mode) {
        match self.shortest_difference(mode) {
            Some((id, difference)) => self.write_difference(writer, mode, id, &difference),
            None => self.write_generic(writer, mode, |encoder, position| encoder.must_send(position)),
        }
    }

    /// Returns the difference to the reference list and its identifier, if so sent.
    fn shortest_difference(&self, mode: Mode) -> Option<(u8, Difference)> {
        // In R-mode every packet with a list is another reference, and the decompressor cannot keep all of a round
        // trip; there lists are generic. Elsewhere it keeps some generations.
        let kept = |id: u8| mode != Mode::Reliable && self.generation.wrapping_sub(id) < KEPT_GENERATIONS;
        let Reference { id, items } = self.reference.as_ref().filter(|reference| kept(reference.id))?;
        Some((*id, self.difference(items.as_slice())?))
    }

    /// Returns `true` if item and index go together: not known yet, or with counters.
    fn must_send(&self, position: usize) -> bool {
        let index = self.current.as_slice()[position];
        self.table.note(index).is_some_and(|pair| pair.is_active())
            || self.kind.counts(self.table.item(index))
    }

    fn write_generic(&self, writer: &mut Writer<'_>, mode: Mode, whole: impl Fn(&Self, usize) -> bool) {
        let count = self.len();
        let large = self.current.as_slice().iter().any(|&index| index > 7);
        // An empty list without a name says that nothing changed, in IR-DYN packets.
        let named = mode != Mode::Reliable || count == 0;
        writer.u8(u8::from(named) << 5 | u8::from(large) << 4 | count as u8);
        if named {
            writer.u8(self.generation);
        }
        let entries = (0..count).map(|position| (position, whole(self, position)));
        self.write_entries(writer, large, false, entries.clone());
        for (position, _) in entries.filter(|(_, whole)| *whole) {
            writer.bytes(self.item(position));
        }
    }

    fn item(&self, position: usize) -> &[u8] {
        self.table.item(self.current.as_slice()[position])
    }

    /// Writes XI fields. With four bits each, the first one may be in the list's first octet.
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
            let index = u32::from(self.current.as_slice()[position]);
            writer.bits(u32::from(whole) << (bits - 1) | index, bits);
            odd = !odd;
        }
        if odd && !large {
            writer.bits(0, 4);
        }
    }

    fn write_difference(&self, writer: &mut Writer<'_>, mode: Mode, id: u8, difference: &Difference) {
        let inserted = || {
            (0..self.len()).filter(|at| difference.inserted >> at & 1 == 1).map(|at| (at, self.must_send(at)))
        };
        let large = inserted().any(|(position, _)| self.current.as_slice()[position] > 7);
        let encoding = u8::from(difference.removed != 0) << 1 | u8::from(difference.inserted != 0);
        let named = mode != Mode::Reliable;
        let mut head = encoding << 6 | u8::from(named) << 5 | u8::from(large && encoding != 2) << 4;
        match (encoding, inserted().next()) {
            (2, _) => head |= difference.reference_len,
            (_, Some((position, whole))) if !large => {
                head |= u8::from(whole) << 3 | self.current.as_slice()[position]
            }
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
                writer.bytes(self.item(position));
            }
        }
    }

    /// Writes the parts that change in every packet, as they are. They are ICV of AH and checksum of GRE.
    pub(super) fn write_irregular(&self, writer: &mut Writer<'_>) {
        debug_assert!(self.kind == Kind::Extension, "CSRCs have no irregular part");
        for item in self.items() {
            writer.bytes(&item[list::irregular(item)]);
        }
    }
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

/// Masks of items removed from the reference and inserted, one bit each.
struct Difference {
    removed: u16,
    inserted: u16,
    reference_len: u8,
}

impl Encoder {
    /// Returns the difference from `reference` to the current list, or `None` if there is none.
    fn difference(&self, reference: &[u8]) -> Option<Difference> {
        let list = self.current.as_slice();
        let mut difference = Difference { removed: 0, inserted: 0, reference_len: reference.len() as u8 };
        let mut position = 0;
        for (at, &old) in reference.iter().enumerate() {
            // Items with counters are always sent whole: those of the reference are out of date.
            let stays = |new: &usize| list[*new] == old && !self.kind.counts(self.table.item(old));
            match (position..list.len()).find(stays) {
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
