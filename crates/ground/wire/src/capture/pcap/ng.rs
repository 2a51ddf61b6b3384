//! The pcapng format (draft-ietf-opsawg-pcapng): sections, interfaces, and packets in blocks of three kinds.

use std::io::Read;

use super::source::Source;
use super::{LinkType, MAX_INTERFACES, MAX_RECORD_LEN, Meta, Order, ReadError};
use crate::{Error, Layer};

pub(super) const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;

pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
pub(super) const OPTION_END: u16 = 0;
pub(super) const OPTION_COMMENT: u16 = 1;
pub(super) const OPTION_NAME: u16 = 2;
pub(super) const OPTION_STAMP_RESOLUTION: u16 = 9;
const OPTION_STAMP_OFFSET: u16 = 14;

/// Stands for a block that is passed over: interface statistics.
const SKIPPED: u32 = 5;
/// Length in bytes to a multiple of which blocks are padded.
const WORD: usize = 4;

/// Longest name of an interface that is kept in bytes.
const MAX_NAME_LEN: usize = 256;

/// Overhead of a block in bytes: type and length before the body, length after it.
const BLOCK_OVERHEAD: usize = 12;
/// Longest block that is read and not skipped: a packet, its header and options.
const MAX_BLOCK_LEN: usize = MAX_RECORD_LEN + 65_536;

/// The section being read.
#[derive(Debug)]
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
    numbers: Numbers,
    damaged: Option<Damaged>,
}

/// Blocks whose length after their body is not the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Number of blocks. Their packets are not passed on.
    pub blocks: u64,
    /// Offset of the first one in the file.
    pub first: u64,
}

impl Damaged {
    fn note(damaged: &mut Option<Damaged>, start: usize) {
        damaged.get_or_insert(Damaged { blocks: 0, first: start as u64 }).blocks += 1;
    }
}

/// Numbers of interfaces over all sections of a file.
#[derive(Debug, Default)]
struct Numbers {
    next: u32,
    /// Names, link types and numbers of interfaces in earlier sections.
    earlier: Vec<(String, LinkType, u32)>,
}

impl Numbers {
    /// Returns the numbers for another section, after one with these interfaces.
    fn after(mut self, interfaces: Vec<Interface>) -> Numbers {
        for Interface { name, link_type, number, .. } in interfaces {
            let is_new = !name.is_empty() && self.earlier.iter().all(|(.., known)| *known != number);
            if is_new && self.earlier.len() < MAX_INTERFACES {
                self.earlier.push((name, link_type, number));
            }
        }
        self
    }

    /// Returns the number of an interface next to others of its section.
    fn number(&mut self, interface: &Interface, others: &[Interface]) -> u32 {
        let is_same = |(name, link_type, number): &&(String, LinkType, u32)| {
            *name == interface.name
                && *link_type == interface.link_type
                && others.iter().all(|other| other.number != *number)
        };
        if let Some((.., number)) = self.earlier.iter().find(is_same) {
            return *number;
        }
        self.next = self.next.saturating_add(1);
        self.next - 1
    }
}

#[derive(Clone, Debug)]
struct Interface {
    number: u32,
    /// Empty for none.
    name: String,
    link_type: LinkType,
    snap_len: usize,
    /// Number of time stamp units per second.
    units_per_second: u64,
    offset_seconds: i64,
}

/// A block whose body is in the source's buffer.
struct Block {
    kind: u32,
    /// Offset in the file.
    start: usize,
}

impl Section {
    /// Reads a section header after its block type.
    pub(super) fn start<R: Read>(source: &mut Source<R>) -> Result<Section, ReadError> {
        Section::start_after(source, Numbers::default(), None)
    }

