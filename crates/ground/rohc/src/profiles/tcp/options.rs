//! TCP options: table of items, list, and forms of each (RFC 6846 6.3, 8.2).
//!
//! An option has two compressed forms: a list item, which says all of it, and an irregular item, which says what
//! changed since the table's entry. Which of the two a packet has for each option is a bit (X) of its list; without a
//! list all are irregular and the structure is that of the packet before.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::ip::u32_at;
use crate::framework::error::DecompressError;
use crate::framework::lsb;
use crate::framework::octets::{Reader, Writer};

/// Most options that a list can hold: its counter has four bits.
pub(super) const MAX_OPTIONS: usize = 15;
/// Most octets of options: the data offset has four bits.
pub(super) const MAX_LEN: usize = 40;
/// Maximum length of an EOL option and its padding, which is counted in bits.
pub(super) const MAX_EOL_LEN: usize = 32;

/// Items of the table (RFC 6846 6.3.4).
pub(super) const NOP: u8 = 0;
pub(super) const EOL: u8 = 1;
pub(super) const MSS: u8 = 2;
pub(super) const WSCALE: u8 = 3;
pub(super) const TIMESTAMP: u8 = 4;
pub(super) const SACK_PERMITTED: u8 = 5;
pub(super) const SACK: u8 = 6;
pub(super) const GENERIC: u8 = 7;
/// Type octet of SACK.
pub(super) const SACK_KIND: u8 = 5;
const MALFORMED: DecompressError = DecompressError::Malformed("TCP: options");
const UNKNOWN_ITEM: DecompressError = DecompressError::Malformed("TCP: option that no item has established");

/// Entries of the table.
pub(super) const ITEMS: usize = 16;
const GENERICS: usize = ITEMS - GENERIC as usize;

const GENERIC_STABLE: u8 = 0xff;
const GENERIC_FULL: u8 = 0x00;

/// The option's type and length octets for each item that has its own.
const fn kind_and_len(index: u8) -> [u8; 2] {
    match index {
        MSS => [2, 4],
        WSCALE => [3, 3],
        TIMESTAMP => [8, 10],
        SACK_PERMITTED => [4, 2],
        _ => [SACK_KIND, 0],
    }
}

/// A list of options: the index of each into the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    len: u8,
    /// Zeros behind the last, so that lists can be compared as they lie.
    indexes: [u8; MAX_OPTIONS],
}

impl List {
    /// Two NOPs and a timestamp, as RFC 7323 appendix A recommends.
    pub(super) const TIMESTAMPS: List =
        List { len: 3, indexes: [NOP, NOP, TIMESTAMP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] };

    pub(super) fn indexes(&self) -> &[u8] {
        &self.indexes[..usize::from(self.len)]
    }

    pub(super) fn push(&mut self, index: u8) -> Option<()> {
        *self.indexes.get_mut(usize::from(self.len))? = index;
        self.len += 1;
        Some(())
    }
}

/// An option of a type that has no item of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generic {
    /// Type, length and contents.
    bytes: [u8; MAX_LEN],
    len: u8,
    /// Set if the item counts as constant, so that its irregular item is empty.
    pub(super) is_static: bool,
}

impl Generic {
    const EMPTY: Generic = Generic { bytes: [0; MAX_LEN], len: 0, is_static: true };

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The table of items: what was last seen of each option.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    known: u16,
    eol_padding: u8,
    wscale: u8,
    mss: [u8; 2],
    sack_len: u8,
    sack: [u8; 32],
    timestamp: [u8; 8],
    generics: Option<Box<[Generic; GENERICS]>>,
}

impl Items {
    /// Returns `true` if there is an entry, or the option needs none.
    pub(super) const fn knows(&self, index: u8) -> bool {
        self.known >> index & 1 != 0 || matches!(index, NOP | SACK_PERMITTED)
    }

    pub(super) fn generic(&self, index: u8) -> Option<&Generic> {
        let generics = self.generics.as_ref()?;
        self.knows(index).then(|| &generics[usize::from(index - GENERIC)])
    }

    /// The indexes that generic items have, those not yet in use too.
    pub(super) fn generic_indexes() -> core::ops::Range<u8> {
        GENERIC..ITEMS as u8
    }

