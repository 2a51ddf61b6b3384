//! Several streams of TS packets in one of constant rate.

use std::collections::VecDeque;

use crate::section;

use super::{Method, NULL_PACKET, PACKET_LEN, Packet, Pcr, Pid, restamp};

/// Where a packet of the multiplex is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A table that is repeated.
    Table,
    /// An input, by its number.
    Input(usize),
    /// Nothing waited.
    Null,
}

/// What happened to an input's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// Packets sent.
    pub sent: u64,
    /// Packets dropped because as many waited as may.
    pub dropped: u64,
}

#[derive(Clone, Debug)]
struct Input {
    limit: usize,
    /// Each with the slot before which it came.
    waiting: VecDeque<(u64, [u8; PACKET_LEN])>,
    counts: InputCounts,
}

#[derive(Clone, Debug)]
struct Table {
    encapsulator: section::Encapsulator,
    section: Vec<u8>,
    interval: u64,
    due: u64,
}

/// Sends what waits at its inputs in turn, one packet a slot, tables when they are due before all else, and NULL packets
/// where nothing waits.
///
/// Slots are its only clock: whoever knows the rate calls [`Multiplexer::tick`] once for each 1504 bits.
#[derive(Clone, Debug, Default)]
pub struct Multiplexer {
    inputs: Vec<Input>,
    /// Whose turn it is.
    turn: usize,
    tables: Vec<Table>,
    /// Packets of tables to be sent.
    started: VecDeque<[u8; PACKET_LEN]>,
    slot: u64,
    nulls: u64,
    restamp_rate: Option<u64>,
}

impl Multiplexer {
    /// Without inputs and tables.
    pub fn new() -> Multiplexer {
        Multiplexer::default()
    }

    /// Adds to each clock reference how long its packet waited, for a multiplex of `bits_per_s`.
    ///
    /// # Panics
    /// If the rate is 0.
    #[must_use]
    pub fn restamping(self, bits_per_s: u64) -> Multiplexer {
        assert!(bits_per_s > 0, "a multiplex has a rate");
        Multiplexer { restamp_rate: Some(bits_per_s), ..self }
    }

    /// Adds an input where at most `limit` packets wait, and gives its number.
    pub fn add_input(&mut self, limit: usize) -> usize {
        self.inputs.push(Input { limit, waiting: VecDeque::new(), counts: InputCounts::default() });
        self.inputs.len() - 1
    }

    /// Sends a section now, and again every `interval` slots.
    ///
    /// # Panics
    /// If the interval is 0. A section that is not as long as it says makes [`Multiplexer::tick`] panic.
    pub fn add_table(&mut self, pid: Pid, section: &[u8], interval: u64) {
        assert!(interval > 0, "a table is repeated after one slot at least");
        let encapsulator = section::Encapsulator::new(pid, Method::Padding);
        self.tables.push(Table { encapsulator, section: section.to_vec(), interval, due: self.slot });
    }

    /// Puts a packet at the end of an input's queue, unless it is full; says whether it did. NULL packets are not queued,
    /// for there will be others.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn push(&mut self, input: usize, packet: &[u8; PACKET_LEN]) -> bool {
        let slot = self.slot;
        let input = &mut self.inputs[input];
        if Packet::new_checked(packet).is_ok_and(|packet| packet.pid() == Pid::NULL) {
            return true;
        }
        let has_room = input.waiting.len() < input.limit;
        if has_room {
            input.waiting.push_back((slot, *packet));
        } else {
            input.counts.dropped += 1;
        }
        has_room
    }

    /// How many packets wait at an input.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn waiting(&self, input: usize) -> usize {
        self.inputs[input].waiting.len()
    }

    /// What happened to an input's packets.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn counts(&self, input: usize) -> InputCounts {
        self.inputs[input].counts
    }

    /// Slots so far.
    pub fn slots(&self) -> u64 {
        self.slot
    }

    /// NULL packets sent.
    pub fn nulls(&self) -> u64 {
        self.nulls
    }

    /// The packet of the next slot, and where it is from.
    pub fn tick(&mut self) -> (Origin, [u8; PACKET_LEN]) {
        self.start_tables();
        let packet = self.table().or_else(|| self.input()).unwrap_or_else(|| {
            self.nulls += 1;
            (Origin::Null, NULL_PACKET)
        });
        self.slot += 1;
        packet
    }

    fn start_tables(&mut self) {
        for table in self.tables.iter_mut().filter(|table| table.due <= self.slot) {
            let mut packets = Vec::new();
            table.encapsulator.push(&table.section, &mut packets);
            self.started.extend(packets.as_chunks().0);
            table.due += table.interval;
        }
    }

    fn table(&mut self) -> Option<(Origin, [u8; PACKET_LEN])> {
        self.started.pop_front().map(|packet| (Origin::Table, packet))
    }

    fn input(&mut self) -> Option<(Origin, [u8; PACKET_LEN])> {
        let count = self.inputs.len();
        let number =
            (0..count).map(|ahead| (self.turn + ahead) % count).find(|&number| self.waiting(number) > 0)?;
        self.turn = number + 1;
        let input = &mut self.inputs[number];
        let (came, mut packet) = input.waiting.pop_front()?;
        input.counts.sent += 1;
        if let Some(rate) = self.restamp_rate {
            let bits = u128::from(self.slot - came) * 8 * PACKET_LEN as u128;
            restamp(&mut packet, (bits * u128::from(Pcr::TICKS_PER_S) / u128::from(rate)) as u64);
        }
        Some((Origin::Input(number), packet))
    }
}
