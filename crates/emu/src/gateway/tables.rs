//! PAT and PMT of what this site sends: a data service for each remote site.

use bentpipe_net::dvb::Encapsulation;
use bentpipe_units::{Span, Time};
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::section;
use bentpipe_wire::ts::{Method, PACKET_LEN, Pid};

use super::config::{Remote, Tables as Config};

/// The tables, and when they are sent next.
#[derive(Debug)]
pub(super) struct Tables {
    config: Config,
    encapsulators: [section::Encapsulator; 2],
    sections: [Vec<u8>; 2],
    due: Time,
    version: u8,
    ready: Vec<u8>,
    popped: usize,
}

impl Tables {
    pub(super) fn new(config: &Config, remotes: &[Remote]) -> Tables {
        let encapsulator = |pid| section::Encapsulator::new(pid, Method::Padding);
        let mut tables = Tables {
            config: config.clone(),
            encapsulators: [encapsulator(Pid::PAT), encapsulator(config.map_pid)],
            sections: [Vec::new(), Vec::new()],
            due: Time::ZERO,
            version: 0,
            ready: Vec::new(),
            popped: 0,
        };
        tables.write(remotes);
        tables
    }

    /// Says that the streams are others now, if they are; sends that at once.
    pub(super) fn change(&mut self, remotes: &[Remote]) {
        let before = self.sections.clone();
        self.write(remotes);
        if self.sections != before {
            self.version = (self.version + 1) % 32;
            self.write(remotes);
            self.due = Time::ZERO;
        }
    }

    fn write(&mut self, remotes: &[Remote]) {
        let Config { stream_id, programme: number, map_pid: map, .. } = self.config;
        let version = self.version;
        let pat = Pat { stream_id, version, programmes: vec![Programme { number, map }], ..Pat::default() };
        let streams = remotes.iter().filter_map(elementary).collect();
        let pmt = Pmt { number, version, clock: Pid::NULL, descriptors: Vec::new(), streams };
        self.sections = [pat.to_section(), pmt.to_section()];
    }

    /// The next packet of a table, if they are due.
    pub(super) fn pop(&mut self, now: Time) -> Option<[u8; PACKET_LEN]> {
        if self.popped == self.ready.len() && now >= self.due {
            self.ready.clear();
            self.popped = 0;
            for (encapsulator, section) in self.encapsulators.iter_mut().zip(&self.sections) {
                encapsulator.push(section, &mut self.ready);
            }
            self.due = now + self.config.interval.max(Span::from_millis(1));
        }
        let packet = *self.ready.get(self.popped..)?.first_chunk()?;
        self.popped += PACKET_LEN;
        Some(packet)
    }

    /// When they are sent next.
    pub(super) fn due(&self) -> Time {
        if self.popped < self.ready.len() { Time::ZERO } else { self.due }
    }
}

fn elementary(remote: &Remote) -> Option<Elementary> {
    let pid = Pid::new(remote.send)?;
    match remote.stream.encapsulation {
        Encapsulation::Ule => Some(Elementary::ule(pid)),
        Encapsulation::Mpe => Some(Elementary::mpe(pid)),
        Encapsulation::Gse => None,
    }
}
