//! Allocations of an uplink frame.

use super::phy::SHORT_PREAMBLE;

/// Allocation of a station in an uplink frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    pub(super) station: usize,
    /// Symbols, the preamble included.
    pub(super) symbols: u32,
}

/// Allocations of an uplink frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) bursts: Vec<Burst>,
    /// Number of each station's burst.
    pub(super) place: Vec<Option<usize>>,
    /// Connections that are polled.
    pub(super) polled: Vec<usize>,
    pub(super) left: u32,
}

impl Plan {
    pub(super) fn clear(&mut self, stations: usize, room: u32) {
        self.bursts.clear();
        self.polled.clear();
        self.place.clear();
        self.place.resize(stations, None);
        self.left = room;
    }

    /// Returns the symbols of the preamble, if a station does not have a burst yet.
    pub(super) fn preamble(&self, station: usize) -> u32 {
        if self.place[station].is_some() { 0 } else { SHORT_PREAMBLE }
    }

    /// Adds symbols to a station's burst.
    pub(super) fn add(&mut self, station: usize, symbols: u32) {
        self.left -= symbols;
        match self.place[station] {
            Some(n) => self.bursts[n].symbols += symbols,
            None => {
                self.place[station] = Some(self.bursts.len());
                self.bursts.push(Burst { station, symbols });
            }
        }
    }
}
