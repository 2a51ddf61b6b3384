//! What this site sends: which remote site's packet goes into the next slot, when, and in which datagram.

use bentpipe_units::{Rate, Time};
use bentpipe_wire::bbframe::{self, Adaptation, FrameSize, Modcod};
use bentpipe_wire::ts::{NULL_PACKET, PACKET_LEN};

use super::config::{Carrier as Config, Framing, Nulls, Remote as RemoteConfig};
use super::output::Output;
use super::pace::Pace;
use super::remote::Remote;
use super::tables::Tables;
use crate::Lateness;

/// What was sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// TS packets, or baseband frames, of remote sites.
    pub data: u64,
    /// TS packets of tables.
    pub tables: u64,
    /// NULL packets.
    pub nulls: u64,
    /// Slots in which nothing was sent.
    pub idle: u64,
    /// Slots that were never used, because the program was stopped for too long.
    pub skipped: u64,
    /// Datagrams, or pieces of a stream.
    pub datagrams: u64,
    /// Bytes in them, RTP headers not counted.
    pub bytes: u64,
}

/// At most so many TS packets are sent at once where no rate says how many.
const BURST: u64 = 1024;

/// The sender.
#[derive(Debug)]
pub(super) struct Carrier {
    framing: Framing,
    /// Bytes of a slot.
    slot_len: usize,
    /// Room for data in it, if it is a baseband frame.
    capacity: usize,
    pace: Option<Pace>,
    tables: Option<Tables>,
    /// Whose turn it is.
    turn: usize,
    /// The datagram that is being filled.
    datagram: Vec<u8>,
    /// TS packets since the last whole group.
    in_group: usize,
    frames: u8,
    counts: Counts,
    lateness: Lateness,
}

/// What became of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Used,
    Idle,
}

impl Carrier {
    pub(super) fn new(config: &Config, remotes: &[RemoteConfig], now: Time) -> Carrier {
        let capacity = match &config.framing {
            Framing::Ts { .. } => 0,
            // A MODCOD without this size of frames was refused with the settings.
            Framing::Frames { modcod, size, .. } => modcod.data_field_len(*size).unwrap_or(0),
        };
        let tables = match &config.framing {
            Framing::Ts { tables, .. } => tables.as_ref().map(|tables| Tables::new(tables, remotes)),
            Framing::Frames { .. } => None,
        };
        let slot_len = if capacity == 0 { PACKET_LEN } else { bbframe::HEADER_LEN + capacity };
        Carrier {
            framing: config.framing.clone(),
            slot_len,
            capacity,
            pace: config.rate.map(|rate| Pace::new(rate, slot_len, now)),
            tables,
            turn: 0,
            datagram: Vec::new(),
            in_group: 0,
            frames: 0,
            counts: Counts::default(),
            lateness: Lateness::default(),
        }
    }

    /// Takes new settings for the same framing.
    pub(super) fn change(&mut self, rate: Option<Rate>, remotes: &[RemoteConfig], now: Time) {
        if rate != self.pace.as_ref().map(Pace::rate) {
            self.counts.skipped += self.pace.as_ref().map_or(0, Pace::skipped);
            self.pace = rate.map(|rate| Pace::new(rate, self.slot_len, now));
        }
        if let Some(tables) = &mut self.tables {
            tables.change(remotes);
        }
        self.turn = 0;
    }

    pub(super) fn framing(&self) -> &Framing {
        &self.framing
    }

    pub(super) fn counts(&self) -> Counts {
        let skipped = self.pace.as_ref().map_or(0, Pace::skipped);
        Counts { skipped: self.counts.skipped + skipped, ..self.counts }
    }

    /// How long after the end of its last slot each datagram left.
    pub(super) fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Fills the slots that are over; whether there may be more at once.
    pub(super) fn send(&mut self, now: Time, remotes: &mut [Remote], outputs: &mut [Output]) -> bool {
        let mut left = self.pace.as_mut().map_or(BURST, |pace| pace.due(now));
        let mut is_idle = false;
        while left > 0 && !is_idle {
            let slot = match self.framing {
                Framing::Ts { packets, nulls, .. } => self.packet(now, packets, nulls, remotes, outputs),
                Framing::Frames { modcod, size, has_adaptation } => {
                    self.frame(now, modcod, size, has_adaptation, remotes, outputs)
                }
            };
            left -= 1;
            if let Some(pace) = &mut self.pace {
                pace.take(1);
            }
            is_idle = slot == Slot::Idle;
            if is_idle {
                self.idle(left);
                self.ship(now, outputs);
            }
        }
        outputs.iter_mut().for_each(|output| output.flush(now));
        self.pace.is_none() && !is_idle
    }

