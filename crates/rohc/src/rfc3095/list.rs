//! List compression (RFC 3095 5.8): extension headers and CSRCs, by tables of items and by difference to earlier lists.
//!
//! An item is the octets that are sent for it: four for a CSRC; for an extension header the header with its own type in
//! the place of its Next Header field (5.8.4.1), a GRE header without its Protocol Type but with that octet (5.8.4.4).
//! 5.8.4.4 wants the type of the *subsequent* header there in Generic lists; that would leave the first header of the
//! list without a type, so its own type is used there too, as for every other header.

use alloc::vec::Vec;

use crate::error::DecompressError;
use crate::octets::{Reader, Writer};
use crate::packet::{self, MAX_EXTENSION_BYTES, MAX_EXTENSIONS, protocol};

/// Lists that may be referred to, in one direction of one context.
const MAX_REFERENCES: usize = 8;
/// Octets of all items of one table: what a compressor can make of fifteen indices.
const MAX_TABLE_BYTES: usize = MAX_EXTENSIONS * MAX_EXTENSION_BYTES;

/// What the items are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Csrc,
    Extension,
}

/// An ordered list of items.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    bytes: Vec<u8>,
    ends: [u16; MAX_EXTENSIONS],
    count: u8,
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.ends() == other.ends() && self.bytes == other.bytes
    }
}

impl List {
    pub(crate) const fn len(&self) -> usize {
        self.count as usize
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Octets of all items.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn ends(&self) -> &[u16] {
        &self.ends[..self.len()]
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Adds an item; `None` when the list is full.
    pub(crate) fn push(&mut self, item: &[u8]) -> Option<()> {
        if self.len() == MAX_EXTENSIONS || self.bytes.len() + item.len() > MAX_EXTENSION_BYTES {
            return None;
        }
        self.bytes.extend_from_slice(item);
        self.ends[self.len()] = self.bytes.len() as u16;
        self.count += 1;
        Some(())
    }

    fn range(&self, index: usize) -> core::ops::Range<usize> {
        let start = if index == 0 { 0 } else { usize::from(self.ends[index - 1]) };
        start..usize::from(self.ends[index])
    }

    pub(crate) fn item(&self, index: usize) -> &[u8] {
        &self.bytes[self.range(index)]
    }

    pub(crate) fn item_mut(&mut self, index: usize) -> &mut [u8] {
        let range = self.range(index);
        &mut self.bytes[range]
    }

    pub(crate) fn items(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.item(index))
    }

    /// Makes this a copy of `other` without giving back memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        (self.ends, self.count) = (other.ends, other.count);
    }

    /// Whether an item changes in every packet (AH, GRE).
    pub(crate) fn has_counters(&self) -> bool {
        self.items().any(|item| super::header::changes_every_packet(item[0]))
    }

    /// Octets of the headers that the items stand for.
    pub(crate) fn raw_len(&self) -> usize {
        self.items().map(|item| item.len() + gre_growth(item)).sum()
    }

    /// Appends the extension headers that the items stand for; `next` is the type of what follows.
    pub(crate) fn render(&self, out: &mut Vec<u8>, next: u8) -> Result<(), DecompressError> {
        for index in 0..self.len() {
            let next = if index + 1 < self.len() { self.item(index + 1)[0] } else { next };
            render_extension(self.item(index), next, out)?;
        }
        Ok(())
    }

    /// Adds the extension headers of `level` in `bytes`.
    pub(crate) fn collect(&mut self, bytes: &[u8], level: &packet::Level) -> Option<()> {
        self.clear();
        let mut fits = Some(());
        super::header::each_extension(bytes, level, |kind, header| {
            let mut item = [0; 12 + 4 + 4];
            fits = fits.and_then(|()| match kind {
                protocol::GRE => self.push(gre_item(header, &mut item)),
                _ => self.push_header(kind, header),
            });
        });
        fits
    }

    fn push_header(&mut self, kind: u8, header: &[u8]) -> Option<()> {
        self.push(header)?;
        self.item_mut(self.len() - 1)[0] = kind;
        Some(())
    }
}

fn gre_growth(item: &[u8]) -> usize {
    if item[0] == protocol::GRE { 2 + 2 * usize::from(item[1] >> 7) } else { 0 }
}

/// The list item of a raw GRE header.
fn gre_item<'a>(header: &[u8], item: &'a mut [u8; 20]) -> &'a [u8] {
    let checksum = header[0] & 0x80 != 0;
    item[0] = protocol::GRE;
    item[1] = header[0] & 0xb0;
    let mut len = 2;
    if checksum {
        item[2..4].copy_from_slice(&header[4..6]);
        len = 4;
    }
    let rest = &header[if checksum { 8 } else { 4 }..];
    item[len..len + rest.len()].copy_from_slice(rest);
    &item[..len + rest.len()]
}

