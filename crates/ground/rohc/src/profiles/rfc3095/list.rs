//! List compression of extension headers and CSRCs (RFC 3095 5.8).
//!
//! An item is the octets that are sent for it: four for a CSRC; for an extension header the header with its own type in
//! the place of its Next Header field (5.8.4.1), a GRE header without its Protocol Type but with that octet (5.8.4.4).
//! 5.8.4.4 wants the type of the *subsequent* header there in Generic lists; that would leave the first header of the
//! list without a type, so its own type is used there too, as for every other header.

mod pool;
mod received;

use alloc::vec::Vec;

pub(crate) use self::pool::{Ids, NOWHERE, Pool};
pub(crate) use self::received::{Lists, NO_LISTS, Received, accept, learn};
use crate::framework::error::DecompressError;
use crate::framework::octets::Writer;
use crate::framework::packet::{self, MAX_EXTENSION_BYTES, MAX_EXTENSIONS, protocol};

/// Kind of the items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    Csrc,
    #[default]
    Extension,
}

impl Kind {
    /// Returns `true` if two items are the same but for what counts.
    pub(crate) fn same(self, one: &[u8], two: &[u8]) -> bool {
        if self == Self::Csrc { one == two } else { same_but_counters(one, two) }
    }

    /// Returns `true` if an item changes in every packet (AH, GRE).
    pub(crate) fn counts(self, item: &[u8]) -> bool {
        self == Self::Extension && super::header::changes_every_packet(item[0])
    }
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

    /// An empty list.
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), ends: [0; MAX_EXTENSIONS], count: 0 }
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

    /// Adds the item at `index` once more.
    fn push_again(&mut self, index: usize) -> Option<()> {
        let range = self.range(index);
        if self.len() == MAX_EXTENSIONS || self.bytes.len() + range.len() > MAX_EXTENSION_BYTES {
            return None;
        }
        self.bytes.extend_from_within(range);
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

    /// Copies `other` without freeing memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.bytes.clear();
        self.bytes.reserve_exact(other.bytes.len());
        self.bytes.extend_from_slice(&other.bytes);
        (self.ends, self.count) = (other.ends, other.count);
    }

    /// Returns `true` if an item changes in every packet (AH, GRE).
    pub(crate) fn has_counters(&self) -> bool {
        self.items().any(|item| super::header::changes_every_packet(item[0]))
    }

    /// Octets of the headers that the items stand for.
    pub(crate) fn raw_len(&self) -> usize {
        self.items().map(|item| item.len() + gre_growth(item)).sum()
    }

    /// Appends the extension headers that the items represent. `next` is the type of what follows.
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

/// Returns the place of an item's sequence number.
pub(crate) fn sequence_at(item: &[u8]) -> Option<usize> {
    match item[0] {
        protocol::AH => Some(8),
        protocol::GRE if item[1] & 0x10 != 0 => Some(item.len() - 4),
        _ => None,
    }
}

/// Returns the place of an item's octets that follow every compressed header. They are the ICV of AH and the checksum
/// of GRE.
pub(crate) fn irregular(item: &[u8]) -> core::ops::Range<usize> {
    match item[0] {
        protocol::AH => 12..item.len(),
        protocol::GRE if item[1] & 0x80 != 0 => 2..4,
        _ => 0..0,
    }
}

/// Returns `true` if two items are the same but for what [`sequence_at`] and [`irregular`] say.
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

/// Writes an empty generic list.
pub(crate) fn write_empty(writer: &mut Writer<'_>) {
    writer.u8(0);
}
