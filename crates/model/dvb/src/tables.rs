//! PAT and PMTs of a multiplex, and their repetition.

use std::collections::{BTreeSet, VecDeque};

use bentpipe_units::{Span, Time};
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::section;
use bentpipe_wire::ts::{Method, PACKET_LEN, Pid};

use super::config::{Config, Encapsulation};
use super::text::DataPid;

/// Maximum number of streams in a programme. Its PMT is one section of at most 1024 bytes.
const STREAMS: usize = 80;
/// First PID that is tried for a PMT.
const FIRST_MAP: u16 = 0x20;
/// Minimum interval between rounds.
const MIN_INTERVAL: Span = Span::from_millis(1);

/// Table with its encapsulator, whose continuity counter goes on over versions.
#[derive(Clone, Debug)]
struct Table {
    pid: Pid,
    encapsulator: section::Encapsulator,
    section: Vec<u8>,
}

/// Repeated PAT and PMTs of a multiplex.
///
/// Rounds of all tables are due at multiples of an interval, so their mean rate is exact under any load. A round that
/// is more than an interval late is sent once.
#[derive(Clone, Debug)]
pub struct Tables {
    stream_id: u16,
    version: u8,
    maps: Vec<(Pid, Pmt)>,
    interval: Span,
    due: Time,
    tables: Vec<Table>,
    /// Packets of the present round.
    ready: VecDeque<[u8; PACKET_LEN]>,
}

impl Tables {
    /// Creates the tables of programmes with PMTs on these PIDs. The first round is due at once.
    pub fn new(interval: Span, stream_id: u16, maps: Vec<(Pid, Pmt)>) -> Tables {
        let interval = interval.max(MIN_INTERVAL);
        let (tables, ready) = (Vec::new(), VecDeque::new());
        let mut tables = Tables { stream_id, version: 0, maps, interval, due: Time::ZERO, tables, ready };
        tables.write();
        tables
    }

    /// Changes the programmes. If they are others, the tables get a new version, which is sent at once.
    pub fn update(&mut self, maps: Vec<(Pid, Pmt)>) {
        if maps != self.maps {
            self.maps = maps;
            self.version = (self.version + 1) % 32;
            self.due = Time::ZERO;
            self.write();
        }
    }

    /// Writes the sections of the present version.
    fn write(&mut self) {
        let version = self.version;
        let programme = |(map, pmt): &(Pid, Pmt)| Programme { number: pmt.number, map: *map };
        let programmes = self.maps.iter().map(programme).collect();
        let pat = Pat { stream_id: self.stream_id, version, programmes, ..Pat::default() };
        let mut before = std::mem::take(&mut self.tables);
        let mut table = |pid: Pid, section| {
            let known = before.iter().position(|table| table.pid == pid);
            let new = || section::Encapsulator::new(pid, Method::Padding);
            let encapsulator = known.map_or_else(new, |at| before.swap_remove(at).encapsulator);
            Table { pid, encapsulator, section }
        };
        let mut tables = vec![table(Pid::PAT, pat.to_section())];
        tables.extend(self.maps.iter().map(|(pid, pmt)| {
            let version = (pmt.version + version) % 32;
            table(*pid, Pmt { version, ..pmt.clone() }.to_section())
        }));
        self.tables = tables;
    }

    /// Returns the number of TS packets of a round.
    pub fn packets(&self) -> usize {
        self.tables.iter().map(|table| section::packets(table.section.len())).sum()
    }

    /// Returns the time from which on a packet is to be sent.
    pub fn due(&self) -> Time {
        if self.ready.is_empty() { self.due } else { Time::ZERO }
    }

    /// Removes and returns the next packet, if it is due at `at`.
    pub fn pop(&mut self, at: Time) -> Option<[u8; PACKET_LEN]> {
        if self.ready.is_empty() && self.due <= at {
            self.begin_round(at);
        }
        self.ready.pop_front()
    }

    fn begin_round(&mut self, at: Time) {
        let mut made = Vec::new();
        self.tables.iter_mut().for_each(|table| table.encapsulator.push(&table.section, &mut made));
        self.ready.extend(made.as_chunks().0);
        let rounds = at.since(self.due).as_nanos() / self.interval.as_nanos() + 1;
        self.due += Span::from_nanos(rounds * self.interval.as_nanos());
    }
}

/// Returns the programmes that name these streams, with the PIDs of their PMTs. Programmes are numbered from 1, and their
/// PMTs have the lowest PIDs that are free.
pub(super) fn programmes<'a>(streams: impl Iterator<Item = &'a Config>) -> Vec<(Pid, Pmt)> {
    let streams: Vec<&Config> = streams.collect();
    let taken: BTreeSet<DataPid> = streams.iter().map(|stream| stream.pid).collect();
    let free = (FIRST_MAP..).map_while(DataPid::new).filter(|pid| !taken.contains(pid));
    let numbered = streams.chunks(STREAMS).zip(free).zip(1..);
    let programme = |((streams, map), number): ((&[&Config], DataPid), u16)| {
        let streams = streams.iter().filter_map(|stream| elementary(stream.pid.pid(), stream.encapsulation));
        let (streams, descriptors) = (streams.collect(), Vec::new());
        (map.pid(), Pmt { number, version: 0, clock: Pid::NULL, descriptors, streams })
    };
    numbered.map(programme).collect()
}

/// Returns the entry of a stream in a PMT. `None` with GSE, which is in no transport stream.
pub fn elementary(pid: Pid, encapsulation: Encapsulation) -> Option<Elementary> {
    match encapsulation {
        Encapsulation::Ule => Some(Elementary::ule(pid)),
        Encapsulation::Mpe => Some(Elementary::mpe(pid)),
        Encapsulation::Gse => None,
    }
}
