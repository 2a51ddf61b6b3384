//! Transport stream in BBFRAMEs.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, Adaptation, Framer};
use bentpipe_wire::ts::{NULL_PACKET, PACKET_LEN};

use super::line::Line;
use super::timing::{Frames, Slots};
use super::unit::Unit;

/// Transport stream of a DVB-S2 carrier, by its slots.
///
/// Frames are made on request, from the packets in their slots and NULL packets.
#[derive(Clone, Debug)]
pub(super) struct Framed {
    frames: Frames,
    /// Length of a data field in bytes.
    field_len: u64,
    slots: VecDeque<(u64, [u8; PACKET_LEN])>,
}

impl Framed {
    /// Creates it for frames of one MODCOD.
    pub(super) fn new(frames: Frames) -> Framed {
        let field_len = frames.field_len() as u64;
        Framed { frames, field_len, slots: VecDeque::new() }
    }

    /// Sets the packet of a slot, later than those before.
    pub(super) fn put(&mut self, slot: u64, packet: &[u8; PACKET_LEN]) {
        self.slots.push_back((slot, *packet));
    }

    /// Returns the frame in which a slot ends.
    pub(super) fn frame_of_end(&self, slot: u64) -> u64 {
        ((slot + 1) * PACKET_LEN as u64 - 1) / self.field_len
    }

    /// Returns the frames with a part of a slot.
    ///
    /// The CRC-8 of a packet is the byte behind it.
    pub(super) fn frames_of(&self, slot: u64) -> RangeInclusive<u64> {
        let start = slot * PACKET_LEN as u64;
        start / self.field_len..=(start + PACKET_LEN as u64) / self.field_len
    }

    /// Returns the slots with a part in a frame.
    fn slots_of(&self, frame: u64) -> RangeInclusive<u64> {
        let start = frame * self.field_len;
        start / PACKET_LEN as u64..=(start + self.field_len - 1) / PACKET_LEN as u64
    }

    /// Removes the packets that only frames before this one have.
    pub(super) fn forget_before(&mut self, frame: u64) {
        let (first, _) = self.slots_of(frame).into_inner();
        // The first packet's CRC-8 field is that of the packet before.
        while self.slots.front().is_some_and(|(slot, _)| slot + 1 < first) {
            self.slots.pop_front();
        }
    }

    /// Returns a frame with its header.
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

/// Fill of a carrier with a transport stream, for captures.
#[derive(Clone, Debug)]
pub struct Idle {
    slots: Slots,
    framed: Option<Framed>,
}

impl Idle {
    /// Creates the fill of a carrier that was checked, by its slots.
    pub fn new(line: &Line, slots: Slots) -> Idle {
        Idle { slots, framed: line.frames(false).map(Framed::new) }
    }

    /// Returns the end of a slot, or of a frame if there are frames.
    pub fn ends(&self, number: u64) -> Time {
        self.slots.with(|grid| grid.frame_end(number).unwrap_or_else(|| grid.closes(number)))
    }

    /// Returns its content: a NULL packet, or a frame of them.
    pub fn unit(&self, number: u64) -> Unit {
        match &self.framed {
            None => Unit { number, bytes: NULL_PACKET.to_vec(), ..Unit::default() },
            Some(framed) => {
                let (adaptation, bytes) = framed.frame(number);
                Unit { number, bytes, adaptation: Some(adaptation), carried_packets: Vec::new() }
            }
        }
    }
}