    fn start_after<R: Read>(
        source: &mut Source<R>,
        numbers: Numbers,
        mut damaged: Option<Damaged>,
    ) -> Result<Section, ReadError> {
        let start = source.offset() - 4;
        let head = source.array::<8>(Layer::Pcapng)?;
        let order = match (Order::Big.u32(&head, 4), Order::Little.u32(&head, 4)) {
            (BYTE_ORDER_MAGIC, _) => Order::Big,
            (_, BYTE_ORDER_MAGIC) => Order::Little,
            _ => return Err(Error::malformed(Layer::Pcapng, start + 8, "byte-order magic").into()),
        };
        let len = body_len(order.u32(&head, 0), start)?;
        // The byte-order magic, read already, is the body's first field; versions and section length follow.
        let rest = len.checked_sub(4).filter(|&rest| rest >= 12);
        let rest = rest.ok_or(Error::malformed(Layer::Pcapng, start + 4, "section header too short"))?;
        let body = source.array::<12>(Layer::Pcapng)?;
        if order.u16(&body, 0) != 1 {
            return Err(Error::unsupported(Layer::Pcapng, start + 12, "version other than 1").into());
        }
        source.skip(Layer::Pcapng, rest - 12)?;
        if order.u32(&source.array::<4>(Layer::Pcapng)?, 0) != order.u32(&head, 0) {
            Damaged::note(&mut damaged, start);
        }
        Ok(Section { order, interfaces: Vec::new(), numbers, damaged })
    }

    /// Reads blocks until one is a packet.
    pub(super) fn next<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Meta>, ReadError> {
        while let Some(block) = self.next_block(source)? {
            let meta = match block.kind {
                INTERFACE => self.add_interface(source.buffer(), block.start).map(|()| None)?,
                ENHANCED_PACKET => Some(self.enhanced(source.buffer(), block.start)?),
                OLD_PACKET => Some(self.old(source.buffer(), block.start)?),
                SIMPLE_PACKET => Some(self.simple(source.buffer(), block.start)?),
                _ => None,
            };
            if meta.is_some() {
                return Ok(meta);
            }
        }
        Ok(None)
    }

    /// Reads a known block, skips any other, and begins a new section where one starts.
    fn next_block<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Block>, ReadError> {
        let start = source.offset();
        let Some(kind) = source.array_or_end::<4>(Layer::Pcapng)? else { return Ok(None) };
        let kind = self.order.u32(&kind, 0);
        if kind == SECTION {
            let numbers = std::mem::take(&mut self.numbers).after(std::mem::take(&mut self.interfaces));
            *self = Section::start_after(source, numbers, self.damaged)?;
            return Ok(Some(Block { kind, start }));
        }
        let len = body_len(self.order.u32(&source.array::<4>(Layer::Pcapng)?, 0), start)?;
        match kind {
            INTERFACE | ENHANCED_PACKET | OLD_PACKET | SIMPLE_PACKET if len > MAX_BLOCK_LEN => {
                return Err(Error::unsupported(Layer::Pcapng, start + 4, "block too long").into());
            }
            // With the length after the body, which is left in the buffer.
            INTERFACE | ENHANCED_PACKET | OLD_PACKET | SIMPLE_PACKET => {
                let filled = source.fill(Layer::Pcapng, len + 4).map(|bytes| self.order.u32(bytes, len));
                if !matches!(filled, Ok(behind) if behind as usize == len + BLOCK_OVERHEAD) {
                    return self.behind_damage(kind, start, filled, source);
                }
            }
            _ => {
                source.skip(Layer::Pcapng, len)?;
                let behind = self.order.u32(&source.array::<4>(Layer::Pcapng)?, 0);
                if behind as usize != len + BLOCK_OVERHEAD {
                    Damaged::note(&mut self.damaged, start);
                    self.find_block(source)?;
                }
            }
        }
        Ok(Some(Block { kind, start }))
    }

    /// Continues behind a block whose two lengths differ, or which is cut.
    ///
    /// If another block follows it, the length after it is wrong. Otherwise the one before it may be, and blocks are searched for within it.
    fn behind_damage<R: Read>(
        &mut self,
        kind: u32,
        start: usize,
        behind: Result<u32, ReadError>,
        source: &mut Source<R>,
    ) -> Result<Option<Block>, ReadError> {
        if let Err(error) = behind {
            if matches!(error, ReadError::Io(_)) {
                return Err(error);
            }
            source.put_back();
            if !self.find_block(source)? {
                return Err(error);
            }
        } else if self.ends_with_block(source.buffer())
            || !source.peek(1)?.is_empty() && !self.is_block(source, true)?
        {
            source.put_back();
            self.find_block(source)?;
        } else if kind == INTERFACE {
            // Without it no packet of the interface can be read.
            Damaged::note(&mut self.damaged, start);
            return Ok(Some(Block { kind, start }));
        }
        Damaged::note(&mut self.damaged, start);
        Ok(Some(Block { kind: SKIPPED, start }))
    }