    /// Nothing waits: the slots that are over anyhow pass unused.
    fn idle(&mut self, more: u64) {
        if let Some(pace) = &mut self.pace {
            pace.take(more);
            self.counts.idle += more + 1;
        }
    }

    /// Puts a TS packet into the datagram, if there is one to be sent.
    fn packet(
        &mut self,
        now: Time,
        packets: usize,
        nulls: Nulls,
        remotes: &mut [Remote],
        outputs: &mut [Output],
    ) -> Slot {
        let table = self.tables.as_mut().and_then(|tables| tables.pop(now));
        self.counts.tables += u64::from(table.is_some());
        let packet = table.or_else(|| self.next_of(now, remotes)).or_else(|| self.null(nulls));
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

    /// The next packet of the remote sites, in turn.
    fn next_of(&mut self, now: Time, remotes: &mut [Remote]) -> Option<[u8; PACKET_LEN]> {
        let count = remotes.len();
        for ahead in 0..count {
            let number = (self.turn + ahead) % count;
            if let Some(packet) = remotes[number].pop(now) {
                self.turn = (number + 1) % count;
                self.counts.data += 1;
                return Some(packet);
            }
        }
        None
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

    /// Sends a baseband frame, if there is one to be sent.
    fn frame(
        &mut self,
        now: Time,
        modcod: Modcod,
        size: FrameSize,
        has_adaptation: bool,
        remotes: &mut [Remote],
        outputs: &mut [Output],
    ) -> Slot {
        let count = remotes.len();
        let header = if has_adaptation { bbframe::ADAPTATION_LEN } else { 0 };
        let start = header + bbframe::HEADER_LEN;
        self.datagram.resize(start, 0);
        for ahead in 0..count {
            let number = (self.turn + ahead) % count;
            let Some(len) = remotes[number].fill(now, self.capacity, &mut self.datagram) else { continue };
            self.turn = (number + 1) % count;
            // What the FEC needs beyond the data field is padding.
            self.datagram.resize(start + self.capacity, 0);
            if has_adaptation {
                let number = self.frames;
                let adaptation =
                    Adaptation { modcod: Some(modcod), size, has_pilots: false, carrier_to_noise: 0, number };
                adaptation.emit(&mut self.datagram);
            }
            let input = Some(remotes[number].config.send as u8);
            let repr = bbframe::Repr { input, is_constant: true, ..bbframe::Repr::gse(len) };
            repr.emit(&mut self.datagram[header..]);
            self.frames = self.frames.wrapping_add(1);
            self.counts.data += 1;
            self.ship(now, outputs);
            return Slot::Used;
        }
        self.datagram.clear();
        Slot::Idle
    }

    /// Sends the datagram as far as it is filled.
    fn ship(&mut self, now: Time, outputs: &mut [Output]) {
        if self.datagram.is_empty() {
            return;
        }
        outputs.iter_mut().for_each(|output| output.push(now, &self.datagram));
        self.counts.datagrams += 1;
        self.counts.bytes += self.datagram.len() as u64;
        self.datagram.clear();
        if let Some(pace) = &self.pace {
            self.lateness.record(now.since(pace.when(1)));
        }
    }

    /// When there is something to do next. A datagram is not sent before all its slots are over.
    pub(super) fn due(&self, now: Time, remotes: &[Remote]) -> Time {
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

    fn content_due(&self, now: Time, remotes: &[Remote]) -> Time {
        let tables = self.tables.as_ref().map_or(Time::NEVER, Tables::due);
        let remotes = remotes.iter().map(|remote| remote.due(now, self.capacity.max(1)));
        remotes.fold(tables, Time::min)
    }
}
