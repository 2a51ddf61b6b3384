//! Carrier of a site: the multiplex of its remote sites, paced, in datagrams.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bentpipe_dvb::multiplex::{Fields, Multiplex, Origin};
use bentpipe_dvb::{self as dvb};
use bentpipe_units::{Rate, Time};
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize, Modcod};
use bentpipe_wire::psi::Pmt;
use bentpipe_wire::ts::{NULL_PACKET, PACKET_LEN, Pid};

use super::config::{Carrier as Config, Framing, Nulls, Remote as RemoteConfig, Tables};
use super::output::Output;
use super::pace::Pace;
use super::remote::Remote;
use super::tap::Tap;
use bentpipe_emu::Lateness;

/// Counters of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// TS packets or BBFRAMEs with data.
    pub data: u64,
    /// TS packets of tables.
    pub tables: u64,
    /// NULL packets.
    pub nulls: u64,
    /// Slots without anything to send.
    pub idle: u64,
    /// Slots lost because the program was stopped while something waited.
    pub skipped: u64,
    /// Datagrams, or pieces of a stream.
    pub datagrams: u64,
    /// Bytes in them, RTP headers not counted.
    pub bytes: u64,
}

/// Maximum number of TS packets sent at once without a rate.
const BURST: u64 = 1024;

/// Sender of a site.
#[derive(Debug)]
pub(crate) struct Carrier {
    framing: Framing,
    /// Length of a slot in bytes.
    slot_len: usize,
    /// Length of the data field of a BBFRAME.
    capacity: usize,
    pace: Option<Pace>,
    multiplex: Multiplex,
    /// Data fields of baseband frames.
    fields: Fields,
    /// Set once nothing was left to send, and no slot is lost since.
    is_idle: bool,
    /// Time of the last look for something to send.
    looked: Time,
    /// Datagram that is being filled.
    datagram: Vec<u8>,
    /// TS packets since the last whole group.
    in_group: usize,
    frames: u8,
    counts: Counts,
    lateness: Lateness,
    tap: Option<Tap>,
}

/// Use of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Used,
    Idle,
}

impl Carrier {
    pub(crate) fn new(config: &Config, remotes: &[RemoteConfig], now: Time) -> Carrier {
        let capacity = match &config.framing {
            Framing::Ts { .. } => 0,
            // A MODCOD without this size of frames was refused with the settings.
            Framing::Frames { modcod, size, .. } => modcod.data_field_len(*size).unwrap_or(0),
        };
        let tables = match &config.framing {
            Framing::Ts { tables: Some(tables), .. } => {
                Some(dvb::Tables::new(tables.interval, tables.stream_id, programmes(tables, remotes)))
            }
            _ => None,
        };
        let slot_len = if capacity == 0 { PACKET_LEN } else { bbframe::HEADER_LEN + capacity };
        Carrier {
            framing: config.framing.clone(),
            slot_len,
            capacity,
            pace: config.rate.map(|rate| Pace::new(rate, slot_len, now)),
            multiplex: Multiplex::new(tables),
            fields: fields(remotes, capacity),
            is_idle: false,
            looked: now,
            datagram: Vec::new(),
            in_group: 0,
            frames: 0,
            counts: Counts::default(),
            lateness: Lateness::default(),
            tap: None,
        }
    }

    /// Captures what is sent.
    pub(crate) fn set_tap(&mut self, tap: Option<Tap>) {
        self.tap = tap;
    }

    /// Changes the settings, apart from the framing.
    pub(crate) fn change(&mut self, rate: Option<Rate>, remotes: &[RemoteConfig], now: Time) {
        if rate != self.pace.as_ref().map(Pace::rate) {
            self.counts.skipped += self.pace.as_ref().map_or(0, Pace::skipped);
            self.pace = rate.map(|rate| Pace::new(rate, self.slot_len, now));
        }
        if let (Framing::Ts { tables: Some(config), .. }, Some(tables)) =
            (&self.framing, self.multiplex.tables_mut())
        {
            tables.update(programmes(config, remotes));
        }
        self.multiplex.restart_turns();
        self.fields = fields(remotes, self.capacity);
    }

