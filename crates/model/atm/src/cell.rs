//! A cell inside the engine, and trains of them.

use std::cell::RefCell;
use std::collections::VecDeque;

use bentpipe_net::{Carried, Packet, Why};
use bentpipe_units::Time;
use bentpipe_wire::atm::{CELL_LEN, rm};

/// A virtual channel on a link: its VCI, 32 to 4095, on path 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vc(u16);

impl Vc {
    /// The first that is not reserved.
    pub const FIRST: Vc = Vc(32);
    /// The last there is.
    pub const LAST: Vc = Vc(4095);

    /// Returns the channel with this VCI, if a link has it.
    pub const fn new(vci: u16) -> Option<Vc> {
        if vci >= Vc::FIRST.0 && vci <= Vc::LAST.0 { Some(Vc(vci)) } else { None }
    }

    /// Returns the VCI.
    pub const fn vci(self) -> u16 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece of an AAL5 CPCS-PDU, whose packet travels with the PDU's last cell.
    Data,
    /// Resource management.
    Rm,
    /// 48 bytes that travel with it.
    Whole,
    /// OAM, without its contents.
    Oam,
}

/// Cell in one word, without its time.
///
/// ```text
/// data  | serial 32 | index 11 |             damaged last efci clp | kind 2 | vc 12 |
/// RM    | MCR 15 | CCR 15 | ER 15 |          NI CI BN DIR clp      | kind 2 | vc 12 |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

const KIND: u32 = 12;
const CLP: u64 = 1 << 14;
const EFCI: u64 = 1 << 15;
const LAST: u64 = 1 << 16;
const DAMAGED: u64 = 1 << 17;
const INDEX: u32 = 18;
const SERIAL: u32 = 29;
const BACKWARD: u64 = 1 << 15;
const NOT_BY_SOURCE: u64 = 1 << 16;
const CONGESTION: u64 = 1 << 17;
const NO_INCREASE: u64 = 1 << 18;
const EXPLICIT: u32 = 19;
const CURRENT: u32 = 34;
const MINIMUM: u32 = 49;
const RATE: u64 = 0x7fff;

impl Word {
    /// Creates the cell `index` of PDU number `serial` of its channel.
    #[inline]
    pub const fn data(vc: Vc, serial: u32, index: u16, is_last: bool) -> Word {
        let last = if is_last { LAST } else { 0 };
        Word(vc.0 as u64 | last | (index as u64 & 0x7ff) << INDEX | (serial as u64) << SERIAL)
    }

    /// Returns the cell that follows a data cell in its PDU.
    #[inline]
    #[must_use]
    pub(crate) const fn following(self) -> Word {
        Word(self.0 + (1 << INDEX))
    }

    /// Creates a cell whose 48 bytes travel with it.
    pub const fn whole(vc: Vc, is_last: bool) -> Word {
        Word(vc.0 as u64 | 2 << KIND | if is_last { LAST } else { 0 })
    }

    /// Creates an OAM cell.
    pub const fn oam(vc: Vc) -> Word {
        Word(vc.0 as u64 | 3 << KIND)
    }

    /// Creates an RM cell; queue length and sequence number of I.371 are dropped.
    pub fn rm(vc: Vc, clp: bool, repr: &rm::Repr) -> Word {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let rate = |rate: rm::Rate, at: u32| u64::from(rate.bits()) << at;
        let flags = flag(clp, CLP)
            | flag(repr.backward, BACKWARD)
            | flag(repr.not_by_source, NOT_BY_SOURCE)
            | flag(repr.congestion, CONGESTION)
            | flag(repr.no_increase, NO_INCREASE);
        let rates = rate(repr.explicit, EXPLICIT) | rate(repr.current, CURRENT) | rate(repr.minimum, MINIMUM);
        Word(u64::from(vc.0) | 1 << KIND | flags | rates)
    }

    /// Returns the kind of the cell.
    #[inline]
    pub const fn kind(self) -> Kind {
        match self.0 >> KIND & 3 {
            0 => Kind::Data,
            1 => Kind::Rm,
            2 => Kind::Whole,
            _ => Kind::Oam,
        }
    }

    /// Returns the channel.
    #[inline]
    pub const fn vc(self) -> Vc {
        Vc(self.0 as u16 & 0xfff)
    }

    /// Returns the same cell on another channel.
    #[inline]
    #[must_use]
    pub const fn on(self, vc: Vc) -> Word {
        Word(self.0 & !0xfff | vc.0 as u64)
    }

    /// Returns `true` if the cell loss priority is set: the cell is dropped before others.
    #[inline]
    pub const fn clp(self) -> bool {
        self.0 & CLP != 0
    }

    /// Returns `true` if EFCI is set in a data cell.
    #[inline]
    pub const fn efci(self) -> bool {
        self.0 & EFCI != 0
    }