    /// Stores the option `bytes` as the table's entry.
    pub(super) fn store(&mut self, index: u8, bytes: &[u8]) {
        self.known |= 1 << index;
        match index {
            NOP | SACK_PERMITTED => {}
            EOL => self.eol_padding = bytes.len() as u8 - 1,
            MSS => self.mss.copy_from_slice(&bytes[2..4]),
            WSCALE => self.wscale = bytes[2],
            TIMESTAMP => self.timestamp.copy_from_slice(&bytes[2..10]),
            SACK => {
                self.sack_len = bytes.len() as u8 - 2;
                self.sack[..bytes.len() - 2].copy_from_slice(&bytes[2..]);
            }
            _ => self.store_generic(index, bytes),
        }
    }

    /// Stores timestamps as the table's entry.
    #[inline]
    pub(super) fn store_timestamps(&mut self, [value, echo]: [u32; 2]) {
        self.known |= 1 << TIMESTAMP;
        self.timestamp[..4].copy_from_slice(&value.to_be_bytes());
        self.timestamp[4..].copy_from_slice(&echo.to_be_bytes());
    }

    /// The entry for timestamps, if there is one.
    #[inline]
    pub(super) fn timestamps(&self) -> Option<[u32; 2]> {
        self.knows(TIMESTAMP).then(|| [u32_at(&self.timestamp, 0), u32_at(&self.timestamp, 4)])
    }

    fn store_generic(&mut self, index: u8, bytes: &[u8]) {
        let generics = self.generics.get_or_insert_with(|| Box::new([Generic::EMPTY; GENERICS]));
        let entry = &mut generics[usize::from(index - GENERIC)];
        entry.len = bytes.len() as u8;
        entry.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn set_static(&mut self, index: u8, is_static: bool) {
        if let Some(generics) = &mut self.generics {
            generics[usize::from(index - GENERIC)].is_static = is_static;
        }
    }

    /// Returns `true` if the option `bytes` says what the table's entry does.
    pub(super) fn matches(&self, index: u8, bytes: &[u8]) -> bool {
        self.knows(index)
            && match index {
                NOP | SACK_PERMITTED => true,
                EOL => usize::from(self.eol_padding) == bytes.len() - 1,
                MSS => bytes[2..].first_chunk() == Some(&self.mss),
                WSCALE => self.wscale == bytes[2],
                TIMESTAMP => bytes[2..].first_chunk() == Some(&self.timestamp),
                SACK => self.sack() == &bytes[2..],
                _ => self.generic(index).is_some_and(|generic| generic.bytes() == bytes),
            }
    }

    fn sack(&self) -> &[u8] {
        &self.sack[..usize::from(self.sack_len)]
    }

    /// Appends the option that the table's entry says.
    fn write(&self, index: u8, out: &mut Vec<u8>) -> Result<(), DecompressError> {
        if !self.knows(index) {
            return Err(UNKNOWN_ITEM);
        }
        let [kind, len] = kind_and_len(index);
        match index {
            NOP => out.push(1),
            EOL => out.resize(out.len() + 1 + usize::from(self.eol_padding), 0),
            MSS => out.extend_from_slice(&[kind, len, self.mss[0], self.mss[1]]),
            WSCALE => out.extend_from_slice(&[kind, len, self.wscale]),
            SACK_PERMITTED => out.extend_from_slice(&[kind, len]),
            TIMESTAMP => {
                out.extend_from_slice(&[kind, len]);
                out.extend_from_slice(&self.timestamp);
            }
            SACK => {
                out.extend_from_slice(&[kind, self.sack_len + 2]);
                out.extend_from_slice(self.sack());
            }
            _ => out.extend_from_slice(self.generic(index).ok_or(UNKNOWN_ITEM)?.bytes()),
        }
        Ok(())
    }

    /// Copies what `base` has, without giving up memory that is held.
    pub(super) fn copy_from(&mut self, base: &Items) {
        let mut generics = self.generics.take();
        match (&mut generics, &base.generics) {
            (Some(own), Some(theirs)) => own.clone_from(theirs),
            (own, theirs) => own.clone_from(theirs),
        }
        *self = Items { generics, ..Items { generics: None, ..*base } };
    }
}

/// Splits the first option off `bytes`. `None` if a list cannot carry it.
pub(super) fn split_first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = match *bytes {
        [0, ref padding @ ..] if padding.iter().all(|&octet| octet == 0) && bytes.len() <= MAX_EOL_LEN => {
            bytes.len()
        }
        [1, ..] => 1,
        [2..=u8::MAX, len @ 2..=u8::MAX, ..] => usize::from(len),
        _ => return None,
    };
    bytes.split_at_checked(len)
}

