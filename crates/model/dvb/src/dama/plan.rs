//! The burst time plan: which slots of each multiframe are whose, for a superframe.
//!
//! Slots are given out in an order that jumps through the multiframe, so that however many a terminal gets, they are
//! spread over it; and carrier after carrier, so that a terminal's slots, up to a carrier's
//! worth, are at different times. A terminal is handed its own part of the plan.

use bentpipe_net::{Body, Packet};
use bentpipe_units::Time;

use super::{Allocation, Frame};

/// A slot in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The carrier.
    pub carrier: u16,
    /// Slot number in the multiframe.
    pub slot: u16,
}

/// Part of a burst time plan for a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Superframe of the plan.
    pub superframe: u64,
    /// Units by class.
    pub allocation: Allocation,
    /// Slots of each multiframe, in time order.
    pub slots: Vec<Slot>,
}

const FIXED: usize = 8 + 4 * 4 + 2;
const SLOT: usize = 4;

impl Entry {
    /// Returns it as a packet of the control centre.
    pub(super) fn packet(&self) -> Packet {
        let mut packet = Packet::new(FIXED, 0);
        let bytes = packet.header_mut();
        let Allocation { constant, rate, volume, free } = self.allocation;
        bytes[..8].copy_from_slice(&self.superframe.to_be_bytes());
        for (field, units) in bytes[8..].chunks_exact_mut(4).zip([constant, rate, volume, free]) {
            field.copy_from_slice(&units.to_be_bytes());
        }
        bytes[FIXED - 2..].copy_from_slice(&(self.slots.len() as u16).to_be_bytes());
        let slots = self.slots.iter().flat_map(|slot| [slot.carrier, slot.slot]).flat_map(u16::to_be_bytes);
        packet.with_body(Body::Bytes(slots.collect()))
    }

    /// Returns start and carrier of each burst of the superframe, in time order.
    pub fn bursts<'a>(&'a self, frame: &'a Frame) -> impl Iterator<Item = (Time, u16)> + 'a {
        (0..frame.multiframes()).flat_map(move |multiframe| {
            let slots = self.slots.iter();
            slots.map(move |slot| {
                (frame.slot_start(self.superframe, multiframe, slot.slot.into()), slot.carrier)
            })
        })
    }

    /// Parses a packet of the control centre; `None` if it is another.
    pub fn parse(packet: &Packet) -> Option<Entry> {
        let (bytes, Body::Bytes(slots)) = (packet.header(), packet.body()) else { return None };
        let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let count = u16::from_be_bytes(bytes.get(FIXED - 2..FIXED)?.try_into().ok()?);
        if slots.len() != usize::from(count) * SLOT {
            return None;
        }
        let slot = |field: &[u8]| {
            let [carrier, slot] = [[field[0], field[1]], [field[2], field[3]]].map(u16::from_be_bytes);
            Slot { carrier, slot }
        };
        Some(Entry {
            superframe: u64::from(word(0)?) << 32 | u64::from(word(4)?),
            allocation: Allocation {
                constant: word(8)?,
                rate: word(12)?,
                volume: word(16)?,
                free: word(20)?,
            },
            slots: slots.chunks_exact(SLOT).map(slot).collect(),
        })
    }
}

/// Assignment of slots to units.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    /// Assignable slots, in the order of their assignment.
    order: Vec<Slot>,
}

impl Placement {
    pub(super) fn new(frame: &Frame) -> Placement {
        let times = scattered(frame.slots_in_multiframe());
        let reserved = frame.reserved();
        let of = |carrier: u32| {
            let free = times.iter().filter(move |slot| carrier > 0 || **slot >= reserved);
            free.map(move |slot| Slot { carrier: carrier as u16, slot: *slot as u16 })
        };
        Placement { order: (0..frame.carriers()).flat_map(of).collect() }
    }

    /// Returns the slots of terminals with these units, one after the other.
    pub(super) fn place<'a>(
        &'a self,
        units: impl Iterator<Item = u32> + 'a,
    ) -> impl Iterator<Item = Vec<Slot>> + 'a {
        let mut next = 0;
        units.map(move |count| {
            let end = (next + count as usize).min(self.order.len());
            let mut slots = self.order[next..end].to_vec();
            next = end;
            slots.sort_by_key(|slot| slot.slot);
            slots
        })
    }
}

/// Returns all numbers below `count` in van der Corput order: consecutive ones are far apart.
fn scattered(count: u32) -> Vec<u32> {
    let bits = count.next_power_of_two().trailing_zeros();
    let reversed = |n: u32| n.reverse_bits().checked_shr(32 - bits).unwrap_or(0);
    (0..1 << bits).map(reversed).filter(|slot| *slot < count).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dama::{Config, Requests};

    #[test]
    fn a_plan_is_read_as_written() {
        let slots = vec![Slot { carrier: 0, slot: 3 }, Slot { carrier: 2, slot: 40 }];
        let allocation = Allocation { constant: 1, rate: 1, volume: 0, free: 0 };
        let entry = Entry { superframe: 1 << 40, allocation, slots };
        assert_eq!(Entry::parse(&entry.packet()), Some(entry));
        assert_eq!(Entry::parse(&Packet::new(40, 0)), None);
    }

    #[test]
    fn few_slots_are_spread() {
        let placement = Placement::new(&Frame::new(&Config::default(), 2).expect("possible"));
        let slots: Vec<Vec<Slot>> = placement.place([6, 6].into_iter()).collect();
        let times = |n: usize| slots[n].iter().map(|slot| slot.slot).collect::<Vec<u16>>();
        assert_eq!((times(0), times(1)), (vec![0, 8, 16, 24, 32, 40], vec![4, 12, 20, 28, 36, 44]));
    }

    proptest! {
        /// No slot is given twice, none that is set aside, and none of a terminal's at the time of another.
        #[test]
        fn bursts_never_meet(
            carriers in 1..5_u32,
            slots in 1..20_u32,
            frames in 1..9_u32,
            size in 0..200_u64,
            shares in prop::collection::vec(0..200_u32, 1..20),
        ) {
            let requests = Requests::Slots { times: 1, size: bentpipe_units::Bytes::new(size) };
            let config = Config {
                carriers: Some(carriers), slots: Some(slots), frames: Some(frames), requests, ..Config::default()
            };
            let Ok(frame) = Frame::new(&config, 20) else { return Ok(()) };
            let mut left = frame.units();
            let units: Vec<u32> = shares.iter().map(|share| {
                let units = (*share).min(frame.units_of_one()).min(left);
                left -= units;
                units
            }).collect();
            let placement = Placement::new(&frame);
            let mut taken = std::collections::BTreeSet::new();
            for (slots, units) in placement.place(units.iter().copied()).zip(&units) {
                prop_assert_eq!(slots.len(), *units as usize);
                let mut times = std::collections::BTreeSet::new();
                for slot in slots {
                    prop_assert!(taken.insert((slot.carrier, slot.slot)));
                    prop_assert!(times.insert(slot.slot));
                    prop_assert!(slot.carrier > 0 || u32::from(slot.slot) >= frame.reserved());
                }
            }
        }
    }
}
