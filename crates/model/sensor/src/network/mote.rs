//! State of a mote.

use std::collections::VecDeque;
use std::sync::Arc;

use super::MAX_QUERIES;
use crate::aggregate::Groups;

/// Number of epochs for which a mote keeps partial aggregates of its children.
const EPOCHS: usize = 4;

/// Neighbour of a mote, by its beacons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Neighbour {
    pub(super) number: u16,
    /// Beacons received.
    pub(super) beacons: u16,
    /// Expected transmissions from the neighbour to the base station.
    pub(super) cost: f32,
    pub(super) level: u8,
}

/// Mote, or the base station.
#[derive(Clone, Debug, Default)]
pub(super) struct Mote {
    pub(super) parent: Option<u16>,
    /// Expected transmissions to the base station.
    pub(super) cost: f32,
    pub(super) level: u8,
    /// Largest level that the mote knows of.
    pub(super) deepest: u8,
    pub(super) neighbours: Vec<Neighbour>,
    /// Set once a beacon named the mote as parent.
    pub(super) has_children: bool,
    pub(super) is_base: bool,
    /// Parts of each query that the mote has, a bit each.
    pub(super) parts: [u8; MAX_QUERIES],
    /// Next epoch of the mote in each query; `None` without the query.
    pub(super) turns: [Option<u32>; MAX_QUERIES],
    /// Energy of samples in joules.
    pub(super) sampling: f64,
    /// Reasons for the radio to be on.
    pub(super) reasons: u32,
    /// Results at the MAC.
    outbox: VecDeque<(u32, Arc<[u8]>, u8)>,
    tokens: u32,
    /// Partial aggregates of children by query and epoch.
    partial: Vec<((u8, u32), Groups)>,
    /// Rows that wait for the mote's slot, by query.
    pub(super) waiting: Vec<(u8, Arc<[u8]>)>,
}

impl Mote {
    /// Creates a mote that listens for queries.
    pub(super) fn listening() -> Mote {
        Mote { reasons: 1, ..Mote::default() }
    }

    /// Marks it as the base station.
    pub(super) fn set_base(&mut self) {
        self.is_base = true;
    }

    /// Returns `true` if it has a route.
    pub(super) fn is_in_tree(&self) -> bool {
        self.is_base || self.parent.is_some()
    }

    /// Keeps a result that is given to the MAC, and returns its token.
    pub(super) fn remember(&mut self, payload: Arc<[u8]>, repeats: u8) -> u32 {
        self.tokens = self.tokens.wrapping_add(1).max(1);
        self.outbox.push_back((self.tokens, payload, repeats));
        self.tokens
    }

    /// Removes and returns a result that the MAC is done with.
    pub(super) fn recall(&mut self, token: u32) -> Option<(Arc<[u8]>, u8)> {
        let at = self.outbox.iter().position(|(other, ..)| *other == token)?;
        self.outbox.remove(at).map(|(_, payload, repeats)| (payload, repeats))
    }

    /// Returns the partial aggregates of an epoch. Those of old epochs are dropped.
    pub(super) fn groups(&mut self, key: (u8, u32)) -> &mut Groups {
        let at = self.partial.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            if self.partial.iter().filter(|((query, _), _)| *query == key.0).count() >= EPOCHS {
                let oldest = (0..self.partial.len())
                    .filter(|n| self.partial[*n].0.0 == key.0)
                    .min_by_key(|n| self.partial[*n].0.1);
                oldest.map(|oldest| self.partial.remove(oldest));
            }
            self.partial.push((key, Groups::default()));
            self.partial.len() - 1
        });
        &mut self.partial[at].1
    }

    /// Removes and returns the partial aggregates of an epoch.
    pub(super) fn take_groups(&mut self, key: (u8, u32)) -> Groups {
        let at = self.partial.iter().position(|(other, _)| *other == key);
        at.map(|at| self.partial.swap_remove(at).1).unwrap_or_default()
    }
}