/// Returns the index reserved for an option of this type and length.
pub(super) fn reserved_index(option: &[u8]) -> Option<u8> {
    match *option {
        [0, ..] => Some(EOL),
        [1] => Some(NOP),
        [2, 4, ..] => Some(MSS),
        [3, 3, ..] => Some(WSCALE),
        [4, 2] => Some(SACK_PERMITTED),
        [SACK_KIND, 10 | 18 | 26 | 34, ..] => Some(SACK),
        [8, 10, ..] => Some(TIMESTAMP),
        _ => None,
    }
}

/// Writes the head of a list: its indexes. Bit n of `present` is set for the n-th item.
pub(super) fn write_list_head(list: &List, present: u16, out: &mut Writer<'_>) {
    let indexes = list.indexes();
    let wide = indexes.iter().any(|&index| index > 7);
    out.u8(u8::from(wide) << 4 | list.len);
    let entry = |position: usize| {
        let x = (present >> position & 1) as u8;
        if wide { x << 7 | indexes[position] } else { x << 3 | indexes[position] }
    };
    if wide {
        for position in 0..indexes.len() {
            out.u8(entry(position));
        }
        return;
    }
    for position in (0..indexes.len()).step_by(2) {
        let second = if position + 1 < indexes.len() { entry(position + 1) } else { 0 };
        out.u8(entry(position) << 4 | second);
    }
}

/// Writes the list item of `option`.
pub(super) fn write_item(index: u8, option: &[u8], is_static: bool, ack: u32, out: &mut Writer<'_>) {
    match index {
        NOP | SACK_PERMITTED => {}
        EOL => out.u8((option.len() as u8 - 1) * 8),
        MSS | WSCALE | TIMESTAMP => out.bytes(&option[2..]),
        SACK => write_sack(&option[2..], ack, out),
        _ => {
            out.bytes(&[option[0], u8::from(is_static) << 7 | option[1]]);
            out.bytes(&option[2..]);
        }
    }
}

/// Writes the blocks of a SACK option by the distances of their edges.
pub(super) fn write_sack(blocks: &[u8], ack: u32, out: &mut Writer<'_>) {
    out.u8((blocks.len() / 8) as u8);
    let mut reference = ack;
    for edge in blocks.chunks_exact(4) {
        let value = u32_at(edge, 0);
        write_sack_edge(value.wrapping_sub(reference), out);
        reference = value;
    }
}

fn write_sack_edge(distance: u32, out: &mut Writer<'_>) {
    match distance {
        0..=0x7fff => out.u16(distance as u16),
        0x8000..=0x3f_ffff => out.bytes(&(0x80_0000 | distance).to_be_bytes()[1..]),
        0x40_0000..=0x1fff_ffff => out.u32(0xc000_0000 | distance),
        _ => {
            out.u8(0xff);
            out.u32(distance);
        }
    }
}

fn read_sack_edge(input: &mut Reader<'_>) -> Result<u32, DecompressError> {
    match input.peek()? {
        0x00..=0x7f => Ok(u32::from(input.u16()?)),
        0x80..=0xbf => {
            let [high, middle, low] = input.array()?;
            Ok(u32::from_be_bytes([0, high & 0x3f, middle, low]))
        }
        0xc0..=0xdf => Ok(input.u32()? & 0x1fff_ffff),
        0xff => {
            input.u8()?;
            Ok(input.u32()?)
        }
        _ => Err(MALFORMED),
    }
}

/// Reads the blocks of a SACK option behind their counter.
fn read_sack(count: u8, ack: u32, input: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    if !(1..=4).contains(&count) {
        return Err(MALFORMED);
    }
    out.extend_from_slice(&[5, 2 + 8 * count]);
    let mut edge = ack;
    for _ in 0..2 * count {
        edge = edge.wrapping_add(read_sack_edge(input)?);
        out.extend_from_slice(&edge.to_be_bytes());
    }
    Ok(())
}

/// Forms of a timestamp: octets, bits, p of the LSB encoding.
const TS_FORMS: [(u32, u32, u32); 4] =
    [(1, 7, lsb::P_MINUS_ONE), (2, 14, lsb::P_MINUS_ONE), (3, 21, 0x0004_0000), (4, 29, 0x0400_0000)];

/// Returns the octets that the timestamp `value` needs to decode against all `references`.
#[inline]
pub(super) fn timestamp_len(value: u32, references: impl Iterator<Item = u32> + Clone) -> Option<u32> {
    let fits = |&&(_, bits, p): &&(u32, u32, u32)| {
        references.clone().all(|reference| lsb::fits(reference, value, bits, p, u32::MAX))
    };
    TS_FORMS.iter().find(fits).map(|&(len, ..)| len)
}

