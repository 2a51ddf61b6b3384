//! A transport stream in baseband frames: TS packets by their slots, and the frames that they make.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, Adaptation, Framer};
use bentpipe_wire::ts::{NULL_PACKET, PACKET_LEN};

use super::line::{Frames, Grid, Line};
use super::unit::Unit;

/// What a line of DVB-S2 carries of a transport stream. Frames are made when somebody wants them, from the packets that were
/// put in their slots, and NULL packets.
#[derive(Clone, Debug)]
pub(super) struct Framed {
    frames: Frames,
    /// Bytes of a data field.
    field_len: u64,
    slots: VecDeque<(u64, [u8; PACKET_LEN])>,
}

impl Framed {
    /// For frames that are all of this kind.
    pub(super) fn new(frames: Frames) -> Framed {
        let field_len = frames.field_len() as u64;
        Framed { frames, field_len, slots: VecDeque::new() }
    }

    /// Puts a packet into a slot, later than those before.
    pub(super) fn put(&mut self, slot: u64, packet: &[u8; PACKET_LEN]) {
        self.slots.push_back((slot, *packet));
    }

    /// The frame in which a slot ends.
    pub(super) fn frame_of_end(&self, slot: u64) -> u64 {
        ((slot + 1) * PACKET_LEN as u64 - 1) / self.field_len
    }

    /// The frames that have a part of a slot, or the CRC-8 of what is in it, which is the byte behind it.
    pub(super) fn frames_of(&self, slot: u64) -> RangeInclusive<u64> {
        let start = slot * PACKET_LEN as u64;
        start / self.field_len..=(start + PACKET_LEN as u64) / self.field_len
    }

    /// The slots that a frame has parts of.
    fn slots_of(&self, frame: u64) -> RangeInclusive<u64> {
        let start = frame * self.field_len;
        start / PACKET_LEN as u64..=(start + self.field_len - 1) / PACKET_LEN as u64
    }

    /// Forgets what only frames before this one have.
    pub(super) fn forget_before(&mut self, frame: u64) {
        let (first, _) = self.slots_of(frame).into_inner();
        // The first packet's CRC-8 field is that of the packet before.
        while self.slots.front().is_some_and(|(slot, _)| slot + 1 < first) {
            self.slots.pop_front();
        }
    }

    /// A frame, its header among its bytes.
    pub(super) fn frame(&self, number: u64) -> (Adaptation, Vec<u8>) {
        let slots = self.slots_of(number);
        let before = slots.start().checked_sub(1).map(|slot| self.packet(slot));
        let mut framer = before.map_or_else(Framer::new, Framer::behind);
        slots.clone().for_each(|slot| framer.push(self.packet(slot)));
        framer.skip((number * self.field_len - slots.start() * PACKET_LEN as u64) as usize);
        let mut bytes = vec![0; bbframe::HEADER_LEN];
        let repr = framer.fill(self.field_len as usize, &mut bytes);
        bbframe::Repr { roll_off: self.frames.roll_off, ..repr }.emit(&mut bytes);
        (self.frames.adaptation_of_all(number), bytes)
    }

    fn packet(&self, slot: u64) -> &[u8; PACKET_LEN] {
        let found = self.slots.binary_search_by_key(&slot, |(slot, _)| *slot);
        found.map_or(&NULL_PACKET, |at| &self.slots[at].1)
    }
}

/// What a line sends of a transport stream where nothing waits, and when: for whoever writes down all that it sends.
#[derive(Clone, Debug)]
pub struct Idle {
    grid: Grid,
    framed: Option<Framed>,
}

impl Idle {
    /// Of a line that was checked.
    pub fn new(line: &Line) -> Idle {
        Idle { grid: line.grid(), framed: line.frames(false).map(Framed::new) }
    }

    /// When a slot, or a frame if the stream is in such, ends.
    pub fn ends(&self, number: u64) -> Time {
        self.grid.frame_end(number).unwrap_or_else(|| self.grid.closes(number))
    }

    /// What is sent in it: a NULL packet, or a frame of them.
    pub fn unit(&self, number: u64) -> Unit {
        match &self.framed {
            None => Unit { number, bytes: NULL_PACKET.to_vec(), ..Unit::default() },
            Some(framed) => {
                let (adaptation, bytes) = framed.frame(number);
                Unit { number, bytes, adaptation: Some(adaptation), births: Vec::new() }
            }
        }
    }
}