    /// Returns the cell with EFCI set, if it is a data cell.
    #[inline]
    #[must_use]
    pub fn congested(self) -> Word {
        if matches!(self.kind(), Kind::Data | Kind::Whole) { Word(self.0 | EFCI) } else { self }
    }

    /// Returns the cell with EFCI cleared, if it is a data cell.
    #[must_use]
    pub(crate) fn unmarked(self) -> Word {
        if matches!(self.kind(), Kind::Data | Kind::Whole) { Word(self.0 & !EFCI) } else { self }
    }

    /// Returns `true` if the cell ends an AAL5 PDU.
    #[inline]
    pub const fn is_last(self) -> bool {
        self.0 & (1 << KIND | LAST) == LAST
    }

    /// Returns `true` if bits of a data cell are corrupted. A packet that travels with it has the mask.
    #[inline]
    pub const fn is_damaged(self) -> bool {
        self.0 & (3 << KIND | DAMAGED) == DAMAGED
    }

    /// Returns the data cell, marked as corrupted.
    #[must_use]
    pub const fn damaged(self) -> Word {
        Word(self.0 | DAMAGED)
    }

    /// Returns `true` for an intact data cell that does not end a PDU. No packet travels with it.
    #[inline]
    pub(crate) const fn is_middle(self) -> bool {
        self.0 & (3 << KIND | LAST | DAMAGED) == 0
    }

    /// Returns `true` if both cells are on one channel and equally in mid-PDU or not.
    #[inline]
    pub(crate) const fn is_alike(self, other: Word) -> bool {
        (self.0 ^ other.0) & (0xfff | 3 << KIND | LAST | DAMAGED) == 0
    }

    /// Returns `true` if both cells are in mid-PDU and this one follows `before`.
    ///
    /// They must be on one channel. A cell in the same place of a PDU counts as well.
    #[inline]
    pub(crate) const fn follows(self, before: Word) -> bool {
        let step = (self.0 & !(CLP | EFCI)).wrapping_sub(before.0 & !(CLP | EFCI));
        step & !(1 << INDEX) == 0
    }

    /// Returns `true` if packets travel with the cell.
    #[inline]
    pub(crate) const fn has_cargo(self) -> bool {
        !self.is_middle() && self.0 & 1 << KIND == 0
    }

    /// Returns the number of packets that travel with the cell. The corrupted bits come first, then the
    /// payload.
    #[inline]
    pub const fn cargo(self) -> usize {
        if matches!(self.kind(), Kind::Data) {
            (self.0 & LAST != 0) as usize + (self.0 & DAMAGED != 0) as usize
        } else {
            matches!(self.kind(), Kind::Whole) as usize
        }
    }

    /// Returns the index of a data cell in its PDU, counted from zero.
    #[inline]
    pub const fn index(self) -> u16 {
        (self.0 >> INDEX) as u16 & 0x7ff
    }

    /// Returns the number of a data cell's PDU in its channel.
    #[inline]
    pub const fn serial(self) -> u32 {
        (self.0 >> SERIAL) as u32
    }

    /// Returns serial and index of a data cell as one number. The next cell of a PDU increments it.
    #[inline]
    pub(crate) const fn place(self) -> u64 {
        self.0 >> INDEX
    }

    /// Returns `true` if an RM cell is on its way back to the source.
    #[inline]
    pub const fn is_backward(self) -> bool {
        self.0 & BACKWARD != 0
    }

    /// Returns `true` for an RM cell on its way to the destination.
    #[inline]
    pub(crate) const fn is_forward_rm(self) -> bool {
        self.0 & (3 << KIND | BACKWARD) == 1 << KIND
    }

    /// Returns `true` for an RM cell on its way back to the source.
    #[inline]
    pub(crate) const fn is_backward_rm(self) -> bool {
        self.0 & (3 << KIND | BACKWARD) == 1 << KIND | BACKWARD
    }

    /// Returns the CCR of an RM cell.
    #[inline]
    pub fn current(self) -> rm::Rate {
        rm::Rate::from_bits((self.0 >> CURRENT & RATE) as u16)
    }

    /// Returns the contents of an RM cell.
    pub fn rm_repr(self) -> rm::Repr {
        let rate = |at: u32| rm::Rate::from_bits((self.0 >> at & RATE) as u16);
        rm::Repr {
            backward: self.is_backward(),
            not_by_source: self.0 & NOT_BY_SOURCE != 0,
            congestion: self.0 & CONGESTION != 0,
            no_increase: self.0 & NO_INCREASE != 0,
            explicit: rate(EXPLICIT),
            current: rate(CURRENT),
            minimum: rate(MINIMUM),
            ..rm::Repr::default()
        }
    }

