//! Collection tree: beacons, link estimates, and parents by expected transmissions (ETX).
//!
//! A link's quality is the share of a neighbour's beacons that arrive; shadowing is the same both ways, so a frame and its
//! acknowledgement need 1 / quality^2 transmissions. A mote's parent is the neighbour with the least sum up to the base station.

use bentpipe_units::{RandomStream, Time};

use super::mote::Neighbour;
use super::{BASE, Motes, ROUND, Task};
use crate::message::MoteMessage;

/// Least share of beacons of a neighbour that may be a parent.
const USABLE: f32 = 0.3;
/// Units of a cost in a beacon.
const UNITS: f32 = 64.0;
/// Sign for no parent or no route.
const NONE: u16 = u16::MAX;

impl Motes {
    pub(super) fn schedule_beacons(&mut self, stream: &mut RandomStream) {
        for round in 0..u64::from(self.field.beacons) {
            for mote in 0..self.motes.len() as u16 {
                // The last part of a round is free, so that no beacon waits into the next.
                let wait = ROUND.mul_f64(0.9 * stream.unit());
                self.schedule(Time::ZERO + ROUND * round + wait, Task::Beacon(mote));
            }
        }
        self.schedule(self.frozen, Task::Freeze);
    }

    /// Sets a given tree.
    pub(super) fn plant(&mut self, parents: &[u16]) {
        self.frozen = Time::ZERO;
        for (n, parent) in parents.iter().enumerate() {
            let level = self.motes[usize::from(*parent)].level + 1;
            self.motes[usize::from(*parent)].has_children = true;
            let mote = &mut self.motes[n + 1];
            (mote.parent, mote.level) = (Some(*parent), level);
            self.depth = self.depth.max(level);
        }
    }

    pub(super) fn send_beacon(&mut self, mote: u16, now: Time, stream: &mut RandomStream) {
        let own = &self.motes[usize::from(mote)];
        let cost = if own.is_in_tree() { (own.cost * UNITS).min(f32::from(NONE - 1)) as u16 } else { NONE };
        let (level, deepest) = (own.level, own.deepest.max(own.level));
        let beacon = MoteMessage::Beacon { cost, level, deepest, parent: own.parent.unwrap_or(NONE) };
        self.broadcast(mote, &beacon, now, stream);
    }

    pub(super) fn receive_beacon(
        &mut self,
        at: u16,
        from: u16,
        (cost, level, deepest, parent): (u16, u8, u8, u16),
        now: Time,
    ) {
        if now >= self.frozen {
            return;
        }
        let own = &mut self.motes[usize::from(at)];
        let cost = if cost == NONE { f32::INFINITY } else { f32::from(cost) / UNITS };
        match own.neighbours.iter_mut().find(|neighbour| neighbour.number == from) {
            Some(neighbour) => {
                neighbour.beacons += 1;
                (neighbour.cost, neighbour.level) = (cost, level);
            }
            None => own.neighbours.push(Neighbour { number: from, beacons: 1, cost, level }),
        }
        if parent == at {
            own.deepest = own.deepest.max(deepest);
        }
        if at != BASE {
            self.choose_parent(at, now);
        }
    }

    fn choose_parent(&mut self, mote: u16, now: Time) {
        let rounds = (now.since(Time::ZERO).as_nanos() / ROUND.as_nanos() + 1) as f32;
        let own = &mut self.motes[usize::from(mote)];
        let mut best: Option<(f32, Neighbour)> = None;
        for neighbour in &own.neighbours {
            let quality = (f32::from(neighbour.beacons) / rounds).min(1.0);
            let cost = neighbour.cost + 1.0 / (quality * quality);
            if quality >= USABLE && cost.is_finite() && best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, *neighbour));
            }
        }
        match best {
            Some((cost, neighbour)) => {
                (own.cost, own.parent) = (cost, Some(neighbour.number));
                own.level = neighbour.level.saturating_add(1);
            }
            None => own.parent = None,
        }
    }

    /// Fixes the tree. Motes whose parents form a loop, or that have none, are not part of it.
    pub(super) fn freeze(&mut self) {
        let count = self.motes.len();
        let level = |mut mote: usize| {
            for hops in 0..count {
                if mote == usize::from(BASE) {
                    return Some(hops as u8);
                }
                mote = usize::from(self.motes[mote].parent?);
            }
            None
        };
        let levels: Vec<Option<u8>> = (0..count).map(level).collect();
        for (n, level) in levels.iter().enumerate().skip(1) {
            match level {
                Some(level) => {
                    self.motes[n].level = *level;
                    self.depth = self.depth.max(*level);
                    let parent = self.motes[n].parent.unwrap_or(BASE);
                    self.motes[usize::from(parent)].has_children = true;
                }
                None => self.motes[n].parent = None,
            }
        }
        self.motes.iter_mut().for_each(|mote| mote.neighbours = Vec::new());
    }
}
