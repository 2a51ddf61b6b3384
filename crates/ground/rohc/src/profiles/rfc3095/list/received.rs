//! List compression in decompression (RFC 3095 5.8).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Ids, Kind, List, NOWHERE, Pool, same_but_counters};
use crate::framework::error::DecompressError;
use crate::framework::octets::Reader;
use crate::framework::packet::{self, MAX_EXTENSION_BYTES, MAX_EXTENSIONS, protocol};

/// Lists that may be referred to, in one direction of one context.
const MAX_REFERENCES: usize = 8;
/// Maximum number of octets of a list's items in a context.
const MAX_POOL_BYTES: usize = MAX_EXTENSIONS * MAX_EXTENSION_BYTES;

/// Length of the item of `kind` at the start of `octets`.
fn item_len(kind: Kind, octets: &[u8]) -> Result<usize, DecompressError> {
    if kind == Kind::Csrc {
        return Ok(4);
    }
    match octets {
        [protocol::GRE, flags, ..] => {
            let (checksum, key, sequence) = (flags >> 7, flags >> 5 & 1, flags >> 4 & 1);
            Ok(2 + 2 * usize::from(checksum) + 4 * usize::from(key + sequence))
        }
        [protocol::ESP, ..] => Err(DecompressError::Malformed("NULL ESP in a list is not supported")),
        [kind, ..] => match packet::extension(*kind, octets)? {
            Some((len, _)) => Ok(len),
            None => Err(DecompressError::Malformed("no extension header that lists carry")),
        },
        [] => Err(DecompressError::Truncated),
    }
}

/// Reference list with its identifier: gen_id, or in R-mode the low octet of an SN.
#[derive(Clone, Copy, Debug)]
struct Reference {
    id: u8,
    items: Ids,
}

/// The decompressor's side: translation table, current list, and lists that may be referred to. Table and references share
/// their items. Of one that counts (AH, GRE) all have the counters that came last: those it had in a list long ago say
/// nothing of those to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    pool: Pool,
    /// Number of the item at each index.
    table: Vec<u8>,
    references: Vec<Reference>,
    pub(crate) current: List,
}

/// The lists of a context that never had any.
pub(crate) static NO_LISTS: Lists =
    Lists { pool: Pool::new(), table: Vec::new(), references: Vec::new(), current: List::new() };

/// A list that was received, not yet part of the context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    kind: Kind,
    pub(crate) list: List,
    generation: Option<u8>,
    reference: Option<u8>,
    /// Bit i: item i of `list` came with this packet, its irregular part in it.
    pub(crate) whole: u16,
    /// The index of each item that did.
    indices: [u8; MAX_EXTENSIONS],
}