fn render_extension(item: &[u8], next: u8, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    if item[0] != protocol::GRE {
        out.push(next);
        out.extend_from_slice(&item[1..]);
        return Ok(());
    }
    let ether_type =
        packet::gre_ether_type(next).ok_or(DecompressError::Malformed("GRE around no IP header"))?;
    out.extend_from_slice(&[item[1] & 0xb0, 0]);
    out.extend_from_slice(&ether_type.to_be_bytes());
    let mut rest = &item[2..];
    if item[1] & 0x80 != 0 {
        out.extend_from_slice(&[rest[0], rest[1], 0, 0]);
        rest = &rest[2..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Where an item keeps its sequence number.
pub(crate) fn sequence_at(item: &[u8]) -> Option<usize> {
    match item[0] {
        protocol::AH => Some(8),
        protocol::GRE if item[1] & 0x10 != 0 => Some(item.len() - 4),
        _ => None,
    }
}

/// Where an item keeps what is sent as it is behind every compressed header: ICV of AH, checksum of GRE.
pub(crate) fn irregular(item: &[u8]) -> core::ops::Range<usize> {
    match item[0] {
        protocol::AH => 12..item.len(),
        protocol::GRE if item[1] & 0x80 != 0 => 2..4,
        _ => 0..0,
    }
}

/// Whether two items are the same but for what [`sequence_at`] and [`irregular`] say.
pub(crate) fn same_but_counters(one: &[u8], two: &[u8]) -> bool {
    if one.len() != two.len() || one[0] != two[0] {
        return false;
    }
    let differs = |at: usize| one[at] != two[at];
    let (sequence, irregular) = (sequence_at(one), irregular(one));
    sequence == sequence_at(two)
        && (1..one.len()).filter(|&at| differs(at)).all(|at| {
            irregular.contains(&at) || sequence.is_some_and(|sequence| (sequence..sequence + 4).contains(&at))
        })
}

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

/// A list and the identifier under which it may be referred to: gen_id, or in R-mode the low octet of a SN.
#[derive(Clone, Debug, Default)]
struct Reference {
    id: u8,
    list: List,
}

/// The decompressor's side: translation table, current list, and lists that may be referred to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    items: Vec<Option<Vec<u8>>>,
    pub(crate) current: List,
    references: Vec<Reference>,
}

/// A list that was received, not yet part of the context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) list: List,
    /// (Index, item) pairs.
    pairs: Vec<(u8, Vec<u8>)>,
    generation: Option<u8>,
    reference: Option<u8>,
    /// Bit i: item i of `list` came with this packet, its irregular part in it.
    pub(crate) whole: u16,
}

impl Lists {
    /// Reads a compressed list (RFC 3095 5.8.6).
    pub(crate) fn read(&self, reader: &mut Reader<'_>, kind: Kind) -> Result<Received, DecompressError> {
        let head = reader.u8()?;
        let mut received = Received::default();
        if head & 0x20 != 0 {
            received.generation = Some(reader.u8()?);
        }
        let encoding = head >> 6;
        if encoding == 0 {
            let count = usize::from(head & 0x0f);
            let entries = Entries::read(reader, head & 0x10 != 0, None, count)?;
            self.take_items(reader, kind, &entries, &mut received, |received, _, item, whole| {
                received.add(item, whole)
            })?;
            return Ok(received);
        }
        let reference = reader.u8()?;
        received.reference = Some(reference);
        let base = self.reference(reference)?;
        let removed = if encoding >= 2 { Mask::read(reader)? } else { Mask::default() };
        if encoding == 2 {
            for (index, item) in base.items().enumerate() {
                if !removed.is_set(index) {
                    received.add(item, false)?;
                }
            }
            return Ok(received);
        }
        self.read_insertion(reader, kind, head, base, removed, received)
    }

    /// Encoding types 1 and 3: items inserted into what is left of `base`.
    fn read_insertion(
        &self,
        reader: &mut Reader<'_>,
        kind: Kind,
        head: u8,
        base: &List,
        removed: Mask,
        mut received: Received,
    ) -> Result<Received, DecompressError> {
        let inserted = Mask::read(reader)?;
        let large = head & 0x10 != 0;
        let first = (!large).then_some(head & 0x0f);
        let count = inserted.ones();
        let entries = Entries::read(reader, large, first, count)?;
        let mut kept =
            base.items().enumerate().filter(|(index, _)| !removed.is_set(*index)).map(|(_, item)| item);
        let mut position = 0;
        self.take_items(reader, kind, &entries, &mut received, |received, _, item, whole| {
            while position < inserted.len && !inserted.is_set(position) {
                let Some(item) = kept.next() else {
                    return Err(DecompressError::Malformed("list insertion"));
                };
                received.add(item, false)?;
                position += 1;
            }
            position += 1;
            received.add(item, whole)
        })?;
        for item in kept {
            received.add(item, false)?;
        }
        Ok(received)
    }

    fn reference(&self, id: u8) -> Result<&List, DecompressError> {
        let found =
            self.references.iter().rev().find(|reference| reference.id == id && !reference.list.is_empty());
        found
            .map(|reference| &reference.list)
            .ok_or(DecompressError::Malformed("reference to an unknown list"))
    }

    /// Reads the items of `entries` and hands each, from packet or table, to `each`.
    fn take_items(
        &self,
        reader: &mut Reader<'_>,
        kind: Kind,
        entries: &Entries,
        received: &mut Received,
        mut each: impl FnMut(&mut Received, usize, &[u8], bool) -> Result<(), DecompressError>,
    ) -> Result<(), DecompressError> {
        for (position, &entry) in entries.entries().iter().enumerate() {
            let index = entry & 0x7f;
            if entry & 0x80 != 0 {
                let len = item_len(kind, reader.rest())?;
                let item = reader.take(len)?;
                received.pairs.push((index, item.to_vec()));
                each(received, position, item, true)?;
                continue;
            }
            // An item that came earlier in this list counts as known.
            let sent =
                received.pairs.iter().rev().find(|(known, _)| *known == index).map(|(_, item)| item.clone());
            match sent
                .as_deref()
                .or_else(|| self.items.get(usize::from(index)).and_then(|item| item.as_deref()))
            {
                Some(item) => each(received, position, item, false)?,
                None => return Err(DecompressError::Malformed("list item that was never sent")),
            }
        }
        Ok(())
    }

    /// Makes the (Index, item) pairs of `received` known.
    pub(crate) fn learn(&mut self, received: &Received) {
        for (index, item) in &received.pairs {
            if self.items.len() <= usize::from(*index) {
                self.items.resize(usize::from(*index) + 1, None);
            }
            self.items[usize::from(*index)] = None;
            let used: usize = self.items.iter().flatten().map(Vec::len).sum();
            if used + item.len() > MAX_TABLE_BYTES {
                self.items.fill(None);
            }
            self.items[usize::from(*index)] = Some(item.clone());
        }
    }

    /// Makes `received` the current list, and one that may be referred to: under its generation, or in R-mode under
    /// `acknowledged`, the low octet of the SN.
    pub(crate) fn accept(&mut self, received: &Received, acknowledged: Option<u8>) {
        self.learn(received);
        if let Some(used) = received.reference
            && let Some(at) = self.references.iter().position(|reference| reference.id == used)
        {
            self.references.drain(..at);
        }
        if let Some(id) = received.generation.or(acknowledged) {
            self.remember(id, &received.list);
        }
        self.current.copy_from(&received.list);
    }

    fn remember(&mut self, id: u8, list: &List) {
        // A generation that comes again with another list is of a compressor that started anew.
        let recycled = match self.references.iter().position(|reference| reference.id == id) {
            Some(at) => self.references.remove(at),
            None if self.references.len() == MAX_REFERENCES => self.references.remove(0),
            None => Reference::default(),
        };
        let mut reference = Reference { id, ..recycled };
        reference.list.copy_from(list);
        self.references.push(reference);
    }
}

impl Received {
    /// The list that the context has.
    pub(crate) fn unchanged(list: &List) -> Self {
        Self::copy(list, List::default())
    }

    /// The same in the place of a list that is not needed any more.
    pub(crate) fn copy(list: &List, mut place: List) -> Self {
        place.copy_from(list);
        Self { list: place, ..Self::default() }
    }

    /// Its list alone.
    pub(crate) fn into_list(self) -> List {
        self.list
    }

    /// Whether the list has a generation identifier or was made from another list.
    pub(crate) const fn is_named(&self) -> bool {
        self.generation.is_some() || self.reference.is_some()
    }

    fn add(&mut self, item: &[u8], whole: bool) -> Result<(), DecompressError> {
        self.whole |= u16::from(whole) << self.list.len();
        self.list.push(item).ok_or(DecompressError::TooLarge)
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

/// Writes an empty generic list.
pub(crate) fn write_empty(writer: &mut Writer<'_>) {
    writer.u8(0);
}
