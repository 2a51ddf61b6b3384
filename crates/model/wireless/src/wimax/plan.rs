//! Allocations of an uplink frame.

use super::phy::SHORT_PREAMBLE;

/// Allocation of a station in an uplink frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    pub(super) station: usize,
    /// Symbols, the preamble included.
    pub(super) symbols: u32,
}

/// Number of no burst. A frame has fewer symbols.
const NONE: u16 = u16::MAX;

/// Allocations of an uplink frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) bursts: Vec<Burst>,
    /// Number of each station's burst, or [`NONE`].
    place: Vec<u16>,
    /// Connections that are polled.
    pub(super) polled: Vec<usize>,
    pub(super) left: u32,
}

impl Plan {
    pub(super) fn clear(&mut self, stations: usize, room: u32) {
        self.bursts.clear();
        self.polled.clear();
        self.place.clear();
        self.place.resize(stations, NONE);
        self.left = room;
    }

    /// Returns the symbols of the preamble, if a station does not have a burst yet.
    pub(super) fn preamble(&self, station: usize) -> u32 {
        if self.place[station] == NONE { SHORT_PREAMBLE } else { 0 }
    }

    /// Adds symbols to a station's burst.
    pub(super) fn add(&mut self, station: usize, symbols: u32) {
        self.left -= symbols;
        match self.place[station] {
            NONE => {
                self.place[station] = self.bursts.len() as u16;
                self.bursts.push(Burst { station, symbols });
            }
            n => self.bursts[usize::from(n)].symbols += symbols,
        }
    }
}