/// Place of an item of a received list.
#[derive(Clone, Copy)]
enum Item<'a> {
    /// Item in the packet, with this index.
    Sent(u8, &'a [u8]),
    /// Item in the context.
    Known(&'a [u8]),
    /// Item at this position of the same list.
    Again(usize),
}

impl Lists {
    /// Reads a compressed list (RFC 3095 5.8.6) into the memory of `place`.
    pub(crate) fn read(
        &self,
        reader: &mut Reader<'_>,
        kind: Kind,
        mut place: List,
    ) -> Result<Received, DecompressError> {
        place.clear();
        let mut received = Received { kind, list: place, ..Received::default() };
        let head = reader.u8()?;
        if head & 0x20 != 0 {
            received.generation = Some(reader.u8()?);
        }
        let encoding = head >> 6;
        if encoding == 0 {
            let count = usize::from(head & 0x0f);
            let entries = Entries::read(reader, head & 0x10 != 0, None, count)?;
            self.take_items(reader, &entries, &mut received, Received::add)?;
            return Ok(received);
        }
        let reference = reader.u8()?;
        received.reference = Some(reference);
        let base = self.reference(reference)?.as_slice();
        let removed = if encoding >= 2 { Mask::read(reader)? } else { Mask::default() };
        if encoding == 2 {
            for (_, &item) in base.iter().enumerate().filter(|(index, _)| !removed.is_set(*index)) {
                received.add(Item::Known(self.pool.item(item)))?;
            }
            return Ok(received);
        }
        self.read_insertion(reader, head, base, removed, &mut received)?;
        Ok(received)
    }

    /// Encoding types 1 and 3: items inserted into what is left of `base`.
    fn read_insertion(
        &self,
        reader: &mut Reader<'_>,
        head: u8,
        base: &[u8],
        removed: Mask,
        received: &mut Received,
    ) -> Result<(), DecompressError> {
        let inserted = Mask::read(reader)?;
        let large = head & 0x10 != 0;
        let first = (!large).then_some(head & 0x0f);
        let entries = Entries::read(reader, large, first, inserted.ones())?;
        let kept = base.iter().enumerate().filter(|(index, _)| !removed.is_set(*index));
        let mut kept = kept.map(|(_, &item)| Item::Known(self.pool.item(item)));
        let mut position = 0;
        self.take_items(reader, &entries, received, |received, item| {
            while position < inserted.len && !inserted.is_set(position) {
                received.add(kept.next().ok_or(DecompressError::Malformed("list insertion"))?)?;
                position += 1;
            }
            position += 1;
            received.add(item)
        })?;
        kept.try_for_each(|item| received.add(item))
    }

    fn reference(&self, id: u8) -> Result<&Ids, DecompressError> {
        let found = self.references.iter().rev().find(|reference| reference.id == id);
        found
            .map(|reference| &reference.items)
            .ok_or(DecompressError::Malformed("reference to an unknown list"))
    }

    /// Reads the items of `entries` and hands each, from packet or table, to `each`.
    fn take_items(
        &self,
        reader: &mut Reader<'_>,
        entries: &Entries,
        received: &mut Received,
        mut each: impl FnMut(&mut Received, Item<'_>) -> Result<(), DecompressError>,
    ) -> Result<(), DecompressError> {
        for &entry in entries.entries() {
            let index = entry & 0x7f;
            if entry & 0x80 != 0 {
                let len = item_len(received.kind, reader.rest())?;
                each(received, Item::Sent(index, reader.take(len)?))?;
                continue;
            }
            // An item that came earlier in this list counts as known.
            let item = received
                .sent_as(index)
                .map_or_else(|| self.known_as(index).map(Item::Known), |at| Some(Item::Again(at)));
            each(received, item.ok_or(DecompressError::Malformed("list item that was never sent"))?)?;
        }
        Ok(())
    }

    /// The item of the table at `index`.
    fn known_as(&self, index: u8) -> Option<&[u8]> {
        let id = self.table.get(usize::from(index))?;
        Some(self.pool.item(*id)).filter(|item| !item.is_empty())
    }

    /// Stores the (Index, item) pairs of `received`.
    fn learn(&mut self, received: &Received) {
        let items = self.keep(received, received.whole);
        self.enter(received, &items);
    }

    /// Stores the items that came with `received`, numbered by `items`, in the table.
    fn enter(&mut self, received: &Received, items: &Ids) {
        for (position, &id) in items.as_slice().iter().enumerate().filter(|(at, _)| received.is_whole(*at)) {
            let index = usize::from(received.indices[position]);
            if self.table.len() <= index {
                self.table.reserve_exact(index + 1 - self.table.len());
                self.table.resize(index + 1, NOWHERE);
            }
            self.table[index] = id;
        }
    }

    /// Accepts `received` as the current list and a reference. It has its generation, or in R-mode `acknowledged`, the
    /// low octet of the SN.
    fn accept(&mut self, received: &Received, acknowledged: Option<u8>) {
        if let Some(used) = received.reference
            && let Some(at) = self.references.iter().position(|reference| reference.id == used)
        {
            self.references.drain(..at);
        }
        match received.generation.or(acknowledged) {
            Some(id) => {
                let items = self.keep(received, u16::MAX);
                self.enter(received, &items);
                self.remember(Reference { id, items });
            }
            None if received.whole != 0 => self.learn(received),
            None => {}
        }
        self.current.copy_from(&received.list);
    }

    fn remember(&mut self, reference: Reference) {
        // A generation that comes again with another list is of a compressor that restarted.
        self.references.retain(|known| known.id != reference.id);
        // An empty list is not a reference.
        if reference.items.as_slice().is_empty() {
            return;
        }
        if self.references.len() == MAX_REFERENCES {
            self.references.remove(0);
        }
        self.references.reserve_exact(1);
        self.references.push(reference);
    }

    /// Stores the `wanted` items of `received` in the pool and returns their numbers.
    fn keep(&mut self, received: &Received, wanted: u16) -> Ids {
        let mut ids = Ids::unknown(received.list.len());
        for (position, item) in received.list.items().enumerate() {
            if wanted >> position & 1 == 1 {
                let id =
                    self.find(received.kind, item, &ids).unwrap_or_else(|| self.make_place(item.len(), &ids));
                self.pool.set(id, item);
                ids.as_mut_slice()[position] = id;
            }
        }
        ids
    }

    /// The number of an item. Of two in one list that differ in their counters each has its own.
    fn find(&self, kind: Kind, item: &[u8], taken: &Ids) -> Option<u8> {
        let is_item = |(at, known): &(usize, &[u8])| {
            !known.is_empty()
                && kind.same(known, item)
                && !(kind.counts(item) && taken.as_slice().contains(&(*at as u8)))
        };
        self.pool.items().enumerate().find(is_item).map(|(at, _)| at as u8)
    }

    /// Returns a free place for an item of `len` octets. A full pool loses references first, then the table.
    fn make_place(&mut self, len: usize, taken: &Ids) -> u8 {
        self.sweep(taken);
        if self.is_full(len) {
            self.references.clear();
            self.sweep(taken);
        }
        if self.is_full(len) {
            self.table.fill(NOWHERE);
            self.sweep(taken);
        }
        self.pool.items().position(<[u8]>::is_empty).unwrap_or(self.pool.len()) as u8
    }

    fn is_full(&self, len: usize) -> bool {
        let has_place = self.pool.len() < usize::from(NOWHERE) || self.pool.items().any(<[u8]>::is_empty);
        !has_place || self.pool.bytes_len() + len > MAX_POOL_BYTES
    }

    /// Frees the places of items that are in no list any more.
    fn sweep(&mut self, taken: &Ids) {
        for at in 0..self.pool.len() as u8 {
            let in_reference =
                || self.references.iter().any(|reference| reference.items.as_slice().contains(&at));
            if !taken.as_slice().contains(&at) && !self.table.contains(&at) && !in_reference() {
                self.pool.set(at, &[]);
            }
        }
    }
}

/// Accepts a list as [`Lists::accept`] does, for a context that may have had none.
pub(crate) fn accept(lists: &mut Option<Box<Lists>>, received: &Received, acknowledged: Option<u8>) {
    if lists.is_some() || !received.list.is_empty() {
        lists.get_or_insert_default().accept(received, acknowledged);
    }
}

/// Stores the (Index, item) pairs of `received` and advances the current list.
pub(crate) fn learn(lists: &mut Option<Box<Lists>>, received: &Received) {
    if lists.is_none() && received.whole == 0 {
        return;
    }
    let lists = lists.get_or_insert_default();
    lists.learn(received);
    let (to, from) = (&mut lists.current, &received.list);
    if to.len() != from.len() || received.kind != Kind::Extension {
        return;
    }
    for position in 0..to.len() {
        if same_but_counters(to.item(position), from.item(position)) {
            to.item_mut(position).copy_from_slice(from.item(position));
        }
    }
}

impl Received {
    /// Copies the context's list into the memory of another one.
    pub(crate) fn copy(list: &List, mut place: List) -> Self {
        place.copy_from(list);
        Self { list: place, ..Self::default() }
    }

    /// Returns the list alone.
    pub(crate) fn into_list(self) -> List {
        self.list
    }

    /// Returns `true` if the list has a generation identifier or was made from another list.
    pub(crate) const fn is_named(&self) -> bool {
        self.generation.is_some() || self.reference.is_some()
    }

    /// Returns `true` if the item at `position` came with this packet.
    pub(crate) const fn is_whole(&self, position: usize) -> bool {
        self.whole >> position & 1 == 1
    }

    /// Returns the position of the item sent for `index` of the table.
    fn sent_as(&self, index: u8) -> Option<usize> {
        (0..self.list.len()).rev().find(|&at| self.is_whole(at) && self.indices[at] == index)
    }

    fn add(&mut self, item: Item<'_>) -> Result<(), DecompressError> {
        let at = self.list.len();
        let added = match item {
            Item::Sent(_, item) | Item::Known(item) => self.list.push(item),
            Item::Again(earlier) => self.list.push_again(earlier),
        };
        added.ok_or(DecompressError::TooLarge)?;
        if let Item::Sent(index, _) = item {
            self.whole |= 1 << at;
            self.indices[at] = index;
        }
        Ok(())
    }
}

/// XI entries, as octets: X in bit 7, index below.
struct Entries {
    entries: [u8; MAX_EXTENSIONS],
    count: usize,
}

impl Entries {
    /// `count` entries of 8 or 4 bits; with 4 bits `first` may have come before.
    fn read(
        reader: &mut Reader<'_>,
        large: bool,
        first: Option<u8>,
        count: usize,
    ) -> Result<Self, DecompressError> {
        let mut entries = Self { entries: [0; MAX_EXTENSIONS], count };
        let places = entries.entries.get_mut(..count).ok_or(DecompressError::TooLarge)?;
        if large {
            places.copy_from_slice(reader.take(count)?);
            return Ok(entries);
        }
        let widen = |nibble: u8| (nibble & 8) << 4 | nibble & 7;
        let mut places = places.iter_mut();
        if let (Some(first), Some(place)) = (first, if first.is_some() { places.next() } else { None }) {
            *place = widen(first);
        }
        while let Some(place) = places.next() {
            let pair = reader.u8()?;
            *place = widen(pair >> 4);
            if let Some(place) = places.next() {
                *place = widen(pair & 0x0f);
            }
        }
        Ok(entries)
    }

    fn entries(&self) -> &[u8] {
        &self.entries[..self.count]
    }
}

/// A bit mask of 7 or 15 bits, first bit first.
#[derive(Clone, Copy, Default)]
struct Mask {
    /// Left-aligned.
    bits: u16,
    len: usize,
}

impl Mask {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecompressError> {
        if reader.peek()? & 0x80 == 0 {
            return Ok(Self { bits: u16::from(reader.u8()?) << 9, len: 7 });
        }
        Ok(Self { bits: reader.u16()? << 1, len: 15 })
    }

    fn is_set(self, index: usize) -> bool {
        index < self.len && self.bits >> (15 - index) & 1 == 1
    }

    fn ones(self) -> usize {
        self.bits.count_ones() as usize
    }
}