    pub(crate) fn framing(&self) -> &Framing {
        &self.framing
    }

    pub(crate) fn counts(&self) -> Counts {
        let skipped = self.pace.as_ref().map_or(0, Pace::skipped);
        Counts { skipped: self.counts.skipped + skipped, ..self.counts }
    }

    /// Returns the lateness of datagrams after the end of their last slot.
    pub(crate) fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Returns `true` if more may be due at once, after filling slots that are over.
    pub(crate) fn send(&mut self, now: Time, remotes: &mut [Remote], outputs: &mut [Output]) -> bool {
        self.pass_idle_slots(now, remotes);
        let mut left = self.pace.as_mut().map_or(BURST, |pace| pace.due(now));
        let mut is_idle = false;
        while left > 0 && !is_idle {
            let slot = match self.framing {
                Framing::Ts { packets, nulls, .. } => self.packet(now, packets, nulls, remotes, outputs),
                Framing::Frames { modcod, size, has_adaptation } => {
                    let is_used = self.fill_frame(now, modcod, size, has_adaptation, remotes);
                    self.ship(now, outputs);
                    if is_used { Slot::Used } else { Slot::Idle }
                }
            };
            left -= 1;
            if let Some(pace) = &mut self.pace {
                pace.take(1);
            }
            is_idle = slot == Slot::Idle;
            self.is_idle = is_idle;
            if is_idle {
                self.idle(left);
                self.ship(now, outputs);
            }
        }
        outputs.iter_mut().for_each(|output| output.flush(now));
        self.pace.is_none() && !is_idle
    }

    /// Counts slots as idle that were over before anything waited: they are not lost.
    fn pass_idle_slots(&mut self, now: Time, remotes: &[Remote]) {
        let since = self.content_due(self.looked, remotes);
        self.looked = now;
        if let Some(pace) = self.pace.as_mut().filter(|_| self.is_idle) {
            let passed = pace.over(since.min(now));
            pace.take(passed);
            self.counts.idle += passed;
            self.is_idle = since > now;
        }
    }

    /// Counts the slots that are over as idle, because nothing waits.
    fn idle(&mut self, more: u64) {
        if let Some(pace) = &mut self.pace {
            pace.take(more);
            self.counts.idle += more + 1;
        }
    }

    /// Adds a TS packet to the datagram, if there is one to be sent.
    fn packet(
        &mut self,
        now: Time,
        packets: usize,
        nulls: Nulls,
        remotes: &mut [Remote],
        outputs: &mut [Output],
    ) -> Slot {
        let packet = match self.multiplex.pop(now, remotes) {
            Some((origin, packet)) => {
                let is_table = origin == Origin::Table;
                *(if is_table { &mut self.counts.tables } else { &mut self.counts.data }) += 1;
                Some(packet)
            }
            None => self.null(nulls),
        };
        let Some(packet) = packet else { return Slot::Idle };
        if let Nulls::Group(group) = nulls {
            self.in_group = (self.in_group + 1) % group;
        }
        self.datagram.extend_from_slice(&packet);
        if self.datagram.len() >= packets * PACKET_LEN {
            self.ship(now, outputs);
        }
        Slot::Used
    }

    fn null(&mut self, nulls: Nulls) -> Option<[u8; PACKET_LEN]> {
        let is_wanted = match nulls {
            Nulls::Never => false,
            Nulls::Group(_) => self.in_group != 0,
            Nulls::Fill => true,
        };
        self.counts.nulls += u64::from(is_wanted);
        is_wanted.then_some(NULL_PACKET)
    }