/// A timestamp as it is sent in `len` octets.
#[inline]
pub(super) const fn coded_timestamp(value: u32, len: u32) -> u32 {
    match len {
        1 => value & 0x7f,
        2 => 0b10 << 14 | value & 0x3fff,
        3 => 0b110 << 21 | value & 0x1f_ffff,
        _ => 0b111 << 29 | value & 0x1fff_ffff,
    }
}

/// Writes a timestamp in the `len` octets that [`timestamp_len`] found.
#[inline]
pub(super) fn write_timestamp(value: u32, len: u32, out: &mut Writer<'_>) {
    out.bytes(&coded_timestamp(value, len).to_be_bytes()[4 - len as usize..]);
}

#[inline]
pub(super) fn read_timestamp(reference: u32, input: &mut Reader<'_>) -> Result<u32, DecompressError> {
    let form = (input.peek()?.leading_ones() as usize).min(3);
    let (_, bits, p) = TS_FORMS[form];
    let coded = match form {
        0 => u32::from(input.u8()?),
        1 => u32::from(input.u16()?),
        2 => {
            let [high, middle, low] = input.array()?;
            u32::from_be_bytes([0, high, middle, low])
        }
        _ => input.u32()?,
    };
    Ok(lsb::decode(reference, coded & ((1 << bits) - 1), bits, p))
}

/// The options of a packet in decompression.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) list: List,
    /// Set of options that came as list items.
    present: u16,
    /// Set of generic items among them that will not change.
    is_static: u16,
    /// The options that came as list items, one after the other.
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl Received {
    /// Creates the structure of the packet before, without new items.
    pub(super) fn unchanged(list: &List) -> Self {
        Self { list: *list, present: 0, is_static: 0, bytes: [0; MAX_LEN], len: 0 }
    }

    /// Reads a compressed list (RFC 6846 6.3.3), with the end of `scratch` to work in.
    pub(super) fn read(
        input: &mut Reader<'_>,
        ack: u32,
        scratch: &mut Vec<u8>,
    ) -> Result<Self, DecompressError> {
        let mut received = Self::unchanged(&List::default());
        received.read_head(input)?;
        let start = scratch.len();
        for position in 0..received.list.indexes().len() {
            if received.present >> position & 1 != 0 {
                let index = received.list.indexes()[position];
                let is_static = read_item(index, ack, input, scratch)?;
                received.is_static |= u16::from(is_static) << position;
            }
        }
        let options = &scratch[start..];
        let bytes = received.bytes.get_mut(..options.len()).ok_or(MALFORMED)?;
        bytes.copy_from_slice(options);
        received.len = options.len() as u8;
        scratch.truncate(start);
        Ok(received)
    }

    fn read_head(&mut self, input: &mut Reader<'_>) -> Result<(), DecompressError> {
        let first = input.u8()?;
        let (wide, count) = (first & 0x10 != 0, usize::from(first & 0x0f));
        if first & 0xe0 != 0 {
            return Err(MALFORMED);
        }
        let entries = input.take(if wide { count } else { count.div_ceil(2) })?;
        for position in 0..count {
            let (x, index) =
                if wide { wide_entry(entries[position])? } else { narrow_entry(entries, position) };
            self.list.push(index).ok_or(MALFORMED)?;
            self.present |= u16::from(x) << position;
        }
        if !wide && count % 2 == 1 && entries[count / 2] & 0x0f != 0 {
            return Err(MALFORMED);
        }
        Ok(())
    }

    /// Returns `true` if all options came as list items.
    pub(super) fn is_complete(&self) -> bool {
        u32::from(self.present) == (1u32 << self.list.indexes().len()) - 1
    }

    /// Appends the options to `out`. Those that did not come as list items are completed from the irregular chain, or
    /// are as the table has them where there is none.
    pub(super) fn write(
        &self,
        items: &Items,
        ack: u32,
        mut irregular: Option<&mut Reader<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        let start = out.len();
        let mut sent = &self.bytes[..usize::from(self.len)];
        for (position, &index) in self.list.indexes().iter().enumerate() {
            if self.present >> position & 1 != 0 {
                let (option, rest) = if index == EOL {
                    (sent, &sent[sent.len()..])
                } else {
                    split_first(sent).ok_or(MALFORMED)?
                };
                out.extend_from_slice(option);
                sent = rest;
            } else if let Some(input) = &mut irregular {
                read_irregular(items, index, ack, input, out)?;
            } else {
                items.write(index, out)?;
            }
        }
        let len = out.len() - start;
        if len > MAX_LEN || !len.is_multiple_of(4) { Err(MALFORMED) } else { Ok(()) }
    }

    /// Stores the packet's options, `bytes`, in the table.
    pub(super) fn learn(&self, mut bytes: &[u8], items: &mut Items) {
        for (position, &index) in self.list.indexes().iter().enumerate() {
            let len = match (index, bytes) {
                (EOL, rest) => rest.len(),
                (NOP, _) => 1,
                (_, &[_, len, ..]) => usize::from(len),
                _ => return,
            };
            let Some((option, rest)) = bytes.split_at_checked(len) else { return };
            items.store(index, option);
            if index >= GENERIC && self.present >> position & 1 != 0 {
                items.set_static(index, self.is_static >> position & 1 != 0);
            }
            bytes = rest;
        }
    }
}

