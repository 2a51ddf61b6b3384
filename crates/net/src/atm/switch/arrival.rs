//! Cells that have come to an output.

use bentpipe_units::Time;

use crate::atm::cell::Word;
use crate::atm::service::Class;
use crate::atm::sort::Timed;

/// When a cell comes: of those that come in one instant the one by the lowest input is first.
pub(super) type Moment = (Time, u16);

/// A cell that comes to an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at: Time,
    pub(super) word: Word,
    pub(super) origin: Origin,
}

/// Where a cell is from, in one word: `| asks 1 | class 2 | channel 16 | input 16 |`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin(u64);

impl Origin {
    const CHANNEL: u32 = 16;
    const CLASS: u32 = 32;
    const ASKS: u64 = 1 << 34;

    /// A cell that comes by `input` on the channel that has this number at the output.
    pub(super) fn new(input: u16, channel: u16, class: Class) -> Origin {
        Origin(u64::from(input) | u64::from(channel) << Origin::CHANNEL | (class as u64) << Origin::CLASS)
    }

    /// The same of a cell that asks another output what to say: the answer is the word that goes on.
    pub(super) fn asking(self) -> Origin {
        Origin(self.0 | Origin::ASKS)
    }

    #[inline]
    fn input(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    pub(super) fn channel(self) -> u16 {
        (self.0 >> Origin::CHANNEL) as u16
    }

    /// Its class, as a number.
    #[inline]
    pub(super) fn class(self) -> usize {
        (self.0 >> Origin::CLASS) as usize & 3
    }

    #[inline]
    pub(super) fn asks(self) -> bool {
        self.0 & Origin::ASKS != 0
    }
}

impl Timed for Arrival {
    fn at(&self) -> Time {
        self.at
    }
}

impl Arrival {
    #[inline]
    pub(super) fn moment(&self) -> Moment {
        (self.at, self.origin.input())
    }
}