    /// Returns the word as a number.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// A cell, and when its last bit comes to the end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The instant of its arrival.
    pub at: Time,
    /// Cell without its time.
    pub word: Word,
}

/// Cells of one line in the order of arrival, with their packets.
///
/// A train is delivered when its first cell arrives, or slightly earlier. It contains all later cells that
/// have left the other side by then: nothing overtakes them on a line, so they are certain to arrive. The
/// receiver processes each cell at its own instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Train {
    /// The cells.
    pub cells: Vec<Cell>,
    /// Packets of the cells, as many for each cell as [`Word::cargo`] returns.
    pub cargo: VecDeque<Packet>,
}

/// Minimum length of a long train; also the number of trains kept per kind.
const LONG: usize = 1 << 13;
const MOST_SPARE: [usize; 2] = [256, 4];

thread_local! {
    /// Free lists of empty trains, short and long ones. The last train is the likeliest to be in the cache.
    #[expect(clippy::vec_box, reason = "a train travels boxed, and its box is what is kept")]
    static SPARE: RefCell<[Vec<Box<Train>>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

impl Train {
    /// Returns an empty train with room for `cells` cells, reusing a recycled one if possible.
    pub(crate) fn with_room(cells: usize) -> Box<Train> {
        let spare = SPARE.with_borrow_mut(|spare| spare[usize::from(cells > LONG)].pop());
        let mut train = spare.unwrap_or_default();
        train.cells.reserve(cells);
        train
    }

    /// Converts the train into a packet. `digest` represents its cells in the fingerprint of a run.
    pub fn into_packet(self: Box<Train>, digest: u64) -> Packet {
        let mut packet = Packet::carrying(8, self);
        packet.header_mut().copy_from_slice(&digest.to_le_bytes());
        packet
    }

    /// Returns the train that a packet carries, or `None` if it carries anything else.
    pub fn from_packet(packet: Packet) -> Option<Box<Train>> {
        packet.into_carried()
    }

    /// Recycles the memory of a train that has been processed.
    pub(crate) fn recycle(mut self: Box<Train>) {
        self.cells.clear();
        self.cargo.clear();
        let is_long = usize::from(self.cells.capacity() > LONG);
        SPARE.with_borrow_mut(|spare| {
            if spare[is_long].len() < MOST_SPARE[is_long] {
                spare[is_long].push(self);
            }
        });
    }

    /// Prefetches the packets into the cache, many at a time.
    ///
    /// Memory that was not in use for a while is slow to access one packet after the other.
    pub(crate) fn fetch(&self) {
        let look =
            |packet: &Packet| packet.len() + usize::from(packet.header().first().copied().unwrap_or(0));
        std::hint::black_box(self.cargo.iter().map(look).sum::<usize>());
    }
}

/// Trains have no bytes. The contents of a data cell are known only at the end of its PDU.
impl Carried for Train {
    fn len(&self) -> usize {
        self.cells.len() * CELL_LEN
    }

    fn write_to(&self, _out: &mut Vec<u8>) {}

    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }

    fn boxed_copy(&self) -> Box<dyn Carried> {
        let cargo = self.cargo.iter().map(Packet::copy).collect();
        Box::new(Train { cells: self.cells.clone(), cargo })
    }

    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// Moves the packets of a cell from the front of `from` to `to`.
#[inline]
pub(crate) fn reload(from: &mut VecDeque<Packet>, to: &mut VecDeque<Packet>, word: Word) {
    for _ in 0..word.cargo() {
        if let Some(packet) = from.pop_front() {
            to.push_back(packet);
        }
    }
}

/// Drops the packets that travel with a cell, which are next in `cargo`.
pub(crate) fn unload(cargo: &mut VecDeque<Packet>, word: Word, why: Why) {
    cargo.drain(..word.cargo().min(cargo.len())).for_each(|packet| packet.lose(why));
}

/// Removes the packets that travel with a cell, of which there are copies.
pub(crate) fn unload_copied(cargo: &mut VecDeque<Packet>, word: Word) {
    cargo.drain(..word.cargo().min(cargo.len())).for_each(Packet::replaced);
}

/// Cells that are known to come to an input.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// The first of them, without its packets.
    train: Box<Train>,
    /// Later trains, without their packets.
    later: VecDeque<Box<Train>>,
    /// Packets of all trains.
    cargo: VecDeque<Packet>,
    /// The next cell to arrive.
    at: usize,
}

impl Inbox {
    /// Appends the train of a packet, and returns when its first cell arrives.
    ///
    /// Without a train or a cell that is never.
    pub(crate) fn announce(&mut self, packet: Packet) -> Time {
        let Some(mut train) = Train::from_packet(packet) else { return Time::NEVER };
        let first = train.cells.first().map_or(Time::NEVER, |cell| cell.at);
        debug_assert!(train.cells.is_sorted_by_key(|cell| cell.at));
        if self.cargo.is_empty() {
            std::mem::swap(&mut self.cargo, &mut train.cargo);
        } else {
            self.cargo.append(&mut train.cargo);
        }
        self.later.push_back(train);
        self.turn();
        first
    }

    /// Advances to the next train if this one is finished.
    #[inline]
    fn turn(&mut self) {
        while self.at == self.train.cells.len()
            && let Some(train) = self.later.pop_front()
        {
            std::mem::replace(&mut self.train, train).recycle();
            self.at = 0;
        }
    }

    /// Returns the arrival time of the next cell.
    #[inline]
    pub(crate) fn head(&self) -> Time {
        self.peek().map_or(Time::NEVER, |cell| cell.at)
    }

    /// Returns the next cell without removing it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Cell> {
        self.train
            .cells
            .get(self.at)
            .or_else(|| self.later.iter().find_map(|train| train.cells.first()))
            .copied()
    }

    /// Removes and returns the next cell.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Cell> {
        self.turn();
        let cell = self.train.cells.get(self.at).copied()?;
        self.at += 1;
        Some(cell)
    }

    /// Returns the next cells of one train, and the packets.
    ///
    /// The caller removes the packets of the cells that it passes.
    #[inline]
    pub(crate) fn ahead(&mut self) -> (&[Cell], &mut VecDeque<Packet>) {
        self.turn();
        (&self.train.cells[self.at..], &mut self.cargo)
    }

    /// Skips `count` of those cells.
    #[inline]
    pub(crate) fn pass(&mut self, count: usize) {
        self.at += count;
    }

    /// Drops what travels with the cell taken last.
    pub(crate) fn drop_cargo(&mut self, word: Word, why: Why) {
        unload(&mut self.cargo, word, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_holds_all_of_a_data_cell(vci in 32_u16..4096, serial: u32, index in 0_u16..1366, last: bool) {
            let vc = Vc::new(vci).unwrap();
            let word = Word::data(vc, serial, index, last);
            prop_assert_eq!((word.kind(), word.vc(), word.serial()), (Kind::Data, vc, serial));
            prop_assert_eq!((word.index(), word.is_last(), word.cargo()), (index, last, usize::from(last)));
            prop_assert_eq!(Word::data(vc, serial, index + 1, last).place(), word.place() + 1);
            prop_assert!(!word.efci() && !word.clp() && !word.is_damaged());
            let marked = word.congested().damaged().on(Vc::LAST);
            prop_assert_eq!(marked.unmarked(), word.damaged().on(Vc::LAST));
            prop_assert!(marked.efci() && marked.is_damaged() && marked.is_last() == last);
            prop_assert_eq!((marked.vc(), marked.serial(), marked.index()), (Vc::LAST, serial, index));
        }

        #[test]
        fn a_word_holds_all_of_an_rm_cell(vci in 32_u16..4096, clp: bool, flags: [bool; 4], rates: [u16; 3]) {
            let [backward, not_by_source, congestion, no_increase] = flags;
            let [explicit, current, minimum] = rates.map(rm::Rate::from_bits);
            let repr = rm::Repr {
                backward, not_by_source, congestion, no_increase, explicit, current, minimum, ..Default::default()
            };
            let word = Word::rm(Vc::new(vci).unwrap(), clp, &repr);
            prop_assert_eq!((word.kind(), word.rm_repr(), word.clp(), word.current()), (Kind::Rm, repr, clp, current));
            prop_assert_eq!((word.cargo(), word.is_last(), word.congested()), (0, false, word));
        }
    }

    #[test]
    fn an_inbox_joins_trains() {
        let vc = Vc::FIRST;
        let cell = |nanos, last| Cell { at: Time::from_nanos(nanos), word: Word::data(vc, 0, 0, last) };
        let train = |cells: Vec<Cell>| {
            let cargo = cells.iter().filter(|cell| cell.word.is_last()).map(|_| Packet::new(0, 1)).collect();
            Box::new(Train { cells, cargo }).into_packet(0)
        };
        let mut inbox = Inbox::default();
        assert!(inbox.announce(Packet::new(1, 0)).is_never());
        inbox.announce(train(vec![cell(1, false), cell(2, false)]));
        assert_eq!(inbox.head(), Time::from_nanos(1));
        inbox.pop();
        inbox.announce(train(vec![cell(3, true), cell(4, false)]));
        assert_eq!(inbox.head(), Time::from_nanos(2));
        let (_, cargo) = inbox.ahead();
        assert_eq!((cargo.len(), (0..4).filter_map(|_| inbox.pop()).count()), (1, 3));
        assert!(inbox.head().is_never());
    }
}
