//! Multiplex of a carrier: the content of the next TS packet or data field.
//!
//! Models: PAT and PMT ahead of everything else; sources in turn, TS packet by TS packet; data fields filled with PDUs of
//! all sources of a group in shares of equal bytes (start-time fair queueing). It has no clock and no I/O: the caller knows
//! when a slot or a frame begins, so simulator, gateway and tools share it.
//!
//! Does not model: priorities, and shares other than equal ones.
//!
//! References: ISO/IEC 13818-1, section 2.4.4; ETSI TS 102 606-1; P. Goyal, H. M. Vin and H. Cheng, "Start-time fair
//! queueing" (SIGCOMM 1996).

mod fields;
mod queue;
#[cfg(test)]
mod tests;

use bentpipe_units::Time;
use bentpipe_wire::ts::PACKET_LEN;

use super::tables::Tables;
pub use fields::{Fields, PduSource};
pub use queue::TsQueue;

/// Source of TS packets.
pub trait TsSource {
    /// Removes and returns the packet to be sent in a slot at `at`, if any.
    fn pop(&mut self, at: Time) -> Option<[u8; PACKET_LEN]>;
}

/// Origin of a TS packet in a multiplex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// PAT or PMT.
    Table,
    /// Source, by its number.
    Source(usize),
}

/// Multiplexer of TS packets: tables that are due, then sources in turn.
#[derive(Clone, Debug, Default)]
pub struct Multiplex {
    tables: Option<Tables>,
    /// Source whose turn it is.
    turn: usize,
}

impl Multiplex {
    /// Creates a multiplexer with these tables.
    pub fn new(tables: Option<Tables>) -> Multiplex {
        Multiplex { tables, turn: 0 }
    }

    /// Returns the tables.
    pub fn tables_mut(&mut self) -> Option<&mut Tables> {
        self.tables.as_mut()
    }

    /// Returns the time from which on a table is to be sent, [`Time::NEVER`] without tables.
    pub fn tables_due(&self) -> Time {
        self.tables.as_ref().map_or(Time::NEVER, Tables::due)
    }

    /// Begins the turns again with the first source: the sources are others.
    pub fn restart_turns(&mut self) {
        self.turn = 0;
    }

    /// Returns the packet of a slot at `at` and its origin. `None` if the slot stays empty.
    pub fn pop<S: TsSource>(&mut self, at: Time, sources: &mut [S]) -> Option<(Origin, [u8; PACKET_LEN])> {
        if let Some(packet) = self.tables.as_mut().and_then(|tables| tables.pop(at)) {
            return Some((Origin::Table, packet));
        }
        let count = sources.len();
        (0..count).find_map(|ahead| {
            let number = (self.turn + ahead) % count;
            let packet = sources[number].pop(at)?;
            self.turn = number + 1;
            Some((Origin::Source(number), packet))
        })
    }
}