    /// Returns `true` if the end of a block's body is another block.
    fn ends_with_block(&self, body: &[u8]) -> bool {
        let Some(at) = body.len().checked_sub(WORD) else { return false };
        let len = self.order.u32(body, at) as usize;
        let Some(start) = body.len().checked_sub(len).filter(|_| len >= BLOCK_OVERHEAD) else { return false };
        let [kind, before] = [start, start + 4].map(|at| self.order.u32(body, at));
        matches!(kind, INTERFACE..=ENHANCED_PACKET) && before as usize == len
    }

    /// Passes over bytes up to the next block, and returns `true` if there is one. Otherwise it passes over all.
    fn find_block<R: Read>(&self, source: &mut Source<R>) -> Result<bool, ReadError> {
        loop {
            if self.is_block(source, false)? {
                return Ok(true);
            }
            let left = source.peek(WORD + 1)?.len();
            source.skip(Layer::Pcapng, left.min(WORD))?;
            if left <= WORD {
                return Ok(false);
            }
        }
    }

    /// Returns `true` if a block with two equal lengths is next.
    ///
    /// It is of any kind, or of one that is known.
    fn is_block<R: Read>(&self, source: &mut Source<R>, is_any: bool) -> Result<bool, ReadError> {
        let Some(head) = source.peek(BLOCK_OVERHEAD)?.get(..BLOCK_OVERHEAD) else { return Ok(false) };
        let (kind, mut order) = (self.order.u32(head, 0), self.order);
        if kind == SECTION {
            order = if Order::Big.u32(head, 8) == BYTE_ORDER_MAGIC { Order::Big } else { Order::Little };
        }
        let is_known = matches!(kind, SECTION | INTERFACE..=ENHANCED_PACKET);
        let len = order.u32(head, 4) as usize;
        let is_possible = body_len(len as u32, 0).is_ok_and(|body| body <= MAX_BLOCK_LEN);
        if !is_possible || !is_any && !is_known {
            return Ok(false);
        }
        let bytes = source.peek(len)?;
        Ok(bytes.get(len - WORD..len).is_some_and(|behind| order.u32(behind, 0) as usize == len))
    }

    /// Returns the blocks whose lengths differ.
    pub(super) fn damaged(&self) -> Option<Damaged> {
        self.damaged
    }

