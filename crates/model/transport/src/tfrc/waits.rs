//! Waits of packets at their sender, which its receiver adds to their delays.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_units::Span;

/// Maximum number of packets that are remembered.
const REMEMBERED: usize = 1 << 16;

/// Waits at the sender by sequence number, for figures alone: no packet depends on them.
///
/// A packet has one instant, that of its sending. Both ends of a flow have the same log in one network.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(Arc<Mutex<VecDeque<(u64, Span)>>>);

impl Waits {
    /// Notes the wait of a packet with the next sequence number.
    pub(super) fn note(&self, sequence: u64, wait: Span) {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waits.len() == REMEMBERED {
            waits.pop_front();
        }
        waits.push_back((sequence, wait));
    }

    /// Returns the wait of a packet that has arrived.
    pub(super) fn of(&self, sequence: u64) -> Option<Span> {
        let waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = waits.binary_search_by_key(&sequence, |(number, _)| *number).ok()?;
        waits.get(place).map(|(_, wait)| *wait)
    }
}
