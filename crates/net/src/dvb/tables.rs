//! PAT and PMT of a multiplex.

use std::collections::{BTreeSet, VecDeque};

use bentpipe_units::{Span, Time};
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::section;
use bentpipe_wire::ts::{Method, PACKET_LEN, Pid};

use super::config::{Config, Encapsulation};
use super::text::DataPid;

/// How many streams a programme has at most, so that its PMT is one section of at most 1024 bytes.
const STREAMS: usize = 80;
/// The first PID that is tried for a PMT.
const FIRST_MAP: u16 = 0x20;

/// The tables that name the streams of a multiplex, and when they are sent next.
#[derive(Debug)]
pub(super) struct Tables {
    interval: Span,
    due: Time,
    sections: Vec<(section::Encapsulator, Vec<u8>)>,
    /// Packets of the present round.
    ready: VecDeque<[u8; PACKET_LEN]>,
}

impl Tables {
    /// Tables of these streams, from the start on. Programmes are numbered from 1, and their PMTs have the lowest PIDs that are
    /// free.
    pub(super) fn new<'a>(interval: Span, streams: impl Iterator<Item = &'a Config>) -> Tables {
        let streams: Vec<&Config> = streams.collect();
        let taken: BTreeSet<DataPid> = streams.iter().map(|stream| stream.pid).collect();
        let free = (FIRST_MAP..).map_while(DataPid::new).filter(|pid| !taken.contains(pid));
        let (mut pat, mut maps) = (Pat { stream_id: 1, ..Pat::default() }, Vec::new());
        for ((streams, map), number) in streams.chunks(STREAMS).zip(free).zip(1..) {
            let map = map.pid();
            pat.programmes.push(Programme { number, map });
            let streams = streams.iter().map(|stream| elementary(stream)).collect();
            let pmt = Pmt { number, version: 0, clock: Pid::NULL, descriptors: Vec::new(), streams };
            maps.push((section::Encapsulator::new(map, Method::Padding), pmt.to_section()));
        }
        let mut sections = vec![(section::Encapsulator::new(Pid::PAT, Method::Padding), pat.to_section())];
        sections.extend(maps);
        Tables { interval, due: Time::ZERO, sections, ready: VecDeque::new() }
    }

    /// How many TS packets a round takes.
    pub(super) fn packets(&self) -> usize {
        self.sections.iter().map(|(_, section)| section::packets(section.len())).sum()
    }

    /// From when on there is something to send.
    pub(super) fn ready(&self) -> Time {
        if self.ready.is_empty() { self.due } else { Time::ZERO }
    }

    /// The next packet, if it is time for it.
    pub(super) fn pop(&mut self, at: Time) -> Option<[u8; PACKET_LEN]> {
        if self.ready.is_empty() && self.due <= at {
            let mut made = Vec::new();
            self.sections
                .iter_mut()
                .for_each(|(encapsulator, section)| encapsulator.push(section, &mut made));
            self.ready.extend(made.as_chunks().0);
            // A line that is behind does not send the rounds that it missed.
            self.due = (self.due + self.interval).max(at);
        }
        self.ready.pop_front()
    }
}

fn elementary(stream: &Config) -> Elementary {
    match stream.encapsulation {
        Encapsulation::Mpe => Elementary::mpe(stream.pid.pid()),
        _ => Elementary::ule(stream.pid.pid()),
    }
}