    fn add_interface(&mut self, buffer: &[u8], start: usize) -> Result<(), Error> {
        let body = body(buffer, 8, start)?;
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Error::unsupported(Layer::Pcapng, start, "more than 1024 interfaces"));
        }
        let snap_len = match self.order.u32(body, 4) as usize {
            0 => MAX_RECORD_LEN,
            len => len.min(MAX_RECORD_LEN),
        };
        let mut interface = Interface {
            number: 0,
            name: String::new(),
            link_type: LinkType::from_file(self.order.u16(body, 0)),
            snap_len,
            units_per_second: 1_000_000,
            offset_seconds: 0,
        };
        self.read_options(&body[8..], &mut interface, start)?;
        interface.number = self.numbers.number(&interface, &self.interfaces);
        self.interfaces.push(interface);
        Ok(())
    }

    fn read_options(&self, mut options: &[u8], interface: &mut Interface, start: usize) -> Result<(), Error> {
        while options.len() >= 4 {
            let (code, len) = (self.order.u16(options, 0), usize::from(self.order.u16(options, 2)));
            let next = 4 + len.next_multiple_of(4);
            let malformed = Error::malformed(Layer::Pcapng, start, "interface option");
            let value = options.get(4..4 + len).ok_or(malformed)?;
            match (code, value) {
                (OPTION_END, _) => break,
                (OPTION_NAME, name) => {
                    let name = String::from_utf8_lossy(&name[..len.min(MAX_NAME_LEN)]);
                    interface.name = name.trim_end_matches('\0').to_owned();
                }
                (OPTION_STAMP_RESOLUTION, &[resolution]) => {
                    interface.units_per_second = units_per_second(resolution).ok_or(malformed)?;
                }
                (OPTION_STAMP_OFFSET, &[_, _, _, _, _, _, _, _]) => {
                    interface.offset_seconds = self.i64(value);
                }
                _ => {}
            }
            options = options.get(next..).unwrap_or_default();
        }
        Ok(())
    }

    fn i64(&self, bytes: &[u8]) -> i64 {
        let array = crate::bytes::array(bytes, 0);
        match self.order {
            Order::Big => i64::from_be_bytes(array),
            Order::Little => i64::from_le_bytes(array),
        }
    }

    fn enhanced(&self, buffer: &[u8], start: usize) -> Result<Meta, Error> {
        let body = body(buffer, 20, start)?;
        self.stamped(body, self.order.u32(body, 0) as usize, start)
    }

    /// Parses the obsolete packet block: the interface in 16 bits, then a drop count.
    fn old(&self, buffer: &[u8], start: usize) -> Result<Meta, Error> {
        let body = body(buffer, 20, start)?;
        self.stamped(body, self.order.u16(body, 0).into(), start)
    }

    fn stamped(&self, body: &[u8], interface: usize, start: usize) -> Result<Meta, Error> {
        let (index, interface) = (interface, self.interface(interface, start)?);
        let field = |at| self.order.u32(body, at);
        let stamp = u64::from(field(4)) << 32 | u64::from(field(8));
        let time_ns = time_ns(stamp, interface);
        let time_ns =
            time_ns.ok_or(Error::malformed(Layer::Pcapng, start + 12, "time stamp out of range"))?;
        let (kept, original_len) = (field(12) as usize, field(16) as usize);
        if kept > (body.len() - 20).min(MAX_RECORD_LEN) {
            return Err(Error::malformed(Layer::Pcapng, start + 20, "captured length"));
        }
        Ok(Meta {
            time_ns: Some(time_ns),
            interface: interface.number,
            index,
            link_type: interface.link_type,
            original_len: original_len.max(kept),
            range: 20..20 + kept,
            options: (20 + kept.next_multiple_of(4)).min(body.len())..body.len(),
        })
    }

    fn simple(&self, buffer: &[u8], start: usize) -> Result<Meta, Error> {
        let body = body(buffer, 4, start)?;
        let interface = self.interface(0, start)?;
        let original_len = self.order.u32(body, 0) as usize;
        let kept = original_len.min(interface.snap_len).min(body.len() - 4);
        Ok(Meta {
            time_ns: None,
            interface: interface.number,
            index: 0,
            link_type: interface.link_type,
            original_len,
            range: 4..4 + kept,
            options: 0..0,
        })
    }

    /// Returns the byte order of the section.
    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Returns the name of an interface that was described with one.
    pub(super) fn interface_name(&self, index: usize) -> Option<&str> {
        let name = &self.interfaces.get(index)?.name;
        (!name.is_empty()).then_some(name)
    }

    fn interface(&self, index: usize, start: usize) -> Result<&Interface, Error> {
        let unknown = Error::malformed(Layer::Pcapng, start + 8, "packet of an interface not described");
        self.interfaces.get(index).ok_or(unknown)
    }
}

/// Returns a block's body without the length after it.
fn body(buffer: &[u8], needed: usize, start: usize) -> Result<&[u8], Error> {
    let body = &buffer[..buffer.len() - 4];
    if body.len() < needed {
        return Err(Error::malformed(Layer::Pcapng, start + 4, "block too short for its kind"));
    }
    Ok(body)
}

/// Returns the length of a block's body, from the length field.
fn body_len(block_len: u32, start: usize) -> Result<usize, Error> {
    let len = block_len as usize;
    if len < BLOCK_OVERHEAD || !len.is_multiple_of(4) {
        return Err(Error::malformed(Layer::Pcapng, start + 4, "block length"));
    }
    Ok(len - BLOCK_OVERHEAD)
}

/// Decodes `if_tsresol`: a power of 10, or of 2 if the top bit is set.
fn units_per_second(resolution: u8) -> Option<u64> {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 { 10u64.checked_pow(exponent) } else { 1u64.checked_shl(exponent) }
}

fn time_ns(stamp: u64, interface: &Interface) -> Option<u64> {
    let since = u128::from(stamp) * 1_000_000_000 / u128::from(interface.units_per_second);
    let offset = i128::from(interface.offset_seconds) * 1_000_000_000;
    u64::try_from(since as i128 + offset).ok()
}