    /// Returns `true` if a BBFRAME was written to the datagram, to be sent.
    fn fill_frame(
        &mut self,
        now: Time,
        modcod: Modcod,
        size: FrameSize,
        has_adaptation: bool,
        remotes: &mut [Remote],
    ) -> bool {
        let Some(group) = self.fields.next_group(now, remotes) else { return false };
        let header = if has_adaptation { bbframe::ADAPTATION_LEN } else { 0 };
        let start = header + bbframe::HEADER_LEN;
        self.datagram.resize(start, 0);
        let Some(len) = self.fields.fill(now, group, remotes, &mut self.datagram) else {
            self.datagram.clear();
            return false;
        };
        // What the FEC needs beyond the data field is padding.
        self.datagram.resize(start + self.capacity, 0);
        if has_adaptation {
            let number = self.frames;
            let adaptation =
                Adaptation { modcod: Some(modcod), size, has_pilots: false, carrier_to_noise: 0, number };
            adaptation.emit(&mut self.datagram);
        }
        let input = Some(remotes[self.fields.members(group)[0]].config.send as u8);
        let repr = bbframe::Repr { input, is_constant: true, ..bbframe::Repr::gse(len) };
        repr.emit(&mut self.datagram[header..]);
        self.frames = self.frames.wrapping_add(1);
        self.counts.data += 1;
        true
    }

    /// Sends the datagram as it is.
    fn ship(&mut self, now: Time, outputs: &mut [Output]) {
        if self.datagram.is_empty() {
            return;
        }
        if let Some(tap) = &self.tap {
            match self.framing {
                Framing::Ts { .. } => tap.transport_stream(now, &self.datagram),
                Framing::Frames { .. } => tap.frame(now, &self.datagram),
            }
        }
        outputs.iter_mut().for_each(|output| output.push(now, &self.datagram));
        self.counts.datagrams += 1;
        self.counts.bytes += self.datagram.len() as u64;
        self.datagram.clear();
        if let Some(pace) = &self.pace {
            self.lateness.record(now.since(pace.when(1)));
        }
    }

    /// Returns the next time with something to do. A datagram is not sent before all its slots are over.
    pub(crate) fn due(&self, now: Time, remotes: &[Remote]) -> Time {
        let Some(pace) = &self.pace else { return self.content_due(now, remotes) };
        let room = match self.framing {
            Framing::Ts { packets, .. } => packets - self.datagram.len() / PACKET_LEN,
            Framing::Frames { .. } => 1,
        };
        if matches!(self.framing, Framing::Ts { nulls: Nulls::Fill, .. }) || self.in_group != 0 {
            return pace.when(room as u64);
        }
        let waiting: usize = remotes.iter().map(Remote::waiting_bytes).sum();
        let slots = (waiting / self.slot_len).clamp(1, room);
        let content = if self.datagram.is_empty() { self.content_due(now, remotes) } else { now };
        content.max(pace.when(slots as u64))
    }

    /// Returns the time from which on something is to be sent. A full TS packet or frame counts from `full` on.
    fn content_due(&self, full: Time, remotes: &[Remote]) -> Time {
        if self.capacity > 0 {
            let ready = (0..self.fields.groups()).filter_map(|group| self.fields.ready(group, remotes));
            return ready.min().map_or(Time::NEVER, |ready| if ready == Time::ZERO { full } else { ready });
        }
        let remotes = remotes.iter().map(|remote| remote.due(full));
        remotes.fold(self.multiplex.tables_due(), Time::min)
    }
}

/// Returns the data service of the remote sites, with the PID of its PMT.
fn programmes(config: &Tables, remotes: &[RemoteConfig]) -> Vec<(Pid, Pmt)> {
    let elementary =
        |remote: &RemoteConfig| dvb::elementary(Pid::new(remote.send)?, remote.stream.encapsulation);
    let streams = remotes.iter().filter_map(elementary).collect();
    let (number, descriptors) = (config.programme, Vec::new());
    vec![(config.map_pid, Pmt { number, version: 0, clock: Pid::NULL, descriptors, streams })]
}

/// Returns the multiplexer of baseband frames. Remote sites with the same input stream identifier share frames.
fn fields(remotes: &[RemoteConfig], capacity: usize) -> Fields {
    let mut groups: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    remotes.iter().enumerate().for_each(|(n, remote)| groups.entry(remote.send).or_default().push(n));
    let groups = groups.into_values().enumerate().map(|(n, members)| (members, n)).collect();
    let mut fields = Fields::new(remotes.len(), groups);
    (0..fields.groups()).for_each(|group| fields.set_capacity(group, capacity));
    fields
}