fn wide_entry(entry: u8) -> Result<(bool, u8), DecompressError> {
    if entry & 0x70 != 0 { Err(MALFORMED) } else { Ok((entry & 0x80 != 0, entry & 0x0f)) }
}

fn narrow_entry(entries: &[u8], position: usize) -> (bool, u8) {
    let pair = entries[position / 2];
    let entry = if position.is_multiple_of(2) { pair >> 4 } else { pair & 0x0f };
    (entry & 8 != 0, entry & 7)
}

/// Reads a list item and appends its option. Returns `true` if it is a constant generic one.
fn read_item(
    index: u8,
    ack: u32,
    input: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, DecompressError> {
    match index {
        NOP => out.push(1),
        EOL => {
            let padding_bits = usize::from(input.u8()?);
            if padding_bits % 8 != 0 {
                return Err(MALFORMED);
            }
            out.resize(out.len() + 1 + padding_bits / 8, 0);
        }
        SACK => {
            let count = input.u8()?;
            read_sack(count, ack, input, out)?;
        }
        MSS | WSCALE | TIMESTAMP | SACK_PERMITTED => {
            let [kind, len] = kind_and_len(index);
            out.extend_from_slice(&[kind, len]);
            out.extend_from_slice(input.take(usize::from(len) - 2)?);
        }
        _ => return read_generic_item(input, out),
    }
    Ok(false)
}

fn read_generic_item(input: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<bool, DecompressError> {
    let [kind, length] = input.array()?;
    let len = length & 0x7f;
    if len < 2 || usize::from(len) > MAX_LEN || kind < 2 {
        return Err(MALFORMED);
    }
    out.extend_from_slice(&[kind, len]);
    out.extend_from_slice(input.take(usize::from(len) - 2)?);
    Ok(length & 0x80 != 0)
}

fn read_irregular(
    items: &Items,
    index: u8,
    ack: u32,
    input: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecompressError> {
    if !items.knows(index) {
        return Err(UNKNOWN_ITEM);
    }
    match index {
        TIMESTAMP => {
            let value = read_timestamp(u32_at(&items.timestamp, 0), input)?;
            let echo = read_timestamp(u32_at(&items.timestamp, 4), input)?;
            out.extend_from_slice(&kind_and_len(TIMESTAMP));
            out.extend_from_slice(&value.to_be_bytes());
            out.extend_from_slice(&echo.to_be_bytes());
            Ok(())
        }
        SACK => match input.u8()? {
            0 => items.write(index, out),
            count => read_sack(count, ack, input, out),
        },
        GENERIC.. => read_irregular_generic(items, index, input, out),
        _ => items.write(index, out),
    }
}

fn read_irregular_generic(
    items: &Items,
    index: u8,
    input: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecompressError> {
    let entry = items.generic(index).ok_or(UNKNOWN_ITEM)?;
    let form = if entry.is_static { GENERIC_STABLE } else { input.u8()? };
    match form {
        GENERIC_STABLE => out.extend_from_slice(entry.bytes()),
        GENERIC_FULL => {
            out.extend_from_slice(&entry.bytes()[..2]);
            out.extend_from_slice(input.take(usize::from(entry.len) - 2)?);
        }
        _ => return Err(MALFORMED),
    }
    Ok(())
}

/// Writes the irregular item of a generic option that may change.
pub(super) fn write_irregular_generic(option: &[u8], is_stable: bool, out: &mut Writer<'_>) {
    if is_stable {
        out.u8(GENERIC_STABLE);
    } else {
        out.u8(GENERIC_FULL);
        out.bytes(&option[2..]);
    }
}
